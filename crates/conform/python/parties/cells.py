"""The program of the three parties for the task `summary` (spec, section 15i)."""

from __future__ import annotations

import numpy
from primitives.summary import BUCKETS, Summary

from .graph import compared
from .operations import b2a, complement, cut, each, joined, minus, plus, plus_public, products, sign
from .parts import Part, Parties, Program, Shares
from .shares import Input
from .words import BITS, WORDS, to_planes


def padded(words: numpy.ndarray) -> numpy.ndarray:
    return numpy.concatenate([words, numpy.zeros(-len(words) % 64, numpy.uint64)])


def conjunction(part: Part, bits: list[Shares]) -> Program:
    while len(bits) > 1:
        pairs, odd = len(bits) // 2, bits[len(bits) // 2 * 2:]
        bits = (yield from products(part, [(bits[2 * i], bits[2 * i + 1]) for i in range(pairs)])) + odd
    return bits[0]


def cells(parties: Parties, summary: Summary, owners: list[Input], commitments: list[bytes]) -> Program:
    """Returns the shares of the bits of cells and measures, and those of the pooled words."""
    compared(parties, owners, commitments)
    yield
    part = Part(parties, 11)
    count, measures = len(summary.missing), len(summary.measures)
    first, rest = -(-count // 64), -(-measures // 64)
    own_cells = numpy.array([measure.cell for measure in summary.measures], int)

    def tested(words):
        own, buckets = words[:count], words[count:count + BUCKETS * measures].reshape(measures, BUCKETS)
        return numpy.concatenate([padded(own), *(padded(own[own_cells] - buckets[:, b]) for b in range(BUCKETS))])

    each_owner = [each(tested, owner.words) for owner in owners]
    pooled, whole = each_owner[0], owners[0].words
    for own, owner in zip(each_owner[1:], owners[1:]):
        pooled, whole = plus(WORDS, pooled, own), plus(WORDS, whole, owner.words)
    lanes = len(pooled[0])
    compared_words = [plus_public(part, pooled, -summary.threshold)]
    compared_words += [plus_public(part, own, -1) for own in each_owner]
    compared_words += [plus_public(part, minus(WORDS, pooled, own), -summary.rest) for own in each_owner]
    signs = cut((yield from sign(part, joined(compared_words), 40)), lanes // 64)
    bits = [complement(part, below) for below in signs]
    holders, bits = bits[1:1 + len(owners)], bits[:1] + bits[1 + len(owners):]
    number = yield from b2a(part, WORDS, holders, lanes, [1] * len(owners))
    few = joined([plus_public(part, number, -summary.contributors), plus_public(part, number, -1)])
    few, empty = cut((yield from sign(part, few, 8)), lanes // 64)
    passing = yield from conjunction(part, [*bits, complement(part, few)])
    mask = to_planes(numpy.array(summary.missing, numpy.uint64), 1)[0]
    found = plus(BITS, each(lambda share: share[:first], passing), each(lambda share: share[:first] & mask, empty))
    if rest:
        by_bucket = cut(each(lambda share: share[first:], passing), rest)
        found = joined([found, (yield from conjunction(part, by_bucket))])
    totals = each(lambda share: numpy.concatenate([share[:count], share[count + BUCKETS * measures:]]), whole)
    return found, totals
