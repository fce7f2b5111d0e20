#!/usr/bin/env python3
"""Draws Figures 3, 7 and 8 of Ram and Sinha from the output of the example `private` of flyswarm-lab.

    plot-private.py OUT.svg FILE.csv ...     one row of plots for each number of training rows
    plot-private.py --table FILE.csv ...     the figures behind Figure 8 as a Markdown table

FILE.csv is the output of `cargo run --package flyswarm-lab --example private`. Left (Figures 3a and 7):
accuracy against T with a line for each epsilon, mode per-party, m = 600 and rho = 30. Right (Figures 3b and
8): accuracy against epsilon for each mode with the T that is best on average, and for the model without
noise. Plots need matplotlib; the table does not.
"""

import collections
import csv
import statistics
import sys

MODES = ["per-party", "parallel", "central"]


def read(files):
    """Returns {rows: {(m, rho): {(mode, epsilon, top): [accuracy, ..]}}}."""
    found = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for file in files:
        with open(file, newline="") as lines:
            for line in csv.DictReader(lines):
                key = (line["mode"], float(line["epsilon"] or 0), int(line["top"] or 0))
                found[int(line["rows"])][int(line["m"]), int(line["rho"])][key].append(float(line["accuracy"]))
    return found


def spread(values):
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def best(points, mode, epsilon):
    """Returns the largest mean over T with its deviation, and that T.

    T is chosen on the rows that are scored, as in the paper.
    """
    of = [(*spread(values), top) for (at, e, top), values in points.items() if (at, e) == (mode, epsilon)]
    return max(of)


def epsilons(points):
    return sorted({epsilon for mode, epsilon, _ in points if mode != "plain"})


def table(found):
    for rows, settings in sorted(found.items()):
        for (m, rho), points in sorted(settings.items()):
            plain, deviation = spread(points["plain", 0.0, 0])
            print(f"\n{rows} rows, m = {m}, rho = {rho}; without noise {plain:.3f} +- {deviation:.3f}\n")
            print("| epsilon | " + " | ".join(MODES) + " |\n| --- |" + " --- |" * len(MODES))
            for epsilon in epsilons(points):
                cells = []
                for mode in MODES:
                    mean, deviation, top = best(points, mode, epsilon)
                    cells.append(f"{mean:.3f} +- {deviation:.3f} (T = {top})")
                print(f"| {epsilon:g} | " + " | ".join(cells) + " |")


def plot(out, found):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "private"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(found), 5, figsize=(20, 4 * len(found)), squeeze=False, sharey="row")
    for line, (rows, settings) in zip(axes, sorted(found.items())):
        setting = (600, 30) if (600, 30) in settings else max(settings)
        points = settings[setting]
        plain, _ = spread(points["plain", 0.0, 0])
        for epsilon in epsilons(points):
            tops = sorted({top for mode, e, top in points if (mode, e) == ("per-party", epsilon)})
            means, deviations = zip(*(spread(points["per-party", epsilon, top]) for top in tops))
            [drawn] = line[0].plot(tops, means, marker=".", label=f"epsilon {epsilon:g}")
            low, high = ([m + sign * d for m, d in zip(means, deviations)] for sign in (-1, 1))
            line[0].fill_between(tops, low, high, alpha=0.12, color=drawn.get_color())
        line[0].axhline(plain, linestyle="--", color="black", label="without noise")
        line[0].set(title=f"{rows} rows, m = {setting[0]}, rho = {setting[1]}, per-party", xlabel="T", xscale="log", ylabel="balanced accuracy")
        line[0].legend(fontsize=7)
        for axis, ((m, rho), points) in zip(line[1:], sorted(settings.items())):
            plain, _ = spread(points["plain", 0.0, 0])
            axis.axhline(plain, linestyle="--", color="black", label="without noise")
            for mode in MODES:
                means, deviations, _ = zip(*(best(points, mode, epsilon) for epsilon in epsilons(points)))
                axis.errorbar(epsilons(points), means, yerr=deviations, marker=".", capsize=2, label=mode)
            axis.set(title=f"{rows} rows, m = {m}, rho = {rho}, best T", xlabel="epsilon")
            axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    found = read(sys.argv[2:])
    if sys.argv[1] == "--table":
        table(found)
    else:
        plot(sys.argv[1], found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
