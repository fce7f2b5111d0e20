#!/usr/bin/env python3
"""Compares FlyNN with the classifiers that a user would choose on one machine.

    lab/scripts/compare-sklearn.py FLYSWARM FOLDER [SET ...]

FLYSWARM is the program (a release build). FOLDER has files NAME.csv.gz of numbers with the class in the last
column. Prints balanced accuracy in percent for each set, over 5 stratified folds with seed 0, on at most
1,500 rows (a stratified sample, the same for all).

FlyNN is `tune --budget 0`: the default sketch with the best of its 23 readouts over its folds. Nearest
neighbours (k and scaling tuned) use the same folds. Both results are slightly optimistic, because the setting
is chosen on the scored rows. scikit-learn uses its defaults without tuning; logistic regression has standardised
columns and at most 1,000 steps.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SETS = (
    "breast-cancer-wdbc digits fri-c1-1000-25 hill-valley ionosphere iris kc1 letter mfeat-fourier ozone-level-8hr "
    "qsar-biodeg ringnorm satimage segment spambase thyroid-ann vehicle wall-robot-navigation"
).split()
ROWS = 1500

warnings.filterwarnings("ignore")
program, folder, *sets = sys.argv[1:]
print(f"{'set':22} {'rows':>5} {'d':>3} {'L':>2}   FlyNN    kNN logistic forest boosting")
means, best = [], [0] * 5
for name in sets or SETS:
    with gzip.open(pathlib.Path(folder) / f"{name}.csv.gz", "rt") as file:
        data = np.loadtxt(file, delimiter=",")
    x, y = data[:, :-1], data[:, -1].astype(int)
    if len(y) > ROWS:
        x, _, y, _ = train_test_split(x, y, train_size=ROWS, stratify=y, random_state=0)
    with tempfile.TemporaryDirectory() as made:
        rows = pathlib.Path(made) / "rows.csv"
        lines = (",".join([*map(repr, map(float, row)), str(label)]) for row, label in zip(x, y))
        rows.write_text("\n".join(lines) + "\n")
        line = [program, "tune", rows, "--budget", "0", "--folds", "5", "--json"]
        found = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)
    scores = [found["candidates"][0]["balanced"], found["baselines"][0]["balanced"]]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for model in (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        RandomForestClassifier(random_state=0),
        HistGradientBoostingClassifier(random_state=0),
    ):
        scores.append(balanced_accuracy_score(y, cross_val_predict(model, x, y, cv=folds)))
    means.append(scores)
    best[int(np.argmax(scores))] += 1
    shown = " ".join(f"{100 * score:{width}.1f}" for score, width in zip(scores, (7, 6, 8, 6, 8)))
    print(f"{name:22} {len(y):5} {x.shape[1]:3} {len(set(y)):2} {shown}", flush=True)
shown = lambda values, form: " ".join(f"{value:{width}{form}}" for value, width in zip(values, (7, 6, 8, 6, 8)))
print(f"{'mean':35} {shown(100 * np.mean(means, axis=0), '.1f')}")
print(f"{'sets on which it is best':35} {shown(best, 'd')}")
