#!/usr/bin/env python3
"""Measures a summary of real peers on this machine, and one in the simulator with links of 50 ms round trips.

    lab/scripts/bench-summary.py PROGRAM [--rows 1000000] [--columns 100] [--peers 5] [--cheaters caught] [--rtt-ms 50]

PROGRAM is a release build of flyswarm. One column in five is a category of four levels, the others are numbers; the
first category groups the rows. Prints the wall seconds from the first event after all rows are read to the last
result, the CPU seconds of all peers, and for the simulator the virtual seconds, rounds and bytes. The simulator plays
the same session over fewer rows (at most 20,000): its messages do not depend on the number of rows.
"""

import argparse
import json
import os
import pathlib
import random
import re
import resource
import socket
import subprocess
import tempfile

arguments = argparse.ArgumentParser()
arguments.add_argument("program", type=pathlib.Path)
arguments.add_argument("--rows", type=int, default=1_000_000)
arguments.add_argument("--columns", type=int, default=100)
arguments.add_argument("--peers", type=int, default=5)
arguments.add_argument("--cheaters", default="caught", choices=["caught", "trusted"])
arguments.add_argument("--rtt-ms", type=float, default=50)
given = arguments.parse_args()
program, rng = given.program.resolve(), random.Random(1)
category = [at % 5 == 0 for at in range(given.columns)]


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def lines(count: int) -> list[str]:
    line = lambda: ",".join(rng.choice("abcd") if each else str(rng.randrange(-4000, 4000) / 100) for each in category)
    return [line() for _ in range(count)]


levels = 'kind = "category"\nlevels = ["a", "b", "c", "d"]\n'
columns = "".join(f'[[table.column]]\nname = "c{at}"\n{levels if each else chr(107) + "ind = " + json.dumps("number") + chr(10)}'
                  for at, each in enumerate(category))
head = (f'name = "s"\nrun_id = "{os.urandom(16).hex()}"\ncreated = 2026-11-22T16:05:06Z\ntask = "summary"\n[data]\nscaling = "none"\n'
        f'[summary]\nby = "c0"\ncheaters = "{given.cheaters}"\n[table]\n{columns}')
header = ",".join(f"c{at}" for at in range(given.columns)) + "\n"
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    run = lambda *words: subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=True).stdout
    ports, text = [port() for _ in range(given.peers)], head
    for at, own in enumerate(ports):
        run("id", "--new", "--key", f"{at}.key")
        key = json.loads(run("id", "--key", f"{at}.key", "--json"))["peer_id"]
        text += f'[[roster]]\nname = "p{at}"\npeer_id = "{key}"\naddresses = ["/ip4/127.0.0.1/tcp/{own}"]\n'
    (folder / "s.toml").write_text(text)
    # Each peer repeats 2,000 different rows.
    for at in range(given.peers):
        count = given.rows // given.peers
        some = lines(min(2000, count))
        with open(folder / f"{at}.csv", "w") as out:
            out.write(header)
            for first in range(0, count, len(some)):
                out.write("\n".join(some[: count - first]) + "\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = [subprocess.Popen([program, "join", "s.toml", "--data", f"{at}.csv", "--key", f"{at}.key", "--state", f"state-{at}", "--json",
                                 "--listen", f"/ip4/127.0.0.1/tcp/{own}", "--no-mdns", "--out", f"{at}.json"], cwd=folder,
                                stdout=open(folder / f"{at}.log", "w"), stderr=subprocess.PIPE, text=True) for at, own in enumerate(ports)]
    for process in started:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = [[json.loads(line) for line in open(folder / f"{at}.log")] for at in range(given.peers)]
    ready = max(own[0]["time"] for own in events)
    first = min(each["time"] for own in events for each in own if each["event"] == "opened")
    last = max(each["time"] for own in events for each in own if each["event"] == "opened")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{given.rows} rows, {given.columns} columns, {given.peers} peers, {given.cheaters}; load {os.getloadavg()[0]:.1f}")
    print(f"loopback   {last - ready:.2f} s after all peers have begun, {last - first:.2f} s after the coin; {cpu:.1f} s CPU in all")
    rows = [line for at in range(given.peers) for line in open(folder / f"{at}.csv").read().splitlines()[1:4001]]
    (folder / "rows.csv").write_text(header + "\n".join(rows) + "\n")
    (folder / "scenario.toml").write_text(f'peers = {given.peers}\n[data]\nset = "rows.csv"\n[links]\nlatency_ms = {given.rtt_ms / 2}\njitter_ms = 0\n')
    told = json.loads(run("simulate", "scenario.toml", "--session", "s.toml", "--json"))
    print(f"simulator  {json.dumps({name: told[name] for name in told if re.search('second|_s$|bytes|messages|finished', name)})}")
