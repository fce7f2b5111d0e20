"""Proofs that each message is right: one by each party, all three side by side (spec, section 15e.1).

Each place of a proof uses only what its party knows. L and U need no prover: `Verifier` checks what they receive.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy
from primitives.crypto import Stream, le

from .parts import Part, Parties, Program
from .rings import FIELD, LARGE_RING, SMALL_RING, Elements, numbers, points

FOLD = 8  # groups of each step after the first
FULL = 2**18  # words of one prover from which on a batch is closed
RINGS = FIELD, SMALL_RING, LARGE_RING  # in the order in which batches are closed
PROVER, LOWER, UPPER = range(3)  # places in a proof: P, L and U
Words = numpy.ndarray


class RefusedProof(Exception):
    """U has refused a proof."""


@dataclass
class Terms:
    """For each statement, a sum of products of words of `a` and `b` is the sum of two words."""

    length: int
    a: list[Words]
    b: list[Words]
    lower: Words
    upper: Words


@dataclass
class Sums:
    """A sum of products of coins and words is the sum of two claims. `a` or `b` are the coins."""

    a: Words
    b: Words
    coins_first: bool
    lower: Elements
    upper: Elements


@dataclass
class Linear:
    """An inner product is the sum of two claims."""

    a: Elements
    b: Elements
    lower: Elements
    upper: Elements


@dataclass
class Batch:
    """Statements of one prover."""

    terms: list[Terms] = field(default_factory=list)
    linear: list[tuple[int, Callable[[Stream], Linear]]] = field(default_factory=list)
    sums: list[tuple[int, Callable[[Stream], Sums]]] = field(default_factory=list)
    size: int = 0

    def elements(self, ring) -> int:
        """Returns the number of elements after the first step."""
        columns = lambda length: -(-length // ring.groups)
        count = sum(len(terms.a) * columns(terms.length) * ring.lanes for terms in self.terms)
        return count + sum(columns(length) for length, _ in self.sums) + sum(length for length, _ in self.linear)


class Log:
    """Statements that are not proved yet, for each ring and prover."""

    def __init__(self) -> None:
        self.open = {ring: [Batch(), Batch(), Batch()] for ring in RINGS}
        self.closed: list[tuple] = []

    def terms(self, ring, prover: int, a: list[Words], b: list[Words], lower: Words, upper: Words) -> None:
        batch = self.open[ring][prover % 3]
        batch.terms.append(Terms(len(lower), a, b, lower, upper))
        batch.size += max(1, len(a)) * len(lower)

    def linear(self, ring, prover: int, length: int, make) -> None:
        batch = self.open[ring][prover % 3]
        batch.linear.append((length, make))
        batch.size += length

    def sums(self, ring, prover: int, length: int, make) -> None:
        batch = self.open[ring][prover % 3]
        batch.sums.append((length, make))
        batch.size += length

    def close(self, least: int) -> None:
        """Closes the batches of each ring in which a prover has this number of words."""
        for ring, batches in self.open.items():
            if max(batch.size for batch in batches) >= least:
                self.closed.append((ring, batches))
                self.open[ring] = [Batch(), Batch(), Batch()]


def grouped(words: Words, groups: int) -> Words:
    """Returns words as rows of groups. Places past the last are 0."""
    columns = -(-len(words) // groups)
    out = numpy.zeros(groups * columns, words.dtype)
    out[:len(words)] = words
    return out.reshape(groups, columns)


def beside(ring, matrices: list[Words]) -> Words:
    return numpy.concatenate([numpy.zeros((ring.groups, 0), "<u8"), *matrices], axis=1)


def counts(ring, step: int, steps: int) -> int:
    """Returns the number of values of each polynomial."""
    return ring.groups if step == 0 else FOLD + (step + 1 == steps)


@functools.cache
def further(ring, count: int) -> list[Elements]:
    """Returns the weights of the groups at the points count, .., 2 count - 2."""
    places = ring.exceptional(numpy.arange(2 * count - 1, dtype="<u8"))
    return [points(ring, count).weights(place) for place in places[count:]]


def steps_of(elements: int) -> int:
    steps = 2
    while elements > FOLD:
        elements, steps = -(-elements // FOLD), steps + 1
    return steps


class Place:
    """Knowledge of one party in a proof."""

    def __init__(self, ring, place: int, steps: int, batch: Batch, random: dict[str, Elements]) -> None:
        self.ring, self.place, self.steps, self.batch = ring, place, steps, batch
        self.random = random  # the last point of a, of b, or of both
        self.vectors: dict[str, Elements] = {}
        self.differences: list[Elements] = []

    def word(self, statement: Terms | Sums | Linear):
        return statement.upper if self.place == UPPER else statement.lower

    def begin(self, seed: bytes) -> None:
        """Draws the coins."""
        ring, stream = self.ring, Stream(seed, "proof", b"")
        self.sigma = ring.exceptional(numbers(stream, ring.groups))
        taus = [numbers(stream, -(-terms.length // ring.groups)) for terms in self.batch.terms]
        linear = [make(stream) for _, make in self.batch.linear]
        self.sums = [make(stream) for _, make in self.batch.sums]

        words = beside(ring, [grouped(self.word(terms), ring.groups) for terms in self.batch.terms])
        coins = numpy.concatenate([numpy.zeros(0, "<u8"), *taus])
        self.claim = ring.total(ring.times(ring.weighted(words, coins), self.sigma))
        for statement in self.sums:
            self.claim = ring.plus(self.claim, self.word(statement))
        self.later = ring.zeros(1)[0]
        for statement in linear:
            self.later = ring.plus(self.later, self.word(statement))

        twice = [tau for terms, tau in zip(self.batch.terms, taus) for _ in terms.a]
        self.tau = numpy.concatenate([numpy.zeros(0, "<u8"), *twice])
        self.factors, self.linear = {}, {}
        for side in self.sides:
            each = [grouped(words, ring.groups) for terms in self.batch.terms for words in getattr(terms, side)]
            self.factors[side] = beside(ring, each)
            self.linear[side] = numpy.concatenate([ring.zeros(0), *(getattr(one, side) for one in linear)])

    @property
    def sides(self) -> tuple[str, ...]:
        """The vectors that this party knows."""
        return (("a", "b"), ("a",), ("b",))[self.place]

    def take(self, step: int, share: Elements) -> None:
        """Takes a verifier's share of the product."""
        ring = self.ring
        # The random point does not count.
        counted = ring.groups if step == 0 else FOLD
        self.differences.append(ring.minus(self.claim, ring.total(share[:counted])))
        self.share = share

    def groups(self, step: int, side: str) -> Elements:
        """Returns the groups of a vector, with its random point in the last step."""
        ring, last, vector = self.ring, step + 1 == self.steps, self.vectors[side]
        columns = 1 if last else max(1, -(-len(vector) // FOLD))
        out = ring.zeros(FOLD * columns)
        out[:len(vector)] = vector
        out = out.reshape(FOLD, columns, *out.shape[1:])
        return numpy.concatenate([out, self.random[side].reshape(1, 1, *out.shape[2:])]) if last else out

    def fold(self, step: int, name: int) -> None:
        """Goes on to the claim, and to the vectors, at a random point."""
        ring, count = self.ring, counts(self.ring, step, self.steps)
        at = ring.exceptional(numpy.array(name & ring.mask, "<u8"))
        self.claim = ring.total(ring.times(points(ring, 2 * count - 1).weights(at), self.share))
        weights = points(ring, count).weights(at)
        if step:
            for side in self.sides:
                self.vectors[side] = ring.folded_elements(self.groups(step, side), weights)
            return
        factor = ring.exceptional(numpy.array(1, "<u8"))
        for _ in range(2 * ring.groups - 1):
            factor = ring.times(factor, at)
        self.claim = ring.plus(self.claim, ring.times(factor, self.later))
        for side in self.sides:
            of_words = ring.times(weights, self.sigma) if side == "a" else weights
            vector = ring.folded(self.factors[side], of_words)
            if side == "b":
                vector = ring.times(vector, ring.of_lanes(self.tau))
            linear = ring.times(self.linear[side], factor) if side == "a" else self.linear[side]
            parts = [vector, linear]
            for one in self.sums:
                words = grouped(getattr(one, side), ring.groups)
                if one.coins_first == (side == "a"):
                    elements = ring.exceptional(words.reshape(-1)).reshape(*words.shape, *weights.shape[1:])
                    parts.append(ring.folded_elements(elements, weights))
                else:
                    parts.append(ring.folded_words(words, weights))
            self.vectors[side] = numpy.concatenate(parts)


class Prover(Place):
    def product(self, step: int) -> Elements:
        """Returns the values of the product of both polynomials."""
        ring, count = self.ring, counts(self.ring, step, self.steps)
        if step:
            matrix = ring.products(self.groups(step, "a"), self.groups(step, "b"))
        else:
            rows = [ring.weighted(ring.word_product(row, self.factors["b"]), self.tau) for row in self.factors["a"]]
            matrix = ring.times(numpy.stack(rows), self.sigma[:, None])
            for one in self.sums:
                a, b = grouped(one.a, count), grouped(one.b, count)
                coins, words = (a, b) if one.coins_first else (b, a)
                crossed = numpy.stack([ring.weighted(words, row) for row in coins])
                matrix = ring.plus(matrix, crossed if one.coins_first else crossed.swapaxes(0, 1))
        values = [matrix[place, place] for place in range(count)]
        for weights in further(ring, count):
            rows = ring.total(ring.times(matrix.swapaxes(0, 1), weights[:, None]))
            values.append(ring.total(ring.times(rows, weights)))
        return numpy.stack(values)


class Verifier(Place):
    def shown(self) -> Elements:
        """Returns what L shows."""
        return numpy.stack([self.vectors["a"][0], self.claim, *self.differences])

    def accepts(self, shown: Elements) -> bool:
        """Returns whether U accepts what L shows."""
        ring = self.ring
        cancel = not ring.plus(shown[2:], numpy.stack(self.differences)).any()
        right = ring.times(shown[0], self.vectors["b"][0]) == ring.plus(shown[1], self.claim)
        return bool(cancel and numpy.all(right))


def verified(ring, batch: Batch, steps: int, seed: bytes, names: list[int], shares: tuple[list, list],
             random: tuple[Elements, Elements]) -> bool:
    """Returns whether L and U accept a recorded proof: `shares` of each step, `names` of its random points, and the
    last point of a and of b."""
    lower = Verifier(ring, LOWER, steps, batch, {"a": random[0]})
    upper = Verifier(ring, UPPER, steps, batch, {"b": random[1]})
    for verifier, of_steps in zip((lower, upper), shares):
        verifier.begin(seed)
        for step, (share, name) in enumerate(zip(of_steps, names)):
            verifier.take(step, share)
            verifier.fold(step, name)
    return upper.accepts(lower.shown())


def prove(part: Part, ring, batches: list[Batch]) -> Program:
    """Proves the statements of all three parties, and verifies them."""
    steps = steps_of(max(batch.elements(ring) for batch in batches))
    values = [2 * counts(ring, step, steps) - 1 for step in range(steps)]
    step = part.step()
    coins, names = [], []
    for prover in range(3):
        words = numbers(part.stream(prover + 2, step), 4 + 2 * steps)
        coins.append(words[:4].tobytes())
        # The points of a step are not used as challenges.
        usable = lambda word: int(word) & ring.mask >= 2 * ring.groups + 2
        names.append([int(one if usable(one) else two) for one, two in words[4:].reshape(-1, 2)])
    step = part.step()
    masks = [ring.draw(part.stream(prover, step), sum(values) + 1) for prover in range(3)]
    step = part.step()
    random = [ring.draw(part.stream(prover + 1, step), 1)[0] for prover in range(3)]
    provers, lowers, uppers = [], [], []
    for prover, batch in enumerate(batches):
        a, b = {"a": masks[prover][-1]}, {"b": random[prover]}
        provers.append(Prover(ring, PROVER, steps, batch, a | b))
        lowers.append(Verifier(ring, LOWER, steps, batch, a))
        uppers.append(Verifier(ring, UPPER, steps, batch, b))
    yield
    start, shares = 0, [([], []) for _ in range(3)]
    told = lambda prover, at: coins[prover] if at == 0 else le(names[prover][at - 1], 8)
    for at, count in enumerate(values):
        for prover in range(3):
            part.send(prover + 1, prover, told(prover, at))
        yield
        for prover, place in enumerate(provers):
            if at:
                place.fold(at - 1, names[prover][at - 1])
            else:
                for each in (place, lowers[prover], uppers[prover]):
                    each.begin(coins[prover])
            mask = masks[prover][start:start + count]
            share = ring.minus(place.product(at), mask)
            place.take(at, mask)
            part.send(prover, prover + 1, ring.write(share))
            for verifier, its in ((lowers[prover], mask), (uppers[prover], share)):
                verifier.take(at, its)
                verifier.fold(at, names[prover][at])
            for record, its in zip(shares[prover], (mask, share)):
                record.append(its)
        # A party sends its own share first.
        for prover in range(3):
            part.send(prover + 2, prover, told(prover, at))
        yield
        start += count
    yield
    for prover in range(3):
        shown = lowers[prover].shown()
        part.send(prover + 2, prover + 1, ring.write(shown))
        part.send(prover + 2, prover, ring.write(shown) + le(names[prover][-1], 8))
    yield
    for prover in range(3):
        right = uppers[prover].accepts(lowers[prover].shown())
        part.send(prover + 1, prover, bytes([right]))
        part.send(prover + 1, prover + 2, bytes([right]))
        last = masks[prover][-1], random[prover]
        part.parties.records.append((ring, batches[prover], steps, coins[prover], names[prover], shares[prover], last))
        if not right:
            raise RefusedProof(prover)
    yield


class Proving(Parties):
    """Parties that prove their messages in the rounds of the program."""

    def __init__(self, keys: list[bytes], context: bytes) -> None:
        super().__init__(keys, context)
        self.chunks = 1  # the part around all proofs
        self.log = Log()
        self.records: list[tuple] = []  # arguments of `verified`
        self.waiting = 0
        self.blocked = False

    def proved(self) -> Program:
        self.log.close(1)
        self.blocked = True
        while self.waiting or self.log.closed:
            yield
        self.blocked = False

    def run(self, program: Program) -> Any:
        result, done, running = None, False, []
        while True:
            fresh, again = running, True
            while again:
                if not done:
                    try:
                        next(program)
                    except StopIteration as end:
                        result, done = end.value, True
                self.log.close(1 if done else FULL)
                new = [prove(Part(self, 1), *closed) for closed in self.log.closed]
                self.log.closed.clear()
                self.waiting += len(new)
                pending = []
                for proof in [*fresh, *new]:
                    try:
                        next(proof)
                        pending.append(proof)
                    except StopIteration:
                        self.waiting -= 1
                running = [proof for proof in running if proof not in fresh] + pending
                # The program may have waited for the proofs.
                again, fresh = self.blocked and not done and not self.waiting, []
            if done and not running:
                return result
            self.deliver()
