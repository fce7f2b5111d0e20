#!/usr/bin/env python3
"""Compares load times of a CSV file with those of polars, in one run.

    cargo build --locked --package flyswarm-lab --example load
    lab/scripts/bench-load.py target/debug/examples/load [ROWS [TURNS]]

Makes a file of ROWS (10^6) rows of 50 numbers and a label with a fixed seed. Reads it with the program (as
plain numbers, and as described columns) and with polars (numbers as binary32, the label as text), in turn.
Each read has its own process and is repeated TURNS (3) times. Prints for each the seconds of each turn, the
shortest time, the peak memory of the process and the size of the result. The sums of all numbers must agree.
Needs polars.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

COLUMNS = 50
POLARS = """
import json, resource, sys, time
import polars
start = time.perf_counter()
schema = {f"x{j}": polars.Float32 for j in range(%d)} | {"label": polars.String}
rows = polars.read_csv(sys.argv[1], schema=schema)
seconds = time.perf_counter() - start
total = sum(rows[f"x{j}"].cast(polars.Float64).sum() for j in range(%d))
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
shape = {"rows": len(rows), "features": len(rows.columns) - 1}
print(json.dumps(shape | {"seconds": seconds, "peak_bytes": peak, "sum": total}))
""" % (COLUMNS, COLUMNS)


def make(path, rows):
    draw = random.Random(17)
    # Rows repeat after 10,000, because drawing them would take longer than reading them.
    few = [
        "".join(f"{draw.gauss(0, 10**(j % 5)):.4f}," for j in range(COLUMNS))
        + draw.choice(("ill", "well"))
        + "\n"
        for _ in range(10_000)
    ]
    with open(path, "w") as file:
        file.write(",".join(f"x{j}" for j in range(COLUMNS)) + ",label\n")
        for start in range(0, rows, len(few)):
            file.writelines(few[: rows - start])


def main():
    program, *counts = sys.argv[1:]
    rows, turns = [*map(int, counts), *(10**6, 3)[len(counts) :]]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.csv"
        make(path, rows)
        print(f"{path.stat().st_size / 2**20:.0f} MiB, {rows} rows of {COLUMNS} numbers and a label")
        commands = {
            "polars": [sys.executable, "-c", POLARS, path],
            "numbers": [program, path, "label"],
            "described": [program, path, "label", "described"],
        }
        said = {name: [] for name in commands}
        for _ in range(turns):
            for name, command in commands.items():
                said[name].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    result = said["numbers"][0]["result_bytes"]
    best = {name: min(each["seconds"] for each in all) for name, all in said.items()}
    for name, all in said.items():
        assert all[0]["rows"] == rows and all[0]["features"] == COLUMNS
        assert abs(all[0]["sum"] / said["polars"][0]["sum"] - 1) < 1e-9, "the sums of polars and flyswarm differ"
        seconds = " ".join(f"{each['seconds']:.2f}" for each in all)
        peak = max(each["peak_bytes"] for each in all)
        print(
            f"{name:10} {seconds} s, least {best[name]:.2f} s, "
            f"{best[name] / best['polars']:.2f} times polars; "
            f"peak {peak / 2**20:.0f} MiB, {peak / result:.2f} times the result of {result / 2**20:.0f} MiB"
        )


if __name__ == "__main__":
    main()
