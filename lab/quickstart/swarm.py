"""Four peers train the CNN with flyswarm, each as a real node over loopback."""

import functools
import sys
import tempfile

import torch
from digits import BATCH, EPOCHS, PARTS, RATE, ROUNDS, accuracy, first, part
from flyswarm import FedAvg, Identity, Session, declare, local

peers = [f"peer{number}" for number in range(PARTS)]
with tempfile.TemporaryDirectory() as folder:
    keys = {name: Identity.new(f"{folder}/{name}") for name in peers}
modules = [first(seed=int(sys.argv[1])) for _ in peers]
session = Session.new(
    "digits",
    keys,
    task="fedavg",
    features=64,
    classes=range(10),
    data={"scaling": "none"},
    rounds=ROUNDS,
    fedavg=declare(modules[0]) | {"epochs": EPOCHS, "batch": BATCH, "rate": RATE, "schedule": "constant"},
)
optimizer = functools.partial(torch.optim.SGD, lr=RATE, momentum=0.9)
loss = torch.nn.functional.cross_entropy
trainers = [FedAvg(session, module, loss=loss, optimizer=optimizer) for module in modules]
results = local(session, [part(number) for number in range(PARTS)], trainers=trainers)
print(f"accuracy {accuracy(modules[0]):.4f}")
