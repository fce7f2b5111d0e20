"""Computes nearest neighbours, their vote and the choice of lambda with NumPy.

Writes crates/learn/tests/personal.json. Run it again after a change of the computation of kNN-Per:
python3 scripts/personal-vectors.py
"""

import json
from pathlib import Path

import numpy as np

LAMBDAS = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
KEYS, ROWS, WIDTH, CLASSES = 40, 12, 5, 4


def numbers(count, step):
    """Returns numbers in -1..1 that are exact in binary32."""
    return np.round(np.sin(np.arange(1, count + 1) * step) * 2**10) / 2**10


def case(k, scale):
    keys = numbers(KEYS * WIDTH, 1.3).reshape(KEYS, WIDTH)
    keys[7] = keys[31]  # A duplicate has the same distances: the first of the two is nearer.
    labels = np.arange(KEYS) * 7 % CLASSES
    rows = numbers(ROWS * WIDTH, 0.7).reshape(ROWS, WIDTH)
    rows[3] = keys[31]
    scores = 3 * numbers(ROWS * CLASSES, 2.1).reshape(ROWS, CLASSES)
    truth = np.arange(ROWS) * 3 % CLASSES

    distances = np.sqrt(((rows[:, None] - keys[None]) ** 2).sum(2))
    near = np.argsort(distances, axis=1, kind="stable")[:, :k]
    weights = np.exp(-np.take_along_axis(distances, near, 1) / scale)
    said = np.stack([np.where(labels[near] == c, weights, 0).sum(1) for c in range(CLASSES)], 1)
    said /= said.sum(1, keepdims=True)
    network = np.exp(scores)
    network /= network.sum(1, keepdims=True)

    right, brier = [], []
    for value in LAMBDAS:
        mixed = value * said + (1 - value) * network
        right.append(int((mixed.argmax(1) == truth).sum()))
        brier.append(float(((mixed - np.eye(CLASSES)[truth]) ** 2).sum()))
    best = min(range(len(LAMBDAS)), key=lambda i: (-right[i], brier[i], i))
    flat = lambda array: array.ravel().tolist()
    return {
        "k": k, "scale": scale, "classes": CLASSES, "width": WIDTH,
        "keys": flat(keys), "labels": flat(labels), "rows": flat(rows), "scores": flat(scores), "truth": flat(truth),
        "nearest": near.tolist(), "neighbours": flat(said), "network": flat(network),
        "right": right, "brier": brier, "lambda": LAMBDAS[best],
    }


cases = [case(10, 1.0), case(3, 0.25), case(100, 4.0)]
path = Path(__file__).parent.parent / "crates/learn/tests/personal.json"
path.write_text(json.dumps(cases) + "\n")
print(f"{path}: {path.stat().st_size} bytes")
