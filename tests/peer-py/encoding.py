"""Messages of the wire and their encoding (spec, sections 2 and 2.1).

`WIRE` is section 2.1 as it stands (check_vectors.py compares them). Structs and the parts of variants become
named tuples; variants without parts become their names. `NAMES` calls variants otherwise where a name stands
twice, and says what parts without names are called.
"""

from __future__ import annotations

import functools
import re
import struct
from collections import namedtuple
from enum import IntEnum
from typing import Any, Callable, NamedTuple

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

What = 0 Input | 1 Round(u32) | 2 Output | 3 Pair(u32)

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
What.Pair=WhatPair number
"""


class Malformed(Exception):
    """Bytes that do not decode."""


class Out(bytearray):
    """What is written; a payload goes beside the header."""

    payload = b""

    def integer(self, n: int) -> None:
        if n < 251:
            self.append(n)
        else:
            tag = 0 if n < 1 << 16 else 1 if n < 1 << 32 else 2
            self.append(251 + tag)
            self.extend(n.to_bytes(2 << tag, "little"))


class In:
    """What is read. It never takes more than is there (M2.2)."""

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

    def payload_once(self) -> bytes:
        data, self.payload = self.payload, b""
        return data


class Codec(NamedTuple):
    write: Callable[[Out, Any], None]
    read: Callable[[In], Any]


def array(n: int) -> Codec:
    def write(out: Out, x: bytes) -> None:
        if len(x) != n:
            raise ValueError("length of an array")
        out.extend(x)

    return Codec(write, lambda data: data.take(n))


def raw(out: Out, x: bytes) -> None:
    out.integer(len(x))
    out.extend(x)


def read_text(data: In) -> str:
    try:
        return data.take(data.integer(8)).decode()
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None


def vec(inner: Codec) -> Codec:
    def write(out: Out, x: list[Any]) -> None:
        out.integer(len(x))
        for item in x:
            inner.write(out, item)

    return Codec(write, lambda data: [inner.read(data) for _ in range(data.integer(8))])


def option(inner: Codec) -> Codec:
    def write(out: Out, x: Any) -> None:
        out.append(x is not None)
        if x is not None:
            inner.write(out, x)

    return Codec(write, lambda data: inner.read(data) if data.flag() else None)


def sequence(make: Callable[..., Any], parts: list[Codec]) -> Codec:
    def write(out: Out, x: Any) -> None:
        for part, value in zip(parts, x, strict=True):
            part.write(out, value)

    return Codec(write, lambda data: make(*[part.read(data) for part in parts]))


def one_of(variants: list[tuple[Any, Codec]]) -> Codec:
    """Pairs of what is written (its type, or itself where it has no parts) and how."""
    numbers = {key: n for n, (key, _) in enumerate(variants)}

    def write(out: Out, x: Any) -> None:
        number = numbers[type(x) if type(x) in numbers else x]
        out.integer(number)
        variants[number][1].write(out, x)

    def read(data: In) -> Any:
        number = data.integer(4)
        if number >= len(variants):
            raise Malformed("unknown variant")
        return variants[number][1].read(data)

    return Codec(write, read)


def nothing(value: Any) -> Codec:
    return Codec(lambda out, x: None, lambda data: value)


def integers(width: int) -> Codec:
    return Codec(Out.integer, lambda data: data.integer(width))


U8 = Codec(Out.append, lambda data: data.take(1)[0])
CODECS: dict[str, Codec] = {
    "u8": U8, "u16": integers(2), "u32": integers(4), "u64": integers(8), "bool": Codec(Out.append, In.flag),
    "string": Codec(lambda out, x: raw(out, x.encode()), read_text),
    "payload": Codec(lambda out, x: setattr(out, "payload", bytes(x)), In.payload_once)}
CLASSES: dict[str, type] = {}
_named = {words[0].split("=")[0]: (words[0].split("=")[-1].split(".")[-1], words[1:])
          for words in map(str.split, NAMES.strip().splitlines())}


class Grammar:
    """Reads definitions as they stand in section 2.1."""

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

    def kind(self) -> Codec:
        word = self.next()
        if word == "[":
            self.at += 2  # u8 ;
            size = int(self.next())
            self.skip("]")
            return array(size)
        if word == "(":
            return sequence(lambda *x: x, [k for _, k in self.parts(")", named=False)])
        if self.skip("<"):
            inner = self.kind()
            self.skip(">")
            if word == "Vec":
                return Codec(raw, lambda data: data.take(data.integer(8))) if inner is U8 else vec(inner)
            if word == "Option":
                return option(inner)
            return sequence(CLASSES["Signed"], [CODECS["peer"], inner, array(64)])
        if word in CODECS:
            return CODECS[word]
        return Codec(lambda out, x: CODECS[word].write(out, x), lambda data: CODECS[word].read(data))

    def parts(self, end: str, named: bool) -> list[tuple[str, Codec]]:
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
            if self.skip("<"):  # Signed<T>
                self.at += 2
            if self.skip("{"):
                CODECS[name] = self.struct(name, name, self.parts("}", True))[1]
            elif self.skip("=") and not self.peek().isdigit():
                CODECS[name] = self.kind()  # an alias
            else:
                CODECS[name] = self.enum(name)

    def struct(self, name: str, path: str, parts: list[tuple[str, Codec]]) -> tuple[type, Codec]:
        label, fields = _named.get(path, (name, []))
        CLASSES[label] = cls = namedtuple(label, fields or [field for field, _ in parts])
        return cls, sequence(cls, [kind for _, kind in parts])

    def enum(self, name: str) -> Codec:
        variants: list[tuple[Any, Codec]] = []
        while self.peek().isdigit():
            self.next()
            label, path = self.peek(), f"{name}.{self.next()}"
            if self.peek() in ("{", "("):
                parts = self.parts("}", True) if self.next() == "{" else self.parts(")", False)
                variants.append(self.struct(label, path, parts))
            else:
                variants.append((label, nothing(label)))
            self.skip("|")
        if all(isinstance(key, str) for key, _ in variants):
            CLASSES[name] = kind = IntEnum(name, [key for key, _ in variants], start=0)
            variants = [(value, nothing(value)) for value in kind]
        return one_of(variants)


def define(text: str) -> None:
    """More definitions, in the manner of the specification."""
    Grammar(text).definitions()


define(WIRE)
globals().update(CLASSES)


@functools.cache
def codec(kind: str) -> Codec:
    return Grammar(kind).kind()


def canonical(kind: str, x: Any) -> bytes:
    """What is signed, hashed or stored."""
    out = Out()
    codec(kind).write(out, x)
    return bytes(out)


def read_all(kind: str, data: In) -> Any:
    if len(data.data) > LIMIT:
        raise Malformed("too long")
    x = codec(kind).read(data)
    if data.at != len(data.data):
        raise Malformed("bytes left over")
    return x


def decode(kind: str, data: bytes) -> Any:
    return read_all(kind, In(data, b""))


def is_bulk(message: Any) -> bool:
    """Whether a message travels on the bulk channel (section 6)."""
    inner = getattr(message, "message", getattr(message, "content", None))
    name = type(getattr(inner, "message", inner)).__name__
    return name in ("Chunk", "Head", "Piece", "Bulk")


def encode_message(message: Any) -> tuple[bytes, bytes]:
    """Header and payload."""
    out = Out()
    codec("Message").write(out, message)
    return bytes(out), out.payload


def decode_message(header: bytes, payload: bytes, bulk: bool) -> Any:
    data = In(header, payload)
    message = read_all("Message", data)
    if data.payload:
        raise Malformed("payload where none belongs")
    if is_bulk(message) != bulk:
        raise Malformed("wrong channel")
    return message


def frame(header: bytes, payload: bytes) -> bytes:
    """A frame of section 6."""
    return struct.pack("<II", 4 + len(header) + len(payload), len(header)) + header + payload
