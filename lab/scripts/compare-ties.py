#!/usr/bin/env python3
"""Compares tie rules of winner-take-all on sets of ../shared/data.

    lab/scripts/compare-ties.py ../shared/data/tabular

The rules are: the lowest row of M, all tied rows, and all tied rows with the remaining weight. Prints the
share of points with a tie at the cut, the mean number of tied rows there, and the accuracy for gamma 0.3 and
0.6 (5 folds, at most 1,000 rows, m = 8192, rho = 64). Needs numpy; takes minutes.
"""

import gzip
import pathlib
import sys

import numpy as np

M, RHO, FOLDS, ROWS = 8192, 64, 5, 1000


def load(path):
    table = np.loadtxt(gzip.open(path, "rt"), delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))[:ROWS]]
    return table[:, :-1], np.unique(table[:, -1], return_inverse=True)[1]


def folds(y, rng):
    fold, start = np.zeros(len(y), int), 0
    for c in np.unique(y):
        rows = rng.permutation(np.where(y == c)[0])
        fold[rows] = (start + np.arange(len(rows))) % FOLDS
        start = (start + len(rows)) % FOLDS
    return fold


def scaled(x, how):
    if how == "raw":
        return x
    centred = x - x.mean(0)
    if how == "center":
        norm = np.linalg.norm(centred, axis=1, keepdims=True)
        return centred / np.where(norm > 0, norm, 1)
    deviation = x.std(0)
    z = centred / np.where(deviation > 0, deviation, 1)
    p = (0.5 + z / (2 * np.sqrt(z * z + 2))) * 7
    return np.maximum(0, 1 - abs(p[:, :, None] - np.arange(8))).reshape(len(x), -1)


def matrix(d, s, rng):
    keys = rng.random((M, d), dtype=np.float32)
    places = np.argpartition(keys, s - 1, axis=1)[:, :s]
    out = np.zeros((M, d), np.float32)
    np.put_along_axis(out, places, 1, 1)
    return out.T.copy()


def accuracy(winners, weights, y, fold, gamma):
    right = 0
    for k in range(FOLDS):
        counts = np.zeros((y.max() + 1, M))
        for i in np.where(fold != k)[0]:
            counts[y[i], winners[i]] += weights[i]
        for i in np.where(fold == k)[0]:
            right += (gamma ** counts[:, winners[i]] * weights[i]).sum(1).argmin() == y[i]
    return right / len(y)


print(f"{'set':<10} {'scaling':<8} tied  rows   lowest row     all           weighted")
for name in ("digits", "letter", "spambase", "satimage", "vehicle"):
    x, y = load(pathlib.Path(sys.argv[1]) / f"{name}.csv.gz")
    rng = np.random.default_rng(1)
    fold = folds(y, rng)
    for how in ("raw", "center", "soft-bins"):
        rows = scaled(x, how).astype(np.float32)
        s = 2 if how == "soft-bins" else max(2, int(0.3 * x.shape[1]))
        sums = np.round(rows @ matrix(rows.shape[1], s, rng), 5)
        cut = -np.partition(-sums, RHO - 1, axis=1)[:, RHO - 1]
        lowest, every, shares, tied = [], [], [], []
        for p, c in zip(sums, cut):
            above, equal = np.where(p > c)[0], np.where(p == c)[0]
            room = RHO - len(above)
            lowest.append(np.concatenate([above, equal[:room]]))
            every.append(np.concatenate([above, equal]))
            shares.append(np.concatenate([np.ones(len(above)), np.full(len(equal), room / len(equal))]))
            if len(equal) > room:
                tied.append(len(equal))
        ones = lambda each: [np.ones(len(w)) for w in each]
        found = [
            "/".join(f"{accuracy(winners, weights, y, fold, gamma):.3f}" for gamma in (0.3, 0.6))
            for winners, weights in ((lowest, ones(lowest)), (every, ones(every)), (every, shares))
        ]
        mean = np.mean(tied) if tied else 0
        print(f"{name:<10} {how:<9} {len(tied) / len(y):.2f} {mean:>5.1f}   {'   '.join(found)}", flush=True)
