"""Federated averaging of the CNN in PyTorch alone, with the same initial weights and rows."""

import sys

import numpy as np
import torch
from digits import BATCH, EPOCHS, PARTS, RATE, ROUNDS, Cnn, accuracy, first, part

torch.set_num_threads(1)
seed = int(sys.argv[1])
shared, random = first(seed), np.random.default_rng(seed)
parts = [tuple(map(torch.from_numpy, part(number))) for number in range(PARTS)]
counts = [len(y) for _, y in parts]
for _ in range(ROUNDS):
    found = []
    for X, y in parts:
        module = Cnn()
        module.load_state_dict(shared.state_dict())
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
        for _ in range(EPOCHS):
            for rows in np.split(random.permutation(len(y)), range(BATCH, len(y), BATCH)):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
                optimizer.step()
        found.append(module.state_dict())
    mean = lambda name, found=found: sum(count * each[name] for count, each in zip(counts, found)) / sum(counts)
    shared.load_state_dict({name: mean(name) for name in shared.state_dict()})
print(f"accuracy {accuracy(shared):.4f}")
