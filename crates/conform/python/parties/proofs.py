"""Proofs that each message is right: one by each party, all three side by side (spec, section 15e.1).

Each place of a proof uses only what its party knows. L and U need no prover: `Verifier` checks what they receive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

import numpy
from primitives.crypto import Stream, le

from .parts import Part, Parties, Program
from .rings import FIELD, LARGE_RING, SMALL_RING, Elements, corners, cube, numbers, value_at, weights_at

VARIABLES = 3  # variables of each step after the first
FOLD = 8  # groups of these steps
FULL = 2**18  # a batch is closed when one prover has this many words
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


def variables(ring, step: int, steps: int) -> int:
    return ring.variables if step == 0 else VARIABLES + (step + 1 == steps)


def steps_of(elements: int) -> int:
    steps = 2
    while elements > FOLD:
        elements, steps = -(-elements // FOLD), steps + 1
    return steps


class Place:
    """Knowledge of one party in a proof."""

    def __init__(self, ring, place: int, steps: int, batch: Batch, random: dict[str, Elements]) -> None:
        self.ring, self.place, self.steps, self.batch = ring, place, steps, batch
        self.random = random  # the element of a, of b, or of both in the random groups
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
        of = lambda statements: ring.total(numpy.stack([ring.zeros(1)[0], *map(self.word, statements)]))
        self.of_sums, self.later = of(self.sums), of(linear)

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
        count = 3**variables(ring, step, self.steps)
        values, of_sums = share[:count], share[count:]
        if step:
            # The random groups do not count.
            total = ring.total(corners(values, variables(ring, step, self.steps))[:FOLD])
        else:
            total = ring.total(ring.times(corners(values, ring.variables), self.sigma))
        self.differences.append(ring.minus(self.claim, total))
        if len(of_sums):
            self.differences.append(ring.minus(self.of_sums, ring.total(corners(of_sums, ring.variables))))
        self.share = share

    def groups(self, step: int, side: str) -> Elements:
        """Returns the groups of a vector, in the last step with the random groups."""
        ring, last, vector = self.ring, step + 1 == self.steps, self.vectors[side]
        columns = 1 if last else max(1, -(-len(vector) // FOLD))
        out = ring.zeros(FOLD * columns)
        out[:len(vector)] = vector
        out = out.reshape(FOLD, columns, *out.shape[1:])
        return numpy.concatenate([out, numpy.broadcast_to(self.random[side], out.shape)]) if last else out

    def fold(self, step: int, names: list[int]) -> None:
        """Continues with the claim and the vectors at a random point."""
        ring, count = self.ring, 3**variables(self.ring, step, self.steps)
        point = ring.exceptional(numpy.array(names, "<u8") & numpy.uint64(ring.mask))
        self.claim = value_at(ring, self.share[:count], point)
        weights = weights_at(ring, point)
        if step:
            for side in self.sides:
                self.vectors[side] = ring.folded_elements(self.groups(step, side), weights)
            return
        # No product has these powers. Without them, values of one kind could hide errors of another
        # kind.
        of_linear, of_sums = (ring.times(x, ring.times(x, x)) for x in point[:2])
        self.claim = ring.plus(self.claim, ring.times(of_linear, self.later))
        if len(self.share) > count:
            value = value_at(ring, self.share[count:], point)
            self.claim = ring.plus(self.claim, ring.times(of_sums, value))
        for side in self.sides:
            vector = ring.folded(self.factors[side], weights)
            linear, sums = self.linear[side], [ring.zeros(0)]
            for one in self.sums:
                words = grouped(getattr(one, side), ring.groups)
                if one.coins_first == (side == "a"):
                    sums.append(ring.folded_elements(ring.exceptional(words), weights))
                else:
                    sums.append(ring.folded_words(words, weights))
            sums = numpy.concatenate(sums)
            if side == "a":
                linear, sums = ring.times(linear, of_linear), ring.times(sums, of_sums)
            else:
                vector = ring.times(vector, ring.of_lanes(self.tau))
            self.vectors[side] = numpy.concatenate([vector, linear, sums])


class Prover(Place):
    def product(self, step: int, with_sums: bool) -> Elements:
        """Returns the values of the product of both polynomials, then those of the product of the coin sums."""
        ring = self.ring
        both = lambda a, b: (cube(ring, a), cube(ring, b))
        if step:
            return ring.inner(*both(self.groups(step, "a"), self.groups(step, "b")))
        values = ring.weighted(ring.word_product(*both(self.factors["a"], self.factors["b"])), self.tau)
        if not with_sums:
            return values
        of_sums = ring.zeros(len(values))
        for one in self.sums:
            coins, words = (one.a, one.b) if one.coins_first else (one.b, one.a)
            elements = ring.exceptional(grouped(coins, ring.groups))
            product = ring.inner_of_words(*both(elements, grouped(words, ring.groups)))
            of_sums = ring.plus(of_sums, product)
        return numpy.concatenate([values, of_sums])


class Verifier(Place):
    def shown(self) -> Elements:
        """Returns what L shows."""
        return numpy.stack([self.vectors["a"][0], self.claim, *self.differences])

    def accepts(self, shown: Elements) -> bool:
        """Returns whether U accepts L's last message."""
        ring = self.ring
        cancel = not ring.plus(shown[2:], numpy.stack(self.differences)).any()
        right = ring.times(shown[0], self.vectors["b"][0]) == ring.plus(shown[1], self.claim)
        return bool(cancel and numpy.all(right))


def verified(ring, batch: Batch, steps: int, seed: bytes, names: list[list[int]], shares: tuple[list, list],
             random: tuple[Elements, Elements]) -> bool:
    """Returns whether L and U accept a recorded proof: `shares` and `names` (of the coordinates of the point) of each
    step, and the elements of a and of b in the random groups."""
    lower = Verifier(ring, LOWER, steps, batch, {"a": random[0]})
    upper = Verifier(ring, UPPER, steps, batch, {"b": random[1]})
    for verifier, of_steps in zip((lower, upper), shares):
        verifier.begin(seed)
        for step, (share, point) in enumerate(zip(of_steps, names)):
            verifier.take(step, share)
            verifier.fold(step, point)
    return upper.accepts(lower.shown())


def prove(part: Part, ring, batches: list[Batch]) -> Program:
    """Proves the statements of all three parties, and verifies them."""
    steps = steps_of(max(batch.elements(ring) for batch in batches))
    with_sums = any(batch.sums for batch in batches)
    of_steps = [variables(ring, step, steps) for step in range(steps)]
    values = [3**count for count in of_steps]
    values[0] *= 1 + with_sums
    step = part.step()
    coins, names = [], []
    for prover in range(3):
        words = numbers(part.stream(prover + 2, step), 4 + 2 * sum(of_steps))
        coins.append(words[:4].tobytes())
        # A coordinate is not 0.
        drawn = [int(one if int(one) & ring.mask else two) for one, two in words[4:].reshape(-1, 2)]
        names.append([[drawn.pop(0) for _ in range(count)] for count in of_steps])
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
    written = lambda point: b"".join(le(name, 8) for name in point)
    told = lambda prover, at: coins[prover] if at == 0 else written(names[prover][at - 1])
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
            share = ring.minus(place.product(at, with_sums), mask)
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
        part.send(prover + 2, prover, written(names[prover][-1]))
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
