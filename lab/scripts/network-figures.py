#!/usr/bin/env python3
"""Makes the tables of docs/networks.md and lab/tables/networks.md: one run for each method, split and seed.

    cargo build --release --package flyswarm-lab --examples
    lab/scripts/network-figures.py target/release/examples DATA OUT [--seeds 0,1,2] [--only fashion] \
        [--methods alone,xclp-1] [--rate 0.02] [--print]

DATA has the folders cifar10 and fashion-mnist. Each run writes its result to OUT. A stopped run continues
from its last round. All runs take some hours on two cores; --print only prints existing results. --methods
and --rate apply to Fashion-MNIST. A run that diverged has no figure, but its round is printed.
"""

import json
import subprocess

import runs

METHODS = ["labels", "network", "alone", "xclp-1", "xclp-10"]


def main():
    arguments = runs.arguments("examples")
    arguments.add_argument("--only", choices=["cifar", "fashion"])
    arguments.add_argument("--methods", default=",".join(METHODS))
    arguments.add_argument("--rate", default="0.05")
    given = arguments.parse_args()
    seeds = given.seeds.split(",")
    if given.only != "fashion":
        cifar(given, seeds)
    if given.only != "cifar":
        fashion(given, seeds)


def result(given, path, *command):
    """Returns the result of a run, and runs it first if needed. With --print, returns None for a missing result."""
    if not path.exists() and not given.prints:
        words = [given.examples / command[0], *map(str, command[1:])]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return json.loads(path.read_text()) if path.exists() else None


def mean(numbers):
    known = [number for number in numbers if number is not None]
    said = " ".join("-" if number is None else f"{number:.1f}" for number in numbers)
    return f"{sum(known) / len(known):5.1f} ({said})" if known else said


def cifar(given, seeds):
    out = given.out / "cifar"
    for split in ("0.3", "two"):
        found = [
            result(given, out / f"{split}-{seed}-60.json", "personal",
                   given.data / "cifar10", out, split, seed, 60)
            for seed in seeds
        ]
        name = "accuracy_and_bottom_decile_percent"
        for method in next((each[name] for each in found if each), {}):
            print(f"CIFAR {split:4} {method:32} {mean([each and each[name][method][0] for each in found])}")


def fashion(given, seeds):
    out = given.out / "fashion"
    rate = "" if float(given.rate) == 0.05 else f"-{float(given.rate)}"
    for split in ("iid", "shards"):
        for method in given.methods.split(","):
            found = [
                result(given, out / f"{split}-{seed}-40{rate}-{method}.json", "pseudo_labels",
                       given.data / "fashion-mnist", out, method, split, seed, 40, given.rate)
                for seed in seeds
            ]
            said = lambda each: (each["pseudo_labels"] or {}).get("right_percent")
            right = lambda each: each["test_accuracy_percent"]
            for what, get in (("test rows", right), ("found labels", said)):
                numbers = mean([each and get(each) for each in found])
                print(f"Fashion {split:7} {method:8} {what:13} {numbers}", flush=True)
            for seed, each in zip(seeds, found):
                if each and each["diverged"]:
                    diverged = each["diverged"]
                    print(f"Fashion {split:7} {method:8} seed {seed} diverged: {diverged}", flush=True)


main()
