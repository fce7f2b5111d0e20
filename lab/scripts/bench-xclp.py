#!/usr/bin/env python3
"""Compares a session of XCLP with real processes and a centralised version in numpy, in one run.

    lab/scripts/bench-xclp.py PROGRAM [--points 500] [--peers 5] [--features 512] [--bits 4096] [--classes 10]
        [--memory-mb 1024]

PROGRAM is a release build of flyswarm. Makes rows around one random centre for each class, with a known class
for one row in twenty, and deals them to the peers. Runs a session without proofs (`cheaters = "trusted"`) and one
with proofs. Prints for each wall seconds, the load of the machine, the share of correct labels, and for each peer
CPU seconds, peak resident memory and bytes sent. Prints the same for numpy:
random planes, Hamming distances as a matrix product, the k nearest rows, the exact inverse. Needs numpy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import xclp_in_one_place as central

arguments = argparse.ArgumentParser()
arguments.add_argument("program", type=pathlib.Path)
arguments.add_argument("--points", type=int, default=500)
arguments.add_argument("--peers", type=int, default=5)
arguments.add_argument("--features", type=int, default=512)
arguments.add_argument("--bits", type=int, default=4096)
arguments.add_argument("--classes", type=int, default=10)
arguments.add_argument("--port", type=int, default=41500)
arguments.add_argument("--memory-mb", type=int, default=1024)
given = arguments.parse_args()
program = given.program.resolve()
rng = np.random.default_rng(0)
n = given.points * given.peers

rows, truth, known = central.clusters(rng, n, given.features, given.classes)


def run(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def session(cheaters, folder):
    """Runs one session. Returns the seconds of the exchanges, and the largest bytes and memory of a process."""
    names = [f"peer-{i}" for i in range(given.peers)]
    peers, listen = [], []
    for place, name in enumerate(names):
        identity = run("id", "--key", str(folder / f"{name}.key")).split()
        identity = next(word for word in identity if word.startswith("12D3"))
        listen.append(f"/ip4/127.0.0.1/tcp/{given.port + place}")
        peers += ["--peer", f"{name}={identity}@{listen[-1]}"]
    file = folder / "session.toml"
    settings = [f"xclp.bits={given.bits}", f'xclp.cheaters="{cheaters}"', "timing.linger_ms=20000",
                f"xclp.memory_mb={given.memory_mb}", "xclp.most_rows=0", "privacy.min_contributors=1"]
    run("session", "new", "xclp", "--name", "bench", "--features", str(given.features), "--classes",
        f"0..{given.classes - 1}", *peers, *[word for each in settings for word in ("--set", each)], "--out", str(file))
    for place, name in enumerate(names):
        own = range(place * given.points, (place + 1) * given.points)
        lines = [",".join(map(repr, rows[i].tolist())) + "," + (str(truth[i]) if known[i] else "") for i in own]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    start, processes, spent = time.perf_counter(), [], {}
    for place, name in enumerate(names):
        words = [program, "join", file, "--key", folder / f"{name}.key", "--state", folder / "state", "--no-mdns",
                 "--listen", listen[place], "--data", folder / f"{name}.csv",
                 "--out", folder / f"{name}.labels.csv"]
        processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for name, process in zip(names, processes):
        errors = process.stderr.read()
        _, status, spent[name] = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{name}: {errors}")
    wall, load = time.perf_counter() - start, os.getloadavg()[0]
    used = {name: each.ru_utime + each.ru_stime for name, each in spent.items()}
    receipts = [json.loads((folder / f"{name}.labels.receipt.json").read_text()) for name in names]
    right = 0
    for place, name in enumerate(names):
        said = [line.split(",")[0] for line in (folder / f"{name}.labels.csv").read_text().splitlines()[1:]]
        own = range(place * given.points, (place + 1) * given.points)
        right += sum(said[i - own[0]] == str(truth[i]) for i in own if not known[i])
    computing = next(receipt["roles"]["computing"] for receipt in receipts if receipt.get("roles"))
    stages = ("computed", "labelled")
    exchange = max(sum(each["seconds"] for each in receipt["stages"] if each["name"] in stages) for receipt in receipts)
    print(f"cheaters = {cheaters}: {wall:.2f} s wall with starting and reading, the exchanges alone {exchange:.2f} s;",
          f"load of the machine {load:.1f}; {right / (~known).sum():.4f} right;",
          f"{sum(used.values()):.1f} s of processors, all {len(names)} processes together")
    sent, memory = [receipt["bytes_sent"] / 1e6 for receipt in receipts], [spent[name].ru_maxrss * 1024 / 1e6 for name in names]
    for at, name in enumerate(names):
        role = "computing" if name in computing else "owner"
        print(f"  {name:<8} {role:<10} sent {sent[at]:7.2f} MB, {used[name]:6.2f} s of processors, {memory[at]:5.0f} MB of memory")
    return {"time of the exchanges": exchange, "processors": sum(used.values()), "bytes": max(sent), "memory": max(memory)}


print(f"{given.peers} peers x {given.points} points, {given.features} features, L = {given.bits}, C = {given.classes}; {int(known.sum())} labels")
costs = []
for cheaters in ("trusted", "caught"):
    with tempfile.TemporaryDirectory() as folder:
        costs.append(session(cheaters, pathlib.Path(folder)))
print("with proofs, in multiples of without:",
      ", ".join(f"{what} {costs[1][what] / costs[0][what]:.2f}" for what in costs[0]))

start = time.perf_counter()
codes = central.codes(rng, rows, given.bits)
coded = time.perf_counter()
distances = central.distances(codes)
near = central.nearest(distances, 10)
compared = time.perf_counter()
y = central.labels(truth, known, given.classes)
scores = central.solved(central.graph(distances, near, given.bits), y)
solved = time.perf_counter()
found = scores.argmax(1)
print(f"numpy, one place: {solved - start:.2f} s (codes {coded - start:.2f}, distances and neighbours {compared - coded:.2f},",
      f"propagation {solved - compared:.2f}), {(found == truth)[~known].mean():.4f} right")
print("the exchanges, in multiples of numpy:",
      ", ".join(f"{each['time of the exchanges'] / (solved - start):.1f}" for each in costs), "(without and with proofs)")
