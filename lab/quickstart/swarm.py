"""Four parties train the CNN with flyswarm, each as a real node over loopback."""

import functools
import tempfile

import torch
from digits import EPOCHS, PARTS, RATE, ROUNDS, Cnn, accuracy, part
from flyswarm import FedAvg, Identity, Session, local

peers = [f"peer{number}" for number in range(PARTS)]
with tempfile.TemporaryDirectory() as folder:
    keys = {name: Identity.new(f"{folder}/{name}") for name in peers}
session = Session.new(
    "digits",
    keys,
    task="fedavg",
    features=64,
    classes=range(10),
    network="cnn",
    hidden=[32],
    rounds=ROUNDS,
    data={"scaling": "none"},
    fedavg={
        "image": [1, 8, 8],
        "filters": [8, 16, 16],
        "epochs": EPOCHS,
        "rate": RATE,
        "schedule": "constant",
        "held_out": 0,
    },
)
optimizer = functools.partial(torch.optim.SGD, lr=RATE, momentum=0.9)
loss = torch.nn.functional.cross_entropy
modules = [Cnn() for _ in peers]
trainers = [FedAvg(session, module, loss=loss, optimizer=optimizer) for module in modules]
results = local(session, [part(number) for number in range(PARTS)], trainers=trainers)
print(f"accuracy {accuracy(modules[0]):.3f}")
