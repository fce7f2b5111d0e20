#!/usr/bin/env python3
"""Runs FedAvg, kNN-Per and FedAvg+XCLP in PyTorch, to compare them in docs/networks.md and lab/tables/networks.md.

    pip install torch numpy
    cargo build --release --package flyswarm-lab --examples
    lab/scripts/networks-in-torch.py target/release/examples DATA OUT cifar two 0
    lab/scripts/networks-in-torch.py target/release/examples DATA OUT fashion shards 0 [METHODS] [RATE]

It deals the rows as our own runs do, but shares no code with flyswarm. Distances and propagation are exact.
DATA has the folders cifar10 and fashion-mnist. Splits are those of the examples `personal` and
`pseudo_labels`. METHODS are those of `pseudo_labels`, separated by commas (labels,xclp-10,alone). Settings
are those of the examples. A run has diverged if a weight of a peer exceeds 16. Initial weights and batches come
from torch. Prints the test accuracy in percent and writes it to OUT; existing results are not computed again.
Uses one thread and some minutes for each method.
"""

import copy
import functools
import gzip
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10
EACH = 300
METHODS = ["labels", "network", "alone", "xclp-1", "xclp-10"]
LAMBDAS = [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1]


class Network(nn.Module):
    """Three blocks of convolution, ReLU and max pooling, a representation of 128 numbers, and classes."""

    def __init__(self, channels, side):
        super().__init__()
        widths = [channels, 16, 32, 32]
        pairs = zip(widths, widths[1:])
        self.layers = nn.ModuleList([nn.Conv2d(one, other, 3, padding=1) for one, other in pairs])
        self.hidden = nn.Linear(32 * (side // 8) ** 2, 128)
        self.last = nn.Linear(128, CLASSES)

    def represent(self, images):
        for layer in self.layers:
            images = F.max_pool2d(F.relu(layer(images)), 2)
        return F.relu(self.hidden(images.flatten(1)))

    def forward(self, images):
        return self.last(self.represent(images))


def unpacked(path, skip):
    return np.frombuffer(gzip.open(path).read(), dtype=np.uint8)[skip:]


def images(pixels, channels, side):
    """Converts pixels to images with values from -2 to 2."""
    numbers = (torch.tensor(pixels.astype(np.float32)) / 255 - 0.5) * 4
    return numbers.reshape(-1, channels, side, side)


def deal(examples, name, *words):
    found = subprocess.run([examples / name, *words], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def sgd(network, rate, decay):
    return torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9, weight_decay=decay)


class Diverged(Exception):
    pass


def mean(networks, weights):
    for network in networks:
        if not all((part.abs() < 16).all() for part in network.parameters()):
            raise Diverged
    states = [network.state_dict() for network in networks]
    total = sum(weights)
    return {name: sum(state[name] * (weight / total) for state, weight in zip(states, weights))
            for name in states[0]}


def right(network, rows, labels):
    with torch.no_grad():
        return (network(rows).argmax(1) == labels).sum().item()


def cosine(rate, done, rounds):
    return rate * (1 + math.cos(math.pi * done / rounds)) / 2


# kNN-Per


def cifar(examples, data, split, seed):
    folder = data / "cifar10"
    files = ["train_8000.bin.gz", "test_2000.bin.gz"]
    read = [unpacked(folder / name, 0).reshape(-1, 3073) for name in files]
    rows, test = [images(each[:, 1:], 3, 32) for each in read]
    labels, answers = [torch.tensor(each[:, 0].astype(np.int64)) for each in read]
    peers = deal(examples, "personal", folder, "-", split, str(seed), "60", "deal")
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)

    def moved(batch):
        batch, turned = batch.clone(), torch.tensor(draw.random(len(batch)) < 0.5)
        batch[turned] = batch[turned].flip(-1)
        wide, places = F.pad(batch, (4, 4, 4, 4)), draw.integers(0, 9, (len(batch), 2))
        return torch.stack([wide[at, :, y:y + 32, x:x + 32] for at, (y, x) in enumerate(places)])

    def train(network, own, epochs, rate):
        steps = sgd(network, rate, 1e-4)
        for _ in range(epochs):
            order = draw.permutation(own)
            for batch in (order[at:at + 32] for at in range(0, len(order), 32)):
                steps.zero_grad()
                F.cross_entropy(network(moved(rows[batch])), labels[batch]).backward()
                steps.step()
        return network

    shared = Network(3, 32)
    for done in range(60):
        sizes = [len(peer["train"]) for peer in peers]
        trained = [train(copy.deepcopy(shared), peer["train"], 1, cosine(0.05, done, 60)) for peer in peers]
        shared.load_state_dict(mean(trained, sizes))

    def votes(known, asked):
        """Returns the probabilities for rows by the nearest keys, and by the network."""
        with torch.no_grad():
            keys, points = shared.represent(rows[known]).double(), shared.represent(asked).double()
            away, places = torch.cdist(points, keys).topk(min(10, len(known)), largest=False)
            near = torch.exp(away[:, :1] - away)
            said = torch.zeros(len(asked), CLASSES, dtype=torch.double)
            said.scatter_add_(1, labels[known][places], near)
            return said / said.sum(1, keepdim=True), F.softmax(shared(asked), 1).double()

    def mixed(said, part, truth):
        """Returns the number of correct rows, and the Brier score of the probabilities."""
        near, network = said
        shares = part * near + (1 - part) * network
        brier = (shares - F.one_hot(truth, CLASSES)).square().sum().item()
        return (shares.argmax(1) == truth).sum().item(), brier

    def chosen(said, truth):
        """Returns the lambda with the most correct rows. The Brier score breaks ties."""
        scores = [mixed(said, part, truth) for part in LAMBDAS]
        best = min(range(len(LAMBDAS)), key=lambda at: (-scores[at][0], scores[at][1], at))
        return LAMBDAS[best]

    found = dict.fromkeys(["local", "FedAvg", "FedAvg+", "kNN", "kNN-Per"], 0)
    for peer in peers:
        own, validation, asked = peer["train"], peer["validation"], peer["test"]
        if not asked:
            continue
        truth = answers[asked]
        part = chosen(votes(own, rows[validation]), labels[validation]) if validation else 0
        said = votes(own, test[asked])
        found["local"] += right(train(Network(3, 32), own, 15, 0.02), test[asked], truth)
        found["FedAvg"] += right(shared, test[asked], truth)
        found["FedAvg+"] += right(train(copy.deepcopy(shared), own, 2, 0.01), test[asked], truth)
        found["kNN"] += mixed(said, 1, truth)[0]
        found["kNN-Per"] += mixed(said, part, truth)[0]
    return {name: round(100 * count / len(test), 1) for name, count in found.items()}


# FedAvg+XCLP


def propagated(points, labels, given):
    """Propagates labels: k = 10, alpha = 0.99, cubed cosines, labels of each class with the same sum."""
    points = F.normalize(points.double(), dim=1)
    likeness = (points @ points.T).clamp(min=0).fill_diagonal_(-1)
    most, places = likeness.topk(10, dim=1)
    graph = torch.zeros_like(likeness).scatter_(1, places, most.clamp(min=0) ** 3)
    graph = graph + graph.T
    degree = graph.sum(1).clamp(min=1e-12) ** -0.5
    known = torch.zeros(len(points), CLASSES, dtype=torch.double)
    known[given] = F.one_hot(labels[given], CLASSES).double()
    system = torch.eye(len(points), dtype=torch.double) - 0.99 * degree[:, None] * graph * degree
    scores = (torch.linalg.solve(system, known) / known.sum(0).clamp(min=1)).clamp(min=0)
    sums = scores.sum(1, keepdim=True)
    return torch.where(sums > 1e-12, scores / sums.clamp(min=1e-300), torch.zeros_like(scores))


class Pass:
    def __init__(self, places):
        self.order, self.at = np.array(places, dtype=int), len(places)

    def next(self, count, draw):
        if count and self.at == len(self.order):
            self.order, self.at = draw.permutation(self.order), 0
        found = self.order[self.at:self.at + count]
        self.at += len(found)
        return found


class Partly:
    """Rows of ten peers. Few of the rows have labels."""

    def __init__(self, examples, data, split, seed, rate):
        folder = data / "fashion-mnist"
        dealt = deal(examples, "pseudo_labels", folder, "-", "deal", split, str(seed))

        def read(part):
            pixels = unpacked(folder / f"{part}-images-idx3-ubyte.gz", 16)
            labels = unpacked(folder / f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64)
            return images(pixels, 1, 28), torch.tensor(labels)

        rows, labels = read("train")
        self.rows, self.labels, self.test = rows[dealt["rows"]], labels[dealt["rows"]], read("t10k")
        self.given = torch.zeros(len(self.rows), dtype=torch.bool)
        self.given[dealt["labelled"]] = True
        self.own = [range(at, at + EACH) for at in range(0, len(self.rows), EACH)]
        self.rate, self.seed = rate, seed

    def find(self, network, method):
        """Returns the label and confidence of each row, and whether the label was found."""
        with torch.no_grad():
            points, shares = network.represent(self.rows), torch.zeros(len(self.rows), CLASSES).double()
            if method == "network":
                shares = F.softmax(network(self.rows), 1).double()
            elif method == "alone":
                shares = torch.cat([propagated(points[own.start:own.stop], self.labels[own.start:own.stop],
                                               self.given[own.start:own.stop]) for own in self.own])
            elif method.startswith("xclp"):
                shares = propagated(points, self.labels, self.given)
        found = (shares.max(1).values > 0) & ~self.given
        sure = (1 + (shares * shares.clamp(min=1e-300).log()).sum(1) / math.log(CLASSES)).clamp(min=0)
        for own in self.own:
            mine = slice(own.start, own.stop)
            if (most := (sure[mine] * found[mine]).max()) > 0:
                sure[mine] /= most
        sure[self.given] = 1
        return torch.where(self.given, self.labels, shares.argmax(1)), sure.float(), found

    def half(self, network, method, refresh, draw):
        for done in range(40):
            if done % refresh == 0:
                labels, sure, found = self.find(network, method)
                kinds = [torch.bincount(labels[kind], minlength=CLASSES).double()
                         for kind in (self.given, found) if kind.any()]
                part = sum(kind / kind.sum() for kind in kinds) / len(kinds)
                weights = sure * (1 / (CLASSES * part.clamp(min=1e-6))).float()[labels]
            trained = []
            for own in self.own:
                first, second = [[row for row in own if kind[row]] for kind in (self.given, found)]
                if not first and not second:
                    continue
                mine = copy.deepcopy(network)
                steps = sgd(mine, cosine(self.rate, done, 40), 2e-4)
                kinds = [(Pass(first), 0 if not first else 16 if second else 32),
                         (Pass(second), 0 if not second else 16 if first else 32)]
                for _ in range(5 * math.ceil((len(first) + len(second)) / 32)):
                    batch = np.concatenate([each.next(count, draw) for each, count in kinds])
                    losses = F.cross_entropy(mine(self.rows[batch]), labels[batch], reduction="none")
                    weight = weights[batch]
                    steps.zero_grad()
                    ((losses * weight).sum() / max(len(batch), weight.sum().item())).backward()
                    steps.step()
                trained.append(mine)
            network.load_state_dict(mean(trained, [1] * len(trained)))
        return network

    @functools.cached_property
    def start(self):
        """The network after the rounds that use only given labels."""
        torch.manual_seed(self.seed)
        return self.half(Network(1, 28), "labels", 40, np.random.default_rng(self.seed))

    def measure(self, method):
        refresh, draw = 10 if method == "xclp-10" else 1, np.random.default_rng(self.seed + 1)
        try:
            network = self.half(copy.deepcopy(self.start), method, refresh, draw)
        except Diverged:
            return "diverged"
        labels, _, found = self.find(network, method)
        agree = (labels[found] == self.labels[found]).float().mean().item() if found.any() else None
        return {
            "test rows": round(100 * right(network, *self.test) / len(self.test[1]), 1),
            "found labels": agree and round(100 * agree, 1),
        }


def kept(path, measure):
    """Prints the result file of a run, and runs it first if needed."""
    if not path.exists():
        path.write_text(json.dumps(measure()))
    print(path.stem, path.read_text(), flush=True)


def main():
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    examples, data, out = map(pathlib.Path, sys.argv[1:4])
    (what, split, seed), rest = sys.argv[4:7], sys.argv[7:]
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    if what == "cifar" and not rest:
        kept(out / f"torch-{split}-{seed}.json", lambda: cifar(examples, data, split, int(seed)))
        return
    methods = rest[0] if rest else ",".join(METHODS)
    rate = rest[1] if len(rest) > 1 else "0.05"
    if what != "fashion" or not set(methods.split(",")) <= set(METHODS):
        sys.exit(__doc__)
    rows = Partly(examples, data, split, int(seed), float(rate))
    for method in methods.split(","):
        kept(out / f"torch-{split}-{seed}-{rate}-{method}.json", lambda method=method: rows.measure(method))


main()
