"""The all-reduce of a view (spec, section 13): masked chunks go up and are added, the total comes down."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primitives.crypto import add_mask, add_words, sum_bytes
from primitives.decision import CHUNK, chunk_count, expect
from primitives.encoding import Direction, ReduceMessage, SumId, ViewMessage

if TYPE_CHECKING:
    from view import View

WINDOW = 8
CREDIT_EVERY = 4


@dataclass
class Edge:
    """Numbers of chunks that passed between this member and a neighbour."""

    sent: int = 0
    acked: int = 0     # chunks of `sent` that the neighbour has credited
    taken: int = 0
    credited: int = 0  # chunks of `taken` that were credited to the neighbour


class Reduction:
    """One member's part in an all-reduce (section 13)."""

    def __init__(self, view: View, slot: int) -> None:
        self.view = view
        what = view.session.plan[slot]
        self.bits = 8 * what.word
        self.length = what.length
        self.count = chunk_count(self.length)
        self.sum_id = SumId(view.ballot, slot)
        self.started = False
        self.own: dict[int, bytes] = {}   # own masked chunks
        self.sums: dict[int, bytes] = {}  # sums of the children's chunks
        self.added = 0  # chunks summed over the subtree and sent to the parent
        self.total: list[bytes] = []
        self.edges = {peer: Edge() for peer in view.neighbours}

    def start(self, vector: bytes) -> None:
        self.started = True
        if self.count == 0:
            self.view.summed()
        for index in range(self.count):
            part = vector[index * CHUNK:(index + 1) * CHUNK]
            self.view.job(functools.partial(self.mask, index, part), functools.partial(self.masked, index))
        self.pump()

    def mask(self, index: int, chunk: bytes) -> bytes:
        view, params = self.view, sum_bytes(self.sum_id)
        for peer, key in view.pairs.items():
            sign = 1 if peer > view.machine.me else -1
            chunk = add_mask(self.bits, chunk, sign, key, "mask", params, index * CHUNK)
        if view.pad is not None:
            chunk = add_mask(self.bits, chunk, 1, view.pad, "pad", params, index * CHUNK)
        return chunk

    def masked(self, index: int, chunk: bytes) -> None:
        self.own[index] = chunk
        self.pump()

    def pump(self) -> None:
        """Sends all chunks and credits that can be sent now."""
        view, parent = self.view, self.view.parent
        if view.reduction is not self:
            return
        while (i := self.added) in self.own and all(self.edges[child].taken > i for child in view.children):
            if parent is not None and i - self.edges[parent].acked >= WINDOW:
                break
            chunk = self.added_to(self.sums.pop(i, None), self.own.pop(i))
            self.added += 1
            if parent is None:
                self.total.append(chunk)
                self.look_whole()
            else:
                self.send_chunk(parent, Direction.Up, chunk)
        for child in view.children:
            edge = self.edges[child]
            while edge.sent < min(len(self.total), edge.acked + WINDOW):
                self.send_chunk(child, Direction.Down, self.total[edge.sent])
        for peer, edge in self.edges.items():
            direction = Direction.Down if peer == parent else Direction.Up
            ready = min(edge.taken, self.added + WINDOW)
            if ready - edge.credited >= CREDIT_EVERY:
                edge.credited = ready
                self.send(peer, ReduceMessage.Credit(self.sum_id, direction, ready - 1))
        passed_on = [self.edges[child].sent for child in view.children]
        if self.started and min([len(self.total), *passed_on]) == self.count:
            view.total_held()

    def added_to(self, chunk: bytes | None, other: bytes) -> bytes:
        return other if chunk is None else add_words(self.bits, chunk, other)

    def look_whole(self) -> None:
        if len(self.total) == self.count:
            self.view.summed()

    def send_chunk(self, to: int, direction: Direction, chunk: bytes) -> None:
        edge = self.edges[to]
        self.send(to, ReduceMessage.Chunk(self.sum_id, direction, edge.sent, chunk))
        edge.sent += 1

    def send(self, to: int, message: Any) -> None:
        self.view.send(to, ViewMessage.Reduce(message))

    def on_chunk(self, sender: int, message: Any) -> None:
        i, data, edge = message.index, message.data, self.edges[sender]
        upward = message.direction == Direction.Up
        expect(upward == (sender != self.view.parent), "out-of-order", "a chunk from the wrong side")
        end = self.count if upward else self.added
        expect(i == edge.taken and i < end, "out-of-order", "a chunk that is not the next one")
        size = min(CHUNK, self.length - i * CHUNK)
        expect(len(data) == size, "inconsistent", "a chunk of a wrong length")
        edge.taken += 1
        if upward:
            expect(i - edge.credited < WINDOW, "out-of-order", "a chunk without credit")
            self.sums[i] = self.added_to(self.sums.get(i), data)
        else:
            self.total.append(data)
            self.look_whole()
        self.pump()

    def on_credit(self, sender: int, message: Any) -> None:
        edge, upward = self.edges[sender], message.direction == Direction.Up
        good = upward == (sender == self.view.parent) and edge.acked <= message.index < edge.sent
        expect(good, "out-of-order", "credit for a chunk that was not sent")
        edge.acked = message.index + 1
        self.pump()
