"""Checks the vectors `fedavg` and `fedavg-xclp`."""

import math
import struct

from primitives.crypto import Stream, derive, le
from primitives.session import f32, noise_of_members

from vectors.common import check, session_of, vectors
from vectors.flynn import wide
from vectors.xclp import codes_of, integer_reference


def first_weights(session, seed):
    """Returns the first weights, which the coin determines."""
    stream, weights = Stream(seed, "fedavg/weights", b""), []
    for outputs, inputs in session.fedavg_shapes():
        drawn = struct.unpack(f"<{outputs * (inputs + 1)}I", stream.take(4 * outputs * (inputs + 1)))
        weights += [f32((v / 2**31 - 1) * (1 / math.sqrt(inputs))) for v in drawn]
    return weights


def check_fedavg():
    """Checks two rounds in which no weight changes, because the learning rate is almost 0."""
    file = vectors("fedavg")
    session, seed = session_of(file["toml"]), bytes.fromhex(file["seed"])
    one, rounds = 1 << 27, session.fedavg["rounds"]
    check_held_out(file["held_out"], seed)
    weights = first_weights(session, seed)
    length, first = len(weights), 3
    signed = lambda word: word - (word >> 31 << 32)
    unpacked = lambda text: list(struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text)))
    members, curve = file["members"], []
    size = [len(labels) for labels in file["labels"]]

    def loss_and_right(peer, weights):
        rows = [file["rows"][peer][i : i + 3] for i in range(0, 3 * size[peer], 3)]
        matrix, bias = weights[: 3 * len(session.classes)], weights[3 * len(session.classes) :]
        losses, right = 0, 0
        for row, label in zip(rows, file["labels"][peer]):
            scores = [sum(w * x for w, x in zip(matrix[3 * c :], row)) + bias[c] for c in range(len(bias))]
            losses += math.log(sum(map(math.exp, scores))) - scores[label]
            right += scores.index(max(scores)) == label
        return losses / size[peer], right / size[peer]

    base = 2
    for slot, (name, _, count) in enumerate(session.plan):
        found = [unpacked(text) for text in file["vectors"][slot]]
        if name == "rows":
            check("rows", found == [[size[peer]] for peer in members[slot]])
        if slot < first:
            continue
        for before in range(first, min(slot, first + rounds)):
            base = before if len(members[before]) >= len(members[base]) else base
        all_rows = sum(size[peer] for peer in members[base])
        trains = list(members[base])
        if name != "scores":
            draw = Stream(seed, "fedavg/members", le(slot, 4))
            for i in range(len(trains) - 1, 0, -1):
                j = draw.below(i + 1)
                trains[i], trains[j] = trains[j], trains[i]
            drawn = math.ceil(session.fedavg["members"] * len(trains))
            trains = trains[: max(drawn, max(3, session.min_contributors) + 1)]
        for peer, vector in zip(members[slot], found):
            check(f"length of {name}", len(vector) == count)
            share = size[peer] * one // all_rows if peer in trains else 0
            loss, right = loss_and_right(peer, weights)
            means, tail = [*([] if name == "scores" else weights), loss, right, 0, 0], vector[-1:]
            if name != "scores":
                tail = vector[length + 4 :]
                carried = [number for figures in curve for number in figures]
                carried += [0] * (4 * rounds - len(carried))
                check(f"what a member of {name} carries on", tail[1:] == [size[peer], all_rows & 0xFFFF, all_rows >> 16, *carried])
            check(f"share in {name}", tail[0] == share)
            sums = list(zip(map(signed, vector), (mean * share for mean in means)))
            # The loss is computed in 32-bit floats.
            exact = all(abs(word - mean) <= 0.5 for place, (word, mean) in enumerate(sums) if place != len(means) - 4)
            word, mean = sums[len(means) - 4]
            check(f"means in {name}", exact and abs(word - mean) <= 2**-20 * one)
        total = [sum(column) % 2**32 for column in zip(*found)]
        if name != "scores":
            share = total[length + 4]
            check("the share of a round", 1 <= share <= one)
            weights = [f32(signed(word) / share) for word in total[:length]]
            means = [signed(word) / share for word in total[length : length + 4]]
            curve.append([min(round(mean * scale), 65_535) for mean, scale in zip(means, (1e3, 1e4, 1e3, 1e4))])
    check_ranged(file["ranged"], seed)
    for case in file["noise"]:
        share = one // case["counted"]
        longest = math.floor(case["clip"] * share)
        budget = float(case["epsilon"]), float(case["delta"])
        rho, variance = noise_of_members(*budget, case["rounds"], longest, case["parties"])
        found = (rho, share, longest, variance)
        check("noise of a private session", found == tuple(case[name] for name in ("rho", "share", "longest", "variance")))
        check("parties", case["parties"] == max(case["counted"] // 2 + 1, 3) - 1)
    for case in file["judged"]:
        losses, best, end = [], 0, None
        for judged, loss in enumerate(case["losses"]):
            losses.append(loss)
            best = losses.index(min(losses))
            if end is None and judged - max(best, case["after"]) >= case["patience"]:
                end = judged + 1
                break
        check(f"the best of {case['losses']}", (best, end) == (case["best_round"], case["ends_with_round"]))
    shown = [[figures["loss"], figures["accuracy"]] for figures in file["rounds"]]
    check("the figures of rounds", shown == [[figures[0] / 1e3, figures[1] / 1e4] for figures in curve])


def check_ranged(file, seed):
    """Checks the words of weights with an unusual range: each word is a third of the weight, times 16 /
    range."""
    session = session_of(file["toml"])
    weights = first_weights(session, seed)
    span, share = session.fedavg["range"], (1 << 27) // 3
    words = lambda text: struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text))[: len(weights)]
    expected = [math.floor(abs(w * 16 / span * share) + 0.5) * (1 if w > 0 else -1) % 2**32 for w in weights]
    check("words of a wide range", span == 1024 and all(list(words(text)) == expected for text in file["words"]))


def held_out_rows(session, seed, count):
    """Returns the indices of the rows that a peer holds out."""
    percent = session.fedavg["held_out"]
    draw, order = Stream(seed, "data/split", le(percent, 4)), list(range(count))
    for i in range(count - 1, 0, -1):
        j = draw.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return sorted(order[: (percent * count + 50) // 100])


def check_held_out(file, seed):
    """Checks the held-out rows, and their predictions by the first weights, which never change."""
    session = session_of(file["toml"])
    check("the slots with rows held out", [name for name, _, _ in session.plan] == file["slots"])
    classes = len(session.classes)
    weights = first_weights(session, seed)
    matrix, bias = weights[: 3 * classes], weights[3 * classes :]
    parts = []
    for values, labels in zip(file["rows"], file["labels"]):
        held = held_out_rows(session, seed, len(labels))
        parts.append([(values[3 * row : 3 * row + 3], labels[row]) for row in held])
    count = lambda labels: [int(c in labels) for c in range(classes)]
    words = [[1, *count(labels), *count([label for _, label in held])] for labels, held in zip(file["labels"], parts)]
    unpacked = lambda text, form, size: list(struct.unpack(f"<{len(text) // 2 // size}{form}", bytes.fromhex(text)))
    check("holders of rows held out", [unpacked(text, "I", 4) for text in file["holders"]] == words)
    ranked = 0
    for text, held in zip(file["predictions"], parts):
        confusion, bins, margins = [0] * classes**2, [[0] * 3 for _ in range(10)], [[] for _ in range(classes)]
        for row, label in held:
            # Only one number of a row is not 0, so two roundings to binary32 are enough.
            scores = [f32(f32(sum(w * x for w, x in zip(matrix[3 * c :], row))) + bias[c]) for c in range(classes)]
            predicted = scores.index(max(scores))
            confidence = 1 / sum(math.exp(score - scores[predicted]) for score in scores)
            confusion[label * classes + predicted] += 1
            found = bins[min(int(10 * confidence), 9)]
            found[0], found[1], found[2] = found[0] + 1, found[1] + (label == predicted), found[2] + int(2**16 * confidence)
            margins[label].append(scores[1] - scores[0])
        flat = wide(bins)
        shown = [flat[3 * b :][:3] for b in range(10)]
        n, m = map(len, margins)
        pairs = [(first, second) for first in margins[0] for second in margins[1]]
        won = sum(2 * (second > first) + (second == first) for first, second in pairs)
        ranks = [n * m, n * n * m, n * m * m, won] if min(n, m) >= 10 else [0] * 4
        ranked += ranks[0] > 0
        found = unpacked(text, "Q", 8)
        stated = [sum(column) for column in zip(*[found[classes**2 + 3 * b :][:3] for b in range(10)])]
        exact = [word for place, word in enumerate(found) if not (4 <= place < 34 and (place - 4) % 3 == 2)]
        expected = [*confusion, *(word for each in shown for word in each[:2]), *ranks]
        check("predictions of rows held out", exact == expected)
        # The logarithm here differs from the one for the vectors, so confidences may differ a little.
        check("confidence of rows held out", abs(stated[2] - sum(each[2] for each in shown)) <= len(held))
    check("classes of two peers are ranked", ranked >= 2)
    check_ended(file)


def check_ended(file):
    """Checks the words that replace a round after an early end: the same predictions in parts of 16 bits."""
    session = session_of(file["ended_toml"])
    (length,) = (words for name, _, words in session.plan if name == "round-3")
    sizes, carried = [len(labels) for labels in file["labels"]], set()
    for size, text, numbers in zip(sizes, file["ended"], file["predictions"]):
        words = struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text))
        parts = struct.unpack(f"<{len(numbers) // 4}H", bytes.fromhex(numbers))
        share = max(session.fedavg_weights() + 4, len(parts))
        expected = [*parts, *[0] * (share - len(parts)), 0, size, sum(sizes) & 0xFFFF, sum(sizes) >> 16]
        check("predictions after an early end", list(words[: share + 4]) == expected and len(words) == length)
        carried.add(words[share + 4 :])
    (curve,) = carried
    check("two rounds are carried on", curve[:4] == curve[4:8] != (0,) * 4 and not any(curve[8:]))


def check_fedavg_xclp():
    """Checks the sums around a propagation. The network is logistic, so that points are rows."""
    file = vectors("fedavg-xclp")
    session, seed = session_of(file["toml"]), bytes.fromhex(file["seed"])
    names = [name for name, _, _ in session.plan]
    check("the slots of the task", names == file["slots"])
    classes, peers = len(session.classes), range(len(file["rows"]))
    features = session.features
    rows, labels = [], []
    for values, known in zip(file["rows"], file["labels"]):
        order = sorted(range(len(known)), key=lambda row: known[row] is None)
        cut = [values[i : i + features] for i in range(0, len(values), features)]
        rows.append([cut[row] if any(cut[row]) else [1.0] * features for row in order])
        labels.append([known[row] for row in order])
    tally = lambda found: [sum(label == c for label in found) for c in range(classes)]
    unpacked = lambda text: list(struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text)))
    points = [[len(labels[peer]) if at == peer else 0 for at in peers] + tally(labels[peer]) for peer in peers]
    check("points", [unpacked(text) for text in file["points"]] == points)
    given = [max(1, sum(tally(labels[peer])[c] for peer in peers)) for c in range(classes)]
    codes = codes_of(sum(rows, []), derive(seed, "planes", session.id), session.bits)
    made = integer_reference(codes, sum(labels, []), session.xclp_plan(len(codes)))
    coarse = [made["coarse"][i : i + classes] for i in range(0, len(made["coarse"]), classes)]
    for peer in peers:
        own, coarse = coarse[: len(rows[peer])], coarse[len(rows[peer]) :]
        found = list(labels[peer])
        for row, scores in enumerate(own):
            parts = [score / count for score, count in zip(scores, given)]
            if found[row] is None and sum(parts) > 0:
                found[row] = parts.index(max(parts))
        check("counts of labels, given and found", unpacked(file["counts"][peer]) == tally(found))
    check("labels are found", sum(sum(unpacked(text)) for text in file["counts"]) > sum(map(sum, map(tally, labels))))
