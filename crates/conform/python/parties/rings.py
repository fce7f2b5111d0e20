"""The rings of proofs: GF(2^64) and the Galois rings of degree 49, and polynomials over them (spec, section 15e.1).

Elements of GF(2^64) are words; those of a Galois ring are rows of 49 coefficients. Sums and products of words wrap.
"""

from __future__ import annotations

import functools

import numpy
from primitives.crypto import Stream

DEGREE, MIDDLE = 49, 9
Elements = numpy.ndarray
U64 = numpy.uint64


def numbers(stream: Stream, count: int) -> numpy.ndarray:
    """Draws numbers of 64 bits."""
    return numpy.frombuffer(stream.take(8 * count), "<u8")


class Field:
    """GF(2^64) = GF(2)[x] / (x^64 + x^4 + x^3 + x + 1). Its words have 64 lanes."""

    variables, groups, lanes, mask, bytes = 6, 64, 64, 2**64 - 1, 8
    dtype = numpy.dtype("<u8")
    plus = minus = staticmethod(numpy.bitwise_xor)
    word_product = staticmethod(numpy.bitwise_and)

    def zeros(self, count: int) -> Elements:
        return numpy.zeros(count, self.dtype)

    def exceptional(self, names: numpy.ndarray) -> Elements:
        return numpy.asarray(names, self.dtype)

    def total(self, elements: Elements) -> Elements:
        return numpy.bitwise_xor.reduce(elements, axis=0)

    def doubled(self, a: Elements) -> Elements:
        return a << U64(1) ^ (a >> U64(63)) * U64(0x1B)

    def times(self, a: Elements, b: Elements) -> Elements:
        a, b = numpy.broadcast_arrays(a, b)
        out = numpy.zeros_like(a)
        for bit in range(63, -1, -1):
            out = self.doubled(out) ^ a * (b >> U64(bit) & U64(1))
        return out

    def weighted(self, words: numpy.ndarray, coins: numpy.ndarray) -> Elements:
        """Returns for each row of words the sum of coin times word."""
        out = self.zeros(len(words))
        for bit in range(63, -1, -1):
            chosen = coins >> U64(bit) & U64(1)
            out = self.doubled(out) ^ numpy.bitwise_xor.reduce(words * chosen, axis=1)
        return out

    def folded(self, words: numpy.ndarray, weights: Elements) -> Elements:
        """Returns the sum of weight times row of words, lane after lane of each column."""
        out = numpy.zeros((words.shape[1], 64), self.dtype)
        for row, weight in zip(words, weights):
            out ^= (row[:, None] >> numpy.arange(64, dtype=self.dtype) & U64(1)) * weight
        return out.reshape(-1)

    def of_lanes(self, coins: numpy.ndarray) -> Elements:
        """Returns the coin of each lane of each column: the coin of the column times x^lane."""
        out = numpy.zeros((len(coins), 64), self.dtype)
        for lane in range(64):
            out[:, lane] = coins
            coins = self.doubled(coins)
        return out.reshape(-1)

    def folded_elements(self, rows: Elements, weights: Elements) -> Elements:
        """Returns the sum of weight times row."""
        return self.total(self.times(rows, weights[:, None]))

    folded_words = folded_elements

    def inner(self, a: Elements, b: Elements) -> Elements:
        """Returns the inner product of each row of a with the row of b."""
        of_bits = lambda x: numpy.unpackbits(x.view(numpy.uint8).reshape(-1, 8), axis=1, bitorder="little")
        # The number of ones of each pair of bits is below 2^24, so binary32 is exact.
        flat = lambda x: of_bits(x).astype(numpy.float32)
        both = numpy.stack([flat(row).T @ flat(other) for row, other in zip(a, b)]).astype(numpy.int64) & 1
        out = self.zeros(len(a))
        for power in range(126, -1, -1):
            first = range(max(0, power - 63), min(63, power) + 1)
            bit = functools.reduce(numpy.bitwise_xor, (both[:, i, power - i] for i in first))
            out = self.doubled(out) ^ bit.astype(self.dtype)
        return out

    inner_of_words = inner

    def draw(self, stream: Stream, count: int) -> Elements:
        return numbers(stream, count)

    def write(self, elements: Elements) -> bytes:
        return elements.astype(self.dtype).tobytes()


class Galois:
    """(Z / 2^16)[x] / (x^49 + x^9 + 1), or the same mod 2^64. Its words are constants."""

    lanes, mask = 1, 2**DEGREE - 1
    word_product = staticmethod(numpy.multiply)
    plus, minus = staticmethod(numpy.add), staticmethod(numpy.subtract)

    def __init__(self, dtype: str, variables: int) -> None:
        self.dtype, self.variables, self.groups = numpy.dtype(dtype), variables, 2**variables
        self.bytes = DEGREE * self.dtype.itemsize

    def zeros(self, count: int) -> Elements:
        return numpy.zeros((count, DEGREE), self.dtype)

    def exceptional(self, names: numpy.ndarray) -> Elements:
        """Returns the elements whose coefficients are the lowest bits of a number."""
        names = numpy.asarray(names, "<u8")[..., None]
        return (names >> numpy.arange(DEGREE, dtype="<u8") & U64(1)).astype(self.dtype)

    def total(self, elements: Elements) -> Elements:
        return elements.sum(0, dtype=self.dtype)

    def reduced(self, wide: numpy.ndarray) -> Elements:
        """Returns the remainders of polynomials of degree 96."""
        for start, end in ((89, 97), (49, 89)):
            high = wide[..., start:end].copy()
            wide[..., start - DEGREE:end - DEGREE] -= high
            wide[..., start - DEGREE + MIDDLE:end - DEGREE + MIDDLE] -= high
        return wide[..., :DEGREE].copy()

    def times(self, a: Elements, b: Elements) -> Elements:
        a, b = numpy.broadcast_arrays(a, b)
        wide = numpy.zeros((*a.shape[:-1], 2 * DEGREE - 1), self.dtype)
        for at in range(DEGREE):
            wide[..., at:at + DEGREE] += a[..., at:at + 1] * b
        return self.reduced(wide)

    def weighted(self, words: numpy.ndarray, coins: numpy.ndarray) -> Elements:
        return words.astype(self.dtype) @ self.exceptional(coins)

    def folded(self, words: numpy.ndarray, weights: Elements) -> Elements:
        return words.astype(self.dtype).T @ weights

    def of_lanes(self, coins: numpy.ndarray) -> Elements:
        return self.exceptional(coins)

    def folded_elements(self, rows: Elements, weights: Elements) -> Elements:
        return self.total(self.times(rows, weights[:, None]))

    folded_words = folded

    def inner(self, a: Elements, b: Elements) -> Elements:
        """Returns the inner product of each row of a with the row of b."""
        both = a.swapaxes(1, 2) @ b
        wide = numpy.zeros((len(a), 2 * DEGREE - 1), self.dtype)
        for at in range(DEGREE):
            wide[:, at:at + DEGREE] += both[:, at]
        return self.reduced(wide)

    def inner_of_words(self, elements: Elements, words: numpy.ndarray) -> Elements:
        return (words.astype(self.dtype)[:, None] @ elements)[:, 0]

    def draw(self, stream: Stream, count: int) -> Elements:
        return numpy.frombuffer(stream.take(count * self.bytes), self.dtype).reshape(count, DEGREE)

    def write(self, elements: Elements) -> bytes:
        return elements.astype(self.dtype).tobytes()


def cube(ring, groups: Elements) -> Elements:
    """Returns the values of a polynomial of degree 1 in each variable at all points with coordinates 0, 1 and infinity,
    from its values at those with coordinates 0 and 1."""
    if len(groups) == 1:
        return groups
    lower, upper = numpy.split(groups, 2)
    return numpy.concatenate([cube(ring, half) for half in (lower, upper, ring.minus(upper, lower))])


def corners(values: Elements, variables: int) -> Elements:
    """Returns the values at the points with coordinates 0 and 1."""
    rest = values.shape[1:]
    return values.reshape(*[3] * variables, *rest)[(slice(2),) * variables].reshape(-1, *rest)


def value_at(ring, values: Elements, point: Elements) -> Elements:
    """Returns the value at a point of a polynomial of degree 2 in each variable, from its values at the
    points of the cube."""
    for x in point:
        zero, one, infinity = numpy.split(values, 3)
        linear = ring.minus(ring.minus(one, zero), infinity)
        values = ring.plus(zero, ring.times(x, ring.plus(linear, ring.times(x, infinity))))
    return values[0]


def weights_at(ring, point: Elements) -> Elements:
    """Returns the weights of the groups: the sum with these weights is the vector at a point."""
    one = ring.exceptional(1)
    out = one[None]
    for x in point:
        both = ring.times(out, ring.minus(one, x)), ring.times(out, x)
        out = numpy.stack(both, axis=1).reshape(-1, *one.shape)
    return out


FIELD, SMALL_RING, LARGE_RING = Field(), Galois("<u2", 5), Galois("<u8", 6)
