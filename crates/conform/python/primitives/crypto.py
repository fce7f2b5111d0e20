"""Identities, signatures, streams, hashes and masks (spec, sections 3, 5 and 11)."""

from __future__ import annotations

import functools
import hashlib
import struct
from typing import Any, Callable

import numpy
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from . import PROTOCOL, Refused
from .encoding import Acknowledgement, Ballot, Begun, Deal, Failure, Promised, Release, Reveal, Signed, Statement, SumId, ViewKey, canonical

ORDER = 2**252 + 27742317777372353535851937790883648493
FIELD = 2**255 - 19
D = -121665 * pow(121666, -1, FIELD) % FIELD  # constant of the curve
DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PEER_ID_PREFIX = bytes.fromhex("002408011220")
CONTEXTS = {ViewKey: b"view key", Reveal: b"reveal", Deal: b"deal", Promised: b"promise",
            Acknowledgement: b"acknowledgement", Release: b"release", Failure: b"failure", Begun: b"begin",
            Statement: b"account"}


Draw = Callable[[int], bytes]  # returns this number of random bytes


class CryptoError(Refused):
    """A key or share that must be refused."""


# --- section 3: identities and signatures


def point(data: bytes) -> tuple[int, int]:
    """Decodes a point of Ed25519 to x, y. Raises ValueError if it is not a point in canonical encoding."""
    sign, y = data[31] >> 7, int.from_bytes(data, "little") % 2**255
    xx = (y * y - 1) * pow(D * y * y + 1, -1, FIELD) % FIELD
    x = pow(xx, (FIELD + 3) // 8, FIELD)
    if (x * x - xx) % FIELD:
        x = x * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
    if y >= FIELD or (x * x - xx) % FIELD or (x == 0 and sign):
        raise ValueError("not the canonical encoding of a point")
    return (FIELD - x if x % 2 != sign else x), y


def double(p: tuple[int, int]) -> tuple[int, int]:
    x, y = p
    k = D * x * x * y * y
    return 2 * x * y * pow(1 + k, -1, FIELD) % FIELD, (y * y + x * x) * pow(1 - k, -1, FIELD) % FIELD


@functools.lru_cache(4096)
def is_public_key(key: bytes) -> bool:
    """Returns whether the key is the canonical encoding of a point that is not of small order."""
    try:
        return len(key) == 32 and double(double(double(point(key)))) != (0, 1)
    except ValueError:
        return False


def read_peer_id(text: str) -> bytes:
    n = 0
    for digit in text:
        if digit not in DIGITS:
            raise CryptoError("peer-id", "peer id is not base58")
        n = n * 58 + DIGITS.index(digit)
    zeros = len(text) - len(text.lstrip("1"))
    key = (bytes(zeros) + n.to_bytes((n.bit_length() + 7) // 8, "big"))[len(PEER_ID_PREFIX):]
    if not is_public_key(key) or peer_id(key) != text:
        raise CryptoError("peer-id", "peer id is not that of an Ed25519 key")
    return key


def peer_id(key: bytes) -> str:
    n, digits = int.from_bytes(PEER_ID_PREFIX + key, "big"), ""
    while n:
        n, digit = divmod(n, 58)
        digits = DIGITS[digit] + digits
    return "1" + digits  # the first byte is 0


def signature_input(context: bytes, message: bytes) -> bytes:
    return PROTOCOL + b" signature\x00" + struct.pack("<Q", len(context)) + context + message


def item_message(session_id: bytes, author: int, item: Any) -> bytes:
    """Returns the message that is signed for an item (section 3.1)."""
    return session_id + le16(author) + canonical(type(item).__name__, item)


def verify(key: bytes, context: bytes, message: bytes, signature: bytes) -> bool:
    """Verifies a signature strictly. OpenSSL compares R as bytes, and therefore without the cofactor."""
    if int.from_bytes(signature[32:], "little") >= ORDER:
        return False
    if not (is_public_key(key) and is_public_key(signature[:32])):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signature_input(context, message))
        return True
    except (InvalidSignature, ValueError):
        return False


class Identity:
    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self.key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self.key.public_key().public_bytes_raw()
        half = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
        self.scalar = (half & ~7 & (1 << 254) - 1 | 1 << 254) % ORDER

    def sign(self, context: bytes, message: bytes) -> bytes:
        return self.key.sign(signature_input(context, message))

    def sign_item(self, session_id: bytes, author: int, item: Any) -> Signed:
        message = item_message(session_id, author, item)
        return Signed(author, item, self.sign(CONTEXTS[type(item)], message))


def read_identity(path: str) -> Identity:
    with open(path) as file:
        words = file.read().split()
    if len(words) != 3 or words[:2] != ["flyswarm-identity", "1"] or len(words[2]) != 64:
        raise ValueError(f"{path} is not a key file")
    return Identity(bytes.fromhex(words[2]))


def agree(secret: bytes, public: bytes) -> bytes:
    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # the shared secret is all zero
        raise CryptoError("low-order-key", "key is of small order") from None


def exchange_public(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def recorded(randomness: dict[str, Any]) -> Draw:
    """Returns the randomness of `flyswarm-conform play --prepare`, in the order that a peer draws it."""
    digits = [randomness["view_secret"]]
    for deal in sorted(randomness["deals"], key=lambda deal: deal["slot"]):
        digits += deal["coefficients"]
    left = iter(map(bytes.fromhex, digits))

    def draw(n: int) -> bytes:
        if (found := next(left, None)) is None:
            raise CryptoError("randomness", "the recorded randomness is used up")
        return found

    return draw


# --- section 5: hashes and streams


def tagged(tag: str, *content: bytes) -> bytes:
    return hashlib.sha256(PROTOCOL + b" " + tag.encode() + b"\x00" + b"".join(content)).digest()


def derive(key: bytes, label: str, params: bytes) -> bytes:
    info = label.encode() + b"\x00" + params
    return HKDF(algorithm=SHA256(), length=32, salt=PROTOCOL, info=info).derive(key)


class Stream:
    """Pseudorandom bytes derived from a key. Small pieces are cut from blocks of 4096 bytes."""

    def __init__(self, key: bytes, label: str, params: bytes, offset: int = 0) -> None:
        counter = (offset // 16).to_bytes(16, "big")
        self.cipher = Cipher(algorithms.AES(derive(key, label, params)), modes.CTR(counter)).encryptor()
        self.cipher.update(bytes(offset % 16))
        self.block = b""
        self.at = 0

    def take(self, n: int) -> bytes:
        left = len(self.block) - self.at
        if n > left:
            more = n - left
            self.block = self.block[self.at:] + self.cipher.update(bytes(max(more, 4096)))
            self.at = 0
        self.at += n
        return self.block[self.at - n:self.at]

    def below(self, n: int) -> int:
        limit = (1 << 32) // n * n
        while (v := int.from_bytes(self.take(4), "little")) >= limit:
            pass
        return v % n

    def all_below(self, bounds: numpy.ndarray) -> numpy.ndarray:
        """Returns below(n) for each bound n of 64 bits, in order."""
        limits = 2**32 // bounds * bounds
        words = numpy.frombuffer(self.take(4 * len(bounds)), "<u4").astype(numpy.uint64)
        while len(refused := numpy.flatnonzero(words >= limits)):
            # The words after a refused word move up.
            more = numpy.frombuffer(self.take(4), "<u4").astype(numpy.uint64)
            words = numpy.concatenate([numpy.delete(words, refused[0]), more])
        return words % bounds


def le(n: int, size: int) -> bytes:
    return n.to_bytes(size, "little")


def le16(n: int) -> bytes:
    return le(n, 2)


def ballot_bytes(ballot: Ballot) -> bytes:
    return struct.pack("<QH", *ballot)


def sum_bytes(sum_id: SumId) -> bytes:
    """Returns ballot || slot."""
    return ballot_bytes(sum_id.ballot) + struct.pack("<I", sum_id.slot)


def total_digest(session_id: bytes, sum_id: SumId, total: bytes) -> bytes:
    return tagged("total", session_id, sum_bytes(sum_id), blake3(total).digest())


# --- section 11: masks


def agreement_key(session_id: bytes, ballot: Ballot, secret: bytes, public: bytes, me: bytes,
                  other: bytes) -> bytes:
    """Returns the agreement key of two members.

    `secret` and `public` are view keys. `me` and `other` are identities. They are ordered by their bytes.
    """
    low, high = sorted((me, other))
    return derive(agree(secret, public), "agreement", session_id + ballot_bytes(ballot) + low + high)


def add_words(bits: int, vector: bytes, other: bytes, sign: int = 1) -> bytes:
    """Adds or subtracts vectors of words of `bits` bits, each word modulo 2^bits."""
    if len(vector) != len(other):
        raise ValueError("vectors of different lengths")
    if bits <= 64:
        a, b = (numpy.frombuffer(x, f"<u{bits // 8}") for x in (vector, other))
        return (a + b if sign > 0 else a - b).tobytes()
    a, b = (wide_words(x, bits) for x in (vector, other))
    return b"".join(le((x + sign * y) % 2**bits, bits // 8) for x, y in zip(a, b))


def wide_words(vector: bytes, bits: int = 512) -> list[int]:
    """Returns the words of a vector as integers from 0."""
    return [int.from_bytes(vector[at:at + bits // 8], "little") for at in range(0, len(vector), bits // 8)]


def signed_words(vector: bytes, bits: int = 512) -> list[int]:
    """Returns the words of a vector as integers, in two's complement."""
    return [word - (word >> bits - 1 << bits) for word in wide_words(vector, bits)]


def add_mask(bits: int, vector: bytes, sign: int, key: bytes, label: str, params: bytes, offset: int = 0) -> bytes:
    """Returns the vector with a stream added to its words, or subtracted."""
    return add_words(bits, vector, Stream(key, label, params, offset).take(len(vector)), sign)


# --- section 12: context that binds a deal or a release to one vector and to its author


def context_of(session_id: bytes, sum_id: SumId, author: int) -> bytes:
    return session_id + sum_bytes(sum_id) + le16(author)
