"""Operations on shared vectors: products, conversions of bits and integers, rounding, tables (spec, section 15e)."""

from __future__ import annotations

import functools
from typing import Callable

import numpy
from primitives.crypto import tagged

from . import statements
from .parts import Part, Program, Shares, in_thirds, together
from .words import BITS, ONES, WORDS, Ring, bits_of, to_planes

# --- without messages


def each(function: Callable[[numpy.ndarray], numpy.ndarray], shares: Shares) -> Shares:
    return [function(share) for share in shares]


def plus(ring: Ring, x: Shares, y: Shares) -> Shares:
    return [ring.add(a, b) for a, b in zip(x, y)]


def minus(ring: Ring, x: Shares, y: Shares) -> Shares:
    return [ring.less(a, b) for a, b in zip(x, y)]


def times(number: int, x: Shares) -> Shares:
    """Returns a public number times x."""
    return [numpy.uint64(number % 2**64) * share for share in x]


def public(part: Part, values: numpy.ndarray) -> Shares:
    """Returns shares of public values: share 0 of the part holds them."""
    nothing = numpy.zeros_like(values)
    return part.unturned([values, nothing, nothing])


def plus_public(part: Part, x: Shares, number: int) -> Shares:
    return plus(WORDS, x, public(part, numpy.full_like(x[0], number % 2**64)))


def complement(part: Part, x: Shares) -> Shares:
    return plus(BITS, x, public(part, numpy.full_like(x[0], ONES)))


def joined(vectors: list[Shares]) -> Shares:
    return [numpy.concatenate(shares) for shares in zip(*vectors)]


def cut(x: Shares, length: int) -> list[Shares]:
    return [[share[at:at + length] for share in x] for at in range(0, len(x[0]), length)] if length else []


def local_product(ring: Ring, x: Shares, y: Shares) -> Shares:
    """Returns the part of each role in a product, before any reshare."""
    after = lambda i: (i + 1) % 3
    one = lambda i: ring.add(ring.times(x[i], y[i]), ring.times(x[i], y[after(i)]))
    return [ring.add(one(i), ring.times(x[after(i)], y[i])) for i in range(3)]


# --- products


def reshare(part: Part, ring: Ring, z: Shares, statement: Callable[[Shares, Shares], None]) -> Program:
    """Shares the sum of the roles' parts. `statement` gets the shares and the masks of the keys, by their numbers."""
    step, out, masks = part.step(), [], []
    for role, mine in enumerate(part.turned(z)):
        own, after = part.draw(role, step, mine), part.draw(role + 1, step, mine)
        masks.append(own)
        out.append(ring.less(ring.add(mine, own), after))
        part.send(role, role - 1, out[-1])
    yield
    if part.log:
        statement(part.unturned(out), part.unturned(masks))
    return part.unturned(out)


def sum_of_products(part: Part, ring: Ring, pairs: list[tuple[Shares, Shares]]) -> Program:
    """Returns the sum of products of vectors, in one reshare."""
    parts = [local_product(ring, x, y) for x, y in pairs]
    total = parts[0]
    for one in parts[1:]:
        total = plus(ring, total, one)
    of_products = lambda result, masks: statements.products(part, ring, result, masks, pairs)
    return (yield from reshare(part, ring, total, of_products))


def product(part: Part, ring: Ring, x: Shares, y: Shares) -> Program:
    return (yield from sum_of_products(part, ring, [(x, y)]))


def products(part: Part, pairs: list[tuple[Shares, Shares]]) -> Program:
    """Multiplies pairs of vectors of bits together."""
    made = yield from product(part, BITS, joined([x for x, _ in pairs]), joined([y for _, y in pairs]))
    out, at = [], 0
    for x, _ in pairs:
        out.append([share[at:at + len(x[0])] for share in made])
        at += len(x[0])
    return out


def opened(part: Part, x: Shares) -> Program:
    """Opens a vector of bits. A role gets the missing share from one side, and its hash from the other."""
    yield from part.parties.proved()
    shares = part.turned(x)
    for role, mine in enumerate(shares):
        part.send(role, role + 1, mine)
        part.send(role, role - 1, tagged("opened", shares[(role + 1) % 3].tobytes()))
    yield
    return x[0] ^ x[1] ^ x[2]


def dealt(part: Part, ring: Ring, role: int, value: numpy.ndarray) -> Shares:
    """Deals a value. The message belongs to the round that the caller ends."""
    shares = [numpy.zeros_like(value) for _ in range(3)]
    shares[role] = part.draw(role, part.step(), value)
    shares[role + 1] = ring.less(value, shares[role])
    part.send(role, role + 1, shares[role + 1])
    return part.unturned(shares)


# --- integers to bits


def two_numbers(part: Part, ring: Ring, x: Shares, bits: int) -> Program:
    """Returns the planes of two numbers whose sum is x. Plane 64 is the carry of the sum of shares 0 and 1."""
    first, second, third = part.turned(x)
    words = -(-len(first) // 64)
    known = ring.add(first, second)
    planes = to_planes(known, min(bits, 64))
    if bits > 64:
        planes += to_planes((known < first).astype(numpy.uint64), 1)
    planes = dealt(part, BITS, 0, numpy.concatenate(planes))
    yield
    if part.log:
        statements.sum_of_shares(part, part.turned(x), part.turned(planes), bits)
    nothing = numpy.zeros(words, numpy.uint64)
    others = [part.unturned([nothing, nothing, plane]) for plane in to_planes(third, min(bits, 64))]
    return cut(planes, words), others


def bit_by_bit(part: Part, x: list[Shares], y: list[Shares]) -> Program:
    """Returns the carries of an addition, each computed from the carry before it."""
    carries = [(yield from product(part, BITS, x[0], y[0]))]
    for a, b in zip(x[1:-1], y[1:-1]):
        last = carries[-1]
        made = yield from product(part, BITS, plus(BITS, a, last), plus(BITS, b, last))
        carries.append(plus(BITS, made, last))
    return carries


def before(i: int, span: int) -> int:
    """Returns j(i) of Sklansky's tree."""
    return (i & ~(span - 1)) - 1


def sklansky(part: Part, x: list[Shares], y: list[Shares]) -> Program:
    """Returns the carries of an addition, by Sklansky's tree."""
    carries = len(x) - 1
    g = yield from products(part, list(zip(x[:-1], y[:-1])))
    h = [plus(BITS, a, b) for a, b in zip(x[:-1], y[:-1])]
    span = 1
    while span < carries:
        with_bit = [i for i in range(carries) if i & span]
        later = [i for i in with_bit if i >= 2 * span]
        pairs = [(h[i], g[before(i, span)]) for i in with_bit] + [(h[i], h[before(i, span)]) for i in later]
        made = yield from products(part, pairs)
        for i, one in zip(with_bit, made):
            g[i] = plus(BITS, g[i], one)
        for i, one in zip(later, made[len(with_bit):]):
            h[i] = one
        span *= 2
    return g


def added(part: Part, x: list[Shares], y: list[Shares], adder=sklansky) -> Program:
    """Adds two numbers of planes."""
    carries = yield from adder(part, x, y)
    sums = [plus(BITS, a, b) for a, b in zip(x, y)]
    return sums[:1] + [plus(BITS, one, carry) for one, carry in zip(sums[1:], carries)]


def a2b(part: Part, ring: Ring, x: Shares, bits: int, adder=sklansky) -> Program:
    one, two = yield from two_numbers(part, ring, x, bits)
    return (yield from added(part, one, two, adder))


def carry(part: Part, g: list[Shares], h: list[Shares]) -> Program:
    """Returns the carry out of all planes."""
    while len(g) > 1:
        half = len(g) // 2
        pairs = [(h[2 * i + 1], g[2 * i]) for i in range(half)]
        pairs += [(h[2 * i + 1], h[2 * i]) for i in range(1, half)]
        made = yield from products(part, pairs)
        left = 2 * half
        g = [plus(BITS, g[2 * i + 1], made[i]) for i in range(half)] + g[left:]
        h = [BITS.zeros(len(g[0][0]))] + made[half:] + h[left:]
    return g[0]


def sign(part: Part, x: Shares, bits: int) -> Program:
    """Returns whether numbers in two's complement are below 0."""
    one, two = yield from two_numbers(part, WORDS, x, bits)
    g = yield from products(part, list(zip(one[:-1], two[:-1])))
    into = yield from carry(part, g, [plus(BITS, a, b) for a, b in zip(one[:-1], two[:-1])])
    return plus(BITS, plus(BITS, one[-1], two[-1]), into)


def leading(part: Part, planes: list[Shares]) -> Program:
    """Returns planes that are 1 only at the leading bit."""
    o, span = planes[::-1], 1
    while span < len(o):
        with_bit = [i for i in range(len(o)) if i & span]
        made = yield from products(part, [(o[i], o[before(i, span)]) for i in with_bit])
        for i, one in zip(with_bit, made):
            o[i] = plus(BITS, plus(BITS, o[i], o[before(i, span)]), one)
        span *= 2
    alone = o[:1] + [plus(BITS, after, earlier) for earlier, after in zip(o, o[1:])]
    return alone[::-1]


# --- bits to integers


def b2a_parts(part: Part, ring: Ring, planes: list[Shares], length: int, *weights: list[int]) -> Program:
    """Returns each role's part of the weighted sums of planes, before the reshare, and the statement
    about the sums."""
    turned = [part.turned(plane) for plane in planes]
    known = numpy.concatenate([bits_of(plane[0] ^ plane[1], length) for plane in turned]).astype(ring.dtype)
    shares = part.turned(dealt(part, ring, 0, known))
    yield
    if part.log:
        statements.exclusive_or(part, ring, turned, length, shares)
    u0, u1 = ([share[at:at + length] for at in range(0, len(share), length)] for share in shares[:2])
    last = [bits_of(plane[2], length).astype(ring.dtype) for plane in turned]
    two = ring.dtype.type(2)
    of_one = [b + a - two * a * b for a, b in zip(u1, last)]
    of_two = [a - two * a * b for a, b in zip(u0, last)]
    word = ring.dtype.type
    weighted = lambda values: numpy.concatenate([sum(word(w) * v for w, v in zip(ws, values)) for ws in weights])
    one, two = weighted(of_one), weighted(of_two)
    converted = functools.partial(statements.converted, part, ring, turned, length, shares, weights)
    return part.unturned([numpy.zeros_like(one), one, two]), converted


def b2a(part: Part, ring: Ring, planes: list[Shares], length: int, *weights: list[int]) -> Program:
    parts, converted = yield from b2a_parts(part, ring, planes, length, *weights)
    of_bits = lambda result, masks: converted(part.turned(result), part.turned(masks), None)
    return (yield from reshare(part, ring, parts, of_bits))


# --- rounding and tables


def truncate(part: Part, x: Shares, bits: int) -> Program:
    """Rounds x / 2^bits."""
    shift, over = numpy.uint64(bits), 2 ** (64 - bits) % 2**64

    def third(part, start, end):
        v = plus_public(part, each(lambda share: share[start:end], x), 2**62 + 2 ** (bits - 1))
        one, two = yield from two_numbers(part, WORDS, v, 65)
        tops = complement(part, one[63]), complement(part, two[63])
        *g, unwrapped = yield from products(part, [*zip(one[:bits], two[:bits]), tops])
        into = yield from carry(part, g, [plus(BITS, a, b) for a, b in zip(one[:bits], two[:bits])])
        parts, converted = yield from b2a_parts(part, WORDS, [into, unwrapped], end - start, [1, over])
        parts, (first, second, last) = part.turned(parts), part.turned(v)
        parts[0] = parts[0] + (first + second >> shift)
        parts[1] = parts[1] + (last >> shift)

        def of_floors(result, masks):
            added = statements.Added(part.turned(v), list(map(part.turned, one)), bits)
            converted(part.turned(result), part.turned(masks), added)

        shared = yield from reshare(part, WORDS, part.unturned(parts), of_floors)
        return plus_public(part, shared, -over - (2**62 >> bits))

    return joined((yield from in_thirds(part, len(x[0]), 64, third)))


def one_hot(part: Part, bits: list[Shares]) -> Program:
    """Returns, for each possible value of the bits, whether the bits have this value."""
    if not bits:
        return []
    found = [complement(part, bits[0]), bits[0]]
    for bit in bits[1:]:
        made = yield from products(part, [(entry, bit) for entry in found])
        found = [plus(BITS, entry, one) for entry, one in zip(found, made)] + made
    return found


def table(part: Part, index: list[Shares], length: int, entries: list[int], bits: int) -> Program:
    """Returns the entry at each secret index."""

    def third(part, start, end):
        own = [each(lambda share: share[start // 64:-(-end // 64)], plane) for plane in index]
        words = len(own[0][0])
        parts = [part.part(0), part.part(0)]
        low, high = yield from together([one_hot(parts[0], own[:6]), one_hot(parts[1], own[6:])])

        def inner(bit, a):
            found = BITS.zeros(words)
            for entry, value in zip(low, entries[a * 64:]):
                if value >> bit & 1:
                    found = plus(BITS, found, entry)
            return found

        planes = [inner(bit, 0) for bit in range(bits)]
        if high:
            every = [joined([inner(bit, a) for bit in range(bits)]) for a in range(-(-len(entries) // 64))]
            pairs = [(joined([entry] * bits), sums) for entry, sums in zip(high, every)]
            planes = cut((yield from sum_of_products(part, BITS, pairs)), words)
        return (yield from b2a(part, WORDS, planes, end - start, [2**bit for bit in range(bits)]))

    return joined((yield from in_thirds(part, length, 64, third)))
