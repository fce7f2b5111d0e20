#!/usr/bin/env python3
"""Each stage of XCLP beside numpy's version of it in one place, in one run: scripts/bench-xclp-stages.py [--peers 5] [--rows 500].

Runs `cargo bench --bench xclp` for this swarm's CPU seconds, all peers together, and numpy on one thread for as many points. Least of
several runs each. Needs numpy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np

import xclp_in_one_place as central

arguments = argparse.ArgumentParser()
arguments.add_argument("--peers", type=int, default=5)
arguments.add_argument("--rows", type=int, default=500)
given = arguments.parse_args()

command = ["cargo", "bench", "--quiet", "--bench", "xclp", "--", "--json", "--peers", str(given.peers), "--rows", str(given.rows)]
folder = pathlib.Path(__file__).resolve().parent.parent
bench = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout)
bits, classes, k = bench["bits"], bench["classes"], bench["neighbours"]


def swarm(prefix):
    found = [seconds for name, seconds in bench["seconds"].items() if name.startswith(prefix)]
    assert found, prefix
    return sum(found)


def least(work, runs=3):
    """CPU seconds, and what came of it."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


points, pairs = given.peers * given.rows, given.peers * (given.peers - 1) // 2
rng = np.random.default_rng(0)
rows, truth, known = central.clusters(rng, points, bench["features"], classes)
coding, codes = least(lambda: central.codes(rng, rows, bits))
comparing, distances = least(lambda: central.distances(codes))
sorting, near = least(lambda: central.nearest(distances, k))
building, normal = least(lambda: central.graph(distances, near, bits))
y = central.labels(truth, known, classes)
inverting, scores = least(lambda: central.inverse(normal, y))
solving, _ = least(lambda: central.solved(normal, y))
dense, by_steps = least(lambda: central.series(lambda x: normal @ x, y))
times = central.sparse(normal)
sparse, by_entries = least(lambda: central.series(times, y))
# The series is cut off where a score is right to 1e-5; the scores that decide are far larger.
assert np.abs(by_steps - scores).max() < 1e-5 and np.abs(by_entries - scores).max() < 1e-5, "numpy's own ways agree"

own = given.peers * swarm("plain")
table = [
    ("codes", given.peers * swarm("codes"), "Gaussian planes, product in float32", coding),
    ("distances, in one place", swarm("one place.distances"), "product in float32", comparing),
    ("distances, shared by a dealt triple", own + pairs * swarm("dealer."), "the same", comparing),
    ("distances, by oblivious transfer", own + pairs * swarm("ot."), "the same", comparing),
    ("distances, by homomorphic encryption", own + pairs * swarm("phe."), "the same", comparing),
    ("nearest, of blinded distances", 2 * pairs * swarm("custody."), "argpartition", sorting),
    ("graph, at both propagators", 2 * swarm("one place.graph"), "dense", building),
    ("propagation, of both shares", 2 * swarm("one place.propagation"), "inverse of the dense matrix", inverting),
    ("", None, "solved, without the inverse", solving),
    ("", None, "the same steps, dense", dense),
    ("", None, "the same steps, sparse", sparse),
]
print(f"{given.peers} peers x {given.rows} points, {bench['features']} features, L = {bits}, C = {classes}, k = {k}; CPU seconds, numpy {np.__version__} on one thread")
print(f"{'':<38}{'all peers':>10}  {'numpy, in one place':<36}{'':>8}{'ratio':>8}")
ours = 0.0
for stage, seconds, what, numpys in table:
    ours = ours if seconds is None else seconds
    print(f"{stage:<38}{'' if seconds is None else f'{seconds:.4f}':>10}  {what:<36}{numpys:>8.4f}{ours / numpys:>8.2f}")
