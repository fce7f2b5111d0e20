#!/usr/bin/env python3
"""Draws the error of kernel densities against the rows of a sketch, and prints the fitted slopes.

    cargo run --release --package flyswarm-lab --example density > density.csv
    lab/scripts/plot-density.py density.csv density.svg

By theory the slope is -1/2 for a mean. Needs matplotlib and numpy.
"""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

source, target = sys.argv[1:3]
lines = {}
with open(source) as file:
    for row in csv.DictReader(file):
        lines.setdefault(row["hash"], {}).setdefault(row["estimator"], []).append((int(row["rows"]), float(row["error"]), float(row["bias"])))
figure, axes = plt.subplots(1, len(lines), figsize=(5 * len(lines), 4), sharey=True)
for axis, (name, estimators) in zip(np.atleast_1d(axes), lines.items()):
    for (estimator, points), style in zip(estimators.items(), ("o-", "s--", "^:")):
        rows, errors, biases = map(np.array, zip(*points))
        slope = np.polyfit(np.log(rows), np.log(errors), 1)[0]
        last = np.polyfit(np.log(rows[-4:]), np.log(errors[-4:]), 1)[0]
        print(f"{name}, {estimator}: slope {slope:.3f}, of the last four {last:.3f}; error at {rows[-1]} rows {errors[-1]:.4f}, bias {biases[-1]:+.4f}")
        axis.loglog(rows, errors, style, label=f"{estimator}, slope {slope:.2f}")
    rows, errors, _ = map(np.array, zip(*estimators["mean"]))
    axis.loglog(rows, errors[0] * np.sqrt(rows[0] / rows), color="grey", linewidth=0.8, label="R^-1/2")
    axis.set_title(f"{name}, B = 64, digits")
    axis.set_xlabel("rows R")
    axis.legend()
np.atleast_1d(axes)[0].set_ylabel("relative error of the density (RMS)")
figure.tight_layout()
figure.savefig(target)
