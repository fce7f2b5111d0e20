"""The task `summary`: its section, the cells of its tables, and the cells that stay closed (spec, section 15i)."""

from __future__ import annotations

from typing import NamedTuple

from .crypto import le
from .table import Table, need

BUCKETS = 16
PRIME = 2**61 - 1


class Column(NamedTuple):
    """A column: its levels (none of a number), its place in a row, and the place of its indicator."""

    name: str
    levels: list[str] | None
    one_hot: bool
    place: int
    indicator: int | None
    misses: bool
    fills: bool
    date: bool

    @property
    def count(self) -> int:
        return (1 if self.levels is None else len(self.levels)) + self.misses

    def level(self, row: list[float]) -> int:
        own = len(self.levels or [0])
        if self.indicator is not None and row[self.indicator] > 0.5:
            return own
        if self.levels is None:
            return 0
        if not self.one_hot:
            return int(row[self.place])
        return next((level for level in range(own) if row[self.place + level] > 0.5), own)


class Measure(NamedTuple):
    column: int
    group: int | None
    cell: int


def described(table: Table | None, names: list[str]) -> list[Column]:
    if table is None:
        return [Column(name, None, False, place, None, False, False, False) for place, name in enumerate(names)]
    out, place = [], 0
    for column in table.columns:
        kind, levels = column["kind"], column.get("levels")
        if kind == "ignored":
            continue
        indicator = column.get("indicator", False)
        width = (len(levels) if kind == "category" else 1) + indicator
        none = column.get("fill") == ""
        filled = "fill" in column or "fill_with" in column
        out.append(Column(
            column["name"], levels, kind == "category", place, place + width - 1 if indicator else None,
            indicator or none, filled and not indicator and not none, kind not in ("number", "category", "ordinal"),
        ))
        place += width
    return out


class Summary:
    def __init__(self, given: dict, table: Table | None, features: list[str], names: list[str], owners: int) -> None:
        need(set(given) <= set("columns by grid grids threshold rest table compute cheaters".split()), "unknown field")
        self.names, self.by = given.get("columns", []), given.get("by")
        self.grid, self.grids = float(given.get("grid", 0.01)), {k: float(v) for k, v in given.get("grids", {}).items()}
        self.threshold, self.rest, self.contributors = given.get("threshold", 10), given.get("rest", 5), max(1, owners)
        crossed = given.get("table", [])
        need(all(set(cross) == {"rows", "columns"} for cross in crossed), "summary.table")
        self.crossed = [(cross["rows"], cross["columns"]) for cross in crossed]
        self.compute, self.cheaters = given.get("compute", []), given.get("cheaters", "caught")
        need(set(self.compute) <= set(names) and len(set(self.compute)) == len(self.compute) in (0, 3, 4), "compute")
        need(self.cheaters in ("caught", "trusted"), "summary.cheaters")
        need(2 <= self.threshold <= 1_000_000 and 0 <= self.rest <= self.threshold, "summary.threshold")
        need(all(1e-9 <= grid <= 1e9 for grid in (self.grid, *self.grids.values())), "summary.grid")
        every = described(table, features)
        need(len(set(self.names)) == len(self.names) and set(self.names) <= {column.name for column in every}, "columns")
        self.columns = [next(c for c in every if c.name == name) for name in self.names] if self.names else every
        need(self.columns and not any(column.fills for column in self.columns), "fill")
        places = {column.name: at for at, column in enumerate(self.columns)}
        counted = lambda name: name in places and self.columns[places[name]].levels is not None
        need(self.by is None or counted(self.by), "summary.by")
        need(all(name in places and not counted(name) for name in self.grids), "summary.grids")
        pairs = [(at, places[self.by]) for at in range(len(self.columns)) if at != places[self.by]] if self.by else []
        for rows, columns in self.crossed:
            need(counted(rows) and counted(columns) and rows != columns, "summary.table")
            pair = places[rows], places[columns]
            need(pair not in pairs and pair[::-1] not in pairs, "summary.table")
            pairs.append(pair)
        self.group = places[self.by] if self.by else None
        last = lambda at, level: self.columns[at].misses and level == self.columns[at].count - 1
        self.missing, self.firsts, self.tables = [False], [], []
        for at, column in enumerate(self.columns):
            self.firsts.append(len(self.missing))
            self.missing += [last(at, level) for level in range(column.count)] if column.count > 1 else []
        for one, two in pairs:
            self.tables.append((one, two, len(self.missing)))
            sizes = [self.columns[at].count for at in (one, two)]
            if min(sizes) > 1:
                self.missing += [last(one, i) or last(two, j) for i in range(sizes[0]) for j in range(sizes[1])]
        need(len(self.missing) <= 10_000, "cells")
        self.measures: list[Measure] = []
        for at, column in enumerate(self.columns):
            if column.levels is not None:
                continue
            self.measures.append(Measure(at, None, self.one(at, 0)))
            if self.by and self.columns[self.group].count > 1:
                table_of = next(entry for entry in self.tables if entry[:2] == (at, self.group))
                self.measures += [Measure(at, g, self.two(table_of, 0, g)) for g in range(self.columns[self.group].count)]

    def one(self, column: int, level: int) -> int:
        return self.firsts[column] + level if self.columns[column].count > 1 else 0

    def two(self, table: tuple[int, int, int], row: int, column: int) -> int:
        one, two, first = table
        if self.columns[one].count == 1:
            return self.one(two, column)
        if self.columns[two].count == 1:
            return self.one(one, row)
        return first + row * self.columns[two].count + column

    @property
    def pattern_words(self) -> int:
        return -(-len(self.missing) // 64) + -(-len(self.measures) // 64)

    @property
    def totals(self) -> int:
        return len(self.missing) + 2 * len(self.measures)

    def plan(self, peers: int) -> list[tuple[str, int, int]]:
        return [("coin", 4, 0), ("holders", 4, 1), ("computed", 4, 9 * peers),
                ("pattern", 8, 6 * (1 + self.pattern_words)), ("cells", 8, 6 * (1 + self.totals))]

    def entries(self, number, pack) -> list[tuple[str, bytes]]:
        """Returns the fields and their values in the session's id."""
        grids = sorted((name.encode(), grid) for name, grid in self.grids.items())
        return [
            ("summary.columns", pack(name.encode() for name in self.names)),
            ("summary.by", (self.by or "").encode()),
            ("summary.grid", number(self.grid)),
            ("summary.grids", pack(le(len(name), 8) + name + number(grid) for name, grid in grids)),
            ("summary.threshold", le(self.threshold, 8)),
            ("summary.rest", le(self.rest, 8)),
            ("summary.table", pack(pack(name.encode() for name in pair) for pair in self.crossed)),
            ("summary.compute", " ".join(self.compute).encode()),
            ("summary.cheaters", self.cheaters.encode()),
        ]

    def steps(self, column: Column, row: list[float]) -> int:
        grid = self.grids.get(column.name, self.grid)
        steps = round(row[column.place] / (max(grid, 1.0) if column.date else grid))
        need(abs(steps) <= 2**20, "a value beyond the grid")
        return steps

    def words(self, rows: list[list[float]]) -> list[int]:
        """Returns the words of an owner."""
        cells, measures = [0] * len(self.missing), len(self.measures)
        buckets, sums = [0] * (BUCKETS * measures), [0] * (2 * measures)
        for row in rows:
            levels = [column.level(row) for column in self.columns]
            need(all(level < column.count for level, column in zip(levels, self.columns)), "a row without a level")
            cells[0] += 1
            for at, column in enumerate(self.columns):
                cells[self.one(at, levels[at])] += column.count > 1
            for table in self.tables:
                one, two, _ = table
                cells[self.two(table, levels[one], levels[two])] += min(self.columns[at].count for at in (one, two)) > 1
            for number, measure in enumerate(self.measures):
                if levels[measure.column] or measure.group not in (None, self.group is not None and levels[self.group]):
                    continue
                steps = self.steps(self.columns[measure.column], row)
                buckets[BUCKETS * number + (steps * 0x9E3779B97F4A7C15 % 2**64 >> 60)] += 1
                sums[2 * number] += steps
                sums[2 * number + 1] += steps * steps
        return [word % 2**64 for word in cells + buckets + sums]

    def equations(self) -> list[tuple[int, list[int]]]:
        out = []
        for at, column in enumerate(self.columns):
            if column.count > 1:
                out.append((0, [self.one(at, level) for level in range(column.count)]))
        for table in self.tables:
            rows, columns = (self.columns[at].count for at in table[:2])
            if min(rows, columns) == 1:
                continue
            out += [(self.one(table[0], i), [self.two(table, i, j) for j in range(columns)]) for i in range(rows)]
            out += [(self.one(table[1], j), [self.two(table, i, j) for i in range(rows)]) for j in range(columns)]
        return out

    def opened(self, cells: list[bool], measures: list[bool]) -> tuple[list[bool], list[bool]]:
        """Returns the cells and measures that open, from those that pass."""
        strong = [passes and not missing for passes, missing in zip(cells, self.missing)]
        found = opened(cells, strong, self.equations())
        passing = [passes and found[measure.cell] for measure, passes in zip(self.measures, measures)]
        strong = [passes and not self.missing[measure.cell] for measure, passes in zip(self.measures, measures)]
        groups: dict[int, tuple[int, list[int]]] = {}
        for number, measure in enumerate(self.measures):
            if measure.group is None:
                groups[measure.column] = number, []
            else:
                groups[measure.column][1].append(number)
        return found, opened(passing, strong, [each for each in groups.values() if each[1]])


def opened(passes: list[bool], strong: list[bool], equations: list[tuple[int, list[int]]]) -> list[bool]:
    is_open = list(passes)
    inside = lambda cell: [at for at, (total, parts) in enumerate(equations) if cell == total or cell in parts]

    def spoiled(total: int, parts: list[int]) -> bool:
        closed = [part for part in parts if not is_open[part]]
        if not is_open[total]:
            return not closed
        return len(closed) == 1 or 0 < len(closed) < len(parts) and not any(strong[part] for part in closed)

    def close(at: int) -> bool:
        total, parts = equations[at]

        def crossing(part: int) -> int:
            others = [equations[other] for other in inside(part) if other != at]
            return sum(not all(is_open[cell] for cell in (top, *cells)) for top, cells in others)

        candidates = [part for part in parts if is_open[part] and strong[part]]
        if candidates:
            chosen = min(candidates, key=lambda part: (-crossing(part), part))
        elif is_open[total]:
            chosen = total
        else:
            chosen = next((part for part in parts if is_open[part]), None)
        if chosen is not None:
            is_open[chosen] = False
        return chosen is not None

    while True:
        changed = False
        for at, equation in enumerate(equations):
            while spoiled(*equation) and close(at):
                changed = True
        if changed:
            continue
        found = determined(is_open, equations)
        if found is None:
            return is_open
        if not any(close(at) for at in inside(found)):
            return [False] * len(is_open)


def determined(is_open: list[bool], equations: list[tuple[int, list[int]]]) -> int | None:
    """Returns the first closed cell that is a linear combination of open ones, by elimination mod PRIME."""
    rows: dict[int, dict[int, int]] = {}

    def less(row: dict[int, int], other: dict[int, int], column: int) -> dict[int, int]:
        factor = row[column]
        merged = {at: (row.get(at, 0) - factor * other.get(at, 0)) % PRIME for at in {*row, *other}}
        return {at: value for at, value in merged.items() if value}

    for total, parts in equations:
        row = {part: 1 for part in parts if not is_open[part]} | ({} if is_open[total] else {total: PRIME - 1})
        for column in sorted(rows):
            if column in row:
                row = less(row, rows[column], column)
        if row:
            first = min(row)
            scale = pow(row[first], -1, PRIME)
            row = {at: value * scale % PRIME for at, value in row.items()}
            for column, other in rows.items():
                if first in other:
                    rows[column] = less(other, row, first)
            rows[first] = row
    return min((first for first, row in rows.items() if len(row) == 1), default=None)
