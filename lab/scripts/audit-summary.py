#!/usr/bin/env python3
"""Audits the closed cells of the task summary: do they follow from the opened numbers?

    lab/scripts/audit-summary.py [--tables 10000] [--bounds 500] [--seed 1] [--plant]

Draws random sessions: columns, groups, cross tables, peers, rows. The second peer's code (crates/conform/python)
decides which cells open; the vectors check that it decides as the program does. Then the audit answers these
questions, over all tables of each session:

- Exact: is a closed cell a linear combination of open cells? Elimination of all equations modulo a prime shows it.
  This must never be.
- Unions: is the sum of an equation's closed cells known, and smaller than the threshold? This must never be.
- Bounds, for --bounds sessions, with scipy: is only one value of a closed cell possible, because counts are at
  least 0? And if an attacker also uses the pattern (a cell that passes has at least `threshold` rows, one that
  does not pass has fewer, or rows of too few peers)? Both are counted.

- Quantiles: one owner sends any numbers as its histogram. The others have fewer than `rest` rows at one end of
  the values. If these rows move among the values there, or to the first value of other rows,
  the opened numbers must not change.
- Pairs: the next session of a series, in which at least `min_contributors` peers join or leave. How often do
  two open cells differ by fewer rows than the threshold? These are counted; the program does not prevent them.

`--plant` opens one closed cell in a tenth of the sessions, and searches quantiles without the checks of counts,
or lets a quantile pass if rows with its own value are on its side. The audit must find all three.
"""

import argparse
import pathlib
import random
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "crates/conform/python"))
from primitives.summary import Summary  # noqa: E402
from primitives.table import Table  # noqa: E402

PRIME = 2**31 - 1


def session(rng: random.Random) -> Summary:
    columns = []
    for number in range(rng.randint(2, 4)):
        columns.append({"name": f"c{number}", "kind": "category", "levels": [str(i) for i in range(rng.randint(2, 5))]})
        if rng.random() < 0.4:
            columns[-1]["fill"] = ""
    columns.append({"name": "x", "kind": "number", "fill": 1.0, "indicator": True})
    names = [column["name"] for column in columns[:-1]]
    by = names[:rng.choice([0, 1, 1, 1, 2])]
    pairs = [(one, two) for at, one in enumerate(names) for two in names[at + 1:]
             if {one, two} != set(by) and (len(by) == 2 or not {one, two} & set(by))]
    crossed = [{"rows": one, "columns": two} for one, two in pairs if rng.random() < 0.7]
    given = {"threshold": rng.randint(3, 10), "rest": 1, "table": crossed} | ({"by": by} if by else {})
    table = Table({"column": columns})
    return Summary(given, table, table.names(), [], 2)


def owners(rng: random.Random, summary: Summary) -> list[list[int]]:
    peers, width = rng.randint(3, 6), max(column.place + len(column.levels or [0]) + 1 for column in summary.columns)
    skew = [[rng.random() ** 3 + 0.02 for _ in range(column.count)] for column in summary.columns]
    parts: list[list[list[float]]] = [[] for _ in range(peers)]
    for _ in range(rng.randint(20, 400)):
        row = [0.0] * width
        for column, weights in zip(summary.columns, skew):
            level = rng.choices(range(column.count), weights)[0]
            if column.one_hot and level < len(column.levels):
                row[column.place + level] = 1.0
            elif column.levels is None:
                row[column.place] = float(rng.randint(0, 30))
                if column.indicator is not None and level:
                    row[column.indicator] = 1.0
        rng.choice(parts).append(row)
    return [summary.words(part) for part in parts]


def pattern(summary: Summary, words: list[list[int]]) -> list[bool]:
    def passes(cell: int) -> bool:
        own = [each[cell] for each in words]
        total = sum(own)
        enough = total >= summary.threshold and sum(rows > 0 for rows in own) >= summary.contributors
        return enough and all(total - rows >= summary.rest for rows in own) or summary.missing[cell] and total == 0

    return [passes(cell) for cell in range(len(summary.missing))]


def system(summary: Summary, is_open: list[bool], counts: list[int]) -> tuple[list[int], numpy.ndarray, numpy.ndarray]:
    """Returns the closed cells, and the equations that they satisfy."""
    closed = [cell for cell, each in enumerate(is_open) if not each]
    place = {cell: at for at, cell in enumerate(closed)}
    rows, known = [], []
    for total, parts in summary.equations():
        row, rest = numpy.zeros(len(closed)), 0
        for cell, factor in [*((part, 1) for part in parts), (total, -1)]:
            if cell in place:
                row[place[cell]] += factor
            else:
                rest -= factor * counts[cell]
        rows.append(row)
        known.append(rest)
    return closed, numpy.array(rows), numpy.array(known)


def exact(closed: list[int], equations: numpy.ndarray) -> list[int]:
    """Returns the closed cells that the equations determine, by elimination modulo a prime."""
    rows, top = equations.astype(numpy.int64) % PRIME, 0
    for column in range(len(closed)):
        pivots = numpy.flatnonzero(rows[top:, column])
        if not len(pivots):
            continue
        rows[[top, top + pivots[0]]] = rows[[top + pivots[0], top]]
        rows[top] = rows[top] * pow(int(rows[top, column]), PRIME - 2, PRIME) % PRIME
        others = numpy.flatnonzero(rows[:, column])
        others = others[others != top]
        rows[others] = (rows[others] - rows[others, column, None] * rows[top]) % PRIME
        top += 1
    single = rows[(rows != 0).sum(axis=1) == 1]
    return [closed[column] for column in numpy.nonzero(single)[1]]


def unions(summary: Summary, is_open: list[bool], passes: list[bool], counts: list[int]) -> int:
    """Returns the number of small sums of closed cells that are the difference of open numbers."""
    found = 0
    for total, parts in summary.equations():
        closed = [part for part in parts if not is_open[part]]
        if is_open[total] and closed and sum(counts[part] for part in closed) < summary.threshold:
            found += any(not passes[part] for part in closed)
    return found


def bounds(summary, closed, equations, known, passes, use_pattern):
    """Returns how many closed cells that do not pass have a single possible value."""
    from scipy.optimize import linprog

    limits = [(summary.threshold if use_pattern and passes[cell] and not summary.missing[cell] else 0, None) for cell in closed]
    fixed = seen = 0
    for at, cell in enumerate(closed):
        if passes[cell]:
            continue
        seen += 1
        target = numpy.zeros(len(closed))
        target[at] = 1
        ends = [linprog(sign * target, A_eq=equations, b_eq=known, bounds=limits) for sign in (1, -1)]
        fixed += all(end.status == 0 for end in ends) and -ends[1].fun - ends[0].fun < 0.5
    return fixed, seen


LIMIT = 2**40


def signed(number: int) -> int:
    return (number + LIMIT // 2) % LIMIT - LIMIT // 2


def searched(owners: list[list[int]], rank: int, bits: int) -> tuple[int, list[int], list[int], list[int], bool]:
    """Searches as the computing members do. Returns the value, each owner's rows below, at and above it, and whether all counts are valid."""
    blocks, below, value, valid = [list(own) for own in owners], [0] * len(owners), 0, True
    total = [sum(own) for own in owners]
    while bits:
        width = (bits - 1) % 4 + 1
        digit, child = 2**width, 2 ** (bits - width)
        cut = [[own[at:at + child] for at in range(0, len(own), child)] for own in blocks]
        sums = [[sum(block) for block in own] for own in cut]
        valid &= all(signed(count) >= 0 and signed(2**24 - count) >= 0 for own in sums for count in own)
        prefix = [sum(below) + sum(sum(own[:at + 1]) for own in sums) for at in range(digit - 1)]
        beyond = [signed(20 * count - rank * sum(total)) < 0 for count in prefix]
        value += child * sum(beyond)
        for own, (blocks_of, counts) in enumerate(zip(cut, sums)):
            below[own] += sum(count for count, z in zip(counts, beyond) if z)
            chosen = list(blocks_of[0])
            for at, z in enumerate(beyond):
                if z:
                    chosen = [a + after - this for a, after, this in zip(chosen, blocks_of[at + 1], blocks_of[at])]
            blocks[own] = chosen
        bits -= width
    at = [own[0] for own in blocks]
    return value, below, at, [n - b - a for n, b, a in zip(total, below, at)], valid


def opens(owners: list[list[int]], bits: int, limits: tuple[int, int, int], planted: str) -> list[int | None]:
    """Returns the quantiles that open, and None for the others."""
    threshold, contributors, rest = limits

    def side(own: list[int]) -> bool:
        total = sum(own)
        enough = signed(total - threshold) >= 0 and sum(signed(rows - 1) >= 0 for rows in own) >= contributors
        return enough and all(signed(total - rows - rest) >= 0 for rows in own)

    found = []
    for rank in (1, 5, 10, 15, 19):
        value, below, at, above, valid = searched(owners, rank, bits)
        if planted == "ties":
            below, above = [b + a for b, a in zip(below, at)], [b + a for b, a in zip(above, at)]
        passes = side(below) and side(above) and (valid or planted == "checks")
        found.append(value if passes else None)
    return found


def quantiles(rng: random.Random, rounds: int, planted: str) -> tuple[int, int]:
    """Returns how many of these tries reveal where few rows of others are, and how many quantiles opened."""
    told = opened = 0
    for _ in range(rounds):
        bits = rng.randint(2, 7)
        size, limits = 2**bits, (10, 3, 5)
        edge = rng.randint(2, max(2, size // 3))
        honest = [[0] * size for _ in range(rng.randint(3, 5))]
        for own in honest:
            spots = [edge, *(rng.randrange(edge, size) for _ in range(rng.randint(1, 6)))]
            for _ in range(rng.randint(1, 40)):
                own[rng.choice(spots)] += 1
        few = rng.randint(1, limits[2] - 1)
        cases = []
        for _ in range(2):
            own = [0] * size
            for _ in range(few):
                own[rng.randrange(edge + 1)] += 1
            cases.append(own)
        rows = sum(map(sum, honest)) + few
        lie, kind = [0] * size, rng.randrange(3)
        if kind == 0:  # counts, around the rank of a quantile
            for _ in range(rng.randint(1, 3)):
                lie[rng.randrange(size)] += rng.choice([rng.randint(0, 2 * rows), rows - rng.randint(0, 2 * few)])
        elif kind == 1:  # rows that are taken away again
            some = rows // 2 + rng.randint(-few - 2, 2)
            lie[0], lie[rng.randrange(1, edge)] = some, -some
            lie[rng.randrange(edge, size)] += rng.randint(0, 30)
        else:  # numbers that overflow
            some = rows // 2 + rng.randint(-few - 2, 2)
            lie[0] = some
            at = rng.sample(range(1, size), 2)
            lie[at[0]], lie[at[1]] = LIMIT // 2 - some, LIMIT // 2
        if rng.random() < 0.5:
            honest, cases, lie = [own[::-1] for own in honest], [own[::-1] for own in cases], lie[::-1]
        results = []
        for case in cases:
            first = [a + b for a, b in zip(honest[0], case)]
            results.append(opens([first, *honest[1:], lie], bits, limits, planted))
        told += results[0] != results[1]
        opened += sum(value is not None for value in results[0])
    return told, opened


def pairs(rng: random.Random, rounds: int) -> tuple[int, int]:
    """Returns the number of these pairs of sessions with two open cells that differ by few rows, and the number of all pairs."""
    few = 0
    for _ in range(rounds):
        summary = session(rng)
        parts = owners(rng, summary)
        left = rng.randint(1, max(1, len(parts) - 3))
        joined = owners(rng, summary)[:max(0, 3 - left)]
        both = []
        for words in (parts, parts[left:] + joined):
            is_open, _, _ = summary.opened(pattern(summary, words), [True] * len(summary.measures), [])
            both.append([sum(own[cell] for own in words) if each else None for cell, each in enumerate(is_open)])
        known = [(a, b) for a, b in zip(*both) if a is not None and b is not None]
        few += any(0 < abs(a - b) < summary.threshold for a, b in known)
    return few, rounds


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--tables", type=int, default=10_000)
    words.add_argument("--bounds", type=int, default=500)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--plant", action="store_true")
    given = words.parse_args()
    rng = random.Random(given.seed)
    follows = small = cells = shut = 0
    single = {False: 0, True: 0}
    looked = 0
    for number in range(given.tables):
        summary = session(rng)
        parts = owners(rng, summary)
        counts = [sum(own[cell] for own in parts) for cell in range(len(summary.missing))]
        passes = pattern(summary, parts)
        is_open, _, _ = summary.opened(passes, [True] * len(summary.measures), [])
        if any(each and not passed for each, passed in zip(is_open, passes)):
            sys.exit("FAILED  a cell opens that does not pass")
        if given.plant and number % 10 == 0 and not all(is_open):
            is_open[rng.choice([cell for cell, each in enumerate(is_open) if not each])] = True
        closed, equations, known = system(summary, is_open, counts)
        follows += bool(exact(closed, equations))
        small += unions(summary, is_open, passes, counts) > 0
        cells, shut = cells + len(is_open), shut + len(closed)
        if number < given.bounds and closed:
            for use_pattern in single:
                fixed, seen = bounds(summary, closed, equations, known, passes, use_pattern)
                single[use_pattern] += fixed
            looked += seen
    print(f"{given.tables} sessions, {cells} cells, {shut} closed ({100 * shut / cells:.1f} %)")
    print(f"sessions in which a closed cell follows from open ones: {follows}")
    print(f"sessions in which a small sum of closed cells is known: {small}")
    if looked:
        print(f"of {looked} small cells a single value is possible: {single[False]} if counts are at least 0, "
              f"{single[True]} if the pattern is used, too")
    told = 0
    for planted in ["checks", "ties"] if given.plant else [""]:
        tries = max(given.tables, 3000)
        found, opened = quantiles(rng, tries, planted)
        bug = f" with the bug {planted!r}" if planted else ""
        print(f"{tries} tries to find few rows by quantiles{bug}: {found} reveal them, {opened} quantiles opened")
        told += found
        if given.plant and not found:
            sys.exit(f"FAILED  the audit does not find the bug {planted!r}")
    few, all_pairs = pairs(rng, given.tables // 10)
    print(f"{few} of {all_pairs} pairs of sessions of a series have two open cells that differ by few rows")
    if given.plant:
        sys.exit(0 if follows else "FAILED  the audit does not find what was planted")
    sys.exit(1 if follows or small or told else 0)


if __name__ == "__main__":
    main()
