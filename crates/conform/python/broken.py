"""Peers that each break one MUST on purpose, to test whether `flyswarm-conform check` finds the flaw.

    python3 broken.py NAME [arguments of peer.py...]    runs the peer with that flaw
    python3 broken.py --list                            lists the flaws, and the flaws that no case catches
    python3 broken.py --check PROGRAM [NAME...]         runs the case of each flaw; exit 1 if one is missed

A name is the number of a MUST (tests/vectors/README.md), followed by a word if the MUST has several flaws. A
flaw is caught if its case fails and the line of the case names the MUST.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, NamedTuple

import channels
import machine
import proposing
import reduction
import transfer
import transport
import view
from primitives import crypto, decision, encoding, sharing
from primitives.encoding import Malformed

import peer
import store

BESIDE = 3  # cases that run at the same time
LIMIT = 180  # seconds for one case; the check itself stops earlier
RACES = ("M10.1",)  # the same message breaks no rule after the other peers have decided


class Flaw(NamedTuple):
    must: str
    case: str
    what: str
    patch: Callable[[], None]


# --- ways to break the peer


def instead(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replaces `owner.name` with the decorated function, whose first argument is the original."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        plain = getattr(owner, name)
        setattr(owner, name, lambda *args, **named: function(plain, *args, **named))
        return function

    return put


def unblamed(*words: str) -> Callable[[], None]:
    """Makes the peer drop messages with these faults without blaming the sender."""

    def patch() -> None:
        @instead(machine.Machine, "blame")
        def blame(plain: Any, self: Any, peer: int, kind: str, text: str) -> None:
            if not any(word in text for word in words):
                plain(self, peer, kind, text)

    return patch


def unchecked(owner: Any, *names: str) -> Callable[[], None]:
    """Makes these checks accept everything."""

    def patch() -> None:
        for name in names:
            setattr(owner, name, lambda *args: True)

    return patch


# --- section 2


def undecodable_is_dropped() -> None:
    @instead(machine.Machine, "blame")
    def blame(plain: Any, self: Any, peer: int, kind: str, text: str) -> None:
        if kind != "malformed":
            plain(self, peer, kind, text)


def tail_is_dropped() -> None:
    @instead(encoding, "read_all")
    def read_all(plain: Any, kind: str, data: Any, *limit: int) -> Any:
        return encoding.codec(kind).read(data)


def room_for_any_length() -> None:
    @instead(encoding.In, "integer")
    def integer(plain: Any, self: Any, width: int) -> int:
        n = plain(self, width)
        if width == 8:
            bytearray(n)  # allocates one byte for each entry
        return n


def shortest_integers_only() -> None:
    @instead(encoding.In, "integer")
    def integer(plain: Any, self: Any, width: int) -> int:
        start = self.at
        n = plain(self, width)
        shortest = encoding.Out()
        shortest.integer(n)
        if self.at - start != len(shortest):
            raise Malformed("integer longer than needed")
        return n


def wide_integers() -> None:
    @instead(encoding.In, "integer")
    def integer(plain: Any, self: Any, width: int) -> int:
        return plain(self, 8) % (1 << 8 * width)


# --- section 6


def no_yamux() -> None:
    channels.YAMUX = "/mplex/6.7.0"


def payload_is_dropped() -> None:
    @instead(machine, "decode_message")
    def decode_message(plain: Any, header: bytes, payload: bytes, bulk: bool) -> Any:
        return plain(header, payload if bulk else b"", bulk)


def strangers_come_in() -> None:
    """Admits a stranger as if it were a peer, until a peer of the roster connects."""
    strangers: dict[int, bytes] = {}

    @instead(transport.Node, "admitted")
    def admitted(plain: Any, self: Any, public: bytes) -> int | None:
        if public in self.roster:
            strangers.clear()
            return plain(self, public)
        strangers[min(self.links)] = public
        return min(self.links)

    @instead(transport.Node, "chooses")
    def chooses(plain: Any, self: Any, peer: int) -> bool:
        return self.roster[self.machine.me] < strangers.get(peer, self.roster[peer])


# --- section 8


def forged_promises_are_dropped() -> None:
    @instead(machine.Machine, "on_promise")
    def on_promise(plain: Any, self: Any, peer: int, message: Any) -> None:
        if decision.verifies(self.session, message.signed):
            plain(self, peer, message)


def promises_are_believed() -> None:
    machine.check_promise = proposing.check_promise = lambda *args: None


def lost_state_is_not_noticed() -> None:
    machine.Machine.on_trace = lambda self, signed: None


def promises_oblige_to_nothing() -> None:
    for module in (proposing, view):
        @instead(module, "obligation")
        def obligation(plain: Any, promises: list[Any]) -> tuple[int, None, list[int]]:
            return plain(promises)[0], None, []


# --- section 9


def first_key_is_of_the_child(otherwise: Callable[[], Exception]) -> Callable[[], None]:
    def patch() -> None:
        @instead(view.View, "on_report")
        def on_report(plain: Any, self: Any, sender: int, report: Any) -> None:
            if isinstance(report, encoding.Report.Keys) and report.items[0].author != sender:
                raise otherwise()
            plain(self, sender, report)

    return patch


def blame() -> Exception:
    return decision.Fault("inconsistent", "not its own key first")


def items_of_any_author() -> None:
    @instead(view.View, "on_report")
    def on_report(plain: Any, self: Any, sender: int, report: Any) -> None:
        everybody, below = set(self.members), self.below[sender]
        self.below[sender] = everybody
        try:
            plain(self, sender, report)
        finally:
            self.below[sender] = below


def repeated_items_count_once() -> None:
    @instead(view.View, "on_report")
    def on_report(plain: Any, self: Any, sender: int, report: Any) -> None:
        if isinstance(report, encoding.Report.Keys):
            report = encoding.Report.Keys(list({item.author: item for item in report.items}.values()))
        plain(self, sender, report)


# --- sections 10 to 15


def releases_at_once() -> None:
    """Releases before it checks and acknowledges. Later, the others may already have decided without
    this peer."""

    @instead(view.View, "try_accept")
    def try_accept(plain: Any, self: Any) -> None:
        if self.leading or not self.machine.in_committee or self.slot != len(self.machine.committed):
            return plain(self)
        machine, record = self.machine, self.record
        digest = decision.value_digest(machine.session, record.value)
        index = machine.session.committee.index(machine.me)
        release = machine.sign(sharing.make_release(
            machine.session.id, record.value.sum, digest, machine.me, index, record.deals, machine.identity))
        report = encoding.Report.Release(self.slot, [release])
        self.send(self.parent, encoding.ViewMessage.Up(self.ballot, report))
        return plain(self)


def released_is_forgotten() -> None:
    @instead(view.View, "try_accept")
    def try_accept(plain: Any, self: Any) -> None:
        self.machine.released = None
        plain(self)


def nothing_on_disk() -> None:
    store.Store.write = lambda self, name, data: None


def accepted_is_not_on_disk() -> None:
    @instead(store.Store, "write")
    def write(plain: Any, self: Any, name: str, data: bytes) -> None:
        if name != "accepted":
            plain(self, name, data)


def promised_is_not_on_disk() -> None:
    @instead(store.Store, "write")
    def write(plain: Any, self: Any, name: str, data: bytes) -> None:
        if name != "small":
            plain(self, name, data)


def half_is_on_disk() -> None:
    @instead(store.Store, "write")
    def write(plain: Any, self: Any, name: str, data: bytes) -> None:
        plain(self, name, data)
        path = os.path.join(self.folder, name)
        os.truncate(path, os.path.getsize(path) // 2)


def zero_is_a_shared_secret() -> None:
    @instead(crypto, "agree")
    def agree(plain: Any, secret: bytes, public: bytes) -> bytes:
        try:
            return plain(secret, public)
        except crypto.CryptoError:
            return bytes(32)


def deals_are_believed() -> None:
    view.deal_is_sound = decision.deal_is_sound = lambda session, signed: True


def no_credit_needed() -> None:
    reduction.WINDOW = 1 << 20


def what_was_fetched_is_believed() -> None:
    transfer.check_committed = transfer.check_record = lambda *args: None
    transfer.sealed_digest = lambda session, record, total: record.value.total


TABLE = [
    ("M2.1", "no-message", "drops messages that do not decode", undecodable_is_dropped),
    ("M2.1 cut", "header-cut", "drops messages that do not decode", undecodable_is_dropped),
    ("M2.1 tail", "bytes-left-over", "takes a header with one byte too many", tail_is_dropped),
    ("M2.1 wide", "integer-too-wide", "takes integers wider than their type", wide_integers),
    ("M2.2", "huge-header", "allocates memory for the stated length of a list, and dies", room_for_any_length),
    ("M2.3", "long-integers", "refuses integers that are longer than needed", shortest_integers_only),
    ("M6.1", "follower", "speaks another multiplexer than Yamux", no_yamux),
    ("M6.3", "payload-misplaced", "drops a payload of a message that has none", payload_is_dropped),
    ("M6.5", "stranger", "admits a peer that is not in the roster", strangers_come_in),
    ("M8.1", "promise-forged", "drops a forged promise", forged_promises_are_dropped),
    ("M8.1 begin", "begin-forged-promise", "drops a view with a forged promise",
     unblamed("the signature of a promise")),
    ("M8.1 mark", "begin-forged-mark", "drops a view with a forged mark", unblamed("the signature of a mark")),
    ("M8.1 ballot", "begin-other-promises", "drops a view with promises of another ballot",
     unblamed("a promise of another ballot")),
    ("M8.1 believed", "begin-other-promises", "believes every promise", promises_are_believed),
    ("M8.4", "leader-dies-in-release", "finishes no value of an earlier view", promises_oblige_to_nothing),
    ("M9.1", "items-reversed", "dies if a child's own key is not the first",
     first_key_is_of_the_child(AssertionError)),
    ("M9.1 blames", "items-reversed", "blames a child whose own key is not the first",
     first_key_is_of_the_child(blame)),
    ("M9.2", "key-forged", "takes items with any signature", unchecked(view, "is_signed")),
    ("M9.2 fit", "key-of-another-view", "takes items of any view", unchecked(view.View, "item_fits")),
    ("M9.2 item", "key-twice", "counts a repeated item once", repeated_items_count_once),
    ("M9.2 author", "key-of-another", "drops a report with such an item", unblamed("item of the report Keys")),
    ("M9.2 parent", "report-from-parent", "drops a report from the parent", unblamed("a report from the parent")),
    ("M9.2 order", "order-from-child", "drops an order from a child", unblamed("an order from a child")),
    ("M9.2 twice", "keys-twice", "drops the second report", unblamed("report Keys not awaited")),
    ("M9.2 whole", "key-left-out", "drops an incomplete report", unblamed("report Keys that leaves items out")),
    ("M9.2 ack", "acknowledged-too-early", "drops an incomplete report", unblamed("report Acknowledge that leaves items out")),
    ("M9.2 release", "released-too-early", "drops a report that comes too early", unblamed("report Release not awaited")),
    ("M9.2 later", "hold-of-later-slot", "drops an incomplete report", unblamed("report TotalReady that leaves items out")),
    ("M10.1", "follower", "releases before its acknowledgement", releases_at_once),
    ("M10.3", "restarted-in-accept", "leaves half of each record on disk", half_is_on_disk),
    ("M11.1", "key-low-order", "accepts a shared secret of zero", zero_is_a_shared_secret),
    ("M12.2", "deal-bad-share", "takes deals that are not sound", deals_are_believed),
    ("M12.2 order", "accept-bad-share", "takes records with such deals", deals_are_believed),
    ("M13.1", "total-too-early", "sends without credit", no_credit_needed),
    ("M14.1", "record-forged", "does not check the slots that it fetches", what_was_fetched_is_believed),
    # These flaws are not caught:
    ("M8.3", "state-lost", "votes although its state is lost", lost_state_is_not_noticed),
    ("M9.2 taken", "key-of-another", "takes items of any author", items_of_any_author),
    ("M10.2", "restarted-in-accept", "forgets what it has released", released_is_forgotten),
    ("M10.3 nothing", "restarted-in-accept", "writes nothing to disk", nothing_on_disk),
    ("M10.3 accepted", "restarted-in-accept", "does not write what it accepted", accepted_is_not_on_disk),
    ("M10.3 promised", "restarted-in-accept", "does not write promised and joined", promised_is_not_on_disk),
]
FLAWS = {name.replace(" ", "-"): Flaw(name.split(" ")[0], case, what, patch)
         for name, case, what, patch in TABLE}

# MUSTs whose flaws no case catches, with the reason. If FLAWS has the name, the flaw was tried and the
# case passed.
UNCAUGHT = {
    "M1.1": "no case has a session that asks for features that a peer may lack",
    "M3.1": "no case has a roster with bad keys; the vectors `identity` have one",
    "M4.1": "the check does not see what a peer tells its user",
    "M5.1": "no case makes a peer use a mask a second time",
    "M6.4": "a frame that comes too early waits unread, which is not a fault",
    "M12.1": "no case has another encoding of a point; the vectors `sharing` have one",
    "M12.3": "no case makes a peer deal or release twice",
    "M8.2": "the check does not see what a peer tells its user",
    "M8.3": "a promise that should not exist breaks nothing, and no case looks for one",
    "M9.2-taken": "no signature verifies under another author, so such an item is blamed as forged",
    "M10.2": "no case asks to acknowledge another value of a slot",
    "M10.3-nothing": "the peer has then lost its state, and the others finish without its vote",
    "M10.3-accepted": "enough other peers have the accepted value",
    "M10.3-promised": "the others show the peer its promise, and finish without its vote",
    "M15.1": "no case changes a peer's rows between its starts",
}


# --- the command line


def try_often(program: str, name: str) -> tuple[bool, str]:
    """Returns whether a flaw is caught, and its line. A flaw that depends on a race has more tries."""
    caught, line = try_flaw(program, name)
    for _ in range(2 if name in RACES else 0):
        if not caught:
            caught, line = try_flaw(program, name)
    return caught, line


def try_flaw(program: str, name: str) -> tuple[bool, str]:
    """Returns whether a flaw is caught, and the line to print."""
    flaw = FLAWS[name]
    words = [sys.executable, os.path.abspath(__file__), name]
    command = shlex.join(words) + " {session} --key {key} --data {data} --state {state} --out {out}"
    check = [program, "check", "--only", flaw.case, "--json", "--program",
             command + " --listen {listen}"]
    try:
        done = subprocess.run(check, capture_output=True, text=True, timeout=LIMIT)
        told = json.loads(done.stdout.splitlines()[0])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        return False, f"no result  {name}  {flaw.case}  {error}"
    said = "; ".join(" ".join(wrong.split()) for wrong in told["wrong"] or [told["result"]])
    named = flaw.must in re.findall(r"M\w+\.\d+", told["sections"])
    word = "not caught" if told["result"] != "failed" else "caught" if named else "not named"
    return word == "caught", f"{word}  {name}  {flaw.case}  {said}"


def finish(beside: int, attempt: Callable[[str], tuple[bool, str]], names: list[str]) -> None:
    """Makes each attempt, prints its line, and ends the program: with code 1 if one was not good."""
    with ThreadPoolExecutor(beside) as pool:
        good = True
        for one, line in pool.map(attempt, names):
            print(line, flush=True)
            good &= one
    sys.exit(0 if good else 1)


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        for name, flaw in FLAWS.items():
            if name not in UNCAUGHT:
                print(f"{name}  {flaw.case}  {flaw.what}")
        for name, why in UNCAUGHT.items():
            tried = f"{FLAWS[name].case}  {FLAWS[name].what}" if name in FLAWS else "-"
            print(f"{name}  {tried}  NOT CAUGHT: {why}")
    elif len(sys.argv) > 2 and sys.argv[1] == "--check":
        names = sys.argv[3:] or [name for name in FLAWS if name not in UNCAUGHT]
        finish(BESIDE, lambda name: try_often(sys.argv[2], name), names)
    elif len(sys.argv) > 1 and sys.argv[1] in FLAWS:
        FLAWS[sys.argv.pop(1)].patch()
        peer.main()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
