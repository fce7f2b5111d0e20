"""A view: tree, keys, sums, decisions (spec, sections 9 to 13), without input and output.

Leader, inner node and leaf are one class: the leader acts on its own orders like everybody else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy

from crypto import CryptoError, add_mask, agreement_key, exchange_public, make_deal, open_share, sum_bytes
from crypto import total_digest
from decision import (CHUNK, Fault, chunk_count, check_record, deals_digest, decides, expect, obligation,
                      pads_of, release_fits, release_matches, value_digest, verifies)
from encoding import (Accept, Accepted, Acknowledgement, Ballot, Begin, Chunk, Credit, Decide, Direction,
                      Down, DownKeys, Frozen, Hold, Open, Record, Reduce, Release, Reason, Signed, Sum, SumId,
                      Up, UpAcknowledge, UpKeys, UpRelease, UpReveal, Value, ViewKey, Working)
from encoding import View as ViewMessage
from session import partners

if TYPE_CHECKING:
    from machine import Machine

WINDOW = 8
CREDIT_EVERY = 4


class EndView(Exception):
    """The view is over at this member."""

    def __init__(self, reason: Reason, suspect: int | None, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.suspect = suspect


def disagree(good: bool, text: str) -> None:
    if not good:
        raise EndView(Reason.Disagreement, None, text)


class Secrets:
    """Where a view's randomness comes from; tests put in their own."""

    def view_secret(self, ballot: Ballot) -> bytes:
        return os.urandom(32)

    def deal(self, machine: Machine, sum_id: SumId) -> tuple[bytes, Any]:
        session = machine.session
        return make_deal(session.id, sum_id, machine.me, session.council_keys(), session.quorum)


class Recorded(Secrets):
    """What a trace was made with, as `flyswarm conform play --prepare` writes it. Each is used once: the
    secret for the first view, a deal for the first sum of its slot. All later ones are drawn."""

    def __init__(self, randomness: dict[str, Any]) -> None:
        self.secrets = [bytes.fromhex(randomness["view_secret"])]
        self.deals = {deal["slot"]: deal for deal in randomness["deals"]}

    def view_secret(self, ballot: Ballot) -> bytes:
        return self.secrets.pop() if self.secrets else super().view_secret(ballot)

    def deal(self, machine: Machine, sum_id: SumId) -> tuple[bytes, Any]:
        deal = self.deals.pop(sum_id.slot, None)
        if deal is None:
            return super().deal(machine, sum_id)
        session = machine.session
        coefficients = [int.from_bytes(bytes.fromhex(c), "little") for c in deal["coefficients"]]
        return make_deal(session.id, sum_id, machine.me, session.council_keys(), session.quorum,
                         coefficients, bytes.fromhex(deal["ephemeral_secret"]))


class Round:
    """Reports of one kind for one slot."""

    def __init__(self) -> None:
        self.items: list[Signed] = []
        self.reported: set[int] = set()
        self.own_done = False
        self.sent = False


class Reduction:
    """One member's part in an all-reduce (section 13)."""

    def __init__(self, view: View, slot: int) -> None:
        self.view = view
        self.slot = slot
        what = view.machine.session.plan[slot]
        self.dtype = f"<u{what.word}"
        self.length = what.length
        self.count = chunk_count(self.length)
        self.sum_id = SumId(view.ballot, slot)
        self.own: dict[int, numpy.ndarray] = {}
        self.sums: dict[int, numpy.ndarray] = {}
        self.vector: bytes | None = None
        self.masks_asked = 0
        self.taken = {child: 0 for child in view.children}      # chunks up, of each child
        self.up_credit = {child: 0 for child in view.children}  # of these, credited
        self.up_sent = 0        # at the root: totals made
        self.up_acked = 0
        self.total: list[bytes] = []
        self.down_credit = 0    # of the totals taken, credited to the parent
        self.down_sent = {child: 0 for child in view.children}
        self.down_acked = {child: 0 for child in view.children}

    def size(self, index: int) -> int:
        return min(CHUNK, self.length - index * CHUNK)

    @property
    def held(self) -> bool:
        return (self.vector is not None and len(self.total) == self.count
                and all(n == self.count for n in self.down_sent.values()))

    def start(self, vector: bytes) -> None:
        self.vector = vector
        self.ask_masks()

    def ask_masks(self) -> None:
        while self.vector is not None and self.masks_asked < min(self.count, self.up_sent + WINDOW):
            index = self.masks_asked
            self.masks_asked += 1
            part = self.vector[index * CHUNK:index * CHUNK + self.size(index)]
            job = self.view.masking(self.slot, part, self.dtype, index * CHUNK)
            self.view.job(job, lambda chunk, index=index: self.masked(index, chunk))

    def masked(self, index: int, chunk: numpy.ndarray) -> None:
        if self.view.reduction is not self:
            return
        self.view.heard = self.view.machine.now
        self.own[index] = chunk
        self.pump()

    def pump(self) -> None:
        """Sends all that can be sent."""
        view = self.view
        while self.up_sent < self.count:
            i = self.up_sent
            if i not in self.own or any(n <= i for n in self.taken.values()):
                break
            if view.parent is not None and i - self.up_acked >= WINDOW:
                break
            chunk = self.own.pop(i)
            if i in self.sums:
                chunk = chunk + self.sums.pop(i)
            self.up_sent += 1
            if view.parent is None:
                self.total.append(chunk.tobytes())
            else:
                view.reduce(view.parent, Chunk(self.sum_id, Direction.Up, i, chunk.tobytes()))
        for child in view.children:
            while self.down_sent[child] < min(len(self.total), self.down_acked[child] + WINDOW):
                i = self.down_sent[child]
                self.down_sent[child] += 1
                view.reduce(child, Chunk(self.sum_id, Direction.Down, i, self.total[i]))
            ready = min(self.taken[child], self.up_sent + WINDOW)
            if ready - self.up_credit[child] >= CREDIT_EVERY:
                self.up_credit[child] = ready
                view.reduce(child, Credit(self.sum_id, Direction.Up, ready - 1))
        if view.parent is not None and len(self.total) - self.down_credit >= CREDIT_EVERY:
            self.down_credit = len(self.total)
            view.reduce(view.parent, Credit(self.sum_id, Direction.Down, len(self.total) - 1))
        self.ask_masks()
        if self.held:
            view.total_held()

    def chunk(self, sender: int, message: Chunk) -> None:
        i, data = message.index, message.data
        if message.direction == Direction.Up:
            expect(sender in self.taken, "out-of-order", "a chunk upward from the parent")
            expect(i == self.taken[sender] and i < self.count, "out-of-order", "a chunk that is not the next")
            expect(len(data) == self.size(i), "inconsistent", "a chunk of another length")
            expect(i - self.up_credit[sender] < WINDOW, "out-of-order",
                   "more chunks than there is credit for")
            self.taken[sender] += 1
            words = numpy.frombuffer(data, self.dtype)
            self.sums[i] = self.sums[i] + words if i in self.sums else words
        else:
            expect(sender == self.view.parent, "out-of-order", "a total from a child")
            expect(i == len(self.total) and i < self.up_sent, "out-of-order", "a total that is not the next")
            expect(len(data) == self.size(i), "inconsistent", "a chunk of another length")
            self.total.append(data)
        self.pump()

    def credit(self, sender: int, message: Credit) -> None:
        n = message.index + 1
        if message.direction == Direction.Up:
            good = sender == self.view.parent and self.up_acked < n <= self.up_sent
            expect(good, "out-of-order", "credit for what was not sent")
            self.up_acked = n
        else:
            good = sender in self.down_acked and self.down_acked[sender] < n <= self.down_sent[sender]
            expect(good, "out-of-order", "credit for what was not sent")
            self.down_acked[sender] = n
        self.pump()


class View:
    def __init__(self, machine: Machine, begin: Begin) -> None:
        self.machine = machine
        self.ballot = begin.ballot
        self.members = begin.members
        self.promises = begin.promises
        self.leader = begin.ballot.proposer
        self.first = begin.frozen  # the leader's frozen slots at the beginning
        self.owed_slot, self.owed, _ = obligation(begin.promises)
        self.order = machine.session.tree(self.ballot, self.members)
        place = self.order.index(machine.me)
        self.parent = self.order[(place - 1) // 2] if place else None
        self.children = [self.order[p] for p in (2 * place + 1, 2 * place + 2) if p < len(self.order)]
        self.neighbours = set(self.children) | ({self.parent} if self.parent is not None else set())
        self.below = {child: self.subtree(child) for child in self.children}
        self.height = len(self.order).bit_length() - 1
        self.depth = (place + 1).bit_length() - 1
        self.waiting_children: dict[int, float] = {}  # not greeted yet: until when
        self.begun = machine.now
        self.heard = machine.now
        self.looked = machine.now
        self.passed_on: set[int] = set()  # whose `Working` went on since the last look
        self.jobs = 0
        self.job_since = machine.now

        self.secret = machine.secrets.view_secret(self.ballot)
        key = ViewKey(self.ballot, exchange_public(self.secret), None)
        self.rounds: dict[tuple[str, int], Round] = {("keys", -1): Round()}
        self.own_key = machine.sign(key)
        self.pairs: dict[int, bytes] | None = None  # k_ij
        self.slot = -1           # the slot under way
        self.begun_slots: set[int] = set()
        self.reduction: Reduction | None = None
        self.pad: bytes | None = None
        self.deal: Signed | None = None
        self.total: bytes | None = None
        self.computing = False
        self.record: Record | None = None      # ordered accepted
        self.accepting = False                 # ... and not done yet
        self.acknowledged = False
        self.acks: list[Signed] = []
        self.ordered_next = False
        self.froze_one = False

    # --- small helpers

    def subtree(self, root: int) -> set[int]:
        found, places = set(), [self.order.index(root)]
        while places:
            place = places.pop()
            if place < len(self.order):
                found.add(self.order[place])
                places += [2 * place + 1, 2 * place + 2]
        return found

    def send(self, to: int, body: Any) -> None:
        self.machine.send(to, ViewMessage(body))

    def reduce(self, to: int, message: Any) -> None:
        self.send(to, Reduce(message))

    def job(self, run: Any, then: Any) -> None:
        if self.jobs == 0:
            self.job_since = self.machine.now
        self.jobs += 1

        def done(result: Any) -> None:
            if self.machine.view is self:
                self.jobs -= 1
                then(result)

        self.machine.job(run, done)

    @property
    def leading(self) -> bool:
        return self.parent is None

    def is_dealer(self) -> bool:
        return self.machine.me in self.machine.session.dealers(self.slot, self.members)

    # --- begin

    def start(self) -> None:
        """`joined` is on disk, `Begin` has been passed on."""
        own = self.rounds["keys", -1]
        own.items.append(self.own_key)
        own.own_done = True
        self.round_progress("keys", -1)

    def peer_greeted(self, peer: int, begin: Begin) -> None:
        if self.waiting_children.pop(peer, None) is not None:
            self.machine.send(peer, begin)

    # --- reports

    def round_progress(self, kind: str, slot: int) -> None:
        """Reports, or at the leader gives the next order, when all children have reported."""
        this = self.rounds[kind, slot]
        if this.sent or not this.own_done or this.reported != set(self.children):
            return
        this.sent = True
        if not self.leading:
            report = {"keys": lambda: UpKeys(this.items),
                      "hold": lambda: Hold(slot, self.digest(), this.items),
                      "ack": lambda: UpAcknowledge(slot, this.items),
                      "release": lambda: UpRelease(slot, this.items)}[kind]()
            self.send(self.parent, Up(self.ballot, report))
        elif kind == "keys":
            self.order_down(DownKeys(this.items))
        elif kind == "hold":
            place = {author: n for n, author in enumerate(self.machine.session.council)}
            deals = sorted(this.items, key=lambda d: place[d.author])
            value = Value(SumId(self.ballot, slot), self.members, self.digest(), deals_digest(deals))
            self.order_down(Accept(Record(value, deals)))
        elif kind == "ack":
            self.order_down(Decide(slot, this.items))
        else:
            self.order_down(Open(slot, this.items))

    def digest(self) -> bytes:
        return total_digest(self.machine.session.id, SumId(self.ballot, self.slot), self.total)

    def on_report(self, sender: int, report: Any) -> None:
        kind = {UpKeys: "keys", Hold: "hold", UpAcknowledge: "ack", UpRelease: "release", UpReveal: "reveal"}[
            type(report)]
        slot = -1 if kind in ("keys", "reveal") else report.slot
        if kind in ("hold", "ack", "release") and slot < self.slot:
            return
        if kind == "reveal":
            if self.pairs is not None:
                return
            raise Fault("out-of-order", "a draw in a view that has none")
        items = report.deals if kind == "hold" else report.items
        authors: set[int] = set()
        for item in items:
            good = (item.author in self.below[sender] and item.author not in authors
                    and self.item_fits(kind, slot, item))
            expect(good, "inconsistent", f"an item of the report {kind} does not fit")
            expect(verifies(self.machine.session, item), "bad-signature", f"an item of the report {kind}")
            authors.add(item.author)
        this = self.rounds.get((kind, slot))
        expect(this is not None and sender not in this.reported, "out-of-order",
               f"a report {kind} not awaited")
        if kind == "hold":
            self.child_totals[sender] = report.total
        this.reported.add(sender)
        this.items += items
        if kind == "hold":
            self.compare_totals()
        self.round_progress(kind, slot)

    def item_fits(self, kind: str, slot: int, signed: Signed) -> bool:
        session, item = self.machine.session, signed.item
        if kind == "keys":
            return item.ballot == self.ballot and item.commitment is None
        if kind == "hold":
            good = (item.sum == SumId(self.ballot, slot) and slot < len(session.plan)
                    and signed.author in session.dealers(slot, self.members))
            return good and len(item.share_hashes) == len(item.sealed.boxes) == len(session.council)
        if self.record is None:
            return False
        if kind == "ack":
            digest = value_digest(session, self.record.value)
            return item == Acknowledgement(self.ballot, slot, digest) and signed.author in session.council
        return release_fits(session, self.record, signed)

    def compare_totals(self) -> None:
        if self.total is not None:
            mine = self.digest()
            disagree(all(t == mine for t in self.child_totals.values()), "totals differ")

    # --- orders

    def order_down(self, order: Any) -> None:
        for child in self.children:
            self.send(child, Down(self.ballot, order))
        self.on_order(order)

    def on_order(self, order: Any) -> None:
        if isinstance(order, DownKeys):
            self.on_keys(order.items)
        elif isinstance(order, Sum):
            self.on_sum(order.slot)
        elif isinstance(order, Accept):
            self.on_accept(order.record)
        elif isinstance(order, Decide):
            self.on_decide(order)
        elif isinstance(order, Open):
            self.on_open(order)
        else:
            disagree(False, "a draw in a view that has none")

    def on_keys(self, items: list[Signed]) -> None:
        machine, session = self.machine, self.machine.session
        disagree(self.pairs is None, "keys twice")
        disagree(sorted(k.author for k in items) == self.members, "keys do not match the members")
        disagree(all(k.item.ballot == self.ballot and k.item.commitment is None for k in items), "other keys")
        disagree(all(k == self.own_key for k in items if k.author == machine.me), "my key is another one")
        wanted = partners(session, self.members, b"", machine.me)
        disagree(all(verifies(session, k) for k in items if k.author in wanted), "a key does not verify")
        self.pairs = {}
        for key in items:
            if key.author in wanted:
                try:
                    self.pairs[key.author] = agreement_key(
                        session.id, self.ballot, self.secret, key.item.public, session.roster[machine.me],
                        session.roster[key.author])
                except CryptoError:
                    raise Fault("low-order-key", "a view key", key.author) from None
        machine.keep_keys(items)
        if self.leading:
            self.next_order()

    def next_order(self) -> None:
        """Leader: the next slot (section 9)."""
        machine = self.machine
        slot = len(machine.frozen)
        if slot == len(machine.session.plan):
            return
        waiting = [p for p in machine.trusted() - set(self.members) if machine.known[p] >= slot - 1]
        if self.froze_one and waiting and machine.now - self.begun >= machine.seconds("enlarge_ms"):
            raise EndView(Reason.Enlarged, None, "peers wait outside")
        if self.owed is not None and slot == self.owed_slot:
            self.order_down(Accept(machine.candidate(self.owed.value)[0]))
        else:
            if not machine.may_sum(slot, set(self.members)):
                raise EndView(Reason.TooFew, None, "too few for the next sum")
            self.order_down(Sum(slot))

    def new_slot(self, slot: int) -> None:
        self.slot = slot
        self.reduction = None
        self.pad = self.deal = self.total = self.record = None
        self.accepting = self.acknowledged = self.computing = False
        self.child_totals: dict[int, bytes] = {}

    def on_sum(self, slot: int) -> None:
        disagree(self.pairs is not None, "a sum before the keys")
        disagree(slot < len(self.machine.session.plan) and slot > self.slot, "slots out of order")
        disagree(slot >= self.owed_slot, "a sum of a slot that is frozen")
        disagree(slot > self.owed_slot or self.owed is None, "a value must be finished first")
        if slot < len(self.machine.frozen):
            raise EndView(Reason.Superseded, None, "the slot is frozen here")
        self.new_slot(slot)
        self.begun_slots.add(slot)
        self.reduction = Reduction(self, slot)
        self.rounds["hold", slot] = Round()
        self.advance()

    def advance(self) -> None:
        """Goes on with what waited for earlier slots or their opening."""
        machine = self.machine
        if self.slot != len(machine.frozen) or self.slot not in range(len(machine.opened) + 1):
            return
        if self.reduction is not None and self.reduction.vector is None and not self.computing:
            if not machine.may_sum(self.slot, set(self.members)):
                raise EndView(Reason.TooFew, None, "too few for this sum")
            self.computing = True
            if self.is_dealer():
                self.pad, deal = machine.secrets.deal(machine, SumId(self.ballot, self.slot))
                self.deal = machine.sign(deal)
            slot, opened = self.slot, dict(machine.opened)
            reduction = self.reduction
            self.job(lambda: machine.task.vector(slot, opened),
                     lambda vector: self.computed(reduction, vector))
        if self.accepting:
            self.try_accept()

    def computed(self, reduction: Reduction, vector: bytes) -> None:
        if self.reduction is reduction:
            reduction.start(vector)
            reduction.pump()

    def masking(self, slot: int, part: bytes, dtype: str, offset: int) -> Any:
        pairs, pad, me = dict(self.pairs), self.pad, self.machine.me
        params = sum_bytes(SumId(self.ballot, slot))

        def run() -> numpy.ndarray:
            chunk = numpy.frombuffer(part, dtype).copy()
            for peer, key in pairs.items():
                add_mask(chunk, 1 if peer > me else -1, key, "mask", params, offset)
            if pad is not None:
                add_mask(chunk, 1, pad, "pad", params, offset)
            return chunk

        return run

    def total_held(self) -> None:
        this = self.rounds["hold", self.slot]
        if this.own_done:
            return
        self.total = b"".join(self.reduction.total)
        self.compare_totals()
        if self.deal is not None:
            this.items.insert(0, self.deal)
        this.own_done = True
        self.round_progress("hold", self.slot)

    def on_accept(self, record: Record) -> None:
        machine, session = self.machine, self.machine.session
        value = record.value
        slot = value.sum.slot
        disagree(self.pairs is not None and (self.record is None or slot != self.slot), "accept out of order")
        try:
            check_record(session, record)
        except Fault as fault:
            disagree(False, str(fault))
        disagree(slot >= self.owed_slot, "a value of a slot that is frozen")
        if slot < len(machine.frozen):
            raise EndView(Reason.Superseded, None, "the slot is frozen here")
        owed: Accepted | None = self.owed if slot == self.owed_slot else None
        if value.sum.ballot == self.ballot:
            disagree(owed is None, "another value must be finished")
            good = slot == self.slot and value.members == self.members and self.total is not None
            disagree(good and value.total == self.digest(), "not the value that was summed here")
        else:
            disagree(owed is not None and owed.value == value_digest(session, value),
                     "a value of another view")
            disagree(value.sum.ballot < self.ballot and slot > self.slot, "a value of a later view")
            self.new_slot(slot)
        self.record = record
        self.accepting = True
        self.rounds["ack", slot] = Round()
        self.try_accept()

    def try_accept(self) -> None:
        machine, session = self.machine, self.machine.session
        slot, digest = self.slot, value_digest(session, self.record.value)
        if slot != len(machine.frozen):
            return
        total = self.total
        if total is None:
            found = machine.candidate(digest)
            if found is None:
                return  # the machine fetches it from the leader
            total = self.total = found[1]
        self.accepting = False
        this = self.rounds["ack", slot]
        if machine.in_council:
            index = session.council.index(machine.me)
            self.shares = []
            for deal in self.record.deals:
                try:
                    share = open_share(session.id, deal, index, machine.identity)
                except CryptoError as error:
                    raise Fault("bad-deal", str(error), deal.author) from None
                self.shares.append((deal.author, share))
            released = machine.released
            good = machine.promised <= self.ballot and (released is None or released.slot != slot
                                                        or released.value == digest)
            disagree(good, "promised or released otherwise")
        if machine.in_council and not machine.lost_state:
            machine.accept(self.ballot, self.record, total)
            self.acknowledged = True
            this.items.insert(0, machine.sign(Acknowledgement(self.ballot, slot, digest)))
        else:
            machine.keep_candidate(self.record, total)
        this.own_done = True
        self.round_progress("ack", slot)

    def on_decide(self, order: Decide) -> None:
        machine, session = self.machine, self.machine.session
        disagree(self.record is not None and order.slot == self.slot, "a decision out of order")
        disagree(("release", self.slot) not in self.rounds, "a decision twice")
        digest = value_digest(session, self.record.value)
        disagree(decides(session, order.items, order.slot, digest), "this decides nothing")
        self.acks = order.items
        this = self.rounds["release", self.slot] = Round()
        if self.acknowledged:
            machine.release(order.slot, digest, order.items)
            this.items.append(machine.sign(Release(self.record.value.sum, digest, self.shares)))
        this.own_done = True
        self.round_progress("release", self.slot)

    def on_open(self, order: Open) -> None:
        session, machine = self.machine.session, self.machine
        disagree(order.slot == self.slot and ("release", self.slot) in self.rounds, "an opening out of order")
        disagree(self.total is not None, "an opening of what is not here")
        authors = [r.author for r in order.items]
        disagree(len(set(authors)) == len(authors), "a release twice")
        disagree(all(release_fits(session, self.record, r) for r in order.items),
                 "a release of another value")
        disagree(all(verifies(session, r) for r in order.items), "the signature of a release")
        good = [r for r in order.items if release_matches(session, self.record, r)]
        if len(good) < session.quorum:
            for release in order.items:
                if release not in good:
                    raise Fault("bad-share", "a released share", release.author)
            disagree(False, "too few releases")
        pads = pads_of(session, self.record, good)
        frozen = Frozen(self.record, self.acks, pads, good if None in pads else [])
        total, self.reduction = self.total, None
        self.froze_one = True
        machine.freeze(frozen, total)
        for release in order.items:
            if release not in good:  # the others sufficed
                raise Fault("bad-share", "a released share", release.author)

    def opened(self) -> None:
        if self.leading and self.machine.view is self:
            self.next_order()

    # --- messages and progress

    def on_message(self, sender: int, body: Any) -> None:
        ballot = body.message.sum.ballot if isinstance(body, Reduce) else body.ballot
        if ballot != self.ballot or sender not in self.neighbours:
            return
        if isinstance(body, Up):
            expect(sender != self.parent, "out-of-order", "a report from the parent")
        if isinstance(body, Down):
            expect(sender == self.parent, "out-of-order", "an order from a child")
        self.heard = self.machine.now
        if isinstance(body, Up):
            self.on_report(sender, body.report)
        elif isinstance(body, Down):
            self.order_down(body.order)
        elif isinstance(body, Working):
            self.on_working(sender)
        elif self.reduction is not None and body.message.sum.slot == self.slot:
            if isinstance(body.message, Chunk):
                self.reduction.chunk(sender, body.message)
            else:
                self.reduction.credit(sender, body.message)

    def on_working(self, sender: int) -> None:
        if sender == self.parent:
            for child in self.children:
                self.send(child, Working(self.ballot))
        elif self.parent is not None and sender not in self.passed_on:
            self.passed_on.add(sender)
            self.send(self.parent, Working(self.ballot))

    def missing_child(self) -> int | None:
        for this in self.rounds.values():
            if not this.sent:
                for child in self.children:
                    if child not in this.reported:
                        return child
        return None

    def tick(self) -> None:
        """The look of every second, and what has waited too long (*Progress*)."""
        now, stall = self.machine.now, self.machine.seconds("stall_ms")
        for child, until in self.waiting_children.items():
            if now > until:
                raise EndView(Reason.Lost, child, "a child did not come")
        if now - self.looked < 1.0:
            return
        self.looked = now
        self.passed_on.clear()
        busy = self.jobs > 0 or self.machine.opening > 0 or self.machine.receiving()
        if busy:
            self.heard = now
            for to in self.children if self.leading else [self.parent]:
                self.send(to, Working(self.ballot))
        child = self.missing_child()
        if child is not None:
            extra = max(self.height - self.depth - 1, 0)
        else:
            extra = self.height + self.depth
        if now - self.heard > stall + extra:
            suspect = child if child is not None else self.parent
            raise EndView(Reason.Stalled, suspect, "nothing was heard in this view")
