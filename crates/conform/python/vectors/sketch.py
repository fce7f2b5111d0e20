"""Checks the vectors `sketch` and `private`."""

import functools
import math
import struct

from primitives import Refused
from primitives.crypto import Stream, le, tagged
from primitives.session import Session
from primitives.table import need

from vectors.common import check, vectors, words
from vectors.learning import count, matrix, scaler, winners
from vectors.xclp import rounded


def single(x):
    """Rounds a number to binary32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def srp_numbers(seed, rows, width, records):
    planes, features = width.bit_length() - 1, len(records[0])
    stream = Stream(seed, "sketch/planes", b"")
    numbers = [[0] * rows for _ in records]
    for plane in range(rows * planes):
        entries = []
        for _ in range((features + 1) // 2):
            u, v = (word >> 11 for word in struct.unpack("<2Q", stream.take(16)))
            radius = math.sqrt(-2 * math.log((u + 1) / 2**53))
            entries += [single(radius * turn(2 * math.pi * (v / 2**53))) for turn in (math.cos, math.sin)]
        for record, number in zip(records, numbers):
            # A product of two binary32 numbers is exact in binary64. A sum in binary64 that is rounded
            # to binary32 equals a sum rounded once.
            total = functools.reduce(lambda total, xy: single(total + single(xy[0] * xy[1])), zip(entries, record), 0.0)
            number[plane // planes] |= (total > 0) << (plane % planes)
    return numbers


def minhash_numbers(seed, rows, width, records):
    keys = struct.unpack(f"<{rows}Q", Stream(seed, "sketch/minhash", b"").take(8 * rows))

    def value(key, j):
        z = (key + j * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    sets = [[j for j, x in enumerate(record, 1) if x > 0] or [0] for record in records]
    return [[min(value(key, j) for j in members) % width for key in keys] for members in sets]


def sketched(numbers, rows, width):
    words = [0] * (rows * width) + [len(numbers)]
    for number in numbers:
        for row, bucket in enumerate(number):
            words[row * width + bucket] += 1
    return words


def sketch_distance(width, one, other):
    norms = plain = 0.0
    rows = len(one) // width
    for row in range(rows):
        square = 0.0
        for a, b in zip(one[row * width : (row + 1) * width], other[row * width : (row + 1) * width]):
            square += (a - b) * (a - b)
        norms += math.sqrt(square)
        plain += square
    return norms / rows, math.sqrt(plain)


def shares(words):
    return [count / words[-1] for count in words[:-1]]


def sketch_score(distance):
    return 1 + rounded(distance * 2**30)


def draw_weights(scores, temperature):
    g = [1.1253517471925912e-7]
    while len(g) < 25:
        g.insert(0, math.sqrt(g[0]))
    s = [2**30 / score for score in scores]
    weights = []
    for each in s:
        x = (max(s) - each) / temperature
        if x >= 32:
            weights.append(1)
            continue
        exponent, product = math.floor(x * 2**20), 1.0
        for k in range(25):
            if exponent >> k & 1:
                product *= g[k]
        weights.append(max(1, math.floor(2**21 * product)))
    return weights


def selected(coin, number, scores, active, chosen, temperature):
    stream = Stream(coin, "sketch/select", le(number, 4))
    places = [place for place, score in enumerate(scores) if score > 0]
    if 0 < active < len(places):
        for i in range(active):
            j = i + stream.below(len(places) - i)
            places[i], places[j] = places[j], places[i]
        places = sorted(places[:active])
    left = list(zip(places, draw_weights([scores[place] for place in places], temperature)))
    out = []
    while left and len(out) < chosen:
        t = stream.below(sum(weight for _, weight in left))
        for at, (place, weight) in enumerate(left):
            if t < weight:
                out.append(place)
                del left[at]
                break
            t -= weight
    return places, out


def check_sketch():
    file = vectors("sketch")
    records = [file["records"][i : i + 3] for i in range(0, len(file["records"]), 3)]
    for case in file["hashes"]:
        seed, rows, width = bytes.fromhex(case["seed"]), case["rows"], case["range"]
        numbers = (srp_numbers if case["hash"] == "srp" else minhash_numbers)(seed, rows, width, records)
        what = f"{case['hash']} {rows} x {width}"
        check(f"numbers, {what}", numbers == case["numbers"])
        words, part = sketched(numbers, rows, width), sketched([numbers[i] for i in case["part"]], rows, width)
        check(f"sketches, {what}", words == case["words"] and part == case["part_words"])
        mean, plain = sketch_distance(width, shares(part), shares(words))
        check(f"distances, {what}", (mean, plain) == (case["row_mean"], case["plain"]) and sketch_score(mean) == case["score"])
    for scores, temperature, weights in file["weights"]:
        check(f"weights at temperature {temperature}", draw_weights(scores, temperature) == weights)
    coin = bytes.fromhex(file["coin"])
    for active, chosen, temperature, number, considered, out in file["draws"]:
        found = selected(coin, number, file["scores"], active, chosen, temperature)
        check(f"draw of {chosen} of {active}, round {number}", found == (considered, out))

    case = file["session"]
    session, seed = Session(case["toml"]), bytes.fromhex(case["seed"])
    scaled = []
    for part in case["rows"]:
        part = [part[i : i + 3] for i in range(0, len(part), 3)]
        norms = [math.sqrt(functools.reduce(lambda total, x: total + x * x, row, 0.0)) for row in part]
        scaled.append([[single(x / norm) if norm else 0.0 for x in row] for row, norm in zip(part, norms)])
    words = [sketched(srp_numbers(seed, session.rows, session.span, part), session.rows, session.span) for part in scaled]
    total = [sum(column) for column in zip(*words)]
    distances = [sketch_distance(session.span, shares(each), shares(total)) for each in words]
    scores = [sketch_score(mean) for mean, _ in distances]
    sketches = [[rounded(share * 2**30) for share in shares(each)] for each in words]
    blank = [0] * len(sketches[0])
    opened = {"holders": [3], "sketch": total, "scores": scores, "pairwise": sum(sketches, [])}
    own = {"holders": [1], "sketch": words[1], "scores": [0, scores[1], 0], "pairwise": blank + sketches[1] + blank}
    secret = [Stream(b"flyswarm test vectors", f"secret {peer}", b"").take(32) for peer in range(3)]
    parts = [struct.unpack("<8I", Stream(each, "sketch/draw", session.id).take(32)) for each in secret]
    own["draw"], opened["draw"] = parts[1], [sum(column) % 2**32 for column in zip(*parts)]
    packed = lambda words: b"".join(le(word, 4) for word in words).hex()
    check("slots of a sketch session", case["slots"] == [name for name, _, _ in session.plan][1:])
    for slot, mine, all_of_it in zip(case["slots"], case["own"], case["opened"]):
        check(f"{slot} of a sketch session", packed(own[slot]) == mine and packed(opened[slot]) == all_of_it)
    check("own distance", list(distances[1]) == case["distance"])
    check("digest of a sketch", tagged("sketch", session.id, bytes.fromhex(packed(total))).hex() == case["digest"])
    rounded_shares = [[share / 2**30 for share in each] for each in sketches]
    matrix = [[sketch_distance(session.span, one, other)[0] for other in rounded_shares] for one in rounded_shares]
    check("distances between peers", matrix == case["matrix"])
    found = selected(bytes.fromhex(packed(opened["draw"])), 0, scores, session.active, session.chosen, session.temperature)
    check("draw of a sketch session", found == (case["active"], case["chosen"]))
    check_selection(file["select"])
    check_releases(file["releases"])


def check_selection(case):
    """Checks every vector of every peer if the task flynn draws peers by their sketches (section 15.2)."""
    session, seed = Session(case["toml"]), bytes.fromhex(case["seed"])
    scale, p = scaler(session, None), len(session.roster)
    data = [[part[i : i + 3] for i in range(0, len(part), 3)] for part in case["rows"]]
    parts = [[list(scale(row)) for row in rows] for rows in data]
    hashed = [sketched(srp_numbers(seed, session.rows, session.span, part), session.rows, session.span) for part in parts]
    total = [sum(column) for column in zip(*hashed)]
    scores = [sketch_score(sketch_distance(session.span, shares(each), shares(total))[0]) for each in hashed]
    secrets = [Stream(b"flyswarm test vectors", f"secret {peer}", b"").take(32) for peer in range(p)]
    draws = [list(struct.unpack("<8I", Stream(each, "sketch/draw", session.id).take(32))) for each in secrets]
    coin = words([sum(column) % 2**32 for column in zip(*draws)])
    found = selected(coin, 0, scores, session.active, session.chosen, session.temperature)
    check("drawn peers", found == (case["active"], case["chosen"]))
    rows_of_m = list(matrix(seed, session.m, session.dimension, session.s))
    expected = {
        "present": [[1] for _ in range(p)],
        "sketch": hashed,
        "scores": [[scores[peer] if place == peer else 0 for place in range(p)] for peer in range(p)],
        "draw": draws,
        "holders": [],
        "counts": [],
    }
    for peer, (rows, labels) in enumerate(zip(data, case["labels"])):
        drawn = peer in case["chosen"]
        held = [drawn, *(drawn and c in labels for c in range(len(session.classes)))]
        expected["holders"].append([int(each) for each in held])
        counts = count(session, [winners(session, seed, rows_of_m, scale, row) for row in rows], labels)
        expected["counts"].append(counts if drawn else [0] * len(counts))
    check("slots of a session that draws peers", case["slots"] == [name for name, _, _ in session.plan][1:])
    for slot, vectors_of in zip(case["slots"], case["vectors"]):
        check(f"{slot} where peers are drawn", [words(each).hex() for each in expected[slot]] == vectors_of)


def check_releases(cases):
    """Checks distances of noised sketches, corrected for the noise (section 15d)."""
    for case in cases:
        own, other, whole = case["own"], case["other"], case["whole"]
        epsilon, rows = float(case["epsilon"]), case["rows"]
        variance = 1 / (2 * math.sinh(epsilon / (4 * rows)) ** 2)
        signed = lambda words: [word - 2**32 if word >= 2**31 else word for word in words[:-2]]

        def square(one, two):
            n, m = max(one[-2], 1), max(two[-2], 1)
            return sum((a / n - b / m) ** 2 for a, b in zip(signed(one), signed(two)))

        counters = len(own) - 2
        n, m, all_n = own[-2], other[-2], whole[-2]
        apart = square(own, other) - counters * variance * (own[-1] / n**2 + other[-1] / m**2)
        within = square(own, whole) - counters * variance * ((1 / n - 1 / all_n) ** 2 + (whole[-1] - own[-1]) / all_n**2)
        found = [math.sqrt(max(each, 0) / rows) for each in (apart, within)]
        check("noise of releases", math.isclose(variance, case["variance"], rel_tol=1e-12))
        holds = all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(found, [case["apart"], case["within"]]))
        check("distances of releases", holds)


def pairs_of(words):
    return b"".join(le(place, 2) + le(word, 4) for place, word in enumerate(words) if word)


def words_of(pairs, count):
    need(len(pairs) % 6 == 0, "inconsistent")
    words, last = [0] * count, -1
    for at in range(0, len(pairs), 6):
        place, word = int.from_bytes(pairs[at : at + 2], "little"), int.from_bytes(pairs[at + 2 : at + 6], "little")
        need(last < place < count and word, "inconsistent")
        words[place], last = word, place
    return words


def check_private():
    file = vectors("private")
    for case in file["chunks"]:
        words = [0] * case["words"]
        for place, word in case["nonzero"]:
            words[place] = word
        check("pairs", pairs_of(words).hex() == case["pairs"])
        check("words", words_of(bytes.fromhex(case["pairs"]), case["words"]) == words)
    for case in file["refused"]:
        try:
            words_of(bytes.fromhex(case["pairs"]), case["words"])
            check(f"{case['what']} is accepted", False)
        except Refused:
            check(case["what"], case["class"] == "inconsistent")
    for case in file["totals"]:
        counts = [word if word < 2**31 else 0 for word in case["total"]]
        kept = sorted(range(len(counts)), key=lambda i: (-counts[i], i))[: case["top"]]
        check("noisy total", [count if i in kept else 0 for i, count in enumerate(counts)] == case["counts"])
