#!/usr/bin/env python3
"""Draws sketch distances of peers against the total variation of their class mixes.

    flyswarm simulate lab/simulations/sketch-fashion.toml --out results
    lab/scripts/plot-heterogeneity.py results/result.json heterogeneity.svg

Prints Spearman's correlation of each run. Needs matplotlib.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

source, target = sys.argv[1:3]
with open(source) as file:
    runs = [run for run in json.load(file)["runs"] if run.get("ranking")]
columns = min(3, len(runs))
rows = -(-len(runs) // columns)
figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 3.4 * rows), squeeze=False)
for axis in axes.flat[len(runs) :]:
    axis.set_visible(False)
for axis, run in zip(axes.flat, runs):
    ranking = run["ranking"]
    chosen = set(ranking["chosen"])
    for color, picked in (("tab:blue", False), ("tab:orange", True)):
        points = [(variation, distance) for peer, _, distance, variation in ranking["peers"] if (peer in chosen) == picked]
        if points:
            axis.scatter(*zip(*points), s=12, color=color, label="drawn" if picked else None)
    sizes = [each[1] for each in ranking["peers"]]
    print(f"{run['name']}: Spearman {ranking['spearman']:.3f}, {len(sizes)} peers with {min(sizes)} to {max(sizes)} rows,",
          f"distances those of the pooled rows: {ranking['equal']}")
    axis.set_title(f"{run['name']}: Spearman {ranking['spearman']:.2f}", fontsize=10)
    axis.set_xlabel("total variation of the class mix")
    axis.set_ylabel("distance to the global sketch")
    if chosen:
        axis.legend(fontsize=8)
figure.tight_layout()
figure.savefig(target)
