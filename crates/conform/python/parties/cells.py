"""The program of the three parties for the task `summary` (spec, section 15i)."""

from __future__ import annotations

import numpy
from primitives.summary import BUCKETS, Summary

from .graph import compared
from .operations import b2a, complement, cut, each, joined, minus, plus, plus_public, products, sign
from .parts import Part, Parties, Program, Shares, together
from .quantiles import quantiles
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
    """Returns the shares of the bits of cells, measures and quantiles, and those of the pooled words and quantiles."""
    compared(parties, owners, commitments)
    yield
    part = Part(parties, 11)
    count, measures = len(summary.missing), len(summary.measures)
    first, rest = -(-count // 64), -(-measures // 64)
    own_cells = numpy.array([measure.cell for measure in summary.measures], int)

    def tested(words):
        own, buckets = words[:count], words[count:count + BUCKETS * measures].reshape(measures, BUCKETS)
        return numpy.concatenate([padded(own), *(padded(own[own_cells] - buckets[:, b]) for b in range(BUCKETS))])

    histograms = count + (BUCKETS + 2) * measures
    starts = numpy.cumsum([histograms, *(each.values for each in summary.histograms)])

    def of_scale(scale, words):
        out = numpy.zeros((len(scale), 2 ** scale[0].bits), numpy.uint64)
        for row, mine in zip(out, scale):
            for number in mine.histograms:
                own = words[starts[number]:starts[number + 1]]
                row[:len(own)] += own
        return out.ravel()

    scales = summary.scales
    inner = [part.part(turn) for turn in range(len(scales))]
    searches = [
        quantiles(one, scale[0].bits, [each(lambda words: of_scale(scale, words), owner.words) for owner in owners])
        for one, scale in zip(inner, scales)
    ]
    found_quantiles = yield from together(searches)
    each_owner = [each(tested, owner.words) for owner in owners]
    for _, sides, _ in found_quantiles:
        each_owner = [joined(list(pair)) for pair in zip(each_owner, sides)]
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
    at = first + BUCKETS * rest
    conjunctions = [cut(each(lambda share: share[first:at], passing), rest)]
    for scale, (_, _, valid) in zip(scales, found_quantiles):
        width = -(-5 * len(scale) // 64)
        conjunctions.append(cut(each(lambda share: share[at:at + 2 * width], passing), width) + valid)
        at += 2 * width
    inner = [part.part(turn) for turn in range(len(conjunctions))]
    more = yield from together([conjunction(one, bits) for one, bits in zip(inner, conjunctions) if bits])
    found = joined([found, *more])
    totals = each(lambda share: numpy.concatenate([share[:count], share[count + BUCKETS * measures:histograms]]), whole)
    return found, joined([totals, *(values for values, _, _ in found_quantiles)])
