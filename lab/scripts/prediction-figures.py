#!/usr/bin/env python3
"""Makes the tables of lab/tables/labels.md: XCLP for prediction, every set and seed.

    cargo build --release --package flyswarm-lab --examples
    lab/scripts/prediction-figures.py target/release/examples/prediction DATA OUT [--seeds 0,1,2] [--print]

DATA has the folders cifar10, cifar100 and fashion-mnist. Each run writes its result to OUT and is not
repeated; --print only prints existing results. Figures are means over the seeds, with standard deviations.
"""

import json
import statistics
import subprocess

import runs


def main():
    given = runs.arguments("program").parse_args()
    for data_set in ("fashion", "cifar"):
        found = []
        for seed in given.seeds.split(","):
            path = given.out / f"{data_set}-{seed}.json"
            if not path.exists() and not given.prints:
                command = [given.program, given.data, given.out, data_set, seed]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if path.exists():
                found.append(json.loads(path.read_text()))
        if found:
            tables(data_set, found)


def tables(data_set, found):
    print(f"\n{data_set}, {len(found)} seeds\n")
    print("| rows of training | plain: alone | plain: XCLP | FedAvg | trained: alone | trained: XCLP |")
    print("| --- | --- | --- | --- | --- | --- |")
    for at, of in enumerate(found[0]["table_1"]):
        each = [one["table_1"][at] for one in found]
        row(f"{of['rows']:,}", [[one["plain"][name] for one in each] for name in ("alone", "xclp")]
            + [[one["trained"][name] for one in each] for name in ("fedavg", "alone", "xclp")])
    print("\n| peer left out | FedAvg | XCLP |\n| --- | --- | --- |")
    for at in range(len(found[0]["table_2"])):
        each = [one["table_2"][at] for one in found]
        row(f"peer {at + 1}", [[one[name] for one in each] for name in ("fedavg", "xclp")])
    each = [one["table_2"] for one in found]
    row("all of them", [[mean(peers, name) for peers in each] for name in ("fedavg", "xclp")])
    each = [one["three_peers_without_labels"] for one in found]
    row("three without labels", [[one[name] for one in each] for name in ("fedavg", "xclp")])
    print("\n| labelled part | FedAvg | XCLP (labelled) | XCLP (labelled + unlabelled) |\n"
          "| --- | --- | --- | --- |")
    for at, of in enumerate(found[0]["table_3"]):
        each = [one["table_3"][at] for one in found]
        names = ("fedavg", "xclp_labelled", "xclp_all")
        row(str(of["labelled"]), [[one[name] for one in each] for name in names])


def mean(peers, name):
    """Returns the mean over all rows of all peers."""
    return sum(peer["rows"] * peer[name] for peer in peers) / sum(peer["rows"] for peer in peers)


def row(name, columns):
    cells = [f"{statistics.mean(numbers):.1f} ± {statistics.pstdev(numbers):.1f}" for numbers in columns]
    print("| " + " | ".join([name, *cells]) + " |")


main()
