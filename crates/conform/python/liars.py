"""Peers that lie on purpose, to test that a lie is detected or has no effect.

    python3 liars.py NAME [arguments of peer.py...]    runs the peer with that lie
    python3 liars.py --list                            lists the lies
    python3 liars.py --check FLYSWARM [NAME...]        runs a session for each lie; exit 1 if one does harm

Each session has the liar and four released nodes. A lie does no harm if all of these hold: the four nodes end
with code 0 and the same model, every sum contains the rows of all four, only the liar is blamed, and every
disagreement in the receipts involves the liar.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import machine
import view
from broken import finish, instead
from primitives.encoding import Ballot, Content, Failure, Message, Reason, Report, SumId, ViewMessage
from primitives.session import parse_session

import peer
from session import Session

BESIDE = 2  # sessions that run at the same time
LIMIT = 150  # seconds for one session
PEERS = 5


class Lie(NamedTuple):
    leads: bool  # True if the liar leads the first view
    what: str
    patch: Callable[[], None]


# --- lies


def dealt_otherwise(change: Callable[[Any], Any]) -> Callable[[], None]:
    """Makes the peer deal changed shares."""

    def patch() -> None:
        @instead(view, "make_deal")
        def make_deal(plain: Any, *args: Any) -> Any:
            pad, deal = plain(*args)
            return pad, deal._replace(dealt=deal.dealt._replace(shares=change(deal.dealt.shares)))

    return patch


def higher_degree() -> None:
    """Makes the peer deal shares of a polynomial with one coefficient too many, and prove as many
    coefficients as fit."""

    @instead(view, "make_deal")
    def make_deal(plain: Any, session_id: bytes, sum_id: SumId, dealer: int, committee: list[bytes], threshold: int,
                  draw: Any) -> Any:
        pad, deal = plain(session_id, sum_id, dealer, committee, threshold + 1, draw)
        return pad, deal._replace(dealt=deal.dealt._replace(responses=deal.dealt.responses[:threshold]))


def old_deal() -> None:
    """Makes the peer repeat its first deal in each sum."""
    first: list[Any] = []

    @instead(view, "make_deal")
    def make_deal(plain: Any, *args: Any) -> Any:
        pad, deal = plain(*args)
        first.append(deal.dealt)
        return pad, deal._replace(dealt=first[0])


def many_shares(count: int) -> Callable[[], None]:
    return dealt_otherwise(lambda shares: shares + [bytes(32)] * count)


def signed_otherwise(kind: str, change: Callable[[Any], Any]) -> Callable[[], None]:
    """Makes the peer change items of this kind before it signs them."""

    def patch() -> None:
        @instead(machine.Machine, "sign")
        def sign(plain: Any, self: Any, item: Any) -> Any:
            return plain(self, change(item) if type(item).__name__ == kind else item)

    return patch


def more_shares(release: Any) -> Any:
    return release._replace(shares=list(release.shares) + [release.shares[0]] * 18_000)


def other_shares(release: Any) -> Any:
    return release._replace(shares=release.shares[::-1])


def other_proof(release: Any) -> Any:
    return release._replace(response=release.challenge)


def in_place_of_reports(say: Callable[[Any, str, int], bool]) -> Callable[[], None]:
    """Calls `say` instead of sending a report, unless the peer leads. `say` returns True to send it too."""

    def patch() -> None:
        @instead(view.View, "reported")
        def reported(plain: Any, self: Any, kind: str, slot: int, member: int) -> None:
            if self.leading or say(self, kind, slot):
                plain(self, kind, slot, member)

    return patch


def accuses(self: Any, kind: str, slot: int) -> bool:
    m = self.machine
    others = [p for p in self.members if p != m.me]
    failure = Failure(self.ballot, self.slot_now(), Reason.Lost, others[self.ballot.counter % len(others)])
    for to in sorted(m.trusted()):
        m.send(to, Message.Failed(m.sign(failure)))
    return False


def ends_without_a_name(self: Any, kind: str, slot: int) -> bool:
    failure = Failure(self.ballot, self.slot_now(), Reason.Stalled, None)
    self.machine.send(self.parent, Message.Failed(self.machine.sign(failure)))
    return False


def floods(self: Any, kind: str, slot: int) -> bool:
    for to in set(self.members) - {self.machine.me}:
        for late in range(1, len(self.session.plan)):
            for _ in range(20):
                self.machine.send(to, Message.Exchange(SumId(self.ballot, late), Content.Short(bytes(900_000))))
    return True


def false_total() -> None:
    @instead(view.View, "send")
    def send(plain: Any, self: Any, to: int, body: Any) -> None:
        if isinstance(body, ViewMessage.Up) and isinstance(body[1], Report.TotalReady):
            body = ViewMessage.Up(body[0], body[1]._replace(total=bytes(32)))
        plain(self, to, body)


def leads_and(do: Callable[[Any], None]) -> Callable[[], None]:
    """Calls `do` instead of giving the next order, if the peer leads."""

    def patch() -> None:
        @instead(view.View, "next_order")
        def next_order(plain: Any, self: Any) -> None:
            do(self) if self.leading else plain(self)

    return patch


def ends_its_view(self: Any) -> None:
    raise view.EndView(Reason.Ended, None, "it likes to")


def orders_one_child_alone() -> None:
    @instead(view.View, "pass_on")
    def pass_on(plain: Any, self: Any) -> None:
        self.children, every = self.children[:1] if self.leading else self.children, self.children
        plain(self)
        self.children = every


def promises_nobody() -> None:
    @instead(machine.Machine, "on_prepare")
    def on_prepare(plain: Any, self: Any, sender: int, message: Any) -> None:
        self.send(sender, Message.Refuse(message[0], message[0]))


def far_ballot() -> None:
    @instead(machine.Machine, "on_hello")
    def on_hello(plain: Any, self: Any, sender: int, message: Any) -> None:
        plain(self, sender, message)
        self.send(sender, Message.Prepare(Ballot(1 << 40, self.me)))


LIES = {
    "one-share-more": Lie(False, "deals with one share more than there are members", many_shares(1)),
    "many-deal-shares": Lie(False, "deals with 32,711 shares", many_shares(32_711)),
    "bad-share": Lie(False, "deals a share that one member cannot open", dealt_otherwise(lambda s: [s[0], s[0], *s[2:]])),
    "leads-bad-share": Lie(True, "leads, and deals a share that one member cannot open",
                           dealt_otherwise(lambda s: [s[0], s[0], *s[2:]])),
    "no-point": Lie(False, "deals a share that is not a point of the curve", dealt_otherwise(lambda s: [bytes([2] * 32), *s[1:]])),
    "higher-degree": Lie(False, "deals shares that prove a polynomial of too high a degree", higher_degree),
    "leads-higher-degree": Lie(True, "leads, and deals shares that prove a polynomial of too high a degree", higher_degree),
    "old-deal": Lie(False, "repeats its deal of the first sum", old_deal),
    "wrong-proof": Lie(False, "releases its shares with a wrong proof", signed_otherwise("Release", other_proof)),
    "many-shares": Lie(False, "releases 18,000 shares", signed_otherwise("Release", more_shares)),
    "other-shares": Lie(False, "releases shares of other deals", signed_otherwise("Release", other_shares)),
    "accuses": Lie(False, "says in each view that it has lost an honest peer", in_place_of_reports(accuses)),
    "nameless": Lie(False, "ends each view without a suspect", in_place_of_reports(ends_without_a_name)),
    "silent": Lie(False, "never reports, and says that it is alive", in_place_of_reports(lambda *_: False)),
    "floods": Lie(False, "sends 18 MB of an exchange that the session does not have, for each slot", in_place_of_reports(floods)),
    "false-total": Lie(False, "reports a total that it does not hold", false_total),
    "promises-nobody": Lie(False, "refuses every proposal", promises_nobody),
    "far-ballot": Lie(False, "proposes a ballot far above all others", far_ballot),
    "ends-views": Lie(True, "leads, and ends each of its views", leads_and(ends_its_view)),
    "orders-nothing": Lie(True, "leads, and orders nothing", leads_and(lambda self: None)),
    "one-child": Lie(True, "leads, and gives its orders to only one child", orders_one_child_alone),
}


# --- sessions with a liar


class Failed(Exception):
    """A run in which the lie did harm."""


def ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return found


def prepare(flyswarm: str, folder: Path) -> tuple[list[str], list[str]]:
    """Makes keys, rows and a session. Returns the names in committee order, and their addresses."""
    names, at = [f"p{i}" for i in range(PEERS)], dict(zip((f"p{i}" for i in range(PEERS)), ports(PEERS)))
    peers, draw = [], random.Random(5)
    for name in names:
        told = subprocess.run([flyswarm, "id", "--key", folder / name], capture_output=True, text=True, check=True)
        peer_id = re.search("12D3[0-9A-Za-z]+", told.stdout)
        assert peer_id, told
        peers += ["--peer", f"{name}={peer_id[0]}@/ip4/127.0.0.1/tcp/{at[name]}"]
        rows = [[draw.gauss(0, 1) + label for _ in range(4)] + ["ab"[label]] for label in (0, 1) * 20]
        (folder / f"{name}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    fields = {"timing.view_timeout_ms": 3000, "timing.proposal_backoff_ms": 500, "timing.compute_ms": 2000,
              "timing.linger_ms": 3000, "flynn.m": 64, "flynn.s": 2, "flynn.rho": 4, "data.scaling": "unit-norm"}
    settings = [word for field, value in fields.items() for word in ("--set", f"{field}={value}")]
    subprocess.run([flyswarm, "session", "new", "flynn", "--name", "liars", "--no-evaluate", "--features", "4", "--classes",
                    "a,b", *peers, *settings, "--out", folder / "session.toml"], capture_output=True, check=True)
    session = parse_session((folder / "session.toml").read_bytes(), Session)
    order = [session.names[peer] for peer in session.committee]
    return order, [f"/ip4/127.0.0.1/tcp/{at[name]}" for name in order]


def run(flyswarm: str, name: str, folder: Path) -> str:
    order, addresses = prepare(flyswarm, folder)
    liar = order[0] if LIES[name].leads else order[-1]
    runs: dict[str, subprocess.Popen[bytes]] = {}
    began = time.monotonic()
    try:
        for who, address in sorted(zip(order, addresses), key=lambda pair: pair[0] != liar):
            files = ["--key", who, "--data", f"{who}.csv", "--state", f"{who}.state", "--out", f"{who}.model",
                     "--listen", address]
            node = [flyswarm, "join", "session.toml", *files, "--no-mdns", "--log", "warn"]
            words = [sys.executable, os.path.abspath(__file__), name, "session.toml", *files] if who == liar else node
            with (folder / f"{who}.log").open("wb") as log:
                runs[who] = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)
        honest = {who: process for who, process in runs.items() if who != liar}
        if not over(honest, began + LIMIT):
            raise Failed(f"not over after {LIMIT} s")
    finally:
        for process in runs.values():
            process.kill()
            process.wait()
    return judge(folder, liar, honest) + f", {time.monotonic() - began:.0f} s"


def over(runs: dict[str, subprocess.Popen[bytes]], until: float) -> bool:
    """Waits for the end of all processes. Returns False if one still runs at the time `until`."""
    while any(process.poll() is None for process in runs.values()):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def judge(folder: Path, liar: str, honest: dict[str, Any]) -> str:
    logs = {who: (folder / f"{who}.log").read_text(errors="replace") for who in honest}
    for who, process in honest.items():
        if process.returncode != 0:
            raise Failed(f"{who} ended with {process.returncode}: {logs[who].strip().splitlines()[-1:]}")
    blamed = {(who, found) for who in honest for found in re.findall(r"(\w+) broke a rule", logs[who])}
    receipts = {who: json.loads((folder / f"{who}.receipt.json").read_text()) for who in honest}
    # Compare digests, because the files also contain the time of writing.
    if len({receipt["model"]["digest"] for receipt in receipts.values()}) != 1:
        raise Failed("the models differ")
    apart = [pair for receipt in receipts.values() for pair in receipt["disagreements"]]
    if any(found != liar for _, found in blamed) or any(liar not in pair["peers"] for pair in apart):
        raise Failed(f"honest peers are accused: {blamed}, {apart}")
    for receipt in receipts.values():
        for opened in receipt["aggregates"]:
            if not set(honest) <= set(opened["members"]):
                raise Failed(f"an honest peer is not in {opened['name']}: {opened['members']}")
    views = max(receipt["views"] for receipt in receipts.values())
    return f"{views} views, named by {len(blamed)} of {len(honest)}, {len(apart)} disagreements"


def check(flyswarm: str, name: str) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return True, f"no harm  {name}  {LIES[name].what}: {run(flyswarm, name, Path(folder))}"
        except (Failed, OSError, subprocess.CalledProcessError) as error:
            return False, f"harm     {name}  {LIES[name].what}: {error}"


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        for name, lie in LIES.items():
            print(f"{name}  {lie.what}")
    elif len(sys.argv) > 2 and sys.argv[1] == "--check":
        flyswarm, names = os.path.abspath(sys.argv[2]), sys.argv[3:] or list(LIES)
        finish(BESIDE, lambda name: check(flyswarm, name), names)
    elif len(sys.argv) > 1 and sys.argv[1] in LIES:
        LIES[sys.argv.pop(1)].patch()
        peer.main()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
