#!/usr/bin/env python3
"""Compares the training speed of the built-in learner and PyTorch: samples per CPU second, one thread each.

    cargo build --release --package flyswarm-lab --example learner
    python3 lab/scripts/bench-learner.py target/release/examples/learner [RUNS]

Both train the same convolutional network: three 3 x 3 convolutions with ReLU and 2 x 2 max pooling, then 128
units. Images are 3 x 32 x 32, batches have 32 images, momentum is 0.9 and weight decay 1e-4. The two run in
turn. Prints the median of RUNS (5) for each, and their ratio. Needs torch.
"""

import re
import statistics
import subprocess
import sys
import time

import torch

SECONDS = 3


def torch_rate(filters: tuple[int, int, int]) -> float:
    torch.manual_seed(0)
    layers, channels = [], 3
    for each in filters:
        layers += [torch.nn.Conv2d(channels, each, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        channels = each
    layers += [torch.nn.Flatten(), torch.nn.Linear(channels * 16, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
    model = torch.nn.Sequential(*layers)
    rows, labels = torch.rand(256, 3, 32, 32), torch.arange(256) % 10
    step = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    samples, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        for batch in torch.randperm(256).split(32):
            step.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
            step.step()
            samples += len(batch)
    return samples / (time.process_time() - start)


def our_rates(program: str) -> dict[str, float]:
    out = subprocess.run([program, str(SECONDS)], check=True, capture_output=True, text=True).stdout
    return {name: float(rate) for name, rate in re.findall(r"^cnn (\S+) +\d+ +(\d+)$", out, re.M)}


def main() -> None:
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(runs):
        for name, rate in our_rates(program).items():
            ours.setdefault(name, []).append(rate)
            theirs.setdefault(name, []).append(torch_rate(tuple(map(int, name.split("-")))))
    print(f"torch {torch.__version__}, samples per CPU second, median of {runs}")
    for name in ours:
        own, other = statistics.median(ours[name]), statistics.median(theirs[name])
        print(f"cnn {name}: {own:.0f}, torch {other:.0f}, ratio {own / other:.2f}")


main()
