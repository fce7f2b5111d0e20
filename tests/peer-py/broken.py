"""Peers that are broken on purpose, each in one MUST: does `flyswarm conform check` notice?

    python3 broken.py NAME [arguments of peer.py...]    runs the peer with that flaw
    python3 broken.py --list                            the flaws, and what nothing catches
    python3 broken.py --check PROGRAM [NAME...]         each flaw in its case; exit code 1 if one is not caught

A name is the number of a MUST (tests/vectors/README.md), with a word where it has several flaws. A flaw is
caught if its case fails and the line of the case names the MUST.
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

import crypto
import decision
import encoding
import machine
import peer
import store
import transfer
import transport
import view
from encoding import Malformed

BESIDE = 3  # cases at a time
LIMIT = 180  # seconds for one; the check itself gives up sooner


class Flaw(NamedTuple):
    must: str
    case: str
    what: str
    patch: Callable[[], None]


# --- how to break something


def instead(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorated function takes the place of `owner.name`. Its first argument is what stood there."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        plain = getattr(owner, name)
        setattr(owner, name, lambda *args, **named: function(plain, *args, **named))
        return function

    return put


def unblamed(*words: str) -> Callable[[], None]:
    """A message with this fault is dropped, and its sender is not blamed."""

    def patch() -> None:
        @instead(machine.Machine, "blame")
        def blame(plain: Any, self: Any, peer: int, kind: str, text: str) -> None:
            if not any(word in text for word in words):
                plain(self, peer, kind, text)

    return patch


def unchecked(owner: Any, *names: str) -> Callable[[], None]:
    """These checks find everything good."""

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
    def read_all(plain: Any, kind: str, data: Any) -> Any:
        return encoding.codec(kind).read(data)


def room_for_any_length() -> None:
    @instead(encoding.In, "integer")
    def integer(plain: Any, self: Any, width: int) -> int:
        n = plain(self, width)
        if width == 8:
            bytearray(n)  # one byte for each entry
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
    transport.YAMUX = "/mplex/6.7.0"


def payload_is_dropped() -> None:
    @instead(machine, "decode_message")
    def decode_message(plain: Any, header: bytes, payload: bytes, bulk: bool) -> Any:
        return plain(header, payload if bulk else b"", bulk)


def strangers_come_in() -> None:
    @instead(transport.Node, "admitted")
    def admitted(plain: Any, self: Any, public: bytes) -> int | None:
        return plain(self, public) if public in self.roster else min(self.links)


# --- section 8


def promises_are_believed() -> None:
    machine.check_promise = lambda *args: None


def lost_state_is_not_noticed() -> None:
    machine.Machine.on_trace = lambda self, signed: None


def promises_oblige_to_nothing() -> None:
    for module in (machine, view):
        @instead(module, "obligation")
        def obligation(plain: Any, promises: list[Any]) -> tuple[int, None, list[int]]:
            return plain(promises)[0], None, []


# --- section 9


def first_key_is_of_the_child() -> None:
    @instead(view.View, "on_report")
    def on_report(plain: Any, self: Any, sender: int, report: Any) -> None:
        if isinstance(report, encoding.UpKeys):
            decision.expect(report.items[0].author == sender, "inconsistent", "not its own key first")
        plain(self, sender, report)


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
        if isinstance(report, encoding.UpKeys):
            report = encoding.UpKeys(list({item.author: item for item in report.items}.values()))
        plain(self, sender, report)


# --- sections 10 to 15


def releases_at_once() -> None:
    @instead(view.View, "try_accept")
    def try_accept(plain: Any, self: Any) -> None:
        plain(self)
        if self.acknowledged and not self.leading:
            digest = decision.value_digest(self.machine.session, self.record.value)
            release = self.machine.sign(encoding.Release(self.record.value.sum, digest, self.shares))
            self.send(self.parent, encoding.Up(self.ballot, encoding.UpRelease(self.slot, [release])))


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


def joined_is_not_on_disk() -> None:
    @instead(store.Store, "write")
    def write(plain: Any, self: Any, name: str, data: bytes) -> None:
        if name != "small":
            plain(self, name, data)


def zero_is_a_shared_secret() -> None:
    @instead(crypto, "agree")
    def agree(plain: Any, secret: bytes, public: bytes) -> bytes:
        try:
            return plain(secret, public)
        except crypto.CryptoError:
            return bytes(32)


def no_credit_needed() -> None:
    view.WINDOW = 1 << 20


def no_credit_given() -> None:
    view.CREDIT_EVERY = 1 << 20


def what_was_fetched_is_believed() -> None:
    transfer.check_frozen = transfer.check_record = lambda *args: None
    transfer.sealed_digest = lambda session, record, total: record.value.total


TABLE = [
    ("M2.1", "no-message", "drops what does not decode", undecodable_is_dropped),
    ("M2.1 cut", "header-cut", "drops what does not decode", undecodable_is_dropped),
    ("M2.1 tail", "bytes-left-over", "takes a header with a byte too many", tail_is_dropped),
    ("M2.2", "huge-header", "makes room for as many entries as a list says", room_for_any_length),
    ("M2.3", "long-integers", "refuses integers that are longer than needed", shortest_integers_only),
    ("M6.1", "follower", "speaks another multiplexer than Yamux", no_yamux),
    ("M6.3", "payload-misplaced", "drops a payload where none belongs", payload_is_dropped),
    ("M6.5", "stranger", "lets in who is not in the roster", strangers_come_in),
    ("M8.1", "promise-forged", "believes every promise", promises_are_believed),
    ("M8.1 begin", "begin-forged-promise", "believes every promise", promises_are_believed),
    ("M8.1 ballot", "begin-other-promises", "believes every promise", promises_are_believed),
    ("M8.4", "leader-dies-in-release", "finishes nothing for others", promises_oblige_to_nothing),
    ("M9.1", "items-reversed", "wants a child's own key first", first_key_is_of_the_child),
    ("M9.2 parent", "report-from-parent", "does not blame for it", unblamed("a report from the parent")),
    ("M9.2 order", "order-from-child", "does not blame for it", unblamed("an order from a child")),
    ("M9.2 twice", "keys-twice", "does not blame for a report keys not awaited", unblamed("keys not awaited")),
    ("M9.2 item", "key-twice", "counts a repeated item once", repeated_items_count_once),
    ("M9.2 author", "key-of-another", "takes items of any author", items_of_any_author),
    ("M9.2 forged", "key-forged", "takes items with any signature", unchecked(view, "verifies")),
    ("M9.2 fit", "key-of-another-view", "takes items of any view", unchecked(view.View, "item_fits")),
    ("M9.2 ack", "acknowledged-too-early", "does not blame for it", unblamed("ack not awaited")),
    ("M9.2 release", "released-too-early", "does not blame for it", unblamed("release not awaited")),
    ("M9.2 later", "hold-of-later-slot", "does not blame for it", unblamed("hold not awaited")),
    ("M10.3", "restarted-in-accept", "writes nothing to disk", nothing_on_disk),
    ("M10.3 accepted", "restarted-in-accept", "does not write what it accepted", accepted_is_not_on_disk),
    ("M10.3 small", "restarted-in-accept", "does not write promised and joined", joined_is_not_on_disk),
    ("M11.1", "key-low-order", "takes a shared secret of zero", zero_is_a_shared_secret),
    ("M13.1", "ten-chunks", "sends without credit", no_credit_needed),
    ("M13.1 slow", "single-credits", "sends without credit", no_credit_needed),
    ("M13.1 credit", "ten-chunks", "gives no credit", no_credit_given),
    ("M8.3", "state-lost", "does not notice that its state is lost", lost_state_is_not_noticed),
    ("M10.1", "follower", "releases with its acknowledgement", releases_at_once),
    ("M10.2", "restarted-in-accept", "forgets what it has released", released_is_forgotten),
    ("M14.1", "late", "believes all that it fetches", what_was_fetched_is_believed),
    ("M2.1 wide", "no-message", "takes integers wider than their type", wide_integers),
]
FLAWS = {name.replace(" ", "-"): Flaw(name.split(" ")[0], case, what, patch)
         for name, case, what, patch in TABLE}

UNCAUGHT: dict[str, str] = {}


# --- the command line


def try_flaw(program: str, name: str) -> tuple[bool, str]:
    """Whether a flaw is caught, and the line that says so."""
    flaw = FLAWS[name]
    words = [sys.executable, os.path.abspath(__file__), name]
    command = shlex.join(words) + " {session} --key {key} --data {data} --state {state} --out {out}"
    check = [program, "conform", "check", "--only", flaw.case, "--json", "--program",
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


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        for name, flaw in FLAWS.items():
            if name not in UNCAUGHT:
                print(f"{name}  {flaw.case}  {flaw.what}")
        for name, why in UNCAUGHT.items():
            print(f"{name}  not caught: {why}")
    elif len(sys.argv) > 2 and sys.argv[1] == "--check":
        names = sys.argv[3:] or [name for name in FLAWS if name not in UNCAUGHT]
        with ThreadPoolExecutor(BESIDE) as pool:
            good = True
            for caught, line in pool.map(lambda name: try_flaw(sys.argv[2], name), names):
                print(line, flush=True)
                good &= caught
        sys.exit(0 if good else 1)
    elif len(sys.argv) > 1 and sys.argv[1] in FLAWS:
        FLAWS[sys.argv.pop(1)].patch()
        peer.main()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
