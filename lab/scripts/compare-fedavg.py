#!/usr/bin/env python3
"""Compares sessions of the task fedavg with plain FedAvg in PyTorch: the same rows, start and order of batches.

    python3 lab/scripts/compare-fedavg.py [--rounds 10] [--seeds 3] [--large]

Needs torch and the package flyswarm (`maturin develop` in python/). Four peers have parts of different sizes and
classes. Two models: a convolutional network with BatchNorm on the digits, and an MLP with BatchNorm on a table of
two classes. Prints the accuracy on test rows for each seed, and ends with 1 if a mean differs by more than 0.5
percentage points. --large also trains one round of 5,000,000 weights with four peers, and prints time and memory.
"""

import argparse
import copy
import resource
import sys
import tempfile
import time
import warnings

import flyswarm
import numpy as np
import torch
from flyswarm import Identity, Session
from flyswarm._training import Module
from sklearn.datasets import load_digits, make_classification

PEERS = ["north", "south", "east", "west"]


def cnn():
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 8, 8)),
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(128, 10),
    )  # fmt: skip


def table():
    return torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
        torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 2),
    )  # fmt: skip


def images(seed):
    """Digits: X from 0 to 1."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return (X[order] / 16).astype("f4"), y[order], 10


def rows(seed):
    X, y = make_classification(4000, 20, n_informative=8, n_clusters_per_class=3, flip_y=0.05, random_state=seed)
    return X.astype("f4"), y, 2


def parts_of(X, y, seed):
    """Deals rows: half of each peer's rows are of the classes that it has most of, and sizes differ."""
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
    """FedAvg in PyTorch: the mean of all state_dicts by rows, counters of the first."""
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
        settings = {**declared, "rounds": rounds, "rate": rate, "schedule": "constant", "batch": 32, "epochs": 1}
        session = Session.new(
            "compare", keys, task="fedavg", features=parts[0][0].shape[1], classes=[str(c) for c in range(classes)],
            data={"scaling": "none", "check_columns": False}, fedavg=settings, privacy={"min_contributors": 1}, **given,
        )  # fmt: skip
    # `local` deals parts in the alphabetical order of the names.
    order = sorted(PEERS)
    trainers = {name: Seeded(copy.deepcopy(start), seed, PEERS.index(name)) for name in order}
    dealt = {name: (parts[PEERS.index(name)][0], parts[PEERS.index(name)][1].astype(str)) for name in order}
    results = flyswarm.local(session, dealt, trainers=trainers)
    assert len({joined.estimator.digest for joined in results}) == 1, "equal bits at every peer"
    return {name: torch.from_numpy(np.array(value)) for name, value in results[0].estimator.weights_.items()}


def accuracy(module, state, X, y):
    module.load_state_dict(state)
    module.eval()
    with torch.no_grad():
        return float((module(torch.from_numpy(X)).argmax(1).numpy() == y).mean())


def compare(name, make, data, rounds, seeds, rate):
    told, pairs = [], []
    for seed in range(seeds):
        X, y, classes = data(seed)
        cut = len(y) * 3 // 4
        parts = parts_of(X[:cut], y[:cut], seed)
        torch.manual_seed(seed)
        start = make()
        ours = accuracy(make(), federated(start, parts, rounds, seed, rate, classes), X[cut:], y[cut:])
        theirs = accuracy(make(), plain(start, parts, rounds, seed, rate), X[cut:], y[cut:])
        pairs.append((ours, theirs))
        told.append(f"{100 * ours:.2f} / {100 * theirs:.2f}")
        print(f"{name}: seed {seed}, rows {[len(y) for _, y in parts]}: flyswarm / PyTorch {told[-1]} %", flush=True)
    ours, theirs = np.mean(pairs, axis=0) * 100
    print(f"{name}: mean {ours:.2f} / {theirs:.2f} %, difference {ours - theirs:+.2f} points")
    return all(abs(a - b) <= 0.005 for a, b in pairs)


def large():
    """Trains 5 million weights with four peers in this process."""
    start = torch.nn.Sequential(torch.nn.Linear(64, 2222), torch.nn.ReLU(), torch.nn.Linear(2222, 2178), torch.nn.Linear(2178, 10))
    count = sum(value.numel() for value in start.state_dict().values())
    X, y, classes = images(0)
    begun = time.monotonic()
    federated(start, parts_of(X[:400], y[:400], 0), 2, 0, 0.01, classes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} weights, four peers in one process, two rounds: {time.monotonic() - begun:.1f} s, peak {peak:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", flyswarm.SessionWarning)
    torch.set_num_threads(1)
    if asked.large:
        large()
        return 0
    equal = compare("CNN with BatchNorm, digits", cnn, images, asked.rounds, asked.seeds, 0.05)
    equal &= compare("MLP with BatchNorm, table", table, rows, asked.rounds, asked.seeds, 0.05)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
