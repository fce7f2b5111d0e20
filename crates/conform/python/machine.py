"""The protocol of one peer without input and output: greeting, elections, the end (spec, sections 7, 8, 17).

The driver calls the methods that are an `event`. The driver itself has these methods: - `send(to, bulk,
header, payload)` sends a message. - `persist(label, file, data)` writes a file, and returns when the
data is on disk. - `drop(peer, kind, text)` closes the connection with a blamed peer, and refuses the
peer from now on. - `compute(run, then)` runs a job. `then` and the result, or the exception, are passed
to `finished`. - `say(text)` shows a line, `done()` reports that all sums are opened, `stop(code, text)`
ends the peer. """

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Callable

from model import DataError, Refused, Task
from primitives import VERSION
from primitives.crypto import Draw, Identity
from primitives.decision import Fault, check_promise, expect, opened_vector, tree_of, value_digest, verifies
from primitives.encoding import (
    Accepted,
    Ballot,
    Committed,
    Failure,
    Malformed,
    Message,
    Promise,
    Promised,
    Reason,
    Record,
    Signed,
    Trace,
    ViewMessage,
    canonical,
    decode_message,
    encode_message,
    is_bulk,
)
from proposing import Proposer
from transfer import Transfers
from view import EndView, View

from session import Session
from store import AcceptedState, CommittedState, Loaded, ReleasedState, Small

NEAR = 1 << 20
MOST = 1 << 48
DEAD_AFTER = 7.25


def event(method: Callable[..., None]) -> Callable[..., None]:
    """Marks a method that the driver calls, with the time as last argument. `advance` runs after it."""

    @functools.wraps(method)
    def run(machine: Machine, *arguments: Any) -> None:
        *arguments, machine.now = arguments
        machine.guard(lambda: method(machine, *arguments))
        machine.guard(machine.advance)

    return run


class Machine:
    def __init__(self, session: Session, identity: Identity, task: Task, loaded: Loaded, draw: Draw,
                 driver: Any, now: float) -> None:
        self.session = session
        self.identity = identity
        self.task = task
        self.draw = draw
        self.driver = driver
        self.me = session.roster.index(identity.public)
        self.in_committee = self.me in session.committee
        self.now = self.started = now
        self.stopped = False

        # values on disk, and the vectors that were opened from them
        self.promised, self.joined, self.lost_state, kept = loaded.small
        self.traces: dict[int, Any] = dict(kept)
        self.accepted: AcceptedState | None = loaded.accepted
        self.released: ReleasedState | None = loaded.released
        self.committed: list[CommittedState] = list(loaded.committed)
        self.opened: dict[int, bytes] = {}
        self.opening = 0
        self.candidates: dict[bytes, tuple[Record, bytes]] = {}  # records accepted or fetched, by digest
        if self.accepted is not None:
            self.keep_candidate(self.accepted.record, self.accepted.total)

        # other peers
        self.up_peers: set[int] = set()
        self.said: dict[int, int] = {}
        self.known: dict[int, int] = {}   # greeted peers, with the number of slots they have committed
        self.said_in_view: dict[int, bool] = {}
        self.mismatched: set[int] = set()
        self.blamed: set[int] = set()
        self.complete: set[int] = set()   # peers that reported that they have all slots

        # elections and views
        self.seen = max(self.promised.counter, self.joined.counter)
        self.view: View | None = None
        self.last_view: View | None = None  # current view, or the last one
        self.failed_views = 0
        self.led_in_vain: Counter[int] = Counter()
        self.last_alive = self.heard_of_view = now  # last time at which this peer was in a view or a slot was committed
        self.done_since: float | None = None
        self.whole = len(self.session.plan)   # number of slots to sum
        self.refusal: str | None = None   # reason why the task ends after the last slot

        self.proposer = Proposer(self)
        self.transfers = Transfers(self)
        self.guard(self.reopen)

    # --- called by the driver

    @event
    def up(self, peer: int) -> None:
        if peer not in self.blamed:
            self.up_peers.add(peer)
            self.said[peer] = len(self.committed)
            self.send(peer, Message.Hello(VERSION, self.session.id, len(self.committed), self.traces.get(peer)))

    @event
    def lost(self, peer: int) -> None:
        self.forget(peer)
        self.mismatched.discard(peer)
        self.said_in_view.pop(peer, None)
        view = self.view
        if view is not None and peer in view.neighbours:
            self.fail_view(Reason.Lost, peer)

    @event
    def frame(self, peer: int, bulk: bool, header: bytes, payload: bytes) -> None:
        if peer in self.up_peers:
            self.guard(lambda: self.on_message(peer, decode_message(header, payload, bulk)), peer)

    @event
    def finished(self, then: Callable[[Any], None], result: Any) -> None:
        if isinstance(result, Exception):
            raise result
        then(result)

    @event
    def tick(self) -> None:
        if self.view is not None:
            self.view.tick()

    @event
    def leave(self) -> None:
        """Ends the view and informs the other peers, because this peer was interrupted."""
        self.fail_view(Reason.Left, self.me)
        self.stop(130, "interrupted")

    # --- helpers

    def guard(self, run: Callable[[], None], sender: int | None = None) -> None:
        """Runs a function. An exception leads to blame, the end of the view, or the end of the session."""
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
            reason, suspect, text = end.args
            self.driver.say(f"a view ends here: {text}")
            self.fail_view(reason, suspect)
        except (DataError, Refused) as error:
            self.fail_view(Reason.Left, self.me)
            self.stop(2 if isinstance(error, DataError) else 3, str(error))

    def stop(self, code: int, text: str) -> None:
        self.stopped = True
        self.driver.stop(code, text)

    def seconds(self, field: str) -> float:
        return self.session.timing[field] / 1000

    def send(self, to: int, message: Any) -> None:
        if to in self.up_peers:
            self.driver.send(to, is_bulk(message), *encode_message(message))

    def sign(self, item: Any) -> Signed:
        return self.identity.sign_item(self.session.id, self.me, item)

    def persist(self, label: str, state: Any, file: str | None = None) -> None:
        self.driver.persist(label, file or label, canonical(type(state).__name__, state))

    def persist_small(self, label: str) -> None:
        traces = list(self.traces.items())
        self.persist(label, Small(self.promised, self.joined, self.lost_state, traces), "small")

    def trusted(self) -> set[int]:
        """Returns the peers that are greeted and not blamed."""
        return set(self.known)

    def reachable(self) -> set[int]:
        return self.trusted() | {self.me}

    def tell(self, peers: set[int]) -> None:
        for peer in sorted(peers):
            self.send(peer, Message.Status(len(self.committed), self.view is not None))

    def may_sum(self, slot: int, members: set[int]) -> bool:
        holders = self.committed[1].committed.record.value.members if len(self.committed) > 1 else []
        return self.task.may_sum(slot, members, self.opened, holders)

    def note_counter(self, counter: int) -> None:
        expect(counter <= min(self.seen + NEAR, MOST), "inconsistent", "a ballot far above all others")
        self.seen = max(self.seen, counter)

    def forget(self, peer: int) -> None:
        self.up_peers.discard(peer)
        self.known.pop(peer, None)
        self.transfers.peer_lost(peer)

    def blame(self, peer: int, kind: str, text: str) -> None:
        if peer in self.blamed:
            return
        self.blamed.add(peer)
        self.driver.drop(peer, kind, text)
        self.forget(peer)
        view = self.view
        if view is not None and peer in view.members and view.concerns(self.me, peer, view.slot_now()):
            self.fail_view(Reason.Fault, peer)

    # --- greeting (section 7)

    def on_message(self, peer: int, message: Any) -> None:
        """Passes a message to the method for its kind."""
        kind = type(message).__name__
        if kind not in ("Hello", "Fields"):
            if peer in self.mismatched:
                return
            expect(peer in self.known, "out-of-order", "a message before hello")
        getattr(self, f"on_{kind.lower()}")(peer, message)

    def on_hello(self, peer: int, hello: Any) -> None:
        expect(peer not in self.known, "out-of-order", "hello twice")
        if (hello.version, hello.session) != (VERSION, self.session.id):
            self.mismatched.add(peer)
            self.send(peer, Message.Fields(self.session.fields))
            self.driver.say(f"{self.session.names[peer]} has another session or version")
            return
        possible = self.could_sum()
        self.complete.discard(peer)
        self.known[peer] = 0
        self.note_committed(peer, hello.committed)
        if hello.trace is not None:
            self.on_trace(hello.trace.signed)
        if not possible and self.proposer.idle_since is not None:
            self.proposer.idle_since = self.now
        if self.view is not None:
            self.view.peer_greeted(peer)
        outside = self.view is not None and peer not in self.view.members
        if outside or len(self.committed) != self.said.get(peer):
            self.tell({peer})

    def could_sum(self) -> bool:
        peers, slot = self.reachable(), len(self.committed)
        return self.session.enough(peers) and (slot == len(self.session.plan) or self.may_sum(slot, peers))

    def on_fields(self, peer: int, message: Any) -> None:
        mine, theirs = dict(self.session.fields), dict(message.items)
        names = [n for n in {**mine, **theirs} if mine.get(n) != theirs.get(n)] or ["protocol version"]
        self.mismatched.add(peer)
        self.driver.say(f"{self.session.names[peer]} has another session: {', '.join(names)} differ")

    def on_trace(self, signed: Signed) -> None:
        ballot = signed.item.ballot
        if signed.author != self.me or self.lost_state or ballot <= max(self.promised, self.joined):
            return
        if verifies(self.session, signed):
            self.lost_state = True
            self.seen = max(self.seen, ballot.counter)
            self.proposer.withdraw()
            self.persist_small("lost")
            self.driver.say("this peer has lost its state, or has an old copy, or its key is also in use elsewhere")
            self.driver.say("this peer does not vote or release any more in this session")

    def on_status(self, peer: int, status: Any) -> None:
        self.note_committed(peer, status.committed)
        self.said_in_view[peer] = status.in_view
        if status.in_view:
            self.heard_of_view = self.now

    def note_committed(self, peer: int, committed: int) -> None:
        expect(committed <= len(self.session.plan), "inconsistent", "more slots committed than there are")
        self.known[peer] = committed
        if committed >= self.whole:
            self.complete.add(peer)
        else:
            self.complete.discard(peer)

    def on_transfer(self, peer: int, message: Any) -> None:
        self.transfers.on_message(peer, message.message)

    def on_exchange(self, peer: int, message: Any) -> None:
        raise Fault("out-of-order", "a message of an exchange in a task without one")

    # --- acceptor (section 8)

    def on_prepare(self, peer: int, message: Any) -> None:
        ballot, view = message.ballot, self.view
        good = self.in_committee and peer in self.session.committee and ballot.proposer == peer
        expect(good, "out-of-order", "a prepare for another peer's ballot, or from outside the committee")
        self.note_counter(ballot.counter)
        if self.lost_state:
            return
        marks = self.proposer.marks
        if view is not None or not marks.may_promise(self, peer) or ballot <= self.promised:
            self.send(peer, Message.Refuse(ballot, self.promised if view is None else view.ballot))
            return
        self.promised = ballot
        self.persist_small("promised")
        marks.promised(self, ballot)
        self.proposer.has_promised()
        self.send(peer, Message.Promise(self.promise(ballot)))

    def promise(self, ballot: Ballot) -> Signed[Promised]:
        slot, accepted, decision = len(self.committed), None, []
        if self.accepted is not None and self.accepted.record.value.sum.slot == slot:
            digest = value_digest(self.session, self.accepted.record.value)
            accepted = Accepted(self.accepted.ballot, slot, digest)
            if self.released is not None and (self.released.slot, self.released.value) == (slot, digest):
                decision = self.released.decision
        reached = bytearray(-(-len(self.session.roster) // 8))
        for peer in self.reachable() - self.complete:
            reached[peer // 8] |= 1 << peer % 8
        promise, marks = Promise(slot, accepted, bool(decision)), self.proposer.marks.before(ballot)
        return self.sign(Promised(ballot, promise, decision, bytes(reached), marks))

    def accept(self, ballot: Ballot, record: Record, total: bytes) -> None:
        self.accepted = AcceptedState(ballot, record, total)
        self.persist("accepted", self.accepted)
        self.keep_candidate(record, total)

    def release(self, slot: int, digest: bytes, decision: list[Signed]) -> None:
        self.released = ReleasedState(slot, digest, decision)
        self.persist("released", self.released)

    def keep_candidate(self, record: Record, total: bytes) -> None:
        self.candidates[value_digest(self.session, record.value)] = (record, total)

    def keep_keys(self, keys: list[Signed]) -> None:
        for key in keys:
            self.keep_trace(key.author, Trace.Key(key))
        self.persist_small("traces")

    def keep_trace(self, author: int, trace: Any) -> None:
        if author in self.session.committee and author != self.me:
            old = self.traces.get(author, trace)
            self.traces[author] = max(trace, old, key=lambda t: t.signed.item.ballot)

    def on_promise(self, peer: int, message: Any) -> None:
        self.note_committed(peer, message.signed.item.promise.committed)
        self.proposer.on_promise(peer, message.signed)

    def on_refuse(self, peer: int, message: Any) -> None:
        self.proposer.on_refuse(peer, message)

    def advance(self) -> None:
        """Continues after an event or when time has passed."""
        self.watch_end()
        if self.stopped:
            return
        if self.view is not None:
            self.last_alive = self.now
            self.view.advance()
        self.proposer.advance()
        self.transfers.advance()

    # --- views

    def on_view(self, peer: int, message: Any) -> None:
        if self.view is not None:
            if peer == self.view.parent and isinstance(message.message, ViewMessage.Down):
                self.heard_of_view = self.now
            self.view.on_message(peer, message.message)

    def on_begin(self, peer: int, message: Any) -> None:
        session, signed, kind = self.session, message.signed, "inconsistent"
        ballot, promises = signed.item
        sound = signed.author == ballot.proposer and verifies(session, signed)
        if ballot == self.joined:
            if self.view is not None and sound and signed.item != self.view.begin.item:
                # These messages are the proof. Without it, neighbours could mark this peer for ending
                # the view.
                for neighbour in sorted(self.view.neighbours & set(self.known)):
                    self.send(neighbour, Message.Begin(self.view.begin))
                    self.send(neighbour, message)
                raise EndView(Reason.Fault, ballot.proposer, "one view that begins in two ways")
            return
        leader = ballot.proposer
        expect(leader in session.committee and leader != self.me, kind, "the proposer")
        expect(signed.author == leader and ballot.counter <= MOST, kind, "the proposer, or a counter too high")
        expect(sound, "bad-signature", "a begin")
        if ballot < self.joined:
            return
        if self.sums_no_more():
            slot = max((p.item.promise.committed for p in promises), default=0)
            self.tell({peer})
            self.send(peer, Message.Failed(self.sign(Failure(ballot, slot, Reason.Stalled, peer))))
            return
        authors = {p.author for p in promises}
        expect(len(authors) == len(promises) >= session.quorum, kind, "no quorum of promises")
        for promise in promises:
            check_promise(session, promise, ballot)
        parents = tree_of(session, ballot, promises)
        expect(parents is not None, kind, "no view of this leader follows")
        for promise in promises:
            self.keep_trace(promise.author, Trace.Promise(promise))
            for mark in promise.item.marks:
                self.proposer.marks.note(mark)
        if self.view is not None:
            for neighbour in sorted(self.view.neighbours - {peer}):
                self.send(neighbour, message)
            self.over(ballot.proposer, Reason.Ended)
        if parents.get(self.me) == peer:
            self.proposer.proposal = None
            self.enter(signed, parents)
        else:
            self.proposer.marks.lease = None
            self.last_alive = self.now

    def enter(self, begin: Signed, parents: dict[int, int | None]) -> None:
        ballot = begin.item.ballot
        self.joined = ballot
        self.promised = max(self.promised, ballot)
        self.seen = max(self.seen, ballot.counter)
        self.persist_small("joined")
        self.proposer.marks.lease = None
        self.view = self.last_view = view = View(self, begin, parents)
        self.last_alive = self.now
        for child in view.children:
            if child in self.known:
                self.send(child, Message.Begin(begin))
            else:
                view.waiting_children[child] = self.now + self.seconds("view_timeout_ms")
                del view.heard[child]
        if view.leading:
            others = set(self.session.committee) & set(view.members) - set(view.children) - {self.me}
            for peer in sorted(others & set(self.known)):
                self.send(peer, Message.Begin(begin))
        self.tell(self.trusted() - set(view.members))
        view.own_part("Keys", -1, view.own_key)

    def fail_view(self, reason: Reason, suspect: int | None) -> None:
        """Ends the view, if there is one, and names a member as the cause: by default the parent of
        this peer."""
        view = self.view
        if view is None:
            return
        if suspect is None or suspect == self.me or suspect not in view.members:
            suspect = view.parent
        reason = Reason.Ended if suspect is None else reason
        self.end_view(self.sign(Failure(view.ballot, view.slot_now(), reason, suspect)), None)

    def end_view(self, signed: Signed[Failure], sender: int | None) -> None:
        view = self.view
        self.proposer.marks.note(signed)
        told = (view.neighbours | {view.leader} | set(self.session.committee)) - {self.me, sender}
        for peer in sorted(told):
            self.send(peer, Message.Failed(signed))
        self.over(signed.author, signed.item.reason)

    def over(self, author: int, reason: Reason) -> None:
        view = self.view
        self.view = None
        self.last_alive = self.now
        self.tell(self.trusted())
        if reason == Reason.Ended and not view.committed_one and not view.leading:
            self.proposer.marks.began_nothing(self, view.leader, self.now)
        self.led_in_vain[view.leader] += not view.committed_one
        self.proposer.wait(0.1)
        self.transfers.view_ended()
        if reason != Reason.Ended or not view.committed_one:
            self.failed_views += 1
            if self.failed_views >= self.session.timing["max_views"]:
                self.stop(3, f"{self.failed_views} views failed")
        elif view.leading and author == self.me:
            self.proposer.wait(0.0)
            if self.session.enough(self.reachable()) and not self.lost_state:
                self.proposer.propose()

    def on_failed(self, peer: int, message: Any) -> None:
        signed, view = message.signed, self.last_view
        ballot, slot, reason, suspect = signed.item
        known = suspect is None or suspect < len(self.session.roster)
        expect(known, "inconsistent", "a suspect outside the roster")
        author = signed.author
        if author == self.me:
            return
        if view is None or ballot != view.ballot:
            # The author may have been the only honest peer in that view.
            if suspect not in (None, author):
                expect(verifies(self.session, signed), "bad-signature", "a failure")
                self.proposer.marks.note(signed)
            return
        if not {peer, author} <= set(view.members):
            return
        by_leader = suspect is None and author == view.leader
        counts = by_leader if reason == Reason.Ended else view.concerns(author, suspect, slot)
        quits = self.view is view and author == peer and peer in view.neighbours
        if not counts and not quits:
            return
        expect(verifies(self.session, signed), "bad-signature", "a failure")
        if not counts:
            self.fail_view(Reason.Stalled, peer)
        elif self.view is view:
            self.end_view(signed, peer)
        else:
            self.proposer.marks.note(signed)

    # --- committed slots

    def commit(self, committed: Committed, total: bytes) -> None:
        slot = len(self.committed)
        self.committed.append(CommittedState(committed, total))
        self.persist(f"committed-{slot}", self.committed[-1])
        self.last_alive = self.now
        self.failed_views = 0
        self.candidates.clear()
        self.proposer.marks.idle.clear()
        self.led_in_vain.clear()
        if self.view is not None:
            self.tell(self.trusted() - set(self.view.members))
        self.opening += 1
        self.driver.compute(functools.partial(opened_vector, self.session, committed, total),
                            functools.partial(self.opened_slot, slot))

    def opened_slot(self, slot: int, vector: bytes) -> None:
        self.opening -= 1
        self.opened[slot] = vector
        try:
            self.task.check_opened(slot, vector)
        except Refused as error:
            self.refusal, self.whole = str(error), len(self.committed)
            self.complete |= {peer for peer, theirs in self.known.items() if theirs >= self.whole}
        if self.sums_no_more() and not self.opening:
            self.view = None
            self.proposer.proposal = None
            self.tell(self.trusted())
        elif self.view is not None:
            self.view.next_order()
        elif not self.opening and not self.transfers.wanting():
            self.tell(self.trusted())

    def sums_no_more(self) -> bool:
        return len(self.committed) >= self.whole

    def reopen(self) -> None:
        """Opens the slots that were committed before a restart."""
        for slot, (committed, total) in enumerate(self.committed):
            self.opened[slot] = opened_vector(self.session, committed, total)
            self.task.check_opened(slot, self.opened[slot])

    # --- the end (section 17)

    def watch_end(self) -> None:
        compute = self.seconds("compute_ms")
        if self.refusal is not None:
            if self.done_since is None:
                self.done_since = self.now
            members = set(self.committed[-1].committed.record.value.members) - {self.me}
            served = members <= self.complete
            if served or self.now - self.done_since >= self.seconds("linger_ms"):
                self.stop(3, self.refusal)
        elif len(self.opened) == len(self.session.plan):
            if self.done_since is None:
                self.done_since = self.now
                self.driver.done()
            others = set(range(len(self.session.roster))) - {self.me}
            if others <= self.complete or self.now - self.done_since >= self.seconds("linger_ms"):
                self.stop(0, "")
        elif self.view is not None:
            if self.view.jobs and self.now - self.view.job_since > compute:
                self.stop(2, "this peer's computation took longer than compute_ms")
        else:
            grace = DEAD_AFTER + self.seconds("start_wait_ms") + self.seconds("no_quorum_timeout_ms")
            said = any(self.said_in_view.values()) and self.now - self.last_alive < 2 * compute
            if not said and self.now - max(self.last_alive, self.heard_of_view) > grace:
                self.stop(3, f"too few peers for {self.session.timing['no_quorum_timeout_ms']} ms")
