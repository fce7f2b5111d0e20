"""Messages of the wire and their encoding (spec, sections 2 and 2.1).

`WIRE` is section 2.1 as it stands (check_vectors.py compares them). Structs and the parts of variants become
named tuples; variants without parts become their names. `NAMES` calls variants otherwise where a name stands
twice, and says what parts without names are called.
"""

from __future__ import annotations

import re
import struct
from collections import namedtuple
from enum import IntEnum
from typing import Any, NamedTuple

LIMIT = 1_048_576
WIRE = """
peer         = u16
Ballot       { counter: u64, proposer: peer }
SumId        { ballot: Ballot, slot: u32 }
Sealed       { ephemeral: [u8; 32], boxes: Vec<[u8; 48]> }
Deal         { sum: SumId, pad_hash: [u8; 32], share_hashes: Vec<[u8; 32]>, sealed: Sealed }
Release      { sum: SumId, value: [u8; 32], shares: Vec<(peer, [u8; 32])> }
ViewKey      { ballot: Ballot, public: [u8; 32], commitment: Option<[u8; 32]> }
Reveal       { ballot: Ballot, keys: [u8; 32], secret: [u8; 32] }
Acknowledgement { ballot: Ballot, slot: u32, value: [u8; 32] }
Signed<T>    { author: peer, item: T, signature: [u8; 64] }
Value        { sum: SumId, members: Vec<peer>, total: [u8; 32], deals: [u8; 32] }
Record       { value: Value, deals: Vec<Signed<Deal>> }
Frozen       { record: Record, acknowledgements: Vec<Signed<Acknowledgement>>, pads: Vec<Option<[u8; 32]>>,
               releases: Vec<Signed<Release>> }
Accepted     { ballot: Ballot, slot: u32, value: [u8; 32] }
Promise      { frozen: u32, accepted: Option<Accepted>, released: bool }
Promised     { ballot: Ballot, promise: Promise, decision: Vec<Signed<Acknowledgement>> }
Failure      { ballot: Ballot, reason: Reason, suspect: Option<peer> }
Trace        = 0 Promise(Signed<Promised>) | 1 Key(Signed<ViewKey>)
Reason       = 0 Lost | 1 Stalled | 2 Fault | 3 Left | 4 Superseded | 5 TooFew | 6 Disagreement | 7 Enlarged |
               8 Omitted
Direction    = 0 Up | 1 Down

Message =
  0 Hello { version: u16, session: [u8; 32], frozen: u32, trace: Option<Trace> }
  1 Fields(Vec<(string, [u8; 8])>)
  2 Status { frozen: u32, in_view: bool }
  3 Prepare(Ballot)
  4 Promise(Signed<Promised>)
  5 Refuse(Ballot, Ballot)
  6 Begin { ballot: Ballot, members: Vec<peer>, frozen: u32, promises: Vec<Signed<Promised>> }
  7 Failed(Signed<Failure>)
  8 View(ViewMessage)
  9 Transfer(TransferMessage)
  10 Exchange { sum: SumId, content: Content }

Content = 0 Short(Vec<u8>) | 1 Bulk { header: Vec<u8>, data: payload }

ViewMessage =
  0 Up(Ballot, Report)
  1 Down(Ballot, Order)
  2 Reduce(ReduceMessage)
  3 Working(Ballot)

Report =
  0 Keys(Vec<Signed<ViewKey>>)
  1 Hold { slot: u32, total: [u8; 32], deals: Vec<Signed<Deal>> }
  2 Acknowledge(u32, Vec<Signed<Acknowledgement>>)
  3 Release(u32, Vec<Signed<Release>>)
  4 Reveal(Vec<Signed<Reveal>>)

Order =
  0 Keys(Vec<Signed<ViewKey>>)
  1 Sum(u32)
  2 Accept(Record)
  3 Decide(u32, Vec<Signed<Acknowledgement>>)
  4 Open(u32, Vec<Signed<Release>>)
  5 Reveal(Vec<Signed<Reveal>>)

ReduceMessage =
  0 Chunk { sum: SumId, direction: Direction, index: u32, data: payload }
  1 Credit { sum: SumId, direction: Direction, index: u32 }

TransferMessage =
  0 Fetch(u32, Want)
  1 Lacking(u32)
  2 Head(u32, Held)
  3 Piece { slot: u32, index: u32, data: payload }
  4 Credit(u32, u32)

Want = 0 Frozen | 1 Accepted([u8; 32])
Held = 0 Frozen(Frozen) | 1 Accepted(Record) | 2 Bare(Frozen)

Body =
  0 Begin(Vec<peer>)
  1 Part { what: What, last: bool, data: payload }
  2 Credit
  3 Working

What = 0 Input | 1 Round(u32) | 2 Output

Role  = 0 Join | 1 Doctor
About { version: u16, session: [u8; 32], role: Role, fields: Vec<(string, [u8; 8])> }
"""

NAMES = """
Trace.Promise=TracePromise signed
Trace.Key=TraceKey signed
Message.Fields fields
Message.Prepare ballot
Message.Promise=PromiseMessage signed
Message.Refuse ballot other
Message.Failed signed
Message.View message
Message.Transfer message
Content.Short content
ViewMessage.Up ballot report
ViewMessage.Down ballot order
ViewMessage.Reduce message
ViewMessage.Working ballot
Report.Keys=UpKeys items
Report.Acknowledge=UpAcknowledge slot items
Report.Release=UpRelease slot items
Report.Reveal=UpReveal items
Order.Keys=DownKeys items
Order.Sum slot
Order.Accept record
Order.Decide slot items
Order.Open slot items
Order.Reveal=DownReveal items
TransferMessage.Fetch slot want
TransferMessage.Lacking slot
TransferMessage.Head slot held
TransferMessage.Credit=TransferCredit slot index
Want.Accepted=WantAccepted digest
Held.Frozen=HeldFrozen frozen
Held.Accepted=HeldAccepted record
Held.Bare=HeldBare frozen
Body.Begin=BodyBegin members
What.Round=WhatRound round
"""


class Malformed(Exception):
    """Bytes that do not decode."""


class Struct(NamedTuple):
    """A struct, or the parts of a variant."""

    cls: type
    kinds: list[Any]


class OneOf(NamedTuple):
    """An enum. A variant without parts is represented by its name; where all are such, by an IntEnum."""

    variants: list[tuple[str, Struct | None]]
    plain: type | None
    numbers: dict[Any, int]


DEFINED: dict[str, Struct | OneOf] = {}
CLASSES: dict[str, type] = {}
_named = {words[0].split("=")[0]: (words[0].split("=")[-1].split(".")[-1], words[1:])
          for words in map(str.split, NAMES.strip().splitlines())}
_kinds: dict[str, Any] = {}


class Grammar:
    """Reads definitions as they stand in section 2.1. Kinds are ("vec", kind) and the like, or names."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(r"\w+|[{}()\[\]<>;:,=|]", text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self, token: str) -> bool:
        self.at += (found := self.peek() == token)
        return found

    def kind(self) -> Any:
        word = self.next()
        if word == "[":
            self.at += 2  # u8 ;
            size = int(self.next())
            self.skip("]")
            return "array", size
        if word == "(":
            return "tuple", [k for _, k in self.parts(")", named=False)]
        if self.skip("<"):
            inner = self.kind()
            self.skip(">")
            return {"Vec": "vec", "Option": "option", "Signed": "signed"}[word], inner
        return word

    def parts(self, end: str, named: bool) -> list[tuple[str, Any]]:
        found = []
        while not self.skip(end):
            name = self.next() if named else ""
            self.skip(":")
            found.append((name, self.kind()))
            self.skip(",")
        return found

    def definitions(self) -> None:
        while self.peek():
            name = self.next()
            if self.skip("<"):  # Signed<T> is known to the reader and writer below
                self.at += 2
            if self.skip("{"):
                self.struct(name, name, self.parts("}", True))
            elif self.skip("=") and not self.peek().isdigit():
                _kinds[name] = self.kind()  # an alias
            else:
                self.enum(name)

    def struct(self, name: str, path: str, parts: list[tuple[str, Any]]) -> Struct:
        label, fields = _named.get(path, (name, []))
        cls = namedtuple(label, fields or [field for field, _ in parts])
        made = Struct(cls, [kind for _, kind in parts])
        CLASSES[label] = cls
        DEFINED[label if "." in path else name] = made
        return made

    def enum(self, name: str) -> None:
        variants: list[tuple[str, Struct | None]] = []
        while self.peek().isdigit():
            self.next()
            label, path = self.peek(), f"{name}.{self.next()}"
            parts = None
            if self.peek() in ("{", "("):
                parts = self.parts("}", True) if self.next() == "{" else self.parts(")", False)
            variants.append((label, self.struct(label, path, parts) if parts is not None else None))
            self.skip("|")
        plain = None
        if all(made is None for _, made in variants):
            plain = CLASSES[name] = IntEnum(name, [label for label, _ in variants], start=0)
        numbers = {label if made is None else made.cls: n for n, (label, made) in enumerate(variants)}
        DEFINED[name] = OneOf(variants, plain, numbers)


def define(text: str) -> None:
    """More definitions, in the manner of the specification."""
    Grammar(text).definitions()


define(WIRE)
globals().update(CLASSES)
INTEGERS = {"u16": 2, "u32": 4, "u64": 8, "peer": 2}


def kind_of(text: str) -> Any:
    if text not in _kinds:
        _kinds[text] = Grammar(text).kind()
    return _kinds[text]


def integer(out: bytearray, n: int) -> None:
    if n < 251:
        out.append(n)
    elif n < 1 << 16:
        out += b"\xfb" + struct.pack("<H", n)
    elif n < 1 << 32:
        out += b"\xfc" + struct.pack("<I", n)
    else:
        out += b"\xfd" + struct.pack("<Q", n)


class Writer:
    def __init__(self) -> None:
        self.out = bytearray()
        self.payload = b""

    def write(self, kind: Any, x: Any) -> None:
        out = self.out
        if isinstance(kind, tuple):
            self.compound(*kind, x)
        elif kind in INTEGERS:
            integer(out, x)
        elif kind in ("u8", "bool"):
            out.append(x)
        elif kind == "payload":
            self.payload = bytes(x)
        elif kind == "string":
            integer(out, len(x.encode()))
            out += x.encode()
        else:
            defined = DEFINED[kind]
            if isinstance(defined, Struct):
                self.write_parts(defined.kinds, x)
            else:
                number = int(x) if defined.plain else defined.numbers[x if isinstance(x, str) else type(x)]
                integer(out, number)
                made = defined.variants[number][1]
                if made is not None:
                    self.write_parts(made.kinds, x)

    def compound(self, form: str, inner: Any, x: Any) -> None:
        out = self.out
        if form == "array":
            if len(x) != inner:
                raise ValueError("length of an array")
            out += x
        elif form == "vec":
            integer(out, len(x))
            if inner == "u8":
                out += x
            else:
                for item in x:
                    self.write(inner, item)
        elif form == "option":
            out.append(0 if x is None else 1)
            if x is not None:
                self.write(inner, x)
        elif form == "tuple":
            self.write_parts(inner, x)
        else:
            self.write_parts(["peer", inner, ("array", 64)], x)

    def write_parts(self, kinds: list[Any], x: Any) -> None:
        for kind, part in zip(kinds, x, strict=True):
            self.write(kind, part)


class Reader:
    def __init__(self, data: bytes, payload: bytes) -> None:
        self.data = data
        self.at = 0
        self.payload = payload

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise Malformed("ends early")
        self.at += n
        return self.data[self.at - n:self.at]

    def integer(self, width: int) -> int:
        tag = self.take(1)[0]
        if tag < 251:
            return tag
        size = {251: 2, 252: 4, 253: 8}.get(tag, 99)
        if size > width:
            raise Malformed("integer wider than its type")
        return int.from_bytes(self.take(size), "little")

    def flag(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            raise Malformed("neither 0 nor 1")
        return byte == 1

    def read(self, kind: Any) -> Any:
        if isinstance(kind, tuple):
            return self.compound(*kind)
        if kind in INTEGERS:
            return self.integer(INTEGERS[kind])
        if kind == "u8":
            return self.take(1)[0]
        if kind == "bool":
            return self.flag()
        if kind == "payload":
            data, self.payload = self.payload, b""
            return data
        if kind == "string":
            try:
                return self.take(self.integer(8)).decode()
            except UnicodeDecodeError:
                raise Malformed("not UTF-8") from None
        defined = DEFINED[kind]
        if isinstance(defined, Struct):
            return defined.cls(*map(self.read, defined.kinds))
        number = self.integer(4)
        if number >= len(defined.variants):
            raise Malformed("unknown variant")
        label, made = defined.variants[number]
        if defined.plain:
            return defined.plain(number)
        return label if made is None else made.cls(*map(self.read, made.kinds))

    def compound(self, form: str, inner: Any) -> Any:
        if form == "array":
            return self.take(inner)
        if form == "vec":
            length = self.integer(8)
            if inner == "u8":
                return self.take(length)
            items = []
            for _ in range(length):  # every item takes a byte at least: a long list ends early (M2.2)
                items.append(self.read(inner))
            return items
        if form == "option":
            return self.read(inner) if self.flag() else None
        if form == "tuple":
            return tuple(map(self.read, inner))
        return CLASSES["Signed"](self.read("peer"), self.read(inner), self.take(64))

    def all(self, kind: Any) -> Any:
        if len(self.data) > LIMIT:
            raise Malformed("too long")
        x = self.read(kind)
        if self.at != len(self.data):
            raise Malformed("bytes left over")
        return x


def canonical(kind: str, x: Any) -> bytes:
    """What is signed, hashed or stored."""
    writer = Writer()
    writer.write(kind_of(kind), x)
    return bytes(writer.out)


def decode(kind: str, data: bytes) -> Any:
    return Reader(data, b"").all(kind_of(kind))


def is_bulk(message: Any) -> bool:
    """Whether a message travels on the bulk channel (section 6)."""
    inner = getattr(message, "message", getattr(message, "content", None))
    name = type(getattr(inner, "message", inner)).__name__
    return name in ("Chunk", "Head", "Piece", "Bulk")


def encode_message(message: Any) -> tuple[bytes, bytes]:
    """Header and payload."""
    writer = Writer()
    writer.write("Message", message)
    return bytes(writer.out), writer.payload


def decode_message(header: bytes, payload: bytes, bulk: bool) -> Any:
    reader = Reader(header, payload)
    message = reader.all("Message")
    if reader.payload:
        raise Malformed("payload where none belongs")
    if is_bulk(message) != bulk:
        raise Malformed("wrong channel")
    return message


def frame(header: bytes, payload: bytes) -> bytes:
    """A frame of section 6."""
    return struct.pack("<II", 4 + len(header) + len(payload), len(header)) + header + payload
