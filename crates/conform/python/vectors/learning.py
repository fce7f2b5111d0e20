"""Arithmetic of rows and models with exact fractions, row by row (spec, sections 15 and 15.1)."""

import math
from fractions import Fraction

from primitives import Refused
from primitives.crypto import Stream, le
from primitives.session import f32


def moments(rows, d, squares):
    n = len(rows)

    def integer(x):
        nearest = math.floor(abs(Fraction(x)) * 2**40 + Fraction(1, 2))
        return nearest if x >= 0 else -nearest

    q = [[integer(x) for x in row] for row in rows]
    words = [n]
    words += [sum(row[j] for row in q) for j in range(d)]
    words += [sum(row[j] ** 2 for row in q) for j in range(d if squares else 0)]
    return b"".join(word.to_bytes(64, "little", signed=True) for word in words)


def typical(rows, d):
    """Returns the two typical rows of at least 40 rows, or an empty list for fewer rows."""
    n = len(rows)
    if n < 40:
        return []
    columns = [sorted(row[j] for row in rows) for j in range(d)]
    quarters = (n // 4, n // 2), (n // 2, n - n // 4)
    return [[f32(added(values[a:b]) / (b - a)) for values in columns] for a, b in quarters]


def added(values):
    """Adds values in order in binary64. Python's `sum` would compensate rounding errors."""
    total = 0.0
    for value in values:
        total += value
    return total


def column_sums(rows, session):
    """Returns the vector of `moments`."""
    d = session.features
    if session.check_columns:
        return moments(rows, d, True) + moments(typical(rows, d), d, True)
    return moments(rows, d, session.scaling != "center")


def opened_moments(total, d, squares):
    """Returns means and deviations from the sum of all words. Raises `Refused` if no rows have these sums."""
    words = [int.from_bytes(total[at : at + 64], "little", signed=True) for at in range(0, len(total), 64)]
    if len(words) != 1 + d * (2 if squares else 1):
        raise Refused("moments")
    n = words[0]
    if not 1 <= n < 2**23:
        raise Refused("moments")
    means, deviations = [], []
    for j in range(d):
        total_of_q = words[1 + j]
        if abs(total_of_q) > n * 2**120:
            raise Refused("moments")
        means.append(float(total_of_q) / float(n * 2**40))
        if squares:
            total_of_squares = words[1 + d + j]
            numerator = n * total_of_squares - total_of_q**2
            if numerator < 0 or total_of_squares > n * 2**240:
                raise Refused("moments")
            deviations.append(math.sqrt(float(numerator) / (float(n * n) * float(2**80))))
    return means, deviations


def scaler(session, total):
    """Returns the function that scales a row, from the opened moments."""
    if total is not None:
        if len(total) == 128 * (1 + 2 * session.features):
            total = total[: len(total) // 2]
        means, deviations = opened_moments(total, session.features, session.scaling != "center" or session.check_columns)

    def unit(row):
        squares = 0.0
        for x in row:
            squares += x * x
        norm = math.sqrt(squares)
        return [f32(x / norm) if norm > 0 else 0.0 for x in row]

    match session.scaling:
        case "none":
            return lambda row: row
        case "unit-norm":
            return unit
        case "range":
            low, high = session.range
            return lambda row: [f32(min(max((x - low) / (high - low), 0.0), 1.0)) for x in row]
        case "center":
            return lambda row: unit([x - mean for x, mean in zip(row, means)])
        case "standard":
            return lambda row: unit([(x - m) / s if s else 0.0 for x, m, s in zip(row, means, deviations)])
        case "soft-bins":

            def spread(row):
                out = []
                for x, mean, s in zip(row, means, deviations):
                    z = (x - mean) / s if s else 0.0
                    p = (0.5 + z / (2.0 * math.sqrt(z * z + 2.0))) * (session.bins - 1)
                    out += [f32(max(1.0 - abs(p - b), 0.0)) for b in range(session.bins)]
                return out

            return spread


def matrix(seed, m, d, s):
    stream = Stream(seed, "flynn/matrix", le(m, 4) + le(d, 4) + le(s, 4))
    for _ in range(m):
        places = list(range(d))
        for i in range(s):
            j = i + stream.below(d - i)
            places[i], places[j] = places[j], places[i]
        yield sorted(places[:s])


def densify(session, seed, row):
    f = session.width
    bits = Stream(seed, "flynn/signs", le(f, 4)).take(-(-f // 8))
    x = [-v if bits[j // 8] >> (j % 8) & 1 else v for j, v in enumerate(row)] + [0.0] * (session.dimension - f)
    half = 1
    while half < session.dimension:
        for start in range(0, session.dimension, 2 * half):
            for i in range(start, start + half):
                a, b = x[i], x[i + half]
                x[i], x[i + half] = f32(a + b), f32(a - b)
        half *= 2
    return x


def winners(session, seed, rows_of_m, scale, row):
    x = scale(row)
    if session.densify:
        x = densify(session, seed, x)
    sums = []
    for i, columns in enumerate(rows_of_m):
        total = 0.0
        for column in columns:
            total = f32(total + x[column])
        sums.append((-total, i))
    return sorted(i for _, i in sorted(sums)[: session.rho])


def count(session, all_winners, labels):
    counts = [0] * (session.m * len(session.classes))
    for won, label in zip(all_winners, labels):
        for i in won:
            counts[label * session.m + i] += 1
    return counts


def weight(gamma, c):
    out, g = 1.0, gamma
    for k in range(32):
        if c >> k & 1:
            out *= g
        g *= g
    return out


def readout(session, counts):
    """Returns w_l(c) as a function of class and count."""
    classes, gamma = len(session.classes), session.gamma
    sums = [sum(counts[c * session.m : (c + 1) * session.m]) for c in range(classes)]
    held = sum(s > 0 for s in sums)
    ratios = [float(sum(sums)) / float(held * s) if s else 0.0 for s in sums]

    def balanced_log(c, count):
        x = (count + (1.0 - gamma)) * ratios[c]
        return -math.log(x) if x else math.inf

    return {
        "decay": lambda _, count: weight(gamma, count),
        "balanced-decay": lambda c, count: gamma ** (count * ratios[c]) if gamma else float(count == 0),
        "log": lambda _, count: -math.log(count + (1.0 - gamma)),
        "balanced-log": balanced_log,
    }[session.score]


def close(found, expected):
    """Returns whether the scores are equal. Scores with logarithms may differ by rounding."""
    return len(found) == len(expected) and all(a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b)) for a, b in zip(found, expected))
