#!/usr/bin/env python3
"""Compares our synthetic data (crates/learn/src/synthetic.rs) with scikit-learn's make_classification.

    cargo build --package flyswarm-lab --example synthetic
    lab/scripts/check-synthetic.py target/debug/examples/synthetic [FEATURES]

Computes each statistic on SETS sets from both. The means may differ by four standard errors. Needs numpy and
scikit-learn.
"""

import subprocess
import sys

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

ROWS, SETS = 1000, 16
FEATURES = int(sys.argv[2]) if len(sys.argv) > 2 else 20


def ours(seed):
    text = subprocess.run([sys.argv[1], str(ROWS), str(FEATURES), str(seed)], capture_output=True, check=True, text=True)
    table = np.array([line.split(",") for line in text.stdout.split()], dtype=float)
    return table[:, :-1], table[:, -1].astype(int)


def theirs(seed):
    return make_classification(
        n_samples=ROWS, n_features=FEATURES, n_informative=FEATURES, n_redundant=0, n_repeated=0, n_classes=5,
        n_clusters_per_class=3, class_sep=1.2, hypercube=True, flip_y=0.01, random_state=seed,
    )  # fmt: skip


def statistics(x, y):
    counts = np.bincount(y, minlength=5)
    centred = x - x.mean(0)
    eigenvalues = np.linalg.eigvalsh(np.cov(centred.T))[::-1]
    means = np.array([x[y == c].mean(0) for c in range(5)])
    accuracy = lambda model, x=x: cross_val_score(model, x, y, cv=5).mean()
    return {
        "smallest class": counts.min(),
        "largest class": counts.max(),
        "mean of a feature, squared": (x.mean(0) ** 2).mean(),
        "variance of a feature": x.var(0).mean(),
        "fourth moment / variance^2": ((centred**4).mean(0) / x.var(0) ** 2).mean(),
        "share of the first eigenvalue": eigenvalues[0] / eigenvalues.sum(),
        "share of the first five": eigenvalues[:5].sum() / eigenvalues.sum(),
        "variance of class means": means.var(0).mean(),
        "1NN accuracy": accuracy(KNeighborsClassifier(1)),
        "15NN accuracy": accuracy(KNeighborsClassifier(15)),
        "15NN accuracy, rows of length 1": accuracy(KNeighborsClassifier(15), normalize(x)),
        "logistic regression accuracy": accuracy(LogisticRegression(max_iter=300)),
    }


found = [[statistics(*make(seed)) for seed in range(SETS)] for make in (ours, theirs)]
worst = 0.0
print(f"{'':<32} {'ours':>9} {'sklearn':>9}   difference in standard errors")
for name in found[0][0]:
    a, b = (np.array([each[name] for each in side], dtype=float) for side in found)
    error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / SETS)
    z = (a.mean() - b.mean()) / error if error > 0 else 0.0
    worst = max(worst, abs(z))
    print(f"{name:<32} {a.mean():>9.4f} {b.mean():>9.4f}   {z:+.1f}")
if worst > 4:
    sys.exit("they differ")
print("the same, as far as these statistics tell")
