#!/usr/bin/env python3
"""Prints the p-values that the tests of lab/src/statistics.rs expect. Needs scipy (the numbers there are of 1.17.1)."""

from scipy.stats import ttest_1samp, wilcoxon

SETS = {
    "APART": [0.012, -0.003, 0.051, 0.027, 0.008, -0.011, 0.034, 0.019, 0.002],
    "TIED": [0.01, 0.01, -0.01, 0.02, 0.02, 0.03, 0.0, 0.05, 0.04, 0.06, 0.07, -0.02, 0.02, 0.01, 0.03],
    "MANY": [i * (-0.001 if i % 9 == 0 else 0.001) for i in range(1, 71)],
}
for name, differences in SETS.items():
    # Equal magnitudes or zeros need the normal approximation. For small samples scipy would choose a
    # permutation test.
    method = "asymptotic" if name == "TIED" else "auto"
    print(f"T_{name}", repr(float(ttest_1samp(differences, 0.0).pvalue)))
    print(f"W_{name}", repr(float(wilcoxon(differences, method=method).pvalue)))
