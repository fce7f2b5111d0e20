"""Four processes train a convolutional network in PyTorch on digits that they do not share.

    pip install torch
    python python/examples/cnn.py
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
from flyswarm import FedAvg, Identity, Session
from processes import together
from sklearn.datasets import load_digits

PEERS = [f"peer{i}" for i in range(4)]


def digits():
    """Returns rows and labels for training, and for testing."""
    X, y = load_digits(return_X_y=True)
    test = np.arange(len(X)) % 4 == 0
    X = (X / 16).astype(np.float32)
    return X[~test], y[~test].astype(str), X[test], y[test]


def module():
    """Makes a module with the names and shapes of the session's network `cnn` (filters 8, 16, 16; 32
    units)."""
    from torch import nn

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution1 = nn.Conv2d(1, 8, 3, padding=1)
            self.convolution2 = nn.Conv2d(8, 16, 3, padding=1)
            self.convolution3 = nn.Conv2d(16, 16, 3, padding=1)
            self.dense1 = nn.Linear(16, 32)
            self.dense2 = nn.Linear(32, 10)

        def forward(self, x):
            x = x.view(-1, 1, 8, 8)
            for convolution in (self.convolution1, self.convolution2, self.convolution3):
                x = nn.functional.max_pool2d(convolution(x).relu(), 2)
            return self.dense2(self.dense1(x.flatten(1)).relu())

    return Cnn()


def peer(name, key, meeting, session):
    """Trains on every fourth row. Returns the curve of the rounds, and the test accuracy of network and
    module."""
    import torch

    torch.set_num_threads(1)
    X, y, test, labels = digits()
    own = slice(PEERS.index(name), None, len(PEERS))
    cnn = module()
    trainer = FedAvg(
        Session(session), cnn,
        loss=torch.nn.functional.cross_entropy,
        optimizer=functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    )  # fmt: skip
    joined = trainer.join(X[own], y[own], **meeting.of(key))
    network = joined.estimator
    with torch.no_grad():
        scores = cnn.eval()(torch.from_numpy(test)).numpy()
    assert np.abs(scores - network.decision_function(test)).max() < 1e-3, "torch and the node compute alike"
    right = float((scores.argmax(axis=1) == labels).mean())
    return not joined.receipt["own_rows"]["left_out"], network.digest, joined.figures["rounds"], right


def main():
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Identity.new(Path(folder) / name / "key") for name in PEERS}
        session = Session.new(
            "cnn", keys, task="fedavg", features=64, classes="0..9",
            network="cnn", hidden=[32], rounds=20, data={"scaling": "none"},
            fedavg={"image": [1, 8, 8], "filters": [8, 16, 16], "epochs": 2, "rate": 0.1},
        )  # fmt: skip
        answers = together(peer, keys, session.text)
    _, digest, rounds, _ = answers["peer0"]
    for number, figures in enumerate(rounds, 1):
        if number in (1, 2, 5, 10, 20):
            print(f"round {number}: loss {figures['loss']:.3f}, accuracy {figures['accuracy']:.3f}")
    for name, (complete, other, _, right) in answers.items():
        assert other == digest, "all have the same network"
        print(f"{name}: rows in all sums {complete}, accuracy {right:.3f} on rows that nobody trained on")


if __name__ == "__main__":
    main()
