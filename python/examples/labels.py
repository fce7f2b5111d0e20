"""Labels for mostly unlabelled tables: at three clinics, one patient in ten has a diagnosis.

    python python/examples/labels.py

The task `xclp` spreads the known labels over the rows of all clinics. Each clinic gets labels for its own
rows, and no clinic sees the rows of another.
"""

import tempfile
from pathlib import Path

import numpy as np
from flyswarm import Identity, LabelPropagation, Session
from processes import together
from sklearn.datasets import load_breast_cancer

PEERS = ["north", "south", "east"]


def rows(name):
    """Returns every third row, the known labels of these rows, and all their labels."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = y.map({0: "malignant", 1: "benign"}).to_numpy()
    known = np.random.default_rng(1).random(len(y)) < 0.1
    own = slice(PEERS.index(name), None, len(PEERS))
    return X[own], np.where(known, y, None)[own], y[own]


def peer(name, key, meeting, session):
    """Joins. Returns the numbers of known and unknown labels, and of right labels in the session and
    alone."""
    X, given, truth = rows(name)
    found, receipt = Session(session).join(X, given, **meeting.of(key))
    unknown = np.array([label is None for label in given])
    alone = LabelPropagation(bits=1024).fit(X, np.where(unknown, "-1", given).astype(str))
    right = [int((labels == truth)[unknown].sum()) for labels in (found.transduction_, alone.transduction_)]
    return not receipt["own_rows"]["left_out"], int((~unknown).sum()), int(unknown.sum()), *right


def main():
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Identity.new(Path(folder) / name / "key") for name in PEERS}
        session = Session.new(
            "labels", keys, task="xclp", features=list(rows("north")[0].columns),
            classes=["benign", "malignant"],
            xclp={"bits": 1024, "alpha": 0.9}, privacy={"min_contributors": 1},
        )  # fmt: skip
        answers = together(peer, keys, session.text)
    for name, (complete, given, unknown, right, alone) in answers.items():
        print(
            f"{name}: rows in all sums {complete}; {given} labels given; of {unknown} others"
            f" {right} right ({right / unknown:.1%}), {alone} by its own rows alone ({alone / unknown:.1%})"
        )


if __name__ == "__main__":
    main()
