"""Compares the time of `FlyNNClassifier.predict` with the time of the Rust kernel, in one run.

    cargo build --release --package flyswarm-lab --example predict
    python python/benches/bench_predict.py target/release/examples/predict [rows]

The package must have been built with the same profile. The two predict in turns on all cores, with the same
model and rows; the kernel runs in a program of its own. The script prints the shortest time of each, as wall
time and as CPU time of all cores. Other programs on the machine disturb CPU time less than wall time.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from flyswarm import FlyNNClassifier

ROWS, FEATURES, CLASSES, RUNS, TURNS = 100_000, 64, 10, 3, 4


def seconds(call):
    """Returns the wall time and the CPU time of all cores."""
    begun, worked = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begun, time.process_time() - worked


def main(program, rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    y = rng.integers(CLASSES, size=rows)
    fitted = FlyNNClassifier().fit(X[:20_000], y[:20_000])
    fitted.predict(X[:1])
    kernel, estimator = [], []
    with tempfile.TemporaryDirectory() as folder:
        model, array = Path(folder) / "test.model", Path(folder) / "rows.npy"
        fitted.model_.save(model)
        np.save(array, X)
        for _ in range(TURNS):
            command = [program, model, array, str(RUNS)]
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            kernel.append([float(word) for word in found.stdout.split()])
            estimator += [seconds(lambda: fitted.predict(X)) for _ in range(RUNS)]
    least_times = np.min(kernel, axis=0), np.min(estimator, axis=0)
    for name, least, whole in zip(("clock", "cores"), *least_times, strict=True):
        more = 100 * (whole / least - 1)
        times = f"kernel {least:.3f} s, predict {whole:.3f} s, {more:+.1f} %"
        print(f"{rows} rows of {FEATURES}, by the {name}: {times}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else ROWS)
