#!/usr/bin/env python3
"""Recomputes tests/vectors/*.json from protocol-spec.md, independently of the Rust code.

Needs Python 3.11 and the packages `cryptography` and `blake3`. The types of the wire are read out of the specification itself (section
2.1); the rest follows its text, section by section. Prints what fails and `N passed, N failed`; exit code 1 if any failed.
"""

import csv
import datetime
import io
import functools
import hashlib
import hmac
import json
import math
import re
import struct
import sys
import tomllib
import unicodedata
from fractions import Fraction
from pathlib import Path

from blake3 import blake3
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

ROOT = Path(__file__).resolve().parent.parent
ORDER = 2**252 + 27742317777372353535851937790883648493  # l
PRIME = 2**255 - 19
CHUNK = 262_144
MAX_FRAME = 1_048_576


class Refused(Exception):
    """What must be refused; the first argument is the class in the vectors."""


def vectors(name):
    return json.loads((ROOT / "tests/vectors" / f"{name}.json").read_text())


# ------------------------------------------------------------------------------------------------- section 2: encoding


class Schema:
    """The types of section 2.1, parsed from the specification."""

    def __init__(self, text):
        self.tokens = re.findall(r"[A-Za-z_][A-Za-z_0-9]*|\d+|[{}()\[\]<>=|,:;]", text)
        self.types = {}
        while self.tokens:
            self.statement()

    def take(self, expected=None):
        token = self.tokens.pop(0)
        assert expected in (None, token), (expected, token, self.tokens[:5])
        return token

    def peek(self):
        return self.tokens[0] if self.tokens else ""

    def statement(self):
        name = self.take()
        if self.peek() == "<":  # Signed<T>
            self.tokens[0:3] = []
        if self.peek() == "{":
            self.types[name] = ("struct", self.fields())
            return
        self.take("=")
        if not self.peek().isdigit():
            self.types[name] = self.type()
            return
        variants = {}
        while self.peek().isdigit() or self.peek() == "|":
            if self.peek() == "|":
                self.take()
            number = int(self.take())
            variant = self.take()
            if self.peek() == "{":
                body = ("struct", self.fields())
            elif self.peek() == "(":
                parts = self.tuple()
                body = parts[0] if len(parts) == 1 else ("tuple", parts)
            else:
                body = None
            variants[number] = (variant, body)
        self.types[name] = ("enum", variants)

    def fields(self):
        self.take("{")
        out = []
        while self.peek() != "}":
            name = self.take()
            self.take(":")
            out.append((name, self.type()))
            if self.peek() == ",":
                self.take()
        self.take("}")
        return out

    def tuple(self):
        self.take("(")
        out = []
        while self.peek() != ")":
            out.append(self.type())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return out

    def type(self):
        if self.peek() == "(":
            return ("tuple", self.tuple())
        if self.peek() == "[":
            self.take(), self.take("u8"), self.take(";")
            length = int(self.take())
            self.take("]")
            return ("bytes", length)
        name = self.take()
        if self.peek() == "<":
            self.take()
            inner = self.type()
            self.take(">")
            return {"Vec": "vec", "Option": "option", "Signed": "signed"}[name], inner
        return ("name", name)


SPEC = (ROOT / "protocol-spec.md").read_text()
SCHEMA = Schema(SPEC.split("### 2.1")[1].split("```text")[1].split("```")[0]).types
WIDTH = {"u16": 2, "u32": 4, "u64": 8}


def parse_type(text):
    schema = object.__new__(Schema)
    schema.tokens = re.findall(r"[A-Za-z_][A-Za-z_0-9]*|\d+|[{}()\[\]<>=|,:;]", text)
    return schema.type()


def resolve(kind):
    if kind[0] == "name" and kind[1] in SCHEMA:
        return resolve(SCHEMA[kind[1]])
    if kind[0] == "signed":
        fields = [(name, kind[1] if name == "item" else field) for name, field in SCHEMA["Signed"][1]]
        return ("struct", fields)
    return kind


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, n):
        if self.at + n > len(self.data):
            raise Refused("malformed", "ends early")
        self.at += n
        return self.data[self.at - n : self.at]

    def integer(self, width):
        first = self.raw(1)[0]
        if first < 251:
            return first
        size = {251: 2, 252: 4, 253: 8}.get(first)
        if size is None or size > width:
            raise Refused("malformed", f"tag {first}")
        return int.from_bytes(self.raw(size), "little")

    def flag(self):
        value = self.raw(1)[0]
        if value > 1:
            raise Refused("malformed", f"{value} for 0 or 1")
        return value == 1

    def value(self, kind):
        kind = resolve(kind)
        match kind:
            case ("name", "u8"):
                return self.raw(1)[0]
            case ("name", "bool"):
                return self.flag()
            case ("name", ("u16" | "u32" | "u64") as name):
                return self.integer(WIDTH[name])
            case ("name", "string"):
                try:
                    return self.raw(self.integer(8)).decode()
                except UnicodeDecodeError as error:
                    raise Refused("malformed", "not UTF-8") from error
            case ("bytes", length):
                return self.raw(length).hex()
            case ("vec", ("name", "u8")):
                return self.raw(self.integer(8)).hex()
            case ("vec", inner):
                return [self.value(inner) for _ in range(self.integer(8))]
            case ("option", inner):
                return self.value(inner) if self.flag() else None
            case ("tuple", parts):
                return [self.value(part) for part in parts]
            case ("struct", fields):
                return {name: self.value(field) for name, field in fields if field != ("name", "payload")}
            case ("enum", variants):
                number = self.integer(4)
                if number not in variants:
                    raise Refused("malformed", f"variant {number}")
                name, body = variants[number]
                return name if body is None else {name: self.value(body)}
        raise AssertionError(kind)


def decode(kind, data):
    if len(data) > MAX_FRAME:
        raise Refused("malformed", "too long")
    reader = Reader(data)
    value = reader.value(parse_type(kind))
    if reader.at != len(data):
        raise Refused("malformed", "left over")
    return value


def encode_integer(n):
    if n < 251:
        return bytes([n])
    for tag, size in ((251, 2), (252, 4), (253, 8)):
        if n < 256**size:
            return bytes([tag]) + n.to_bytes(size, "little")
    raise AssertionError(n)


def encode(kind, value):
    return encode_value(parse_type(kind), value)


def encode_value(kind, value):
    kind = resolve(kind)
    match kind:
        case ("name", "u8"):
            return bytes([value])
        case ("name", "bool"):
            return bytes([value])
        case ("name", "u16" | "u32" | "u64"):
            return encode_integer(value)
        case ("name", "string"):
            return encode_integer(len(value.encode())) + value.encode()
        case ("bytes", _):
            return bytes.fromhex(value)
        case ("vec", ("name", "u8")):
            return encode_integer(len(value) // 2) + bytes.fromhex(value)
        case ("vec", inner):
            return encode_integer(len(value)) + b"".join(encode_value(inner, item) for item in value)
        case ("option", inner):
            return b"\0" if value is None else b"\1" + encode_value(inner, value)
        case ("tuple", parts):
            return b"".join(encode_value(part, item) for part, item in zip(parts, value, strict=True))
        case ("struct", fields):
            return b"".join(encode_value(f, value[n]) for n, f in fields if f != ("name", "payload"))
        case ("enum", variants):
            name = value if isinstance(value, str) else next(iter(value))
            number, body = next((n, body) for n, (variant, body) in variants.items() if variant == name)
            return encode_integer(number) + (b"" if body is None else encode_value(body, value[name]))
    raise AssertionError(kind)


# ----------------------------------------------------------------------------------------- section 1, 3: hashes, identities


def le(n, size):
    return n.to_bytes(size, "little")


def tagged(tag, *parts):
    return hashlib.sha256(b"flyswarm/5 " + tag.encode() + b"\0" + b"".join(parts)).digest()


def ballot_bytes(ballot):
    return le(ballot["counter"], 8) + le(ballot["proposer"], 2)


def sum_bytes(total):
    return ballot_bytes(total["ballot"]) + le(total["slot"], 4)


def point(data):
    """x, y of an encoded point of Ed25519; ValueError unless it is one, in the canonical encoding."""
    sign, y = data[31] >> 7, int.from_bytes(data, "little") % 2**255
    if y >= PRIME:
        raise ValueError("y is not below p")
    d = -121665 * pow(121666, -1, PRIME) % PRIME
    xx = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
    x = pow(xx, (PRIME + 3) // 8, PRIME)
    if (x * x - xx) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if (x * x - xx) % PRIME:
        raise ValueError("no point")
    if x == 0 and sign:
        raise ValueError("negative zero")
    return (PRIME - x if x % 2 != sign else x), y


def double(p):
    x, y = p
    d = -121665 * pow(121666, -1, PRIME) % PRIME
    k = d * x * x * y * y
    return 2 * x * y * pow(1 + k, -1, PRIME) % PRIME, (y * y + x * x) * pow(1 - k, -1, PRIME) % PRIME


@functools.cache
def small_order(data):
    return double(double(double(point(data)))) == (0, 1)


BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def peer_id(public):
    data = bytes.fromhex("002408011220") + public
    n, out = int.from_bytes(data, "big"), ""
    while n:
        n, digit = divmod(n, 58)
        out = BASE58[digit] + out
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + out


def public_of_peer_id(text):
    n = 0
    for character in text:
        if character not in BASE58:
            raise Refused("peer-id")
        n = n * 58 + BASE58.index(character)
    zeros = len(text) - len(text.lstrip("1"))
    data = b"\0" * zeros + n.to_bytes((n.bit_length() + 7) // 8, "big")
    if len(data) != 38 or data[:6] != bytes.fromhex("002408011220"):
        raise Refused("peer-id")
    try:
        if small_order(data[6:]):
            raise Refused("peer-id")
    except ValueError as error:
        raise Refused("peer-id") from error
    return data[6:]


def public_of(seed):
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def signed_bytes(context, message):
    return b"flyswarm/5 signature\0" + le(len(context), 8) + context + message


def sign(seed, context, message):
    return Ed25519PrivateKey.from_private_bytes(seed).sign(signed_bytes(context, message))


def verify(public, context, message, signature):
    try:
        if int.from_bytes(signature[32:], "little") >= ORDER or small_order(signature[:32]) or small_order(public):
            raise Refused("bad-signature")
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed_bytes(context, message))
    except (InvalidSignature, ValueError) as error:
        raise Refused("bad-signature") from error


CONTEXTS = {
    "view key": "ViewKey",
    "deal": "Deal",
    "promise": "Promised",
    "acknowledgement": "Acknowledgement",
    "release": "Release",
    "failure": "Failure",
    "reveal": "Reveal",
}


def verify_item(session, context, signed):
    if signed["author"] >= len(session.roster):
        raise Refused("bad-signature")
    message = session.id + le(signed["author"], 2) + encode(CONTEXTS[context], signed["item"])
    verify(session.roster[signed["author"]], context.encode(), message, bytes.fromhex(signed["signature"]))


# ------------------------------------------------------------------------------------------- section 5: derivations, streams


def derive(key, label, params):
    extracted = hmac.digest(b"flyswarm/5", key, "sha256")
    return hmac.digest(extracted, label.encode() + b"\0" + params + b"\1", "sha256")


class Stream:
    def __init__(self, key, label, params, at=0):
        self.key, self.at = derive(key, label, params), at

    def read(self, n):
        block, skip = divmod(self.at, 16)
        cipher = Cipher(algorithms.AES256(self.key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
        self.at += n
        return cipher.update(bytes(skip + n))[skip:]

    def below(self, n):
        while True:
            v = int.from_bytes(self.read(4), "little")
            if v < 2**32 // n * n:
                return v % n


class Buffered(Stream):
    """The same, faster for many small reads."""

    def __init__(self, *args):
        super().__init__(*args)
        self.buffer = b""

    def read(self, n):
        while len(self.buffer) < n:
            self.buffer += super().read(65_536)
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out


def exchange(secret, public):
    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise Refused("low-order-key") from error


def x25519_public(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def add_words(bits, vector, other, sign=1):
    size, modulus = bits // 8, 2**bits
    assert len(vector) == len(other) and len(vector) % size == 0
    out = b""
    for i in range(0, len(vector), size):
        a, b = (int.from_bytes(x[i : i + size], "little") for x in (vector, other))
        out += le((a + sign * b) % modulus, size)
    return out


# --------------------------------------------------------------------------------------------------------- section 4: session


def printable(text):
    hidden = [0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
    hidden += [0xFFF9, 0xFFFA, 0xFFFB]
    for character in text:
        n = ord(character)
        if unicodedata.category(character) == "Cc" or n in hidden or 0xE0000 <= n <= 0xE0FFF:
            return False
        if character.isspace() and character != " ":
            return False
    return 1 <= len(text) <= 64 and text.strip() == text


def plain_name(text):
    return re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", text) is not None


def need(holds, what):
    if not holds:
        raise Refused("session", what)


class Setting:
    """What decides a sketch, but for the seed: the tables `data` and `flynn`, or an entry of `tune.setting` (section 4)."""

    def __init__(self, table, features, classes):
        need(set(table) <= {"scaling", "densify", "m", "s", "rho"}, "unknown field")
        need({"m", "s", "rho"} <= set(table), "missing field")
        self.densify = table.get("densify", False)
        self.scaling, self.range, self.bins = table.get("scaling", "none"), None, 1
        if isinstance(self.scaling, dict):
            [(self.scaling, inner)] = self.scaling.items()
            if self.scaling == "soft-bins":
                self.bins = inner["bins"]
                need(2 <= self.bins <= 64 and features * self.bins <= 2**20, "bins")
            else:
                self.range = [f32(inner[end]) for end in ("lo", "hi")]
                need(self.range[0] < self.range[1], "range")
        self.width = features * self.bins
        self.d = 1 << (self.width - 1).bit_length() if self.densify else self.width

        def size(value, letter, base, least):
            if isinstance(value, int):
                return value
            need(re.fullmatch(r"[0-9.]{1,32}" + letter, value), "size")
            return max(int(float(value[:-1]) * float(base)), least)

        self.m = size(table["m"], "d", self.d, 0)
        need(1 <= self.m <= 2**28 // classes, "m")
        self.s = size(table["s"], "d", self.d, 2)
        need(2 <= self.s <= self.d, "s")
        self.rho = size(table["rho"], "m", self.m, 2)
        need(1 <= self.rho <= self.m, "rho")

    def encoded_scaling(self):
        encoded = self.scaling.encode() + b"".join(struct.pack("<d", end + 0.0) for end in self.range or [])
        return encoded + (le(self.bins, 8) if self.scaling == "soft-bins" else b"")

    def encoded(self):
        sizes = b"".join(le(size, 8) for size in (self.m, self.s, self.rho))
        return Session.item(self.encoded_scaling()) + bytes([self.densify]) + sizes


EPOCH = datetime.date(1970, 1, 1).toordinal()


class Table:
    """Described columns (section 4.3)."""

    KINDS = ("ignored", "number", "category", "ordinal", "year-month-day", "day-month-year", "month-day-year")

    def __init__(self, table):
        names = "name kind levels order fill fill_with indicator min max clip".split()
        self.columns = table["column"]
        need(all({"name", "kind"} <= set(column) <= set(names) for column in self.columns), "unknown field")
        delimiter = table.get("delimiter", "auto")
        need(delimiter in ("auto", ",", ";", "\t", "|"), "delimiter")
        self.delimiter = None if delimiter == "auto" else delimiter
        self.comma, self.missing, self.label = table.get("decimal_comma", False), table.get("missing", []), table.get("label", "")
        need(len(set(self.missing)) == len(self.missing) <= 100 and all(map(printable, self.missing)), "missing")
        need(1 <= len(self.columns) <= 2000, "columns")
        named = [column["name"] for column in self.columns] + [self.label] * bool(self.label)
        need(len(set(named)) == len(named) and all(map(printable, named)), "columns")
        for column in self.columns:
            self.check(column)
        need(len(set(self.names())) == len(self.names()) >= 1, "features")
        need(all(len(name.encode()) <= 256 for name in self.names()), "features")

    def check(self, column):
        kind, levels, fill = column["kind"], column.get("levels"), column.get("fill")
        need(kind in ("ignored", "number", "category", "ordinal", "date"), "kind")
        need((levels is not None) == (kind in ("category", "ordinal")), "levels")
        if levels is not None:
            need(1 <= len(levels) == len(set(levels)) <= 1000 and all(map(printable, levels)), "levels")
            need(not set(levels) & set(self.missing), "levels")
        need("order" not in column or kind == "date", "order")
        order = column.get("order", "year-month-day")
        need(order in self.KINDS[4:], "order")
        limits = [column[end] for end in ("min", "max") if end in column]
        if kind == "date":
            column["kind"] = order
            for name in ("fill", "min", "max"):
                if name in column:
                    column[name] = float(self.days(column[name], "year-month-day"))
            limits = [column[end] for end in ("min", "max") if end in column]
        elif kind == "number":
            need(all(type(x) in (int, float) for x in limits + ([] if fill is None else [fill])), "number")
        else:
            need(not limits and not column.get("clip", False), "limits")
            need(fill is None or fill in (levels or []) or kind == "category" and fill == "", "fill")
        need(limits == sorted(limits), "limits")
        need(limits or not column.get("clip", False), "clip")
        need("fill_with" not in column or fill is None and kind != "ignored", "fill_with")
        need(column.get("fill_with", "mean" if kind in ("number", "date") else "most-frequent") == ("mean" if kind in ("number", "date") else "most-frequent"), "fill_with")
        need({"fill", "fill_with"} & set(column) or not column.get("indicator", False), "indicator")

    @staticmethod
    def days(text, order):
        first = re.split("[T ]", text)[0]
        parts = [first[:4], first[4:6], first[6:]] if re.fullmatch("[0-9]{8}", first) and order[0] == "y" else re.split("[-/.]", first)
        need(len(parts) == 3, "date")
        year, month, day = (parts[order.split("-").index(part)] for part in ("year", "month", "day"))
        need(re.fullmatch("[0-9]{4}", year) and all(re.fullmatch("[0-9]{1,2}", part) for part in (month, day)), "date")
        return datetime.date(int(year), int(month), int(day)).toordinal() - EPOCH

    def names(self):
        names = []
        for column in self.columns:
            name, kind = column["name"], column["kind"]
            if kind == "category":
                names += [f"{name}={level}" for level in column["levels"]]
            elif kind != "ignored":
                names.append(name)
            names += [f"{name} is missing"] * column.get("indicator", False)
        return names

    def encoded(self):
        text = lambda text: le(len(text.encode()), 2) + text.encode()
        texts = lambda texts: le(len(texts), 2) + b"".join(map(text, texts))
        number = lambda x: struct.pack("<d", x + 0.0)
        out = (self.delimiter or "\0").encode() + bytes([self.comma]) + texts(self.missing) + text(self.label)
        out += le(len(self.columns), 2)
        for column in self.columns:
            out += text(column["name"]) + bytes([self.KINDS.index(column["kind"])])
            out += texts(column["levels"]) if "levels" in column else b""
            fill = column.get("fill")
            if fill is None:
                out += b"\4" if "fill_with" in column else b"\0"
            elif isinstance(fill, str):
                out += b"\2" + text(fill) if fill else b"\3"
            else:
                out += b"\1" + number(fill)
            limits = sum(bit for bit, end in ((1, "min"), (2, "max")) if end in column) + 4 * column.get("clip", False)
            out += bytes([column.get("indicator", False), limits])
            out += b"".join(number(column[end]) for end in ("min", "max") if end in column)
        return out

    def row(self, cells):
        """The numbers of a row, from a map of names to texts."""
        out = []
        for column in self.columns:
            text, kind, fill = cells[column["name"]].strip(), column["kind"], column.get("fill")
            missing = text == "" or text in self.missing
            if kind == "ignored":
                continue
            if kind in ("category", "ordinal"):
                level = fill if missing else text
                places = [float(level == other) for other in column["levels"]]
                out += places if kind == "category" else [float(column["levels"].index(level))]
            else:
                out.append(f32(fill if missing else self.value(column, text)))
            out += [float(missing)] * column.get("indicator", False)
        return out

    def value(self, column, text):
        """Of a number or a date that is there."""
        if column["kind"] == "number":
            point, groups = (",", ".") if self.comma else (".", ",")
            value = float(text.replace(groups, "").replace(point, "."))
        else:
            value = self.days(text, column["kind"])
        value = f32(value)
        low, high = column.get("min", -math.inf), column.get("max", math.inf)
        assert column.get("clip") or low <= value <= high
        return f32(min(max(value, low), high))

    def pooled(self):
        """The columns that all peers fill (section 15g)."""
        return [column for column in self.columns if "fill_with" in column]

    def present(self, rows):
        """Of each such column the texts that are there."""
        texts = [[row[column["name"]].strip() for row in rows] for column in self.pooled()]
        return [[text for text in each if text and text not in self.missing] for each in texts]

    def sums(self, rows):
        """A peer's vectors of `values` and `fills`."""
        present = self.present(rows)
        out = b""
        for column, texts in zip(self.pooled(), present):
            if "levels" in column:
                out += b"".join(le(texts.count(level), 8) for level in column["levels"])
            else:
                out += moments([[self.value(column, text)] for text in texts], 1, False)
        return b"".join(le(bool(texts), 4) for texts in present), out

    def fill(self, fills):
        """Puts the fills that were opened in the place of `fill_with`."""
        words = list(struct.unpack(f"<{len(fills) // 8}Q", fills))
        for column in self.pooled():
            own = [words.pop(0) for _ in column.get("levels", range(4))]
            if "levels" in column:
                if not 1 <= sum(own) < 2**23:
                    raise Refused("fills")
                column["fill"] = column["levels"][own.index(max(own))]
            else:
                mean = f32(opened_moments(b"".join(le(word, 8) for word in own), 1, False)[0][0])
                nearest = math.copysign(math.floor(abs(mean) + 0.5), mean)
                column["fill"] = mean if column["kind"] == "number" else nearest
            del column["fill_with"]


class Session:
    TIMING = {
        "gather_ms": (0, 3_600_000, 10_000),
        "propose_ms": (1, 3_600_000, 2_000),
        "stall_ms": (1, 3_600_000, 10_000),
        "quorum_ms": (1, 86_400_000, 60_000),
        "compute_ms": (1, 86_400_000, 600_000),
        "linger_ms": (0, 86_400_000, 30_000),
        "enlarge_ms": (0, 86_400_000, 30_000),
        "max_views": (1, 1_000, 16),
    }

    def __init__(self, text):
        try:
            file = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Refused("session") from error
        fields = {
            "": "name number created series columns table task select min_peers data flynn evaluate tune xclp sketch fedavg pseudo_labels custom privacy council timing roster",
            "council": "faults members",
            "series": "number parent",
            "table": "delimiter decimal_comma missing label column",
            "data": "features columns classes scaling densify check_columns",
            "flynn": "m s rho gamma score",
            "evaluate": "held_out most learn_all",
            "tune": "folds setting",
            "xclp": "bits k alpha steps power balance hamming compute few_rows large_owner most_rows most_sessions memory_mb",
            "sketch": "hash rows range publish pairwise active chosen temperature",
            "pseudo_labels": "after refresh",
            "fedavg": "network hidden filters image rounds epochs steps batch rate schedule momentum weight_decay proximal clip members weighting held_out patience flip shift initial",
            "custom": "name bytes",
            "privacy": "min_holders colluding epsilon delta top mode colluders",
            "timing": " ".join(self.TIMING),
        }
        optional = "table delimiter decimal_comma missing label features series columns check_columns council faults members select flynn evaluate held_out most learn_all xclp sketch fedavg pseudo_labels after refresh custom bytes classes " + fields["xclp"] + " " + fields["sketch"] + " " + fields["fedavg"] + " min_peers tune privacy timing columns scaling densify score folds " + fields["privacy"] + " " + fields["timing"]
        for table, names in fields.items():
            found = file.get(table, {}) if table else file
            need(set(found) <= set(names.split()), "unknown field")
            present = not table or table in file
            need(not present or set(names.split()) - set(found) <= set(optional.split()), "missing field")
        self.task = file["task"]
        allowed = {"tune"} if "tune" in file else {"flynn"} if "flynn" in file else {"xclp", "sketch", "fedavg", "fedavg-xclp", "custom"}
        need(self.task in allowed and ("flynn" in file) == (self.task in ("flynn", "tune")), "task")
        both = self.task == "fedavg-xclp"
        need(both or self.task == "xclp" or "xclp" not in file, "xclp")
        need(both or self.task == "fedavg" or "fedavg" not in file, "fedavg")
        need(both or "pseudo_labels" not in file, "pseudo_labels")
        need(("custom" in file) == (self.task == "custom"), "custom")
        self.custom = file.get("custom", {"name": "a"})
        need(re.fullmatch("[a-z0-9-]{1,64}", self.custom["name"], re.ASCII), "custom")
        need(re.fullmatch("([0-9a-f]{2}){0,65536}", self.custom.get("bytes", ""), re.ASCII), "custom")
        self.selects = "select" in file
        need(not self.selects or file["select"] == "sketch" and self.task == "flynn", "select")
        self.sketches = self.task == "sketch" or self.selects
        need(self.sketches or "sketch" not in file, "sketch")
        need(plain_name(file["name"]), "name")
        need(re.fullmatch("[0-9a-f]{32}", file["number"], re.ASCII), "number")
        created = file["created"]
        utc = isinstance(created, datetime.datetime) and created.tzinfo == datetime.timezone.utc
        need(utc and created.microsecond == 0 and created.timestamp() >= 0, "created")
        series = file.get("series", {"number": 2, "parent": "00" * 32})
        need(2 <= series["number"] <= 1_000_000, "series")
        need(re.fullmatch("[0-9a-f]{64}", series["parent"], re.ASCII), "series")
        entries = sorted((public_of_peer_id(entry["peer_id"]), entry["name"]) for entry in file["roster"])
        self.roster = [public for public, _ in entries]
        names = [name for _, name in entries]
        p = len(entries)
        need(3 <= p <= 1024 and len(set(self.roster)) == len(set(names)) == p and all(map(plain_name, names)), "roster")
        smallest = max(p // 2 + 1, 3)
        self.min_peers = file.get("min_peers", smallest)
        need(smallest <= self.min_peers <= p, "min_peers")

        data = file["data"]
        self.table = Table(file["table"]) if "table" in file else None
        need(self.table is None or not {"features", "columns"} & set(data) and "columns" not in file, "table")
        self.columns = self.table.names() if self.table else data.get("columns", [])
        self.features, self.classes = len(self.columns) if self.table else data.get("features", 0), data.get("classes", [])
        need(len(self.columns) in (0, self.features) and len(set(self.columns)) == len(self.columns), "columns")
        need(self.table is not None or all(map(printable, self.columns)), "column")
        need(1 <= self.features <= 65_536, "features")
        classless = self.task in ("sketch", "custom") and not self.classes
        need((classless or self.task != "sketch" and 2 <= len(self.classes) <= 1000) and len(set(self.classes)) == len(self.classes), "classes")
        need(all(map(printable, self.classes)), "class")
        flynn = file.get("flynn", {"m": 1, "s": 2, "rho": 1, "gamma": 0})
        xclp = file.get("xclp", {})
        self.bits, self.k = xclp.get("bits", 4096), xclp.get("k", 10)
        self.alpha, self.power = float(xclp.get("alpha", 0.99)), xclp.get("power", 3 if both else 1)
        need(0.01 <= self.alpha <= 0.999 and 1 <= self.power <= 3, "xclp")
        self.balance = xclp.get("balance", False)
        need(isinstance(self.balance, bool) and not (both and self.balance), "xclp.balance")
        self.hamming = xclp.get("hamming", "replicated")
        need(self.hamming in ("replicated", "ot", "phe") and not (both and self.hamming != "replicated"), "xclp.hamming")
        self.steps = xclp.get("steps", next(k for k in range(1, 1000) if self.cut_off(k) <= 2e-4))
        self.compute = xclp.get("compute", [])
        self.few_rows, self.large_owner = xclp.get("few_rows", False), xclp.get("large_owner", False)
        self.most_rows, self.most_sessions = xclp.get("most_rows", 0), xclp.get("most_sessions", 0)
        need(0 <= self.most_rows <= 10_000 and 0 <= self.most_sessions <= 1_000_000, "xclp")
        need(self.most_sessions in (0, *range(series["number"] if "series" in file else 1, self.most_sessions + 1)), "series")
        self.memory_mb = xclp.get("memory_mb", 1024)
        need(128 <= self.memory_mb <= 65_536, "xclp.memory_mb")
        need(64 <= self.bits <= 16_384 and self.bits & self.bits - 1 == 0 and 1 <= self.k <= 1000, "xclp")
        need(set(self.compute) <= set(names) and len(set(self.compute)) == len(self.compute) in (0, 3, 4), "compute")
        if both or self.task == "xclp":
            need(3 <= p <= 64, "roster")
            self.fits(5 * (self.k + 1))
        self.fedavg = (both or self.task == "fedavg") and self.checked_fedavg(file.get("fedavg", {}), data)
        self.after = self.refresh = None
        if both:
            found = file.get("pseudo_labels", {})
            self.after, self.refresh = found.get("after", self.fedavg["rounds"] // 2), found.get("refresh", 10)
            need(0 <= self.after < self.fedavg["rounds"] and 1 <= self.refresh <= 10_000, "pseudo_labels")
            need(self.fedavg["members"] == 1, "fedavg.members")
        sketch = file.get("sketch", {})
        self.hash, self.rows, self.span = sketch.get("hash", "srp"), sketch.get("rows", 1000), sketch.get("range", 64)
        self.publish, self.pairwise = sketch.get("publish", self.selects), sketch.get("pairwise", False)
        self.active, self.chosen = sketch.get("active", 0), sketch.get("chosen", 0)
        self.temperature = float(sketch.get("temperature", 1))
        need(2 <= self.span <= 65_536 and 1 <= self.rows <= 2**24 // self.span, "sketch")
        need(0 <= self.active <= p and 0 <= self.chosen <= p and 0.001 <= self.temperature <= 1000, "sketch")
        need(self.chosen == 0 or self.publish and self.active in (0, *range(self.chosen, p + 1)), "sketch")
        tables = [(data, "scaling"), (data, "densify"), (flynn, "m"), (flynn, "s"), (flynn, "rho")]
        own = Setting({key: table[key] for table, key in tables if key in table}, self.features, max(len(self.classes), 1))
        self.__dict__.update(own.__dict__)
        if self.sketches:
            planes = self.span.bit_length() - 1
            dimension = self.features * (own.bins if own.scaling == "soft-bins" else 1)
            srp = self.hash == "srp" and 1 << planes == self.span and self.rows * planes * dimension <= 2**28
            need(srp or self.hash == "minhash" and own.scaling == "none", "sketch")
            need(not self.densify or self.selects, "densify")
        private = "epsilon" in file.get("privacy", {})
        self.compares = data.get("check_columns", not private and self.task != "custom")
        need(not self.compares or not private and self.task != "custom", "check_columns")
        need(not (self.table and self.table.pooled()) or not private and self.task != "custom", "fill_with")
        limits = file.get("columns", {})
        need(set(limits) <= set(self.columns), "columns")
        for bounds in limits.values():
            need(bounds and set(bounds) <= {"min", "max"} and all(map(math.isfinite, bounds.values())), "columns")
            need(bounds.get("min", -math.inf) <= bounds.get("max", math.inf), "columns")
        tune = file.get("tune")
        self.folds = tune.get("folds", 3) if tune else 0
        self.settings = [own]
        if tune:
            need(2 <= self.folds <= 20 and 1 <= len(tune["setting"]) <= 64, "tune")
            self.settings += [Setting(each, self.features, len(self.classes)) for each in tune["setting"]]
            need(self.folds * len(self.classes) * sum(each.m for each in self.settings) <= 2**28, "counts")
        evaluate = file.get("evaluate")
        need(evaluate is None or self.task == "flynn" and not private and not self.selects, "evaluate")
        self.evaluates, evaluate = evaluate is not None, evaluate or {}
        self.held_out, self.most = evaluate.get("held_out", 20), evaluate.get("most", 1000)
        self.learn_all = evaluate.get("learn_all", True)
        need(1 <= self.held_out <= 50 and 1 <= self.most <= 1_000_000, "evaluate")
        self.gamma = float(flynn["gamma"]) + 0.0
        need(0 <= self.gamma < 1, "gamma")
        self.score = flynn.get("score", "decay")
        need(self.score in ("decay", "balanced-decay", "log", "balanced-log"), "score")
        privacy = file.get("privacy", {})
        self.min_holders = privacy.get("min_holders", 3)
        need(1 <= self.min_holders <= p, "min_holders")
        need(not self.selects or self.chosen >= max(3, self.min_holders) and not self.pairwise, "select")
        self.colluding = float(privacy.get("colluding", 1 / 3))
        need(0.01 <= self.colluding <= 0.99, "colluding")
        epsilon = privacy.get("epsilon")
        need(epsilon is not None or not {"delta", "top", "mode", "colluders"} & set(privacy), "privacy")
        self.mode = None
        noise = []
        if epsilon is not None:
            sketches, of_members = self.task == "sketch", self.task == "fedavg"
            self.mode = privacy.get("mode", "member" if of_members else "per-party")
            modes = ("member",) if of_members else ("per-party", "parallel", "central")[: 2 if sketches else 3]
            need(self.mode in modes, "mode")
            need(sketches or of_members or self.task == "flynn" and not self.selects, "epsilon")
            need(own.scaling in ("none", "unit-norm", "range"), "scaling")
            millionths = round(epsilon * 1e6)
            need(1_000 <= millionths <= 100_000_000 and millionths / 1e6 == epsilon, "epsilon")
            need(("top" in privacy) != (sketches or of_members), "top")
            need(sketches or of_members or 1 <= privacy["top"] <= own.m * len(self.classes), "top")
            need(("delta" in privacy) == of_members, "delta")
            noise = [("privacy.epsilon", le(millionths, 8))]
            if of_members:
                delta = round(privacy["delta"] * 1e12)
                need(1 <= delta <= 10**10 and delta / 1e12 == privacy["delta"], "delta")
                noise.append(("privacy.delta", le(delta, 8)))
            noise += [] if sketches or of_members else [("privacy.top", le(privacy["top"], 8))]
            noise.append(("privacy.mode", self.mode.encode()))
            if self.mode in ("central", "member"):
                colluders = privacy.get("colluders", 1)
                need(1 <= colluders < min(self.min_peers, 3, min(p, 15) // 2 + 1), "colluders")
                noise.append(("privacy.colluders", le(colluders, 8)))
            need(self.mode in ("central", "member") or "colluders" not in privacy, "colluders")
            if of_members:
                rounds, clip, share = self.fedavg["rounds"], self.fedavg["clip"], 2**27 // self.min_peers
                need(self.fedavg["weighting"] == "equal" and self.fedavg["held_out"] == 0, "fedavg")
                need(0.001 <= clip <= 4, "fedavg.clip")
                parties = self.min_peers - privacy.get("colluders", 1)
                rho, variance = noise_of_members(epsilon, privacy["delta"], rounds, math.floor(clip * share), parties)
                need(variance <= 2**54 and 10 * math.sqrt(variance * p) <= (8 - clip) * 2**27, "epsilon")
        need(not self.pairwise or p * (self.rows * self.span + (2 if self.mode else 0)) <= 2**28, "sketch")
        voting = file.get("council", {})
        self.faults, named = voting.get("faults", "crash"), voting.get("members", [])
        need(self.faults in ("crash", "byzantine"), "faults")
        need(set(named) <= set(names) and len(set(named)) == len(named), "council")
        need(not named or 3 <= len(named) <= 15, "council")
        need(self.faults == "crash" or (len(named) or min(p, 15)) >= 4, "faults")
        timing = {name: file.get("timing", {}).get(name, default) for name, (_, _, default) in self.TIMING.items()}
        for name, (low, high, _) in self.TIMING.items():
            need(low <= timing[name] <= high, name)

        number = lambda x: struct.pack("<d", x + 0.0)
        values = [
            ("name", file["name"].encode()),
            ("number", bytes.fromhex(file["number"])),
            ("created", le(int(created.timestamp()), 8)),
            *self.only("series" in file, ("series.number", le(series["number"], 8))),
            *self.only("series" in file, ("series.parent", bytes.fromhex(series["parent"]))),
            ("task", self.task.encode()),
            *self.only(self.selects, ("select", b"sketch")),
            ("min_peers", le(self.min_peers, 8)),
            ("data.features", le(self.features, 8)),
            ("data.classes", self.list(name.encode() for name in self.classes)),
            *([("data.columns", self.list(name.encode() for name in self.columns))] if self.columns else []),
            ("data.scaling", own.encoded_scaling()),
            ("data.densify", bytes([self.densify])),
            ("data.check_columns", bytes([self.compares])),
            *self.only(limits, ("columns", self.list(
                self.item(name.encode())
                + b"".join(self.item(number(bounds[end]) if end in bounds else b"") for end in ("min", "max"))
                for name, bounds in sorted(limits.items(), key=lambda limit: limit[0].encode())
            ))),
            *([("table", self.table.encoded())] if self.table else []),
            *self.only(
                self.task in ("flynn", "tune"),
                ("flynn.m", le(self.m, 8)),
                ("flynn.s", le(self.s, 8)),
                ("flynn.rho", le(self.rho, 8)),
                ("flynn.gamma", number(self.gamma)),
                ("flynn.score", self.score.encode()),
            ),
            *([("tune.folds", le(self.folds, 8))] if tune else []),
            *([("tune.settings", self.list(each.encoded() for each in self.settings[1:]))] if tune else []),
            *self.only(
                self.task in ("xclp", "fedavg-xclp"),
                ("xclp.bits", le(self.bits, 8)),
                ("xclp.k", le(self.k, 8)),
                ("xclp.alpha", number(self.alpha)),
                ("xclp.steps", le(self.steps, 8)),
                ("xclp.power", le(self.power, 8)),
                ("xclp.balance", bytes([self.balance])),
                ("xclp.hamming", self.hamming.encode()),
                ("xclp.compute", " ".join(self.compute).encode()),
                ("xclp.few_rows", bytes([self.few_rows])),
                ("xclp.large_owner", bytes([self.large_owner])),
                ("xclp.most_rows", le(self.most_rows, 8)),
                ("xclp.most_sessions", le(self.most_sessions, 8)),
                ("xclp.memory_mb", le(self.memory_mb, 8)),
            ),
            *self.only(
                self.sketches,
                ("sketch.hash", self.hash.encode()),
                ("sketch.rows", le(self.rows, 8)),
                ("sketch.range", le(self.span, 8)),
                ("sketch.publish", bytes([self.publish])),
                ("sketch.pairwise", bytes([self.pairwise])),
                ("sketch.active", le(self.active, 8)),
                ("sketch.chosen", le(self.chosen, 8)),
                ("sketch.temperature", number(self.temperature)),
            ),
            *self.only(
                self.evaluates,
                ("evaluate.held_out", le(self.held_out, 8)),
                ("evaluate.most", le(self.most, 8)),
                ("evaluate.learn_all", bytes([self.learn_all])),
            ),
            *(self.fedavg_entries() if self.fedavg else ()),
            *self.only(
                self.refresh,
                ("pseudo_labels.after", le(self.after or 0, 8)),
                ("pseudo_labels.refresh", le(self.refresh or 0, 8)),
            ),
            *self.only(
                self.task == "custom",
                ("custom.name", self.custom["name"].encode()),
                ("custom.bytes", bytes.fromhex(self.custom.get("bytes", ""))),
            ),
            ("privacy.min_holders", le(self.min_holders, 8)),
            ("privacy.colluding", number(self.colluding)),
            *noise,
            *self.only(self.faults != "crash", ("council.faults", self.faults.encode())),
            *self.only(named, ("council.members", self.list(name.encode() for name in sorted(named, key=str.encode)))),
            *((f"timing.{name}", le(value, 8)) for name, value in timing.items()),
            ("roster.peer_id", self.list(self.roster)),
            ("roster.name", self.list(name.encode() for name in names)),
        ]
        entries = [(name, self.item(name.encode()) + self.item(value)) for name, value in values]
        self.id = tagged("session", *(entry for _, entry in entries))
        self.fields = [[name, tagged("session field", entry)[:8].hex()] for name, entry in entries]
        voters = [peer for peer, name in enumerate(names) if not named or name in named]
        ranked = sorted((tagged("council", self.id, self.roster[peer]), peer) for peer in voters)
        self.council = [peer for _, peer in ranked][:15]
        n, deviating = len(self.council), (len(self.council) - 1) // 3
        self.quorum = n // 2 + 1 if self.faults == "crash" else -(-(n + deviating + 1) // 2)

    def cut_off(self, steps):
        """The part of the series that is missing after so many steps."""
        s = math.sqrt(1 - self.alpha**2)
        q = (1 - s) / self.alpha
        return 2 * q ** (steps + 1) / ((1 - q) * s) * (1 - self.alpha)

    def fits(self, n):
        """Section 15e: whether n points can be computed on."""
        k, steps = min(self.k, n - 1), self.steps
        value, roundings, most = 1.01 * 2**21 * 4 * math.sqrt(n), steps**2 * math.sqrt(8 * n * k), math.isqrt(n)
        score = 1.001 * (value + roundings) / (1 - self.alpha) + steps
        if self.balance:
            score = 1.002 * (value + most * roundings) / (1 - self.alpha) + most * steps + 1
        need((value + roundings) * 2**32 < 2**62 and 2**20 * score < 2**62, "range")
        need(1 <= steps <= 1000, "steps")
        others = steps**2 / 2**25
        if self.balance:
            others = others * math.sqrt(n - 1 + k) + n / (2**20 * most)
        need(2 * self.cut_off(steps) + 2 * (n - 1 + k) * 2**12 / 2**32 + others <= 1 / 32, "tolerance")

    @staticmethod
    def only(condition, *values):
        return values if condition else ()

    @staticmethod
    def item(data):
        return le(len(data), 8) + data

    @classmethod
    def list(cls, items):
        items = list(items)
        return le(len(items), 8) + b"".join(map(cls.item, items))

    def plan(self):
        """(name, bytes of a word, words) of each slot (sections 15 to 15g)."""
        coin, *others = self.plan_of_task()
        pooled = self.table.pooled() if self.table else []
        words = sum(len(column.get("levels", range(4))) for column in pooled)
        return [coin, *self.only(pooled, ("values", 4, len(pooled)), ("fills", 8, words)), *others]

    def plan_of_task(self):
        classes = len(self.classes)
        if self.task == "xclp":
            plan = [("coin", 4, 0), ("rows", 4, len(self.roster))]
            if self.scaling in ("center", "standard", "soft-bins"):
                plan.append(("moments", 8, self.features * (3 if self.scaling == "center" else 9) + 1))
            return [*plan, ("computed", 4, 9 * len(self.roster)), ("labelled", 4, 1)]
        if self.fedavg:
            plan = [("coin", 4, 0), ("holders", 4, 1 + classes), ("rows", 4, 1)]
            if self.compares or self.scaling in ("center", "standard", "soft-bins"):
                squares = self.compares or self.scaling != "center"
                plan.append(("moments", 8, 1 + self.features * (9 if squares else 3)))
            rounds = self.fedavg["rounds"]
            length = self.fedavg_weights() + 8 + 4 * rounds
            peers, number = len(self.roster), 0
            if self.mode:
                words = self.fedavg_weights() + 4
                return [plan[0], plan[2], *((f"round-{r + 1}", 4, words) for r in range(rounds))]
            for r in range(rounds):
                if self.refresh and r >= self.after and (r - self.after) % self.refresh == 0:
                    number += 1
                    parts = {"points": peers + classes, "computed": 9 * peers, "labelled": 1, "counts": classes}
                    plan += [(f"{part}-{number}", 4, words) for part, words in parts.items()]
                plan.append((f"round-{r + 1}", 4, length))
            return [*plan, ("scores", 4, 5)]
        words = self.rows * self.span
        if self.mode is not None and self.task == "sketch":
            plan = [("coin", 4, 0), ("sketch", 4, words + 2)]
            plan += self.only(self.publish, ("scores", 4, len(self.roster)))
            plan += self.only(self.pairwise, ("pairwise", 4, len(self.roster) * (words + 2)))
            return [*plan, *self.only(self.chosen > 0, ("draw", 4, 8))]
        if self.mode is not None:
            return [("coin", 4, 0), ("counts", 4, classes * self.m)]
        plan = [("coin", 4, 0), ("present", 4, 1) if self.selects else ("holders", 4, 1 + classes * (1 + self.evaluates))]
        scalings = {each.scaling for each in self.settings}
        if self.compares or scalings & {"center", "standard", "soft-bins"}:
            squares = self.compares or scalings & {"standard", "soft-bins"}
            plan.append(("moments", 8, 1 + self.features * (9 if squares else 3)))
        if self.sketches:
            plan.append(("sketch", 4, words + 1))
            plan += self.only(self.publish, ("scores", 4, len(self.roster)))
            plan += self.only(self.pairwise, ("pairwise", 4, len(self.roster) * words))
            plan += self.only(self.chosen > 0, ("draw", 4, 8))
            return plan + ([("holders", 4, 1 + classes), ("counts", 4, classes * self.m)] if self.selects else [])
        if self.evaluates:
            figures = 3 * classes**2 + 30 + (128 if classes == 2 else 0) + 4
            plan += [("learnt", 4, classes * self.m), ("scores", 8, figures)]
        if self.task == "flynn":
            return [*plan, ("counts", 4, classes * self.m)]
        counts = self.folds * classes * sum(each.m for each in self.settings)
        return [*plan, ("counts", 4, counts), ("scores", 4, classes * (1 + 23 * len(self.settings)))]

    def checked_fedavg(self, table, data):
        """The section [fedavg] with its defaults (section 15f)."""
        own = {
            "network": "logistic", "hidden": [], "filters": [], "image": [], "rounds": 20, "epochs": 1, "steps": 0,
            "batch": 32, "rate": 0.05, "schedule": "cosine", "momentum": 0.9, "weight_decay": 1e-4, "proximal": 0.0,
            "clip": 0.0, "members": 1.0, "weighting": "rows", "held_out": 0, "flip": False, "shift": 0,
            "initial": None, "patience": 0,
        }
        network = table.get("network", "logistic")
        own |= {"mlp": {"hidden": [128]}, "cnn": {"hidden": [128], "filters": [16, 32, 32]}}.get(network, {})
        own |= table
        ranges = {
            "rounds": (1, 10_000), "epochs": (1, 1000), "steps": (0, 1_000_000), "batch": (1, 65_536), "rate": (5e-324, 10),
            "momentum": (0, 0.999), "weight_decay": (0, 1), "proximal": (0, 1000), "clip": (0, 1e6),
            "members": (0.001, 1), "held_out": (0, 50), "shift": (0, 64),
            "patience": (0, 10_000),
        }
        need(all(lo <= own[name] <= hi for name, (lo, hi) in ranges.items()), "fedavg")
        need(own["patience"] == 0 or own["held_out"] > 0, "fedavg.patience")
        need(own["initial"] is None or re.fullmatch("[0-9a-f]{64}", own["initial"]) and self.task == "fedavg", "fedavg.initial")
        need(own["schedule"] in ("constant", "cosine") and own["weighting"] in ("rows", "equal"), "fedavg")
        need(all(size >= 1 for name in ("hidden", "filters", "image") for size in own[name]), "fedavg")
        hidden, filters, image = len(own["hidden"]), len(own["filters"]), len(own["image"])
        shapes = {"logistic": hidden == filters == 0, "mlp": 1 <= hidden <= 8 and filters == 0, "cnn": (hidden, filters, image) == (1, 3, 3)}
        need(shapes.get(network, False) and image in (0, 3), "network")
        need(image or not own["flip"] and own["shift"] == 0, "image")
        if image:
            channels, height, width = own["image"]
            need(channels * height * width == self.features, "image")
            need(own["shift"] < min(height, width) and (network != "cnn" or min(height, width) >= 8), "image")
        return own

    def fedavg_shapes(self):
        """(outputs, inputs) of each matrix of the network, first to last."""
        own, classes = self.fedavg, len(self.classes)
        widths = [self.features, *own["hidden"], classes]
        if own["network"] != "cnn":
            return list(zip(widths[1:], widths))
        (channels, height, width), filters = own["image"], own["filters"]
        area = (height // 8) * (width // 8)
        convolutions = list(zip(filters, [9 * c for c in (channels, *filters)]))
        return [*convolutions, (own["hidden"][0], filters[2] * area), (classes, own["hidden"][0])]

    def fedavg_weights(self):
        return sum(outputs * (inputs + 1) for outputs, inputs in self.fedavg_shapes())

    def fedavg_entries(self):
        own = self.fedavg
        entry = lambda name, value: (f"fedavg.{name}", value)
        yield entry("network", own["network"].encode())
        for name in ("hidden", "filters", "image"):
            yield entry(name, self.list(le(size, 8) for size in own[name]))
        for name in ("rounds", "epochs", "steps", "batch"):
            yield entry(name, le(own[name], 8))
        yield entry("schedule", own["schedule"].encode())
        for name in ("rate", "momentum", "weight_decay", "proximal", "clip", "members"):
            yield entry(name, struct.pack("<d", own[name]))
        yield entry("weighting", own["weighting"].encode())
        yield entry("held_out", le(own["held_out"], 8))
        yield entry("flip", bytes([own["flip"]]))
        yield entry("shift", le(own["shift"], 8))
        if own["patience"]:
            yield entry("patience", le(own["patience"], 8))
        if own["initial"]:
            yield entry("initial", bytes.fromhex(own["initial"]))

    def dealers(self, slot, members):
        present = [peer for peer in self.council if peer in members]
        return present if slot == 0 else present[:3]


@functools.cache
def session_of(text):
    return Session(text)


# ----------------------------------------------------------------------------------------- sections 9, 11, 12: views and pads


def tree_order(session, ballot, members):
    def key(peer):
        hashed = tagged("tree", session.id, ballot_bytes(ballot), session.roster[peer])
        return peer != ballot["proposer"], hashed, peer

    return sorted(members, key=key)


def parents(order):
    return [None if i == 0 else order[(i - 1) // 2] for i in range(len(order))]


def degree(p, colluding):
    return math.ceil((40 + math.log2(p)) / math.log2(1 / colluding))


def keys_digest(session, ballot, keys):
    """keys: [peer, 32 bytes, commitment or None], of all members."""
    each = [le(peer, 2) + key + (commitment or b"") for peer, key, commitment in sorted(keys)]
    return tagged("keys", session.id, ballot_bytes(ballot), *each)


def draw_of(digest, parts):
    return tagged("draw", digest, *(le(peer, 2) + part for peer, part in sorted(parts)))


def partners(session, members, draw, me):
    p = len(members)
    if p <= 64:
        return [peer for peer in members if peer != me]
    ring = [peer for _, peer in sorted((tagged("graph", draw, le(i, 2)), i) for i in members)]
    place, half = ring.index(me), min(-(-degree(p, session.colluding) // 2), (p - 1) // 2)
    return sorted({ring[(place + step) % p] for step in range(-half, half + 1)} - {me})


def pair_key(session, ballot, secret, public, a, b):
    info = session.id + ballot_bytes(ballot) + session.roster[min(a, b)] + session.roster[max(a, b)]
    return derive(exchange(secret, public), "agreement", info)


def scalar(data):
    value = int.from_bytes(data, "little")
    if len(data) != 32 or value >= ORDER:
        raise Refused("bad-share")
    return value


def shamir_share(coefficients, index):
    return sum(c * pow(index + 1, k, ORDER) for k, c in enumerate(coefficients)) % ORDER


def interpolate(shares, x):
    """The value at x of the polynomial through shares {index: value}."""
    total = 0
    for i, value in shares.items():
        weight = value
        for j in shares:
            if j != i:
                weight = weight * (x - (j + 1)) * pow(i - j, -1, ORDER) % ORDER
        total += weight
    return total % ORDER


def share_hash(context, dealer, index, share):
    return tagged("share", le(len(context), 8), context, le(dealer, 2), le(index, 2), share)


def edwards_to_x25519(public):
    _, y = point(public)
    return le((1 + y) * pow(1 - y, -1, PRIME) % PRIME, 32)


def envelope_key(shared, context, ephemeral, recipient):
    return derive(shared, "envelope", context + ephemeral + recipient)


def envelope_seal(secret, recipient, context, plain):
    ephemeral = x25519_public(secret)
    key = envelope_key(exchange(secret, edwards_to_x25519(recipient)), context, ephemeral, recipient)
    return ChaCha20Poly1305(key).encrypt(bytes(12), plain, context)


def envelope_open(seed, index, context, sealed):
    """sealed as decoded."""
    if index >= len(sealed["boxes"]):
        raise Refused("envelope")
    secret = hashlib.sha512(seed).digest()[:32]
    ephemeral = bytes.fromhex(sealed["ephemeral"])
    try:
        shared = exchange(secret, ephemeral)
        key = envelope_key(shared, context, ephemeral, public_of(seed))
        return ChaCha20Poly1305(key).decrypt(bytes(12), bytes.fromhex(sealed["boxes"][index]), context)
    except (Refused, InvalidTag) as error:
        raise Refused("envelope") from error


def share_context(session, total):
    return session.id + sum_bytes(total)


def pad_hash(session, total, dealer, pad):
    return tagged("pad", share_context(session, total), le(dealer, 2), pad)


def own_share(session, seed, index, deal):
    context = share_context(session, deal["item"]["sum"])
    try:
        share = envelope_open(seed, index, context + le(deal["author"], 2), deal["item"]["sealed"])
        scalar(share)
    except Refused as error:
        raise Refused("bad-deal") from error
    if share_hash(context, deal["author"], index, share).hex() != deal["item"]["share_hashes"][index]:
        raise Refused("bad-deal")
    return share


def open_pad(session, deal, shares):
    """The pad, or None for an unsound deal. shares: {council index: 32 bytes}, each matching its hash."""
    first = {index: scalar(shares[index]) for index in sorted(shares)[: session.quorum]}
    assert len(first) == session.quorum
    total, dealer = deal["item"]["sum"], deal["author"]
    pad = le(interpolate(first, 0), 32)
    for index, published in enumerate(deal["item"]["share_hashes"]):
        share = le(interpolate(first, index + 1), 32)
        if share_hash(share_context(session, total), dealer, index, share).hex() != published:
            return None
    return pad if pad_hash(session, total, dealer, pad).hex() == deal["item"]["pad_hash"] else None


def check_release(session, deals, release):
    """The shares {dealer: (council index, share)} of one signed release."""
    index = session.council.index(release["author"])
    out = {}
    for dealer, share in release["item"]["shares"]:
        deal = next((d for d in deals if d["author"] == dealer and d["item"]["sum"] == release["item"]["sum"]), None)
        if deal is None:
            raise Refused("inconsistent")
        scalar(bytes.fromhex(share))
        found = share_hash(share_context(session, release["item"]["sum"]), dealer, index, bytes.fromhex(share))
        if found.hex() != deal["item"]["share_hashes"][index]:
            raise Refused("bad-share")
        out[dealer] = index, bytes.fromhex(share)
    return out


# ---------------------------------------------------------------------------------------------------- section 10: the decision


def value_digest(session, value):
    return tagged("value", session.id, encode("Value", value)).hex()


def check_record(session, record):
    def must(holds, what):
        if not holds:
            raise Refused("bad-record", what)

    value, deals = record["value"], record["deals"]
    members, slot = value["members"], value["sum"]["slot"]
    must(members and all(a < b for a, b in zip(members, members[1:])) and members[-1] < len(session.roster), "members")
    must(slot < len(session.plan()), "slot")
    must(tagged("deals", encode("Vec<Signed<Deal>>", deals)).hex() == value["deals"], "digest of the deals")
    must([deal["author"] for deal in deals] == session.dealers(slot, members), "dealers")
    for deal in deals:
        item = deal["item"]
        n = len(session.council)
        must(item["sum"] == value["sum"] and len(item["share_hashes"]) == len(item["sealed"]["boxes"]) == n, "deal")
        try:
            verify_item(session, "deal", deal)
        except Refused as error:
            raise Refused("bad-record", "signature") from error


def decided(session, slot, digest, acknowledgements):
    if not acknowledgements:
        return False
    ballot, authors = acknowledgements[0]["item"]["ballot"], set()
    for each in acknowledgements:
        if each["item"] == {"ballot": ballot, "slot": slot, "value": digest} and each["author"] in session.council:
            try:
                verify_item(session, "acknowledgement", each)
                authors.add(each["author"])
            except Refused:
                pass
    return len(authors) >= session.quorum


def check_frozen(session, frozen):
    record, pads, releases = frozen["record"], frozen["pads"], frozen["releases"]
    check_record(session, record)
    slot, digest = record["value"]["sum"]["slot"], value_digest(session, record["value"])
    if not decided(session, slot, digest, frozen["acknowledgements"]):
        raise Refused("bad-record", "not decided")
    if len(pads) != len(record["deals"]):
        raise Refused("bad-record", "pads")
    shares = {deal["author"]: {} for deal in record["deals"]}
    if (None in pads) != bool(releases) and slot == 0:
        raise Refused("bad-record", "releases")
    for release in releases:
        try:
            verify_item(session, "release", release)
            for dealer, (index, share) in check_release(session, record["deals"], release).items():
                shares[dealer][index] = share
        except Refused as error:
            raise Refused("bad-record", "releases") from error
        if release["item"]["value"] != digest:
            raise Refused("bad-record", "releases")
    for pad, deal in zip(pads, record["deals"]):
        if pad is None and slot == 0:
            known = shares[deal["author"]]
            if len(known) < session.quorum or open_pad(session, deal, known) is not None:
                raise Refused("bad-record", "releases")
            continue
        hashed = pad and pad_hash(session, deal["item"]["sum"], deal["author"], bytes.fromhex(pad)).hex()
        if hashed != deal["item"]["pad_hash"]:
            raise Refused("bad-record", "pad")


def check_promise(session, ballot, signed):
    item = signed["item"]
    promise, accepted = item["promise"], item["promise"]["accepted"]

    def must(holds):
        if not holds:
            raise Refused("inconsistent")

    must(signed["author"] in session.council and item["ballot"] == ballot)
    must(promise["frozen"] <= len(session.plan()))
    order = lambda b: (b["counter"], b["proposer"])  # noqa: E731
    must(accepted is None or accepted["slot"] == promise["frozen"] and order(accepted["ballot"]) < order(ballot))
    must(promise["released"] == bool(item["decision"]) and (accepted is not None or not promise["released"]))
    verify_item(session, "promise", signed)
    must(not promise["released"] or decided(session, accepted["slot"], accepted["value"], item["decision"]))


def seed_of(session, deals, pads):
    sound = [(deal["author"], pad) for deal, pad in zip(deals, pads) if pad is not None]
    return tagged("seed", session.id, *(le(dealer, 2) + pad for dealer, pad in sound))


def total_digest(session, total, data):
    return tagged("total", session.id, sum_bytes(total), blake3(data).digest())


# ------------------------------------------------------------------------------------------------------ section 15: task flynn


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def moments(rows, d, squares):
    n = len(rows)

    def integer(x):
        nearest = math.floor(abs(Fraction(x)) * 2**40 + Fraction(1, 2))
        return nearest if x >= 0 else -nearest

    q = [[integer(x) for x in row] for row in rows]
    words = [n]
    for j in range(d):
        words.append(sum(row[j] % 2**40 for row in q))
        words.append(sum((row[j] >> 40) % 2**40 for row in q))
        words.append(sum(row[j] >> 80 for row in q) % 2**64)
    for j in range(d if squares else 0):
        words += [sum((row[j] ** 2 >> 40 * k) % 2**40 for row in q) for k in range(6)]
    return b"".join(le(word, 8) for word in words)


def opened_moments(total, d, squares):
    """Means and deviations from the sum of all words; `Refused` where they are the sums of no rows."""
    words = struct.unpack(f"<{len(total) // 8}Q", total)
    if len(words) != 1 + d * (9 if squares else 3):
        raise Refused("moments")
    n = words[0]
    if not 1 <= n < 2**23:
        raise Refused("moments")
    signed = [word - 2**64 if k % 3 == 2 and word >= 2**63 else word for k, word in enumerate(words[1 : 1 + 3 * d])]
    if any(abs(word) > n * 2**40 for word in (*signed, *words[1 + 3 * d :])):
        raise Refused("moments")
    means, deviations = [], []
    for j in range(d):
        total_of_q = sum(word * 2 ** (40 * k) for k, word in enumerate(signed[3 * j : 3 * j + 3]))
        means.append(float(total_of_q) / float(n * 2**40))
        if squares:
            limbs = words[1 + 3 * d + 6 * j : 7 + 3 * d + 6 * j]
            numerator = n * sum(limb << 40 * k for k, limb in enumerate(limbs)) - total_of_q**2
            if numerator < 0:
                raise Refused("moments")
            deviations.append(math.sqrt(float(numerator) / (float(n * n) * float(2**80))))
    return means, deviations


def scaler(session, total):
    """The function that scales a row, from the opened moments."""
    if total is not None:
        means, deviations = opened_moments(total, session.features, session.scaling != "center" or session.compares)

    def unit(row):
        squares = 0.0
        for x in row:
            squares += x * x
        norm = math.sqrt(squares)
        return [f32(x / norm) if norm > 0 else 0.0 for x in row]

    match session.scaling:
        case "none":
            return lambda row: row
        case "unit-norm":
            return unit
        case "range":
            low, high = session.range
            return lambda row: [f32(min(max((x - low) / (high - low), 0.0), 1.0)) for x in row]
        case "center":
            return lambda row: unit([x - mean for x, mean in zip(row, means)])
        case "standard":
            return lambda row: unit([(x - m) / s if s else 0.0 for x, m, s in zip(row, means, deviations)])
        case "soft-bins":

            def spread(row):
                out = []
                for x, mean, s in zip(row, means, deviations):
                    z = (x - mean) / s if s else 0.0
                    p = (0.5 + z / (2.0 * math.sqrt(z * z + 2.0))) * (session.bins - 1)
                    out += [f32(max(1.0 - abs(p - b), 0.0)) for b in range(session.bins)]
                return out

            return spread


def matrix(seed, m, d, s):
    stream = Buffered(seed, "flynn/matrix", le(m, 4) + le(d, 4) + le(s, 4))
    for _ in range(m):
        places = list(range(d))
        for i in range(s):
            j = i + stream.below(d - i)
            places[i], places[j] = places[j], places[i]
        yield sorted(places[:s])


def densify(session, seed, row):
    f = session.width
    bits = Stream(seed, "flynn/signs", le(f, 4)).read(-(-f // 8))
    x = [-v if bits[j // 8] >> (j % 8) & 1 else v for j, v in enumerate(row)] + [0.0] * (session.d - f)
    half = 1
    while half < session.d:
        for start in range(0, session.d, 2 * half):
            for i in range(start, start + half):
                a, b = x[i], x[i + half]
                x[i], x[i + half] = f32(a + b), f32(a - b)
        half *= 2
    return x


def winners(session, seed, rows_of_m, scale, row):
    x = scale(row)
    if session.densify:
        x = densify(session, seed, x)
    sums = []
    for i, columns in enumerate(rows_of_m):
        total = 0.0
        for column in columns:
            total = f32(total + x[column])
        sums.append((-total, i))
    return sorted(i for _, i in sorted(sums)[: session.rho])


def count(session, all_winners, labels):
    counts = [0] * (session.m * len(session.classes))
    for won, label in zip(all_winners, labels):
        for i in won:
            counts[label * session.m + i] += 1
    return counts


def weight(gamma, c):
    out, g = 1.0, gamma
    for k in range(32):
        if c >> k & 1:
            out *= g
        g *= g
    return out


def readout(session, counts):
    """w_l(c) as a function of class and count."""
    classes, gamma = len(session.classes), session.gamma
    sums = [sum(counts[c * session.m : (c + 1) * session.m]) for c in range(classes)]
    held = sum(s > 0 for s in sums)
    ratios = [float(sum(sums)) / float(held * s) if s else 0.0 for s in sums]

    def balanced_log(c, count):
        x = (count + (1.0 - gamma)) * ratios[c]
        return -math.log(x) if x else math.inf

    return {
        "decay": lambda _, count: weight(gamma, count),
        "balanced-decay": lambda c, count: gamma ** (count * ratios[c]) if gamma else float(count == 0),
        "log": lambda _, count: -math.log(count + (1.0 - gamma)),
        "balanced-log": balanced_log,
    }[session.score]


def close(found, expected):
    """Equal, or for the scores that take logarithms equal but for their rounding."""
    return len(found) == len(expected) and all(a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b)) for a, b in zip(found, expected))


def words(values):
    return b"".join(le(value, 4) for value in values)


# --------------------------------------------------------------------------------------------------------------- the checks

passed, failed = 0, 0


def check(what, holds):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}")


def check_refused(what, expected, function, *args, why=None):
    """Refused, with the class expected, and where `why` is given for that reason and no other."""
    try:
        function(*args)
        check(f"{what}: refused", False)
    except Refused as error:
        check(f"{what}: {error.args} for {expected}, {why}", error.args[0] == expected and why in (None, *error.args[1:]))


def check_encoding():
    file = vectors("encoding")
    for case in file["good"]:
        data = bytes.fromhex(case["bytes"])
        check(f"encode {case}", encode(case["type"], case["value"]) == data)
        check(f"decode {case}", decode(case["type"], data) == case["value"])
    for case in file["lenient"]:
        check(f"lenient {case}", decode(case["type"], bytes.fromhex(case["bytes"])) == case["value"])
    for case in file["bad"]:
        check_refused(f"encoding: {case}", case["class"], decode, case["type"], bytes.fromhex(case["bytes"]))


def check_identity():
    file = vectors("identity")
    for case in file["identities"]:
        public = public_of(bytes.fromhex(case["seed"]))
        check(f"identity {case}", public.hex() == case["public"] and peer_id(public) == case["peer_id"])
        check(f"read {case}", public_of_peer_id(case["peer_id"]) == public)
    for case in file["signatures"]:
        seed, context, message = (bytes.fromhex(case[name]) for name in ("seed", "context", "message"))
        check(f"sign {case}", sign(seed, context, message).hex() == case["signature"])
        verify(public_of(seed), context, message, bytes.fromhex(case["signature"]))
    for case in file["bad_peer_ids"]:
        check_refused(case["what"], case["class"], public_of_peer_id, case["peer_id"])
    for case in file["bad_signatures"]:
        args = (bytes.fromhex(case[name]) for name in ("public", "context", "message", "signature"))
        check_refused(case["what"], case["class"], verify, *args)


def check_streams():
    for case in vectors("stream")["streams"]:
        key, label, params = bytes.fromhex(case["key"]), case["label"], bytes.fromhex(case["params"])
        check(f"derive {label}", derive(key, label, params).hex() == case["derived"])
        check(f"stream {label}", Stream(key, label, params).read(100).hex() == case["start"])
        check(f"seek {label}", Stream(key, label, params, 262_149).read(70).hex() == case["at_262149"])
        stream = Stream(key, label, params)
        check(f"below {label}", all(stream.below(n) == v for n, v in case["below"]))
    file = vectors("agreement")
    for case in file["good"]:
        a, b, info = (bytes.fromhex(case[name]) for name in ("secret_a", "secret_b", "info"))
        check("public keys", (x25519_public(a).hex(), x25519_public(b).hex()) == (case["public_a"], case["public_b"]))
        for secret, public in ((a, case["public_b"]), (b, case["public_a"])):
            shared = exchange(secret, bytes.fromhex(public))
            check("agreement", derive(shared, "agreement", info).hex() == case["key"])
    for case in file["bad"]:
        args = bytes.fromhex(case["secret"]), bytes.fromhex(case["public"])
        check_refused(f"key {case['public']}", case["class"], exchange, *args)
    file = vectors("mask")
    for case in file["masks"]:
        stream = Stream(bytes.fromhex(case["key"]), case["label"], bytes.fromhex(case["params"]), case["offset"])
        vector = bytes.fromhex(case["vector"])
        masked = add_words(case["word_bits"], vector, stream.read(len(vector)), 1 if case["sign"] == "add" else -1)
        check(f"mask {case}", masked.hex() == case["masked"])
    for bits, peers, most in file["capacity"]:
        check(f"capacity {bits} {peers}", (2**bits - 1) // peers == int(most))


def check_sharing():
    file = vectors("shamir")
    for case in file["good"]:
        coefficients = [scalar(bytes.fromhex(c)) for c in case["coefficients"]]
        n, threshold, context = case["n"], case["threshold"], bytes.fromhex(case["context"])
        shares = [le(shamir_share(coefficients, i), 32) for i in range(n)]
        check(f"shares {threshold} of {n}", [share.hex() for share in shares] == case["shares"])
        check(f"key {threshold} of {n}", le(coefficients[0], 32).hex() == case["key"])
        hashes = [share_hash(context, case["dealer"], i, share).hex() for i, share in enumerate(shares)]
        check(f"share hashes {threshold} of {n}", hashes == case["hashes"])
        some = {i: scalar(shares[i]) for i in range(n - threshold, n)}
        check(f"interpolate {threshold} of {n}", all(interpolate(some, i + 1) == scalar(shares[i]) for i in range(n)))
        check(f"secret {threshold} of {n}", interpolate(some, 0) == coefficients[0])
    reduced = int.from_bytes(bytes.fromhex(file["reduced"]["random"]), "little") % ORDER
    check("reduced", le(reduced, 32).hex() == file["reduced"]["scalar"])
    for case in file["bad"]:
        check_refused(case["what"], case["class"], scalar, bytes.fromhex(case["share"]))
    file = vectors("envelope")
    for case in file["good"]:
        secret, context = bytes.fromhex(case["ephemeral_secret"]), bytes.fromhex(case["context"])
        check("ephemeral", x25519_public(secret).hex() == case["ephemeral"])
        sealed = decode("Sealed", bytes.fromhex(case["encoded"]))
        check("sealed", sealed == {"ephemeral": case["ephemeral"], "boxes": case["boxes"]})
        for i, (seed, plain) in enumerate(zip(case["seeds"], case["plain"])):
            seed, plain = bytes.fromhex(seed), bytes.fromhex(plain)
            check(f"seal {i}", envelope_seal(secret, public_of(seed), context, plain).hex() == case["boxes"][i])
            check(f"open {i}", envelope_open(seed, i, context, sealed) == plain)
    for case in file["bad"]:
        sealed = decode("Sealed", bytes.fromhex(case["sealed"]))
        args = bytes.fromhex(case["seed"]), case["index"], bytes.fromhex(case["context"]), sealed
        check_refused(case["what"], case["class"], envelope_open, *args)


def check_sessions():
    file = vectors("session")
    for case in file["good"]:
        session = Session(case["toml"])
        for name in ("council", "quorum", "min_peers", "fields"):
            check(f"session {name}", getattr(session, name) == case[name])
        check("session id", session.id.hex() == case["id"])
        check("roster", [public.hex() for public in session.roster] == case["roster"])
        trains = session.task in ("flynn", "tune")
        sizes = [session.m, session.s, session.rho] if trains else None
        check("dimension", session.d == case["dimension"] and sizes == case["sizes"])
        # The plan of a custom task is another program's.
        plan = None if session.task == "custom" else [list(quantity) for quantity in session.plan()]
        check("plan", plan == case["plan"])
    for case in file["bad"]:
        check_refused(case["what"], case["class"], Session, case["toml"])
    case = file["table"]
    session = Session(case["toml"])
    check("table", session.table.encoded().hex() == case["encoding"] and session.table.names() == case["names"])
    known = {column["name"] for column in session.table.columns} | {session.table.label}
    parsed = lambda delimiter: list(csv.reader(io.StringIO(case["csv"]), delimiter=delimiter))
    header, *rows = max(map(parsed, "|\t;,"), key=lambda rows: len(known & set(rows[0])))
    cells = [{"id": "", **dict(zip(header, row))} for row in rows]
    check("rows of a table", [session.table.row(row) for row in cells] == case["rows"])
    fills = file["fills"]
    sharing = Session(fills["toml"])
    check("plan with fills", [list(quantity) for quantity in sharing.plan()] == fills["plan"])
    total, rows = [0] * sharing.plan()[2][2], []
    for peer in fills["peers"]:
        header, *lines = csv.reader(io.StringIO(peer["csv"]), delimiter=";")
        own = [{"id": "", **dict(zip(header, line))} for line in lines]
        values, sums = sharing.table.sums(own)
        check("values and fills of a peer", (values.hex(), sums.hex()) == (peer["values"], peer["fills"]))
        total = [(a + b) % 2**64 for a, b in zip(total, struct.unpack(f"<{len(total)}Q", sums))]
        rows += own
    sharing.table.fill(b"".join(le(word, 8) for word in total))
    check("filled table", sharing.table.encoded().hex() == fills["encoding"])
    check("filled rows", [sharing.table.row(row) for row in rows] == fills["rows"])
    check("labels of a table", [session.classes.index(row[session.table.label]) for row in cells] == case["labels"])
    file = vectors("tree")
    for case in file["trees"]:
        session, members = session_of(case["toml"]), case["members"]
        check("ballot", ballot_bytes(case["ballot"]).hex() == case["ballot_bytes"])
        order = tree_order(session, case["ballot"], members)
        check("tree", order == case["order"] and parents(order) == case["parents"])
        check("dealers of the coin", session.dealers(0, members) == case["dealers_of_coin"])
        check("dealers", session.dealers(1, members) == case["dealers"])
    for case in file["graphs"]:
        session = session_of(case["toml"])
        ballot, parts = case["ballot"], [(peer, bytes.fromhex(part)) for peer, part in case["parts"]]
        keys = [(peer, bytes.fromhex(key), c and bytes.fromhex(c)) for peer, key, c in case["keys"]]
        members = sorted(peer for peer, _, _ in keys)
        large = len(members) > 64
        drawing = [peer for peer in members if large and peer in session.council]
        check("who draws", [peer for peer, _ in parts] == drawing)
        made = {peer: tagged("commitment", session.id, ballot_bytes(ballot), le(peer, 2), part) for peer, part in parts}
        check("commitments", all(c == made.get(peer) for peer, _, c in keys))
        digest = keys_digest(session, ballot, keys)
        draw = draw_of(digest, parts)
        check("digest of the keys", digest.hex() == case["keys_digest"])
        check("draw", draw.hex() == case["draw"])
        check("partners", partners(session, members, draw, case["me"]) == case["partners"])
        others = case["partners"][:3]
        check("partners are mutual", all(case["me"] in partners(session, members, draw, other) for other in others))
    for p, colluding, expected in file["degrees"]:
        check(f"degree {p} {colluding}", degree(p, colluding) == expected)


# Why the records and frozen quantities of items.json must be refused.
RECORDS = {
    "deals do not match their digest": "digest of the deals",
    "no such slot": "slot",
    "members not ascending": "members",
    "a member outside the roster": "members",
    "no members": "members",
    "a deal is missing": "dealers",
    "deals not in council order": "dealers",
    "a deal is forged": "signature",
    "deals of another sum": "deal",
    "a hash is missing": "deal",
}
FROZEN = {
    "one acknowledgement of three": "not decided",
    "one acknowledgement twice": "not decided",
    "acknowledgements of two ballots": "not decided",
    "acknowledgements of another value": "not decided",
    "pads exchanged": "pad",
    "a pad is missing, and it is no coin": "pad",
    "too few pads": "pads",
}


def check_deal(session, number, item, drawn):
    """That a deal for this sum is made of what its dealer drew; gives the pad."""
    dealer, context = drawn["dealer"], share_context(session, number)
    coefficients = [scalar(bytes.fromhex(c)) for c in drawn["coefficients"]]
    pad, secret = le(coefficients[0], 32), bytes.fromhex(drawn["ephemeral_secret"])
    check("pad hash", pad_hash(session, number, dealer, pad).hex() == item["pad_hash"])
    shares = [le(shamir_share(coefficients, i), 32) for i in range(3)]
    hashes = [share_hash(context, dealer, i, share).hex() for i, share in enumerate(shares)]
    check("share hashes of the deal", hashes == item["share_hashes"])
    sealed = [
        envelope_seal(secret, session.roster[peer], context + le(dealer, 2), share).hex()
        for peer, share in zip(session.council, shares)
    ]
    check("boxes of the deal", sealed == item["sealed"]["boxes"])
    return pad


def check_items():
    file = vectors("items")
    session = session_of(file["toml"])
    seeds = [bytes.fromhex(seed) for seed in file["seeds"]]
    check("seeds", [public_of(seed) for seed in seeds] == session.roster)
    for case in file["good"]:
        kind = CONTEXTS[case["context"]]
        canonical = encode(kind, case["item"])
        check(f"canonical {kind}", canonical.hex() == case["canonical"])
        signed = decode(f"Signed<{kind}>", bytes.fromhex(case["signed"]))
        check(f"decode {kind}", signed["item"] == case["item"] and signed["author"] == case["author"])
        message = session.id + le(case["author"], 2) + canonical
        signature = sign(seeds[case["author"]], case["context"].encode(), message)
        check(f"signature on {kind}", signature.hex() == signed["signature"])
        verify_item(session, case["context"], signed)
        if kind == "ViewKey":
            secret = bytes.fromhex(file["view_secrets"][case["author"]])
            check("view key", x25519_public(secret).hex() == case["item"]["public"])
    record, value = decode("Record", bytes.fromhex(file["record"])), decode("Value", bytes.fromhex(file["value"]))
    check("record", record["value"] == value and value["sum"] == file["sum"])
    check_record(session, record)
    check("total", total_digest(session, file["sum"], bytes.fromhex(file["total"])).hex() == file["total_digest"])
    check("total in value", value["total"] == file["total_digest"])
    check("deals digest", tagged("deals", encode("Vec<Signed<Deal>>", record["deals"])).hex() == file["deals_digest"])
    check("value digest", value_digest(session, value) == file["value_digest"])
    for case in file["deals"]:
        item = decode("Signed<Deal>", bytes.fromhex(case["signed"]))["item"]
        pad = check_deal(session, file["sum"], item, case)
        check("pad", pad.hex() == case["pad"] and item["pad_hash"] == case["pad_hash"])
    check_frozen(session, decode("Frozen", bytes.fromhex(file["frozen"])))
    for name in ("coin", "coin_with_an_unsound_deal"):
        frozen = decode("Frozen", bytes.fromhex(file[name]["frozen"]))
        check_frozen(session, frozen)
        pads = [pad and bytes.fromhex(pad) for pad in frozen["pads"]]
        check(name, seed_of(session, frozen["record"]["deals"], pads).hex() == file[name]["seed"])
    for case in file["bad"]:
        signed = decode(f"Signed<{CONTEXTS[case['context']]}>", bytes.fromhex(case["signed"]))
        check_refused(case["what"], case["class"], verify_item, session, case["context"], signed)
    for case in file["bad_records"]:
        bad = decode("Record", bytes.fromhex(case["record"]))
        check_refused(case["what"], case["class"], check_record, session, bad, why=RECORDS[case["what"]])
    for case in file["bad_frozen"]:
        bad = decode("Frozen", bytes.fromhex(case["frozen"]))
        check_refused(case["what"], case["class"], check_frozen, session, bad, why=FROZEN[case["what"]])
    for case in file["bad_coins"]:
        bad = decode("Frozen", bytes.fromhex(case["frozen"]))
        check_refused(case["what"], case["class"], check_frozen, session, bad, why="releases")
    for case in file["bad_releases"]:
        release = decode("Signed<Release>", bytes.fromhex(case["signed"]))
        verify_item(session, "release", release)
        check_refused(case["what"], case["class"], check_release, session, record["deals"], release)
    for case in file["bad_deals"]:
        deal = decode("Signed<Deal>", bytes.fromhex(case["signed"]))
        verify_item(session, "deal", deal)
        if case["holder"] is None:
            shares = {index: bytes.fromhex(share) for index, share in enumerate(case["shares"])}
            check(case["what"], open_pad(session, deal, shares) is None)
        else:
            index = session.council.index(case["holder"])
            check_refused(case["what"], case["class"], own_share, session, seeds[case["holder"]], index, deal)


def innermost(message):
    """The names of a message's variants, from the outside."""
    names = []
    while isinstance(message, dict) and len(message) == 1 and next(iter(message))[0].isupper():
        name, message = next(iter(message.items()))
        names.append(name)
        if name in ("Up", "Down", "Head"):
            message = message[1]
        if name == "Exchange":
            content = message["content"]
            bulk = "Bulk" in content
            message = decode("Body", bytes.fromhex(content["Bulk"]["header"] if bulk else content["Short"]))
            if bulk != (isinstance(message, dict) and "Part" in message):
                raise Refused("malformed", "bulk bytes of an exchange")
        if name == "Part":
            message = message["what"]
    if names[:1] == ["Exchange"] and isinstance(message, str):
        names.append(message)
    return names


def channel_of(message):
    names = innermost(message)
    bulk = names[:3] == ["View", "Reduce", "Chunk"] or names[0] == "Transfer" and names[1] in ("Head", "Piece")
    bulk = bulk or names[:2] == ["Exchange", "Part"]
    return "bulk" if bulk else "control"


def read_frame(channel, header, payload):
    message = decode("Message", header)
    if channel != channel_of(message):
        raise Refused("malformed", "channel")
    if payload and not ({"Chunk", "Piece", "Part"} & set(innermost(message))):
        raise Refused("malformed", "payload")
    return message


# What is done to a good frame, and why it must be refused then.
DEFECTS = {
    "trailing byte": ("left over", lambda channel, header, payload: (channel, header + "00", payload)),
    "cut short": ("ends early", lambda channel, header, payload: (channel, header[:-2], payload)),
    "on the other channel": (
        "channel",
        lambda channel, header, payload: ({"control": "bulk", "bulk": "control"}[channel], header, payload),
    ),
    "payload where none belongs": ("payload", lambda channel, header, payload: (channel, header, "00")),
}


def check_messages():
    file = vectors("messages")
    seen = set()
    for case in file["messages"]:
        header, payload = bytes.fromhex(case["header"]), bytes.fromhex(case["payload"])
        message = read_frame(case["channel"], header, payload)
        seen.add("/".join(innermost(message)))
        check(f"decode {case['what']}", message == case["message"])
        check(f"encode {case['what']}", encode("Message", case["message"]) == header)
        stream = le(4 + len(header) + len(payload), 4) + le(len(header), 4) + header + payload
        check(f"stream {case['what']}", stream.hex() == case["stream"])
    for name in ("Message", "ViewMessage", "Report", "Order", "ReduceMessage", "TransferMessage", "Held", "Body", "What"):
        for variant, _ in SCHEMA[name][1].values():
            check(f"a vector of {name} {variant}", any(variant in path.split("/") for path in seen))
    for case in file["abouts"]:
        data = bytes.fromhex(case["bytes"])
        check("decode what a node tells about itself", decode("About", data) == case["item"])
        check("encode what a node tells about itself", encode("About", case["item"]) == data)
    check("both roles", {case["item"]["role"] for case in file["abouts"]} == {"Join", "Doctor"})
    good = {case["what"]: (case["channel"], case["header"], case["payload"]) for case in file["messages"]}
    file = vectors("bad")
    for case in file["bad"]:
        args = case["channel"], bytes.fromhex(case["header"]), bytes.fromhex(case["payload"])
        name, _, defect = case["what"].rpartition(": ")
        why, one_change = None, True
        if name in good and defect in DEFECTS:
            why, change = DEFECTS[defect]
            one_change = (case["channel"], case["header"], case["payload"]) == change(*good[name])
        check_refused(case["what"], case["class"], read_frame, *args, why=why)
        check(f"{case['what']}: nothing else is wrong", one_change)
    for case in file["lenient"]:
        message = read_frame(case["channel"], bytes.fromhex(case["header"]), b"")
        check(case["what"], encode("Message", message).hex() == case["canonical"])


def check_faults():
    """Whether a receiver blames needs a whole node; here only that these frames are well formed and the classes known."""
    file = vectors("faults")
    classes = {"malformed", "out-of-order", "inconsistent", "bad-signature", "bad-share", "bad-deal", "low-order-key", "two-values"}
    for case in file["blamed"] + file["ignored"]:
        message = read_frame(case["channel"], bytes.fromhex(case["header"]), bytes.fromhex(case["payload"]))
        check(f"fault: {case['what']}", message == case["message"] and case.get("class", "malformed") in classes)


def signed_of(message):
    """(context, item) of everything signed in a decoded message."""
    keys = {
        "public": "view key",
        "pad_hash": "deal",
        "shares": "release",
        "promise": "promise",
        "reason": "failure",
        "value": "acknowledgement",
    }
    if isinstance(message, list):
        for part in message:
            yield from signed_of(part)
    elif isinstance(message, dict):
        if set(message) == {"author", "item", "signature"}:
            yield next(context for key, context in keys.items() if key in message["item"]), message
        else:
            yield from signed_of(list(message.values()))


class Slot:
    """What the frames of one slot have shown."""

    def __init__(self):
        self.up, self.holds, self.acks, self.total, self.record = {}, set(), {}, b"", None


def check_sum():
    file = vectors("sum")
    session = session_of(file["toml"])
    plan = session.plan()
    seeds = [bytes.fromhex(seed) for seed in file["seeds"]]
    disk = {peer: set() for peer in range(3)}
    slots = {slot: Slot() for slot in range(len(plan))}
    begun, order, keys, pads, opened = None, None, None, {}, {}
    hello = {(a, b) for a in range(3) for b in range(3) if a != b}
    for entry in file["log"]:
        peer = entry["from"]
        if "persist" in entry:
            disk[peer].add(entry["persist"])
            if entry["persist"] == "accepted":
                slots[len([name for name in disk[peer] if name.startswith("frozen")])].acks.setdefault(peer, False)
            continue
        to, payload = entry["to"], bytes.fromhex(entry["payload"])
        message = read_frame(entry["channel"], bytes.fromhex(entry["header"]), payload)
        check("frames are canonical", encode("Message", message).hex() == entry["header"])
        for context, item in signed_of(message):
            verify_item(session, context, item)
            check("items are signed by the author", True)
        names = innermost(message)
        match names:
            case ["Hello"]:
                hello.discard((peer, to))
                check("hello", message["Hello"] == {"version": 5, "session": session.id.hex(), "frozen": 0, "trace": None})
            case ["Prepare"]:
                check("prepare", message["Prepare"]["proposer"] == peer and "promised" in disk[peer])
            case ["Promise"]:
                promised = message["Promise"]["item"]
                check_promise(session, promised["ballot"], message["Promise"])
                check("promise", promised["ballot"]["proposer"] == to and "promised" in disk[peer])
                nothing = {"frozen": 0, "accepted": None, "released": False}
                check("nothing accepted", promised["promise"] == nothing and not promised["decision"])
            case ["Begin"]:
                begun = message["Begin"]
                order = tree_order(session, begun["ballot"], begun["members"])
                up = dict(zip(order, parents(order)))
                check("begin", begun["ballot"]["proposer"] == peer and up[to] == peer and "joined" in disk[peer])
                for signed in begun["promises"]:
                    check_promise(session, begun["ballot"], signed)
                authors = {signed["author"] for signed in begun["promises"]}
                check("a quorum promises", len(authors) == len(begun["promises"]) >= session.quorum)
            case ["View", "Up", "Keys"]:
                check("keys go up", up[peer] == to and "joined" in disk[peer])
            case ["View", "Down", "Keys"]:
                items = message["View"]["Down"][1]["Keys"]
                keys = {item["author"]: bytes.fromhex(item["item"]["public"]) for item in items}
                check("all keys", sorted(keys) == begun["members"])
                expected = {peer: x25519_public(bytes.fromhex(file["view_secrets"][peer]["secret"])) for peer in keys}
                check("view secrets", keys == expected)
            case ["View", "Down", "Sum"]:
                slot = message["View"]["Down"][1]["Sum"]
                check("slots in order", slot == 0 or f"frozen-{slot - 1}" in disk[peer])
            case ["View", "Reduce", "Chunk"]:
                chunk = message["View"]["Reduce"]["Chunk"]
                slot = slots[chunk["sum"]["slot"]]
                if chunk["direction"] == "Up":
                    check("chunk up", up[peer] == to and chunk["index"] == 0)
                    slot.up[peer] = payload
                else:
                    check("chunk down", up[to] == peer and slot.total in (b"", payload))
                    slot.total = payload
            case ["View", "Up", "Hold"]:
                hold = message["View"]["Up"][1]["Hold"]
                number = hold["slot"]
                slots[number].holds.add(hold["total"])
                sum_id = {"ballot": begun["ballot"], "slot": number}
                check("total held", total_digest(session, sum_id, slots[number].total).hex() == hold["total"])
            case ["View", "Down", "Accept"]:
                record = message["View"]["Down"][1]["Accept"]
                check_record(session, record)
                slot = slots[record["value"]["sum"]["slot"]]
                slot.record = record
                check("the total accepted", slot.holds == {record["value"]["total"]})
            case ["View", "Up", "Acknowledge"]:
                number, items = message["View"]["Up"][1]["Acknowledge"]
                slot = slots[number]
                check("stored before it is acknowledged", all(item["author"] in slot.acks for item in items))
                digest = value_digest(session, slot.record["value"])
                check("value acknowledged", all(item["item"]["value"] == digest for item in items))
            case ["View", "Down", "Decide"]:
                number, items = message["View"]["Down"][1]["Decide"]
                check("decided", decided(session, number, value_digest(session, slots[number].record["value"]), items))
            case ["View", "Down", "Open"] if to == order[1]:
                number, releases = message["View"]["Down"][1]["Open"]
                deals = slots[number].record["deals"]
                shares = {deal["author"]: {} for deal in deals}
                for release in releases:
                    check("released on disk", "released" in disk[release["author"]])
                    digest = value_digest(session, slots[number].record["value"])
                    check("value released", release["item"]["value"] == digest)
                    for dealer, (index, share) in check_release(session, deals, release).items():
                        shares[dealer][index] = share
                    index = session.council.index(release["author"])
                    for deal, (_, share) in zip(deals, release["item"]["shares"]):
                        own = own_share(session, seeds[release["author"]], index, deal)
                        check("share in the envelope", own.hex() == share)
                pads[number] = {deal["author"]: open_pad(session, deal, shares[deal["author"]]) for deal in deals}
                check("sound pads", None not in pads[number].values())
                if number == 0:
                    opened[0] = seed_of(session, deals, list(pads[0].values()))
                else:
                    data, bits = slots[number].total, 8 * plan[number][1]
                    params = sum_bytes(slots[number].record["value"]["sum"])
                    for pad in pads[number].values():
                        data = add_words(bits, data, Stream(pad, "pad", params).read(len(data)), -1)
                    opened[number] = data
                check(f"opened slot {number}", opened[number].hex() == file["opened"][number])
    check("everybody greets everybody", not hello)
    check("every slot is opened", sorted(opened) == list(range(len(plan))))
    for drawn in file["deals"]:
        value, deals = slots[drawn["slot"]].record["value"], slots[drawn["slot"]].record["deals"]
        item = next(deal["item"] for deal in deals if deal["author"] == drawn["dealer"])
        check_deal(session, value["sum"], item, drawn)
    check("every deal is shown", len(file["deals"]) == sum(len(slots[slot].record["deals"]) for slot in opened))

    # Every peer's vector from its rows, its masks, and the sum of all.
    scale = scaler(session, opened[2])
    rows_of_m = list(matrix(opened[0], session.m, session.d, session.s))
    rows = [
        [list(struct.unpack("<3f", struct.pack("<3f", *row))) for row in data["rows"]] for data in file["data"]
    ]
    for number in range(1, len(plan)):
        _, width, length = plan[number]
        total, sealed = bytes(width * length), bytes(width * length)
        for peer in range(3):
            labels = file["data"][peer]["labels"]
            if number == 1:
                vector = words([int(bool(labels)), *(int(c in labels) for c in range(len(session.classes)))])
            elif number == 2:
                vector = moments(rows[peer], session.features, session.scaling != "center" or session.compares)
            else:
                won = [winners(session, opened[0], rows_of_m, scale, row) for row in rows[peer]]
                vector = words(count(session, won, labels))
            total = add_words(8 * width, total, vector)
            ballot = begun["ballot"]
            params = ballot_bytes(ballot) + le(number, 4)
            secret = bytes.fromhex(file["view_secrets"][peer]["secret"])
            for other in partners(session, sorted(keys), bytes(32), peer):
                key = pair_key(session, ballot, secret, keys[other], peer, other)
                stream = Stream(key, "mask", params).read(len(vector))
                vector = add_words(8 * width, vector, stream, 1 if peer < other else -1)
            if peer in pads[number]:
                vector = add_words(8 * width, vector, Stream(pads[number][peer], "pad", params).read(len(vector)))
            if peer in slots[number].up:
                check(f"what peer {peer} sends up in slot {number}", slots[number].up[peer] == vector)
            sealed = add_words(8 * width, sealed, vector)
        check(f"sealed total of slot {number}", sealed == slots[number].total)
        check(f"sum of slot {number}", total == opened[number])


def check_flynn():
    file = vectors("flynn")
    seed = bytes.fromhex(file["seed"])
    values = struct.unpack(f"<{len(file['rows']) // 8}f", bytes.fromhex(file["rows"]))
    rows = [list(values[i : i + 3]) for i in range(0, len(values), 3)]
    for at, case in enumerate(file["moments"]):
        d, squares = case["features"], case["squares"]
        values = struct.unpack(f"<{len(case['rows']) // 8}f", bytes.fromhex(case["rows"]))
        measured = [list(values[i : i + d]) for i in range(0, len(values), d)]
        total = bytes.fromhex(case["words"])
        check(f"moments {at}", moments(measured, d, squares) == total)
        means, deviations = opened_moments(total, d, squares)
        check(f"means {at}", struct.pack(f"<{d}d", *means).hex() == case["means"])
        check(f"deviations {at}", struct.pack(f"<{len(deviations)}d", *deviations).hex() == case["deviations"])
    for at, case in enumerate(file["refused_moments"]):
        check_refused(f"refused moments {at}", "moments", opened_moments, bytes.fromhex(case), 1, True)
    for case in file["cases"]:
        session = Session(case["toml"])
        total = case["moments"] and bytes.fromhex(case["moments"])
        if total:
            check(f"moments {session.scaling}", moments(rows, session.features, session.scaling != "center" or session.compares) == total)
        scale = scaler(session, total)
        scaled = b"".join(struct.pack(f"<{session.width}f", *scale(row)) for row in rows)
        check(f"scaled {session.scaling}", scaled.hex() == case["scaled"])
        rows_of_m = list(matrix(seed, session.m, session.d, session.s))
        check(f"matrix {session.scaling}", rows_of_m == case["matrix"])
        won = [winners(session, seed, rows_of_m, scale, row) for row in rows]
        check(f"winners {session.scaling}", won == case["winners"])
        counts = count(session, won, file["labels"])
        check(f"counts {session.scaling}", words(counts).hex() == case["counts"])
        scores, predicted, weigh = [], [], readout(session, counts)
        for each in won:
            score = []
            for c in range(len(session.classes)):
                s = 0.0
                for i in each:
                    s += weigh(c, counts[c * session.m + i])
                score.append(s)
            scores += score
            predicted.append(score.index(min(score)))
        expected = struct.unpack(f"<{len(scores)}d", bytes.fromhex(case["scores"]))
        exact = session.score == "decay"
        holds = list(expected) == scores if exact else close(scores, expected)
        check(f"scores {session.scaling} {session.score}", holds)
        check(f"predicted {session.scaling}", predicted == case["predicted"])
    large = file["large"]
    digest = hashlib.sha256()
    for row in matrix(seed, large["m"], large["d"], large["s"]):
        digest.update(words(row))
    check("a larger matrix", digest.hexdigest() == large["sha256"])


def held_out(session, seed, rows, labels):
    """The rows that are held out, ascending (section 15.4)."""
    def place(row):
        return struct.unpack("<Q", tagged("evaluate", seed, struct.pack(f"<{len(rows[row])}f", *rows[row]))[:8])[0]

    order = sorted(range(len(rows)), key=lambda row: (place(row), row))
    out = {row for row in order[: session.most] if place(row) < 2**64 * session.held_out // 100}
    for c in range(len(session.classes)):
        of_class = [row for row in order if labels[row] == c]
        out |= set(of_class[:1])
        out -= set(of_class[-1:])
    return sorted(out)


def check_evaluate():
    for case in vectors("evaluate")["cases"]:
        check_evaluation(case)


def check_evaluation(file):
    session, labels = Session(file["toml"]), file["labels"]
    classes = len(session.classes)
    values = struct.unpack(f"<{len(file['rows']) // 8}f", bytes.fromhex(file["rows"]))
    rows = [list(values[i : i + 3]) for i in range(0, len(values), 3)]
    opened = [bytes.fromhex(each) for each in file["opened"]]
    check("plan", [len(each) for each in opened[1:]] == [width * length for _, width, length in session.plan()[1:]])
    held = held_out(session, opened[0], rows, labels)
    kept = [row for row in range(len(rows)) if row not in held]
    check("rows held out", held == file["held_out"])
    own = lambda among: [int(any(labels[row] == c for row in among)) for c in range(classes)]
    check("holders", words([1, *own(range(len(rows))), *own(held)]) == opened[1])
    check("moments", moments(rows, session.features, True) == opened[2])

    def learn(seed, total, among):
        scale, rows_of_m = scaler(session, total), list(matrix(seed, session.m, session.d, session.s))
        won = [winners(session, seed, rows_of_m, scale, row) for row in rows]
        return won, count(session, [won[row] for row in among], [labels[row] for row in among])

    def scores(won, counts, row):
        weigh, out = readout(session, counts), []
        for c in range(classes):
            s = 0.0
            for i in won[row]:
                s += weigh(c, counts[c * session.m + i])
            out.append(s)
        return out

    seed = derive(opened[0], "evaluate/matrix", b"")
    won, learnt = learn(seed, opened[2], kept)
    check("counts of the rows kept", words(learnt) == opened[3])
    alone_total = moments([rows[row] for row in kept], session.features, True)
    alone_won, alone = learn(seed, alone_total, kept)
    scale = scaler(session, alone_total)
    scaled = [scale(row) for row in rows]
    tables, bins, margins = [[0] * classes**2 for _ in range(3)], [0] * 30, [0] * 128
    apart = [0] * 4
    for row in held:
        if not own(held)[labels[row]] >= session.min_holders:
            continue
        score, other = scores(won, learnt, row), scores(alone_won, alone, row)
        distance = lambda near: (sum((a - b) ** 2 for a, b in zip(scaled[near], scaled[row])), near)
        votes = [labels[near] for near in sorted(kept, key=distance)[:5]]
        most = [votes.count(c) for c in range(classes)]
        said = [score.index(min(score)), other.index(min(other)), most.index(max(most))]
        for table, c in zip(tables, said):
            table[labels[row] * classes + c] += 1
        right = [c == labels[row] for c in said]
        for k in (0, 1):
            apart[2 * k] += right[0] and not right[k + 1]
            apart[2 * k + 1] += right[k + 1] and not right[0]
        best = min(score)
        confidence = 1 / sum(math.exp(best - s) for s in score) if math.isfinite(best) else 1 / classes
        place = min(int(confidence * 10), 9)
        bins[3 * place] += 1
        bins[3 * place + 1] += right[0]
        bins[3 * place + 2] += int(confidence * 65536)
        if classes == 2:
            t = score[0] - score[1]
            u = 0.5 if math.isnan(t) else float(t > 0) if math.isinf(t) else 0.5 + t / (2 * (abs(t) + session.rho / 8))
            margins[64 * labels[row] + min(int(u * 64), 63)] += 1
    expected = [*tables[0], *bins, *(margins if classes == 2 else []), *tables[1], *tables[2], *apart]
    check("scores of the rows held out", b"".join(le(word, 8) for word in expected) == opened[4])
    _, counts = learn(opened[0], opened[2], range(len(rows)) if session.learn_all else kept)
    check("counts of the model", words(counts) == opened[5])


READOUTS = (
    [("balanced-log", 0.9)]
    + [("decay", gamma / 10) for gamma in range(9)]
    + [("balanced-decay", gamma) for gamma in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)]
    + [("log", gamma) for gamma in (0.0, 0.5, 0.9, 0.99)]
    + [("balanced-log", gamma) for gamma in (0.0, 0.5, 0.99)]
)


def check_tune():
    file = vectors("tune")
    session, labels, folds = Session(file["toml"]), file["labels"], file["folds"]
    values = struct.unpack(f"<{len(file['rows']) // 8}f", bytes.fromhex(file["rows"]))
    rows = [list(values[i : i + 3]) for i in range(0, len(values), 3)]
    opened = [bytes.fromhex(each) for each in file["opened"]]
    check("plan", [len(each) for each in opened[1:]] == [width * length for _, width, length in session.plan()[1:]])
    check("moments", moments(rows, session.features, True) == opened[2])
    every_count, scores = [], [labels.count(c) for c in range(len(session.classes))]
    for number, setting in enumerate(session.settings):
        setting.features, setting.classes = session.features, session.classes
        scale = scaler(setting, opened[2])
        right = [[0] * len(session.classes) for _ in READOUTS]
        for fold in range(session.folds):
            seed = derive(opened[0], "tune/matrix", le(number, 4) + le(fold, 4))
            rows_of_m = list(matrix(seed, setting.m, setting.d, setting.s))
            won = [winners(setting, seed, rows_of_m, scale, row) for row in rows]
            outside = [row for row in range(len(rows)) if folds[row] != fold]
            counts = count(setting, [won[row] for row in outside], [labels[row] for row in outside])
            every_count += counts
            for (setting.score, setting.gamma), tally in zip(READOUTS, right):
                weigh = readout(setting, counts)
                for row in set(range(len(rows))) - set(outside):
                    score = []
                    for c in range(len(session.classes)):
                        s = 0.0
                        for i in won[row]:
                            s += weigh(c, counts[c * setting.m + i])
                        score.append(s)
                    tally[labels[row]] += score.index(min(score)) == labels[row]
        scores += [n for tally in right for n in tally]
    check("counts of every setting and fold", words(every_count) == opened[3])
    check("scores of every setting and readout", words(scores) == opened[4])


# ------------------------------------------------------------------------------------------------- sections 15b, 15e: xclp


def rounded(x):
    return math.floor(x + 0.5)


def hex16(matrix):
    return b"".join(le(x % 2**16, 2) for row in matrix for x in row).hex()


def integer_reference(codes, labels, classes, k, bits, alpha, steps, power, balance):
    """Every stage of section 15e on plain integers."""
    n = len(codes)
    shift = lambda x, g: (x + (1 << g - 1)) >> g
    distance = [[sum(x != y for x, y in zip(a, b)) for b in codes] for a in codes]
    near = [sorted((j for j in range(n) if j != i), key=lambda j: (distance[i][j], j))[:k] for i in range(n)]
    table = [math.floor(math.cos(math.pi * h / bits) ** power * 2**12 + 0.5) for h in range(bits // 2)]
    weight = lambda h: table[h] if 2 * h < bits and table[h] >= 256 else 0
    weights = [[weight(distance[i][j]) for j in near[i]] for i in range(n)]
    w = [[0] * n for _ in range(n)]
    for i in range(n):
        for j, x in zip(near[i], weights[i]):
            w[i][j] += x
            w[j][i] += x
    degrees = list(map(sum, w))
    q = 28

    def inverse(d):
        if d == 0:
            return 0
        e = d.bit_length()
        m = d << (q - e)
        y = 782274605 - 2 * m
        for _ in range(3):
            y = shift(y * (2 ** (q + 1) - shift(m * y, q)), q)
        return (y - 2) * 2 ** (q - e) >> (2 * q - 32)

    def root(d):
        if d == 0:
            return 0
        e = d.bit_length()
        m = d << (q - e)
        v = 522106962 - m
        for _ in range(3):
            v = shift(v * (3 * 2**q - shift(m * shift(v * v, q), q)), q + 1)
        return shift(v * math.isqrt(2 ** (64 - e)), 33)

    inverses, roots = list(map(inverse, degrees)), list(map(root, degrees))
    kept = [2**32 - d * r for d, r in zip(degrees, inverses)]
    s = math.sqrt(1 - alpha**2)
    ratio = (1 - s) / alpha
    coefficients = [math.floor(2**20 / s + 0.5)] + [math.floor(2**21 * ratio**j / s + 0.5) for j in range(1, steps + 1)]
    scores = [[0] * classes for _ in range(n)]
    for c in range(classes):
        z = lambda a: [inverses[i] * sum(x * y for x, y in zip(w[i], a)) + kept[i] * a[i] for i in range(n)]
        before = [roots[i] * (labels[i] == c) for i in range(n)]
        last = [shift(x, 32) for x in z(before)]
        total = [coefficients[0] * x + coefficients[1] * y for x, y in zip(before, last)]
        for coefficient in coefficients[2:]:
            before, last = last, [shift(x, 31) - y for x, y in zip(z(last), before)]
            total = [x + coefficient * y for x, y in zip(total, last)]
        count = labels.count(c)
        weight = (2**21 * math.isqrt(n) + count) // (2 * count) if count else 0
        for i in range(n):
            scores[i][c] = shift(total[i], 20)
            if balance:
                scores[i][c] = shift(scores[i][c] * weight, 20)
    found, coarse = [], []
    for row in scores:
        row = [max(x, 0) for x in row]
        total = sum(row)
        found.append(row.index(max(row)) if total else None)
        coarse += [(128 * x + total - 1) // (2 * total) if total else 0 for x in row]
    return {
        "neighbours": sum(near, []), "weights": sum(weights, []), "graph": sum(w, []), "degrees": degrees, "inverses": inverses,
        "roots": roots, "scores": sum(scores, []), "labels": found, "coarse": coarse,
    }


def codes_of(rows, seed, bits):
    """The codes of rows by the planes of this seed (section 15b)."""
    codes = [[] for _ in rows]
    pairs = -(-len(rows[0]) // 2)
    for plane in range(bits):
        stream, entries = Stream(seed, "planes", b"", 16 * pairs * plane), []
        for _ in range(pairs):
            a, b = struct.unpack("<QQ", stream.read(16))
            u, v = ((a >> 11) + 1) / 2**53, (b >> 11) / 2**53
            radius = math.sqrt(-2 * math.log(u))
            entries += [radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)]
        for code, row in zip(codes, rows):
            code.append(int(sum(p * x for p, x in zip(entries, row)) > 0))
    return codes


def meetings(owners):
    """Whom each owner meets in each round (section 15b)."""
    last = owners - 1 + owners % 2
    rounds = []
    for r in range(last):
        met = [(r - p) % last if p < last else None for p in range(owners)]
        met = [last if q == p else q for p, q in enumerate(met)]
        if owners == last + 1:
            met[last] = met.index(last)
        rounds.append([q if q is not None and q < owners else None for q in met])
    return rounds


def lengths_of_vectors(way, n, m, bits):
    """Lengths of the vectors that come to the owner with n rows, which has fewer, and to the one with m (section 15b)."""
    if way == "ot":
        words = [words for _, _, words in pieces_of(n, m, bits)]
        return [[4096] + [128 * m * w for w in words], [32] + [1024 * w for w in words]]
    in_batches = lambda items: [min(32, items - at) for at in range(0, items, 32)]
    groups = [min(512, n - at) for at in range(0, n, 512)]
    z = -(-bits * min(512, 1 << (n - 1).bit_length()) // 4096)
    answers = [(25600 + -(-50 * rows // 8)) * count for rows in groups for count in in_batches(m)]
    return [[0] + answers, [51232] + [51200 * count for _ in groups for count in in_batches(z)]]


def check_pairs(file, distances):
    check("who meets whom", [meetings(owners) for owners in range(2, 8)] == file["pairs"]["partners"])
    mask = file["pairs"]["mask"]
    ballot = ballot_bytes({"counter": mask["ballot"][0], "proposer": mask["ballot"][1]})
    drawn = Stream(bytes.fromhex(mask["key"]), "pair of owners", ballot + le(mask["slot"], 4)).read(2 * mask["earlier"] * mask["later"])
    check("mask of a pair", list(struct.unpack(f"<{len(drawn) // 2}H", drawn)) == mask["words"])
    for case in file["pairs"]["lengths"]:
        made = lengths_of_vectors(case["way"], case["smaller"], case["larger"], case["bits"])
        shown = [[len(to) for to in made], [to[:3] for to in made], [to[-1] for to in made], [sum(to) for to in made]]
        check("vectors of a pair", shown == [case["count"], case["first"], case["last"], case["all"]])
        check("bytes of a pair", sum(map(sum, made)) == case["said"])
    n, ends = len(distances), file["owners"]
    owner = [sum(end <= x for end in ends[1:-1]) for x in range(n)]
    part = lambda x, y: file["parts"][owner[x]][(x - ends[owner[x]]) * n + y]
    for x in range(n):
        for y in range(x):
            other = part(y, x) if owner[x] != owner[y] else 0
            check("parts add up to a distance", (part(x, y) + other) % 2**16 == distances[x][y])


def check_xclp():
    file = vectors("xclp")
    session = Session(file["toml"])
    coin = bytes.fromhex(file["coin"])
    check("id of an xclp session", session.id.hex() == file["id"])
    order = sorted(range(file["counted"]), key=lambda peer: tagged("computing party", coin, le(peer, 2)))
    check("who may compute", order[:4] == file["candidates"])

    seed = derive(coin, "planes", session.id)
    check("seed of the planes", seed.hex() == file["planes"])
    features, bits = session.features, session.bits
    rows = [file["rows"][i : i + features] for i in range(0, len(file["rows"]), features)]
    codes = codes_of(rows, seed, bits)
    packed = [le(sum(bit << l for l, bit in enumerate(code)), bits // 8) for code in codes]
    check("codes", [code.hex() for code in packed] == file["codes"])

    labels, classes = file["labels"], len(session.classes)
    found = file["commitment"]
    first, end = found["rows"]
    said = b"".join(le(65535 if label is None else label, 2) for label in labels[first:end])
    hashed = tagged("input", session.id, le(found["owner"], 2), bytes.fromhex(found["salt"]), *packed[first:end], said)
    check("commitment to an input", hashed.hex() == found["hash"])

    words16 = lambda data: list(struct.unpack(f"<{len(data) // 2}H", data))
    words64 = lambda data: list(struct.unpack(f"<{len(data) // 8}Q", data))

    def parcels(words, labels, place, seeds):
        hot_words = [int(label == c) for label in labels for c in range(classes)]
        for seed in map(bytes.fromhex, seeds):
            stream = Stream(seed, "shares/input", b"")
            words = [(x - r) % 2**16 for x, r in zip(words, words16(stream.read(2 * len(words))))]
            hot_words = [(x - r) % 2**64 for x, r in zip(hot_words, words64(stream.read(8 * len(hot_words))))]
        explicit = b"\x01" + b"".join(le(x, 2) for x in words) + b"".join(le(x, 8) for x in hot_words)
        share = [None] * 3
        share[place % 3] = explicit
        for number, seed in enumerate(seeds, 1):
            share[(place + number) % 3] = b"\x00" + bytes.fromhex(seed)
        return [(share[i] + share[(i + 1) % 3]).hex() for i in range(3)]

    found = file["parcels"]
    first, end = found["rows"]
    made = parcels([bit for code in codes[first:end] for bit in code], labels[first:end], found["place"], found["seeds"])
    check("parcels of an input", made == found["sent"])

    found = file["distances"]
    distances = [[sum(p != q for p, q in zip(one, two)) for two in codes] for one in codes]
    check_pairs(found, distances)
    place, ends = found["place"], found["owners"]
    made = parcels(found["parts"][place], labels[ends[place] : ends[place + 1]], place, found["seeds"])
    check("parcels of parts of distances", made == found["sent"])

    found = file["streams"]
    attempt = ballot_bytes({"counter": found["ballot"][0], "proposer": found["ballot"][1]}) + le(found["slot"], 4)
    keys = [derive(bytes.fromhex(pair), "computing parties", attempt) for pair in found["pairs"]]
    context = session.id + attempt
    check("keys of the computing parties", [key.hex() for key in keys] == found["keys"] and context.hex() == found["context"])

    def masks(width, turn, chunk, step):
        label = context + bytes([found["stage"], turn]) + le(chunk, 4) + le(step, 4)
        drawn = [Stream(keys[found["party"] + i], "shares", label).read(width * 4) for i in (0, 1)]
        own, after = [[int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)] for data in drawn]
        return [(x - y) % 2 ** (8 * width) for x, y in zip(own, after)]

    check("masks of a reshare", masks(8, 0, found["chunk"], found["step"]) == found["words"])
    check("masks of a third", masks(2, found["turn"], found["turned_chunk"], found["turned_step"]) == found["small"])

    session.fits(len(rows))
    settings = classes, session.k, bits, session.alpha, session.steps, session.power
    for stage, values in integer_reference(codes, labels, *settings, session.balance).items():
        check(f"integer reference, {stage}", values == file["reference"][stage])
    made = integer_reference(codes, labels, *settings, True)
    for stage in ("scores", "labels", "coarse"):
        check(f"balanced classes, {stage}", made[stage] == file["balanced"][stage])
    check("a plain and a balanced class differ", file["balanced"]["coarse"] != file["reference"]["coarse"])


# ------------------------------------------------------------------------- section 15c: secure Hamming distances, by transfer


D = -121665 * pow(121666, -1, PRIME) % PRIME
SQRT_M1 = pow(2, (PRIME - 1) // 4, PRIME)
ZERO = (0, 1, 1, 0)


def sqrt_ratio(u, v):
    """RFC 9496, section 4.2: whether u / v is a square, and the non-negative root of it or of SQRT_M1 times it."""
    r = u * pow(v, 3, PRIME) * pow(u * pow(v, 7, PRIME), (PRIME - 5) // 8, PRIME) % PRIME
    check = v * r * r % PRIME
    if check in (-u % PRIME, -u * SQRT_M1 % PRIME):
        r = r * SQRT_M1 % PRIME
    return check in (u % PRIME, -u % PRIME), PRIME - r if r % 2 else r


def ristretto_decode(data):
    """RFC 9496, section 4.3.1."""
    s = int.from_bytes(data, "little")
    u1, u2 = (1 - s * s) % PRIME, (1 + s * s) % PRIME
    v = (-D * u1 * u1 - u2 * u2) % PRIME
    square, root = sqrt_ratio(1, v * u2 * u2 % PRIME)
    x = 2 * s * root * u2 % PRIME
    x = PRIME - x if x % 2 else x
    y = u1 * root * root * u2 * v % PRIME
    if s >= PRIME or s % 2 or not square or x * y % PRIME % 2 or y == 0:
        raise Refused("no-point")
    return x, y, 1, x * y % PRIME


def ristretto_encode(point):
    """RFC 9496, section 4.3.2."""
    x, y, z, t = point
    u1, u2 = (z + y) * (z - y) % PRIME, x * y % PRIME
    _, root = sqrt_ratio(1, u1 * u2 * u2 % PRIME)
    d1, d2 = root * u1 % PRIME, root * u2 % PRIME
    inverse = d1 * d2 * t % PRIME
    if t * inverse % PRIME % 2:
        _, factor = sqrt_ratio(1, -1 - D)
        x, y, d = y * SQRT_M1 % PRIME, x * SQRT_M1 % PRIME, d1 * factor % PRIME
    else:
        d = d2
    if x * inverse % PRIME % 2:
        y = -y
    s = d * (z - y) % PRIME
    return le(PRIME - s if s % 2 else s, 32)


def plus(p, q):
    """The sum on the twisted Edwards curve, extended coordinates (Hisil, Wong, Carter & Dawson, 2008)."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * D * p[3] * q[3], 2 * p[2] * q[2]
    e, f, g, h = (b - a) % PRIME, (d - c) % PRIME, (d + c) % PRIME, (b + a) % PRIME
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def minus(p):
    return -p[0] % PRIME, p[1], p[2], -p[3] % PRIME


def times(n, p):
    out = ZERO
    for bit in bin(n)[2:]:
        out = plus(out, out)
        out = plus(out, p) if bit == "1" else out
    return out


def bits_of(data):
    return [byte >> i & 1 for byte in data for i in range(8)]


def from_bits(bits):
    return bytes(sum(bit << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))


def pieces_of(receiver, sender, bits):
    w = min(bits // 64, max(1, 8192 // sender))
    return [[row, at, min(w, bits // 64 - at)] for row in range(receiver) for at in range(0, bits // 64, w)]


def check_ot():
    file = vectors("ot")
    for cut in file["cuts"]:
        check("pieces", pieces_of(cut["receiver"], cut["sender"], cut["bits"]) == cut["pieces"])
    ballot = ballot_bytes({"counter": file["ballot"][0], "proposer": file["ballot"][1]})
    context = tagged("oblivious transfer", bytes.fromhex(file["session"]), ballot, le(file["receiver"], 2), le(file["sender"], 2))
    check("context of transfers", context.hex() == file["context"])
    base = (15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, PRIME) % PRIME)
    base = (*base, 1, base[0] * base[1] % PRIME)
    mine, theirs = map(bytes.fromhex, file["secrets"])
    scalars = lambda secret, n: [int.from_bytes(s, "little") % ORDER for s in [Stream(secret, "base transfer", b"", 64 * i).read(64) for i in range(n)]]
    (a,), b = scalars(mine, 1), scalars(theirs, 128)
    sent = times(a, base)
    message = ristretto_encode(sent)
    chosen = bits_of(Stream(theirs, "base choices", b"").read(16))
    points = [plus(times(x, base), sent) if bit else times(x, base) for x, bit in zip(b, chosen)]
    reply = [ristretto_encode(point) for point in points]
    check("points of base transfers", [message.hex(), b"".join(reply).hex()] == [file["base"], file["choices"]])
    check("points decode", all(ristretto_encode(ristretto_decode(data)) == data for data in reply))
    for data in file["no_points"]:
        try:
            refused = bytes.fromhex(data) == bytes(32)
            ristretto_decode(bytes.fromhex(data))
        except Refused:
            refused = True
        check("no point", refused)
    key = lambda i, shared: tagged("base transfer", context, le(i, 4), message, reply[i], ristretto_encode(shared))
    pairs = [[key(i, times(a, point)), key(i, times(a, plus(point, minus(sent))))] for i, point in enumerate(points)]
    keys = [key(i, times(x, sent)) for i, x in enumerate(b)]
    check("base keys", [b"".join(map(b"".join, pairs)).hex(), b"".join(keys).hex()] == [file["pairs"], file["chosen"]])
    check("base keys that were chosen", keys == [pair[bit] for pair, bit in zip(pairs, chosen)])

    cipher = Cipher(algorithms.AES128(derive(context, "transfer hash", b"")[:16]), modes.ECB()).encryptor()
    xor = lambda p, q: bytes(x ^ y for x, y in zip(p, q))
    codes, others = [[bits_of(bytes.fromhex(code)) for code in file[of]] for of in ("receiver_codes", "sender_codes")]
    bits, s = file["bits"], len(others)

    def hashed(j, x):
        image, out = cipher.update(x), b""
        for c in range(-(-s // 8)):
            out += xor(cipher.update(xor(image, le(j, 8) + le(c, 8))), image)
        return struct.unpack(f"<{s}H", out[: 2 * s])

    one, two = [[0] * s for _ in codes], [[sum(code) for code in others] for _ in codes]
    for (row, first, words), piece in zip(pieces_of(len(codes), s, bits), file["pieces"], strict=True):
        at, n = row * bits + 64 * first, 64 * words
        column = lambda secret: bits_of(Stream(secret, "transfer column", b"", at // 8).read(n // 8))
        choices = codes[row][64 * first :][:n]
        zeros = [column(pair[0]) for pair in pairs]
        u = [[x ^ y ^ c for x, y, c in zip(zero, column(pair[1]), choices)] for zero, pair in zip(zeros, pairs)]
        check("columns", b"".join(map(from_bits, u)).hex() == piece["columns"])
        q = [[x ^ bit & y for x, y in zip(column(secret), column_u)] for secret, bit, column_u in zip(keys, chosen, u)]
        strings = []
        for j in range(n):
            t_j, q_j = from_bits([zero[j] for zero in zeros]), from_bits([each[j] for each in q])
            p, other = hashed(at + j, q_j), hashed(at + j, xor(q_j, from_bits(chosen)))
            d = [1 - 2 * code[64 * first + j] for code in others]
            y = [(x + z - w) % 2**16 for x, z, w in zip(p, d, other)]
            strings.append(y)
            got = [(x + choices[j] * z) % 2**16 for x, z in zip(hashed(at + j, t_j), y)]
            check("a transfer", got == [(x + choices[j] * z) % 2**16 for x, z in zip(p, d)])
            one[row] = [(x + z) % 2**16 for x, z in zip(one[row], got)]
            two[row] = [(x - z) % 2**16 for x, z in zip(two[row], p)]
        check("strings", hex16(strings) == piece["strings"])
    check("shares of distances", [hex16(one), hex16(zip(*two))] == [file["receiver_share"], file["sender_share"]])
    plain = [[sum(x != y for x, y in zip(p, q)) for q in others] for p in codes]
    check("shares by transfer add up to distances", [[(x + y) % 2**16 for x, y in zip(*both)] for both in zip(one, two)] == plain)


# ---------------------------------------------------------------------- section 15c: secure Hamming distances, encrypted


N, T = 4096, 2**15
PRIMES = (1125899906826241, 1125899906629633)
Q = PRIMES[0] * PRIMES[1]


def product(a, b, q):
    """Of polynomials mod X^4096 + 1 and q, by one product of long integers (Kronecker)."""
    width = 16
    long = lambda p: int.from_bytes(b"".join(le(x % q, width) for x in p), "little")
    data = (long(a) * long(b)).to_bytes(2 * N * width, "little")
    parts = [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
    return [(x - y) % q for x, y in zip(parts[:N], parts[N:])]


def drawn(stream, size, count, keep, made):
    """`count` numbers made of words of `size` bytes, those that are not to be kept skipped."""
    out = []
    while len(out) < count:
        word = int.from_bytes(stream.read(size), "little")
        if keep(word):
            out.append(made(word))
    return out


def uniform_mod(stream, p):
    return drawn(stream, 8, N, lambda word: word % 2**50 < p, lambda word: word % 2**50)


def ternary(stream):
    return drawn(stream, 1, N, lambda byte: byte < 255, lambda byte: byte % 3 - 1)


def small_errors(stream, count=N):
    ones = lambda word: (word % 2**21).bit_count()
    return drawn(stream, 8, count, lambda word: True, lambda word: ones(word) - ones(word >> 21))


def packed50(coefficients):
    return le(sum(x << 50 * i for i, x in enumerate(coefficients)), -(-50 * len(coefficients) // 8))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def check_phe():
    for file in vectors("phe"):
        bits = file["bits"]
        a, b = [[bits_of(bytes.fromhex(code)) for code in file[of]] for of in ("holder_codes", "evaluator_codes")]
        x, v = map(bytes.fromhex, file["secrets"])
        w = min(512, 1 << (len(a) - 1).bit_length())
        columns, z = N // w, -(-bits * w // N)
        s, y = ternary(Buffered(x, "lattice secret", b"")), derive(x, "lattice public", b"")

        def encrypted(label, params, m):
            public, e = Buffered(y, label, params), small_errors(Buffered(x, label, params))
            a = [uniform_mod(public, p) for p in PRIMES]
            masks = [product(a_p, s, p) for a_p, p in zip(a, PRIMES)]
            return [[(Q // T * bit + err - mask) % p for bit, err, mask in zip(m, e, masks_p)] for masks_p, p in zip(masks, PRIMES)], a

        p0, p1 = encrypted("public key", b"", [0] * N)
        check("public key", sha256(y + b"".join(map(packed50, p0))) == file["key"])
        sent, answers, one, two = [], [], [[0] * len(b) for _ in a], [[0] * len(a) for _ in b]
        for g in range(-(-len(a) // 512)):
            rows = a[512 * g :][:512]
            made = []
            for i in range(z):
                m = [0] * N
                for r, row in enumerate(rows):
                    for k, bit in enumerate(row[columns * i :][:columns]):
                        m[k * w + r] = bit
                made.append(encrypted("ciphertext", le(g * z + i, 4), m))
                sent.append(sha256(b"".join(map(packed50, made[-1][0]))))
            for at, row in enumerate(b):
                stream = Buffered(v, "answer", le(g * len(b) + at, 8))
                u, e0, e1 = ternary(stream), small_errors(stream, len(rows)), small_errors(stream)
                f = [int.from_bytes(stream.read(16), "little") % 2**83 for _ in rows]
                h = [int.from_bytes(stream.read(2), "little") % T for _ in rows]
                answer = []
                for limb, p in enumerate(PRIMES):
                    # X^(-k w) is X^(2 N - k w).
                    sums = [[0] * N, [0] * N]
                    for i, ciphertext in enumerate(made):
                        chosen = [0] * N
                        for k, bit in enumerate(row[columns * i :][:columns]):
                            if bit:
                                chosen[-k * w % N] += -1 if k else 1
                        for total, part in zip(sums, ciphertext):
                            total[:] = [(x + y) % p for x, y in zip(total, product(part[limb], chosen, p))]
                    fresh = [product(key[limb], u, p) for key in (p0, p1)]
                    first = [(x + y + e + Q // T * mask + noise) % p for x, y, e, mask, noise in zip(sums[0], fresh[0], e0, h, f)]
                    answer.append(first + [(x + y + e) % p for x, y, e in zip(sums[1], fresh[1], e1)])
                least = [y - PRIMES[1] if y > PRIMES[1] // 2 else y for y in answer[1]]
                divided = [(x - y) * pow(PRIMES[1], -1, PRIMES[0]) % PRIMES[0] for x, y in zip(answer[0], least)]
                a0, a1 = divided[: len(rows)], divided[len(rows) :]
                answers.append(sha256(packed50(a0) + packed50(a1)))
                opened = [(x + y) % PRIMES[0] for x, y in zip(a0, product(a1, s, PRIMES[0]))]
                for r, (value, mask) in enumerate(zip(opened, h)):
                    o = (value * T + PRIMES[0] // 2) // PRIMES[0] % T
                    one[512 * g + r][at] = sum(rows[r]) - 2 * o
                    two[at][512 * g + r] = sum(row) + 2 * mask
        check("ciphertexts", sent == file["ciphertexts"])
        check("answers", answers == file["answers"])
        check("shares by encryption", [hex16(one), hex16(two)] == [file["holder_share"], file["evaluator_share"]])
        plain = [[sum(p != q for p, q in zip(row, other)) for other in b] for row in a]
        added = [[(one[i][j] + two[j][i]) % 2**16 for j in range(len(b))] for i in range(len(a))]
        check("shares by encryption add up to distances", added == plain)


# ------------------------------------------------------------------------------------------------------- section 15d: sketch


def single(x):
    """Rounded to binary32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def srp_numbers(seed, rows, width, records):
    planes, features = width.bit_length() - 1, len(records[0])
    stream = Stream(seed, "sketch/planes", b"")
    numbers = [[0] * rows for _ in records]
    for plane in range(rows * planes):
        entries = []
        for _ in range((features + 1) // 2):
            u, v = (word >> 11 for word in struct.unpack("<2Q", stream.read(16)))
            radius = math.sqrt(-2 * math.log((u + 1) / 2**53))
            entries += [single(radius * turn(2 * math.pi * (v / 2**53))) for turn in (math.cos, math.sin)]
        for record, number in zip(records, numbers):
            # In binary64 a product of two binary32 is exact, and a sum is rounded to binary32 as if it were rounded once.
            total = functools.reduce(lambda total, xy: single(total + single(xy[0] * xy[1])), zip(entries, record), 0.0)
            number[plane // planes] |= (total > 0) << (plane % planes)
    return numbers


def minhash_numbers(seed, rows, width, records):
    keys = struct.unpack(f"<{rows}Q", Stream(seed, "sketch/minhash", b"").read(8 * rows))

    def value(key, j):
        z = (key + j * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    sets = [[j for j, x in enumerate(record, 1) if x > 0] or [0] for record in records]
    return [[min(value(key, j) for j in members) % width for key in keys] for members in sets]


def sketched(numbers, rows, width):
    words = [0] * (rows * width) + [len(numbers)]
    for number in numbers:
        for row, bucket in enumerate(number):
            words[row * width + bucket] += 1
    return words


def sketch_distance(width, one, other):
    norms = plain = 0.0
    rows = len(one) // width
    for row in range(rows):
        square = 0.0
        for a, b in zip(one[row * width : (row + 1) * width], other[row * width : (row + 1) * width]):
            square += (a - b) * (a - b)
        norms += math.sqrt(square)
        plain += square
    return norms / rows, math.sqrt(plain)


def shares(words):
    return [count / words[-1] for count in words[:-1]]


def sketch_score(distance):
    return 1 + rounded(distance * 2**30)


def draw_weights(scores, temperature):
    g = [1.1253517471925912e-7]
    while len(g) < 25:
        g.insert(0, math.sqrt(g[0]))
    s = [2**30 / score for score in scores]
    weights = []
    for each in s:
        x = (max(s) - each) / temperature
        if x >= 32:
            weights.append(1)
            continue
        exponent, product = math.floor(x * 2**20), 1.0
        for k in range(25):
            if exponent >> k & 1:
                product *= g[k]
        weights.append(max(1, math.floor(2**21 * product)))
    return weights


def selected(coin, number, scores, active, chosen, temperature):
    stream = Stream(coin, "sketch/select", le(number, 4))
    places = [place for place, score in enumerate(scores) if score > 0]
    if 0 < active < len(places):
        for i in range(active):
            j = i + stream.below(len(places) - i)
            places[i], places[j] = places[j], places[i]
        places = sorted(places[:active])
    left = list(zip(places, draw_weights([scores[place] for place in places], temperature)))
    out = []
    while left and len(out) < chosen:
        t = stream.below(sum(weight for _, weight in left))
        for at, (place, weight) in enumerate(left):
            if t < weight:
                out.append(place)
                del left[at]
                break
            t -= weight
    return places, out


def check_sketch():
    file = vectors("sketch")
    records = [file["records"][i : i + 3] for i in range(0, len(file["records"]), 3)]
    for case in file["hashes"]:
        seed, rows, width = bytes.fromhex(case["seed"]), case["rows"], case["range"]
        numbers = (srp_numbers if case["hash"] == "srp" else minhash_numbers)(seed, rows, width, records)
        what = f"{case['hash']} {rows} x {width}"
        check(f"numbers, {what}", numbers == case["numbers"])
        words, part = sketched(numbers, rows, width), sketched([numbers[i] for i in case["part"]], rows, width)
        check(f"sketches, {what}", words == case["words"] and part == case["part_words"])
        mean, plain = sketch_distance(width, shares(part), shares(words))
        check(f"distances, {what}", (mean, plain) == (case["row_mean"], case["plain"]) and sketch_score(mean) == case["score"])
    for scores, temperature, weights in file["weights"]:
        check(f"weights at temperature {temperature}", draw_weights(scores, temperature) == weights)
    coin = bytes.fromhex(file["coin"])
    for active, chosen, temperature, number, considered, out in file["draws"]:
        found = selected(coin, number, file["scores"], active, chosen, temperature)
        check(f"draw of {chosen} of {active}, round {number}", found == (considered, out))

    case = file["session"]
    session, seed = Session(case["toml"]), bytes.fromhex(case["seed"])
    scaled = []
    for part in case["rows"]:
        part = [part[i : i + 3] for i in range(0, len(part), 3)]
        norms = [math.sqrt(functools.reduce(lambda total, x: total + x * x, row, 0.0)) for row in part]
        scaled.append([[single(x / norm) if norm else 0.0 for x in row] for row, norm in zip(part, norms)])
    words = [sketched(srp_numbers(seed, session.rows, session.span, part), session.rows, session.span) for part in scaled]
    total = [sum(column) for column in zip(*words)]
    distances = [sketch_distance(session.span, shares(each), shares(total)) for each in words]
    scores = [sketch_score(mean) for mean, _ in distances]
    sketches = [[rounded(share * 2**30) for share in shares(each)] for each in words]
    blank = [0] * len(sketches[0])
    opened = {"holders": [3], "sketch": total, "scores": scores, "pairwise": sum(sketches, [])}
    own = {"holders": [1], "sketch": words[1], "scores": [0, scores[1], 0], "pairwise": blank + sketches[1] + blank}
    secret = [Stream(b"flyswarm test vectors", f"secret {peer}", b"").read(32) for peer in range(3)]
    parts = [struct.unpack("<8I", Stream(each, "sketch/draw", session.id).read(32)) for each in secret]
    own["draw"], opened["draw"] = parts[1], [sum(column) % 2**32 for column in zip(*parts)]
    packed = lambda words: b"".join(le(word, 4) for word in words).hex()
    check("slots of a sketch session", case["slots"] == [name for name, _, _ in session.plan()][1:])
    for slot, mine, all_of_it in zip(case["slots"], case["own"], case["opened"]):
        check(f"{slot} of a sketch session", packed(own[slot]) == mine and packed(opened[slot]) == all_of_it)
    check("own distance", list(distances[1]) == case["distance"])
    check("digest of a sketch", tagged("sketch", session.id, bytes.fromhex(packed(total))).hex() == case["digest"])
    rounded_shares = [[share / 2**30 for share in each] for each in sketches]
    matrix = [[sketch_distance(session.span, one, other)[0] for other in rounded_shares] for one in rounded_shares]
    check("distances between peers", matrix == case["matrix"])
    found = selected(bytes.fromhex(packed(opened["draw"])), 0, scores, session.active, session.chosen, session.temperature)
    check("draw of a sketch session", found == (case["active"], case["chosen"]))
    check_selection(file["select"])
    check_releases(file["releases"])


def check_selection(case):
    """Peers of the task flynn that are drawn by their sketches: every vector of every peer (section 15.2)."""
    session, seed = Session(case["toml"]), bytes.fromhex(case["seed"])
    scale, p = scaler(session, None), len(session.roster)
    data = [[part[i : i + 3] for i in range(0, len(part), 3)] for part in case["rows"]]
    parts = [[list(scale(row)) for row in rows] for rows in data]
    hashed = [sketched(srp_numbers(seed, session.rows, session.span, part), session.rows, session.span) for part in parts]
    total = [sum(column) for column in zip(*hashed)]
    scores = [sketch_score(sketch_distance(session.span, shares(each), shares(total))[0]) for each in hashed]
    secrets = [Stream(b"flyswarm test vectors", f"secret {peer}", b"").read(32) for peer in range(p)]
    draws = [list(struct.unpack("<8I", Stream(each, "sketch/draw", session.id).read(32))) for each in secrets]
    coin = words([sum(column) % 2**32 for column in zip(*draws)])
    found = selected(coin, 0, scores, session.active, session.chosen, session.temperature)
    check("drawn peers", found == (case["active"], case["chosen"]))
    rows_of_m = list(matrix(seed, session.m, session.d, session.s))
    expected = {
        "present": [[1] for _ in range(p)],
        "sketch": hashed,
        "scores": [[scores[peer] if place == peer else 0 for place in range(p)] for peer in range(p)],
        "draw": draws,
        "holders": [],
        "counts": [],
    }
    for peer, (rows, labels) in enumerate(zip(data, case["labels"])):
        drawn = peer in case["chosen"]
        held = [drawn, *(drawn and c in labels for c in range(len(session.classes)))]
        expected["holders"].append([int(each) for each in held])
        counts = count(session, [winners(session, seed, rows_of_m, scale, row) for row in rows], labels)
        expected["counts"].append(counts if drawn else [0] * len(counts))
    check("slots of a session that draws peers", case["slots"] == [name for name, _, _ in session.plan()][1:])
    for slot, vectors_of in zip(case["slots"], case["vectors"]):
        check(f"{slot} where peers are drawn", [words(each).hex() for each in expected[slot]] == vectors_of)


def check_releases(cases):
    """Distances of noised sketches, with the noise taken off (section 15d)."""
    for case in cases:
        own, other, whole = case["own"], case["other"], case["whole"]
        epsilon, rows = float(case["epsilon"]), case["rows"]
        variance = 1 / (2 * math.sinh(epsilon / (4 * rows)) ** 2)
        signed = lambda words: [word - 2**32 if word >= 2**31 else word for word in words[:-2]]

        def square(one, two):
            n, m = max(one[-2], 1), max(two[-2], 1)
            return sum((a / n - b / m) ** 2 for a, b in zip(signed(one), signed(two)))

        counters = len(own) - 2
        n, m, all_n = own[-2], other[-2], whole[-2]
        apart = square(own, other) - counters * variance * (own[-1] / n**2 + other[-1] / m**2)
        within = square(own, whole) - counters * variance * ((1 / n - 1 / all_n) ** 2 + (whole[-1] - own[-1]) / all_n**2)
        found = [math.sqrt(max(each, 0) / rows) for each in (apart, within)]
        check("noise of releases", math.isclose(variance, case["variance"], rel_tol=1e-12))
        holds = all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(found, [case["apart"], case["within"]]))
        check("distances of releases", holds)


def pairs_of(words):
    return b"".join(le(place, 2) + le(word, 4) for place, word in enumerate(words) if word)


def words_of(pairs, count):
    need(len(pairs) % 6 == 0, "inconsistent")
    words, last = [0] * count, -1
    for at in range(0, len(pairs), 6):
        place, word = int.from_bytes(pairs[at : at + 2], "little"), int.from_bytes(pairs[at + 2 : at + 6], "little")
        need(last < place < count and word, "inconsistent")
        words[place], last = word, place
    return words


def check_private():
    file = vectors("private")
    for case in file["chunks"]:
        words = [0] * case["words"]
        for place, word in case["nonzero"]:
            words[place] = word
        check("pairs", pairs_of(words).hex() == case["pairs"])
        check("words", words_of(bytes.fromhex(case["pairs"]), case["words"]) == words)
    for case in file["refused"]:
        try:
            words_of(bytes.fromhex(case["pairs"]), case["words"])
            check(f"{case['what']} is accepted", False)
        except Refused:
            check(case["what"], case["class"] == "inconsistent")
    for case in file["totals"]:
        counts = [word if word < 2**31 else 0 for word in case["total"]]
        kept = sorted(range(len(counts)), key=lambda i: (-counts[i], i))[: case["top"]]
        check("noisy total", [count if i in kept else 0 for i, count in enumerate(counts)] == case["counts"])


def noise_of_members(epsilon, delta, rounds, longest, parties):
    """The budget in 10^-12, and the variance of a member's noise (section 15f, Private rounds)."""
    root = -math.log(delta)
    root = epsilon / (math.sqrt(root + epsilon) + math.sqrt(root))
    rho = math.floor(root * root * (1 - 1e-9) * 1e12)
    return rho, max(1024, -(-((2 * longest) ** 2 * rounds * 10**12) // (2 * rho * parties)))


def check_fedavg():
    """Two rounds in which no weight moves, for the rate is next to nothing."""
    file = vectors("fedavg")
    session, seed = session_of(file["toml"]), bytes.fromhex(file["seed"])
    one, rounds = 1 << 27, session.fedavg["rounds"]
    stream, weights = Stream(seed, "fedavg/weights", b""), []
    for outputs, inputs in session.fedavg_shapes():
        drawn = struct.unpack(f"<{outputs * (inputs + 1)}I", stream.read(4 * outputs * (inputs + 1)))
        weights += [f32((v / 2**31 - 1) * (1 / math.sqrt(inputs))) for v in drawn]
    length, first = len(weights), 3
    signed = lambda word: word - (word >> 31 << 32)
    unpacked = lambda text: list(struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text)))
    peers, members, curve = range(len(file["rows"])), file["members"], []
    size = [len(labels) for labels in file["labels"]]

    def loss_and_right(peer, weights):
        rows = [file["rows"][peer][i : i + 3] for i in range(0, 3 * size[peer], 3)]
        matrix, bias = weights[: 3 * len(session.classes)], weights[3 * len(session.classes) :]
        losses, right = 0, 0
        for row, label in zip(rows, file["labels"][peer]):
            scores = [sum(w * x for w, x in zip(matrix[3 * c :], row)) + bias[c] for c in range(len(bias))]
            losses += math.log(sum(map(math.exp, scores))) - scores[label]
            right += scores.index(max(scores)) == label
        return losses / size[peer], right / size[peer]

    base = 2
    for slot, (name, _, count) in enumerate(session.plan()):
        found = [unpacked(text) for text in file["vectors"][slot]]
        if name == "rows":
            check("rows", found == [[size[peer]] for peer in members[slot]])
            opened = [sum(size[peer] for peer in members[slot])]
        if slot < first:
            continue
        at = slot - first
        for before in range(first, min(slot, first + rounds)):
            base = before if len(members[before]) >= len(members[base]) else base
        all_rows = sum(size[peer] for peer in members[base])
        trains = list(members[base])
        if name != "scores":
            draw = Stream(seed, "fedavg/members", le(slot, 4))
            for i in range(len(trains) - 1, 0, -1):
                j = draw.below(i + 1)
                trains[i], trains[j] = trains[j], trains[i]
            drawn = math.ceil(session.fedavg["members"] * len(trains))
            trains = trains[: max(drawn, max(3, session.min_holders) + 1)]
        for peer, vector in zip(members[slot], found):
            check(f"length of {name}", len(vector) == count)
            share = size[peer] * one // all_rows if peer in trains else 0
            loss, right = loss_and_right(peer, weights)
            means, tail = [*([] if name == "scores" else weights), loss, right, 0, 0], vector[-1:]
            if name != "scores":
                tail = vector[length + 4 :]
                carried = [number for figures in curve for number in figures]
                carried += [0] * (4 * rounds - len(carried))
                check(f"what a member of {name} carries on", tail[1:] == [size[peer], all_rows & 0xFFFF, all_rows >> 16, *carried])
            check(f"share in {name}", tail[0] == share)
            sums = list(zip(map(signed, vector), (mean * share for mean in means)))
            # The loss is computed in 32-bit floats.
            exact = all(abs(word - mean) <= 0.5 for place, (word, mean) in enumerate(sums) if place != len(means) - 4)
            word, mean = sums[len(means) - 4]
            check(f"means in {name}", exact and abs(word - mean) <= 2**-20 * one)
        total = [sum(column) % 2**32 for column in zip(*found)]
        if name != "scores":
            share = total[length + 4]
            check("the share of a round", 1 <= share <= one)
            weights = [f32(signed(word) / share) for word in total[:length]]
            means = [signed(word) / share for word in total[length : length + 4]]
            curve.append([min(round(mean * scale), 65_535) for mean, scale in zip(means, (1e3, 1e4, 1e3, 1e4))])
    for case in file["noise"]:
        share = one // case["counted"]
        longest = math.floor(case["clip"] * share)
        budget = float(case["epsilon"]), float(case["delta"])
        rho, variance = noise_of_members(*budget, case["rounds"], longest, case["parties"])
        found = (rho, share, longest, variance)
        check("noise of a private session", found == tuple(case[name] for name in ("rho", "share", "longest", "variance")))
        check("parties", case["parties"] == max(case["counted"] // 2 + 1, 3) - 1)
    for case in file["judged"]:
        losses, best, end = [], 0, None
        for judged, loss in enumerate(case["losses"]):
            losses.append(loss)
            best = losses.index(min(losses))
            if end is None and judged - max(best, case["after"]) >= case["patience"]:
                end = judged + 1
                break
        check(f"the best of {case['losses']}", (best, end) == (case["best_round"], case["ends_with_round"]))
    shown = [[figures["loss"], figures["accuracy"]] for figures in file["rounds"]]
    check("the figures of rounds", shown == [[figures[0] / 1e3, figures[1] / 1e4] for figures in curve])


def check_fedavg_xclp():
    """What the members sum around a propagation; the network is a logistic one, so that points are rows."""
    file = vectors("fedavg-xclp")
    session, seed = session_of(file["toml"]), bytes.fromhex(file["seed"])
    names = [name for name, _, _ in session.plan()]
    check("the slots of the task", names == file["slots"])
    classes, peers = len(session.classes), range(len(file["rows"]))
    features = session.features
    rows, labels = [], []
    for values, known in zip(file["rows"], file["labels"]):
        order = sorted(range(len(known)), key=lambda row: known[row] is None)
        cut = [values[i : i + features] for i in range(0, len(values), features)]
        rows.append([cut[row] if any(cut[row]) else [1.0] * features for row in order])
        labels.append([known[row] for row in order])
    tally = lambda found: [sum(label == c for label in found) for c in range(classes)]
    unpacked = lambda text: list(struct.unpack(f"<{len(text) // 8}I", bytes.fromhex(text)))
    points = [[len(labels[peer]) if at == peer else 0 for at in peers] + tally(labels[peer]) for peer in peers]
    check("points", [unpacked(text) for text in file["points"]] == points)
    given = [max(1, sum(tally(labels[peer])[c] for peer in peers)) for c in range(classes)]
    codes = codes_of(sum(rows, []), derive(seed, "planes", session.id), session.bits)
    made = integer_reference(codes, sum(labels, []), classes, session.k, session.bits, session.alpha, session.steps, session.power, session.balance)
    coarse = [made["coarse"][i : i + classes] for i in range(0, len(made["coarse"]), classes)]
    for peer in peers:
        own, coarse = coarse[: len(rows[peer])], coarse[len(rows[peer]) :]
        found = list(labels[peer])
        for row, scores in enumerate(own):
            parts = [score / count for score, count in zip(scores, given)]
            if found[row] is None and sum(parts) > 0:
                found[row] = parts.index(max(parts))
        check("counts of labels, given and found", unpacked(file["counts"][peer]) == tally(found))
    check("labels are found", sum(sum(unpacked(text)) for text in file["counts"]) > sum(map(sum, map(tally, labels))))


# ----------------------------------------------------------------------------------------- worked bytes of the specification


def worked_bytes():
    """The lines of section 12.1, each (name, bytes), computed from the vectors; None for an empty line."""
    file = vectors("items")
    session = session_of(file["toml"])
    number, deal = file["sum"], file["deals"][0]
    context, total = share_context(session, number), bytes.fromhex(file["total"])
    coefficients = [scalar(bytes.fromhex(c)) for c in deal["coefficients"]]
    share = le(shamir_share(coefficients, 1), 32)
    yield "id", session.id
    yield "ballot (1, 1)", ballot_bytes(number["ballot"])
    yield "slot 1", le(number["slot"], 4)
    yield None
    yield "total's bytes", total
    yield "their BLAKE3", blake3(total).digest()
    yield "tag and 0x00", b"flyswarm/5 total\0"
    yield "total = SHA-256(tag || id || ballot || slot || BLAKE3)", None
    yield "", total_digest(session, number, total)
    yield None
    yield "pad of dealer 0", bytes.fromhex(deal["pad"])
    yield "coefficient of x", bytes.fromhex(deal["coefficients"][1])
    yield "share f(2) of index 1", share
    yield "tag and 0x00", b"flyswarm/5 share\0"
    yield "LE64(46)", le(len(context), 8)
    yield "dealer, index", le(0, 2) + le(1, 2)
    yield "hash = SHA-256(tag || LE64(46) || id || ballot || slot || dealer || index || share)", None
    yield "", share_hash(context, 0, 1, share)
    yield None
    case = next(case for case in file["good"] if case["context"] == "acknowledgement")
    canonical = bytes.fromhex(case["canonical"])
    author = le(case["author"], 2)
    message = session.id + author + canonical
    signature = sign(bytes.fromhex(file["seeds"][case["author"]]), b"acknowledgement", message)
    yield "tag and 0x00", b"flyswarm/5 signature\0"
    yield "LE64(15)", le(len(b"acknowledgement"), 8)
    yield "context", b"acknowledgement"
    yield "author", author
    yield "ballot, slot", canonical[:3]
    yield "value", canonical[3:]
    yield "S = Ed25519(tag || LE64(15) || context || id || author || ballot, slot || value)", None
    yield "R of S", signature[:32]
    yield "s of S", signature[32:]
    yield "the signed item on the wire = author as u16 || ballot, slot || value || S, first bytes", None
    yield "", encode("Signed<Acknowledgement>", decode("Signed<Acknowledgement>", bytes.fromhex(case["signed"])))[:36]
    yield None
    file = vectors("sum")
    session = session_of(file["toml"])
    ballot, number = {"counter": 1, "proposer": 1}, 1
    params = ballot_bytes(ballot) + le(number, 4)
    public = [bytes.fromhex(view["public"]) for view in file["view_secrets"]]
    secret = bytes.fromhex(file["view_secrets"][0]["secret"])
    keys = {other: pair_key(session, ballot, secret, public[other], 0, other) for other in (1, 2)}
    pad = pads_of_sum(file, session, number)[0]
    yield "ballot (1, 1) || slot 1", params
    yield "X25519 of 0 and 1", exchange(secret, public[1])
    yield "k_01", keys[1]
    yield "X25519 of 0 and 2", exchange(secret, public[2])
    yield "k_02", keys[2]
    yield "pad of peer 0", pad
    streams = [
        Stream(keys[1], "mask", params).read(4),
        Stream(keys[2], "mask", params).read(4),
        Stream(pad, "pad", params).read(4),
    ]
    yield "x, word 0", words([1])
    for name, stream in zip(("+ Stream(k_01)", "+ Stream(k_02)", "+ Stream(pad)"), streams):
        yield name, stream
    masked = words([1])
    for sign_of, stream in zip((1, 1, 1), streams):
        masked = add_words(32, masked, stream, sign_of)
    yield "y, word 0", masked
    sent = next(e for e in file["log"] if e.get("channel") == "bulk" and e["from"] == 0 and e["header"] == "0802000101010000")
    check("the masked word is what was sent", sent["payload"].startswith(masked.hex()))


def pads_of_sum(file, session, number):
    """{dealer: pad} of a slot in `sum`, from the shares that were released."""
    for entry in file["log"]:
        if "header" not in entry:
            continue
        message = read_frame(entry["channel"], bytes.fromhex(entry["header"]), bytes.fromhex(entry["payload"]))
        match innermost(message):
            case ["View", "Down", "Accept"]:
                record = message["View"]["Down"][1]["Accept"]
                deals = record["deals"] if record["value"]["sum"]["slot"] == number else None
            case ["View", "Down", "Open"] if deals:
                _, releases = message["View"]["Down"][1]["Open"]
                found = {deal["author"]: {} for deal in deals}
                for release in releases:
                    for dealer, (index, share) in check_release(session, deals, release).items():
                        found[dealer][index] = share
                return {deal["author"]: open_pad(session, deal, found[deal["author"]]) for deal in deals}
    raise AssertionError("no such slot is opened")


def worked_text():
    lines = []
    for entry in worked_bytes():
        name, data = entry or ("", None)
        lines.append(f"{name:<24}{data.hex()}" if data is not None else name)
    return "\n".join(lines)


def check_worked():
    shown = SPEC.split("### 12.1")[1].split("```text\n")[1].split("\n```")[0]
    for expected, found in zip(worked_text().split("\n"), shown.split("\n"), strict=True):
        check(f"worked bytes: {expected}", expected == found)


def check_trees_shown():
    """The trees of section 6.2: the sessions they are drawn for, and their order."""
    shown = " ".join(SPEC.split("### 6.2")[1].split("## 7.")[0].split())
    session = session_of(vectors("sum")["toml"])
    order = tree_order(session, {"counter": 1, "proposer": session.council[0]}, [0, 1, 2])
    check("the tree of three", f"The tree is {', '.join(map(str, order))}." in shown)
    number = int(shown.split("Five peers.** Session ")[1].split()[0])
    session = session_of(vectors("session")["good"][number]["toml"])
    order = tree_order(session, {"counter": 1, "proposer": session.council[0]}, [0, 1, 2, 3, 4])
    check("the tree of five", f"The tree is {', '.join(map(str, order))}." in shown)


def check_musts():
    """Every numbered MUST has one row in tests/vectors/README.md; the vectors and tests that are named there exist."""
    numbers = re.findall(r"\[(M\w+\.\d+)\](?!, are)", SPEC)
    rows = re.findall(r"^\| (M\w+\.\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", (ROOT / "tests/vectors/README.md").read_text(), re.M)
    check("no number twice", len(numbers) == len(set(numbers)))
    check("a row for every MUST, in order", [number for number, _, _ in rows] == numbers)
    source = "\n".join(path.read_text() for top in ("src", "crates", "tests") for path in (ROOT / top).rglob("*.rs"))
    tests = set(re.findall(r"\bfn (\w+)", source))
    for number, files, names in rows:
        for name in re.findall(r"^ `(\w+)`|; `(\w+)`", files):
            check(f"{number}: {name} is a vector", (ROOT / "tests/vectors" / f"{''.join(name)}.json").exists())
        for name in re.findall(r"`(\w+)`", names):
            check(f"{number}: {name} is a test", name in tests)


def main():
    for part in (
        check_musts,
        check_worked,
        check_trees_shown,
        check_encoding,
        check_identity,
        check_streams,
        check_sharing,
        check_sessions,
        check_items,
        check_messages,
        check_faults,
        check_sum,
        check_flynn,
        check_evaluate,
        check_tune,
        check_xclp,
        check_ot,
        check_phe,
        check_sketch,
        check_fedavg,
        check_fedavg_xclp,
        check_private,
    ):
        try:
            part()
        except Refused as error:
            check(f"{part.__name__}: refused what is good: {error.args}", False)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
