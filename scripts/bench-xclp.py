#!/usr/bin/env python3
"""One session of XCLP as real processes beside numpy's centralised version, in one run: scripts/bench-xclp.py PROGRAM [--points 500] [--peers 5]
[--features 512] [--bits 4096] [--classes 10].

PROGRAM is a release build of flyswarm. Makes clusters, deals them to the peers, and prints wall seconds, CPU seconds, peak memory, bytes sent by each peer, the
share of labels that are right, and the same for numpy: random planes, Hamming distances as a matrix product, the k nearest, the exact inverse. Needs numpy.
"""

import argparse
import json
import pathlib
import resource
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
given = arguments.parse_args()
program = given.program.resolve()
rng = np.random.default_rng(0)
n = given.points * given.peers

rows, truth, known = central.clusters(rng, n, given.features, given.classes)


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    names = [f"peer-{i}" for i in range(given.peers)]
    peers, listen = [], []
    for place, name in enumerate(names):
        identity = run("id", "--key", str(folder / f"{name}.key")).split()
        identity = next(word for word in identity if word.startswith("12D3"))
        listen.append(f"/ip4/127.0.0.1/tcp/{given.port + place}")
        peers += ["--peer", f"{name}={identity}@{listen[-1]}"]
    session = folder / "session.toml"
    run("session", "new", "--task", "xclp", "--name", "bench", "--features", str(given.features), "--bits", str(given.bits), "--classes-from-range",
        f"0..{given.classes - 1}", *peers, "--timing", "linger_ms=20000", "--out", str(session))
    for place, name in enumerate(names[: given.peers]):
        own = range(place * given.points, (place + 1) * given.points)
        lines = [",".join(map(repr, rows[i].tolist())) + "," + (str(truth[i]) if known[i] else "") for i in own]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    start, before = time.perf_counter(), processor_seconds()
    processes = []
    for place, name in enumerate(names):
        words = [program, "join", session, "--key", folder / f"{name}.key", "--state", folder / "state", "--no-mdns",
                 "--listen", listen[place], "--receipt", folder / f"{name}.json", "--data", folder / f"{name}.csv", "--header", "no",
                 "--out", folder / f"{name}.labels.csv"]
        processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for name, process in zip(names, processes):
        _, errors = process.communicate(timeout=3600)
        if process.returncode:
            raise SystemExit(f"{name}: {errors}")
    wall, used = time.perf_counter() - start, processor_seconds() - before
    receipts = [json.loads((folder / f"{name}.json").read_text()) for name in names]
    right = 0
    for place, name in enumerate(names[: given.peers]):
        said = [line.split(",")[0] for line in (folder / f"{name}.labels.csv").read_text().splitlines()[1:]]
        own = range(place * given.points, (place + 1) * given.points)
        right += sum(said[i - own[0]] == str(truth[i]) for i in own if not known[i])

print(f"{given.peers} peers x {given.points} points, {given.features} features, L = {given.bits}, C = {given.classes}; {int(known.sum())} labels")
print(f"flyswarm: {wall:.2f} s wall with starting and reading, {right / (~known).sum():.4f} of the unknown labels right")
exchange = max(sum(stage["seconds"] for stage in receipt["stages"] if stage["name"] in ("computed", "labels")) for receipt in receipts)
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
print(f"  of which the exchanges: {exchange:.2f} s; {used:.1f} s of processors, all {len(names)} processes together; {memory:.0f} MB of memory at most")
for name, receipt in zip(names, receipts):
    print(f"  {name:<10} sent {receipt['bytes_sent'] / 1e6:6.2f} MB, received {receipt['bytes_received'] / 1e6:6.2f} MB")

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
print(f"numpy, one place: {solved - start:.2f} s (codes {coded - start:.2f}, distances and neighbours {compared - coded:.2f}, propagation {solved - compared:.2f}), "
      f"{(found == truth)[~known].mean():.4f} right")
print(f"ratio of wall times: {wall / (solved - start):.1f}, of the exchanges alone {exchange / (solved - start):.1f}")
