"""Checks the vectors `flynn`, `evaluate` and `tune`."""

import hashlib
import math
import re
import struct

from primitives.crypto import derive, le, tagged
from primitives.session import Session

from vectors.common import check, check_refused, vectors, words
from vectors.learning import close, column_sums, count, matrix, moments, opened_moments, readout, scaler, typical, winners


def check_flynn():
    file = vectors("flynn")
    seed = bytes.fromhex(file["seed"])
    values = struct.unpack(f"<{len(file['rows']) // 8}f", bytes.fromhex(file["rows"]))
    rows = [list(values[i : i + 3]) for i in range(0, len(values), 3)]
    for at, case in enumerate(file["moments"]):
        d, squares = case["features"], case["squares"]
        values = struct.unpack(f"<{len(case['rows']) // 8}f", bytes.fromhex(case["rows"]))
        measured = [list(values[i : i + d]) for i in range(0, len(values), d)]
        total = bytes.fromhex(case["words"])
        check(f"moments {at}", moments(measured, d, squares) == total)
        means, deviations = opened_moments(total, d, squares)
        check(f"means {at}", struct.pack(f"<{d}d", *means).hex() == case["means"])
        check(f"deviations {at}", struct.pack(f"<{len(deviations)}d", *deviations).hex() == case["deviations"])
    compared, d = file["compared"], file["compared"]["features"]
    values = struct.unpack(f"<{len(compared['rows']) // 8}f", bytes.fromhex(compared["rows"]))
    measured = [list(values[i : i + d]) for i in range(0, len(values), d)]
    found = moments(measured, d, True) + moments(typical(measured, d), d, True)
    check("moments with typical rows", found.hex() == compared["words"])
    for at, case in enumerate(file["refused_moments"]):
        check_refused(f"refused moments {at}", "moments", opened_moments, bytes.fromhex(case), 1, True)
    for case in file["cases"]:
        session = Session(case["toml"])
        total = case["moments"] and bytes.fromhex(case["moments"])
        if total:
            check(f"moments {session.scaling}", column_sums(rows, session) == total)
        scale = scaler(session, total)
        scaled = b"".join(struct.pack(f"<{session.width}f", *scale(row)) for row in rows)
        check(f"scaled {session.scaling}", scaled.hex() == case["scaled"])
        rows_of_m = list(matrix(seed, session.m, session.dimension, session.s))
        check(f"matrix {session.scaling}", rows_of_m == case["matrix"])
        won = [winners(session, seed, rows_of_m, scale, row) for row in rows]
        check(f"winners {session.scaling}", won == case["winners"])
        counts = count(session, won, file["labels"])
        check(f"counts {session.scaling}", words(counts).hex() == case["counts"])
        scores, predicted, weigh = [], [], readout(session, counts)
        for each in won:
            score = []
            for c in range(len(session.classes)):
                s = 0.0
                for i in each:
                    s += weigh(c, counts[c * session.m + i])
                score.append(s)
            scores += score
            predicted.append(score.index(min(score)))
        expected = struct.unpack(f"<{len(scores)}d", bytes.fromhex(case["scores"]))
        exact = session.score == "decay"
        holds = list(expected) == scores if exact else close(scores, expected)
        check(f"scores {session.scaling} {session.score}", holds)
        check(f"predicted {session.scaling}", predicted == case["predicted"])
    large = file["large"]
    digest = hashlib.sha256()
    for row in matrix(seed, large["m"], large["d"], large["s"]):
        digest.update(words(row))
    check("a larger matrix", digest.hexdigest() == large["sha256"])


def held_out(session, seed, rows, labels, groups=None):
    """Returns the held-out rows, ascending (section 15.4)."""
    if groups is not None:
        return held_out_groups(session, seed, labels, groups)

    def place(row):
        return struct.unpack("<Q", tagged("evaluate", seed, struct.pack(f"<{len(rows[row])}f", *rows[row]))[:8])[0]

    order = sorted(range(len(rows)), key=lambda row: (place(row), row))
    out = {row for row in order[: session.most] if place(row) < 2**64 * session.held_out // 100}
    for c in range(len(session.classes)):
        of_class = [row for row in order if labels[row] == c]
        out |= set(of_class[:1])
        out -= set(of_class[-1:])
    return sorted(out)


def held_out_groups(session, seed, labels, texts):
    """Returns the rows of held-out groups, ascending (section 15.4)."""
    texts = [text.split(".")[0] if re.fullmatch("(0|-?[1-9][0-9]*)[.]0+", text) else text for text in texts]
    groups = {text: [row for row, other in enumerate(texts) if other == text] for text in texts}
    classes = range(len(session.classes))
    has = {text: [sum(labels[row] == c for row in of) for c in classes] for text, of in groups.items()}

    def place(text):
        return struct.unpack("<Q", tagged("evaluate group", seed, tagged("group", text.encode()))[:8])[0]

    order = sorted(groups, key=lambda text: (place(text), groups[text][0]))
    out, left = set(), session.most
    for text in order:
        left -= len(groups[text])
        if left < 0 or place(text) >= 2**64 * session.held_out // 100:
            break
        out.add(text)
    for c in classes:
        of_class = [text for text in order if has[text].index(max(has[text])) == c]
        out |= set(of_class[:1])
        out -= set(of_class[-1:])
    for c in classes:
        of_class = [text for text in order if has[text][c] > 0]
        if of_class and set(of_class) <= out:
            out.remove(of_class[-1])
    return sorted(row for text in out for row in groups[text])


def check_evaluate():
    for case in vectors("evaluate")["cases"]:
        check_evaluation(case)


def wide(bins):
    """Returns the words of the bins of confidence, merged so that each has 10 rows or more (15.4)."""
    out, rest, last = [[0] * 3 for _ in bins], [0] * 3, None
    for at, each in enumerate(bins):
        rest = [a + b for a, b in zip(rest, each)]
        if rest[0] >= 10:
            out[at], rest, last = rest, [0] * 3, at
    if last is not None:
        out[last] = [a + b for a, b in zip(out[last], rest)]
    return sum(out, [])


def ranks(first, second):
    """Returns the words for pairs of rows of two classes; 0 for fewer than 10 or more than 65,536 rows."""
    n, m = len(first), len(second)
    if min(n, m) < 10 or max(n, m) > 65_536:
        return [0] * 4
    return [n * m, n * n * m, n * m * m, sum((b > a) + (b >= a) for a in first for b in second)]


def check_evaluation(file):
    session, labels = Session(file["toml"]), file["labels"]
    classes = len(session.classes)
    values = struct.unpack(f"<{len(file['rows']) // 8}f", bytes.fromhex(file["rows"]))
    rows = [list(values[i : i + 3]) for i in range(0, len(values), 3)]
    opened = [bytes.fromhex(each) for each in file["opened"]]
    check("plan", [len(each) for each in opened[1:]] == [width * length for _, width, length in session.plan[1:]])
    held = held_out(session, opened[0], rows, labels, file.get("groups"))
    kept = [row for row in range(len(rows)) if row not in held]
    check("rows held out", held == file["held_out"])
    own = lambda among: [int(any(labels[row] == c for row in among)) for c in range(classes)]
    many = math.ceil(10 / max(1, session.min_contributors))
    check("holders", words([1, *own(range(len(rows))), *own(held), int(len(held) >= many)]) == opened[1])
    check("moments", column_sums(rows, session) == opened[2])

    def learn(seed, total, among):
        scale, rows_of_m = scaler(session, total), list(matrix(seed, session.m, session.dimension, session.s))
        won = [winners(session, seed, rows_of_m, scale, row) for row in rows]
        return won, count(session, [won[row] for row in among], [labels[row] for row in among])

    def scores(won, counts, row):
        weigh, out = readout(session, counts), []
        for c in range(classes):
            s = 0.0
            for i in won[row]:
                s += weigh(c, counts[c * session.m + i])
            out.append(s)
        return out

    seed = derive(opened[0], "evaluate/matrix", b"")
    won, learnt = learn(seed, opened[2], kept)
    check("counts of the rows kept", words(learnt) == opened[3])
    alone_total = moments([rows[row] for row in kept], session.features, True)
    alone_won, alone = learn(seed, alone_total, kept)
    scale = scaler(session, alone_total)
    scaled = [scale(row) for row in rows]
    sums = [sum(learnt[c * session.m : (c + 1) * session.m]) + session.rho for c in range(classes)]
    frequencies = [s / sum(sums) for s in sums]

    def probabilities(k, score):
        """Returns the probabilities of calibration k (section 15.5)."""
        sharpness = 2.0 ** ((k - 8) // 2) * (math.sqrt(2) if k % 2 else 1)
        least = min(score)
        known = math.isfinite(least)
        odds = [f * math.exp(sharpness * (least - s) / session.rho) if known else f for f, s in zip(frequencies, score)]
        total = sum(odds)
        return [o / total + (f - o / total) / 1024 for f, o in zip(frequencies, odds)]

    losses = [0] * 33
    calibrates = len(held) >= many and session.min_contributors <= 1
    for row in held if calibrates else []:
        losses[0] += 1
        score = scores(won, learnt, row)
        for k in range(32):
            losses[1 + k] += int(-math.log(probabilities(k, score)[labels[row]]) * 1024)
    check("losses of the calibrations", b"".join(le(word, 8) for word in losses) == opened[4])
    within = [k for k in range(32) if losses[1 + k] <= min(losses[1:]) + 1024]
    fitted = within[0] if losses[0] >= 10 else 10
    check("calibration", file["calibration"] == (fitted if losses[0] >= 10 else None))
    tables, bins, margins = [[0] * classes**2 for _ in range(3)], [[0] * 3 for _ in range(10)], ([], [])
    apart = [0] * 4 * classes
    for row in held:
        if not own(held)[labels[row]] >= session.min_contributors:
            continue
        score, other = scores(won, learnt, row), scores(alone_won, alone, row)
        distance = lambda near: (sum((a - b) ** 2 for a, b in zip(scaled[near], scaled[row])), near)
        votes = [labels[near] for near in sorted(kept, key=distance)[:5]]
        most = [votes.count(c) for c in range(classes)]
        said = [score.index(min(score)), other.index(min(other)), most.index(max(most))]
        for table, c in zip(tables, said):
            table[labels[row] * classes + c] += 1
        right = [c == labels[row] for c in said]
        for k in (0, 1):
            apart[2 * (k * classes + labels[row])] += right[0] and not right[k + 1]
            apart[2 * (k * classes + labels[row]) + 1] += right[k + 1] and not right[0]
        confidence = probabilities(fitted, score)[said[0]]
        place = min(int(confidence * 10), 9)
        bins[place] = [bins[place][0] + 1, bins[place][1] + right[0], bins[place][2] + int(confidence * 65536)]
        if classes == 2:
            t = score[0] - score[1]
            margins[labels[row]].append(0.0 if math.isnan(t) else t)
    expected = [*tables[0], *wide(bins), *(ranks(*margins) if classes == 2 else []), *tables[1], *tables[2], *apart]
    check("scores of the rows held out", b"".join(le(word, 8) for word in expected) == opened[5])
    _, counts = learn(opened[0], opened[2], range(len(rows)) if session.learn_all else kept)
    check("counts of the model", words(counts) == opened[6])


READOUTS = (
    [("balanced-log", 0.9)]
    + [("decay", gamma / 10) for gamma in range(9)]
    + [("balanced-decay", gamma) for gamma in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)]
    + [("log", gamma) for gamma in (0.0, 0.5, 0.9, 0.99)]
    + [("balanced-log", gamma) for gamma in (0.0, 0.5, 0.99)]
)


def check_tune():
    file = vectors("tune")
    session, labels, folds = Session(file["toml"]), file["labels"], file["folds"]
    values = struct.unpack(f"<{len(file['rows']) // 8}f", bytes.fromhex(file["rows"]))
    rows = [list(values[i : i + 3]) for i in range(0, len(values), 3)]
    opened = [bytes.fromhex(each) for each in file["opened"]]
    check("plan", [len(each) for each in opened[1:]] == [width * length for _, width, length in session.plan[1:]])
    check("moments", column_sums(rows, session) == opened[2])
    every_count, scores = [], [labels.count(c) for c in range(len(session.classes))]
    for number, setting in enumerate(session.settings):
        setting.features, setting.classes = session.features, session.classes
        scale = scaler(setting, opened[2])
        right = [[0] * len(session.classes) for _ in READOUTS]
        for fold in range(session.folds):
            seed = derive(opened[0], "tune/matrix", le(number, 4) + le(fold, 4))
            rows_of_m = list(matrix(seed, setting.m, setting.dimension, setting.s))
            won = [winners(setting, seed, rows_of_m, scale, row) for row in rows]
            outside = [row for row in range(len(rows)) if folds[row] != fold]
            counts = count(setting, [won[row] for row in outside], [labels[row] for row in outside])
            every_count += counts
            for (setting.score, setting.gamma), tally in zip(READOUTS, right):
                weigh = readout(setting, counts)
                for row in set(range(len(rows))) - set(outside):
                    score = []
                    for c in range(len(session.classes)):
                        s = 0.0
                        for i in won[row]:
                            s += weigh(c, counts[c * setting.m + i])
                        score.append(s)
                    tally[labels[row]] += score.index(min(score)) == labels[row]
        scores += [n for tally in right for n in tally]
    check("counts of every setting and fold", words(every_count) == opened[3])
    check("scores of every setting and readout", words(scores) == opened[4])
