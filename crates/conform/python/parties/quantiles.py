"""Quantiles on shares: the digits of each value, from the highest, without opening them (spec, section 15i)."""

from __future__ import annotations

import numpy
from primitives.summary import QUANTILES

from .operations import b2a, complement, cut, each, joined, minus, plus, plus_public, sign, sum_of_products, times
from .parts import Part, Program, Shares
from .words import WORDS


def total(vectors: list[Shares]) -> Shares:
    sums = vectors[0]
    for vector in vectors[1:]:
        sums = plus(WORDS, sums, vector)
    return sums


def lanes_of(words: numpy.ndarray) -> numpy.ndarray:
    """Pads a vector with zeros to whole words of lanes."""
    return numpy.concatenate([words, numpy.zeros(-len(words) % 64, numpy.uint64)])


def quantiles(part: Part, bits: int, owners: list[Shares]) -> Program:
    """Returns the values, the rows of each owner below and above them, and bits that are 1 if the
    counts are valid.

    `owners` are the owners' histograms, 2^bits words for each measure."""
    count = len(owners[0][0]) // 2**bits * len(QUANTILES)
    blocks = [each(lambda share: share.reshape(-1, 2**bits).repeat(len(QUANTILES), 0), own) for own in owners]
    summed = lambda words: lanes_of(words.sum(axis=-1, dtype=numpy.uint64))
    rows = [each(summed, own) for own in blocks]
    lanes = len(rows[0][0])
    factors = numpy.resize(numpy.array(QUANTILES, numpy.uint64), lanes)
    ranks = each(lambda share: share * factors, total(rows))
    below = [each(numpy.zeros_like, own) for own in rows]
    values, valid = each(lambda share: share[:count] * numpy.uint64(0), rows[0]), []
    while bits:
        width = (bits - 1) % 4 + 1
        digit, child = 2**width, 2 ** (bits - width)
        parts = [each(lambda share: share.reshape(count, digit, child), own) for own in blocks]
        sums = [[each(lambda share: summed(share[:, value]), own) for value in range(digit)] for own in parts]
        tested, prefix = [], total(below)
        for value in range(digit - 1):
            prefix = total([prefix, *(own[value] for own in sums)])
            tested.append(minus(WORDS, times(20, prefix), ranks))
        every = [one for own in sums for one in own]
        tested += every
        tested += [plus_public(part, times(-1, one), 2**24) for one in every]
        signs = cut((yield from sign(part, joined(tested), 40)), lanes // 64)
        valid += [complement(part, negative) for negative in signs[digit - 1:]]
        beyond = yield from b2a(part, WORDS, [joined(signs[:digit - 1])], (digit - 1) * lanes, [1])
        beyond = cut(beyond, lanes)
        for one in beyond:
            values = plus(WORDS, values, times(child, each(lambda share: share[:count], one)))
        pairs = []
        for value, one in enumerate(beyond):
            second = []
            for own, of in zip(parts, sums):
                rest = each(lambda share: share[:, value + 1] - share[:, value], own)
                second.append([numpy.column_stack([a[:count], b]).ravel() for a, b in zip(of[value], rest)])
            repeated = each(lambda share: numpy.tile(share[:count].repeat(child + 1), len(owners)), one)
            pairs.append((repeated, joined(second)))
        chosen = cut((yield from sum_of_products(part, WORDS, pairs)), count * (child + 1))
        for own, found in enumerate(chosen):
            found = each(lambda share: share.reshape(count, child + 1), found)
            below[own] = plus(WORDS, below[own], each(lambda share: lanes_of(share[:, 0].copy()), found))
            first = each(lambda share: share[:, 0], parts[own])
            blocks[own] = plus(WORDS, first, each(lambda share: share[:, 1:], found))
        bits -= width
    at = [each(lambda share: lanes_of(share[:, 0].copy()), own) for own in blocks]
    above = [minus(WORDS, minus(WORDS, all_rows, less), own) for all_rows, less, own in zip(rows, below, at)]
    return values, [joined(list(pair)) for pair in zip(below, above)], valid
