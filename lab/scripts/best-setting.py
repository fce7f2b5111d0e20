#!/usr/bin/env python3
"""Ranks settings over all data sets that `flyswarm-lab benchmark FOLDER --out RESULTS` has evaluated.

    lab/scripts/best-setting.py RESULTS

The figure of a setting is a mean over the sets: its score divided by the score of the best setting on that
set. Only the default and the known candidates are the same on every set (except sizes that depend on d), so
only these are ranked.
"""

import json
import pathlib
import sys

KNOWN = 13  # number of candidates: the default and the PORTFOLIO of crates/learn/src/tuning/candidate.rs

results = [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("[!.]*.json"))]
candidates = 1 + results[0]["plan"]["budget"]
settings = len(results[0]["tried"]) // candidates * min(KNOWN, candidates)
for metric in ("balanced", "accuracy"):
    shares = []
    for at in range(settings):
        of = [result["tried"][at][metric] / max(tried[metric] for tried in result["tried"]) for result in results]
        shares.append((sum(of) / len(of), min(of), results[0]["tried"][at]["setting"]))
    print(f"{metric}, {len(results)} sets (sizes as on {results[0]['name']})")
    for mean, worst, setting in sorted(shares, reverse=True)[:5]:
        print(f"  mean {mean:.4f}  worst {worst:.3f}  {setting}")
