"""A view without input and output: tree, keys, sums, decisions (spec, sections 9 to 13).

One class serves the leader, inner nodes and leaves: the leader acts on its own orders like every member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from primitives.crypto import CryptoError, agreement_key, exchange_public, tagged, total_digest
from primitives.decision import (
    Fault,
    check_record,
    chunk_count,
    deal_is_sound,
    deals_digest,
    decides,
    expect,
    has_lengths,
    is_signed,
    misdealers,
    obligation,
    pads_of,
    release_fits,
    release_matches,
    value_digest,
    verifies,
)
from primitives.encoding import (
    Acknowledgement,
    Committed,
    Message,
    Order,
    Reason,
    Record,
    Report,
    Signed,
    SumId,
    Value,
    ViewKey,
    ViewMessage,
    canonical,
)
from primitives.members import known_at, marks_of
from primitives.sharing import make_deal, make_release
from reduction import Reduction

if TYPE_CHECKING:
    from machine import Machine

NO_VALUE = bytes(32)  # value that a member without a vote acknowledges


class EndView(Exception):
    """End of the view at this member. Its arguments are the reason, the suspect or None, and a text."""


def disagree(good: bool, text: str, child: int | None = None) -> None:
    """Unless `good`, ends the view and names the parent, or `child` if given."""
    if not good:
        raise EndView(Reason.Disagreement, child, text)


@dataclass
class Round:
    """Reports of one kind for one slot."""

    awaited: set[int]  # children and this member
    items: list[Signed] = field(default_factory=list)


class View:
    def __init__(self, machine: Machine, begin: Signed, parents: dict[int, int | None]) -> None:
        self.machine = machine
        self.session = session = machine.session
        self.begin = begin
        self.ballot, promises = begin.item
        self.parents = parents
        self.members = sorted(parents)
        self.leader = self.ballot.proposer
        self.owed_slot, self.owed, _ = obligation(promises)
        units = known_at(len(session.roster), {m for p in promises for m in marks_of(p.item.marks)}, self.owed_slot)
        self.apart = {(p, unit[1]) for p, of in units.items() for unit in of}
        self.parent = parents[machine.me]
        self.leading = self.parent is None
        self.children = [p for p, above in parents.items() if above == machine.me]
        self.below = {child: self.subtree(child) for child in self.children}
        self.neighbours = {*self.children, *([] if self.leading else [self.parent])}
        depths: dict[int, int] = {}
        for peer, above in parents.items():
            depths[peer] = 0 if above is None else depths[above] + 1
        self.height, self.depth = max(depths.values()), depths[machine.me]
        self.waiting_children: dict[int, float] = {}  # children not yet greeted, with the time limit
        self.begun = self.looked = self.job_since = self.since = machine.now
        self.heard = {peer: machine.now for peer in self.neighbours}
        self.budget, self.level = 0.0, machine.seconds("view_timeout_ms") + 2.0
        self.keys_below: list[Signed] = []
        self.jobs = 0

        self.beginning = tagged("begun", canonical("Begun", begin.item))
        self.secret = machine.draw(32)
        self.own_key = machine.sign(ViewKey(self.ballot, self.beginning, exchange_public(self.secret), None))
        self.keys_below.append(self.own_key)
        self.rounds: dict[tuple[str, int], Round] = {}
        self.wait_for("Keys", -1)
        self.pairs: dict[int, bytes] | None = None  # k_ij
        self.acks: list[Signed] = []
        self.committed_one = False
        self.opened = -1  # last slot that this view has opened
        self.new_slot(-1)

    def new_slot(self, slot: int) -> None:
        self.slot = slot  # current slot
        self.reduction: Reduction | None = None
        self.computing = False
        self.pad: bytes | None = None
        self.deal: Signed | None = None
        self.total: bytes | None = None
        self.child_totals: dict[int, bytes] = {}
        self.record: Record | None = None  # record of the order to accept
        self.accepting = False             # True while that record is not processed
        self.acknowledged = False

    def subtree(self, top: int) -> set[int]:
        found = {top}
        for peer, above in self.parents.items():  # each after its parent
            if above in found:
                found.add(peer)
        return found

    def slot_now(self) -> int:
        """Returns the current slot, or the first slot of the view if no sum has started."""
        return self.owed_slot if self.slot < 0 else self.slot

    def concerns(self, author: int, suspect: int, slot: int) -> bool:
        """Returns whether a failure by `author` that names `suspect` counts (section 9, *End*)."""
        if author == suspect or suspect not in self.parents or abs(slot - self.slot_now()) > 1:
            return False
        near = self.parents[author] == suspect or self.parents[suspect] == author
        both = {author, suspect} <= set(self.session.committee)
        return near or (author, suspect) not in self.apart and (self.leader in (author, suspect) or both)

    def send(self, to: int, body: Any) -> None:
        self.machine.send(to, Message.View(body))

    def job(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        if self.jobs == 0:
            self.job_since = self.machine.now
        self.jobs += 1

        def done(result: Any) -> None:
            if self.machine.view is self:
                self.jobs -= 1
                then(result)

        self.machine.driver.compute(run, done)

    # --- begin

    def peer_greeted(self, peer: int) -> None:
        if self.waiting_children.pop(peer, None) is not None:
            self.machine.send(peer, Message.Begin(self.begin))
            self.heard[peer] = self.machine.now

    # --- reports

    def wait_for(self, kind: str, slot: int) -> None:
        self.rounds[kind, slot] = Round({*self.children, self.machine.me})

    def own_part(self, kind: str, slot: int, item: Signed | None) -> None:
        """Records that this member has followed an order. Its own item comes first in its report."""
        self.rounds[kind, slot].items[:0] = [] if item is None else [item]
        self.reported(kind, slot, self.machine.me)

    def reported(self, kind: str, slot: int, member: int) -> None:
        """Notes a report. After the last one the member reports, and the leader gives the next order."""
        this = self.rounds[kind, slot]
        this.awaited.remove(member)
        if this.awaited:
            return
        if not self.leading:
            parts = {"Keys": [], "TotalReady": [slot, self.total_digest()]}.get(kind, [slot])
            self.send(self.parent, ViewMessage.Up(self.ballot, getattr(Report, kind)(*parts, this.items)))
        elif kind == "Keys":
            self.order_down(Order.Keys(this.items))
        elif kind == "TotalReady":
            deals = sorted(this.items, key=lambda deal: self.session.committee.index(deal.author))
            value = Value(SumId(self.ballot, slot), self.members, self.total_digest(), deals_digest(deals))
            self.order_down(Order.Accept(Record(value, deals)))
        elif kind == "Acknowledge":
            self.order_down(Order.Decide(slot, [a for a in this.items if a.item.value != NO_VALUE]))
        else:
            self.order_down(Order.Open(slot, this.items))

    def total_digest(self) -> bytes | None:
        if self.total is None:
            return None
        return total_digest(self.session.id, SumId(self.ballot, self.slot), self.total)

    def on_report(self, sender: int, report: Any) -> None:
        kind, slot = type(report).__name__, getattr(report, "slot", -1)
        if kind == "Reveal":
            expect(self.pairs is not None, "out-of-order", "a draw in a view without one")
            return
        if kind != "Keys" and slot < self.slot:
            return
        items = report[-1]
        authors: set[int] = set()
        for item in items:
            good = (item.author in self.below[sender] and item.author not in authors
                    and has_lengths(self.session, item.item) and self.item_fits(kind, slot, item))
            expect(good, "inconsistent", f"an item of the report {kind} does not fit")
            expect(is_signed(self.session, item), "bad-signature", f"an item of the report {kind}")
            if kind == "TotalReady" and not deal_is_sound(self.session, item):
                for dealer in set(misdealers(self.session, items)) - {sender}:
                    self.machine.blame(dealer, "bad-deal", "dealt bad shares of a pad")
                raise Fault("bad-deal", "a deal that is not sound")
            authors.add(item.author)
        missing = self.due(kind, slot, self.below[sender]) - authors
        expect(not missing, "inconsistent", f"a report {kind} that leaves items out")
        this = self.rounds.get((kind, slot))
        expect(this is not None and sender in this.awaited, "out-of-order", f"a report {kind} not awaited")
        this.items += items
        if kind == "Keys":
            self.keys_below += items
        if kind == "TotalReady":
            self.child_totals[sender] = report.total
            self.compare_totals()
        self.reported(kind, slot, sender)

    def due(self, kind: str, slot: int, below: set[int]) -> set[int]:
        """Returns the members below that must have an item in a complete report."""
        if kind == "Keys":
            return below
        if kind == "TotalReady":
            return below & set(self.session.dealers(slot, self.members))
        if kind == "Acknowledge":
            return below & set(self.session.committee)
        hidden = self.record is not None and self.record.deals
        return below & {a.author for a in self.acks} if hidden else set()

    def item_fits(self, kind: str, slot: int, signed: Signed) -> bool:
        session, item = self.session, signed.item
        if kind == "Keys":
            return (item.ballot, item.begun) == (self.ballot, self.beginning) and item.commitment is None
        if kind == "TotalReady":
            return (item.sum == SumId(self.ballot, slot) and slot < len(session.plan)
                    and signed.author in session.dealers(slot, self.members))
        if kind == "Acknowledge":
            ordered = self.record is not None and item.value == value_digest(session, self.record.value)
            good = (ordered or item.value == NO_VALUE) and item[:2] == (self.ballot, slot)
            return good and signed.author in session.committee
        return self.record is not None and release_fits(session, self.record, signed)

    def compare_totals(self) -> None:
        mine = self.total_digest()
        for child, total in self.child_totals.items():
            disagree(mine is None or total == mine, "totals differ", child)

    # --- orders

    def order_too_long(self, order: Any) -> bool:
        """Returns whether a list of the order is too long (section 9). Called before it is passed on."""
        session, kind = self.session, type(order).__name__
        peers, c = len(session.roster), len(session.committee)
        if kind == "Sum":
            return False
        items = order.record.deals if kind == "Accept" else order[-1]
        return (len(items) > (peers if kind == "Keys" else c)
                or kind == "Accept" and len(order.record.value.members) > peers
                or not all(has_lengths(session, signed.item) for signed in items))

    def order_down(self, order: Any) -> None:
        """Acts on an order, by the method for its kind, and passes it on if it can be followed. A `Sum` is
        passed on when this member has the slots below it."""
        kind = type(order).__name__
        self.ordered(kind, order)
        self.held = order
        self.holding = kind == "Sum"
        getattr(self, f"on_{kind.lower()}")(order)
        if not self.holding:
            self.pass_on()

    def pass_on(self) -> None:
        order, self.held = self.held, None
        if order is not None:
            for child in self.children:
                self.send(child, ViewMessage.Down(self.ballot, order))

    def on_reveal(self, order: Any) -> None:
        disagree(False, "a draw in a view without one")

    def on_keys(self, order: Any) -> None:
        machine, session, keys = self.machine, self.session, order.items
        disagree(self.pairs is None, "keys twice")
        disagree(sorted(k.author for k in keys) == self.members, "keys do not match the members")
        disagree(all(key in keys for key in self.keys_below), "a key of this subtree was changed")
        others = [k for k in keys if k != self.own_key]
        disagree(all(self.item_fits("Keys", -1, k) and verifies(session, k) for k in others), "other keys")
        self.pairs = {}
        for key in others:
            try:
                self.pairs[key.author] = agreement_key(
                    session.id, self.ballot, self.secret, key.item.public, session.roster[machine.me],
                    session.roster[key.author])
            except CryptoError:
                raise Fault("low-order-key", "a view key", key.author) from None
        machine.keep_keys(keys)
        self.pass_on()
        self.next_order()

    def next_order(self) -> None:
        """Starts the next slot, at the leader (section 9)."""
        machine, slot = self.machine, len(self.machine.committed)
        if not self.leading or slot == len(self.session.plan):
            return
        waiting = [p for p in machine.trusted() - set(self.members) if machine.known[p] >= slot - 1]
        if self.committed_one and waiting and machine.now - self.begun >= machine.seconds("regroup_interval_ms"):
            raise EndView(Reason.Ended, None, "peers wait outside")
        if self.owed is not None and slot == self.owed_slot:
            self.order_down(Order.Accept(machine.candidates[self.owed.value][0]))
        else:
            self.look_at_crowd(slot)
            self.order_down(Order.Sum(slot))

    def look_at_crowd(self, slot: int) -> None:
        disagree(self.machine.may_sum(slot, set(self.members)), "too few members for this sum")

    def on_sum(self, order: Any) -> None:
        slot = order.slot
        disagree(self.pairs is not None, "a sum before the keys")
        disagree(self.slot < slot < len(self.session.plan), "slots out of order")
        disagree(self.opened == self.slot, "a sum before the current slot is opened")
        disagree(slot >= self.owed_slot, "a sum of a slot that is committed")
        disagree(slot > self.owed_slot or self.owed is None, "a value must be finished first")
        disagree(slot >= len(self.machine.committed), "this peer has already committed the slot")
        self.new_slot(slot)
        self.reduction = Reduction(self, slot)
        self.wait_for("TotalReady", slot)
        self.advance()

    def advance(self) -> None:
        """Continues work that waited for earlier slots or their opening."""
        machine = self.machine
        if self.slot != len(machine.committed) or self.slot > len(machine.opened):
            return
        reduction, slot = self.reduction, self.slot
        if reduction is not None and not self.computing:
            self.look_at_crowd(slot)
            self.holding = False
            self.pass_on()
            self.computing = True
            if machine.me in self.session.dealers(slot, self.members):
                self.pad, deal = make_deal(
                    self.session.id, reduction.sum_id, machine.me, self.session.committee_keys(),
                    self.session.quorum, machine.draw)
                self.deal = machine.sign(deal)
            opened = dict(machine.opened)
            self.job(lambda: machine.task.vector(slot, opened), reduction.start)
        if self.accepting:
            self.try_accept()

    def total_held(self) -> None:
        if self.total is None:
            self.total = b"".join(self.reduction.total)
            self.compare_totals()
            self.own_part("TotalReady", self.slot, self.deal)

    def on_accept(self, order: Any) -> None:
        record, value = order.record, order.record.value
        slot = value.sum.slot
        disagree(self.pairs is not None and (self.record is None or slot != self.slot), "accept out of order")
        try:
            check_record(self.session, record)
        except Fault as fault:
            liars = misdealers(self.session, record.deals)
            if liars:
                raise Fault("bad-deal", "dealt bad shares of a pad", liars[0]) from None
            disagree(False, str(fault))
        disagree(slot >= self.owed_slot, "a value of a slot that is committed")
        owed = self.owed if slot == self.owed_slot else None
        if value.sum.ballot == self.ballot:
            disagree(owed is None, "another value must be finished")
            good = slot == self.slot and value.members == self.members and self.total is not None
            disagree(good and value.total == self.total_digest(), "not the value that was summed here")
        else:
            disagree(owed is not None and owed.value == value_digest(self.session, value),
                     "a value of another view")
            disagree(value.sum.ballot < self.ballot and slot > self.slot, "a value of a later view")
            self.new_slot(slot)
        self.record = record
        self.accepting = True
        self.wait_for("Acknowledge", slot)
        self.try_accept()

    def try_accept(self) -> None:
        machine, session = self.machine, self.session
        slot, digest = self.slot, value_digest(session, self.record.value)
        if slot > len(machine.committed):
            return
        done = None
        if slot < len(machine.committed):
            done = value_digest(session, machine.committed[slot].committed.record.value)
            disagree(done == digest, "this peer has committed another value")
            self.total = b""
        elif self.total is None:
            if digest not in machine.candidates:
                return  # the machine fetches the total from the leader
            self.total = machine.candidates[digest][1]
        self.accepting = False
        # A member may have promised a later view that has not begun. It then takes part in this view
        # without a vote.
        free = done is not None or machine.promised <= self.ballot
        votes = machine.in_committee and not machine.lost_state and free
        if votes:
            released = machine.released
            good = done is not None or released is None or released.slot != slot or released.value == digest
            disagree(good, "released otherwise")
        ack = None
        if machine.in_committee:
            ack = machine.sign(Acknowledgement(self.ballot, slot, digest if votes else NO_VALUE))
        if votes:
            if done is None:
                machine.accept(self.ballot, self.record, self.total)
            self.acknowledged = True
        elif done is None:
            machine.keep_candidate(self.record, self.total)
        self.own_part("Acknowledge", slot, ack)

    def on_decide(self, order: Any) -> None:
        machine, slot = self.machine, order.slot
        disagree(self.record is not None and slot == self.slot, "a decision out of order")
        disagree(("Release", slot) not in self.rounds, "a decision twice")
        digest = value_digest(self.session, self.record.value)
        disagree(decides(self.session, order.items, slot, digest), "this decides nothing")
        self.acks = order.items
        self.wait_for("Release", slot)
        release = None
        if self.acknowledged:
            if slot == len(machine.committed):
                machine.release(slot, digest, order.items)
            if self.record.deals:
                index = self.session.committee.index(machine.me)
                release = machine.sign(make_release(
                    self.session.id, self.record.value.sum, digest, machine.me, index, self.record.deals,
                    machine.identity))
        self.own_part("Release", slot, release)

    def on_open(self, order: Any) -> None:
        session, releases = self.session, order.items
        disagree(order.slot == self.slot and ("Release", self.slot) in self.rounds, "an opening out of order")
        disagree(self.total is not None, "an opening of a total that is not here")
        disagree(len({r.author for r in releases}) == len(releases), "a release twice")
        fit = all(release_fits(session, self.record, r) and verifies(session, r) for r in releases)
        disagree(fit, "a release that does not fit")
        good = [r for r in releases if release_matches(session, self.record, r)]
        bad = [r.author for r in releases if r not in good]
        if len(good) >= session.quorum:
            pads = pads_of(session, self.record, good)
            committed = Committed(self.record, self.acks, pads, good[:session.quorum])
            self.reduction = None
            self.committed_one = True
            self.opened = self.slot
            if self.slot == len(self.machine.committed):
                self.machine.commit(committed, self.total)
            self.pass_on()
        if bad:
            raise Fault("bad-share", "a released share", bad[0])
        disagree(len(good) >= session.quorum, "too few releases")

    # --- messages and progress

    def on_message(self, sender: int, body: Any) -> None:
        kind = type(body).__name__
        ballot = body.message.sum.ballot if kind == "Reduce" else body.ballot
        if ballot != self.ballot or sender not in self.neighbours:
            return
        expect(kind != "Up" or sender != self.parent, "out-of-order", "a report from the parent")
        expect(kind != "Down" or sender == self.parent, "out-of-order", "an order from a child")
        self.heard[sender] = self.machine.now
        if kind == "Up":
            self.on_report(sender, body.report)
        elif kind == "Down":
            expect(not self.order_too_long(body.order), "inconsistent", "an order with a list that is too long")
            self.order_down(body.order)
        elif kind == "Reduce" and self.reduction is not None and body.message.sum.slot == self.slot:
            getattr(self.reduction, f"on_{type(body.message).__name__.lower()}")(sender, body.message)

    # --- deadlines (section 9)

    def transfer(self, slot: int) -> float:
        return 2.0 * chunk_count(self.session.plan[slot].length) if slot < len(self.session.plan) else 0.0

    def ordered(self, kind: str, order: Any) -> None:
        slot = order.record.value.sum.slot if kind == "Accept" else getattr(order, "slot", 0)
        self.since, self.level, self.budget = self.machine.now, 2.0, 0.0
        if kind not in ("Keys", "Reveal"):
            self.budget = self.transfer(slot)
        if kind == "Sum" or kind == "Accept" and order.record.value.sum.ballot != self.ballot:
            self.budget += self.machine.seconds("compute_ms")

    def summed(self) -> None:
        """Resets the deadline, because the whole total has arrived."""
        self.since, self.budget, self.level = self.machine.now, 0.0, 2.0 + self.transfer(self.slot)

    def awaited(self) -> int | None:
        """Returns the child on which progress depends; None if progress depends on the parent."""
        reduction = self.reduction
        if reduction is not None and self.record is None and len(reduction.total) < reduction.count:
            late = [c for c in sorted(self.children) if reduction.edges[c].taken <= reduction.added]
            return late[0] if late and reduction.added < reduction.count else None
        kinds = ["Keys"] if self.pairs is None else ["Acknowledge", "Release"] if self.record else ["TotalReady"]
        for kind in kinds:
            this = self.rounds.get((kind, -1 if kind == "Keys" else self.slot))
            missing = set(self.children) & this.awaited if this is not None else set()
            if missing:
                return min(missing)
        return None

    def tick(self) -> None:
        """Checks the deadlines, and sends keep-alive messages every second."""
        machine, now = self.machine, self.machine.now
        timeout = machine.seconds("view_timeout_ms")
        for child, until in self.waiting_children.items():
            if now > until:
                raise EndView(Reason.Lost, child, "a child did not come")
        if now - self.looked < 1.0:
            return
        self.looked = now
        for peer in sorted(self.heard):
            self.send(peer, ViewMessage.KeepAlive(self.ballot))
        for peer, heard in sorted(self.heard.items()):
            if now - heard > timeout:
                raise EndView(Reason.Stalled, peer, "a neighbour in this view sent nothing")
        awaited = self.awaited()
        levels = self.height + self.depth if awaited is None else self.height - self.depth
        if now - self.since > timeout + self.budget + levels * self.level:
            raise EndView(Reason.Stalled, awaited, "a report or order did not come in time")
