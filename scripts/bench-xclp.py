#!/usr/bin/env python3
"""One round of XCLP as real processes beside numpy's centralised version, in one run: scripts/bench-xclp.py PROGRAM [--points 500] [--peers 5]
[--features 512] [--bits 4096] [--classes 10] [--hamming dealer|ot|phe] [--seconds].

PROGRAM is a release build of flyswarm. Makes clusters, deals them to the peers with two witnesses beside, and prints wall seconds, bytes sent by each
peer, the share of labels that are right, and the same for numpy: random planes, Hamming distances as a matrix product, the k nearest, the exact inverse.
Then the bytes that secure Hamming distances must cost by their own arithmetic (specification, section 15c), and how many were sent; with --seconds the same for
the CPU seconds of all processes: what `cargo bench --bench xclp` takes for the blocks, and what as many bytes take through bare libp2p substreams
(`cargo bench --bench sealed_sum -- --bare 64`). Needs numpy.
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
arguments.add_argument("--hamming", choices=["dealer", "ot", "phe"], default="dealer")
arguments.add_argument("--seconds", action="store_true")
arguments.add_argument("--port", type=int, default=41500)
given = arguments.parse_args()
program = given.program.resolve()
rng = np.random.default_rng(0)
n = given.points * given.peers

rows, truth, known = central.clusters(rng, n, given.features, given.classes)


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bench(name, *words):
    command = ["cargo", "bench", "--quiet", "--bench", name, "--", *words]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=pathlib.Path(__file__).parent).stdout)


def run(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    names = [f"peer-{i}" for i in range(given.peers)] + ["witness-0", "witness-1"]
    peers, listen = [], []
    for place, name in enumerate(names):
        identity = run("id", "--key", str(folder / f"{name}.key")).split()
        identity = next(word for word in identity if word.startswith("12D3"))
        listen.append(f"/ip4/127.0.0.1/tcp/{given.port + place}")
        peers += ["--peer", f"{name}={identity}@{listen[-1]}"]
    session = folder / "session.toml"
    run("session", "new", "--task", "xclp", "--name", "bench", "--features", str(given.features), "--bits", str(given.bits), "--hamming", given.hamming, "--classes-from-range",
        f"0..{given.classes - 1}", *peers, "--timing", "linger_ms=20000", "--out", str(session))
    for place, name in enumerate(names[: given.peers]):
        own = range(place * given.points, (place + 1) * given.points)
        lines = [",".join(map(repr, rows[i].tolist())) + "," + (str(truth[i]) if known[i] else "") for i in own]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    start, before = time.perf_counter(), processor_seconds()
    processes = []
    for place, name in enumerate(names):
        words = [program, "join" if place < given.peers else "witness", session, "--key", folder / f"{name}.key", "--state", folder / "state", "--no-mdns",
                 "--listen", listen[place], "--receipt", folder / f"{name}.json"]
        if place < given.peers:
            words += ["--data", folder / f"{name}.csv", "--header", "no", "--out", folder / f"{name}.labels.csv"]
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

print(f"{given.peers} peers x {given.points} points, {given.features} features, L = {given.bits}, C = {given.classes}, distances by {given.hamming}, two witnesses; {int(known.sum())} labels")
print(f"flyswarm: {wall:.2f} s wall with starting and reading, {right / (~known).sum():.4f} of the unknown labels right")
exchange = max(sum(stage["seconds"] for stage in receipt["stages"] if stage["name"] in ("graph", "labels")) for receipt in receipts)
print(f"  of which the exchange: {exchange:.2f} s; {used:.1f} s of processors, all {len(names)} processes together")
for name, receipt in zip(names, receipts):
    print(f"  {name:<10} sent {receipt['bytes_sent'] / 1e6:6.2f} MB, received {receipt['bytes_received'] / 1e6:6.2f} MB")

pairs, block = given.peers * (given.peers - 1) // 2, given.points**2
of_block = {
    # Y, D and E, and two seeds.
    "dealer": 2 * block + 2 * 2 * given.points * given.bits + 64,
    # A string for each bit of one of the two, a column of 128 bits, and the points of the base transfers.
    "ot": given.bits * given.points * (2 * given.points + 16) + 129 * 32,
    # Ciphertexts, answers and the public key, where the rows are at most 512.
    "phe": 51_200 * -(-given.bits // (4096 // (1 << (given.points - 1).bit_length()))) + given.points * (25_600 + -(-given.points * 50 // 8)) + 51_232,
}[given.hamming]
sent = sum(receipt["bytes_sent"] for receipt in receipts)
print(f"distances, by arithmetic: {pairs} x {of_block / 1e6:.2f} MB = {pairs * of_block / 1e6:.2f} MB; "
      f"all that was sent {sent / 1e6:.2f} MB, {sent / (pairs * of_block):.2f} times as much; {sent / 1e6 / exchange:.0f} MB/s during the exchange")
if given.seconds:
    stages = bench("xclp", "--json", "--rows", str(given.points))
    assert (stages["features"], stages["bits"]) == (given.features, given.bits), "the bench's sizes"
    block = sum(seconds for name, seconds in stages["seconds"].items() if name.startswith(given.hamming + "."))
    bare = bench("sealed_sum", "--bare", "64")
    must = pairs * block + sent / 1e9 * bare
    print(f"CPU seconds, by arithmetic: {pairs} blocks x {block:.3f} s + {sent / 1e9:.2f} GB x {bare:.2f} s through bare substreams = {must:.1f} s; "
          f"all processes took {used:.1f} s, {used / must:.2f} times as much")

start = time.perf_counter()
codes = central.codes(rng, rows, given.bits)
coded = time.perf_counter()
distances = central.distances(codes)
near = central.nearest(distances, 10)
compared = time.perf_counter()
y = central.labels(truth, known, given.classes)
scores = central.solved(central.graph(distances, near, given.bits), y) / np.maximum(y.sum(0), 1)
solved = time.perf_counter()
found = scores.argmax(1)
print(f"numpy, one place: {solved - start:.2f} s (codes {coded - start:.2f}, distances and neighbours {compared - coded:.2f}, propagation {solved - compared:.2f}), "
      f"{(found == truth)[~known].mean():.4f} right")
print(f"ratio of wall times: {wall / (solved - start):.1f}, of the exchange alone {exchange / (solved - start):.1f}")
