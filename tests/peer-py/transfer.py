"""Transfer of frozen slots and of values that must be finished (spec, section 14): as asker and as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decision import CHUNK, check_frozen, check_record, chunk_count, expect, sealed_digest, value_digest
from encoding import (Fetch, Head, HeldAccepted, HeldBare, HeldFrozen, Lacking, Piece, Transfer,
                      TransferCredit, WantAccepted)

if TYPE_CHECKING:
    from machine import Machine

WINDOW = 8


class Fetching:
    """What was asked of whom."""

    def __init__(self, slot: int, want: Any, peer: int, now: float) -> None:
        self.slot = slot
        self.want = want
        self.peer = peer
        self.progress = now
        self.head: Any = None
        self.pieces: list[bytes] = []


class Serving:
    """What is being sent to one peer."""

    def __init__(self, slot: int, total: bytes) -> None:
        self.slot = slot
        self.total = total
        self.count = chunk_count(len(total))
        self.sent = 0
        self.credited = 0


class Transfers:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.fetching: Fetching | None = None
        self.serving: dict[int, Serving] = {}
        self.served: dict[tuple[int, int], tuple[int, float]] = {}
        self.failures: dict[int, int] = {}
        self.not_before: dict[int, float] = {}
        self.pause = 0.0

    def send(self, to: int, body: Any) -> None:
        self.machine.send(to, Transfer(body))

    def receiving(self) -> bool:
        return self.fetching is not None and self.fetching.head is not None

    def peer_lost(self, peer: int) -> None:
        self.serving.pop(peer, None)
        if self.fetching is not None and self.fetching.peer == peer:
            self.failed()

    def view_ended(self) -> None:
        if self.fetching is not None and self.fetching.want != "Frozen":
            self.fetching = None

    # --- as asker

    def target(self) -> tuple[int, Any, list[int]] | None:
        """The slot that is lacking, what of it, and who may have it."""
        m = self.machine
        slot, view = len(m.frozen), m.view
        trusted = m.trusted()
        if slot == len(m.session.plan):
            return None
        having = [p for p in trusted if m.known[p] > slot]
        owed = m.owed()
        if owed is not None:
            most, accepted, who = owed
            if slot < most:
                promised = [a for a, p in m.proposal.promises.items() if p.item.promise.frozen > slot]
                return slot, "Frozen", [p for p in {*having, *promised} if p in trusted]
            if accepted is not None and slot == most and m.candidate(accepted.value) is None:
                return slot, WantAccepted(accepted.value), [p for p in who if p in trusted]
            return None
        if view is not None:
            if slot < view.first or slot < view.slot:
                leader = [view.leader] if slot < view.first and view.leader in trusted else []
                return slot, "Frozen", sorted({*having, *leader})
            if view.accepting and view.total is None and view.slot == slot:
                return slot, WantAccepted(value_digest(m.session, view.record.value)), [view.leader]
            return None
        return (slot, "Frozen", having) if having else None

    def advance(self) -> None:
        m = self.machine
        fetching, target = self.fetching, self.target()
        if fetching is not None:
            if target is None or (fetching.slot, fetching.want) != target[:2]:
                self.fetching = None
            elif m.now - fetching.progress > m.seconds("stall_ms"):
                self.failed()
        if self.fetching is not None or target is None or m.now < self.pause:
            return
        slot, want, peers = target
        peers = [p for p in peers if p != m.me and m.now >= self.not_before.get(p, 0.0)]
        if peers:
            peer = min(peers, key=lambda p: (self.failures.get(p, 0), p))
            self.fetching = Fetching(slot, want, peer, m.now)
            self.send(peer, Fetch(slot, want))

    def failed(self) -> None:
        m, peer = self.machine, self.fetching.peer
        self.fetching = None
        k = self.failures[peer] = self.failures.get(peer, 0) + 1
        self.not_before[peer] = m.now + 0.1 * 2 ** min(k, 16)
        self.pause = m.now + 0.1
        if m.proposal is not None and m.owed() is not None:
            if k <= 2:
                m.idle_since = m.now + 0.1
            m.proposal = None

    def on_message(self, peer: int, body: Any) -> None:
        if isinstance(body, Fetch):
            self.on_fetch(peer, body)
        elif isinstance(body, TransferCredit):
            self.on_credit(peer, body)
        elif isinstance(body, Lacking):
            self.on_lacking(peer, body)
        elif isinstance(body, Head):
            self.on_head(peer, body)
        elif isinstance(body, Piece):
            self.on_piece(peer, body)

    def on_lacking(self, peer: int, body: Lacking) -> None:
        fetching = self.fetching
        if fetching is None or (fetching.peer, fetching.slot) != (peer, body.slot):
            return
        said = fetching.want == "Frozen" and self.machine.known.get(peer, 0) > body.slot
        expect(not said, "out-of-order", "lacking what it has said that it has")
        self.failed()

    def on_head(self, peer: int, body: Head) -> None:
        fetching, m = self.fetching, self.machine
        if fetching is None or (fetching.peer, fetching.slot) != (peer, body.slot) or fetching.head:
            return
        held = body.held
        if fetching.want == "Frozen":
            if isinstance(held, HeldAccepted):
                return
            expect(not isinstance(held, HeldBare), "bad-record", "a vector that is needed was dropped")
            check_frozen(m.session, held.frozen, body.slot)
            fetching.head = held.frozen
        else:
            if not isinstance(held, HeldAccepted):
                return
            if value_digest(m.session, held.record.value) != fetching.want.digest:
                return
            expect(held.record.value.sum.slot == body.slot, "bad-record", "another slot")
            check_record(m.session, held.record)
            fetching.head = held.record
        fetching.progress = m.now
        self.complete()

    def on_piece(self, peer: int, body: Piece) -> None:
        fetching, m = self.fetching, self.machine
        if fetching is None or fetching.peer != peer or fetching.slot != body.slot or fetching.head is None:
            return
        if body.index != len(fetching.pieces):
            return
        size = min(CHUNK, m.session.plan[body.slot].length - body.index * CHUNK)
        expect(len(body.data) == size, "inconsistent", "a piece of another length")
        fetching.pieces.append(body.data)
        fetching.progress = m.now
        self.send(peer, TransferCredit(body.slot, body.index))
        self.complete()

    def complete(self) -> None:
        fetching, m = self.fetching, self.machine
        length = m.session.plan[fetching.slot].length
        if len(fetching.pieces) < chunk_count(length):
            return
        total, head = b"".join(fetching.pieces), fetching.head
        record = head.record if fetching.want == "Frozen" else head
        expect(sealed_digest(m.session, record, total) == record.value.total, "bad-record", "another total")
        self.fetching = None
        if fetching.want == "Frozen":
            m.freeze(head, total)
        else:
            m.keep_candidate(record, total)

    # --- as asked

    def on_fetch(self, peer: int, body: Fetch) -> None:
        m = self.machine
        expect(body.slot < len(m.session.plan), "inconsistent", "no such slot")
        count, last = self.served.get((peer, body.slot), (0, 0.0))
        if count >= 4 and m.now - last < m.seconds("stall_ms") * 2 ** min(count - 4, 8):
            return
        self.serving.pop(peer, None)
        if body.want == "Frozen":
            if body.slot >= len(m.frozen):
                self.send(peer, Lacking(body.slot))
                return
            frozen, total = m.frozen[body.slot]
            held = HeldFrozen(frozen)
        else:
            found = m.candidate(body.want.digest)
            if found is None or body.slot < len(m.frozen) or found[0].value.sum.slot != body.slot:
                self.send(peer, Lacking(body.slot))
                return
            held, total = HeldAccepted(found[0]), found[1]
        self.served[peer, body.slot] = (count + 1, m.now)
        self.send(peer, Head(body.slot, held))
        self.serving[peer] = Serving(body.slot, total)
        self.pump(peer)

    def pump(self, peer: int) -> None:
        serving = self.serving[peer]
        while serving.sent < min(serving.count, serving.credited + min(WINDOW, serving.credited + 1)):
            start = serving.sent * CHUNK
            self.send(peer, Piece(serving.slot, serving.sent, serving.total[start:start + CHUNK]))
            serving.sent += 1
        if serving.credited == serving.count:
            del self.serving[peer]

    def on_credit(self, peer: int, body: TransferCredit) -> None:
        serving = self.serving.get(peer)
        if serving is None or serving.slot != body.slot or serving.credited >= serving.sent:
            return
        if body.index != serving.credited:
            return
        serving.credited += 1
        self.pump(peer)
