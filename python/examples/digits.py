"""Handwritten digits at five peers, each a process: every peer gets the model of all rows, bit for bit.

    python python/examples/digits.py
"""

import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
from flyswarm import FlyNNClassifier, Identity, Model, Session
from sklearn.base import clone
from sklearn.datasets import load_digits

PEERS = [f"peer{i}" for i in range(5)]


def digits():
    """Rows and labels to learn, and to test."""
    X, y = load_digits(return_X_y=True)
    X = np.ascontiguousarray(X, np.float32)
    test = np.arange(len(X)) % 4 == 0
    return X[~test], y[~test].astype(str), X[test], y[test].astype(str)


def peer(i, session, key, addresses, answers):
    """Takes part with every fifth row."""
    X, y, test, labels = digits()

    def on_event(event):
        if event.kind == "listening":
            addresses[key.peer_id] = event.fields["address"]

    estimator, receipt = Session(session).join(
        X[i::5], y[i::5], key=key, on_event=on_event, addresses=addresses, mdns=False,
        listen=["/ip4/127.0.0.1/tcp/0"],
    )  # fmt: skip
    alone = clone(estimator).fit(X[i::5], y[i::5])
    scores = (estimator.score(test, labels), alone.score(test, labels))
    answers[i] = (receipt["counted"], estimator.model_.encode(), *scores)


def main():
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Manager() as manager:
        keys = {name: Identity.new(Path(folder) / name / "key") for name in PEERS}
        session = Session.new("digits", keys, features=64, classes_from_range="0..9", no_evaluate=True)
        addresses, answers = manager.dict(), manager.dict()
        spawn = multiprocessing.get_context("spawn")
        parts = [
            spawn.Process(target=peer, args=(i, session.text, keys[name], addresses, answers))
            for i, name in enumerate(PEERS)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.join()
        X, y, _, _ = digits()
        models = [Model.decode(answers[i][1]) for i in range(5)]
        pooled = clone(FlyNNClassifier.from_model(models[0])).fit(X, y).model_
        for i in range(5):
            counted, _, together, alone = answers[i]
            print(f"peer{i}: counted {counted}, accuracy {together:.3f} together, {alone:.3f} alone")
            assert models[i].digest == pooled.digest, "the model of all rows"
        print(f"all five have the model of all {len(X)} rows: {pooled.digest[:16]}")


if __name__ == "__main__":
    main()
