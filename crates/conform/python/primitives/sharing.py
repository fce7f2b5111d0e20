"""Publicly verifiable sharing of pads, on the curve of Ed25519 (spec, section 12).

A point is kept as (X, Y, Z, T) with x = X / Z, y = Y / Z and T = x y Z. Nothing here takes constant time: do
not use it with real data.
"""

from __future__ import annotations

import functools
import hashlib
import math

from . import PROTOCOL
from .crypto import FIELD, ORDER, CryptoError, D, Draw, Identity, context_of, le16, point, tagged
from .encoding import Deal, Dealt, Release, Signed, SumId

Point = tuple[int, int, int, int]
ZERO: Point = (0, 1, 1, 0)


# --- the curve


def add(p: Point, q: Point) -> Point:
    a = (p[1] - p[0]) * (q[1] - q[0]) % FIELD
    b = (p[1] + p[0]) * (q[1] + q[0]) % FIELD
    c, d = 2 * p[3] * q[3] * D % FIELD, 2 * p[2] * q[2] % FIELD
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def twice(p: Point) -> Point:
    a, b, c = p[0] * p[0], p[1] * p[1], 2 * p[2] * p[2]
    h = a + b
    e, g = h - (p[0] + p[1]) ** 2, a - b
    f = c + g
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def eightfold(p: Point) -> Point:
    return twice(twice(twice(p)))


def multiples(p: Point) -> list[Point]:
    """Returns 0 to 15 times p."""
    out = [ZERO]
    for _ in range(15):
        out.append(add(out[-1], p))
    return out


def combine(*terms: tuple[int, list[Point]]) -> Point:
    """Returns the sum of number times point, for points given by their `multiples`."""
    out = ZERO
    for at in range(252, -4, -4):
        for _ in range(4):
            out = twice(out)
        for number, table in terms:
            out = add(out, table[number >> at & 15])
    return out


def encoded(p: Point) -> bytes:
    inverse = pow(p[2], -1, FIELD)
    x, y = p[0] * inverse % FIELD, p[1] * inverse % FIELD
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decoded(data: bytes) -> Point:
    """Raises ValueError if the bytes are not the canonical encoding of a point (M12.1)."""
    x, y = point(data)
    return x, y, 1, x * y % FIELD


@functools.lru_cache(1024)
def holder(key: bytes) -> list[Point]:
    """Returns the multiples of A, 8 times the point of a key."""
    return multiples(eightfold(decoded(key)))


BASE = multiples(decoded((4 * pow(5, -1, FIELD) % FIELD).to_bytes(32, "little")))


# --- numbers


def number(data: bytes) -> int:
    """Raises ValueError if the bytes are not below l."""
    n = int.from_bytes(data, "little")
    if len(data) != 32 or n >= ORDER:
        raise ValueError("not a number mod l")
    return n


def number_bytes(n: int) -> bytes:
    return (n % ORDER).to_bytes(32, "little")


def hashed(tag: str, *parts: bytes) -> int:
    digest = hashlib.sha512(PROTOCOL + b" " + tag.encode() + b"\x00" + b"".join(parts)).digest()
    return int.from_bytes(digest, "little") % ORDER


def value(polynomial: list[int], place: int) -> int:
    return sum(c * (place + 1) ** k for k, c in enumerate(polynomial)) % ORDER


# --- deals


def deal(keys: list[bytes], polynomial: list[int], context: bytes) -> tuple[bytes, Dealt]:
    """Returns the encoded secret and the shares with their proof."""

    def sealed(f: list[int]) -> list[bytes]:
        return [encoded(combine((value(f, c), holder(key)))) for c, key in enumerate(keys)]

    drawn = [number_bytes(f) for f in polynomial]
    shares = sealed(polynomial)
    masks = [hashed("deal nonce", context, le16(j), *keys, *drawn) for j in range(len(polynomial))]
    e = deal_challenge(keys, len(polynomial), context, shares, sealed(masks))
    responses = [number_bytes(r + e * f) for r, f in zip(masks, polynomial)]
    return encoded(combine((64 * polynomial[0] % ORDER, BASE))), Dealt(shares, number_bytes(e), responses)


def deal_challenge(keys: list[bytes], threshold: int, context: bytes, shares: list[bytes], masks: list[bytes]) -> int:
    return hashed("deal challenge", context, le16(threshold), *keys, *shares, *masks)


def is_sound(keys: list[bytes], threshold: int, context: bytes, dealt: Dealt) -> bool:
    if len(dealt.shares) != len(keys) or len(dealt.responses) != threshold:
        return False
    return proved(tuple(keys), context, tuple(dealt.shares), dealt.challenge, tuple(dealt.responses))


@functools.lru_cache(4096)
def proved(keys: tuple[bytes, ...], context: bytes, shares: tuple[bytes, ...], challenge: bytes,
           responses: tuple[bytes, ...]) -> bool:
    try:
        e, z = number(challenge), [number(response) for response in responses]
        masks = [encoded(combine((value(z, c), holder(key)), (-e % ORDER, multiples(decoded(share)))))
                 for c, (key, share) in enumerate(zip(keys, shares))]
    except ValueError:
        return False
    return deal_challenge(list(keys), len(z), context, list(shares), masks) == e


def make_deal(session_id: bytes, sum_id: SumId, dealer: int, committee: list[bytes], threshold: int,
              draw: Draw) -> tuple[bytes, Deal]:
    """Draws a pad. Returns the pad and the deal to publish."""
    context = context_of(session_id, sum_id, dealer)
    polynomial = [int.from_bytes(draw(64), "little") % ORDER for _ in range(threshold)]
    secret, dealt = deal(committee, polynomial, context)
    return pad_of(context, secret), Deal(sum_id, dealt)


def pad_of(context: bytes, secret: bytes) -> bytes:
    return tagged("pad", context, secret)


# --- releases


def open_shares(identity: Identity, context: bytes, sealed: list[bytes]) -> tuple[list[bytes], bytes, bytes]:
    """Returns the opened shares, challenge and response. Raises ValueError if a share is not a point."""
    a = 8 * identity.scalar % ORDER
    opened = [multiples(combine((pow(a, -1, ORDER), multiples(eightfold(decoded(y)))))) for y in sealed]
    shares = [encoded(s[1]) for s in opened]
    k = hashed("release nonce", context, identity.seed, *sealed, *shares)
    masks = [encoded(combine((k, table))) for table in [BASE, *opened]]
    e = hashed("release challenge", context, identity.public, *sealed, *shares, *masks)
    return shares, number_bytes(e), number_bytes(k + e * a)


def is_opened(key: bytes, context: bytes, sealed: list[bytes], shares: list[bytes], challenge: bytes,
              response: bytes) -> bool:
    if len(shares) != len(sealed):
        return False
    try:
        e, z = number(challenge), number(response)
        pairs = [(BASE, holder(key))]
        pairs += [(multiples(decoded(s)), multiples(eightfold(decoded(y)))) for s, y in zip(shares, sealed)]
    except ValueError:
        return False
    masks = [encoded(combine((z, first), (-e % ORDER, second))) for first, second in pairs]
    return hashed("release challenge", context, key, *sealed, *shares, *masks) == e


def make_release(session_id: bytes, sum_id: SumId, value_digest: bytes, author: int, index: int,
                 deals: list[Signed[Deal]], identity: Identity) -> Release:
    """Returns the release of the member at this committee index. The deals are sound."""
    sealed = [signed.item.dealt.shares[index] for signed in deals]
    return Release(sum_id, value_digest, *open_shares(identity, context_of(session_id, sum_id, author), sealed))


def check_release(session_id: bytes, deals: list[Signed[Deal]], signed: Signed[Release], index: int, key: bytes) -> None:
    """Refuses a release that is not right. `index` and `key` are those of its author."""
    item = signed.item
    if len(item.shares) != len(deals) or any(d.item.sum != item.sum for d in deals):
        raise CryptoError("inconsistent", "not one share of each deal")
    sealed = [d.item.dealt.shares[index] for d in deals]
    context = context_of(session_id, item.sum, signed.author)
    if not is_opened(key, context, sealed, item.shares, item.challenge, item.response):
        raise CryptoError("bad-share", "released shares that are not those that were dealt")


def reconstruct(shares: dict[int, bytes]) -> bytes:
    """Returns the encoded secret, from as many opened shares by committee index as the threshold requires."""
    terms = []
    for c, share in shares.items():
        others = [other for other in shares if other != c]
        weight = math.prod(other + 1 for other in others) * pow(math.prod(other - c for other in others), -1, ORDER)
        terms.append((weight % ORDER, multiples(decoded(share))))
    return encoded(eightfold(combine(*terms)))


def rebuild_pad(session_id: bytes, deal_of: Signed[Deal], shares: dict[int, bytes], threshold: int) -> bytes:
    """Rebuilds a pad from the opened shares of right releases."""
    some = dict(list(shares.items())[:threshold])
    return pad_of(context_of(session_id, deal_of.item.sum, deal_of.author), reconstruct(some))
