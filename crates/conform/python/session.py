"""The session file, its id, council and plan (spec, sections 4 to 4.2 and 15), and trees (section 9).

Only the task flynn, without `select`, `[evaluate]`, `[table]` and `privacy.epsilon`: files that ask for any
of these are refused (M1.1).
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import sys
import tomllib
from typing import Any, Callable, NamedTuple

import numpy

from crypto import ballot_bytes, read_peer_id, tagged
from encoding import Ballot

SCORES = ("decay", "balanced-decay", "log", "balanced-log")
PLAIN = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"
ADDRESS = "/[!-~]{0,255}"
PRINTABLE = (r"(?! )( |[^\s\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
             r"\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]){1,64}(?<! )")
SECTIONS = ("series", "data", "flynn", "privacy", "council", "timing")
TIMING = {"gather_ms": (0, 3_600_000, 10_000), "propose_ms": (1, 3_600_000, 2_000),
          "stall_ms": (3_000, 3_600_000, 10_000), "quorum_ms": (1, 86_400_000, 60_000),
          "compute_ms": (1, 86_400_000, 600_000), "linger_ms": (0, 86_400_000, 30_000),
          "enlarge_ms": (0, 86_400_000, 30_000), "max_views": (1, 1_000, 16)}
LACKING = ("select", "evaluate", "table", "tune", "xclp", "sketch", "fedavg", "pseudo_labels", "custom")
LARGEST = sys.float_info.max
NEEDED = object()
PACKED = {bool: "<?", int: "<Q", float: "<d"}


class SessionError(ValueError):
    """A session file that must be refused."""


class Slot(NamedTuple):
    name: str
    word: int  # bytes
    words: int

    @property
    def length(self) -> int:
        return self.word * self.words


# --- checks: from what stands in the file to what it means


def need(good: bool, what: str) -> None:
    if not good:
        raise SessionError(what)


def known(x: Any, *fields: str) -> list[Any]:
    """The fields of a table that has no others; None for one that is missing."""
    need(isinstance(x, dict) and set(x) <= set(fields), f"must be a table of {fields}")
    return [x.get(name) for name in fields]


def whole(x: Any, low: int, high: int) -> int:
    need(type(x) is int and low <= x <= high, f"must be a whole number, {low} to {high}")
    return x


def number(x: Any, low: float = -LARGEST, high: float = LARGEST) -> float:
    need(type(x) in (int, float) and low <= x <= high, f"must be a number, {low} to {high}")
    return float(x) + 0.0  # -0 counts as 0


def single(x: Any) -> float:
    """A number, rounded to binary32."""
    with numpy.errstate(over="ignore"):
        return number(float(numpy.float32(number(x))))


def choice(x: Any, *choices: str) -> str:
    need(x in choices, f"must be one of {choices}")
    return x


def boolean(x: Any) -> bool:
    need(type(x) is bool, "must be true or false")
    return x


def matching(x: Any, pattern: str) -> str:
    need(isinstance(x, str) and re.fullmatch(pattern, x) is not None, f"must match {pattern}")
    return x


def digits(x: Any, length: int) -> bytes:
    return bytes.fromhex(matching(x, f"[0-9a-f]{{{2 * length}}}"))


def entries(x: Any, low: int, high: int, check: Callable[..., Any], *limits: Any) -> list[Any]:
    need(isinstance(x, list) and low <= len(x) <= high, f"must be {low} to {high} entries")
    return [check(entry, *limits) for entry in x]


def names(x: Any, low: int, high: int, check: Callable[..., Any], *limits: Any) -> list[str]:
    found = entries(x, low, high, check, *limits)
    need(len(set(found)) == len(found), "must be all different")
    return found


def instant(x: Any) -> int:
    good = isinstance(x, datetime.datetime) and x.utcoffset() == datetime.timedelta(0)
    need(good and x.microsecond == 0 and x.year >= 1970, "must be as 2026-11-22T16:05:06Z")
    return int(x.timestamp())


def multiple(x: Any, letter: str, of: int, least: int, low: int, high: int) -> int:
    """A whole number, or a text such as "0.5d"."""
    if isinstance(x, str):
        factor = float(matching(x, "[0-9.]{1,32}" + letter)[:-1])
        need(factor > 0, "must be positive")
        x = max(math.trunc(factor * of), least)
    return whole(x, low, high)


def scaling(x: Any) -> tuple[Any, ...]:
    """Name and parameters."""
    if isinstance(x, str):
        return (choice(x, "none", "unit-norm", "center", "standard"),)
    if isinstance(x, dict) and "range" in x:
        lo, hi = map(single, known(x["range"], "lo", "hi"))
        need(len(x) == 1 and lo < hi, "must be one scaling, with lo below hi")
        return "range", lo, hi
    [bins] = known(known(x, "soft-bins")[0], "bins")
    return "soft-bins", whole(bins, 2, 64)


def limits(x: Any, columns: list[str]) -> dict[str, list[float | None]]:
    """Of each column the least and the largest value; None for no limit."""
    known(x, *columns)
    found = {}
    for column in sorted(x):
        ends = [None if end is None else number(end) for end in known(x[column], "min", "max")]
        given = [end for end in ends if end is not None]
        need(given != [] and given == sorted(given), "must be limits in order")
        found[column] = ends
    return found


def peer(x: Any) -> tuple[bytes, str, list[str]]:
    name, text, _ = known(x, "name", "peer_id", "addresses")
    addresses = entries(x.get("addresses", []), 0, 16, matching, ADDRESS)
    for address in addresses:
        named = address.rsplit("/p2p/", 1)[1:]
        need(named in ([], [text]), f"has the address {address} of another peer")
    return read_peer_id(matching(text, ".*")), matching(name, PLAIN), addresses


# --- the session


def with_length(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def encoded(x: Any) -> bytes:
    """A value as the id has it (section 4.1)."""
    if type(x) in PACKED:
        return struct.pack(PACKED[type(x)], x)
    if isinstance(x, list):
        return encoded(len(x)) + b"".join(with_length(encoded(item)) for item in x)
    if isinstance(x, tuple):
        return b"".join(map(encoded, x))
    return x.encode() if isinstance(x, str) else x or b""


class File:
    """A session file, read in the order of its id."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.entries: dict[str, bytes] = {}  # of the id
        self.left: dict[str, Any] = {}
        for name, x in tables.items():
            need(name not in LACKING, f"this peer lacks `{name}`, which the file asks for")
            need("." not in name, f"unknown field {name!r}")
            in_section = name in SECTIONS and isinstance(x, dict)
            self.left |= {f"{name}.{inner}": y for inner, y in x.items()} if in_section else {name: x}

    def take(self, name: str, check: Callable[..., Any], *limits: Any, default: Any = NEEDED) -> Any:
        """What a field means. `default` is as in a file, or None for nothing."""
        x = self.left.pop(name, default)
        need(x is not NEEDED, f"missing field {name}")
        try:
            return None if x is None else check(x, *limits)
        except ValueError as error:
            raise SessionError(f"{name} {error}") from None

    def enter(self, name: str, value: Any) -> None:
        if value is not None:
            self.entries[name] = with_length(name.encode()) + with_length(encoded(value))

    def read(self, name: str, check: Callable[..., Any], *limits: Any, default: Any = NEEDED) -> Any:
        """Takes a field that enters the id as it is."""
        value = self.take(name, check, *limits, default=default)
        self.enter(name, value)
        return value


class Session:
    def __init__(self, tables: dict[str, Any]) -> None:
        file = File(tables)
        self.read_head(file)
        self.read_data(file)
        self.read_flynn(file)
        self.min_holders = file.read("privacy.min_holders", whole, 1, len(self.roster), default=3)
        file.read("privacy.colluding", number, 0.01, 0.99, default=1 / 3)
        faults = file.take("council.faults", choice, "crash", "byzantine", default="crash")
        file.enter("council.faults", None if faults == "crash" else faults)
        chosen = file.take("council.members", names, 3, 15, choice, *self.names, default=None)
        file.enter("council.members", chosen and sorted(chosen))
        self.timing = {name: file.read(f"timing.{name}", whole, low, high, default=default)
                       for name, (low, high, default) in TIMING.items()}
        file.enter("roster.peer_id", self.roster)
        file.enter("roster.name", self.names)
        need(not file.left, f"this peer lacks the fields {sorted(file.left)}")

        self.id = tagged("session", *file.entries.values())
        self.fields = [(name, tagged("session field", entry)[:8]) for name, entry in file.entries.items()]
        members = [i for i, name in enumerate(self.names) if name in (chosen or self.names)]
        self.council = sorted(members, key=lambda i: tagged("council", self.id, self.roster[i]))[:15]
        c = len(self.council)
        need(faults == "crash" or c >= 4, "byzantine needs a council of at least 4")
        self.quorum = c // 2 + 1 if faults == "crash" else (c + (c - 1) // 3 + 2) // 2

    def read_head(self, file: File) -> None:
        peers = sorted(file.take("roster", entries, 3, 1024, peer))
        self.roster, self.names, self.addresses = map(list, zip(*peers))
        p = len(peers)
        need(len(set(self.roster)) == len(set(self.names)) == p, "peers must be all different")
        file.take("relays", entries, 0, 8, matching, ADDRESS + "/p2p/[0-9A-Za-z]+", default=[])
        self.name = file.read("name", matching, PLAIN)
        file.read("number", digits, 16)
        file.read("created", instant)
        place = file.read("series.number", whole, 2, 1_000_000, default=None)
        parent = file.read("series.parent", digits, 32, default=None)
        need((place is None) == (parent is None), "series must have both number and parent, or neither")
        file.read("task", choice, "flynn")
        least = max(p // 2 + 1, 3)
        self.min_peers = file.read("min_peers", whole, least, p, default=least)

    def read_data(self, file: File) -> None:
        self.features = width = file.read("data.features", whole, 1, 65_536)
        self.classes = file.read("data.classes", names, 2, 1000, matching, PRINTABLE)
        self.columns = file.take("data.columns", names, 0, self.features, matching, PRINTABLE, default=[])
        need(len(self.columns) in (0, self.features), "data.columns must be as many as data.features")
        file.enter("data.columns", self.columns or None)
        self.scaling, *self.scaling_values = file.read("data.scaling", scaling, default="none")
        if self.scaling == "soft-bins":
            width = whole(width * self.scaling_values[0], 1, 1 << 20)
        self.densify = file.read("data.densify", boolean, default=False)
        self.dimension = 1 << (width - 1).bit_length() if self.densify else width
        self.check_columns = file.read("data.check_columns", boolean, default=True)
        self.limits = file.take("columns", limits, self.columns, default={})
        items = [tuple(with_length(encoded(part)) for part in (column, *ends))
                 for column, ends in self.limits.items()]
        file.enter("columns", items or None)

    def read_flynn(self, file: File) -> None:
        labels, d = len(self.classes), self.dimension
        self.m = file.read("flynn.m", multiple, "d", d, 0, 1, (1 << 28) // labels)
        self.s = file.read("flynn.s", multiple, "d", d, 2, 2, d)
        self.rho = file.read("flynn.rho", multiple, "m", self.m, 2, 1, self.m)
        need(self.m * self.s <= 1 << 30, "m s must be at most 2^30")
        self.gamma = file.read("flynn.gamma", number, 0.0, math.nextafter(1.0, 0.0))
        self.score = file.read("flynn.score", choice, *SCORES, default="decay")
        self.squares = self.scaling in ("standard", "soft-bins") or self.check_columns
        self.plan = [Slot("coin", 4, 0), Slot("holders", 4, 1 + labels)]
        if self.squares or self.scaling == "center":
            self.plan.append(Slot("moments", 8, 1 + (9 if self.squares else 3) * self.features))
        self.plan.append(Slot("counts", 4, labels * self.m))

    def council_keys(self) -> list[bytes]:
        return [self.roster[i] for i in self.council]

    def dealers(self, slot: int, members: list[int]) -> list[int]:
        """Section 11."""
        present = [i for i in self.council if i in members]
        return present if slot == 0 else present[:3]

    def tree(self, ballot: Ballot, members: list[int]) -> list[int]:
        """Members in the order of places; the one at place i > 0 is below the one at (i - 1) // 2."""
        head = self.id + ballot_bytes(ballot)
        order = sorted(members, key=lambda i: tagged("tree", head, self.roster[i]))
        order.remove(ballot.proposer)
        return [ballot.proposer] + order

    def enough(self, peers: set[int]) -> bool:
        """Section 8: `min_peers` of the roster and a quorum of the council."""
        return len(peers) >= self.min_peers and len(peers & set(self.council)) >= self.quorum


def parse_session(data: bytes) -> Session:
    need(len(data) <= 1 << 20, "the file is above 1 MiB")
    try:
        return Session(tomllib.loads(data.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SessionError(str(error)) from None
