"""The vectors `fedavg` and `fedavg-xclp`."""

import math
import struct

from primitives.crypto import Stream, derive, le
from primitives.session import f32, noise_of_members

from vectors.common import check, session_of, vectors
from vectors.xclp import codes_of, integer_reference


def check_fedavg():
    """Two rounds in which no weight moves, for the rate is next to nothing."""
    file = vectors("fedavg")
    session, seed = session_of(file["toml"]), bytes.fromhex(file["seed"])
    one, rounds = 1 << 27, session.fedavg["rounds"]
    stream, weights = Stream(seed, "fedavg/weights", b""), []
    for outputs, inputs in session.fedavg_shapes():
        drawn = struct.unpack(f"<{outputs * (inputs + 1)}I", stream.take(4 * outputs * (inputs + 1)))
        weights += [f32((v / 2**31 - 1) * (1 / math.sqrt(inputs))) for v in drawn]
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


def check_fedavg_xclp():
    """What the members sum around a propagation; the network is a logistic one, so that points are rows."""
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
    made = integer_reference(codes, sum(labels, []), classes, session.k, session.bits, session.alpha, session.steps, session.power, session.balance)
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
