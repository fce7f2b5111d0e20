#!/usr/bin/env python3
"""Audit of the closed cells of the task summary: what follows from the numbers that open?

    lab/scripts/audit-summary.py [--tables 10000] [--bounds 500] [--seed 1] [--plant]

Draws random sessions: columns, groups, cross tables, peers, rows. The second peer's code (crates/conform/python)
decides which cells open; the vectors check that it decides as the program does. Then for each closed cell,
over all tables of the session:

- Exact: is it a linear combination of open cells? By the null space of all equations (numpy). Must never be.
- Unions: is the sum of the closed cells of an equation that is known, of fewer rows than the threshold? Must
  never be.
- Bounds, for --bounds sessions, with scipy: do counts that are at least 0 leave it a single value? And if an
  attacker also uses the pattern (a cell that passes has at least `threshold` rows, one that does not has
  fewer, or rows of too few peers)? Both are counted.

`--plant` leaves the last step out: cells close in single equations, but combinations are not looked for in
a tenth of the sessions, and one closed cell is opened. The audit must find these.
"""

import argparse
import pathlib
import random
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "crates/conform/python"))
from primitives.summary import Summary  # noqa: E402
from primitives.table import Table  # noqa: E402


def session(rng: random.Random) -> Summary:
    columns = []
    for number in range(rng.randint(2, 4)):
        columns.append({"name": f"c{number}", "kind": "category", "levels": [str(i) for i in range(rng.randint(2, 5))]})
        if rng.random() < 0.4:
            columns[-1]["fill"] = ""
    columns.append({"name": "x", "kind": "number", "fill": 1.0, "indicator": True})
    names = [column["name"] for column in columns[:-1]]
    by = names[0] if rng.random() < 0.8 else None
    pairs = [(one, two) for at, one in enumerate(names) for two in names[at + 1:] if by not in (one, two)]
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
    """Returns the closed cells that all solutions agree on."""
    if not closed:
        return []
    _, values, vectors = numpy.linalg.svd(equations)
    null = vectors[int((values > 1e-9).sum()):]
    free = numpy.abs(null).max(axis=0) > 1e-7 if len(null) else numpy.zeros(len(closed), bool)
    return [cell for cell, is_free in zip(closed, free) if not is_free]


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
        is_open, _ = summary.opened(passes, [True] * len(summary.measures))
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
    if given.plant:
        sys.exit(0 if follows else "FAILED  the audit does not find what was planted")
    sys.exit(1 if follows or small else 0)


if __name__ == "__main__":
    main()
