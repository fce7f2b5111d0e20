#!/usr/bin/env python3
"""Compares SRP sketches with numpy on one core, as a ratio within one run.

    lab/scripts/bench-sketch.py [--rows 1000] [--records 1024] [--features 784] [--planes 6]

Builds and runs `cargo bench --package flyswarm-lab --bench sketch`, whose sizes are the defaults here. Then
counts the same number of records with numpy: one matrix product, signs, numbers, counts. Needs numpy.
"""

import argparse
import os
import re
import subprocess
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is loaded

import numpy as np  # noqa: E402

arguments = argparse.ArgumentParser()
for name, default in (("rows", 1000), ("records", 1024), ("features", 784), ("planes", 6)):
    arguments.add_argument(f"--{name}", type=int, default=default)
given = arguments.parse_args()

command = ["cargo", "bench", "--package", "flyswarm-lab", "--bench", "sketch", "--", "::srp$|^srp|srp::"]
text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
print(text)
line = text[text.index(f"─ {given.rows} ") :].splitlines()[1]
number, unit = re.findall(r"([\d.]+) ([KMG]?)item/s", line)[2]  # fastest, slowest, median, mean
ours = float(number) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[unit]

rng = np.random.default_rng(0)
x = np.maximum(rng.integers(0, 256, (given.records, given.features)) - 205, 0).astype(np.float32)
planes = rng.normal(size=(given.features, given.rows * given.planes)).astype(np.float32)
weights = (1 << np.arange(given.planes)).astype(np.uint16)
rows = np.arange(given.rows, dtype=np.int64) << given.planes
best = np.inf
for _ in range(5):
    start = time.process_time()
    sides = (x @ planes > 0).reshape(given.records, given.rows, given.planes)
    buckets = (sides * weights).sum(2, dtype=np.uint16)
    np.bincount((rows + buckets).ravel(), minlength=given.rows << given.planes)
    best = min(best, time.process_time() - start)
theirs = given.records * given.rows / best
print(f"row updates a second and core: flyswarm {ours / 1e6:.2f} M, numpy {theirs / 1e6:.2f} M, ratio {ours / theirs:.2f}")
