"""Shuffles of rows, and their inverse (spec, section 15e)."""

from __future__ import annotations

import numpy
from primitives.crypto import Stream

from . import statements
from .parts import Part, Program, Shares
from .words import Ring

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


def hop(part: Part, ring: Ring, x: Shares, key: int, places: Places, move, bits: int, filled) -> Program:
    """Permutes the words of each row as the two holders of a key know, and reshares them. Words that are not at the
    places `filled` are 0. Shares have part numbers."""
    mask = numpy.array((1 << bits) - 1, ring.dtype)
    one, two = (part.draw(key, part.step(), x[0]) & mask for _ in range(2))
    before, after = (key - 1) % 3, (key + 1) % 3
    out = [numpy.empty(0)] * 3
    out[key] = ring.add(one, two) & mask
    out[before] = ring.less(move(places, ring.add(x[before], x[key])), one) & mask
    out[after] = ring.less(move(places, x[after]), two) & mask
    part.send(before, after, packed(out[before], bits))
    part.send(key, after, packed(out[after], bits))
    yield
    if part.log:
        other = permuted_back if move is permuted else permuted
        some = [share[filled] for share in x]
        statements.hop(part, ring, key, some, out, [one, two], lambda coins: other(places, coins)[filled])
    return out


def hops(part: Part, ring: Ring, x: Shares, keys: tuple[int, ...], places: list[Places], move, bits: int,
         filled=slice(None)) -> Program:
    x = part.turned(x)
    for key in keys:
        x = yield from hop(part, ring, x, key, places[key], move, bits, filled)
        filled = slice(None)
    return part.unturned(x)


def shuffle(part: Part, ring: Ring, x: Shares, width: int, bits: int) -> Program:
    """Shuffles the words of each row. Returns the shares, and the permutations of each key."""
    step = part.step()
    places = [permutations(part.stream(key, step), len(x[0]) // width, width) for key in range(3)]
    return (yield from hops(part, ring, x, (1, 2, 0), places, permuted, bits)), places


def back(part: Part, ring: Ring, x: Shares, bits: int, places: list[Places], filled: numpy.ndarray) -> Program:
    """Undoes the permutations of a shuffle. Words that are not at the places `filled` are 0."""
    return (yield from hops(part, ring, x, (0, 2, 1), places, permuted_back, bits, filled))
