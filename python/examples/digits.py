"""Five processes share handwritten digits as peers. Every peer gets the model of all rows, bit for bit.

    python python/examples/digits.py
"""

import tempfile
from pathlib import Path

import numpy as np
from flyswarm import FlyNNClassifier, Identity, Model, Session
from processes import together
from sklearn.base import clone
from sklearn.datasets import load_digits

PEERS = [f"peer{i}" for i in range(5)]


def digits():
    """Returns rows and labels for training, and for testing."""
    X, y = load_digits(return_X_y=True)
    X = np.ascontiguousarray(X, np.float32)
    test = np.arange(len(X)) % 4 == 0
    return X[~test], y[~test].astype(str), X[test], y[test].astype(str)


def peer(name, key, meeting, session):
    """Joins with every fifth row."""
    X, y, test, labels = digits()
    own = slice(PEERS.index(name), None, 5)
    estimator, receipt = Session(session).join(X[own], y[own], **meeting.of(key))
    alone = clone(estimator).fit(X[own], y[own])
    scores = estimator.score(test, labels), alone.score(test, labels)
    return not receipt["own_rows"]["left_out"], estimator.model_.encode(), *scores


def main():
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Identity.new(Path(folder) / name / "key") for name in PEERS}
        session = Session.new("digits", keys, features=64, classes="0..9", no_evaluate=True)
        answers = together(peer, keys, session.text)
    X, y, _, _ = digits()
    models = {name: Model.decode(model) for name, (_, model, _, _) in answers.items()}
    pooled = clone(FlyNNClassifier.from_model(models["peer0"])).fit(X, y).model_
    for name, (complete, _, together_, alone) in answers.items():
        print(f"{name}: rows in all sums {complete}, accuracy {together_:.3f} together, {alone:.3f} alone")
        assert models[name].digest == pooled.digest, "the model of all rows"
    print(f"all five have the model of all {len(X)} rows: {pooled.digest[:16]}")


if __name__ == "__main__":
    main()
