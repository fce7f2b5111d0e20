"""Messages of the wire and their encoding (spec, sections 2 and 2.1).

The types are read from the specification itself. Structs and variants with parts become named tuples,
variants without parts their names, and enums of such names alone an IntEnum. A variant is an attribute of its
enum: `Message.Hello`, `Order.Sum`. Parts without names are called after their types (`PART_NAMES`).
"""

from __future__ import annotations

import functools
import os
import re
import struct
from collections import namedtuple
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

LIMIT = 1_048_576
SPECIFICATION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "protocol-spec.md")
PART_NAMES = {"Ballot": ["ballot", "other"], "u32": ["slot", "index"], "Vec": ["items"], "[": ["digest"]}


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
TYPES: dict[str, Any] = {}  # classes of structs, enums


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
            return sequence(lambda *x: x, [part for _, part in self.tuple_parts()])
        if self.skip("<"):
            inner = self.kind()
            self.skip(">")
            if word == "Vec":
                return Codec(raw, lambda data: data.take(data.integer(8))) if inner is U8 else vec(inner)
            if word == "Option":
                return option(inner)
            return sequence(TYPES["Signed"], [CODECS["peer"], inner, array(64)])
        if word in CODECS:
            return CODECS[word]
        return Codec(lambda out, x: CODECS[word].write(out, x), lambda data: CODECS[word].read(data))

    def named_parts(self) -> list[tuple[str, Codec]]:
        found = []
        while not self.skip("}"):
            name = self.next()
            self.skip(":")
            found.append((name, self.kind()))
            self.skip(",")
        return found

    def tuple_parts(self) -> list[tuple[str, Codec]]:
        found: list[tuple[str, Codec]] = []
        while not self.skip(")"):
            last_word = re.findall("[A-Z]?[a-z]*", self.peek())[-2].lower()
            names = PART_NAMES.get(self.peek(), [last_word])  # TransferMessage is a `message`
            taken = [name for name, _ in found]
            name = next((name for name in names if name not in taken), f"part{len(found)}")
            found.append((name, self.kind()))
            self.skip(",")
        return found

    def definitions(self) -> None:
        while self.peek():
            name = self.next()
            if self.skip("<"):  # Signed<T>
                self.at += 2
            if self.skip("{"):
                TYPES[name], CODECS[name] = self.struct(name, self.named_parts())
            elif self.skip("=") and not self.peek().isdigit():
                CODECS[name] = self.kind()  # an alias
            else:
                TYPES[name], CODECS[name] = self.enum(name)

    def struct(self, name: str, parts: list[tuple[str, Codec]]) -> tuple[type, Codec]:
        made = namedtuple(name, [part for part, _ in parts])
        return made, sequence(made, [kind for _, kind in parts])

    def enum(self, name: str) -> tuple[Any, Codec]:
        variants: list[tuple[Any, Codec]] = []
        names = []
        while self.peek().isdigit():
            self.next()
            names.append(self.next())
            if self.skip("{"):
                variants.append(self.struct(names[-1], self.named_parts()))
            elif self.skip("("):
                variants.append(self.struct(names[-1], self.tuple_parts()))
            else:
                variants.append((names[-1], nothing(names[-1])))
            self.skip("|")
        keys = [key for key, _ in variants]
        if keys == names:
            kind = IntEnum(name, names, start=0)
            return kind, one_of([(value, nothing(value)) for value in kind])
        return SimpleNamespace(**dict(zip(names, keys))), one_of(variants)


def define(text: str) -> None:
    """More definitions, in the manner of the specification."""
    Grammar(text).definitions()


def wire() -> str:
    """The definitions of section 2.1."""
    with open(SPECIFICATION) as file:
        return re.search(r"### 2\.1 .*?```text\n(.*?)```", file.read(), re.DOTALL)[1]


define(wire())
globals().update(TYPES)


@functools.cache
def codec(kind: str) -> Codec:
    return Grammar(kind).kind()


def canonical(kind: str, x: Any) -> bytes:
    """What is signed, hashed or stored."""
    out = Out()
    codec(kind).write(out, x)
    return bytes(out)


def read_all(kind: str, data: In, limit: int = LIMIT) -> Any:
    if len(data.data) > limit:
        raise Malformed("too long")
    x = codec(kind).read(data)
    if data.at != len(data.data):
        raise Malformed("bytes left over")
    return x


def decode(kind: str, data: bytes, limit: int = LIMIT) -> Any:
    return read_all(kind, In(data, b""), limit)


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
