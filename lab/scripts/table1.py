#!/usr/bin/env python3
"""Prints the paper's Table 1 from the results of `flyswarm-lab benchmark --synthetic N --out RESULTS`.

    lab/scripts/table1.py RESULTS

The figure is the normalised accuracy 1 - a / a_kNN (Ram & Sinha, section 4, "Evaluation metric"); below 0 is
better than nearest neighbours. Prints its mean over the sets of a shape and the standard error. Both
estimates are given: nested, and optimistic as in the paper (the best setting over the folds that chose it).
a_kNN is given for nearest neighbours with tuned k and scaling, and for the paper's reference: tuned k on
unscaled rows.
"""

import json
import pathlib
import statistics
import sys

METHODS = {"1NN": "one-nn", "SBFC": "sbfc", "FlyNN": "flynn", "published": "flynn-published"}

shapes = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("[!.]*.json")):
    result = json.loads(path.read_text())
    shapes.setdefault(result["name"].rsplit("-", 1)[0], []).append(result["figures"]["accuracy"])
for how, reference in [(how, reference) for reference in ("knn", "knn-raw") for how in ("nested", "optimistic")]:
    print(f"{how + ', by ' + reference:<24}sets" + "".join(f"{name:>18}" for name in METHODS))
    for shape, figures in shapes.items():
        row = f"{shape:<24}{len(figures):>4}"
        for method in METHODS.values():
            values = [1 - each[method][how] / each[reference][how] for each in figures if method in each]
            error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            row += f"{statistics.mean(values):>+10.3f} ± {error:.3f}"
        print(row)
    print()
