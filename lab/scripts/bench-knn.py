#!/usr/bin/env python3
"""Compares training and prediction with scikit-learn's nearest neighbours (brute force, k-d tree).

    pip install scikit-learn && cargo bench --package flyswarm-lab --bench table6 --no-run
    lab/scripts/bench-knn.py [FILE.csv[.gz] ...]

Prints ratios within one run. Each file has no header and the class in the last column; the default is
crates/data/data/digits.csv.gz. Rows are shuffled with seed 0, and four fifths of them are for training. Both
sides use one thread, and CPU time counts. FlyNN: m = 256 d (at most 16384), s = 0.3 d, rho = 32.
"""

import csv
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is loaded

import numpy as np  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 3


def read(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    rows = [row for row in rows if row[0].lstrip("-")[:1].isdigit()]
    return np.array([row[:-1] for row in rows], dtype=np.float32), np.array([row[-1] for row in rows])


def write(path, x, y):
    with open(path, "w") as file:
        for row, label in zip(x, y):
            file.write(",".join(repr(float(value)) for value in row) + f",{label}\n")


def neighbours(algorithm, x, y, test_x, test_y):
    train, predict = [], []
    for _ in range(RUNS):
        start = time.process_time()
        model = KNeighborsClassifier(n_neighbors=1, algorithm=algorithm, n_jobs=1).fit(x, y)
        middle = time.process_time()
        found = model.predict(test_x)
        train.append(middle - start)
        predict.append(time.process_time() - middle)
    return {"train_s": min(train), "predict_s": min(predict), "accuracy": float((found == test_y).mean())}


def flyswarm(x, y, test_x, test_y):
    d = x.shape[1]
    sizes = [min(256 * d, 16384), max(2, round(0.3 * d)), 32]
    with tempfile.TemporaryDirectory() as folder:
        train, test = os.path.join(folder, "train.csv"), os.path.join(folder, "test.csv")
        write(train, x, y)
        write(test, test_x, test_y)
        command = ["cargo", "bench", "--quiet", "--package", "flyswarm-lab", "--bench", "table6", "--", "--files", train, test]
        done = subprocess.run(command + [str(size) for size in sizes], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    files = sys.argv[1:] or [ROOT / "crates" / "data" / "data" / "digits.csv.gz"]
    print(f"{'':36}{'train s':>10}{'predict s':>11}{'both':>9}{'ratio':>8}{'accuracy':>10}")
    for path in files:
        x, y = read(path)
        order = np.random.default_rng(0).permutation(len(x))
        cut = len(x) * 4 // 5
        train, test = order[:cut], order[cut:]
        parts = x[train], y[train], x[test], y[test]
        found = {"flyswarm": flyswarm(*parts)}
        found |= {f"1NN, {kind}": neighbours(kind, *parts) for kind in ("brute", "kd_tree")}
        base = found["flyswarm"]["train_s"] + found["flyswarm"]["predict_s"]
        name = pathlib.Path(path).name.split(".")[0]
        for method, times in found.items():
            both = times["train_s"] + times["predict_s"]
            title = f"{name} {len(x)} x {x.shape[1]}, {method}"
            print(f"{title:36}{times['train_s']:10.4f}{times['predict_s']:11.4f}{both:9.4f}{both / base:8.2f}"
                  f"{times['accuracy']:10.4f}")


if __name__ == "__main__":
    main()
