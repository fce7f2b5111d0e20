"""Shuffles of rows, and the way back (spec, section 15e)."""

from __future__ import annotations

import numpy
from primitives.crypto import Stream

from .operations import Ring
from .parts import Part, Program, Shares

Places = numpy.ndarray  # for each row and each place, the place that its word comes from


def permutations(stream: Stream, rows: int, width: int) -> Places:
    """Draws one permutation for each row."""
    bounds = numpy.arange(width, 1, -1, dtype=numpy.uint64)
    drawn = numpy.array([stream.all_below(bounds) for _ in range(rows)], numpy.int64)
    places = numpy.tile(numpy.arange(width), (rows, 1))
    every = numpy.arange(rows)
    for i in range(width - 1):
        others, mine = i + drawn[:, i], places[:, i].copy()
        places[:, i] = places[every, others]
        places[every, others] = mine
    return places


def permuted(places: Places, words: numpy.ndarray) -> numpy.ndarray:
    return numpy.take_along_axis(words.reshape(places.shape), places, 1).reshape(-1)


def permuted_back(places: Places, words: numpy.ndarray) -> numpy.ndarray:
    out = numpy.empty_like(words).reshape(places.shape)
    numpy.put_along_axis(out, places, words.reshape(places.shape), 1)
    return out.reshape(-1)


def packed(words: numpy.ndarray, bits: int) -> bytes:
    """Returns the lowest bits of each word, without gaps."""
    of_each = numpy.unpackbits(words.view(numpy.uint8).reshape(len(words), -1), axis=1, bitorder="little")
    return numpy.packbits(of_each[:, :bits].reshape(-1), bitorder="little").tobytes()


class Hops:
    """Draws and messages of a shuffle. Words have `bits` bits."""

    def __init__(self, part: Part, ring: Ring, bits: int) -> None:
        self.part = part
        self.ring = ring
        self.bits = bits
        self.mask = numpy.array((1 << bits) - 1, ring.dtype)

    def draw(self, key: int, like: numpy.ndarray) -> numpy.ndarray:
        return self.part.draw(key, self.part.step(), like) & self.mask

    def hop(self, key: int, places: Places, move, adds: numpy.ndarray, subtracts: numpy.ndarray) -> Shares:
        """Moves the words of both holders of a key, and masks them."""
        drawn = self.draw(key, adds)
        return [self.ring.add(move(places, adds), drawn), self.ring.less(move(places, subtracts), drawn)]

    def send(self, role: int, to: int, words: numpy.ndarray) -> None:
        self.part.send(role, to, packed(words, self.bits))

    def end(self, one: int, words: numpy.ndarray, two: int, others: numpy.ndarray, keys: tuple[int, int]) -> Shares:
        """Draws two shares. Roles `one` and `two` exchange what is left, which adds up to the third."""
        drawn = [self.draw(key, words) for key in keys]
        left = [self.ring.less(words, drawn[0]), self.ring.less(others, drawn[1])]
        self.send(one, two, left[0])
        self.send(two, one, left[1])
        return [*drawn, self.ring.add(*left)]


def shuffle(part: Part, ring: Ring, x: Shares, width: int, bits: int) -> Program:
    """Shuffles the words of each row. Returns the shares, and the permutations of each key."""
    x, step, hops = part.turned(x), part.step(), Hops(part, ring, bits)
    places = [permutations(part.stream(key, step), len(x[0]) // width, width) for key in range(3)]
    zero, one = hops.hop(1, places[1], permuted, ring.add(x[0], x[1]), x[2])
    hops.send(0, 2, zero)
    yield
    one, two = hops.hop(2, places[2], permuted, one, zero)
    hops.send(1, 0, one)
    yield
    two, zero = hops.hop(0, places[0], permuted, two, one)
    share_1, share_2, share_0 = hops.end(0, zero, 2, two, (1, 2))
    yield
    return part.unturned([share_0, share_1, share_2]), places


def back(part: Part, ring: Ring, x: Shares, width: int, bits: int, places: list[Places]) -> Program:
    """Undoes the permutations of a shuffle."""
    x, hops = part.turned(x), Hops(part, ring, bits)
    two, zero = hops.hop(0, places[0], permuted_back, ring.add(x[2], x[0]), x[1])
    hops.send(0, 1, zero)
    yield
    one, two = hops.hop(2, places[2], permuted_back, zero, two)
    hops.send(2, 0, two)
    yield
    zero, one = hops.hop(1, places[1], permuted_back, two, one)
    share_0, share_2, share_1 = hops.end(0, zero, 1, one, (0, 2))
    yield
    return part.unturned([share_0, share_1, share_2])
