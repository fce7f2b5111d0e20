#!/usr/bin/env python3
"""Compares sessions of the task fedavg with plain FedAvg in PyTorch: the same rows, start and order of batches.

    python3 lab/scripts/compare-fedavg.py [--data ../shared/data] [--rounds 10] [--seeds 3] [--large]

Needs torch, scikit-learn and the package flyswarm (`pip install ./python`). Four peers have parts of different sizes
and classes. Two models: a convolutional network with BatchNorm on 3,000 rows of Fashion-MNIST, and an MLP with
BatchNorm on three quarters of the table satimage. Without the folder of the data: scikit-learn's digits, and a made-up
table. Prints the accuracy on test rows for each seed, and the largest difference of a weight. Ends with 1 if a mean
over the seeds differs by more than 0.5 percentage points. --large trains two rounds of 5,000,000 weights with four
peers instead, and prints time and memory.
"""

import argparse
import copy
import gzip
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import flyswarm
import numpy as np
import torch
from flyswarm import Identity, Session
from flyswarm._training import Module
from sklearn.datasets import load_digits, make_classification

PEERS = ["north", "south", "east", "west"]


def cnn(features, classes):
    side = int(features**0.5)
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, side, side)),
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(32 * (side // 4) ** 2, classes),
    )  # fmt: skip


def mlp(features, classes):
    return torch.nn.Sequential(
        torch.nn.Linear(features, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
        torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, classes),
    )  # fmt: skip


def images(folder, seed):
    """Returns training rows and labels, and test rows and labels. Numbers are from 0 to 1."""
    if not (folder / "fashion-mnist").is_dir():
        X, y = load_digits(return_X_y=True)
        return dealt(X / 16, y, len(y) * 3 // 4, seed)
    read = lambda name, head: np.frombuffer(gzip.open(folder / "fashion-mnist" / name).read(), np.uint8, offset=head)
    X = np.concatenate([read(f"{part}-images-idx3-ubyte.gz", 16) for part in ("train", "t10k")]).reshape(-1, 784)
    y = np.concatenate([read(f"{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k")])
    return dealt(X / np.float32(255), y, 3000, seed, 5000)


def table(folder, seed):
    """Returns rows like `images`, whose columns have the mean 0 and the deviation 1."""
    file = folder / "tabular" / "satimage.csv.gz"
    if file.is_file():
        found = np.loadtxt(file, delimiter=",")
        X, y = found[:, :-1], found[:, -1]
    else:
        X, y = make_classification(4000, 20, n_informative=8, n_clusters_per_class=3, flip_y=0.05, random_state=seed)
    return dealt((X - X.mean(0)) / X.std(0), y, len(y) * 3 // 4, seed)


def dealt(X, y, count, seed, tests=None):
    """Shuffles rows, and splits them into `count` training rows and at most `tests` test rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:count], order[count : None if tests is None else count + tests]
    X, y = X.astype("f4"), y.astype(np.int64)
    return X[train], y[train], X[test], y[test]


def parts_of(X, y, seed):
    """Deals different numbers of rows to the peers. Half of a peer's rows are of its main classes."""
    random = np.random.default_rng(seed)
    weights = random.dirichlet([0.8] * len(PEERS), size=y.max() + 1)
    peer = np.array([random.choice(len(PEERS), p=0.5 * weights[label] + 0.5 / len(PEERS)) for label in y])
    return [(X[peer == p], y[peer == p]) for p in range(len(PEERS))]


class Seeded(Module):
    """A module whose batches follow from the seed, the peer and the round, in the session and without it."""

    def __init__(self, module, seed, peer):
        optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        super().__init__(module, torch.nn.functional.cross_entropy, optimizer)
        self.seed, self.peer = seed, peer

    def fit(self, round):
        self.rng = np.random.default_rng([self.seed, self.peer, round.number])
        torch.manual_seed(1000 * self.seed + round.number)
        return super().fit(round)


def plain(start, parts, rounds, seed, rate):
    """Runs FedAvg in PyTorch: the mean of all state_dicts, weighted by rows. Counters are those of the first peer."""
    trainers = [Seeded(copy.deepcopy(start), seed, peer) for peer in range(len(parts))]
    sizes = [len(y) for _, y in parts]
    state = start.state_dict()
    for number in range(1, rounds + 1):
        found = []
        for trainer, (X, y) in zip(trainers, parts, strict=True):
            trainer.module.load_state_dict(state)
            asked = flyswarm.Round(number, rounds, X, y.astype(np.int64), rate=rate, epochs=1, steps=0, batch=32)
            trainer.fit(asked)
            found.append({name: value.clone() for name, value in trainer.module.state_dict().items()})
        state = {
            name: sum(size * each[name].double() for size, each in zip(sizes, found, strict=True)).div(sum(sizes)).float()
            if value.is_floating_point()
            else value
            for name, value in state.items()
        }
    return state


def federated(start, parts, rounds, seed, rate, classes, **given):
    declared = flyswarm.declare(start)
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Identity.new(f"{folder}/{name}.key") for name in PEERS}
        settings = declared | {"rounds": rounds, "rate": rate, "schedule": "constant", "batch": 32, "epochs": 1}
        session = Session.new(
            "compare", keys, task="fedavg", features=parts[0][0].shape[1], classes=range(classes),
            data={"scaling": "none", "check_columns": False}, fedavg=settings, privacy={"min_contributors": 1}, **given,
        )  # fmt: skip
    trainers = {name: Seeded(copy.deepcopy(start), seed, peer) for peer, name in enumerate(PEERS)}
    results = flyswarm.local(session, dict(zip(PEERS, parts)), trainers=trainers)
    assert len({joined.estimator.digest for joined in results}) == 1, "equal bits at every peer"
    return {name: torch.from_numpy(np.array(value)) for name, value in results[0].estimator.weights_.items()}


def accuracy(module, state, X, y):
    module.load_state_dict(state)
    module.eval()
    with torch.no_grad():
        return float((module(torch.from_numpy(X)).argmax(1).numpy() == y).mean())


def compare(name, make, data, rounds, seeds, rate):
    pairs = []
    for seed in range(seeds):
        X, y, *test = data(seed)
        features, classes = X.shape[1], y.max() + 1
        parts = parts_of(X, y, seed)
        torch.manual_seed(seed)
        start, judge = make(features, classes), make(features, classes)
        ours = federated(start, parts, rounds, seed, rate, classes)
        theirs = plain(start, parts, rounds, seed, rate)
        apart = max(float((ours[each] - theirs[each]).abs().max()) for each in theirs)
        pairs.append([accuracy(judge, state, *test) for state in (ours, theirs)])
        told = " / ".join(f"{100 * found:.2f}" for found in pairs[-1])
        sizes = [len(y) for _, y in parts]
        print(f"{name}: seed {seed}, rows {sizes}: flyswarm / PyTorch {told} %, weights differ by {apart:.1e}", flush=True)
    ours, theirs = np.mean(pairs, axis=0) * 100
    print(f"{name}: mean of {seeds} {ours:.2f} / {theirs:.2f} %, difference {ours - theirs:+.2f} points", flush=True)
    return abs(ours - theirs) <= 0.5


def large():
    """Trains 5 million weights with four peers in this process."""
    layers = torch.nn.Linear(64, 2222), torch.nn.ReLU(), torch.nn.Linear(2222, 2178), torch.nn.Linear(2178, 10)
    start = torch.nn.Sequential(*layers)
    count = sum(value.numel() for value in start.state_dict().values())
    X, y = load_digits(return_X_y=True)
    parts = parts_of((X[:400] / 16).astype("f4"), y[:400], 0)
    begun = time.monotonic()
    federated(start, parts, 2, 0, 0.01, 10)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} weights, four peers in one process, two rounds: {time.monotonic() - begun:.1f} s, peak {peak:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=beside)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", flyswarm.SessionWarning)
    torch.set_num_threads(1)
    if asked.large:
        large()
        return 0
    data = lambda read: lambda seed: read(asked.data, seed)
    equal = compare("CNN with BatchNorm, images", cnn, data(images), asked.rounds, asked.seeds, 0.05)
    equal &= compare("MLP with BatchNorm, table", mlp, data(table), asked.rounds, asked.seeds, 0.05)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
