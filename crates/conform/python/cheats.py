"""A computing member of the task `xclp` that deviates, in sessions with released programs.

    python3 cheats.py FLYSWARM CONFORM [WAY...]     exit 1 if a deviation is not caught

In each session four peers have rows, and the first three compute. One of these runs `CONFORM join --deviate WAY`.
The deviation is caught if all of these hold: no honest peer gets a result, every peer or pair that an honest peer
names contains the cheater, no honest peer blames or suspects another, and an honest peer names, blames or suspects
the cheater, or the cheater has signed that it suspects the other one. All honest peers end within a few seconds
with code 3, and their last line has the cheater and what to do. If only a share of one owner's output is wrong,
the others may get their results.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from broken import finish
from liars import BESIDE, Failed, ports

NAMES = ["north", "south", "east", "west"]
CHEATER, VICTIM = "south", "east"
# Seconds until a session counts as one that does not end, and between the ends of the first and the last peer.
LONGEST = 100
TOGETHER = 15
# Last line of an honest peer.
LAST = re.compile(rf"three candidates must compute together, and of .*\b{CHEATER}\b.* breaks the rules .*new session")
# The way, and what the deviating build does.
WAYS = {
    "input": "a wrong bit of a share of its input",
    "commitment": "different commitments to its input",
    "copies": "different lists of hashes of its shares",
    "accuses-300": "claims that the other member deviates",
    "low-0": "the lowest bit of its first message",
    "high-6": "the highest bit, in the check of inputs or the distances",
    "low-100": "the lowest bit, in the choice of neighbours",
    "high-300": "the highest bit, in the edges",
    "low-500": "the lowest bit, in a step of the propagation",
    "high-700": "the highest bit, near the end",
    "short-200": "a message that is one byte short",
    "silent-400": "no message from a round on",
    "output": "a wrong bit of a share of the output",
    "holds": "another hash of its share of the output",
}


def prepare(flyswarm: str, folder: Path) -> list[str]:
    """Makes keys, rows and a session. Returns the addresses."""
    at, draw, peers = [f"/ip4/127.0.0.1/tcp/{port}" for port in ports(len(NAMES))], random.Random(7), []
    for name, address in zip(NAMES, at):
        told = subprocess.run([flyswarm, "id", "--key", folder / name, "--json"], capture_output=True, check=True)
        peers += ["--peer", f"{name}={json.loads(told.stdout)['peer_id']}@{address}"]
        rows = [[draw.gauss(3 * label, 1) for _ in range(4)] + ["ab"[label] if i % 2 else ""]
                for i, label in enumerate((0, 1) * 8)]
        (folder / f"{name}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    fields = {"timing.view_timeout_ms": 8000, "timing.proposal_backoff_ms": 500, "timing.compute_ms": 100000,
              "timing.linger_ms": 2000, "timing.no_quorum_timeout_ms": 6000, "limits.max_views": 24,
              "privacy.min_contributors": 2, "xclp.bits": 64, "xclp.k": 3,
              "xclp.compute": json.dumps(NAMES[:3])}
    settings = [word for field, value in fields.items() for word in ("--set", f"{field}={value}")]
    words = ["--name", "cheats", "--features", "4", "--classes", "a,b", *peers, *settings]
    made = subprocess.run([flyswarm, "session", "new", "xclp", *words, "--out", folder / "session.toml"],
                          capture_output=True, text=True)
    if made.returncode:
        raise Failed(made.stderr.strip())
    return at


def run(flyswarm: str, conform: str, way: str, folder: Path) -> str:
    runs, ends, began = {}, {}, time.monotonic()
    try:
        for name, address in zip(NAMES, prepare(flyswarm, folder)):
            program = [conform, "join", "--deviate", way, VICTIM] if name == CHEATER else [flyswarm, "join"]
            words = [*program, "session.toml", "--data", f"{name}.csv", "--key", name, "--state", f"{name}.state",
                     "--out", f"{name}.labels", "--listen", address, "--no-mdns", "--json"]
            with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.log").open("wb") as log:
                runs[name] = subprocess.Popen(words, cwd=folder, stdout=out, stderr=log)
        honest = {name: process for name, process in runs.items() if name != CHEATER}
        while len(ends) < len(honest) and time.monotonic() - began < LONGEST:
            for name, process in honest.items():
                if process.poll() is not None:
                    ends.setdefault(name, time.monotonic())
            time.sleep(0.1)
    finally:
        for process in runs.values():
            process.kill()
            process.wait()
    if missing := sorted(honest.keys() - ends.keys()):
        raise Failed(f"{', '.join(missing)} did not end in {LONGEST} s")
    apart = max(ends.values()) - min(ends.values())
    if apart > TOGETHER and way != "output":
        raise Failed(f"honest peers end within {apart:.1f} s")
    return judge(way, folder, honest) + f"; all end within {apart:.1f} s, after {min(ends.values()) - began:.0f} s"


def judge(way: str, folder: Path, honest: dict[str, subprocess.Popen[bytes]]) -> str:
    named, blamed, failed, copies, own = set(), set(), set(), set(), set()
    for name, process in honest.items():
        lines = (folder / f"{name}.out").read_text(errors="replace").splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        may = way == "output" and name != VICTIM
        if not may and (process.returncode == 0 or (folder / f"{name}.labels").exists()):
            raise Failed(f"{name} has a result")
        last = [event["message"] for event in events if event.get("event") == "error"]
        if way != "output" and (process.returncode != 3 or not last or not LAST.search(last[-1])):
            raise Failed(f"{name} ends with code {process.returncode} and {last}")
        copies |= {name for event in events if event.get("event") == "error"
                   and re.search(rf"\b{CHEATER}\b.*different copies", event["message"])}
        named |= {tuple(sorted(event["peers"])) for event in events if event.get("event") == "named"}
        blamed |= {(name, event["peer"]) for event in events if event.get("event") == "blamed"}
        own |= {event["suspect"] for event in events
                if event.get("event") == "view-failed" and event["author"] == CHEATER and event["suspect"]}
        failed |= {(name, event["suspect"]) for event in events
                   if event.get("event") == "view-failed" and event["author"] == name and event["suspect"]}
    if any(CHEATER not in peers for peers in named) or len(named) > 1:
        raise Failed(f"named: {named}")
    if any(who != CHEATER for _, who in blamed | failed):
        raise Failed(f"honest peers are accused: {blamed}, {failed}")
    if not named and not blamed and not failed and not copies and not own:
        raise Failed("no peer noticed it")
    told = [f"named {' or '.join(peers)}" for peers in named]
    told += [f"in the pair with different copies at {len(copies)}"] if copies else []
    told += ["by its own accusation"] if own else []
    told += [f"blamed by {len(blamed)}"] if blamed else []
    told += [f"suspected by {len({name for name, _ in failed})}"] if failed else []
    return ", ".join(told)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    flyswarm, conform, ways = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:] or list(WAYS)

    def check(way: str) -> tuple[bool, str]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                return True, f"caught  {way}  {WAYS[way]}: {run(flyswarm, conform, way, Path(folder))}"
            except (Failed, OSError, subprocess.CalledProcessError) as error:
                return False, f"MISSED  {way}  {WAYS[way]}: {error}"

    finish(BESIDE, check, ways)


if __name__ == "__main__":
    main()
