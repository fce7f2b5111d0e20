"""Transfer of committed slots and of values that must be finished (spec, section 14), on both sides."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from primitives.decision import CHUNK, check_committed, check_record, chunk_count, expect, sealed_digest, value_digest
from primitives.encoding import Held, Message, TransferMessage, Want

if TYPE_CHECKING:
    from machine import Machine

WINDOW = 8


@dataclass
class Fetching:
    """A transfer that this peer has asked for."""

    slot: int
    want: Any
    peer: int
    progress: float  # time of the last progress
    head: Any = None
    pieces: list[bytes] = field(default_factory=list)


@dataclass
class Serving:
    """A transfer to one peer."""

    slot: int
    total: bytes
    sent: int = 0
    credited: int = 0


class Transfers:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.fetching: Fetching | None = None
        self.serving: dict[int, Serving] = {}
        self.served: dict[tuple[int, int], tuple[int, float]] = {}
        self.failures: Counter[int] = Counter()
        self.not_before: dict[int, float] = {}
        self.pause = 0.0

    def send(self, to: int, body: Any) -> None:
        self.machine.send(to, Message.Transfer(body))

    def wanting(self) -> bool:
        return self.fetching is not None or self.target() is not None

    def receiving(self) -> bool:
        return self.fetching is not None and self.fetching.head is not None

    def peer_lost(self, peer: int) -> None:
        self.serving.pop(peer, None)
        if self.asked(peer):
            self.failed()

    def view_ended(self) -> None:
        if self.fetching is not None and self.fetching.want != Want.Committed:
            self.fetching = None

    def on_message(self, peer: int, body: Any) -> None:
        """Passes a message to the method for its kind."""
        getattr(self, f"on_{type(body).__name__.lower()}")(peer, body)

    # --- as the asking peer

    def asked(self, peer: int, slot: int | None = None) -> bool:
        """Returns whether this peer is fetching from `peer`, and the slot if one is given."""
        fetching = self.fetching
        return fetching is not None and fetching.peer == peer and slot in (None, fetching.slot)

    def target(self) -> tuple[int, Any, list[int]] | None:
        """Returns the slot to fetch, the wanted content, and the peers that may have it; None for no slot."""
        m = self.machine
        slot, view, owed, trusted = len(m.committed), m.view, m.proposer.owed(), m.trusted()
        having = [p for p in trusted if m.known[p] > slot]
        if slot == len(m.session.plan):
            return None
        if owed is not None:
            most, accepted, who = owed
            if slot < most:
                promises = m.proposer.proposal.promises
                promised = [a for a, p in promises.items() if p.item.promise.committed > slot]
                return slot, Want.Committed, [p for p in {*having, *promised} if p in trusted]
            if accepted is not None and slot == most and accepted.value not in m.candidates:
                return slot, Want.Accepted(accepted.value), [p for p in who if p in trusted]
            return None
        if view is not None:
            if slot < max(view.owed_slot, view.slot):
                leader = {view.leader} & trusted if slot < view.owed_slot else set()
                return slot, Want.Committed, sorted({*having, *leader})
            if view.accepting and view.total is None and view.slot == slot:
                source = view.leader if view.leader in trusted else view.parent
                return slot, Want.Accepted(value_digest(m.session, view.record.value)), [source]
            return None
        return (slot, Want.Committed, having) if having else None

    def advance(self) -> None:
        m = self.machine
        fetching, target = self.fetching, self.target()
        if fetching is not None:
            if target is None or (fetching.slot, fetching.want) != target[:2]:
                self.fetching = None
            elif m.now - fetching.progress > m.seconds("view_timeout_ms"):
                self.failed()
        if self.fetching is not None or target is None or m.now < self.pause:
            return
        slot, want, peers = target
        peers = [p for p in peers if p != m.me and m.now >= self.not_before.get(p, 0.0)]
        if peers:
            peer = min(peers, key=lambda p: (self.failures[p], p))
            self.fetching = Fetching(slot, want, peer, m.now)
            self.send(peer, TransferMessage.Fetch(slot, want))

    def failed(self) -> None:
        m, peer = self.machine, self.fetching.peer
        self.fetching = None
        self.failures[peer] += 1
        k = self.failures[peer]
        self.not_before[peer] = m.now + 0.1 * 2 ** min(k, 16)
        self.pause = m.now + 0.1
        if m.proposer.owed() is not None:
            m.proposer.withdraw()
            if k <= 2:
                m.proposer.idle_since = m.now + 0.1

    def on_lacking(self, peer: int, body: Any) -> None:
        if self.asked(peer, body.slot):
            said = self.fetching.want == Want.Committed and self.machine.known[peer] > body.slot
            expect(not said, "out-of-order", "lacking a slot that it claimed to have")
            self.failed()

    def on_head(self, peer: int, body: Any) -> None:
        fetching, session, held = self.fetching, self.machine.session, body.held
        if not self.asked(peer, body.slot) or fetching.head is not None:
            return
        if (fetching.want == Want.Committed) == isinstance(held, Held.Accepted):
            return  # a late answer to another question
        if fetching.want == Want.Committed:
            expect(isinstance(held, Held.Committed), "bad-record", "a vector that is needed was dropped")
            check_committed(session, held.committed, body.slot)
        else:
            if value_digest(session, held.record.value) != fetching.want.digest:
                return
            expect(held.record.value.sum.slot == body.slot, "bad-record", "another slot")
            check_record(session, held.record)
        fetching.head = held
        fetching.progress = self.machine.now
        self.complete()

    def on_piece(self, peer: int, body: Any) -> None:
        fetching, plan = self.fetching, self.machine.session.plan
        if not self.asked(peer, body.slot) or fetching.head is None or body.index != len(fetching.pieces):
            return
        size = min(CHUNK, plan[body.slot].length - body.index * CHUNK)
        expect(len(body.data) == size, "inconsistent", "a piece of a wrong length")
        fetching.pieces.append(body.data)
        fetching.progress = self.machine.now
        self.send(peer, TransferMessage.Credit(body.slot, body.index))
        self.complete()

    def complete(self) -> None:
        """Uses the fetched content when all pieces have arrived."""
        fetching, m = self.fetching, self.machine
        if len(fetching.pieces) < chunk_count(m.session.plan[fetching.slot].length):
            return
        total = b"".join(fetching.pieces)
        whole = isinstance(fetching.head, Held.Committed)
        record = fetching.head.committed.record if whole else fetching.head.record
        expect(sealed_digest(m.session, record, total) == record.value.total, "bad-record", "another total")
        self.fetching = None
        if whole:
            m.commit(fetching.head.committed, total)
        else:
            m.keep_candidate(record, total)

    # --- as the asked peer

    def on_fetch(self, peer: int, body: Any) -> None:
        m, slot = self.machine, body.slot
        expect(slot < len(m.session.plan), "inconsistent", "no such slot")
        count, last = self.served.get((peer, slot), (0, 0.0))
        if count >= 4 and m.now - last < m.seconds("view_timeout_ms") * 2 ** min(count - 4, 8):
            return
        self.serving.pop(peer, None)
        held, total = None, b""
        if body.want == Want.Committed:
            if slot < len(m.committed):
                committed, total = m.committed[slot]
                held = Held.Committed(committed)
        elif slot >= len(m.committed) and body.want.digest in m.candidates:
            record, total = m.candidates[body.want.digest]
            held = Held.Accepted(record) if record.value.sum.slot == slot else None
        if held is None:
            self.send(peer, TransferMessage.Lacking(slot))
            return
        self.served[peer, slot] = (count + 1, m.now)
        self.send(peer, TransferMessage.Head(slot, held))
        self.serving[peer] = Serving(slot, total)
        self.pump(peer)

    def pump(self, peer: int) -> None:
        serving = self.serving[peer]
        count = chunk_count(len(serving.total))
        while serving.sent < min(count, serving.credited + min(WINDOW, serving.credited + 1)):
            start = serving.sent * CHUNK
            piece = serving.total[start:start + CHUNK]
            self.send(peer, TransferMessage.Piece(serving.slot, serving.sent, piece))
            serving.sent += 1
        if serving.credited == count:
            del self.serving[peer]

    def on_credit(self, peer: int, body: Any) -> None:
        serving = self.serving.get(peer)
        if serving is None or serving.slot != body.slot:
            return
        if body.index == serving.credited < serving.sent:
            serving.credited += 1
            self.pump(peer)
