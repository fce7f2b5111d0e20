"""Election of a committee member as leader (spec, section 8). By section 18.1 a peer may leave this out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from primitives.decision import MOST_MARKS, check_promise, expect, obligation, tree_of
from primitives.encoding import Accepted, Ballot, Begun, Message, Promised, Signed, Trace
from primitives.members import barred, gives_way, living, marks_of

if TYPE_CHECKING:
    from machine import Machine

MOST_OF_ONE = 64


@dataclass
class Proposal:
    ballot: Ballot
    since: float
    promises: dict[int, Signed[Promised]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)


class Proposer:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.proposal: Proposal | None = None
        self.dropped: tuple[Ballot, float] | None = None  # a dropped proposal without promises, and the end of its leases
        self.idle_since: float | None = None
        self.was_enough = False
        self.refusals: Counter[int] = Counter()
        self.marks = Marks()

    def advance(self) -> None:
        m = self.machine
        enough = m.session.enough(m.reachable())
        if self.idle_since is None:
            whole = len(m.known) == len(m.session.roster) - 1
            if whole or m.now - m.started >= m.seconds("start_wait_ms") or m.seen > 0:
                self.idle_since = m.now
        elif enough and not self.was_enough:
            self.idle_since = max(self.idle_since, m.now)
        self.was_enough = enough
        if self.proposal is not None:
            self.go_on()
        elif enough and self.my_turn():
            self.propose()

    def my_turn(self) -> bool:
        m = self.machine
        if not m.in_committee or m.lost_state or m.view is not None or self.idle_since is None:
            return False
        if m.opening or m.transfers.wanting() or m.sums_no_more():
            return False
        present = sorted((p for p in m.session.committee if p in m.reachable()), key=lambda p: m.led_in_vain[p])
        since = max(self.idle_since, self.marks.idle_until(m.me))
        # Times are binary fractions of seconds, so a rounding error may miss the earliest moment.
        return m.now - since >= present.index(m.me) * m.seconds("proposal_backoff_ms") - 5e-7

    def propose(self) -> None:
        m = self.machine
        m.promised = ballot = Ballot(m.seen + 1, m.me)
        m.seen = ballot.counter
        m.persist_small("promised")
        self.proposal = Proposal(ballot, m.now, {m.me: m.promise(ballot)})
        for peer in m.session.committee:
            if peer in m.trusted():
                m.send(peer, Message.Prepare(ballot))
        self.go_on()

    def wait(self, seconds: float) -> None:
        """Drops the proposal. The waiting time starts again after `seconds`."""
        self.withdraw()
        self.idle_since = self.machine.now + seconds

    def withdraw(self) -> None:
        """Withdraws the proposal. Like the peers that promised, this peer notes that the proposal began
        nothing."""
        m, proposal = self.machine, self.proposal
        self.proposal = None
        if proposal is None:
            return
        leased = proposal.since + m.seconds("proposal_backoff_ms")
        if len(proposal.promises) > 1:
            self.marks.began_nothing(m, m.me, leased)
        else:
            self.dropped = proposal.ballot, leased

    def has_promised(self) -> None:
        """Gives way to the peer that has got this peer's promise."""
        m = self.machine
        self.withdraw()
        self.idle_since = max(self.idle_since or 0.0, m.now + m.seconds("proposal_backoff_ms"))

    def on_promise(self, peer: int, signed: Signed[Promised]) -> None:
        m, proposal = self.machine, self.proposal
        if self.dropped and signed.item.ballot == self.dropped[0] and signed.author == peer:
            # This promise came after the proposal was dropped. Its author counts the proposal, so this
            # peer does too.
            check_promise(m.session, signed, signed.item.ballot)
            self.marks.began_nothing(m, m.me, self.dropped[1])
            self.dropped = None
            return
        if proposal is None or signed.item.ballot != proposal.ballot or signed.author != peer:
            return
        check_promise(m.session, signed, proposal.ballot)
        proposal.promises[peer] = signed
        self.refusals.pop(peer, None)
        m.keep_trace(peer, Trace.Promise(signed))
        for mark in signed.item.marks:
            self.marks.note(mark)

    def on_refuse(self, peer: int, message: Message.Refuse) -> None:
        m, proposal = self.machine, self.proposal
        expect(peer in m.session.committee, "out-of-order", "a refusal from outside the committee")
        expect(message.ballot.proposer == m.me, "out-of-order", "a refusal of another peer's ballot")
        if proposal is None or message.ballot != proposal.ballot:
            return
        m.note_counter(message.other.counter)
        self.refusals[peer] += 1
        proposal.refused.add(peer)
        left = set(m.session.committee) - proposal.refused
        if self.refusals[peer] <= 2 or len(left) < m.session.quorum:
            self.wait(m.seconds("proposal_backoff_ms") / 2)

    def owed(self) -> tuple[int, Accepted | None, list[int]] | None:
        """Returns the obligation from the promises of a quorum; None without a quorum."""
        if self.proposal is None or len(self.proposal.promises) < self.machine.session.quorum:
            return None
        return obligation(list(self.proposal.promises.values()))

    def go_on(self) -> None:
        m, proposal, owed = self.machine, self.proposal, self.owed()
        committed = len(m.committed)
        if owed is None:
            if m.now - proposal.since >= m.seconds("proposal_backoff_ms"):
                self.wait(0.0)
            return
        slot, accepted, _ = owed
        if committed < slot or len(m.opened) < committed:
            return  # while it fetches or opens slots
        if committed == len(m.session.plan):
            self.proposal = None
            return
        finish = accepted is not None and committed == slot
        if finish and accepted.value not in m.candidates:
            return  # while it fetches the value
        promises = [proposal.promises[author] for author in sorted(proposal.promises)]
        parents = tree_of(m.session, proposal.ballot, promises)
        if parents is None:
            self.wait(4 * m.seconds("proposal_backoff_ms"))
        elif self.more_may_matter(promises, parents):
            return
        elif not finish and not m.may_sum(committed, set(parents)):
            self.wait(m.seconds("proposal_backoff_ms"))
        else:
            self.proposal = None
            m.enter(m.sign(Begun(proposal.ballot, promises)), parents)


    def more_may_matter(self, promises: list[Signed[Promised]], parents: dict[int, int | None]) -> bool:
        """Returns whether further promises may still arrive, and may make it unnecessary to ignore
        marks."""
        m, proposal = self.machine, self.proposal
        if m.now - proposal.since >= m.seconds("proposal_backoff_ms") / 2:
            return False
        open_ = set(m.session.committee) & m.trusted() - set(proposal.promises) - proposal.refused
        known = {mark for signed in promises for mark in marks_of(signed.item.marks)}
        return bool(open_) and gives_way(m.session, known, obligation(promises)[0], parents)


class Marks:
    """Marks that this peer knows, and leases that it gives (section 8)."""

    def __init__(self) -> None:
        self.known: dict[Any, Signed] = {}
        self.lease: tuple[Ballot, float] | None = None
        self.idle: dict[int, tuple[int, float]] = {}

    def note(self, signed: Signed) -> None:
        for mark in marks_of([signed]):
            self.known[mark] = signed
            count = Counter(author for _, author, _, _ in self.known)
            full = len(self.known) > MOST_MARKS
            if full or count[mark[1]] > MOST_OF_ONE:
                author = max(count, key=lambda a: (count[a], a)) if full else mark[1]
                del self.known[min(m for m in self.known if m[1] == author)]

    def before(self, ballot: Ballot) -> list[Signed]:
        return [self.known[mark] for mark in sorted(self.known) if mark[0] < ballot]

    def bars(self, machine: Machine, peer: int) -> bool:
        units = living(len(machine.session.roster), set(self.known), len(machine.committed))
        return peer in barred(machine.session, units, machine.reachable())

    def may_promise(self, machine: Machine, peer: int) -> bool:
        now = machine.now
        if self.lease is not None and self.lease[1] <= now:
            self.began_nothing(machine, self.lease[0].proposer, self.lease[1])
            self.lease = None
        free = self.lease is None or self.lease[0].proposer == peer
        return free and self.idle_until(peer) <= now and not self.bars(machine, peer)

    def promised(self, machine: Machine, ballot: Ballot) -> None:
        until = machine.now + machine.seconds("proposal_backoff_ms") if self.lease is None else self.lease[1]
        self.lease = ballot, until

    def idle_until(self, peer: int) -> float:
        return self.idle.get(peer, (0, 0.0))[1]

    def began_nothing(self, machine: Machine, peer: int, end: float) -> None:
        times = self.idle.get(peer, (0, 0.0))[0] + 1
        self.idle[peer] = times, end + 2 ** min(times, 4) * machine.seconds("proposal_backoff_ms")
