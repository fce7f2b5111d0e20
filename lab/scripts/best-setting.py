#!/usr/bin/env python3
"""The best single settings over the sets that `flyswarm-lab benchmark FOLDER --out RESULTS` has evaluated: lab/scripts/best-setting.py RESULTS.

A setting's figure is the mean over the sets of its score divided by the best setting's on that set. Only the default and the list of
known candidates are the same on every set (but for sizes that follow d), so only these are ranked.
"""

import json
import pathlib
import sys

KNOWN = 13  # the default and the PORTFOLIO of crates/learn/src/tuning/candidate.rs

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
