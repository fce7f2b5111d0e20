"""The protocol of one peer without input and output: greeting, elections, the end (spec, sections 7, 8, 17).

Whoever drives it calls `up`, `lost`, `frame`, `finished` and `tick`, and then carries out `take_actions()` in
their order: so what is persisted is on disk before what depends on it leaves.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from crypto import Identity
from decision import (Fault, Unopenable, check_promise, expect, obligation, opened_vector,
                      value_digest, verifies)
from encoding import (Accepted, Ballot, Begin, Down, Exchange, Failed, Failure, Fields, Frozen, Hello,
                      Malformed, Prepare, Promise, Promised, PromiseMessage, Reason, Record, Refuse, Signed,
                      Status, TraceKey, TracePromise, Transfer, View as ViewMessage, canonical,
                      decode_message, encode_message, is_bulk)
from model import DataError, Refused, Task
from session import Session
from store import (AcceptedState, FrozenState, Loaded, ReleasedState, Small, pack_accepted, pack_frozen)
from transfer import Transfers
from view import EndView, Secrets, View

VERSION = 4
NEAR = 1 << 20
MOST = 1 << 48
DEAD_AFTER = 7.25


class Send(NamedTuple):
    to: int
    bulk: bool
    header: bytes
    payload: bytes


class Persist(NamedTuple):
    label: str
    file: str
    data: bytes


class Drop(NamedTuple):
    """Close the connection with a peer that is blamed, and refuse it from now on."""

    peer: int
    kind: str
    text: str


class Job(NamedTuple):
    """Something to compute; its result, or its exception, goes to `finished`."""

    number: int
    run: Callable[[], Any]


class Say(NamedTuple):
    text: str


class Stop(NamedTuple):
    code: int
    text: str


class Proposal:
    def __init__(self, ballot: Ballot, now: float) -> None:
        self.ballot = ballot
        self.since = now
        self.promises: dict[int, Signed[Promised]] = {}
        self.refused: set[int] = set()


class Machine:
    def __init__(self, session: Session, identity: Identity, task: Task, loaded: Loaded, now: float,
                 secrets: Secrets | None = None) -> None:
        self.session = session
        self.identity = identity
        self.task = task
        self.secrets = secrets or Secrets()
        self.me = session.roster.index(identity.public)
        self.in_council = self.me in session.council
        self.now = self.started = now
        self.actions: list[Any] = []
        self.jobs: dict[int, Callable[[Any], None]] = {}
        self.next_job = 0

        self.promised, self.joined, self.lost_state, kept = loaded.small
        self.traces: dict[int, Any] = dict(kept)
        self.accepted: AcceptedState | None = loaded.accepted
        self.released: ReleasedState | None = loaded.released
        self.frozen: list[FrozenState] = list(loaded.frozen)
        self.opened: dict[int, bytes] = {}
        self.opening = 0
        self.candidates: dict[bytes, tuple[Record, bytes]] = {}  # records with totals, by digest

        self.up_peers: set[int] = set()
        self.known: dict[int, int] = {}      # greeted peers, and how many slots they have frozen
        self.said_in_view: dict[int, bool] = {}
        self.mismatched: set[int] = set()
        self.blamed: set[int] = set()
        self.complete: set[int] = set()      # peers that have said that they have everything

        self.seen = max(self.promised.counter, self.joined.counter)
        self.proposal: Proposal | None = None
        self.view: View | None = None
        self.view_begin: Begin | None = None
        self.last_members: list[int] = []
        self.idle_since: float | None = None
        self.was_enough = False
        self.refusals: dict[int, int] = {}
        self.hold_off: dict[int, float] = {}  # council members to whom nothing is promised, until when
        self.ended_for: dict[int, int] = {}
        self.reports: list[tuple[int, int]] = []
        self.before: list[tuple[int, int]] = []
        self.lost_count: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.skipped: dict[int, int] = {}
        self.omitted: set[int] = set()
        self.failed_views = 0
        self.last_alive = now                # in a view, or a slot frozen
        self.heard_of_view = now
        self.done_since: float | None = None
        self.stopped = False
        self.transfers = Transfers(self)
        self.guard(self.reopen)

    # --- what the driver calls

    def up(self, peer: int, now: float) -> None:
        self.now = now
        self.up_peers.add(peer)
        self.send(peer, Hello(VERSION, self.session.id, len(self.frozen), self.traces.get(peer)))
        self.guard(self.advance)

    def lost(self, peer: int, now: float) -> None:
        self.now = now
        self.up_peers.discard(peer)
        self.mismatched.discard(peer)
        self.known.pop(peer, None)
        self.said_in_view.pop(peer, None)
        self.transfers.peer_lost(peer)
        view = self.view
        if view is not None and (peer in view.neighbours or (view.leading and peer in view.members)):
            self.fail_view(Reason.Lost, peer)
        self.guard(self.advance)

    def frame(self, peer: int, bulk: bool, header: bytes, payload: bytes, now: float) -> None:
        self.now = now
        if peer in self.blamed or peer not in self.up_peers or self.stopped:
            return
        self.guard(lambda: self.on_frame(peer, bulk, header, payload), peer)
        self.guard(self.advance)

    def finished(self, number: int, result: Any, now: float) -> None:
        self.now = now
        then = self.jobs.pop(number)
        if not self.stopped:
            self.guard(lambda: self.unwrap(then, result))
            self.guard(self.advance)

    def tick(self, now: float) -> None:
        self.now = now
        if self.stopped:
            return
        if self.view is not None:
            self.guard(self.view.tick)
        self.guard(self.advance)

    def leave(self, now: float) -> None:
        """Interrupted: the others are told."""
        self.now = now
        if self.view is not None:
            self.fail_view(Reason.Left, self.me)
        self.stop(130, "interrupted")

    def take_actions(self) -> list[Any]:
        actions, self.actions = self.actions, []
        return actions

    @property
    def done(self) -> bool:
        return len(self.opened) == len(self.session.plan)

    # --- helpers

    def guard(self, run: Callable[[], None], sender: int | None = None) -> None:
        """Turns what goes wrong into blame, an ended view or the end of the session."""
        if self.stopped:
            return
        try:
            run()
        except Malformed as error:
            self.blame(sender, "malformed", str(error))
        except Fault as fault:
            peer = sender if fault.peer is None else fault.peer
            if peer is None or peer == self.me:
                self.fail_view(Reason.Disagreement, None)
            else:
                self.blame(peer, fault.kind, str(fault))
        except EndView as end:
            self.fail_view(end.reason, end.suspect)
        except (DataError, Refused, Unopenable) as error:
            self.fail_view(Reason.Left, self.me)
            self.stop(2 if isinstance(error, DataError) else 3, str(error))

    @staticmethod
    def unwrap(then: Callable[[Any], None], result: Any) -> None:
        if isinstance(result, Exception):
            raise result
        then(result)

    def stop(self, code: int, text: str) -> None:
        self.stopped = True
        self.actions.append(Stop(code, text))

    def seconds(self, field: str) -> float:
        return self.session.timing[field] / 1000

    def send(self, to: int, message: Any) -> None:
        if to in self.up_peers and to not in self.blamed:
            self.actions.append(Send(to, is_bulk(message), *encode_message(message)))

    def sign(self, item: Any) -> Signed:
        return self.identity.sign_item(self.session.id, self.me, item)

    def job(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.next_job += 1
        self.jobs[self.next_job] = then
        self.actions.append(Job(self.next_job, run))

    def persist_small(self, label: str) -> None:
        small = Small(self.promised, self.joined, self.lost_state, list(self.traces.items()))
        self.actions.append(Persist(label, "small", canonical("Small", small)))

    def trusted(self) -> set[int]:
        """Greeted and not blamed."""
        return set(self.known) - self.blamed

    def status(self) -> Status:
        return Status(len(self.frozen), self.view is not None)

    def tell(self, peers: set[int]) -> None:
        for peer in sorted(peers):
            self.send(peer, self.status())

    def may_sum(self, slot: int, members: set[int]) -> bool:
        holders = self.frozen[1].frozen.record.value.members if len(self.frozen) > 1 else []
        return self.task.may_sum(slot, members, self.opened, holders)

    def near(self, counter: int) -> bool:
        return counter <= min(max(self.seen, self.promised.counter, self.joined.counter) + NEAR, MOST)

    def receiving(self) -> bool:
        return self.transfers.receiving()

    def blame(self, peer: int, kind: str, text: str) -> None:
        if peer in self.blamed:
            return
        self.blamed.add(peer)
        self.actions.append(Drop(peer, kind, text))
        if self.view is not None and peer in self.view.members:
            self.fail_view(Reason.Fault, peer)
        self.up_peers.discard(peer)
        self.known.pop(peer, None)
        self.transfers.peer_lost(peer)

    # --- messages

    def on_frame(self, peer: int, bulk: bool, header: bytes, payload: bytes) -> None:
        message = decode_message(header, payload, bulk)
        if isinstance(message, Hello):
            self.on_hello(peer, message)
        elif isinstance(message, Fields):
            self.on_fields(peer, message)
        elif peer in self.mismatched:
            return
        elif peer not in self.known:
            raise Fault("out-of-order", "a message before hello")
        elif isinstance(message, Status):
            self.note_frozen(peer, message.frozen)
            self.said_in_view[peer] = message.in_view
            if message.in_view:
                self.heard_of_view = self.now
        elif isinstance(message, Prepare):
            self.on_prepare(peer, message.ballot)
        elif isinstance(message, PromiseMessage):
            self.on_promise(peer, message.signed)
        elif isinstance(message, Refuse):
            self.on_refuse(peer, message)
        elif isinstance(message, Begin):
            self.on_begin(peer, message)
        elif isinstance(message, Failed):
            self.on_failed(peer, message.signed)
        elif isinstance(message, Transfer):
            self.transfers.on_message(peer, message.message)
        elif isinstance(message, ViewMessage):
            if self.view is not None:
                if isinstance(message.message, Down) and peer == self.view.parent:
                    self.heard_of_view = self.now
                self.view.on_message(peer, message.message)
        elif isinstance(message, Exchange):
            raise Fault("out-of-order", "an exchange in a task that has none")

    def on_hello(self, peer: int, hello: Hello) -> None:
        expect(peer not in self.known, "out-of-order", "hello twice")
        if (hello.version, hello.session) != (VERSION, self.session.id):
            self.mismatched.add(peer)
            self.send(peer, Fields(self.session.fields))
            self.actions.append(Say(f"{self.session.names[peer]} has another session or version"))
            return
        expect(hello.frozen <= len(self.session.plan), "inconsistent", "more slots frozen than there are")
        possible = self.could_sum()
        self.known[peer] = 0
        self.complete.discard(peer)
        self.note_frozen(peer, hello.frozen)
        self.reports = [r for r in self.reports if peer not in r]
        self.before = [r for r in self.before if peer not in r]
        if hello.trace is not None:
            self.on_trace(hello.trace.signed)
        if not possible and self.idle_since is not None:
            self.idle_since = self.now
        view = self.view
        if view is not None:
            view.peer_greeted(peer, self.view_begin)
            if peer not in view.members:
                self.send(peer, self.status())

    def could_sum(self) -> bool:
        peers = self.trusted() | {self.me}
        slot = len(self.frozen)
        return self.session.enough(peers) and (slot == len(self.session.plan) or self.may_sum(slot, peers))

    def on_fields(self, peer: int, message: Fields) -> None:
        mine, theirs = dict(self.session.fields), dict(message.fields)
        names = [n for n in {**mine, **theirs} if mine.get(n) != theirs.get(n)] or ["protocol version"]
        self.mismatched.add(peer)
        self.actions.append(Say(f"{self.session.names[peer]} has another session: {', '.join(names)} differ"))

    def on_trace(self, signed: Signed) -> None:
        ballot = signed.item.ballot
        if signed.author != self.me or self.lost_state or ballot <= self.promised or ballot <= self.joined:
            return
        if not verifies(self.session, signed):
            return
        self.lost_state = True
        self.seen = max(self.seen, ballot.counter)
        self.proposal = None
        self.persist_small("lost")
        self.actions.append(Say("this peer has lost its state, or runs with an old copy, or its key runs"
                                " elsewhere: it votes and releases no more in this session"))

    def note_frozen(self, peer: int, frozen: int) -> None:
        expect(frozen <= len(self.session.plan), "inconsistent", "more slots frozen than there are")
        if frozen > self.known.get(peer, 0):
            self.known[peer] = frozen
        if frozen == len(self.session.plan):
            self.complete.add(peer)

    # --- acceptor (section 8)

    def on_prepare(self, peer: int, ballot: Ballot) -> None:
        expect(self.in_council and peer in self.session.council and ballot.proposer == peer, "out-of-order",
               "prepare of another's ballot, or outside the council")
        expect(self.near(ballot.counter), "inconsistent", "a ballot far above all others")
        self.seen = max(self.seen, ballot.counter)
        if self.lost_state:
            return
        view = self.view
        if (view is not None and peer not in view.members) or self.now < self.hold_off.get(peer, 0.0):
            self.send(peer, Refuse(ballot, view.ballot if view is not None else self.promised))
            return
        if ballot <= self.promised:
            self.send(peer, Refuse(ballot, self.promised))
            return
        self.promised = ballot
        self.persist_small("promised")
        self.proposal = None
        if view is not None:
            self.back_off(peer)
            self.fail_view(Reason.Superseded, None)
        self.idle_since = max(self.idle_since or 0.0, self.now + self.seconds("propose_ms"))
        self.send(peer, PromiseMessage(self.promise(ballot)))

    def back_off(self, other: int) -> None:
        k = self.ended_for[other] = self.ended_for.get(other, 0) + 1
        if k >= 3:
            self.hold_off[other] = self.now + 2 ** min(k - 2, 8) * self.seconds("propose_ms")

    def promise(self, ballot: Ballot) -> Signed[Promised]:
        slot, accepted, decision = len(self.frozen), None, []
        if self.accepted is not None and self.accepted.record.value.sum.slot == slot:
            digest = value_digest(self.session, self.accepted.record.value)
            accepted = Accepted(self.accepted.ballot, slot, digest)
            if self.released is not None and (self.released.slot, self.released.value) == (slot, digest):
                decision = self.released.decision
        return self.sign(Promised(ballot, Promise(slot, accepted, bool(decision)), decision))

    def accept(self, ballot: Ballot, record: Record, total: bytes) -> None:
        self.accepted = AcceptedState(ballot, record, total)
        self.actions.append(Persist("accepted", "accepted", pack_accepted(self.accepted)))

    def release(self, slot: int, digest: bytes, decision: list[Signed]) -> None:
        self.released = ReleasedState(slot, digest, decision)
        self.actions.append(Persist("released", "released", canonical("ReleasedState", self.released)))

    def candidate(self, digest: bytes) -> tuple[Record, bytes] | None:
        """A record and its total, from what was acknowledged or fetched."""
        if self.accepted is not None and value_digest(self.session, self.accepted.record.value) == digest:
            return self.accepted.record, self.accepted.total
        return self.candidates.get(digest)

    def keep_candidate(self, record: Record, total: bytes) -> None:
        self.candidates[value_digest(self.session, record.value)] = (record, total)

    def keep_keys(self, keys: list[Signed]) -> None:
        for key in keys:
            self.keep_trace(key.author, TraceKey(key))
        self.persist_small("traces")

    def keep_trace(self, author: int, trace: Any) -> None:
        if author not in self.session.council or author == self.me:
            return
        old = self.traces.get(author)
        if old is None or old.signed.item.ballot <= trace.signed.item.ballot:
            self.traces[author] = trace

    # --- proposer (section 8)

    def advance(self) -> None:
        """What the time, or what has just happened, makes possible."""
        self.watch_end()
        if self.stopped:
            return
        peers = self.trusted() | {self.me}
        enough = self.session.enough(peers)
        if self.idle_since is None:
            whole = len(self.known) == len(self.session.roster) - 1
            if whole or self.now - self.started >= self.seconds("gather_ms") or self.seen > 0:
                self.idle_since = self.now
        elif enough and not self.was_enough:
            self.idle_since = max(self.idle_since, self.now)
        self.was_enough = enough
        if self.view is not None:
            self.last_alive = self.now
            self.view.advance()
        if self.proposal is not None:
            self.advance_proposal()
        elif self.my_turn(enough):
            self.propose()
        self.transfers.advance()

    def my_turn(self, enough: bool) -> bool:
        if not self.in_council or self.lost_state or self.view is not None or not enough:
            return False
        if self.idle_since is None or self.opening or self.transfers.fetching is not None:
            return False
        if len(self.frozen) == len(self.session.plan) or self.transfers.target() is not None:
            return False
        present = [p for p in self.session.council if p == self.me or p in self.trusted()]
        return self.now - self.idle_since >= present.index(self.me) * self.seconds("propose_ms")

    def propose(self) -> None:
        counter = max(self.seen, self.promised.counter, self.joined.counter) + 1
        ballot = Ballot(counter, self.me)
        self.seen = counter
        self.promised = ballot
        self.persist_small("promised")
        self.proposal = Proposal(ballot, self.now)
        self.proposal.promises[self.me] = self.promise(ballot)
        for peer in self.session.council:
            if peer in self.trusted():
                self.send(peer, Prepare(ballot))
        self.advance_proposal()

    def on_promise(self, peer: int, signed: Signed[Promised]) -> None:
        self.note_frozen(peer, signed.item.promise.frozen)
        proposal = self.proposal
        if proposal is None or signed.item.ballot != proposal.ballot or signed.author != peer:
            return
        check_promise(self.session, signed, proposal.ballot)
        proposal.promises[peer] = signed
        self.refusals.pop(peer, None)
        self.keep_trace(peer, TracePromise(signed))

    def on_refuse(self, peer: int, message: Refuse) -> None:
        expect(peer in self.session.council and message.ballot.proposer == self.me, "out-of-order",
               "a refusal of another's ballot")
        proposal = self.proposal
        if proposal is None or message.ballot != proposal.ballot:
            return
        expect(self.near(message.other.counter), "inconsistent", "a ballot far above all others")
        self.seen = max(self.seen, message.other.counter)
        self.refusals[peer] = self.refusals.get(peer, 0) + 1
        proposal.refused.add(peer)
        left = len(set(self.session.council) - proposal.refused)
        if self.refusals[peer] <= 2 or left < self.session.quorum:
            self.proposal = None
            self.idle_since = self.now + self.seconds("propose_ms") / 2

    def owed(self) -> tuple[int, Accepted | None, list[int]] | None:
        """What the promises of a quorum oblige the proposer to."""
        if self.proposal is None or len(self.proposal.promises) < self.session.quorum:
            return None
        return obligation(list(self.proposal.promises.values()))

    def advance_proposal(self) -> None:
        proposal, owed = self.proposal, self.owed()
        if owed is None:
            if self.now - proposal.since >= self.seconds("propose_ms"):
                self.proposal = None
                self.idle_since = self.now
            return
        slot, accepted, _ = owed
        if len(self.frozen) < slot or len(self.opened) < len(self.frozen):
            return  # fetching, opening
        if len(self.frozen) == len(self.session.plan):
            self.proposal = None
            return
        finish = accepted is not None and len(self.frozen) == slot
        if finish and self.candidate(accepted.value) is None:
            return  # fetching
        members = self.choose_members()
        if not finish and not self.may_sum(len(self.frozen), members):
            members = self.trusted() | {self.me}
            if not self.may_sum(len(self.frozen), members):
                self.proposal = None
                self.idle_since = self.now + self.seconds("propose_ms")
                return
        if not self.session.enough(members):
            self.proposal = None
            self.idle_since = self.now
            return
        self.proposal = None
        self.enter(Begin(proposal.ballot, sorted(members), len(self.frozen),
                         list(proposal.promises.values())))

    def choose_members(self) -> set[int]:
        """Section 8, *Members*."""
        reachable = self.trusted() | {self.me}
        members = {p for p in reachable if p == self.me or self.seen > self.skipped.get(p, -1)}
        named: dict[int, int] = {}
        for pair in self.reports:
            for peer in pair:
                named[peer] = named.get(peer, 0) + 1
        for author, suspect in self.reports:
            if author in members and suspect in members and author != suspect:
                pair = [p for p in (author, suspect) if p != self.me]
                members.discard(max(pair, key=lambda p: (named[p], p)))
        if not self.session.enough(members) or (len(members) < 3 <= len(reachable)):
            return reachable
        return members

    # --- views

    def on_begin(self, peer: int, begin: Begin) -> None:
        session, members, ballot = self.session, begin.members, begin.ballot
        kind = "inconsistent"
        expect(all(a < b for a, b in zip(members, members[1:])) and members != [] and
               members[-1] < len(session.roster), kind, "members do not ascend, or are not in the roster")
        expect(self.me in members and ballot.proposer in members, kind, "receiver or proposer is no member")
        expect(session.enough(set(members)), kind, "the members are too few")
        expect(ballot.proposer in session.council and ballot.proposer != self.me, kind, "the proposer")
        expect(begin.frozen <= len(session.plan), kind, "more slots frozen than there are")
        expect(ballot.counter <= MOST, kind, "a counter too high")
        if ballot == self.joined:
            return
        if ballot < self.joined or ballot < self.promised or len(self.frozen) == len(session.plan):
            self.send(peer, self.status())
            self.send(peer, Failed(self.sign(Failure(ballot, Reason.Superseded, None))))
            return
        order = session.tree(ballot, members)
        parent = order[(order.index(self.me) - 1) // 2]
        expect(peer == parent, "out-of-order", "begin from no parent")
        authors = [p.author for p in begin.promises]
        expect(len(set(authors)) == len(authors) >= session.quorum, kind, "no quorum of promises")
        for promise in begin.promises:
            check_promise(session, promise, ballot)
            expect(promise.item.promise.frozen <= begin.frozen, kind, "promises have more frozen")
        if self.view is not None:
            self.fail_view(Reason.Superseded, None)
        self.proposal = None
        for promise in begin.promises:
            self.keep_trace(promise.author, TracePromise(promise))
        self.enter(begin)

    def enter(self, begin: Begin) -> None:
        self.joined = begin.ballot
        self.promised = max(self.promised, begin.ballot)
        self.seen = max(self.seen, begin.ballot.counter)
        self.persist_small("joined")
        self.before, self.reports = self.reports, []
        self.view_begin = begin
        self.last_members = begin.members
        self.view = view = View(self, begin)
        self.last_alive = self.now
        for child in view.children:
            if child in self.known:
                self.send(child, begin)
            else:
                view.waiting_children[child] = self.now + self.seconds("stall_ms")
        self.tell(self.trusted() - set(begin.members))
        missing = self.trusted() - set(begin.members)
        if not view.leading and missing - self.omitted:
            suspect = min(missing - self.omitted)
            self.omitted |= missing
            raise EndView(Reason.Omitted, suspect, "a greeted peer is left out")
        view.start()

    def fail_view(self, reason: Reason, suspect: int | None, heard: Signed[Failure] | None = None,
                  sender: int | None = None) -> None:
        view = self.view
        if view is None:
            return
        signed = heard or self.sign(Failure(view.ballot, reason, suspect))
        for peer in sorted((view.neighbours | {view.leader}) - {self.me, sender}):
            self.send(peer, Failed(signed))
        self.view = None
        self.last_alive = self.now
        self.tell(self.trusted())
        if reason == Reason.Omitted:
            self.reports, self.before = self.reports + self.before, []
        if reason in (Reason.Superseded, Reason.Disagreement, Reason.TooFew):
            n = self.ended[signed.author] = self.ended.get(signed.author, 0) + 1
            if n >= 3:
                self.skipped[signed.author] = self.seen + 2 ** min(n - 2, 16)
        if reason in (Reason.Disagreement, Reason.TooFew) and not view.leading:
            self.back_off(view.leader)
        self.report(signed.author, reason, suspect)
        self.idle_since = self.now + 0.1
        self.transfers.view_ended()
        if reason != Reason.Enlarged:
            self.failed_views += 1
        if self.failed_views >= self.session.timing["max_views"]:
            self.stop(3, f"{self.failed_views} views failed")
        if reason == Reason.Enlarged and view.leading:
            self.idle_since = self.now
            if self.session.enough(self.trusted() | {self.me}) and not self.lost_state:
                self.propose()

    def report(self, author: int, reason: Reason, suspect: int | None) -> None:
        if suspect is None or reason not in (Reason.Lost, Reason.Stalled, Reason.Fault):
            return
        if (author, suspect) in self.reports:
            return
        if all(pair[1] != suspect for pair in self.reports):
            n = self.lost_count[suspect] = self.lost_count.get(suspect, 0) + 1
            if n >= 2:
                self.skipped[suspect] = self.seen + 2 ** min(n - 1, 16)
        self.reports.append((author, suspect))

    def on_failed(self, peer: int, signed: Signed[Failure]) -> None:
        ballot, reason, suspect = signed.item
        expect(suspect is None or suspect < len(self.session.roster), "inconsistent",
               "a suspect outside the roster")
        view = self.view
        if view is not None and ballot == view.ballot:
            if peer in view.members and signed.author in view.members:
                expect(verifies(self.session, signed), "bad-signature", "a failure")
                self.fail_view(reason, suspect, signed, peer)
        elif view is None and ballot == self.joined:
            if peer in self.last_members and signed.author in self.last_members:
                expect(verifies(self.session, signed), "bad-signature", "a failure")
                self.report(signed.author, reason, suspect)

    # --- frozen slots

    def freeze(self, frozen: Frozen, total: bytes) -> None:
        slot = len(self.frozen)
        state = FrozenState(frozen, total)
        self.frozen.append(state)
        self.actions.append(Persist(f"frozen-{slot}", f"frozen-{slot}", pack_frozen(state)))
        self.candidates.clear()
        self.last_alive = self.now
        self.failed_views = 0
        self.lost_count.clear()
        self.ended.clear()
        self.skipped.clear()
        self.ended_for.clear()
        self.hold_off.clear()
        if self.view is not None:
            self.tell(self.trusted() - set(self.view.members))
        self.opening += 1

        def done(vector: bytes) -> None:
            self.opening -= 1
            self.opened_slot(slot, vector)

        self.job(lambda: opened_vector(self.session, frozen, total), done)

    def opened_slot(self, slot: int, vector: bytes) -> None:
        self.opened[slot] = vector
        self.task.check_opened(slot, vector)
        view = self.view
        if len(self.frozen) == len(self.session.plan) and not self.opening:
            self.done_since = self.now
            self.view = None
            self.proposal = None
            self.tell(self.trusted())
        elif view is not None:
            view.opened()
        elif not self.opening and self.transfers.target() is None:
            self.tell(self.trusted())

    def reopen(self) -> None:
        """After a restart: opens what was frozen before."""
        for slot, (frozen, total) in enumerate(self.frozen):
            self.opened[slot] = opened_vector(self.session, frozen, total)
            self.task.check_opened(slot, self.opened[slot])
        if self.done:
            self.done_since = self.now

    # --- the end (section 17)

    def watch_end(self) -> None:
        if self.done:
            others = set(range(len(self.session.roster))) - {self.me}
            if others <= self.complete or self.now - self.done_since >= self.seconds("linger_ms"):
                self.stop(0, "")
            return
        if self.view is not None:
            compute = self.seconds("compute_ms")
            if self.view.jobs and self.now - self.view.job_since > compute:
                self.stop(2, "the own computation took longer than compute_ms")
            return
        grace = DEAD_AFTER + self.seconds("gather_ms") + self.seconds("quorum_ms")
        said = any(self.said_in_view.values()) and self.now - self.last_alive < 2 * self.seconds("compute_ms")
        if not said and self.now - max(self.last_alive, self.heard_of_view) > grace:
            self.stop(3, f"too few peers for {self.session.timing['quorum_ms']} ms")


