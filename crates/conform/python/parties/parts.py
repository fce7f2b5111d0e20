"""Stages and parts, their turns, chunks, steps and draws, and the rounds that they share (spec, section 15e)."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Generator

import numpy
from primitives.crypto import Stream, le

# A program: it sends all messages of a round, then it yields.
Program = Generator[None, None, Any]
# The three shares of a vector, by their numbers.
Shares = list[numpy.ndarray]


class Parties:
    """The keys of the three parties, and hashes of what each of them receives."""

    def __init__(self, keys: list[bytes], context: bytes) -> None:
        self.keys = keys
        self.context = context
        self.chunks = 0
        self.rounds = 0
        self.messages: dict[tuple[int, int], list[bytes]] = {}
        self.hashes = [hashlib.sha256() for _ in keys]
        self.log = None  # statements, if the parties prove their messages

    def send(self, sender: int, receiver: int, data: bytes) -> None:
        self.messages.setdefault((sender % 3, receiver % 3), []).append(data)

    def run(self, program: Program) -> Any:
        """Runs a program to its end."""
        while True:
            try:
                next(program)
            except StopIteration as end:
                return end.value
            self.deliver()

    def deliver(self) -> None:
        """Ends a round. A party gets the data of the party before it first."""
        for receiver, received in enumerate(self.hashes):
            for sender in ((receiver - 1) % 3, (receiver + 1) % 3):
                received.update(b"".join(self.messages.get((sender, receiver), [])))
        self.messages.clear()
        self.rounds += 1

    def proved(self) -> Program:
        """Waits until all statements so far are proved."""
        yield from ()

    def received(self) -> list[str]:
        return [received.hexdigest() for received in self.hashes]


class Part:
    """A stage, or a part of one. Numbers of roles, shares and keys are relative to its turn."""

    def __init__(self, parties: Parties, stage: int, turn: int = 0) -> None:
        parties.chunks += 1
        self.parties = parties
        self.stage = stage
        self.turn = turn % 3
        self.chunk = parties.chunks
        self.steps = 0

    @property
    def log(self):
        return self.parties.log

    def part(self, turn: int) -> Part:
        """Returns a part of this part. It takes the next chunk number now."""
        return Part(self.parties, self.stage, self.turn + turn)

    def step(self) -> int:
        self.steps += 1
        return self.steps

    def stream(self, key: int, step: int) -> Stream:
        label = bytes([self.stage, self.turn]) + le(self.chunk, 4) + le(step, 4)
        return Stream(self.parties.keys[(key + self.turn) % 3], "shares", self.parties.context + label)

    def draw(self, key: int, step: int, like: numpy.ndarray) -> numpy.ndarray:
        """Draws as many words as a vector has, of the same size."""
        return numpy.frombuffer(self.stream(key, step).take(like.nbytes), like.dtype)

    def send(self, role: int, to: int, data: numpy.ndarray | bytes) -> None:
        self.parties.send(role + self.turn, to + self.turn, data if isinstance(data, bytes) else data.tobytes())

    def turned(self, shares: Shares) -> Shares:
        """Returns shares by the numbers of this part."""
        return [shares[(i + self.turn) % 3] for i in range(3)]

    def unturned(self, shares: Shares) -> Shares:
        """Returns shares of this part by their own numbers."""
        return [shares[(i - self.turn) % 3] for i in range(3)]


def together(programs: list[Program]) -> Program:
    """Runs programs in parallel, so that they share rounds. Returns their results."""
    results = [None] * len(programs)
    running = dict(enumerate(programs))
    while running:
        for place, program in list(running.items()):
            try:
                next(program)
            except StopIteration as end:
                results[place] = end.value
                del running[place]
        if running:
            yield
    return results


def thirds(items: int, unit: int) -> list[tuple[int, int]]:
    """Returns the first item of each third, and the end of the third."""
    size = -(-items // 3)
    size = -(-size // unit) * unit
    return [(start, min(items, start + size)) for start in range(0, items, size)]


def in_thirds(part: Part, items: int, unit: int, program: Callable[[Part, int, int], Program]) -> Program:
    """Runs a program for each third of the items, in parallel. Returns their results."""
    cuts = thirds(items, unit)
    parts = [part.part(turn) for turn in range(len(cuts))]
    return (yield from together([program(third, *cut) for third, cut in zip(parts, cuts)]))
