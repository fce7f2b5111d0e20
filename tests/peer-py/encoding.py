"""Messages of the wire and their encoding (spec, sections 2 and 2.1).

Types are named tuples. Their annotations say how they are encoded: integers by their width, byte arrays by
their length, enums by a list of their variants. Fields of the type `Payload` travel beside the header.
"""

from __future__ import annotations

import struct
import types
from enum import IntEnum
from typing import Any, Generic, NamedTuple, NewType, TypeVar, get_args, get_origin, get_type_hints

LIMIT = 1_048_576

U8 = NewType("U8", int)
U16 = NewType("U16", int)
U32 = NewType("U32", int)
U64 = NewType("U64", int)
Peer = U16
B8 = NewType("B8", bytes)
B32 = NewType("B32", bytes)
B48 = NewType("B48", bytes)
B64 = NewType("B64", bytes)
Raw = NewType("Raw", bytes)  # Vec<u8>
Payload = NewType("Payload", bytes)
T = TypeVar("T")

WIDTHS = {U8: 1, U16: 2, U32: 4, U64: 8}
ARRAYS = {B8: 8, B32: 32, B48: 48, B64: 64}


class Malformed(Exception):
    """Bytes that do not decode."""


class OneOf:
    """An enum: pairs of a variant's name and its type, in the order of their numbers.

    A variant is a named tuple of its own, whose fields are encoded one after another, or None for a variant
    without parts, which is then represented by its name.
    """

    def __init__(self, name: str, *variants: tuple[str, Any]) -> None:
        self.name = name
        self.variants = variants
        self.number = {kind: n for n, (_, kind) in enumerate(variants) if kind is not None}
        self.bare = {label: n for n, (label, kind) in enumerate(variants) if kind is None}


    def __or__(self, none: None) -> Maybe:
        return Maybe(self)


class Maybe(NamedTuple):
    """`X | None` where X is an enum."""

    inner: OneOf


class Reason(IntEnum):
    Lost, Stalled, Fault, Left, Superseded, TooFew, Disagreement, Enlarged, Omitted = range(9)


class Direction(IntEnum):
    Up, Down = range(2)


class Role(IntEnum):
    Join, Doctor = range(2)


class Ballot(NamedTuple):
    counter: U64
    proposer: Peer


class SumId(NamedTuple):
    ballot: Ballot
    slot: U32


class Sealed(NamedTuple):
    ephemeral: B32
    boxes: list[B48]


class Deal(NamedTuple):
    sum: SumId
    pad_hash: B32
    share_hashes: list[B32]
    sealed: Sealed


class Share(NamedTuple):
    dealer: Peer
    share: B32


class Release(NamedTuple):
    sum: SumId
    value: B32
    shares: list[Share]


class ViewKey(NamedTuple):
    ballot: Ballot
    public: B32
    commitment: B32 | None


class Reveal(NamedTuple):
    ballot: Ballot
    keys: B32
    secret: B32


class Acknowledgement(NamedTuple):
    ballot: Ballot
    slot: U32
    value: B32


class Signed(NamedTuple, Generic[T]):
    author: Peer
    item: T
    signature: B64


class Value(NamedTuple):
    sum: SumId
    members: list[Peer]
    total: B32
    deals: B32


class Record(NamedTuple):
    value: Value
    deals: list[Signed[Deal]]


class Frozen(NamedTuple):
    record: Record
    acknowledgements: list[Signed[Acknowledgement]]
    pads: list[B32 | None]
    releases: list[Signed[Release]]


class Accepted(NamedTuple):
    ballot: Ballot
    slot: U32
    value: B32


class Promise(NamedTuple):
    frozen: U32
    accepted: Accepted | None
    released: bool


class Promised(NamedTuple):
    ballot: Ballot
    promise: Promise
    decision: list[Signed[Acknowledgement]]


class Failure(NamedTuple):
    ballot: Ballot
    reason: Reason
    suspect: Peer | None


class TracePromise(NamedTuple):
    signed: Signed[Promised]


class TraceKey(NamedTuple):
    signed: Signed[ViewKey]


TRACE = OneOf("Trace", ("Promise", TracePromise), ("Key", TraceKey))


class UpKeys(NamedTuple):
    items: list[Signed[ViewKey]]


class Hold(NamedTuple):
    slot: U32
    total: B32
    deals: list[Signed[Deal]]


class UpAcknowledge(NamedTuple):
    slot: U32
    items: list[Signed[Acknowledgement]]


class UpRelease(NamedTuple):
    slot: U32
    items: list[Signed[Release]]


class UpReveal(NamedTuple):
    items: list[Signed[Reveal]]


REPORT = OneOf("Report", ("Keys", UpKeys), ("Hold", Hold), ("Acknowledge", UpAcknowledge),
               ("Release", UpRelease), ("Reveal", UpReveal))


class DownKeys(NamedTuple):
    items: list[Signed[ViewKey]]


class Sum(NamedTuple):
    slot: U32


class Accept(NamedTuple):
    record: Record


class Decide(NamedTuple):
    slot: U32
    items: list[Signed[Acknowledgement]]


class Open(NamedTuple):
    slot: U32
    items: list[Signed[Release]]


class DownReveal(NamedTuple):
    items: list[Signed[Reveal]]


ORDER = OneOf("Order", ("Keys", DownKeys), ("Sum", Sum), ("Accept", Accept), ("Decide", Decide),
              ("Open", Open), ("Reveal", DownReveal))


class Chunk(NamedTuple):
    sum: SumId
    direction: Direction
    index: U32
    data: Payload


class Credit(NamedTuple):
    sum: SumId
    direction: Direction
    index: U32


REDUCE = OneOf("ReduceMessage", ("Chunk", Chunk), ("Credit", Credit))


class Up(NamedTuple):
    ballot: Ballot
    report: REPORT


class Down(NamedTuple):
    ballot: Ballot
    order: ORDER


class Reduce(NamedTuple):
    message: REDUCE


class Working(NamedTuple):
    ballot: Ballot


VIEW = OneOf("ViewMessage", ("Up", Up), ("Down", Down), ("Reduce", Reduce), ("Working", Working))


class WantAccepted(NamedTuple):
    digest: B32


WANT = OneOf("Want", ("Frozen", None), ("Accepted", WantAccepted))


class HeldFrozen(NamedTuple):
    frozen: Frozen


class HeldAccepted(NamedTuple):
    record: Record


class HeldBare(NamedTuple):
    frozen: Frozen


HELD = OneOf("Held", ("Frozen", HeldFrozen), ("Accepted", HeldAccepted), ("Bare", HeldBare))


class Fetch(NamedTuple):
    slot: U32
    want: WANT


class Lacking(NamedTuple):
    slot: U32


class Head(NamedTuple):
    slot: U32
    held: HELD


class Piece(NamedTuple):
    slot: U32
    index: U32
    data: Payload


class TransferCredit(NamedTuple):
    slot: U32
    index: U32


TRANSFER = OneOf("TransferMessage", ("Fetch", Fetch), ("Lacking", Lacking), ("Head", Head),
                 ("Piece", Piece), ("Credit", TransferCredit))


class Short(NamedTuple):
    content: Raw


class Bulk(NamedTuple):
    header: Raw
    data: Payload


CONTENT = OneOf("Content", ("Short", Short), ("Bulk", Bulk))


class Hello(NamedTuple):
    version: U16
    session: B32
    frozen: U32
    trace: TRACE | None


class Field(NamedTuple):
    name: str
    hash: B8


class Fields(NamedTuple):
    fields: list[Field]


class Status(NamedTuple):
    frozen: U32
    in_view: bool


class Prepare(NamedTuple):
    ballot: Ballot


class PromiseMessage(NamedTuple):
    signed: Signed[Promised]


class Refuse(NamedTuple):
    ballot: Ballot
    other: Ballot


class Begin(NamedTuple):
    ballot: Ballot
    members: list[Peer]
    frozen: U32
    promises: list[Signed[Promised]]


class Failed(NamedTuple):
    signed: Signed[Failure]


class View(NamedTuple):
    message: VIEW


class Transfer(NamedTuple):
    message: TRANSFER


class Exchange(NamedTuple):
    sum: SumId
    content: CONTENT


MESSAGE = OneOf("Message", ("Hello", Hello), ("Fields", Fields), ("Status", Status), ("Prepare", Prepare),
                ("Promise", PromiseMessage), ("Refuse", Refuse), ("Begin", Begin), ("Failed", Failed),
                ("View", View), ("Transfer", Transfer), ("Exchange", Exchange))


class About(NamedTuple):
    version: U16
    session: B32
    role: Role
    fields: list[Field]


_hints: dict[Any, list[tuple[str, Any]]] = {}


def parts(kind: Any) -> list[tuple[str, Any]]:
    """The fields of a named tuple with their types; those of `Signed[X]` with X put in."""
    if kind not in _hints:
        cls = get_origin(kind) or kind
        found = get_type_hints(cls)
        swap = dict(zip((T,), get_args(kind)))
        _hints[kind] = [(name, swap.get(found[name], found[name])) for name in cls._fields]
    return _hints[kind]


def optional_of(kind: Any) -> Any:
    """X of `X | None`, else None."""
    if isinstance(kind, Maybe):
        return kind.inner
    if isinstance(kind, types.UnionType) or str(get_origin(kind)) == "typing.Union":
        return next(a for a in get_args(kind) if a is not type(None))
    return None


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
        if kind is U8:
            out.append(x)
        elif kind is bool:
            out.append(1 if x else 0)
        elif kind in WIDTHS:
            integer(out, x)
        elif kind in ARRAYS:
            if len(x) != ARRAYS[kind]:
                raise ValueError("length of an array")
            out += x
        elif kind is Raw:
            integer(out, len(x))
            out += x
        elif kind is Payload:
            self.payload = bytes(x)
        elif kind is str:
            data = x.encode()
            integer(out, len(data))
            out += data
        elif isinstance(kind, OneOf):
            self.one_of(kind, x)
        elif isinstance(kind, type) and issubclass(kind, IntEnum):
            integer(out, int(x))
        elif get_origin(kind) is list:
            integer(out, len(x))
            for item in x:
                self.write(get_args(kind)[0], item)
        elif (inner := optional_of(kind)) is not None:
            out.append(0 if x is None else 1)
            if x is not None:
                self.write(inner, x)
        else:
            for (_, part), value in zip(parts(kind), x, strict=True):
                self.write(part, value)

    def one_of(self, kind: OneOf, x: Any) -> None:
        if isinstance(x, str):
            integer(self.out, kind.bare[x])
        else:
            integer(self.out, kind.number[type(x)])
            self.write(type(x), x)


class Reader:
    def __init__(self, data: bytes, payload: bytes | None) -> None:
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

    def read(self, kind: Any) -> Any:
        if kind is U8:
            return self.take(1)[0]
        if kind is bool:
            return self.flag() == 1
        if kind in WIDTHS:
            return self.integer(WIDTHS[kind])
        if kind in ARRAYS:
            return self.take(ARRAYS[kind])
        if kind is Raw:
            return self.take(self.integer(8))
        if kind is Payload:
            data, self.payload = self.payload, None
            return data or b""
        if kind is str:
            try:
                return self.take(self.integer(8)).decode()
            except UnicodeDecodeError:
                raise Malformed("not UTF-8") from None
        if isinstance(kind, OneOf):
            label, part = self.variant(kind.variants)
            return label if part is None else self.read(part)
        if isinstance(kind, type) and issubclass(kind, IntEnum):
            return self.variant(list(kind))
        if get_origin(kind) is list:
            items, part = [], get_args(kind)[0]
            for _ in range(self.integer(8)):  # every item takes a byte at least: a long list ends early
                items.append(self.read(part))
            return items
        if (inner := optional_of(kind)) is not None:
            return self.read(inner) if self.flag() else None
        cls = get_origin(kind) or kind
        return cls(*[self.read(part) for _, part in parts(kind)])

    def flag(self) -> int:
        byte = self.take(1)[0]
        if byte > 1:
            raise Malformed("neither 0 nor 1")
        return byte

    def variant(self, variants: Any) -> Any:
        n = self.integer(4)
        if n >= len(variants):
            raise Malformed("unknown variant")
        return variants[n]


def canonical(kind: Any, x: Any) -> bytes:
    """What is signed, hashed or stored."""
    writer = Writer()
    writer.write(kind, x)
    return bytes(writer.out)


def decode(kind: Any, data: bytes) -> Any:
    reader = Reader(data, None)
    if len(data) > LIMIT:
        raise Malformed("too long")
    x = reader.read(kind)
    if reader.at != len(data):
        raise Malformed("bytes left over")
    return x


def is_bulk(message: Any) -> bool:
    """Whether a message travels on the bulk channel (section 6)."""
    if isinstance(message, View):
        return isinstance(message.message, Reduce) and isinstance(message.message.message, Chunk)
    if isinstance(message, Transfer):
        return isinstance(message.message, (Head, Piece))
    return isinstance(message, Exchange) and isinstance(message.content, Bulk)


def encode_message(message: Any) -> tuple[bytes, bytes]:
    """Header and payload."""
    writer = Writer()
    writer.write(MESSAGE, message)
    return bytes(writer.out), writer.payload


def decode_message(header: bytes, payload: bytes, bulk: bool) -> Any:
    if len(header) > LIMIT:
        raise Malformed("too long")
    reader = Reader(header, payload)
    message = reader.read(MESSAGE)
    if reader.at != len(header):
        raise Malformed("bytes left over")
    if reader.payload:
        raise Malformed("payload where none belongs")
    if is_bulk(message) != bulk:
        raise Malformed("wrong channel")
    return message


def frame(header: bytes, payload: bytes) -> bytes:
    """A frame of section 6."""
    length = 4 + len(header) + len(payload)
    return struct.pack("<II", length, len(header)) + header + payload
