"""Checks the vectors of `xclp`."""

import math
import struct

from primitives.crypto import Stream, ballot_bytes, derive, le, tagged
from primitives.encoding import Ballot
from primitives.session import Session

from vectors.common import check, vectors


def pieces_of(receiver, sender, bits):
    w = min(bits // 64, max(1, 8192 // sender))
    return [[row, at, min(w, bits // 64 - at)] for row in range(receiver) for at in range(0, bits // 64, w)]


def rounded(x):
    return math.floor(x + 0.5)


def hex16(matrix):
    return b"".join(le(x % 2**16, 2) for row in matrix for x in row).hex()


def integer_reference(codes, labels, classes, k, bits, alpha, steps, power, balance):
    """Computes every stage of section 15e with plain integers."""
    n = len(codes)
    shift = lambda x, g: (x + (1 << g - 1)) >> g
    distance = [[sum(x != y for x, y in zip(a, b)) for b in codes] for a in codes]
    near = [sorted((j for j in range(n) if j != i), key=lambda j: (distance[i][j], j))[:k] for i in range(n)]
    table = [math.floor(math.cos(math.pi * h / bits) ** power * 2**12 + 0.5) for h in range(bits // 2)]
    weight = lambda h: table[h] if 2 * h < bits and table[h] >= 256 else 0
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
    s = math.sqrt(1 - alpha**2)
    ratio = (1 - s) / alpha
    coefficients = [math.floor(2**20 / s + 0.5)] + [math.floor(2**21 * ratio**j / s + 0.5) for j in range(1, steps + 1)]
    scores = [[0] * classes for _ in range(n)]
    for c in range(classes):
        z = lambda a: [inverses[i] * sum(x * y for x, y in zip(w[i], a)) + kept[i] * a[i] for i in range(n)]
        before = [roots[i] * (labels[i] == c) for i in range(n)]
        last = [shift(x, 32) for x in z(before)]
        total = [coefficients[0] * x + coefficients[1] * y for x, y in zip(before, last)]
        for coefficient in coefficients[2:]:
            before, last = last, [shift(x, 31) - y for x, y in zip(z(last), before)]
            total = [x + coefficient * y for x, y in zip(total, last)]
        count = labels.count(c)
        weight = (2**21 * math.isqrt(n) + count) // (2 * count) if count else 0
        for i in range(n):
            scores[i][c] = shift(total[i], 20)
            if balance:
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

    words16 = lambda data: list(struct.unpack(f"<{len(data) // 2}H", data))

    xor = lambda one, two: bytes(a ^ b for a, b in zip(one, two))

    def parcels(words, labels, place, seeds, less):
        """Returns parcels and hashes of shares. `less` subtracts bytes of a stream from the bytes `words`."""
        hot = b"".join(le(0 if label is None else 1 << label, 8 * -(-classes // 64)) for label in labels)
        *drawn, salt = map(bytes.fromhex, seeds)
        for seed in drawn:
            stream = Stream(seed, "shares/input", b"")
            words = less(words, stream.take(len(words)))
            hot = xor(hot, stream.take(len(hot)))
        share = [None] * 3
        share[place % 3] = b"\x01" + salt + words + hot
        for number, seed in enumerate(drawn, 1):
            share[(place + number) % 3] = b"\x00" + seed
        return [(share[i] + share[(i + 1) % 3]).hex() for i in range(3)], [tagged("share", one) for one in share]

    found = file["parcels"]
    first, end = found["rows"]
    made, copies = parcels(b"".join(packed[first:end]), labels[first:end], found["place"], found["seeds"], xor)
    check("parcels of an input", made == found["sent"])
    check("hashes of shares", [copy.hex() for copy in copies] == found["copies"])
    check("what an owner announces", tagged("announced", hashed, *copies).hex() == found["announced"])

    found = file["distances"]
    distances = [[sum(p != q for p, q in zip(one, two)) for two in codes] for one in codes]
    check_pairs(found, distances)
    place, ends = found["place"], found["owners"]
    parts = b"".join(le(part, 2) for part in found["parts"][place])
    less16 = lambda one, two: b"".join(le((x - r) % 2**16, 2) for x, r in zip(words16(one), words16(two)))
    made, _ = parcels(parts, labels[ends[place] : ends[place + 1]], place, found["seeds"], less16)
    check("parcels of parts of distances", made == found["sent"])

    found = file["streams"]
    attempt = ballot_bytes(Ballot(*found["ballot"])) + le(found["slot"], 4)
    keys = [derive(bytes.fromhex(pair), "computing parties", attempt) for pair in found["pairs"]]
    context = session.id + attempt
    check("keys of the computing parties", [key.hex() for key in keys] == found["keys"] and context.hex() == found["context"])

    def masks(width, turn, chunk, step):
        label = context + bytes([found["stage"], turn]) + le(chunk, 4) + le(step, 4)
        drawn = [Stream(keys[found["party"] + i], "shares", label).take(width * 4) for i in (0, 1)]
        own, after = [[int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)] for data in drawn]
        return [(x - y) % 2 ** (8 * width) for x, y in zip(own, after)]

    check("masks of a reshare", masks(8, 0, found["chunk"], found["step"]) == found["words"])
    check("masks of a third", masks(2, found["turn"], found["turned_chunk"], found["turned_step"]) == found["small"])

    session.fits(len(rows))
    settings = classes, session.k, bits, session.alpha, session.steps, session.power
    for stage, values in integer_reference(codes, labels, *settings, session.balance).items():
        check(f"integer reference, {stage}", values == file["reference"][stage])
    found = file["delivered"]
    shares = [bytes.fromhex(share) for share in found["shares"]]
    check("hashes of shares of the output", [tagged("output", share).hex() for share in shares] == found["holds"])
    width, (first, end) = classes + 2, found["rows"]
    rows_of = [share[width * first : width * end] for share in shares]
    sent = [(rows_of[i] + tagged("output", rows_of[(i + 1) % 3])).hex() for i in range(3)]
    check("what an owner gets of its output", sent == found["sent"])
    check("the same without a party", [(rows_of[0] + rows_of[1]).hex(), sent[2]] == found["without_1"])
    whole = xor(xor(*shares[:2]), shares[2])
    opened = [whole[at : at + width] for at in range(0, len(whole), width)]
    marks = [int.from_bytes(row[:2], "little") for row in opened]
    told = [mark - 0x8000 if mark & 0x8000 else None for mark in marks]
    check("labels of the shares", told == file["reference"]["labels"])
    check("coarse scores of the shares", [score for row in opened for score in row[2:]] == file["reference"]["coarse"])
    made = integer_reference(codes, labels, *settings, True)
    for stage in ("scores", "labels", "coarse"):
        check(f"balanced classes, {stage}", made[stage] == file["balanced"][stage])
    check("a plain and a balanced class differ", file["balanced"]["coarse"] != file["reference"]["coarse"])
