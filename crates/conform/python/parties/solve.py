"""Stages 8 to 10: from the graph to labels and coarse scores (spec, section 15e)."""

from __future__ import annotations

import math

import numpy
from primitives.xclp import Plan

from . import statements
from .operations import (
    a2b,
    b2a,
    complement,
    cut,
    each,
    joined,
    leading,
    minus,
    plus,
    plus_public,
    product,
    products,
    public,
    reshare,
    sign,
    sum_of_products,
    table,
    times,
    truncate,
)
from .parts import Part, Parties, Program, Shares, in_thirds, together
from .words import BITS, ONES, WORDS, bits_of

Q, G = 28, 32


def scaled(part: Part, x: Shares, y: Shares, bits: int) -> Program:
    """Returns the product, rounded."""
    return (yield from truncate(part, (yield from product(part, WORDS, x, y)), bits))


def inverses(part: Part, m: Shares, scale: Shares) -> Program:
    y = plus_public(part, times(-2, m), 782274605)
    for _ in range(3):
        t = yield from scaled(part, m, y, Q)
        y = yield from scaled(part, y, plus_public(part, times(-1, t), 2 ** (Q + 1)), Q)
    low = yield from product(part, WORDS, plus_public(part, y, -2), scale)
    return (yield from truncate(part, plus_public(part, low, -(2 ** (2 * Q - G - 1))), 2 * Q - G))


def roots(part: Part, m: Shares, root: Shares) -> Program:
    v = plus_public(part, times(-1, m), 522106962)
    for _ in range(3):
        t = yield from scaled(part, v, v, Q)
        t = yield from scaled(part, m, t, Q)
        v = yield from scaled(part, v, plus_public(part, times(-1, t), 3 * 2**Q), Q + 1)
    return (yield from scaled(part, v, root, 33))


def balances(part: Part, plan: Plan, labels: Shares) -> Program:
    """Returns u of each class."""
    counts = each(lambda share: share.reshape(plan.rows, plan.classes).sum(0, dtype=numpy.uint64), labels)
    index = yield from a2b(part, WORDS, counts, plan.rows.bit_length())
    entries = [plan.balance_of(labels) for labels in range(plan.rows + 1)]
    return (yield from table(part, index, plan.classes, entries, (plan.root_of_rows * 2**20).bit_length()))


def degrees(parties: Parties, plan: Plan, graph: Shares, labels: Shares) -> Program:
    """Stage 8. Returns d, r, s, c, and u if classes are balanced."""
    part = Part(parties, 8)
    d = each(lambda share: share.sum(1, dtype=numpy.uint64), graph)
    top = plan.largest_degree.bit_length()
    planes = yield from leading(part, (yield from a2b(part, WORDS, d, top)))
    powers = [2 ** (Q - 1 - i) for i in range(top)]
    of_powers = [math.isqrt(2 ** (63 - i)) for i in range(top)]
    scale, root = cut((yield from b2a(part, WORDS, planes, plan.rows, powers, of_powers)), plan.rows)
    m = yield from product(part, WORDS, d, scale)
    parts = [part.part(turn) for turn in range(2 + plan.balance)]
    programs = [inverses(parts[0], m, scale), roots(parts[1], m, root)]
    if plan.balance:
        programs.append(balances(parts[2], plan, labels))
    r, s, *u = yield from together(programs)
    c = plus_public(part, times(-1, (yield from product(part, WORDS, d, r))), 2**G)
    return d, r, s, c, u


def propagation(parties: Parties, plan: Plan, graph: Shares, labels: Shares, found: tuple) -> Program:
    """Stage 9. Returns the scores."""
    part, shape = Part(parties, 9), (plan.rows, plan.classes)
    _, r, s, c, u = found
    r, s, c = (each(lambda share: numpy.repeat(share, plan.classes), one) for one in (r, s, c))
    sides = [graph[i] + graph[(i + 1) % 3] for i in range(3)]

    def neighbours(a):
        """Returns each role's part of W a."""
        a = each(lambda share: share.reshape(shape), a)
        return [(sides[i] @ a[i] + graph[i] @ a[(i + 1) % 3]).reshape(-1) for i in range(3)]

    last = yield from product(part, WORDS, s, labels)
    total, earlier, steps = times(plan.coefficients[0], last), None, []
    for coefficient in plan.coefficients[1:]:
        of_step = lambda result, masks: steps.append((last, result, masks))
        around = yield from reshare(part, WORDS, neighbours(last), of_step)
        z = yield from sum_of_products(part, WORDS, [(around, r), (last, c)])
        following = yield from truncate(part, z, G - 1 if earlier else G)
        if earlier:
            following = minus(WORDS, following, earlier)
        earlier, last = last, following
        total = plus(WORDS, total, times(coefficient, last))
    if part.log:
        statements.graph(part, graph, steps)
    scores = yield from truncate(part, total, 20)
    if u:
        of_rows = each(lambda share: numpy.tile(share, plan.rows), u[0])
        scores = yield from scaled(part, scores, of_rows, 20)
    return scores


def tournament(part: Part, plan: Plan, scores: list[Shares]) -> Program:
    """Returns the planes of the number of the largest score's class."""
    lanes = len(scores[0][0])
    words, bits = lanes // 64, (plan.classes - 1).bit_length()
    label = lambda number: [number >> bit & 1 for bit in range(bits) for _ in range(words)]
    of_class = lambda number: public(part, numpy.array(label(number), numpy.uint64) * ONES)
    labels = list(map(of_class, range(plan.classes)))
    while len(scores) > 1:
        half = len(scores) // 2
        left = 2 * half
        first, second = joined(scores[:left:2]), joined(scores[1:left:2])
        second_wins = yield from sign(part, minus(WORDS, first, second), plan.score_bits)
        integer = yield from b2a(part, WORDS, [second_wins], half * lanes, [1])
        gain = yield from product(part, WORDS, integer, minus(WORDS, second, first))
        differ = [plus(BITS, one, two) for one, two in zip(labels[:left:2], labels[1:left:2])]
        pairs = [(wins, plane) for wins, label in zip(cut(second_wins, words), differ) for plane in cut(label, words)]
        made = cut(joined((yield from products(part, pairs))), bits * words)
        labels = [plus(BITS, one, change) for one, change in zip(labels[:left:2], made)] + labels[left:]
        scores = cut(plus(WORDS, first, gain), lanes) + scores[left:]
    return cut(labels[0], words)


def divided(part: Part, plan: Plan, scores: Shares, total: Shares) -> Program:
    """Returns the planes of the coarse scores, the lowest first."""
    rest = plus_public(part, plus(WORDS, times(128, scores), total), -1)
    planes = []
    for bit in range(6, -1, -1):
        below = yield from sign(part, minus(WORDS, rest, times(2 ** (bit + 1), total)), plan.quotient_bits)
        planes.append(complement(part, below))
        if bit:
            factor = yield from b2a(part, WORDS, planes[-1:], len(rest[0]), [2 ** (bit + 1)])
            rest = minus(WORDS, rest, (yield from product(part, WORDS, factor, total)))
    return planes[::-1]


def output(parties: Parties, plan: Plan, scores: Shares) -> Program:
    """Stage 10. Returns the shares of the output."""
    part, classes = Part(parties, 10), plan.classes

    def third(part, start, end):
        rows = end - start
        lanes = 64 * -(-rows // 64)

        def by_class(share):
            out = numpy.zeros((classes, lanes), numpy.uint64)
            out[:, :rows] = share.reshape(plan.rows, classes)[start:end].T
            return out.reshape(-1)

        own = each(by_class, scores)
        not_below = complement(part, (yield from sign(part, own, plan.score_bits)))
        factor = yield from b2a(part, WORDS, [not_below], classes * lanes, [1])
        own = yield from product(part, WORDS, own, factor)
        total = each(lambda share: share.reshape(classes, lanes).sum(0, dtype=numpy.uint64), own)
        label = yield from tournament(part, plan, cut(own, lanes))
        labelled = yield from sign(part, times(-1, total), plan.quotient_bits)
        coarse = yield from divided(part, plan, own, each(lambda share: numpy.tile(share, classes), total))

        def row_bytes(share):
            marks = sum((bits_of(plane[share], rows).astype("<u2") << bit for bit, plane in enumerate(label)),
                        numpy.zeros(rows, "<u2"))
            marks = marks | bits_of(labelled[share], rows).astype("<u2") << numpy.uint16(15)
            of_class = sum(bits_of(plane[share], classes * lanes) << bit for bit, plane in enumerate(coarse))
            whole = [marks.view(numpy.uint8).reshape(rows, 2), of_class.reshape(classes, lanes)[:, :rows].T]
            return numpy.concatenate(whole, 1).astype(numpy.uint8).tobytes()

        return list(map(row_bytes, range(3)))

    found = yield from in_thirds(part, plan.rows, 1, third)
    return list(map(b"".join, zip(*found)))
