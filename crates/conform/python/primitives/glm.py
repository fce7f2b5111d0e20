"""The task `glm`: its section, its design, its sums and its fit (spec, section 15j)."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import NamedTuple

from .crypto import le
from .summary import BUCKETS, Column, described
from .table import Table, need

FIELDS = "family outcome event terms reference offset weights grid grids robust level rounds threshold rest compute"
FAMILIES = ("linear", "logistic", "poisson")
SCALARS = 5
# Largest number of new checks after lost members; each check takes two slots.
MOST_AGAIN = 3


def exp(x: float) -> float:
    """exp of the crate `libm`, which uses FreeBSD's formula."""
    if x > 709.782712893383973096:
        return math.inf
    if x < -745.13321910194110842:
        return 0.0
    size = abs(x)
    high = struct.unpack("<Q", struct.pack("<d", size))[0] >> 32
    if high > 0x3FD62E42:
        half = -0.5 if x < 0 else 0.5
        k = int(1.44269504088896338700e00 * x + half) if high >= 0x3FF0A2B2 else -1 if x < 0 else 1
        hi, lo = x - k * 6.93147180369123816490e-01, k * 1.90821492927058770002e-10
        x = hi - lo
    elif high > 0x3E300000:
        k, hi, lo = 0, x, 0.0
    else:
        return 1.0 + x
    xx = x * x
    tail = 6.61375632143793436117e-05 + xx * (-1.65339022054652515390e-06 + xx * 4.13813679705723846039e-08)
    c = x - xx * (1.66666666666666019037e-01 + xx * (-2.77777777770155933842e-03 + xx * tail))
    return math.ldexp(1.0 + (x * c / (2.0 - c) - lo + hi), k)


def log(x: float) -> float:
    """log of the crate `libm`, for a normal number above 0."""
    bits = struct.unpack("<Q", struct.pack("<d", x))[0]
    high = bits >> 32
    if x == 1.0:
        return 0.0
    high += 0x3FF00000 - 0x3FE6A09E
    k = (high >> 20) - 0x3FF
    high = (high & 0xFFFFF) + 0x3FE6A09E
    x = struct.unpack("<d", struct.pack("<Q", high << 32 | bits & 0xFFFFFFFF))[0]
    f = x - 1.0
    hfsq = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    one = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    three = 1.818357216161805012e-01 + w * 1.479819860511658591e-01
    two = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * three))
    return s * (hfsq + (two + one)) + k * 1.90821492927058770002e-10 - hfsq + f + k * 6.93147180369123816490e-01


def fixed(x: float, bits: int) -> int:
    return round(math.ldexp(x, bits))


def x_log_x(x: float) -> float:
    return x * log(x) if x > 0 else 0.0


def log_factorial(k: float) -> float:
    if k >= 64:
        i = 1.0 / (k * k)
        series = (1.0 / 12.0 - i * (1.0 / 360.0 - i / 1260.0)) / k
        return (k + 0.5) * log(k) - k + 0.9189385332046727 + series
    total = 0.0
    for at in range(2, int(k) + 1):
        total += log(float(at))
    return total


class Product(NamedTuple):
    """A product of numbers over the rows of a cell."""

    columns: tuple[int, ...]
    cell: int


class Entry(NamedTuple):
    """A number of the first round: a factor times a sum of words of the check, each with its factor."""

    at: int
    factor: int
    parts: list[tuple[int, int]]


class Row(NamedTuple):
    columns: list[int]
    outcome: float
    offset: float
    weight: float


class Glm:
    def __init__(self, given: dict, table: Table | None, features: list[str], names: list[str], owners: int) -> None:
        need(set(given) <= set(FIELDS.split()) | {"cheaters", "open", "site_effects"}, "unknown field")
        self.family, self.outcome_name = given.get("family", "linear"), given.get("outcome", "")
        self.event_name, self.terms = given.get("event"), given.get("terms", [])
        self.reference = given.get("reference", {})
        self.offset_name, self.weights_name = given.get("offset"), given.get("weights")
        self.grid, self.grids = float(given.get("grid", 0.01)), {k: float(v) for k, v in given.get("grids", {}).items()}
        self.robust, self.level, self.rounds = given.get("robust", False), float(given.get("level", 0.95)), given.get("rounds", 25)
        self.threshold, self.rest, self.contributors = given.get("threshold", 10), given.get("rest", 5), max(1, owners)
        self.compute, self.cheaters = given.get("compute", []), given.get("cheaters", "caught")
        need(given.get("open", "matrices") == "matrices" and given.get("site_effects", False) is False, "glm.open")
        need(self.family in FAMILIES, "glm.family")
        need(set(self.compute) <= set(names) and len(set(self.compute)) == len(self.compute) in (0, 3, 4), "compute")
        need(self.cheaters in ("caught", "trusted"), "glm.cheaters")
        need(10 <= self.threshold <= 1_000_000 and 1 <= self.rest <= self.threshold, "glm.threshold")
        need(1 <= self.rounds <= 100 and 0.5 <= self.level <= 0.999, "glm.rounds")
        need(all(1e-9 <= grid <= 1e9 for grid in (self.grid, *self.grids.values())), "glm.grid")
        self.sources = {column.name: column for column in described(table, features)}
        self.variables: list[Column] = []
        self.outcome = self.variable(self.outcome_name)
        self.binary = self.family == "logistic" and self.variables[self.outcome].levels is None
        if self.binary:
            self.variables[self.outcome] = self.variables[self.outcome]._replace(levels=["0", "1"])
            need(not self.variables[self.outcome].date, "glm.outcome")
        levels = self.variables[self.outcome].levels
        need(len(levels) == 2 if self.family == "logistic" and levels else levels is None, "glm.outcome")
        need(self.event_name is None or bool(levels) and self.event_name in levels, "glm.event")
        self.event = 1 if self.event_name is None else levels.index(self.event_name)
        self.offset, self.weights = (None if name is None else self.variable(name) for name in (self.offset_name, self.weights_name))
        need(all(at is None or self.variables[at].levels is None for at in (self.offset, self.weights)), "glm.offset")
        taken = [column.name for column in self.variables]
        terms = self.terms or [name for name in self.sources if name not in taken]
        need(len(set(terms)) == len(terms), "glm.terms")
        sets: list[list[int]] = [[]]
        for term in terms:
            parts = self.split(term)
            need(parts and len(set(parts)) == len(parts) and not set(parts) & set(taken), "glm.terms")
            sets.append([self.variable(name) for name in parts])
        used = {column.name: column for column in self.variables}
        need(all(name in used and used[name].levels is None for name in self.grids), "glm.grids")
        need(all(name in used and used[name].one_hot and level in used[name].levels for name, level in self.reference.items()), "glm.reference")
        self.columns: list[tuple[float, list[tuple[int, int | None]]]] = [(1.0, [])]
        for each in sets[1:]:
            self.columns += self.expand(each)
        need(len(self.columns) <= 100, "columns")
        self.lay_out(sets)

    def variable(self, name: str) -> int:
        found = next((at for at, column in enumerate(self.variables) if column.name == name), None)
        if found is None:
            need(name in self.sources and not self.sources[name].fills, "column")
            self.variables.append(self.sources[name])
            found = len(self.variables) - 1
        return found

    def split(self, term: str) -> list[str]:
        if term in self.sources:
            return [term]
        for at, letter in enumerate(term):
            if letter == ":" and term[:at] in self.sources and term[at + 1 :] in self.sources:
                return [term[:at], term[at + 1 :]]
        return []

    def step(self, at: int) -> float:
        column = self.variables[at]
        if at == self.outcome and self.family == "poisson":
            return 1.0
        grid = self.grids.get(column.name, self.grid)
        return max(grid, 1.0) if column.date else grid

    def expand(self, each: list[int]) -> list[tuple[float, list[tuple[int, int | None]]]]:
        columns: list[tuple[float, list[tuple[int, int | None]]]] = [(1.0, [])]
        for at in each:
            column = self.variables[at]
            if column.one_hot:
                reference = self.reference.get(column.name, column.levels[0])
                own = [(1.0, (at, level)) for level, name in enumerate(column.levels) if name != reference]
            else:
                own = [(self.step(at) if column.levels is None else 1.0, (at, None))]
            need(bool(own), "glm.terms")
            columns = [(step * more, [*parts, part]) for step, parts in columns for more, part in own]
        return columns

    def lay_out(self, sets: list[list[int]]) -> None:
        pairs = []
        for at, one in enumerate(sets):
            pairs += [one + two for two in sets[at:]] + [one + [self.outcome]]
            pairs += [one + [self.offset]] if self.offset is not None else []
        tables: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for pair in pairs:
            factors = tuple(sorted({at for at in pair if self.variables[at].levels is not None}))
            product = tuple(sorted(set(pair) - set(factors)))
            singles = product if self.weights is None else (*product, self.weights)
            tables.setdefault(factors, set()).update({(at,) for at in singles} | ({product} if len(product) > 1 else set()))
        self.tables: list[tuple[tuple[int, ...], int]] = []
        self.measures: list[Product] = []
        count = 0
        for factors, numbers in tables.items():
            size = math.prod(len(self.variables[at].levels) for at in factors)
            self.tables.append((factors, count))
            self.measures += [Product(at, cell) for at in sorted(numbers) for cell in range(count, count + size)]
            count += size
        need(count <= 10_000 and len(self.measures) <= 4_000, "cells")
        self.missing = [False] * count
        self.entries_of_check = self.determined()

    @property
    def pattern_words(self) -> int:
        return -(-len(self.missing) // 64) + -(-len(self.measures) // 64)

    def plan(self, peers: int) -> list[tuple[str, int, int]]:
        q = len(self.columns)
        rounds = 1 + self.robust + (0 if self.family == "linear" else self.rounds)
        copies, entries = (6 * (1 + words) for words in (self.pattern_words, len(self.entries_of_check)))
        words = max(entries + 3 * (q * (q + 1) // 2 + q + SCALARS), 9 * peers, copies)
        return [("coin", 4, 0), ("holders", 4, 1), ("computed", 4, 9 * peers), ("pattern", 8, copies),
                *((f"fit-{at + 1}", 8, words) for at in range(rounds + 2 * MOST_AGAIN))]

    def entries(self, number, pack) -> list[tuple[str, bytes]]:
        """Returns the fields and their values in the session's id."""
        item = lambda data: le(len(data), 8) + data
        grids = sorted((name.encode(), grid) for name, grid in self.grids.items())
        reference = sorted((name.encode(), level.encode()) for name, level in self.reference.items())
        return [
            ("glm.family", self.family.encode()),
            ("glm.outcome", self.outcome_name.encode()),
            ("glm.event", (self.event_name or "").encode()),
            ("glm.terms", pack(name.encode() for name in self.terms)),
            ("glm.reference", pack(item(name) + item(level) for name, level in reference)),
            ("glm.offset", (self.offset_name or "").encode()),
            ("glm.weights", (self.weights_name or "").encode()),
            ("glm.grid", number(self.grid)),
            ("glm.grids", pack(item(name) + number(grid) for name, grid in grids)),
            ("glm.robust", bytes([self.robust])),
            ("glm.level", number(self.level)),
            ("glm.rounds", le(self.rounds, 8)),
            ("glm.threshold", le(self.threshold, 8)),
            ("glm.rest", le(self.rest, 8)),
            ("glm.compute", " ".join(self.compute).encode()),
            ("glm.cheaters", self.cheaters.encode()),
        ]

    def values(self, row: list[float]) -> list[int] | None:
        """Returns the level or the steps of each variable; None if a value is missing."""
        out = []
        for at, column in enumerate(self.variables):
            if self.binary and at == self.outcome:
                out.append(int(row[column.place]))
            elif column.levels is None:
                if column.level(row, []):
                    return None
                out.append(round(row[column.place] / self.step(at)))
                need(abs(out[-1]) <= 2**20, "a value beyond the grid")
            else:
                level = column.level(row, [])
                if level >= len(column.levels):
                    return None
                out.append(level)
        return out

    def row(self, row: list[float]) -> Row | None:
        values = self.values(row)
        if values is None:
            return None
        columns = []
        for _, parts in self.columns:
            columns.append(math.prod(values[at] if level is None else int(values[at] == level) for at, level in parts))
        number = lambda at: values[at] * self.step(at)
        outcome = float(values[self.outcome])
        if self.family == "logistic":
            outcome = float(values[self.outcome] == self.event)
        unit = self.step(self.outcome) if self.family == "linear" else 1.0
        offset = 0.0 if self.offset is None else number(self.offset) / unit
        return Row(columns, outcome, offset, 1.0 if self.weights is None else number(self.weights))

    def words(self, rows: list[list[float]]) -> list[int]:
        """Returns the words of an owner for the check."""
        cells, buckets = [0] * len(self.missing), [0] * (BUCKETS * len(self.measures))
        sums = [0] * (2 * len(self.measures))
        for row in rows:
            values = self.values(row)
            if values is None:
                continue
            weight = 1 if self.weights is None else fixed(values[self.weights] * self.step(self.weights), 44)
            inside = set()
            for factors, first in self.tables:
                place = 0
                for at in factors:
                    place = place * len(self.variables[at].levels) + values[at]
                cells[first + place] += 1
                inside.add(first + place)
            for number, measure in enumerate(self.measures):
                if measure.cell in inside:
                    steps = math.prod(values[at] for at in measure.columns)
                    buckets[BUCKETS * number + (steps * 0x9E3779B97F4A7C15 % 2**64 >> 60)] += 1
                    steps = 1 if measure.columns == (self.weights,) else steps
                    sums[2 * number] += weight * steps
                    sums[2 * number + 1] += weight * steps * steps
        return cells + buckets + [each % 2**64 for each in sums]

    def determined(self) -> list[Entry]:
        """Returns the numbers of the first round that follow from the words of the check."""
        q, weighted = len(self.columns), self.weights is not None
        parts = [parts for _, parts in self.columns]
        vector, outcome = q * (q + 1) // 2, (self.outcome, None)
        entries = [Entry(vector + q, 1, [(0, 1)])]
        pairs = [(i, j) for i in range(q) for j in range(i, q)]
        found = [self.entry(at, 1 if weighted else 2**44, parts[i] + parts[j], False) for at, (i, j) in enumerate(pairs)]
        if not weighted and self.offset is None and self.family == "linear":
            found += [self.entry(vector + j, 2**48, [*parts[j], outcome], False) for j in range(q)]
            found.append(self.entry(vector + q + 3, 2**40, [outcome, outcome], False))
        if not weighted and self.offset is None and self.family == "logistic":
            found += [self.entry(vector + j, fixed(log(3.0), 48), parts[j], True) for j in range(q)]
        if not weighted and self.family == "poisson":
            found.append(self.entry(vector + q + 2, 2**40, [outcome], False))
        return entries + [entry for entry in found if entry]

    def entry(self, at: int, factor: int, parts: list[tuple[int, int | None]], signed: bool) -> Entry | None:
        """Returns the entry that sums the product of these parts over all rows; with a sign for the outcome."""
        numbers = [column for column, _ in parts if self.variables[column].levels is None]
        factors = tuple(sorted({column for column, _ in parts} - set(numbers) | ({self.outcome} if signed else set())))
        powers = {numbers.count(column) for column in numbers} or {1}
        if len(powers) > 1:
            return None
        columns = tuple(sorted(set(numbers))) or (() if self.weights is None else (self.weights,))
        first = dict(self.tables)[factors]
        sizes = [len(self.variables[column].levels) for column in factors]
        words = []
        for cell in range(math.prod(sizes)):
            levels, rest = {}, cell
            for column, size in zip(reversed(factors), reversed(sizes)):
                rest, levels[column] = divmod(rest, size)
            value = math.prod(levels[column] if level is None else int(levels[column] == level)
                              for column, level in parts if column in levels)
            if signed and levels[self.outcome] != self.event:
                value = -value
            word = first + cell
            if columns:
                measure = self.measures.index(Product(columns, first + cell))
                word = len(self.missing) + 2 * measure + max(powers) - 1
            if value:
                words.append((word, value))
        return Entry(at, factor, words)

    def checked(self, words: list[int]) -> list[int]:
        """Returns the entries of the first round without their factors, mod 2^64, from the words of the check."""
        cells = len(self.missing)
        totals = words[:cells] + words[cells + BUCKETS * len(self.measures):]
        return [sum(factor * totals[at] for at, factor in entry.parts) % 2**64 for entry in self.entries_of_check]

    def agrees(self, checked: list[int], first: list[int]) -> bool:
        return all(first[entry.at] % entry.factor == 0 and first[entry.at] // entry.factor % 2**64 == own
                   for entry, own in zip(self.entries_of_check, checked))

    def mean(self, e: float) -> float:
        if self.family == "linear":
            return e
        if self.family == "poisson":
            return exp(min(e, 13.0))
        part = exp(-abs(e))
        return part / (1.0 + part) if e < 0 else 1.0 / (1.0 + part)

    def add(self, coefficients: list[float] | None, shift: int | None, row: Row) -> tuple[int, int, list[int]]:
        """Returns W, V and the scalars of a row: in the first round, in a round at coefficients, or in
        the round of robust errors."""
        y, w = row.outcome, row.weight
        if coefficients is None:
            start = {"linear": y, "logistic": log(3.0) * (2.0 * y - 1.0), "poisson": 0.0}[self.family]
            z = (log(y + 0.5) if self.family == "poisson" else start) - row.offset
            third, constant = 0.0, 0.0
            if self.family == "linear":
                third, constant = w * z * z, log(w)
            elif self.family == "poisson":
                third, constant = w * x_log_x(y), w * (x_log_x(y) - y - log_factorial(y))
            second = w * (z if self.family == "linear" else y)
            return fixed(w, 44), fixed(w * z, 48), [1, *(fixed(x, 40) for x in (w, second, third, constant))]
        e = row.offset
        for x, coefficient in zip(row.columns, coefficients):
            e = e + float(x) * coefficient
        m = self.mean(e)
        r = w * (y - m)
        if shift is not None:
            return round(min(math.ldexp(r * r, shift), 2.0**63)), 0, [1, 0, 0, 0, 0]
        if self.family == "logistic":
            part = exp(-abs(e))
            v, t = part / ((1.0 + part) * (1.0 + part)), e if y > 0.5 else -e
            d = 2.0 * (max(-t, 0.0) + log(1.0 + exp(-abs(t))))
        else:
            v, d = m, 2.0 * (x_log_x(y) - y * min(e, 13.0) - (y - m))
        own = min(round(math.ldexp(w * v, 44)), 2**63)
        return own, fixed(r, 48), [1, fixed(w * d, 40), fixed(r * r, 40), 0, 0]

    def sums(self, coefficients: list[float] | None, shift: int | None, rows: list[Row]) -> list[int]:
        """Returns the whole numbers of a round: the matrix, the vector, the scalars."""
        q = len(self.columns)
        pairs = [(i, j) for i in range(q) for j in range(i, q)]
        matrix, vector, scalars = [0] * len(pairs), [0] * q, [0] * SCALARS
        for row in rows:
            own, part, more = self.add(coefficients, shift, row)
            x = row.columns
            for place, (i, j) in enumerate(pairs):
                matrix[place] += own * x[i] * x[j]
            vector = [sum_ + part * each for sum_, each in zip(vector, x)]
            scalars = [a + b for a, b in zip(scalars, more)]
        return matrix + vector + scalars

    def follow(self, opened: list[list[int]]) -> tuple[str, object, object]:
        """Returns ("round", coefficients, shift), ("done", coefficients, None) or ("failed", reason, None)."""
        q = len(self.columns)
        count = q * (q + 1) // 2
        if not opened:
            return "round", None, None
        solved = lambda sums: solve(sums[:count], sums[count : count + q], q)
        first = opened[0]
        step, length = solved(first)
        if step is None:
            return "failed", "dependent", None
        if self.family == "linear":
            squares = float(max(Fraction(first[count + q + 3], 2**40) - length, 0))
            bound = squares * 1024.0 if self.weights is not None else squares
            return self.last(step, opened[1:], bound)
        at, good, before, slow, halvings = step, None, math.inf, 0, 0
        for number in range(1, self.rounds + 1):
            if number >= len(opened):
                return "round", at, None
            sums = opened[number]
            deviance = float(Fraction(sums[count + q + 1], 2**40))
            if good and deviance > good[1] + 1e-9 * (abs(good[1]) + 0.1):
                halvings += 1
                if halvings > 10:
                    return "failed", "rounds", None
                at = [0.5 * (a + b) for a, b in zip(at, good[0])]
                continue
            halvings = 0
            step, length = solved(sums)
            if step is None:
                return "failed", "separated", None
            length, after = float(length), [a + b for a, b in zip(at, step)]
            if length <= 1e-20:
                return self.last(after, opened[number + 1 :], float(Fraction(sums[count + q + 2], 2**40)))
            slow = slow + 1 if before < 1e-3 and length > 0.1 * before else 0
            if slow == 2:
                return "failed", "separated", None
            before, good, at = length, (at, deviance), after
        return "failed", "rounds", None

    def last(self, coefficients: list[float], rest: list[list[int]], squares: float) -> tuple[str, object, object]:
        if self.robust and not rest:
            return "round", coefficients, min(max(62 - math.frexp(max(squares, 1e-30))[1], 0), 120)
        return "done", coefficients, None

    def estimates(self, coefficients: list[float]) -> list[float]:
        unit = self.step(self.outcome) if self.family == "linear" else 1.0
        return [b * (unit / step) for b, (step, _) in zip(coefficients, self.columns)]


def digits(numbers: list[int]) -> list[int]:
    """Returns the words of whole numbers: three centred digits to the base 2^40 each."""
    words = []
    for x in numbers:
        for _ in range(2):
            above = (x + 2**39) >> 40
            words.append((x - (above << 40)) % 2**64)
            x = above
        words.append(x % 2**64)
    return words


def rounded(x: Fraction) -> float:
    """Returns a number rounded to 40 significant bits, halves to even."""
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent += size >= Fraction(2) ** exponent
    unit = Fraction(2) ** (exponent - 40)
    return math.ldexp(float(round(x / unit)), exponent - 40)


def solve(matrix: list[int], vector: list[int], q: int) -> tuple[list[float] | None, Fraction]:
    """Solves by elimination over fractions; None if a column depends on those before it."""
    places = iter(matrix)
    rows = [[Fraction(0)] * (q + 1) for _ in range(q)]
    for i in range(q):
        for j in range(i, q):
            rows[i][j] = rows[j][i] = Fraction(next(places), 2**44)
        rows[i][q] = Fraction(vector[i], 2**48)
    diagonal = [rows[i][i] for i in range(q)]
    for i in range(q):
        if rows[i][i] <= diagonal[i] * Fraction(1, 10**22):
            return None, Fraction(0)
        for k in range(i + 1, q):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b if at >= i else a for at, (a, b) in enumerate(zip(rows[k], rows[i]))]
    out = [Fraction(0)] * q
    for i in reversed(range(q)):
        out[i] = (rows[i][q] - sum(rows[i][k] * out[k] for k in range(i + 1, q))) / rows[i][i]
    length = sum(step * Fraction(each, 2**48) for step, each in zip(out, vector))
    return [rounded(x) for x in out], length
