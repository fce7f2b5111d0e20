"""Stages 1 to 7: from the shares of owners to the graph of neighbours (spec, section 15e)."""

from __future__ import annotations

from itertools import zip_longest

import numpy
from primitives import Refused
from primitives.xclp import Plan

from . import statements
from .operations import (
    a2b,
    added,
    b2a,
    bit_by_bit,
    complement,
    cut,
    each,
    joined,
    leading,
    opened,
    plus,
    product,
    products,
    public,
    reshare,
    sum_of_products,
    table,
)
from .parts import Part, Parties, Program, Shares, in_thirds, thirds, together
from .shares import Input
from .shuffle import back, shuffle
from .words import BITS, ONES, SMALL, SMALL_BITS, WORDS, bits_of, rows_of_bits, to_planes, words_of


def compared(parties: Parties, owners: list[Input], commitments: list[bytes]) -> Part:
    """Each party sends both others its views of all owners."""
    part = Part(parties, 1)
    views = b"".join(owner.view(commitment) for owner, commitment in zip(owners, commitments))
    for role in range(3):
        part.send(role, role - 1, views)
        part.send(role, role + 1, views)
    return part


def integers(part: Part, plan: Plan, owners: list[Input], of_distances: bool) -> Program:
    """Stage 1, after the first round. Returns the bits of codes, and the labels, as integers.

    If a row has several labels, the last class counts. """

    def converted(ring, words):
        def third(part, start, end):
            plane = each(lambda share: share[start:end], words)
            return (yield from b2a(part, ring, [plane], 64 * (end - start), [1]))

        return joined((yield from in_thirds(part, len(words[0]), 1, third)))

    def of_class(number):
        return lambda share: to_planes(rows_of_bits(share, plan.rows, plan.classes)[:, number], 1)[0]

    given = joined([owner.labels for owner in owners])
    planes = yield from leading(part, [each(of_class(number), given) for number in range(plan.classes)])
    by_class = [[bits_of(share, plan.rows) for share in plane] for plane in planes]
    hot = [numpy.stack(shares, axis=1).reshape(-1) for shares in zip(*by_class)]
    labels = converted(WORDS, each(lambda bits: to_planes(bits, 1)[0], hot))
    codes = [] if of_distances else [converted(SMALL, joined([owner.words for owner in owners]))]
    *codes, labels = yield from together([*codes, labels])
    return codes[0] if codes else None, each(lambda share: share[:plan.rows * plan.classes], labels)


def tiles(plan: Plan) -> list[tuple[int, int]]:
    return [(j, i) for j in range(plan.words) for i in range(j + 1)]


def entries_of_tiles(plan: Plan, matrix: numpy.ndarray) -> numpy.ndarray:
    """Returns the entries of all tiles of a matrix of whole blocks."""
    blocks = [matrix[64 * j:64 * j + 64, 64 * i:64 * i + 64].reshape(-1) for j, i in tiles(plan)]
    return numpy.concatenate(blocks)


def distances(parties: Parties, plan: Plan, codes: Shares) -> Program:
    """Stage 2, from codes. Returns the entries of the tiles."""
    part, size = Part(parties, 2), 64 * plan.words

    def padded(share):
        out = numpy.zeros((size, plan.bits), numpy.uint16)
        out[:plan.rows] = share.reshape(plan.rows, plan.bits)
        return out

    # The sums of products are below 2^64, and are taken mod 2^16.
    codes = each(padded, codes)
    wide = each(lambda share: share.astype(numpy.float64), codes)
    both = lambda x, y: (x @ y.T % 2**16).astype(numpy.uint16)
    after = lambda i: wide[(i + 1) % 3]
    crossed = [both(wide[i], after(i)) for i in range(3)]
    sums = [entries_of_tiles(plan, both(wide[i], wide[i]) + crossed[i] + crossed[i].T) for i in range(3)]
    statement = lambda result, masks: statements.distances(part, codes, result, masks)
    z = yield from reshare(part, SMALL, sums, statement)
    ones = each(lambda share: share.sum(1, dtype=numpy.uint16), codes)
    lengths = [entries_of_tiles(plan, own[:, None] + own[None, :]) for own in ones]
    return [length - numpy.uint16(2) * one for length, one in zip(lengths, z)]


def added_parts(parties: Parties, plan: Plan, owners: list[Input]) -> Shares:
    """Stage 2, from parts of distances. Returns the entries of the tiles."""
    Part(parties, 2)
    owner = numpy.repeat(range(len(owners)), [one.rows for one in owners])
    pairs = owner[:, None] != owner[None, :]

    def entries(parts):
        parts = parts.reshape(plan.rows, plan.rows)
        lower = numpy.tril(parts + numpy.where(pairs, parts.T, 0).astype(numpy.uint16), -1)
        out = numpy.zeros((64 * plan.words,) * 2, numpy.uint16)
        out[:plan.rows, :plan.rows] = lower + lower.T
        return entries_of_tiles(plan, out)

    return each(entries, joined([one.words for one in owners]))


def keys(parties: Parties, plan: Plan, distances: Shares) -> Program:
    """Stage 3. Returns the planes of the keys, as matrices."""
    part, size = Part(parties, 3), 64 * plan.words

    def third(part, start, end):
        own = each(lambda share: share[start:end], distances)
        *low, a, b = yield from a2b(part, SMALL, own, plan.key_bits + 1, bit_by_bit)
        both = yield from product(part, BITS, b, a)
        return [*low, plus(BITS, plus(BITS, a, b), both)]

    def matrix(plane):
        blocks = bits_of(plane, len(distances[0])).reshape(-1, 64, 64)
        out = numpy.zeros((size, size), numpy.uint8)
        for (j, i), block in zip(tiles(plan), blocks):
            out[64 * j:64 * j + 64, 64 * i:64 * i + 64] = block
            out[64 * i:64 * i + 64, 64 * j:64 * j + 64] = block if i == j else block.T
        return words_of(out[:plan.rows])

    found = yield from in_thirds(part, len(distances[0]), 4096, third)
    return [each(matrix, joined([third[bit] for third in found])) for bit in range(plan.key_bits)]


def counted(part: Part, number: list[Shares], rows: list[Shares]) -> Program:
    """Adds, lane by lane, the number of ones in the rows to a number that is given in planes."""
    columns = [[number[0], *rows], *([plane] for plane in number[1:])]
    while any(len(column) > 2 for column in columns):
        cuts = []
        for column in columns:
            r = len(column) // 3
            cuts.append((column[:r], column[r:2 * r], column[2 * r:3 * r], column[3 * r:]))
        pairs = [(plus(BITS, a, c), plus(BITS, b, c)) for one in cuts for a, b, c in zip(*one[:3])]
        made = iter((yield from products(part, pairs)))
        carries, columns = [], []
        for first, second, third, left in cuts:
            sums = [plus(BITS, plus(BITS, a, b), c) for a, b, c in zip(first, second, third)]
            columns.append([*carries, *sums, *left])
            carries = [plus(BITS, c, next(made)) for c in third]
    one = [column[0] for column in columns]
    two = [column[1] if len(column) > 1 else BITS.zeros(len(column[0][0])) for column in columns]
    return (yield from added(part, one, two))


def nearest(parties: Parties, plan: Plan, keys: list[Shares]) -> Program:
    """Stage 4. Returns the chosen items, as a matrix."""
    part, n, words = Part(parties, 4), plan.rows, plan.words
    others = numpy.zeros((n, 64 * words), numpy.uint8)
    others[:, :n] = 1 - numpy.eye(n, dtype=numpy.uint8)
    others = words_of(others)
    candidates, chosen = public(part, others), BITS.zeros(n * words)
    minus_k = 2 ** (n.bit_length() + 1) - plan.k
    bits = [minus_k >> bit & 1 for bit in range(n.bit_length() + 1)]
    number = [public(part, numpy.full(words, bit * ONES, numpy.uint64)) for bit in bits]
    rows = lambda matrix: cut(matrix, words)
    none = BITS.zeros(words)

    for plane in range(plan.key_bits - 1, -1, -1):
        smaller = complement(part, keys[plane])
        if plane == plan.key_bits - 1:
            smaller = each(lambda share: share & others, smaller)
        else:
            smaller = yield from product(part, BITS, candidates, smaller)
        more = yield from counted(part, number, rows(smaller))
        few = more[-1]
        changes = [plus(BITS, a, b) for a, b in zip(more, number)]
        made = yield from products(part, [(few, one) for one in [*rows(candidates), *rows(smaller), *changes]])
        chosen = plus(BITS, chosen, joined(made[n:2 * n]))
        candidates = plus(BITS, smaller, joined(made[:n]))
        number = [plus(BITS, a, b) for a, b in zip(number, made[2 * n:])]

    levels = [[candidates]]
    depth = (n - 1).bit_length()
    while len(levels) < depth:
        levels.append((yield from counts_above(part, levels[-1], words)))
    path, before = public(part, numpy.full(words, ONES, numpy.uint64)), BITS.zeros(words)
    for height in range(depth, 0, -1):
        below, nodes = levels[height - 1], len(path[0]) // words
        count = [children(plane, 0, nodes, words) for plane in below]
        if height < depth:
            planes = zip(*(rows(plane) for plane in count))
            pairs = [(joined([at] * height), joined(node)) for at, node in zip(rows(path), planes)]
            count = cut((yield from sum_of_products(part, BITS, pairs)), words)
        more = yield from added(part, number[:height + 1], [*count, none])
        few, number = more[-1], number[:height]
        changes = [plus(BITS, a, b) for a, b in zip(more, number)]
        right = len(below[0][0]) // words - nodes
        made = yield from products(part, [(few, one) for one in [*rows(path)[:right], *changes]])
        gone, number = made[:right] + [none] * (nodes - right), [plus(BITS, a, b) for a, b in zip(number, made[right:])]
        lefts = [[plus(BITS, a, b) for a, b in zip(rows(of), gone)] for of in (before, path)]
        rights = rows(before)[:right], made[:right]
        before, path = (joined([node for pair in zip_longest(*sides) for node in pair if node]) for sides in zip(lefts, rights))
    return plus(BITS, chosen, (yield from product(part, BITS, candidates, plus(BITS, path, before))))


def children(plane: Shares, side: int, nodes: int, words: int) -> Shares:
    """Returns the left (0) or right (1) children of the first nodes."""
    return each(lambda share: share.reshape(-1, words)[side::2][:nodes].reshape(-1), plane)


def counts_above(part: Part, below: list[Shares], words: int) -> Program:
    """Returns the counts of nodes from those of their children."""
    nodes = len(below[0][0]) // words
    zeros = BITS.zeros(nodes // 2 * words)
    sides = [[*(children(plane, side, nodes // 2, words) for plane in below), zeros] for side in (0, 1)]
    counts = yield from added(part, *sides)
    if nodes % 2:
        last = [*(each(lambda share: share[-words:], plane) for plane in below), BITS.zeros(words)]
        counts = [joined([plane, one]) for plane, one in zip(counts, last)]
    return counts


def compaction(parties: Parties, plan: Plan, keys: list[Shares], chosen: Shares) -> Program:
    """Stage 5. Returns for each third the keys of the neighbours, their places, and the permutations."""
    part, n, mark = Part(parties, 5), plan.rows, numpy.uint16(plan.key_bits)

    def entries(share):
        planes = [rows_of_bits(key[share], n, n).astype(numpy.uint16) << bit for bit, key in enumerate(keys)]
        return sum(planes) | rows_of_bits(chosen[share], n, n).T.astype(numpy.uint16) << mark

    rows = [entries(share) for share in range(3)]
    hidden = []
    for first, last in steps(n):

        def third(part, start, end):
            own = each(lambda share: share[first + start:first + end].reshape(-1), rows)
            mixed, orders = yield from shuffle(part, SMALL_BITS, own, n, plan.key_bits + 1)
            return each(lambda share: share.reshape(-1, n), mixed), orders

        hidden += yield from in_thirds(part, last - first, 1, third)

    def marks(share):
        out = numpy.zeros((n, 64 * plan.words), numpy.uint8)
        out[:, :n] = share >> mark
        return words_of(out).reshape(-1)

    every = [numpy.concatenate(shares) for shares in zip(*[mixed for mixed, _ in hidden])]
    marked = rows_of_bits((yield from opened(part, each(marks, every))), n, n)
    if (marked.sum(1) != plan.k).any():
        raise Refused("marks", "an opened row does not have k marks")
    at = numpy.nonzero(marked)[1].reshape(-1, plan.k)
    low, found, row = numpy.uint16(plan.bits - 1), [], 0
    for mixed, orders in hidden:
        places = at[row:row + len(mixed[0])]
        row += len(places)
        keys_of = lambda share: numpy.take_along_axis(share, places, 1).reshape(-1) & low
        found.append((each(keys_of, mixed), places, orders))
    return found


def steps(n: int) -> list[tuple[int, int]]:
    """Returns the first row of each step of compaction, and the end of the step."""
    size = -(-n // min(16, -(-n * n // 2**20)))
    return [(first, min(n, first + size)) for first in range(0, n, size)]


def weights(parties: Parties, plan: Plan, found: list) -> Program:
    """Stage 6. Returns the weights at the opened places."""
    part = Part(parties, 6)
    keys = joined([own for own, _, _ in found])
    index = [list(shares) for shares in zip(*[to_planes(share, plan.key_bits) for share in keys])]
    return (yield from table(part, index, plan.rows * plan.k, plan.weights, 13))


def dense(parties: Parties, plan: Plan, found: list, weights: Shares) -> Program:
    """Stage 7. Returns W."""
    part, n, out, at, later = Part(parties, 7), plan.rows, [], 0, iter(found)
    for first, last in steps(n):
        programs = []
        parts = [part.part(turn) for turn in range(len(thirds(last - first, 1)))]
        for third, (_, places, orders) in zip(parts, later):

            def whole(share):
                rows = numpy.zeros((len(places), n), numpy.uint64)
                numpy.put_along_axis(rows, places, share[at:at + places.size].reshape(places.shape), 1)
                return rows.reshape(-1)

            filled = (n * numpy.arange(len(places))[:, None] + places).reshape(-1)
            programs.append(back(third, WORDS, each(whole, weights), 64, orders, filled))
            at += places.size
        out += yield from together(programs)
    return each(lambda share: share.reshape(n, n) + share.reshape(n, n).T, joined(out))
