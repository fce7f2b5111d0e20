"""The task `summary`: its section, the cells of its tables, and the cells that stay closed (spec, section 15i)."""

from __future__ import annotations

from typing import NamedTuple

from .crypto import le
from .table import Table, need

BUCKETS = 16
QUANTILES = [1, 5, 10, 15, 19]
PRIME = 2**61 - 1


class Column(NamedTuple):
    """A column: its levels (a number has none), its place in a row, and the place of its indicator.
    `both` are two grouping columns whose pairs of levels are this column's levels; `nothing` says which
    levels mean a missing value."""

    name: str
    levels: list[str] | None
    one_hot: bool
    place: int
    indicator: int | None
    misses: bool
    fills: bool
    date: bool
    both: tuple[int, int, int] | None = None
    nothing: tuple[bool, ...] = ()

    @property
    def count(self) -> int:
        return (1 if self.levels is None else len(self.levels)) + self.misses

    def is_missing(self, level: int) -> bool:
        return self.nothing[level] if self.both else self.misses and level == self.count - 1

    def level(self, row: list[float], before: list[int]) -> int:
        if self.both:
            one, two, count = self.both
            return before[one] * count + before[two]
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


class Histogram(NamedTuple):
    column: int
    group: int | None
    low: int
    values: int


class Quantiles(NamedTuple):
    """Quantiles of a measure: the smallest value, the number of bits of a value minus the smallest one,
    and the histograms that count its rows."""

    measure: int
    low: int
    bits: int
    histograms: list[int]


def together(columns: list[Column], one: int, two: int) -> Column:
    first, second = columns[one], columns[two]
    pairs = [(i, j) for i in range(first.count) for j in range(second.count)]
    name = f"{first.name}, {second.name}"
    missing = tuple(first.is_missing(i) or second.is_missing(j) for i, j in pairs)
    return Column(name, [str(pair) for pair in pairs], True, 0, None, False, False, False, (one, two, second.count), missing)


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
        need(set(given) <= set("columns by grid grids ranges threshold rest table compute cheaters".split()), "unknown field")
        by = given.get("by", [])
        self.names, self.by = given.get("columns", []), [by] if isinstance(by, str) else by
        self.ranges = {name: tuple(map(float, ends)) for name, ends in given.get("ranges", {}).items()}
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
        need(all(map(counted, self.by)) and len(set(self.by)) == len(self.by) <= 2, "summary.by")
        need(all(name in places and not counted(name) for name in (*self.grids, *self.ranges)), "summary.grids")
        self.grouping, count = [places[name] for name in self.by], len(self.columns)
        if len(self.by) == 2:
            self.columns = [*self.columns, together(self.columns, *self.grouping)]
        self.group = count if len(self.by) == 2 else self.grouping[0] if self.by else None
        pairs = [(at, self.group) for at in range(count) if at not in self.grouping] if self.by else []
        for rows, columns in self.crossed:
            need(counted(rows) and counted(columns) and rows != columns, "summary.table")
            pair = places[rows], places[columns]
            need(pair not in pairs and pair[::-1] not in pairs, "summary.table")
            need(len(self.by) < 2 or set(pair) != set(self.grouping), "summary.table")
            pairs.append(pair)
        last = lambda at, level: self.columns[at].is_missing(level)
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
        self.histograms: list[Histogram] = []
        self.quantiles: list[Quantiles] = []
        for at, column in enumerate(self.columns):
            if column.levels is None and column.name in self.ranges:
                self.add_quantiles(at, column)
        self.quantiles.sort(key=lambda each: each.bits)
        need(sum(each.values for each in self.histograms) <= 2**19, "summary.ranges")
        need(sum(len(names) * 5 << each.bits for each in self.quantiles) <= 2**25, "summary.ranges")

    def add_quantiles(self, at: int, column: Column) -> None:
        ends = self.ranges[column.name]
        need(len(ends) == 2 and ends[0] < ends[1], "summary.ranges")
        low, high = (round(end / self.grid_of(column)) for end in ends)
        values, first = high - low + 1, len(self.histograms)
        need(2 <= values <= 2**14 and max(abs(low), abs(high)) <= 2**20, "summary.ranges")
        measures = [(number, each.group) for number, each in enumerate(self.measures) if each.column == at]
        own = [group for _, group in measures if group is not None] or [None]
        self.histograms += [Histogram(at, group, low, values) for group in own]
        every = list(range(first, len(self.histograms)))
        for measure, group in measures:
            mine = every if group is None else [first + group]
            self.quantiles.append(Quantiles(measure, low, (values - 1).bit_length(), mine))

    @property
    def scales(self) -> list[list[Quantiles]]:
        """Returns the quantiles by the number of bits of their values."""
        sizes = sorted({each.bits for each in self.quantiles})
        return [[each for each in self.quantiles if each.bits == bits] for bits in sizes]

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
        counts = [len(self.missing), len(self.measures), *(5 * len(scale) for scale in self.scales)]
        return sum(-(-count // 64) for count in counts)

    @property
    def totals(self) -> int:
        return len(self.missing) + 2 * len(self.measures) + 5 * len(self.quantiles)

    def plan(self, peers: int) -> list[tuple[str, int, int]]:
        return [("coin", 4, 0), ("holders", 4, 1), ("computed", 4, 9 * peers),
                ("pattern", 8, 6 * (1 + self.pattern_words)), ("cells", 8, 6 * (1 + self.totals))]

    def entries(self, number, pack) -> list[tuple[str, bytes]]:
        """Returns the fields and their values in the session's id."""
        grids = sorted((name.encode(), grid) for name, grid in self.grids.items())
        ranges = sorted((name.encode(), low, high) for name, (low, high) in self.ranges.items())
        return [
            ("summary.columns", pack(name.encode() for name in self.names)),
            ("summary.by", pack(name.encode() for name in self.by)),
            ("summary.grid", number(self.grid)),
            ("summary.grids", pack(le(len(name), 8) + name + number(grid) for name, grid in grids)),
            ("summary.ranges", pack(le(len(name), 8) + name + number(low) + number(high) for name, low, high in ranges)),
            ("summary.threshold", le(self.threshold, 8)),
            ("summary.rest", le(self.rest, 8)),
            ("summary.table", pack(pack(name.encode() for name in pair) for pair in self.crossed)),
            ("summary.compute", " ".join(self.compute).encode()),
            ("summary.cheaters", self.cheaters.encode()),
        ]

    def grid_of(self, column: Column) -> float:
        grid = self.grids.get(column.name, self.grid)
        return max(grid, 1.0) if column.date else grid

    def steps(self, column: Column, row: list[float]) -> int:
        steps = round(row[column.place] / self.grid_of(column))
        need(abs(steps) <= 2**20, "a value beyond the grid")
        return steps

    def words(self, rows: list[list[float]]) -> list[int]:
        """Returns the words of an owner."""
        cells, measures = [0] * len(self.missing), len(self.measures)
        buckets, sums = [0] * (BUCKETS * measures), [0] * (2 * measures)
        histograms = [[0] * each.values for each in self.histograms]
        for row in rows:
            levels: list[int] = []
            for column in self.columns:
                levels.append(column.level(row, levels))
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
            for found, each in zip(histograms, self.histograms):
                if not levels[each.column] and each.group in (None, self.group is not None and levels[self.group]):
                    steps = self.steps(self.columns[each.column], row)
                    found[min(max(steps - each.low, 0), each.values - 1)] += 1
        return [word % 2**64 for word in cells + buckets + sums + sum(histograms, [])]

    def equations(self) -> list[tuple[int, list[int]]]:
        out = []
        for at, column in enumerate(self.columns):
            if column.count > 1:
                out.append((0, [self.one(at, level) for level in range(column.count)]))
        if len(self.grouping) == 2:
            one, two = self.grouping
            seconds = self.columns[two].count
            for column, others in ((one, two), (two, one)):
                levels = range(self.columns[column].count if self.columns[column].count > 1 else 0)
                group = lambda level, other: level * seconds + other if column == one else other * seconds + level
                groups = lambda level: [group(level, other) for other in range(self.columns[others].count)]
                out += [(self.one(column, level), [self.one(self.group, at) for at in groups(level)]) for level in levels]
                for table in self.tables:
                    if column not in table[:2]:
                        continue
                    turned = table[0] == column
                    other = table[turned]
                    count = self.columns[other].count
                    of_both = next(each for each in self.tables if each[:2] == (other, self.group))
                    for row in range(count if count > 1 else 0):
                        for level in levels:
                            total = self.two(table, level, row) if turned else self.two(table, row, level)
                            out.append((total, [self.two(of_both, row, at) for at in groups(level)]))
        for table in self.tables:
            rows, columns = (self.columns[at].count for at in table[:2])
            if min(rows, columns) == 1:
                continue
            out += [(self.one(table[0], i), [self.two(table, i, j) for j in range(columns)]) for i in range(rows)]
            out += [(self.one(table[1], j), [self.two(table, i, j) for i in range(rows)]) for j in range(columns)]
        return out

    def opened(self, cells: list[bool], measures: list[bool], quantiles: list[bool]) -> tuple[list[bool], ...]:
        """Returns the cells, measures and quantiles that open, from those that pass."""
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
        of = [self.measures[each.measure].cell for each in self.quantiles for _ in QUANTILES]
        values = [passes and found[cell] for cell, passes in zip(of, quantiles)]
        return found, opened(passing, strong, [each for each in groups.values() if each[1]]), values


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
