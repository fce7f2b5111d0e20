"""How a committee member comes to lead (spec, section 8). Section 18.1 lets a peer do without."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from primitives.decision import check_promise, expect, obligation
from primitives.encoding import Accepted, Ballot, Message, Promised, Reason, Signed, Trace

if TYPE_CHECKING:
    from machine import Machine


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
        self.idle_since: float | None = None
        self.was_enough = False
        self.refusals: Counter[int] = Counter()
        self.failures = Failures()

    def advance(self) -> None:
        m = self.machine
        enough = m.session.enough(m.reachable())
        if self.idle_since is None:
            whole = len(m.known) == len(m.session.roster) - 1
            if whole or m.now - m.started >= m.seconds("gather_ms") or m.seen > 0:
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
        if m.opening or m.transfers.wanting() or len(m.committed) == len(m.session.plan):
            return False
        present = [p for p in m.session.committee if p in m.reachable()]
        return m.now - self.idle_since >= present.index(m.me) * m.seconds("propose_ms")

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
        """Drops the proposal; the waiting begins anew after a while."""
        self.proposal = None
        self.idle_since = self.machine.now + seconds

    def has_promised(self) -> None:
        """To another, whose turn it is now."""
        m = self.machine
        self.proposal = None
        self.idle_since = max(self.idle_since or 0.0, m.now + m.seconds("propose_ms"))

    def on_promise(self, peer: int, signed: Signed[Promised]) -> None:
        m, proposal = self.machine, self.proposal
        if proposal is None or signed.item.ballot != proposal.ballot or signed.author != peer:
            return
        check_promise(m.session, signed, proposal.ballot)
        proposal.promises[peer] = signed
        self.refusals.pop(peer, None)
        m.keep_trace(peer, Trace.Promise(signed))

    def on_refuse(self, peer: int, message: Message.Refuse) -> None:
        m, proposal = self.machine, self.proposal
        expect(peer in m.session.committee, "out-of-order", "a refusal from outside the committee")
        expect(message.ballot.proposer == m.me, "out-of-order", "a refusal of another's ballot")
        if proposal is None or message.ballot != proposal.ballot:
            return
        m.note_counter(message.other.counter)
        self.refusals[peer] += 1
        proposal.refused.add(peer)
        left = set(m.session.committee) - proposal.refused
        if self.refusals[peer] <= 2 or len(left) < m.session.quorum:
            self.wait(m.seconds("propose_ms") / 2)

    def owed(self) -> tuple[int, Accepted | None, list[int]] | None:
        """What the promises of a quorum oblige to."""
        if self.proposal is None or len(self.proposal.promises) < self.machine.session.quorum:
            return None
        return obligation(list(self.proposal.promises.values()))

    def go_on(self) -> None:
        m, proposal, owed = self.machine, self.proposal, self.owed()
        committed = len(m.committed)
        if owed is None:
            if m.now - proposal.since >= m.seconds("propose_ms"):
                self.wait(0.0)
            return
        slot, accepted, _ = owed
        if committed < slot or len(m.opened) < committed:
            return  # fetching, opening
        if committed == len(m.session.plan):
            self.proposal = None
            return
        finish = accepted is not None and committed == slot
        if finish and accepted.value not in m.candidates:
            return  # fetching
        members = self.choose_members()
        if not finish and not m.may_sum(committed, members):
            members = m.reachable()
        if not finish and not m.may_sum(committed, members):
            self.wait(m.seconds("propose_ms"))
        elif not m.session.enough(members):
            self.wait(0.0)
        else:
            self.proposal = None
            promises = [proposal.promises[author] for author in sorted(proposal.promises)]
            m.enter(Message.Begin(proposal.ballot, sorted(members), committed, promises))

    def choose_members(self) -> set[int]:
        m = self.machine
        reachable = m.reachable()
        members = self.failures.candidates(reachable, m.me, m.seen)
        if not m.session.enough(members) or len(members) < 3 <= len(reachable):
            return reachable
        return members


class Failures:
    """Who has failed whom: the pseudocode of section 8. A report is the author of a `Failed` and its suspect;
    `seen` is the highest counter seen."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, int]] = []
        self.before: list[tuple[int, int]] = []
        self.lost: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self.skipped: dict[int, int] = {}

    def view_entered(self) -> None:
        self.before, self.reports = self.reports, []

    def view_failed(self, author: int, reason: Reason, suspect: int | None, seen: int) -> None:
        if reason == Reason.Omitted:
            self.reports, self.before = self.reports + self.before, []
        if reason in (Reason.Superseded, Reason.Disagreement, Reason.TooFew):
            self.skip(author, self.ended, 3, seen)
        self.report(author, reason, suspect, seen)

    def report(self, author: int, reason: Reason, suspect: int | None, seen: int) -> None:
        named = suspect is not None and reason in (Reason.Lost, Reason.Stalled, Reason.Fault)
        if not named or (author, suspect) in self.reports:
            return
        if all(other != suspect for _, other in self.reports):
            self.skip(suspect, self.lost, 2, seen)
        self.reports.append((author, suspect))

    def skip(self, peer: int, count: Counter[int], most: int, seen: int) -> None:
        """Counts a failure; a peer that has too many is left out for longer and longer."""
        count[peer] += 1
        if count[peer] >= most:
            self.skipped[peer] = seen + 2 ** min(count[peer] - most + 1, 16)

    def slot_committed(self) -> None:
        for noted in (self.lost, self.ended, self.skipped):
            noted.clear()

    def peer_greeted(self, peer: int) -> None:
        self.reports = [pair for pair in self.reports if peer not in pair]
        self.before = [pair for pair in self.before if peer not in pair]

    def candidates(self, reachable: set[int], me: int, seen: int) -> set[int]:
        """Who may be a member of the view that this peer proposes."""
        members = {p for p in reachable if p == me or seen > self.skipped.get(p, -1)}
        named = Counter(peer for pair in self.reports for peer in pair)
        for pair in self.reports:
            if members.issuperset(pair):
                members.discard(max(set(pair) - {me}, key=lambda p: (named[p], p)))
        return members
