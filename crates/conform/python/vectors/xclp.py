"""Checks the vectors of `xclp`."""

import dataclasses
import hashlib
import math
import struct

import numpy
from parties.parts import Parties
from parties.program import program
from parties.proofs import RINGS, Proving, RefusedProof, verified
from parties.shares import shared_out
from parties.words import BITS, SMALL, rows_of_bits
from primitives.crypto import Stream, ballot_bytes, derive, le, tagged
from primitives.encoding import Ballot, decode
from primitives.evidence import named
from primitives.session import Session
from primitives.xclp import Plan

from vectors.common import check, session_of, vectors


def pieces_of(receiver, sender, bits):
    w = min(bits // 64, max(1, 8192 // sender))
    return [[row, at, min(w, bits // 64 - at)] for row in range(receiver) for at in range(0, bits // 64, w)]


def rounded(x):
    return math.floor(x + 0.5)


def hex16(matrix):
    return b"".join(le(x % 2**16, 2) for row in matrix for x in row).hex()


def integer_reference(codes, labels, plan):
    """Computes every stage of section 15e with plain integers."""
    n, k, bits, classes = len(codes), plan.k, plan.bits, plan.classes
    shift = lambda x, g: (x + (1 << g - 1)) >> g
    distance = [[sum(x != y for x, y in zip(a, b)) for b in codes] for a in codes]
    near = [sorted((j for j in range(n) if j != i), key=lambda j: (distance[i][j], j))[:k] for i in range(n)]
    weight = lambda h: plan.weights[h] if 2 * h < bits else 0
    weights = [[weight(distance[i][j]) for j in near[i]] for i in range(n)]
    w = [[0] * n for _ in range(n)]
    for i in range(n):
        for j, x in zip(near[i], weights[i]):
            w[i][j] += x
            w[j][i] += x
    degrees = list(map(sum, w))
    q = 28

    def inverse(d):
        if d == 0:
            return 0
        e = d.bit_length()
        m = d << (q - e)
        y = 782274605 - 2 * m
        for _ in range(3):
            y = shift(y * (2 ** (q + 1) - shift(m * y, q)), q)
        return (y - 2) * 2 ** (q - e) >> (2 * q - 32)

    def root(d):
        if d == 0:
            return 0
        e = d.bit_length()
        m = d << (q - e)
        v = 522106962 - m
        for _ in range(3):
            v = shift(v * (3 * 2**q - shift(m * shift(v * v, q), q)), q + 1)
        return shift(v * math.isqrt(2 ** (64 - e)), 33)

    inverses, roots = list(map(inverse, degrees)), list(map(root, degrees))
    kept = [2**32 - d * r for d, r in zip(degrees, inverses)]
    coefficients = plan.coefficients
    scores = [[0] * classes for _ in range(n)]
    for c in range(classes):
        z = lambda a: [inverses[i] * sum(x * y for x, y in zip(w[i], a)) + kept[i] * a[i] for i in range(n)]
        before = [roots[i] * (labels[i] == c) for i in range(n)]
        last = [shift(x, 32) for x in z(before)]
        total = [coefficients[0] * x + coefficients[1] * y for x, y in zip(before, last)]
        for coefficient in coefficients[2:]:
            before, last = last, [shift(x, 31) - y for x, y in zip(z(last), before)]
            total = [x + coefficient * y for x, y in zip(total, last)]
        weight = plan.balance_of(labels.count(c))
        for i in range(n):
            scores[i][c] = shift(total[i], 20)
            if plan.balance:
                scores[i][c] = shift(scores[i][c] * weight, 20)
    found, coarse = [], []
    for row in scores:
        row = [max(x, 0) for x in row]
        total = sum(row)
        found.append(row.index(max(row)) if total else None)
        coarse += [(128 * x + total - 1) // (2 * total) if total else 0 for x in row]
    return {
        "neighbours": sum(near, []), "weights": sum(weights, []), "graph": sum(w, []), "degrees": degrees, "inverses": inverses,
        "roots": roots, "scores": sum(scores, []), "labels": found, "coarse": coarse,
    }


def codes_of(rows, seed, bits):
    """Returns the codes of rows by the planes of this seed (section 15b)."""
    codes = [[] for _ in rows]
    pairs = -(-len(rows[0]) // 2)
    for plane in range(bits):
        stream, entries = Stream(seed, "planes", b"", 16 * pairs * plane), []
        for _ in range(pairs):
            a, b = struct.unpack("<QQ", stream.take(16))
            u, v = ((a >> 11) + 1) / 2**53, (b >> 11) / 2**53
            radius = math.sqrt(-2 * math.log(u))
            entries += [radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)]
        for code, row in zip(codes, rows):
            code.append(int(sum(p * x for p, x in zip(entries, row)) > 0))
    return codes


def meetings(owners):
    """Returns the partner of each owner in each round (section 15b)."""
    last = owners - 1 + owners % 2
    rounds = []
    for r in range(last):
        met = [(r - p) % last if p < last else None for p in range(owners)]
        met = [last if q == p else q for p, q in enumerate(met)]
        if owners == last + 1:
            met[last] = met.index(last)
        rounds.append([q if q is not None and q < owners else None for q in met])
    return rounds


def lengths_of_vectors(way, n, m, bits):
    """Returns the lengths of the vectors that two owners receive (section 15b).

    The first owner has n rows, the second has m rows, and n is not larger than m.
    """
    if way == "ot":
        words = [words for _, _, words in pieces_of(n, m, bits)]
        return [[4096] + [128 * m * w for w in words], [32] + [1024 * w for w in words]]
    in_batches = lambda items: [min(32, items - at) for at in range(0, items, 32)]
    groups = [min(512, n - at) for at in range(0, n, 512)]
    z = -(-bits * min(512, 1 << (n - 1).bit_length()) // 4096)
    answers = [(25600 + -(-50 * rows // 8)) * count for rows in groups for count in in_batches(m)]
    return [[0] + answers, [51232] + [51200 * count for _ in groups for count in in_batches(z)]]


def check_pairs(file, distances):
    check("who meets whom", [meetings(owners) for owners in range(2, 8)] == file["pairs"]["partners"])
    mask = file["pairs"]["mask"]
    ballot = ballot_bytes(Ballot(*mask["ballot"]))
    drawn = Stream(bytes.fromhex(mask["key"]), "pair of owners", ballot + le(mask["slot"], 4)).take(2 * mask["earlier"] * mask["later"])
    check("mask of a pair", list(struct.unpack(f"<{len(drawn) // 2}H", drawn)) == mask["words"])
    for case in file["pairs"]["lengths"]:
        made = lengths_of_vectors(case["way"], case["smaller"], case["larger"], case["bits"])
        shown = [[len(to) for to in made], [to[:3] for to in made], [to[-1] for to in made], [sum(to) for to in made]]
        check("vectors of a pair", shown == [case["count"], case["first"], case["last"], case["all"]])
        check("bytes of a pair", sum(map(sum, made)) == case["said"])
    n, ends = len(distances), file["owners"]
    owner = [sum(end <= x for end in ends[1:-1]) for x in range(n)]
    part = lambda x, y: file["parts"][owner[x]][(x - ends[owner[x]]) * n + y]
    for x in range(n):
        for y in range(x):
            other = part(y, x) if owner[x] != owner[y] else 0
            check("parts add up to a distance", (part(x, y) + other) % 2**16 == distances[x][y])


def check_xclp():
    file = vectors("xclp")
    session = Session(file["toml"])
    coin = bytes.fromhex(file["coin"])
    check("id of an xclp session", session.id.hex() == file["id"])
    check("id of a usual xclp session", Session(file["usual"]["toml"]).id.hex() == file["usual"]["id"])
    order = sorted(range(file["counted"]), key=lambda peer: tagged("computing party", coin, le(peer, 2)))
    check("who may compute", order[:4] == file["candidates"])

    for have, lost, fewest, without in file["few_owners"]:
        few = [number for number, owners in enumerate(have) if max(1, owners - lost) < fewest]
        check("classes that count as having no labels", few == without)

    seed = derive(coin, "planes", session.id)
    check("seed of the planes", seed.hex() == file["planes"])
    features, bits = session.features, session.bits
    rows = [file["rows"][i : i + features] for i in range(0, len(file["rows"]), features)]
    codes = codes_of(rows, seed, bits)
    packed = [le(sum(bit << place for place, bit in enumerate(code)), bits // 8) for code in codes]
    check("codes", [code.hex() for code in packed] == file["codes"])

    labels, classes = file["labels"], len(session.classes)
    found = file["commitment"]
    first, end = found["rows"]
    said = b"".join(le(65535 if label is None else label, 2) for label in labels[first:end])
    hashed = tagged("input", session.id, le(found["owner"], 2), bytes.fromhex(found["salt"]), *packed[first:end], said)
    check("commitment to an input", hashed.hex() == found["hash"])

    found = file["parcels"]
    first, end = found["rows"]
    own = shared_out(BITS, words_of(packed[first:end]), labels[first:end], classes, found["place"], seeds_of(found))
    check("parcels of an input", [parcel.hex() for parcel in own.parcels()] == found["sent"])
    check("hashes of shares", [copy.hex() for copy in own.hashes] == found["copies"])
    check("what an owner announces", own.view(hashed).hex() == found["announced"])

    distances = [[sum(p != q for p, q in zip(one, two)) for two in codes] for one in codes]
    check_pairs(file["distances"], distances)
    place, owners = file["distances"]["place"], owners_of_parts(file["distances"], labels, classes)
    check("parcels of parts of distances", [parcel.hex() for parcel in owners[place].parcels()] == file["distances"]["sent"])

    found = file["streams"]
    attempt = ballot_bytes(Ballot(*found["ballot"])) + le(found["slot"], 4)
    keys = [derive(bytes.fromhex(pair), "computing parties", attempt) for pair in found["pairs"]]
    context = session.id + attempt
    check("keys of the parties", [key.hex() for key in keys] == found["keys"] and context.hex() == found["context"])

    def masks(width, turn, chunk, step):
        label = context + bytes([found["stage"], turn]) + le(chunk, 4) + le(step, 4)
        drawn = [Stream(keys[found["party"] + i], "shares", label).take(width * 4) for i in (0, 1)]
        own, after = [[int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)] for data in drawn]
        return [(x - y) % 2 ** (8 * width) for x, y in zip(own, after)]

    check("masks of a reshare", masks(8, 0, found["chunk"], found["step"]) == found["words"])
    check("masks of a third", masks(2, found["turn"], found["turned_chunk"], found["turned_step"]) == found["small"])

    session.fits(len(rows))
    plan = session.xclp_plan(len(rows))
    for stage, values in integer_reference(codes, labels, plan).items():
        check(f"integer reference, {stage}", values == file["reference"][stage])
    even = dataclasses.replace(plan, balance=True)
    made = integer_reference(codes, labels, even)
    for stage in ("scores", "labels", "coarse"):
        check(f"balanced classes, {stage}", made[stage] == file["balanced"][stage])
    check("a plain and a balanced class differ", file["balanced"]["coarse"] != file["reference"]["coarse"])
    check_delivered(file["delivered"], plan.classes, file["reference"])
    check_parties(file, plan, even, words_of(packed), owners)


def check_delivered(found, classes, reference):
    shares = [bytes.fromhex(share) for share in found["shares"]]
    check("hashes of shares of the output", [tagged("output", share).hex() for share in shares] == found["holds"])
    width, (first, end) = classes + 2, found["rows"]
    rows_of = [share[width * first : width * end] for share in shares]
    sent = [(rows_of[i] + tagged("output", rows_of[(i + 1) % 3])).hex() for i in range(3)]
    check("what an owner gets of its output", sent == found["sent"])
    check("the same output without party 1", [(rows_of[0] + rows_of[1]).hex(), sent[2]] == found["without_1"])
    check("labels and coarse scores of the shares", opened(shares, classes) == (reference["labels"], reference["coarse"]))


def opened(shares, classes):
    """Returns the labels and coarse scores of the shares of an output."""
    width = classes + 2
    whole = bytes(a ^ b ^ c for a, b, c in zip(*shares))
    rows = [whole[at : at + width] for at in range(0, len(whole), width)]
    marks = [int.from_bytes(row[:2], "little") for row in rows]
    return [mark - 0x8000 if mark & 0x8000 else None for mark in marks], [score for row in rows for score in row[2:]]


def seeds_of(found):
    return list(map(bytes.fromhex, found["seeds"]))


def words_of(packed):
    return numpy.frombuffer(b"".join(packed), "<u8")


def owners_of_parts(found, labels, classes):
    """Returns the shares of all owners of parts of distances."""
    cuts = list(zip(found["owners"], found["owners"][1:]))
    shared = lambda place, a, b: shared_out(SMALL, numpy.array(found["parts"][place]), labels[a:b], classes, place, seeds_of(found))
    return [shared(place, a, b) for place, (a, b) in enumerate(cuts)]


def changed(record):
    """Returns a recorded proof with the lowest bit of one value of U's last share changed."""
    *first, (lower, upper), last = record
    share = upper[-1].copy()
    share.reshape(-1)[0] ^= share.dtype.type(1)
    return *first, (lower, [*upper[:-1], share]), last


def refused(ring):
    """Returns whether U refuses a proof whose statement is wrong in the highest bit, and accepts the right one."""
    def accepts(error):
        parties = Proving([bytes([number]) * 32 for number in range(3)], b"")
        a, b, upper = (numpy.arange(number, number + 70).astype(ring.dtype) for number in (2, 3, 5))
        lower = ring.word_product(a, b)
        lower = lower ^ upper if ring is RINGS[0] else lower - upper
        lower[3] ^= ring.dtype.type(error << 8 * ring.dtype.itemsize - 1)
        parties.log.terms(ring, 1, [a], [b], lower, upper)
        try:
            parties.run(iter(()))
        except RefusedProof as proof:
            return proof.args != (1,)
        return True

    return accepts(0) and not accepts(1)


def check_parties(file, plan, even, words, owners):
    """Runs the three parties, and compares what each of them receives."""
    keys, seeds = list(map(bytes.fromhex, file["streams"]["keys"])), seeds_of(file["parcels"])

    def run(plan, owners, of_distances=False, kind=Parties):
        parties = kind(keys, b"in memory")
        commitments = [bytes(32) for _ in owners]
        shares, values = parties.run(program(parties, plan, owners, commitments, of_distances))
        return parties, shares, values

    whole = [shared_out(BITS, words, file["labels"], plan.classes, 0, seeds)]
    stages = "graph", "degrees", "inverses", "roots", "scores"
    cases = ("plain", plan, file, file["reference"], stages), ("balanced", even, file["balanced"], file["balanced"], stages[4:])
    for name, case, shown, values, stages in cases:
        parties, shares, made = run(case, whole)
        check(f"{name} classes: what the parties receive", parties.received() == shown["received"])
        check(f"{name} classes: the output of the parties", opened(shares, plan.classes) == (values["labels"], values["coarse"]))
        for stage in stages:
            added = sum(made[stage]).astype(numpy.int64)
            check(f"{name} classes: the shares of stage {stage}", added.reshape(-1).tolist() == values[stage])
    parties, shares, _ = run(plan, owners, True)
    check("parts of distances: what the parties receive", parties.received() == file["distances"]["received"])
    check("parts of distances: shares of the output", [share.hex() for share in shares] == file["delivered"]["shares"])

    for case in file["larger"]:
        n, classes, bits = case["rows"], case["classes"], case["bits"]
        drawn = lambda label, length: Stream(b"flyswarm test vectors", label, b"").take(length)
        words = numpy.frombuffer(drawn("larger codes", n * bits // 8), "<u8")
        labels = [byte % (classes + 1) for byte in drawn("larger labels", n)]
        labels = [None if label == classes else label for label in labels]
        plan = Plan(n, classes, bits, *(case[name] for name in ("k", "alpha", "steps", "power", "balance")))
        owners = [shared_out(BITS, words, labels, classes, 0, seeds)]
        parties, shares, _ = run(plan, owners, kind=Proving if case["proofs"] else Parties)
        check(f"{n} rows: what the parties receive", parties.received() == case["received"])
        check(f"{n} rows: rounds", parties.rounds == case["rounds"])
        if case["proofs"]:
            check(f"{n} rows: proofs", all(verified(*record) for record in parties.records))
            check(f"{n} rows: proofs with a changed share", not any(verified(*changed(record)) for record in parties.records))
            check(f"{n} rows: changed statements", all(refused(ring) for ring in RINGS))
        check(f"{n} rows: shares of the output", [hashlib.sha256(share).hexdigest() for share in shares] == case["shares"])
        if n < 100:
            codes = rows_of_bits(words, n, bits).tolist()
            made = integer_reference(codes, labels, plan)
            check(f"{n} rows: integer reference", opened(shares, classes) == (made["labels"], made["coarse"]))


def check_statements():
    file = vectors("statements")
    session = session_of(file["toml"])
    for case in file["cases"]:
        evidence = decode("Vec<Signed<Statement>>", bytes.fromhex(case["evidence"]))
        check(f"statements: {case['what']}", named(session, evidence) == case["named"])
