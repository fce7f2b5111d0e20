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
from dataclasses import dataclass, field
from typing import Any

import numpy

from crypto import CryptoError, ballot_bytes, read_peer_id, tagged
from encoding import Ballot

PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}\Z")
SCORES = ("decay", "balanced-decay", "log", "balanced-log")
HIDDEN = [(0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200F), (0x202A, 0x202E),
          (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0000, 0xE0FFF)]
TIMING = {"gather_ms": (0, 3_600_000, 10_000), "propose_ms": (1, 3_600_000, 2_000),
          "stall_ms": (3_000, 3_600_000, 10_000), "quorum_ms": (1, 86_400_000, 60_000),
          "compute_ms": (1, 86_400_000, 600_000), "linger_ms": (0, 86_400_000, 30_000),
          "enlarge_ms": (0, 86_400_000, 30_000), "max_views": (1, 1_000, 16)}
TOP = {"name", "number", "created", "series", "task", "min_peers", "relays", "data", "columns", "flynn",
       "privacy", "council", "timing", "roster"}
LACKING = {"select", "evaluate", "table", "tune", "xclp", "sketch", "fedavg", "pseudo_labels", "custom"}


class SessionError(Exception):
    """A session file that must be refused."""


@dataclass
class Slot:
    name: str
    word: int  # bytes
    words: int

    @property
    def length(self) -> int:
        return self.word * self.words


@dataclass
class Session:
    name: str
    id: bytes
    fields: list[tuple[str, bytes]]
    roster: list[bytes]
    names: list[str]
    addresses: list[list[str]]
    min_peers: int
    council: list[int]
    quorum: int
    plan: list[Slot]
    features: int
    columns: list[str]
    limits: dict[str, dict[str, float]]
    classes: list[str]
    scaling: str
    scaling_values: tuple[float, float] | int | None
    densify: bool
    check_columns: bool
    width: int
    dimension: int
    m: int
    s: int
    rho: int
    gamma: float
    score: str
    min_holders: int
    colluding: float
    timing: dict[str, int] = field(default_factory=dict)

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


def partners(session: Session, members: list[int], draw: bytes, me: int) -> list[int]:
    """Whose keys mask the vector of `me` (section 11)."""
    p = len(members)
    if p <= 64:
        return [i for i in members if i != me]
    ring = sorted(members, key=lambda i: tagged("graph", draw, struct.pack("<H", i)))
    half = min(-(-degree(p, session.colluding) // 2), (p - 1) // 2)
    at = ring.index(me)
    return sorted({ring[(at + step) % p] for step in range(-half, half + 1)} - {me})


def degree(p: int, colluding: float) -> int:
    return math.ceil((40.0 + math.log2(p)) / math.log2(1.0 / colluding))


def need(good: bool, what: str) -> None:
    if not good:
        raise SessionError(what)


def known(table: Any, names: set[str], where: str) -> dict[str, Any]:
    need(isinstance(table, dict), f"{where} must be a table")
    for name in table:
        need(name in names, f"unknown field {where}.{name}")
    return table


def whole(x: Any, low: int, high: int, what: str) -> int:
    need(type(x) is int and low <= x <= high, f"{what} is {x!r}, must be {low} to {high}")
    return x


def number(x: Any, what: str) -> float:
    need(type(x) in (int, float) and math.isfinite(x), f"{what} is {x!r}, must be a number")
    return float(x) + 0.0  # -0 counts as 0


def printable(x: Any, what: str) -> str:
    need(isinstance(x, str) and 1 <= len(x) <= 64, f"{what} must have 1 to 64 characters")
    for c in x:
        bad = unicodedata.category(c) in ("Cc", "Zl", "Zp") or (c.isspace() and c != " ")
        need(not bad and not any(a <= ord(c) <= b for a, b in HIDDEN), f"{what} must be printable")
    need(x == x.strip(" "), f"{what} must have no space at its ends")
    return x


def texts(x: Any, what: str) -> list[str]:
    need(isinstance(x, list), f"{what} must be a list")
    found = [printable(item, what) for item in x]
    need(len(set(found)) == len(found), f"{what} must be all different")
    return found


def multiple(x: Any, letter: str, of: int, least: int, what: str) -> int:
    if isinstance(x, str):
        need(bool(re.fullmatch(r"[0-9.]{1,32}" + letter, x)), f"{what} is {x!r}, must be such as 0.5{letter}")
        try:
            factor = float(x[:-1])
        except ValueError:
            raise SessionError(f"{what} is {x!r}") from None
        need(factor > 0 and math.isfinite(factor * of), f"{what} must be positive")
        return max(math.trunc(factor * of), least)
    need(type(x) is int, f"{what} is {x!r}, must be a whole number")
    return x


def binary32(x: float, what: str) -> float:
    with numpy.errstate(over="ignore"):
        rounded = float(numpy.float32(x))
    need(math.isfinite(rounded), f"{what} is not finite as binary32")
    return rounded + 0.0


def le64(n: int) -> bytes:
    return struct.pack("<Q", n)


def double(x: float) -> bytes:
    return struct.pack("<d", x)


def listing(items: list[bytes]) -> bytes:
    return le64(len(items)) + b"".join(le64(len(item)) + item for item in items)


def check_address(text: Any, identity: str) -> str:
    need(isinstance(text, str) and 1 <= len(text) <= 256 and text.startswith("/")
         and all(0x21 <= ord(c) <= 0x7E for c in text), f"address {text!r}")
    if "/p2p/" in text:
        need(text.rsplit("/p2p/", 1)[1] == identity, f"address {text!r} names another peer")
    return text


def read_session(path: str) -> Session:
    with open(path, "rb") as file:
        data = file.read()
    return parse_session(data)


def parse_session(data: bytes) -> Session:
    need(len(data) <= 1 << 20, "the file is above 1 MiB")
    try:
        file = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SessionError(str(error)) from None
    try:
        return build(file)
    except KeyError as error:
        raise SessionError(f"missing field {error}") from None


def build(file: dict[str, Any]) -> Session:
    for name in file:
        need(name not in LACKING, f"the session file asks for `{name}`, which this peer lacks")
    known(file, TOP, "the file")
    need(file["task"] == "flynn", f"the task is {file['task']!r}, this peer has only flynn")
    fields: list[tuple[str, bytes]] = []

    def add(name: str, value: bytes) -> None:
        fields.append((name, value))

    name = file["name"]
    need(isinstance(name, str) and bool(PLAIN.match(name)), "name is no plain name")
    add("name", name.encode())
    digits = file["number"]
    need(isinstance(digits, str) and bool(re.fullmatch("[0-9a-f]{32}", digits)), "number must be 32 digits")
    add("number", bytes.fromhex(digits))
    created = file["created"]
    need(isinstance(created, datetime.datetime) and created.utcoffset() == datetime.timedelta(0)
         and created.microsecond == 0 and created.year >= 1970, "created must be as 2026-11-22T16:05:06Z")
    add("created", le64(int(created.timestamp())))
    if "series" in file:
        series = known(file["series"], {"number", "parent"}, "series")
        add("series.number", le64(whole(series["number"], 2, 1_000_000, "series.number")))
        parent = series["parent"]
        need(isinstance(parent, str) and bool(re.fullmatch("[0-9a-f]{64}", parent)), "series.parent")
        add("series.parent", bytes.fromhex(parent))
    add("task", b"flynn")

    # the roster, in the order of the keys
    roster = file["roster"]
    need(isinstance(roster, list) and 3 <= len(roster) <= 1024, "the roster must have 3 to 1024 entries")
    peers = []
    for entry in roster:
        known(entry, {"name", "peer_id", "addresses"}, "roster")
        need(isinstance(entry["name"], str) and bool(PLAIN.match(entry["name"])),
             "roster.name is no plain name")
        try:
            key = read_peer_id(entry["peer_id"])
        except CryptoError as error:
            raise SessionError(str(error)) from None
        found = entry.get("addresses", [])
        need(isinstance(found, list) and len(found) <= 16, "at most 16 addresses")
        peers.append((key, entry["name"], [check_address(a, entry["peer_id"]) for a in found]))
    peers.sort()
    keys, names = [p[0] for p in peers], [p[1] for p in peers]
    need(len(set(keys)) == len(keys) and len(set(names)) == len(names), "a peer stands twice in the roster")
    for relay in file.get("relays", []):
        need(isinstance(relay, str) and "/p2p/" in relay, "relays must end with /p2p/ and a PeerId")
    need(len(file.get("relays", [])) <= 8, "at most 8 relays")

    least = max(len(keys) // 2 + 1, 3)
    min_peers = whole(file.get("min_peers", least), least, len(keys), "min_peers")
    add("min_peers", le64(min_peers))
    data = known(file["data"], {"features", "columns", "classes", "scaling", "densify", "check_columns"},
                 "data")
    features = whole(data["features"], 1, 65_536, "data.features")
    add("data.features", le64(features))
    classes = texts(data["classes"], "data.classes")
    need(2 <= len(classes) <= 1000, "data.classes must be 2 to 1000")
    add("data.classes", listing([c.encode() for c in classes]))
    columns = texts(data.get("columns", []), "data.columns")
    if columns:
        need(len(columns) == features, "data.columns must be as many as data.features")
        add("data.columns", listing([c.encode() for c in columns]))
    scaling, values, code, width = read_scaling(data.get("scaling", "none"), features)
    add("data.scaling", code)
    densify, check = data.get("densify", False), data.get("check_columns", True)
    need(type(densify) is bool and type(check) is bool, "data.densify and data.check_columns are booleans")
    add("data.densify", bytes([densify]))
    add("data.check_columns", bytes([check]))
    limits = read_limits(file.get("columns", {}), columns)
    if limits:
        def end(column: str, which: str) -> bytes:
            value = double(limits[column][which]) if which in limits[column] else b""
            return le64(len(value)) + value

        order = sorted(limits, key=lambda c: c.encode())
        add("columns", listing([le64(len(c.encode())) + c.encode() + end(c, "min") + end(c, "max")
                                for c in order]))

    flynn = known(file["flynn"], {"m", "s", "rho", "gamma", "score"}, "flynn")
    dimension = 1 << (width - 1).bit_length() if densify else width
    m = whole(multiple(flynn["m"], "d", dimension, 0, "flynn.m"), 1, (1 << 28) // len(classes), "flynn.m")
    s = whole(multiple(flynn["s"], "d", dimension, 2, "flynn.s"), 2, dimension, "flynn.s")
    rho = whole(multiple(flynn["rho"], "m", m, 2, "flynn.rho"), 1, m, "flynn.rho")
    need(m * s <= 1 << 30, "m s must be at most 2^30")
    gamma = number(flynn["gamma"], "flynn.gamma")
    need(0 <= gamma < 1, "flynn.gamma must be from 0 to below 1")
    score = flynn.get("score", "decay")
    need(score in SCORES, f"unknown score {score!r}")
    add("flynn.m", le64(m))
    add("flynn.s", le64(s))
    add("flynn.rho", le64(rho))
    add("flynn.gamma", double(gamma))
    add("flynn.score", score.encode())

    privacy = file.get("privacy", {})
    need("epsilon" not in privacy, "the session file asks for `privacy.epsilon`, which this peer lacks")
    known(privacy, {"min_holders", "colluding"}, "privacy")
    min_holders = whole(privacy.get("min_holders", 3), 1, len(keys), "privacy.min_holders")
    colluding = number(privacy.get("colluding", 1 / 3), "privacy.colluding")
    need(0.01 <= colluding <= 0.99, "privacy.colluding must be 0.01 to 0.99")
    add("privacy.min_holders", le64(min_holders))
    add("privacy.colluding", double(colluding))

    council_table = known(file.get("council", {}), {"faults", "members"}, "council")
    faults = council_table.get("faults", "crash")
    need(faults in ("crash", "byzantine"), "council.faults must be crash or byzantine")
    if faults == "byzantine":
        add("council.faults", b"byzantine")
    chosen = council_table.get("members")
    if chosen is not None:
        need(isinstance(chosen, list) and 3 <= len(chosen) <= 15 and len(set(chosen)) == len(chosen)
             and set(chosen) <= set(names), "council.members must be 3 to 15 different names of the roster")
        add("council.members", listing(sorted(n.encode() for n in chosen)))

    timing_table = known(file.get("timing", {}), set(TIMING), "timing")
    timing = {}
    for key_name, (low, high, default) in TIMING.items():
        timing[key_name] = whole(timing_table.get(key_name, default), low, high, f"timing.{key_name}")
        add(f"timing.{key_name}", le64(timing[key_name]))
    add("roster.peer_id", listing(keys))
    add("roster.name", listing([n.encode() for n in names]))

    entries = [(n, le64(len(n)) + n.encode() + le64(len(v)) + v) for n, v in fields]
    session_id = tagged("session", *[e for _, e in entries])
    hashes = [(n, tagged("session field", e)[:8]) for n, e in entries]
    council = [i for i in range(len(keys)) if chosen is None or names[i] in chosen]
    council.sort(key=lambda i: tagged("council", session_id, keys[i]))
    council = council[:15]
    c = len(council)
    need(faults == "crash" or c >= 4, "byzantine needs a council of at least 4")
    f = (c - 1) // 3 if faults == "byzantine" else 0
    quorum = c // 2 + 1 if faults == "crash" else (c + f + 2) // 2

    squares = scaling in ("standard", "soft-bins") or check
    plan = [Slot("coin", 4, 0), Slot("holders", 4, 1 + len(classes))]
    if squares or scaling == "center":
        plan.append(Slot("moments", 8, 1 + (9 if squares else 3) * features))
    plan.append(Slot("counts", 4, len(classes) * m))
    return Session(name, session_id, hashes, keys, names, [p[2] for p in peers], min_peers, council, quorum,
                   plan, features, columns, limits, classes, scaling, values, densify, check, width,
                   dimension, m, s, rho, gamma, score, min_holders, colluding, timing)


def read_scaling(x: Any, features: int) -> tuple[str, Any, bytes, int]:
    """Name, values, code in the id, width."""
    if x in ("none", "unit-norm", "center", "standard"):
        return x, None, x.encode(), features
    need(isinstance(x, dict) and len(x) == 1, f"data.scaling is {x!r}")
    if "range" in x:
        table = known(x["range"], {"lo", "hi"}, "range")
        lo, hi = (binary32(number(table[k], k), k) for k in ("lo", "hi"))
        need(lo < hi, "range: lo must be below hi")
        return "range", (lo, hi), b"range" + double(lo) + double(hi), features
    need("soft-bins" in x, f"data.scaling is {x!r}")
    bins = whole(known(x["soft-bins"], {"bins"}, "soft-bins")["bins"], 2, 64, "soft-bins.bins")
    need(features * bins <= 1 << 20, "features x bins must be at most 2^20")
    return "soft-bins", bins, b"soft-bins" + le64(bins), features * bins


def read_limits(table: Any, columns: list[str]) -> dict[str, dict[str, float]]:
    known(table, set(columns), "columns")
    found: dict[str, dict[str, float]] = {}
    for column, ends in table.items():
        known(ends, {"min", "max"}, f"columns.{column}")
        found[column] = {k: number(v, f"columns.{column}.{k}") for k, v in ends.items()}
        need(bool(found[column]), f"columns.{column} is empty")
        if len(found[column]) == 2:
            need(found[column]["min"] <= found[column]["max"], f"columns.{column}: min is above max")
    return found
