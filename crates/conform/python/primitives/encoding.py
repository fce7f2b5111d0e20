"""Messages of the wire and their encoding (spec, sections 2 and 2.1).

The types are read from the specification itself. Structs and variants with parts become named tuples. A
variant without parts is represented by its name. A variant is an attribute of its enum: `Message.Hello`,
`Order.Sum`. Parts without names get names from their types (`PART_NAMES`).
"""

from __future__ import annotations

import functools
import re
import struct
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

from . import Refused

LIMIT = 1_048_576
SPECIFICATION = Path(__file__).resolve().parents[4] / "protocol-spec.md"
PART_NAMES = {"Ballot": ["ballot", "other"], "u32": ["slot", "index"], "Vec": ["items"], "[": ["digest"]}


class Malformed(Refused):
    """Bytes that do not decode."""

    def __init__(self, text: str) -> None:
        super().__init__("malformed", text)


class Out(bytearray):
    """Output of an encoder. A payload is kept apart from the header."""

    payload = b""

    def integer(self, n: int) -> None:
        if n < 251:
            self.append(n)
        else:
            tag = 0 if n < 1 << 16 else 1 if n < 1 << 32 else 2
            self.append(251 + tag)
            self.extend(n.to_bytes(2 << tag, "little"))

    def block(self, x: bytes) -> None:
        self.integer(len(x))
        self.extend(x)


class In:
    """Input of a decoder. It never reads more bytes than are available (M2.2)."""

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

    def block(self) -> bytes:
        return self.take(self.integer(8))

    def text(self) -> str:
        try:
            return self.block().decode()
        except UnicodeDecodeError:
            raise Malformed("not UTF-8") from None

    def payload_once(self) -> bytes:
        data, self.payload = self.payload, b""
        return data


def same(x: Any) -> Any:
    return x


class Codec(NamedTuple):
    write: Callable[[Out, Any], None]
    read: Callable[[In], Any]
    show: Callable[[Any], Any] = same  # converts a value to JSON, as in the vectors


# --- codecs made from codecs


def integers(width: int) -> Codec:
    return Codec(Out.integer, lambda data: data.integer(width))


def array(n: int) -> Codec:
    return Codec(Out.extend, lambda data: data.take(n), bytes.hex)


def vec(inner: Codec) -> Codec:
    def write(out: Out, x: list[Any]) -> None:
        out.integer(len(x))
        for item in x:
            inner.write(out, item)

    return Codec(write, lambda data: [inner.read(data) for _ in range(data.integer(8))],
                 lambda x: [inner.show(item) for item in x])


def fixed(inner: Codec, count: int) -> Codec:
    def write(out: Out, x: list[Any]) -> None:
        for item, _ in zip(x, range(count), strict=True):
            inner.write(out, item)

    return Codec(write, lambda data: [inner.read(data) for _ in range(count)], lambda x: [inner.show(item) for item in x])


def option(inner: Codec) -> Codec:
    def write(out: Out, x: Any) -> None:
        out.append(x is not None)
        if x is not None:
            inner.write(out, x)

    return Codec(write, lambda data: inner.read(data) if data.flag() else None,
                 lambda x: None if x is None else inner.show(x))


def sequence(make: Callable[..., Any], parts: list[Codec], names: list[str] | None = None) -> Codec:
    """Makes a codec of consecutive parts. Named parts are shown with names, a single unnamed part alone."""

    def write(out: Out, x: Any) -> None:
        for part, value in zip(parts, x, strict=True):
            part.write(out, value)

    def show(x: Any) -> Any:
        shown = [part.show(value) for part, value in zip(parts, x) if part is not CODECS["payload"]]
        if names is not None:
            return dict(zip(names, shown))
        return shown[0] if len(parts) == 1 and make is not pair else shown

    return Codec(write, lambda data: make(*[part.read(data) for part in parts]), show)


def pair(*parts: Any) -> tuple[Any, ...]:
    return parts


def nothing(value: Any) -> Codec:
    return Codec(lambda out, x: None, lambda data: value, lambda x: None)


def one_of(variants: list[tuple[Any, Codec]]) -> Codec:
    """Makes a codec of an enum, from pairs of a variant and its codec.

    A variant is given by its type, or by its name if it has no parts.
    """
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

    def show(x: Any) -> Any:
        if isinstance(x, str):
            return x
        return {type(x).__name__: variants[numbers[type(x)]][1].show(x)}

    return Codec(write, read, show)


def later(name: str) -> Codec:
    """Returns the codec of a type that may be defined later."""
    return Codec(lambda out, x: CODECS[name].write(out, x), lambda data: CODECS[name].read(data),
                 lambda x: CODECS[name].show(x))


CODECS: dict[str, Codec] = {
    "u8": Codec(Out.append, lambda data: data.take(1)[0]),
    "u16": integers(2), "u32": integers(4), "u64": integers(8),
    "bool": Codec(Out.append, In.flag),
    "string": Codec(lambda out, x: out.block(x.encode()), In.text),
    "Vec<u8>": Codec(Out.block, In.block, bytes.hex),
    "payload": Codec(lambda out, x: setattr(out, "payload", bytes(x)), In.payload_once)}
TYPES: dict[str, Any] = {}  # classes of structs, and enums


# --- codecs made from text as in section 2.1


@functools.cache
def codec(kind: str) -> Codec:
    if kind in CODECS:
        return CODECS[kind]
    if kind.startswith("[u8; "):
        return array(int(kind[5:-1]))
    if kind.startswith("["):
        inner, _, count = kind[1:-1].rpartition("; ")
        return fixed(codec(inner), int(count))
    if kind.startswith("("):
        return sequence(pair, [codec(part) for part in split(kind)])
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "Signed":
        parts = [codec("peer"), codec(inner), array(64)]
        return sequence(TYPES["Signed"], parts, ["author", "item", "signature"])
    return {"Vec": vec, "Option": option}[outer](codec(inner)) if inner else later(kind)


def split(parts: str) -> list[str]:
    """Splits the content of brackets at the commas that are not inside inner brackets."""
    return [part.strip() for part in re.split(r",(?![^(<]*[)>])", parts[1:-1])]


def part_name(kind: str, taken: Any) -> str:
    """Returns the name for an unnamed part, such as `message` for a `ViewMessage`."""
    word = re.match(r"\w+|.", kind)[0]
    names = PART_NAMES.get(word) or [re.findall("[A-Z][a-z]*", word)[-1].lower()]
    return next(name for name in names if name not in taken)


def struct_of(name: str, text: str) -> tuple[type, Codec]:
    """Makes a struct from parts with names in braces, or without names in parentheses."""
    parts: dict[str, Codec] = {}
    for part in split(text):
        before, _, kind = part.rpartition(": ")
        parts[before or part_name(kind, parts)] = codec(kind)
    made = namedtuple(name, parts)
    names = [part for part in parts if parts[part] is not CODECS["payload"]] if text[0] == "{" else None
    return made, sequence(made, list(parts.values()), names)


def enum_of(variants: dict[str, str]) -> tuple[SimpleNamespace, Codec]:
    """Makes an enum from its variants, each with the text of its parts."""
    coded = {name: struct_of(name, parts) if parts else (name, nothing(name))
             for name, parts in variants.items()}
    return SimpleNamespace(**{name: key for name, (key, _) in coded.items()}), one_of(list(coded.values()))


def define(text: str) -> None:
    """Reads definitions in the notation of the specification. Each begins at the start of a line."""
    for definition in re.split(r"\s*\n(?=\w)", text.strip()):
        name, body = re.match(r"(\w+)(?:<T>)?[\s=]*(.*)", definition, re.DOTALL).groups()
        _, *variants = re.split(r"[\s|]*\b\d+ ([A-Z]\w*)\s*", body)
        if variants:
            TYPES[name], CODECS[name] = enum_of(dict(zip(variants[::2], variants[1::2])))
        elif body.startswith("{"):
            TYPES[name], CODECS[name] = struct_of(name, body)
        else:
            CODECS[name] = codec(body)


define(re.search(r"### 2\.1 .*?```text\n(.*?)```", SPECIFICATION.read_text(), re.DOTALL)[1])
globals().update(TYPES)


def canonical(kind: str, x: Any) -> bytes:
    """Returns the encoding that is signed, hashed or stored."""
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


def shown(kind: str, x: Any) -> Any:
    """Returns a value as the vectors show it, with bytes in hexadecimal digits and without a payload."""
    return codec(kind).show(x)


def is_bulk(message: Any) -> bool:
    """Returns whether a message is sent on the bulk channel (section 6)."""
    inner = getattr(message, "message", getattr(message, "content", None))
    name = type(getattr(inner, "message", inner)).__name__
    return name in ("Chunk", "Head", "Piece", "Bulk")


def encode_message(message: Any) -> tuple[bytes, bytes]:
    """Returns header and payload."""
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
    """Returns a frame of section 6."""
    return struct.pack("<II", 4 + len(header) + len(payload), len(header)) + header + payload
