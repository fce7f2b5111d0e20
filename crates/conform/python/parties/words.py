"""Words that are shared, and planes of bits (spec, section 15e)."""

from __future__ import annotations

import numpy

from .parts import Shares

ONES = numpy.uint64(2**64 - 1)


class Ring:
    """Words of one size. They are added mod 2^16 or 2^64, or bit by bit."""

    def __init__(self, dtype: str, bits: bool) -> None:
        self.dtype = numpy.dtype(dtype)
        self.add = numpy.bitwise_xor if bits else numpy.add
        self.less = numpy.bitwise_xor if bits else numpy.subtract
        self.times = numpy.bitwise_and if bits else numpy.multiply

    def zeros(self, length: int) -> Shares:
        return [numpy.zeros(length, self.dtype) for _ in range(3)]


SMALL, WORDS = Ring("<u2", False), Ring("<u8", False)
BITS, SMALL_BITS = Ring("<u8", True), Ring("<u2", True)


def to_planes(values: numpy.ndarray, bits: int) -> list[numpy.ndarray]:
    """Returns the planes of integers, the lowest first. Lanes past the last are 0."""
    padded = numpy.zeros(-(-len(values) // 64) * 64, numpy.uint64)
    padded[:len(values)] = values
    return [words_of(padded >> numpy.uint64(bit) & numpy.uint64(1)) for bit in range(bits)]


def words_of(bits: numpy.ndarray) -> numpy.ndarray:
    """Packs rows of bits, or one row. The length of a row is a multiple of 64."""
    packed = numpy.packbits(bits.astype(numpy.uint8), axis=-1, bitorder="little")
    return numpy.frombuffer(packed.tobytes(), "<u8")


def rows_of_bits(words: numpy.ndarray, rows: int, length: int) -> numpy.ndarray:
    """Returns the first bits of each row of words."""
    packed = numpy.frombuffer(words.tobytes(), numpy.uint8).reshape(rows, -1)
    return numpy.unpackbits(packed, axis=1, bitorder="little")[:, :length]


def bits_of(words: numpy.ndarray, length: int) -> numpy.ndarray:
    return rows_of_bits(words, 1, length)[0]
