"""The session file, its id, council and plan (spec, sections 4 to 4.2 and 15), and trees (section 9).

Only the task flynn, without `select`, `[evaluate]`, `[table]` and `privacy.epsilon`: files that ask for any
of these are refused (M1.1).
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import tomllib
import unicodedata
from typing import Any, NamedTuple

import numpy

from crypto import CryptoError, ballot_bytes, read_peer_id, tagged
from encoding import Ballot

PLAIN = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"
ADDRESS = "/[!-~]{0,255}"
SCORES = ("decay", "balanced-decay", "log", "balanced-log")
HIDDEN = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
                    "\U000e0000-\U000e0fff]")
TIMING = {"gather_ms": (0, 3_600_000, 10_000), "propose_ms": (1, 3_600_000, 2_000),
          "stall_ms": (3_000, 3_600_000, 10_000), "quorum_ms": (1, 86_400_000, 60_000),
          "compute_ms": (1, 86_400_000, 600_000), "linger_ms": (0, 86_400_000, 30_000),
          "enlarge_ms": (0, 86_400_000, 30_000), "max_views": (1, 1_000, 16)}
LACKING = {"select", "evaluate", "table", "tune", "xclp", "sketch", "fedavg", "pseudo_labels", "custom"}


class SessionError(ValueError):
    """A session file that must be refused."""


class Slot(NamedTuple):
    name: str
    word: int  # bytes
    words: int

    @property
    def length(self) -> int:
        return self.word * self.words


# --- types of fields


def need(good: bool, what: str) -> None:
    if not good:
        raise SessionError(what)


def whole(x: Any, low: int, high: int, what: str) -> int:
    need(type(x) is int and low <= x <= high, f"{what} is {x!r}, must be {low} to {high}")
    return x


def number(x: Any, what: str) -> float:
    need(type(x) in (int, float) and math.isfinite(x), f"{what} is {x!r}, must be a number")
    return float(x) + 0.0  # -0 counts as 0


def matching(pattern: str, x: Any, what: str) -> str:
    need(isinstance(x, str) and re.fullmatch(pattern, x) is not None, f"{what} is {x!r}")
    return x


def entries(x: Any, what: str, low: int, high: int) -> list[Any]:
    need(isinstance(x, list) and low <= len(x) <= high, f"{what} must be {low} to {high} entries")
    return x


def different(x: list[Any], what: str) -> list[Any]:
    need(len(set(x)) == len(x), f"{what} must be all different")
    return x


def printable(x: Any, what: str) -> str:
    need(isinstance(x, str) and 1 <= len(x) <= 64 and x == x.strip(" "), f"{what} must be 1 to 64 characters")
    good = all(c == " " or not (c.isspace() or unicodedata.category(c) in ("Cc", "Zl", "Zp")) for c in x)
    need(good and HIDDEN.search(x) is None, f"{what} must be printable")
    return x


def multiple(x: Any, letter: str, of: int, least: int, what: str) -> Any:
    """What a text such as "0.5d" means; anything else as it is."""
    if not isinstance(x, str):
        return x
    try:
        product = float(matching("[0-9.]{1,32}" + letter, x, what)[:-1]) * of
    except ValueError:
        raise SessionError(f"{what} is {x!r}") from None
    need(0 < product < math.inf, f"{what} must be positive")
    return max(math.trunc(product), least)


def known(table: Any, names: set[str], what: str) -> dict[str, Any]:
    need(isinstance(table, dict) and set(table) <= names, f"{what} must be a table of {sorted(names)}")
    return table


def le64(n: int) -> bytes:
    return struct.pack("<Q", n)


def double(x: float) -> bytes:
    return struct.pack("<d", x)


def with_length(data: bytes) -> bytes:
    return le64(len(data)) + data


def listing(items: list[bytes]) -> bytes:
    return le64(len(items)) + b"".join(map(with_length, items))


class File:
    """A session file, read in the order of its id: what is read also enters the id. In the end nothing may be
    left over."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.left: dict[str, Any] = {}
        self.fields: list[tuple[str, bytes]] = []
        for name, value in tables.items():
            need(name not in LACKING, f"the session file asks for `{name}`, which this peer lacks")
            if isinstance(value, dict) and name != "columns":
                self.left |= {f"{name}.{inner}": x for inner, x in value.items()}
            else:
                self.left[name] = value
        lacking = "privacy.epsilon" in self.left
        need(not lacking, "the session file asks for `privacy.epsilon`, which this peer lacks")

    def take(self, name: str, default: Any = None) -> Any:
        need(name in self.left or default is not None, f"missing field {name}")
        return self.left.pop(name, default)

    def enter(self, name: str, value: bytes) -> None:
        self.fields.append((name, value))

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        x = whole(self.take(name, default), low, high, name)
        self.enter(name, le64(x))
        return x

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        x = number(self.take(name, default), name)
        need(low <= x <= high, f"{name} is {x!r}, must be {low} to {high}")
        self.enter(name, double(x))
        return x

    def boolean(self, name: str, default: bool) -> bool:
        x = self.take(name, default)
        need(type(x) is bool, f"{name} is {x!r}, must be true or false")
        self.enter(name, bytes([x]))
        return x

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        x = self.take(name, default)
        need(x in choices, f"{name} is {x!r}, must be one of {choices}")
        self.enter(name, x.encode())
        return x

    def digits(self, name: str, length: int) -> None:
        self.enter(name, bytes.fromhex(matching(f"[0-9a-f]{{{2 * length}}}", self.take(name), name)))

    def texts(self, name: str, low: int, high: int) -> list[str]:
        found = [printable(x, name) for x in entries(self.take(name), name, low, high)]
        self.enter(name, listing([x.encode() for x in found]))
        return different(found, name)


class Session:
    def __init__(self, tables: dict[str, Any]) -> None:
        file = File(tables)
        self.read_roster(file)
        self.read_head(file)
        self.read_data(file)
        self.read_flynn(file)
        self.min_holders = file.whole("privacy.min_holders", 1, len(self.roster), 3)
        file.number("privacy.colluding", 0.01, 0.99, 1 / 3)
        faults, chosen = self.read_council(file)
        self.timing = {name: file.whole(f"timing.{name}", *limits) for name, limits in TIMING.items()}
        file.enter("roster.peer_id", listing(self.roster))
        file.enter("roster.name", listing([name.encode() for name in self.names]))
        need(not file.left, f"unknown fields {sorted(file.left)}")

        with_names = [(name, with_length(name.encode()) + with_length(value)) for name, value in file.fields]
        self.id = tagged("session", *[entry for _, entry in with_names])
        self.fields = [(name, tagged("session field", entry)[:8]) for name, entry in with_names]
        peers = [i for i, name in enumerate(self.names) if name in chosen]
        self.council = sorted(peers, key=lambda i: tagged("council", self.id, self.roster[i]))[:15]
        c = len(self.council)
        need(faults == "crash" or c >= 4, "byzantine needs a council of at least 4")
        self.quorum = c // 2 + 1 if faults == "crash" else (c + (c - 1) // 3 + 2) // 2

    def read_roster(self, file: File) -> None:
        peers = []
        for entry in entries(file.take("roster"), "the roster", 3, 1024):
            known(entry, {"name", "peer_id", "addresses"}, "roster")
            name = matching(PLAIN, entry.get("name"), "roster.name")
            addresses = entries(entry.get("addresses", []), "addresses", 0, 16)
            for address in addresses:
                matching(ADDRESS, address, "an address")
                need("/p2p/" not in address or address.rsplit("/p2p/", 1)[1] == entry.get("peer_id"),
                     f"address {address} names another peer")
            try:
                peers.append((read_peer_id(entry.get("peer_id")), name, addresses))
            except CryptoError as error:
                raise SessionError(str(error)) from None
        self.roster, self.names, self.addresses = map(list, zip(*sorted(peers)))
        different(self.roster, "the keys of the roster")
        different(self.names, "the names of the roster")
        for relay in entries(file.take("relays", []), "relays", 0, 8):
            matching(ADDRESS + "/p2p/[0-9A-Za-z]+", relay, "a relay")

    def read_head(self, file: File) -> None:
        self.name = matching(PLAIN, file.take("name"), "name")
        file.enter("name", self.name.encode())
        file.digits("number", 16)
        created = file.take("created")
        need(isinstance(created, datetime.datetime) and created.utcoffset() == datetime.timedelta(0)
             and created.microsecond == 0 and created.year >= 1970, "created must be as 2026-11-22T16:05:06Z")
        file.enter("created", le64(int(created.timestamp())))
        if "series.number" in file.left or "series.parent" in file.left:
            file.whole("series.number", 2, 1_000_000)
            file.digits("series.parent", 32)
        file.choice("task", ("flynn",))
        least = max(len(self.roster) // 2 + 1, 3)
        self.min_peers = file.whole("min_peers", least, len(self.roster), least)

    def read_data(self, file: File) -> None:
        self.features = self.width = file.whole("data.features", 1, 65_536)
        self.classes = file.texts("data.classes", 2, 1000)
        self.columns: list[str] = []
        if file.left.get("data.columns", []) != []:
            self.columns = file.texts("data.columns", self.features, self.features)
        file.left.pop("data.columns", None)
        self.read_scaling(file)
        self.densify = file.boolean("data.densify", False)
        self.dimension = 1 << (self.width - 1).bit_length() if self.densify else self.width
        self.check_columns = file.boolean("data.check_columns", True)

        self.limits: dict[str, dict[str, float]] = {}
        items = []
        limits = known(file.take("columns", {}), set(self.columns), "columns")
        for column in sorted(limits, key=str.encode):
            ends = known(limits[column], {"min", "max"}, f"columns.{column}")
            found = self.limits[column] = {end: number(x, column) for end, x in ends.items()}
            need(found != {} and found.get("min", -math.inf) <= found.get("max", math.inf),
                 f"columns.{column}: limits that are none")
            values = [double(found[end]) if end in found else b"" for end in ("min", "max")]
            items.append(with_length(column.encode()) + b"".join(map(with_length, values)))
        if items:
            file.enter("columns", listing(items))

    def read_scaling(self, file: File) -> None:
        scaling = file.take("data.scaling", "none")
        self.scaling, self.scaling_values, code = scaling, None, b""
        if isinstance(scaling, dict) and len(scaling) == 1:
            [(self.scaling, values)] = scaling.items()
            if self.scaling == "range":
                known(values, {"lo", "hi"}, "range")
                with numpy.errstate(over="ignore"):
                    lo, hi = (float(numpy.float32(number(values.get(k), k))) + 0.0 for k in ("lo", "hi"))
                need(-math.inf < lo < hi < math.inf, "range: lo must be below hi, both finite")
                self.scaling_values, code = (lo, hi), double(lo) + double(hi)
            elif self.scaling == "soft-bins":
                bins = whole(known(values, {"bins"}, "soft-bins").get("bins"), 2, 64, "soft-bins.bins")
                self.scaling_values, code = bins, le64(bins)
                self.width = whole(self.features * bins, 1, 1 << 20, "features x bins")
        known_name = self.scaling in ("none", "unit-norm", "center", "standard")
        need(code != b"" or known_name, f"data.scaling is {scaling!r}")
        file.enter("data.scaling", self.scaling.encode() + code)

    def read_flynn(self, file: File) -> None:
        def size(name: str, letter: str, of: int, least: int, low: int, high: int) -> int:
            file.left[name] = multiple(file.take(name), letter, of, least, name)
            return file.whole(name, low, high)

        labels = len(self.classes)
        self.m = size("flynn.m", "d", self.dimension, 0, 1, (1 << 28) // labels)
        self.s = size("flynn.s", "d", self.dimension, 2, 2, self.dimension)
        self.rho = size("flynn.rho", "m", self.m, 2, 1, self.m)
        need(self.m * self.s <= 1 << 30, "m s must be at most 2^30")
        self.gamma = file.number("flynn.gamma", 0.0, math.nextafter(1.0, 0.0))
        self.score = file.choice("flynn.score", SCORES, "decay")
        self.squares = self.scaling in ("standard", "soft-bins") or self.check_columns
        self.plan = [Slot("coin", 4, 0), Slot("holders", 4, 1 + labels)]
        if self.squares or self.scaling == "center":
            self.plan.append(Slot("moments", 8, 1 + (9 if self.squares else 3) * self.features))
        self.plan.append(Slot("counts", 4, labels * self.m))

    def read_council(self, file: File) -> tuple[str, list[str]]:
        """What the council must stand, and the names of who may be in it."""
        faults = file.choice("council.faults", ("crash", "byzantine"), "crash")
        if faults == "crash":
            file.fields.pop()
        if "council.members" not in file.left:
            return faults, self.names
        chosen = entries(file.take("council.members"), "council.members", 3, 15)
        need(all(name in self.names for name in chosen), "council.members must be names of the roster")
        file.enter("council.members", listing(sorted(name.encode() for name in chosen)))
        return faults, different(chosen, "council.members")

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


def read_session(path: str) -> Session:
    with open(path, "rb") as file:
        return parse_session(file.read())


def parse_session(data: bytes) -> Session:
    need(len(data) <= 1 << 20, "the file is above 1 MiB")
    try:
        return Session(tomllib.loads(data.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SessionError(str(error)) from None
