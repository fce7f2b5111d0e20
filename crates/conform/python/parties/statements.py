"""Statements of the operations: for each message, what its sender proves (spec, section 15e.1)."""

from __future__ import annotations

from typing import Callable

import numpy
from primitives.crypto import Stream

from .parts import Part, Shares
from .proofs import Linear, Sums
from .rings import FIELD, LARGE_RING, SMALL_RING, Elements, numbers
from .words import BITS, SMALL, WORDS, Ring, bits_of, to_planes

U64 = numpy.uint64


def extension(ring: Ring):
    return {BITS: FIELD, SMALL: SMALL_RING, WORDS: LARGE_RING}[ring]


def products(part: Part, ring: Ring, result: Shares, masks: Shares, pairs: list[tuple[Shares, Shares]]) -> None:
    """Reshare of sums of products. Shares, masks and keys have their own numbers, not those of the
    part."""
    for i in range(3):
        after = (i + 1) % 3
        lower = ring.less(result[i], masks[i])
        for x, y in pairs:
            lower = ring.less(lower, ring.times(x[i], y[i]))
        a = [factor for x, y in pairs for factor in (x[i], y[i])]
        b = [factor for x, y in pairs for factor in (y[after], x[after])]
        part.log.terms(extension(ring), i, a, b, lower, masks[after])


def sum_of_shares(part: Part, x: Shares, dealt: Shares, bits: int) -> None:
    """Planes of the sum of shares 0 and 1, dealt by role 0. `x` and `dealt` have the numbers of the part."""
    words = -(-len(x[0]) // 64)
    known = []
    for share, planes in zip(x[:2], dealt[:2]):
        own = to_planes(share, min(bits, 64)) + [numpy.zeros(words, "<u8")] * max(0, bits - 64)
        known.append((planes, planes ^ numpy.concatenate(own)))
    low = (bits - 1) * words
    word = lambda r, p: p[words:] ^ p[:low] ^ r[:low] & p[:low]
    (r, p), (m, q) = known
    part.log.terms(FIELD, part.turn, [r[:low], p[:low]], [m[:low], q[:low]], word(r, p), word(m, q))
    part.log.terms(FIELD, part.turn, [], [], p[:words], q[:words])


def integers(ring: Ring, planes: list[numpy.ndarray], length: int) -> numpy.ndarray:
    return numpy.concatenate([bits_of(plane, length) for plane in planes]).astype(ring.dtype)


def exclusive_or(part: Part, ring: Ring, planes: list[Shares], length: int, dealt: Shares) -> None:
    """Exclusive or of shares 0 and 1 of bits as integers, dealt by role 0. Shares have the numbers of the part."""
    zero, one = (integers(ring, [plane[i] for plane in planes], length) for i in range(2))
    minus_two = ring.dtype.type(-2 % 2 ** (8 * ring.dtype.itemsize))
    part.log.terms(extension(ring), part.turn, [zero * minus_two], [one], dealt[0] - zero, dealt[1] - one)


class Added:
    """Numbers that roles 0 and 1 of a truncation add to the reshare at its end."""

    def __init__(self, v: Shares, dealt: list[Shares], bits: int) -> None:
        """`v` and the dealt planes have the numbers of the part."""
        shift, over = U64(bits), U64(2 ** (64 - bits) % 2**64)
        known = []
        for share, low, high in zip(v[:2], dealt[bits][:2], dealt[64][:2]):
            into = bits_of(low ^ to_planes(share, 64)[bits], len(share)).astype("<u8")
            out = bits_of(high, len(share)).astype("<u8")
            known.append((into, out, (share >> shift) + into - over * out))
        (into, out, self.lower), (into_one, out_one, self.upper) = known
        self.a, self.b = [into * U64(2**64 - 2), out * (over * U64(2))], [into_one, out_one]
        self.of_role_1 = v[2] >> shift


def converted(part: Part, ring: Ring, planes: list[Shares], length: int, dealt: Shares, weights: tuple[list[int], ...],
              result: Shares, masks: Shares, added: Added | None) -> None:
    """Reshare at the end of a conversion of bits to integers. All shares have the numbers of the part."""
    word, kind, turn = ring.dtype.type, extension(ring), part.turn
    last = [bits_of(plane[2], length).astype(ring.dtype) for plane in planes]
    dealt_of = lambda i: [dealt[i][at:at + length] for at in range(0, len(dealt[i]), length)]
    u = [dealt_of(0), dealt_of(1)]
    repeated = lambda words: [numpy.concatenate([one] * len(weights)) for one in words]
    scaled = lambda words: [numpy.concatenate([word(of[at]) * one for of in weights]) for at, one in enumerate(words)]
    doubled = lambda words: [word(-2 % 2 ** (8 * ring.dtype.itemsize)) * one for one in scaled(words)]
    summed = lambda words: sum(scaled(words))
    lower, upper = result[0] - masks[0], masks[1]
    if added:
        lower, upper = lower - added.lower, upper - added.upper
    part.log.terms(kind, turn, added.a if added else [], added.b if added else [], lower, upper)
    lower, upper = result[1] - masks[1] - summed(u[1]), masks[2] - summed(last)
    if added:
        upper = upper - added.of_role_1
    part.log.terms(kind, turn + 1, doubled(u[1]), repeated(last), lower, upper)
    lower, upper = result[2] - masks[2], masks[0] - summed(u[0])
    part.log.terms(kind, turn + 2, doubled(last), repeated(u[0]), lower, upper)


def hop(part: Part, ring: Ring, key: int, x: Shares, y: Shares, masks: Shares,
        back: Callable[[numpy.ndarray], numpy.ndarray]) -> None:
    """One hop of a shuffle. `x` are the words before it that may not be 0, and `back` returns the coins of their
    places. Shares have the numbers of the part."""
    kind = LARGE_RING if ring is WORDS else FIELD
    before, after = (key - 1) % 3, (key + 1) % 3
    wide = lambda words: words.astype("<u8")
    inner = lambda coins, words: kind.weighted(wide(words)[None], coins)[0]
    length = len(x[0])

    def coins(stream: Stream) -> tuple[numpy.ndarray, numpy.ndarray]:
        rho = numbers(stream, len(y[0])) & U64(kind.mask)
        return rho, back(rho)

    def first(stream: Stream) -> Sums:
        rho, sigma = coins(stream)
        return Sums(sigma, wide(x[after]), True, inner(rho, masks[1]), inner(rho, y[after]))

    def second(stream: Stream) -> Sums:
        rho, sigma = coins(stream)
        upper = kind.minus(inner(rho, masks[0]), inner(sigma, x[key]))
        return Sums(wide(x[before]), sigma, False, inner(rho, y[before]), upper)

    part.log.sums(kind, part.turn + key, length, first)
    part.log.sums(kind, part.turn + before, length, second)


def combined(kind, coins: Elements, rows: numpy.ndarray) -> Elements:
    """Returns the sum of coin times row."""
    return kind.folded(rows, coins)


def inner(kind, a: Elements, b: Elements) -> Elements:
    return kind.total(kind.times(a, b))


def matrices(part: Part, kind, length: int, pieces: Callable, claims: tuple[list, list]) -> None:
    """Inner products of two vectors of each share. `pieces` returns the coins, and `claims` are then
    taken with these coins."""
    for i in range(3):

        def make(stream: Stream, i=i) -> Linear:
            of_share, claim = pieces(stream)
            (a, b), (c, d) = of_share(i), of_share((i + 1) % 3)
            lower = kind.minus(claim(claims[0][i]), inner(kind, a, b))
            return Linear(numpy.concatenate([a, b]), numpy.concatenate([d, c]), lower, claim(claims[1][i]))

        part.log.linear(kind, i, length, make)


def distances(part: Part, codes: Shares, result: Shares, masks: Shares) -> None:
    """Products of all pairs of rows of whole blocks, tile after tile."""
    kind, (rows, bits) = SMALL_RING, codes[0].shape
    blocks = rows // 64

    def pieces(stream: Stream):
        alpha, beta = (kind.exceptional(numbers(stream, rows)) for _ in range(2))

        def of_share(i: int) -> tuple[Elements, Elements]:
            inside, up_to, total = [], [], kind.zeros(bits)
            for block in range(blocks):
                own = slice(64 * block, 64 * block + 64)
                inside.append(combined(kind, alpha[own], codes[i][own]))
                total = kind.plus(total, combined(kind, beta[own], codes[i][own]))
                up_to.append(total)
            return numpy.concatenate(inside), numpy.concatenate(up_to)

        def claim(words: numpy.ndarray) -> Elements:
            tiles, total = iter(words.reshape(-1, 64, 64)), kind.zeros(1)[0]
            for j in range(blocks):
                for i in range(j + 1):
                    of_rows = next(tiles) @ beta[64 * i:64 * i + 64]
                    total = kind.plus(total, inner(kind, of_rows, alpha[64 * j:64 * j + 64]))
            return total

        return of_share, claim

    lower = [result[i] - masks[i] for i in range(3)]
    matrices(part, kind, 2 * blocks * bits, pieces, (lower, [masks[1], masks[2], masks[0]]))


def graph(part: Part, matrix: Shares, steps: list[tuple[Shares, Shares, Shares]]) -> None:
    """All products of W with matrices: each step has the factor, the result and its masks."""
    kind, rows = LARGE_RING, len(matrix[0])
    shaped = lambda words: words.reshape(rows, -1)
    columns = shaped(steps[0][0][0]).shape[1] if steps else 0

    def pieces(stream: Stream):
        alpha = kind.exceptional(numbers(stream, rows))
        beta = [kind.exceptional(numbers(stream, columns)) for _ in steps]

        def of_share(i: int) -> tuple[Elements, Elements]:
            sums = kind.zeros(rows)
            for (factor, _, _), coins in zip(steps, beta):
                sums = kind.plus(sums, shaped(factor[i]) @ coins)
            return combined(kind, alpha, matrix[i]), sums

        def claim(words: list[numpy.ndarray]) -> Elements:
            total = kind.zeros(1)[0]
            for one, coins in zip(words, beta):
                total = kind.plus(total, inner(kind, shaped(one) @ coins, alpha))
            return total

        return of_share, claim

    lower = [[result[i] - masks[i] for _, result, masks in steps] for i in range(3)]
    upper = [[masks[(i + 1) % 3] for _, _, masks in steps] for i in range(3)]
    matrices(part, kind, 2 * rows, pieces, (lower, upper))
