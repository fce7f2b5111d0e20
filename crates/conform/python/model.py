"""The task flynn: vectors of a peer, refusals, and the model file (spec, sections 15 and 19)."""

from __future__ import annotations

import csv
import functools
import math
import operator
import struct
import time
from decimal import Decimal
from typing import NamedTuple

import numpy
from primitives import PROTOCOL, VERSION
from primitives.crypto import Stream, signed_words, tagged

from session import Session

ROW_LIMIT = (1 << 23) - 1
WITH_MEANS = ("center", "standard", "soft-bins")
WITH_DEVIATIONS = ("standard", "soft-bins")
SCORES = ("decay", "balanced-decay", "log", "balanced-log")
SCALINGS = ("none", "unit-norm", "range", "center", "standard", "soft-bins")


class DataError(ValueError):
    """Rows of this peer that do not fit the session."""


class Refused(Exception):
    """Values for which the rules of section 15 end the session."""


def demand(good: bool, text: str) -> None:
    if not good:
        raise DataError(text)


def nearest32(text: str) -> float:
    """Rounds a decimal number to the nearest binary32, with a single rounding.

    The intermediate value is the nearest binary64. If it is even and not exact, it is replaced by the odd
    binary64 on the other side of the number. An odd binary64 is never half-way between two binary32 numbers.
    """
    x = float(text)
    if math.isfinite(x) and x != 0.0 and numpy.float64(x).view(numpy.int64) % 2 == 0:
        exact = Decimal(text)
        if x != exact:
            x = math.nextafter(x, math.inf if exact > x else -math.inf)
    with numpy.errstate(over="ignore"):
        return float(numpy.float32(x))


def read_rows(path: str, session: Session) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Reads a CSV file without header whose last column is the label."""
    classes = {name: n for n, name in enumerate(session.classes)}
    rows, labels = [], []
    with open(path, newline="") as file:
        for number, line in enumerate(csv.reader(file), 1):
            if not line:
                continue
            *values, label = line
            where = f"{path}: line {number}"
            demand(len(values) == session.features, f"{where} must have {session.features} features")
            demand(label in classes, f"{where} has the unknown class {label!r}")
            try:
                rows.append([nearest32(x) for x in values])
            except (ValueError, ArithmeticError):
                raise DataError(f"{where} has a feature that is not a number") from None
            labels.append(classes[label])
    table = numpy.array(rows, dtype=numpy.float64).reshape(len(rows), session.features)
    for column, ends in session.limits.items():
        low, high = ends.get("min"), ends.get("max")
        x = table[:, session.columns.index(column)]
        good = (low is None or (x >= low).all()) and (high is None or (x <= high).all())
        demand(good, f"{path}: a value of {column!r} is outside its limits")
    demand((numpy.abs(table) < 2.0**80).all(), f"{path}: a value is not finite, or of magnitude 2^80 or more")
    most = ((1 << 32) - 1) // len(session.roster)
    if len(session.plan) == 4:
        most = min(most, ROW_LIMIT)
    demand(len(rows) <= most, f"{path}: there are {len(rows)} rows, at most {most} are possible")
    return table.astype(numpy.float32), numpy.array(labels, dtype=numpy.int64)


# --- moments


def fixed_point(x: float) -> int:
    """Returns x 2^40, rounded with halves away from zero. Exact, because x has 24 bits."""
    return int(x * 2.0**40 + math.copysign(0.5, x))


def moments_of(rows: numpy.ndarray, squares: bool) -> bytes:
    columns = [[fixed_point(x) for x in column] for column in rows.T.tolist()]
    words = [len(rows), *map(sum, columns), *(sum(q * q for q in column) for column in columns if squares)]
    return b"".join(word.to_bytes(64, "little", signed=True) for word in words)


def typical(rows: numpy.ndarray) -> numpy.ndarray:
    """Returns the typical rows of a peer: means of the second and third quarter of each column's values."""
    n = len(rows)
    if n < 40:
        return numpy.empty((0, rows.shape[1]), numpy.float32)
    columns = [sorted(column) for column in rows.T.tolist()]
    quarters = (n // 4, n // 2), (n // 2, n - n // 4)
    means = [[functools.reduce(operator.add, values[a:b], 0.0) / (b - a) for values in columns] for a, b in quarters]
    return numpy.array(means).astype(numpy.float32)


def column_sums(session: Session, rows: numpy.ndarray) -> bytes:
    """Returns the vector of `moments`."""
    words = moments_of(rows, session.squares)
    return words + moments_of(typical(rows), True) if session.check_columns else words


class Moments:
    """Means and deviations from the opened sum. Refuses values that no rows can have."""

    def __init__(self, opened: bytes, features: int, squares: bool) -> None:
        words = signed_words(opened)
        middle = 1 + features
        n = words[0]
        if not 1 <= n <= ROW_LIMIT or len(words) != (1 + 2 * features if squares else middle):
            raise Refused("the opened moments have an impossible number of rows")
        sums, sums_of_squares = words[1:middle], words[middle:]
        if any(abs(s) > n << 120 for s in sums) or any(abs(p) > n << 240 for p in sums_of_squares):
            raise Refused("opened moments are out of range")
        self.means = [float(s) / float(n << 40) + 0.0 for s in sums]
        self.deviations = []
        for s, p in zip(sums, sums_of_squares):
            numerator = n * p - s * s
            if numerator < 0:
                raise Refused("opened moments have a negative variance")
            self.deviations.append(math.sqrt(float(numerator) / float((n * n) << 80)))


# --- scaling, matrix, winners


def scale(session: Session, rows: numpy.ndarray, moments: Moments | None) -> numpy.ndarray:
    x, kind = rows.astype(numpy.float64), session.scaling
    if kind == "range":
        lo, hi = session.scaling_values
        x = numpy.clip((x - lo) / (hi - lo), 0.0, 1.0)
    if kind in WITH_MEANS:
        x = x - numpy.array(moments.means)
    if kind in WITH_DEVIATIONS:
        x = quotient(x, numpy.array(moments.deviations))
    if kind == "soft-bins":
        [bins] = session.scaling_values
        p = (0.5 + x / (2.0 * numpy.sqrt(x * x + 2.0))) * (bins - 1)
        near = numpy.maximum(0.0, 1.0 - numpy.abs(p[:, :, None] - numpy.arange(bins)))
        x = near.reshape(len(x), bins * session.features)
    elif kind in ("unit-norm", "center", "standard"):
        x = quotient(x, numpy.sqrt(numpy.cumsum(x * x, axis=1)[:, -1:]))  # `sum` would add in another order
    return x.astype(numpy.float32)


def quotient(x: numpy.ndarray, by: numpy.ndarray) -> numpy.ndarray:
    """Returns x / by, or 0 if the divisor is 0."""
    return numpy.divide(x, by, out=numpy.zeros_like(x), where=by != 0)


def densified(x: numpy.ndarray, seed: bytes, dimension: int) -> numpy.ndarray:
    width = x.shape[1]
    signs = Stream(seed, "flynn/signs", struct.pack("<I", width)).take(-(-width // 8))
    bits = numpy.unpackbits(numpy.frombuffer(signs, numpy.uint8), bitorder="little")[:width]
    x = numpy.where(bits == 1, -x, x)
    x = numpy.pad(x, ((0, 0), (0, dimension - width)))
    for level in range(dimension.bit_length() - 1):
        pairs = x.reshape(len(x), dimension >> level + 1, 2, 1 << level)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = numpy.stack([a + b, a - b], axis=2).reshape(len(x), dimension)
    return x


def matrix(seed: bytes, m: int, d: int, s: int) -> numpy.ndarray:
    stream = Stream(seed, "flynn/matrix", struct.pack("<III", m, d, s))
    result = numpy.empty((m, s), numpy.int64)
    for row in range(m):
        places: dict[int, int] = {}
        for i in range(s):
            j = i + stream.below(d - i)
            result[row, i] = places.get(j, j)
            places[j] = places.get(i, i)
    result.sort(axis=1)
    return result


def winners(x: numpy.ndarray, columns: numpy.ndarray, rho: int) -> numpy.ndarray:
    found = numpy.empty((len(x), rho), numpy.int64)
    for n, row in enumerate(x):  # row by row, to keep memory small
        p = numpy.cumsum(row[columns], axis=1)[:, -1]
        found[n] = numpy.sort(numpy.argsort(-p, kind="stable")[:rho])
    return found


def prepared(session: Session, seed: bytes, rows: numpy.ndarray, moments: Moments | None) -> numpy.ndarray:
    x = scale(session, rows, moments)
    return densified(x, seed, session.dimension) if session.densify else x


def counts_of(session: Session, x: numpy.ndarray, labels: numpy.ndarray, seed: bytes) -> numpy.ndarray:
    counts = numpy.zeros((len(session.classes), session.m), numpy.uint32)
    won = winners(x, matrix(seed, session.m, session.dimension, session.s), session.rho)
    numpy.add.at(counts, (labels[:, None], won), 1)
    return counts.reshape(-1).astype("<u4")


# --- the task for the machine


class Task(NamedTuple):
    session: Session
    rows: numpy.ndarray
    labels: numpy.ndarray

    def vector(self, slot: int, opened: dict[int, bytes]) -> bytes:
        """Returns this peer's vector of a slot. `opened` has the vectors of the slots opened before."""
        session, name = self.session, self.session.plan[slot].name
        present = numpy.bincount(self.labels, minlength=len(session.classes)) > 0
        if name == "coin":
            return b""
        if name == "holders":
            return numpy.array([len(self.rows) > 0, *present], dtype="<u4").tobytes()
        if name == "moments":
            return column_sums(session, self.rows)
        known = numpy.frombuffer(opened[1], "<u4")[1:] > 0
        if (present & ~known).any():
            raise DataError("rows of a class that no peer had when the holders were counted")
        x = prepared(session, opened[0], self.rows, self.moments(opened))
        return counts_of(session, x, self.labels, opened[0]).tobytes()

    def moments(self, opened: dict[int, bytes]) -> Moments | None:
        session = self.session
        return self.opened_moments(opened[2]) if len(session.plan) == 4 else None

    def opened_moments(self, opened: bytes) -> Moments:
        """Returns the moments of all rows. The moments of typical rows serve only for comparisons,
        which this peer skips."""
        session = self.session
        words = 1 + (2 if session.squares else 1) * session.features
        return Moments(opened[:64 * words], session.features, session.squares)

    def check_opened(self, slot: int, opened: bytes) -> None:
        """Refuses opened values by the rules of section 15."""
        name = self.session.plan[slot].name
        if name == "holders":
            peers, *of_classes = numpy.frombuffer(opened, "<u4").tolist()
            least = self.session.min_contributors
            if peers < least or any(0 < n < least for n in of_classes):
                raise Refused(f"{peers} peers have rows, of each class {of_classes}; {least} are needed")
        if name == "moments":
            self.opened_moments(opened)

    def may_sum(self, slot: int, members: set[int], opened: dict[int, bytes], holders: list[int]) -> bool:
        """Checks *Small crowds* (section 10) and the task's rules. `holders` are the members of that slot."""
        if len(members) < 3:
            return False
        if slot <= 1 or 1 not in opened:
            return True
        peers, *of_classes = numpy.frombuffer(opened[1], "<u4").tolist()
        missing = len(set(holders) - members)
        needed = [peers] + [n for n in of_classes if n > 0]
        return all(max(n - missing, 0) >= self.session.min_contributors for n in needed)


# --- section 19


def text(x: str) -> bytes:
    data = x.encode()
    return struct.pack("<H", len(data)) + data


def model_file(session: Session, opened: dict[int, bytes], moments: Moments | None, members: list[int],
               program: str) -> bytes:
    body = struct.pack("<HIIII", VERSION, session.features, session.m, session.s, session.rho) + opened[0]
    body += bytes([session.densify, SCORES.index(session.score)]) + struct.pack("<d", session.gamma) + bytes(1)
    body += bytes([SCALINGS.index(session.scaling)])
    if session.scaling == "range":
        body += struct.pack("<Iff", 1, *session.scaling_values)
    if session.scaling == "soft-bins":
        body += struct.pack("<H", *session.scaling_values)
    if session.scaling in WITH_MEANS:
        body += numpy.array(moments.means, "<f8").tobytes()
    if session.scaling in WITH_DEVIATIONS:
        body += numpy.array(moments.deviations, "<f8").tobytes()
    body += struct.pack("<H", len(session.classes)) + b"".join(text(c) for c in session.classes)
    body += struct.pack("<I", len(session.columns)) + b"".join(text(c) for c in session.columns)
    body += opened[len(session.plan) - 1]
    origin = b"\x01" + text(session.name) + session.id
    origin += struct.pack("<HH", len(session.roster), len(members))
    origin += b"".join(text(session.names[i]) for i in sorted(members)) + b"\x00"
    origin += text(PROTOCOL.decode()) + text(program) + struct.pack("<Q", int(time.time()))
    checked = body + tagged("model", body) + origin
    return b"flyswarm-model\x00" + checked + tagged("model file", checked)

