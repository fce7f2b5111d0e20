#!/usr/bin/env python3
"""Measures memory and time of a session of the task fedavg with a large network and real processes.

    lab/scripts/bench-network.py PROGRAM [--peers 8] [--hidden 4096,4020] [--rounds 4] [--steps 2]

PROGRAM is flyswarm. Deals the digits (64 features, 10 classes) to the peers, which train an mlp; 4096,4020
gives 64 MiB of weights. Prints the size of the weights. Also prints the CPU seconds and the peak resident
memory of each peer, the latter also as a multiple of the size of the weights.
"""

import argparse
import gzip
import os
import pathlib
import subprocess
import tempfile
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("program", type=pathlib.Path)
arguments.add_argument("--peers", type=int, default=8)
arguments.add_argument("--hidden", default="4096,4020")
arguments.add_argument("--rounds", type=int, default=4)
arguments.add_argument("--steps", type=int, default=2)
arguments.add_argument("--port", type=int, default=21500)
given = arguments.parse_args()
program = given.program.resolve()
root = pathlib.Path(__file__).resolve().parents[2]
with gzip.open(root / "crates" / "data" / "data" / "digits.csv.gz", "rt") as file:
    rows = list(file)
sizes = [64, *map(int, given.hidden.split(",")), 10]
weights = sum((inputs + 1) * outputs for inputs, outputs in zip(sizes, sizes[1:]))


def run(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    names = [f"peer-{place}" for place in range(given.peers)]
    listen = [f"/ip4/127.0.0.1/tcp/{given.port + place}" for place in range(given.peers)]
    peers = []
    for place, name in enumerate(names):
        words = run("id", "--key", folder / f"{name}.key").split()
        identity = next(word for word in words if word.startswith("12D3"))
        peers += ["--peer", f"{name}={identity}@{listen[place]}"]
        (folder / f"{name}.csv").write_text("".join(rows[place :: given.peers]))
    session = folder / "session.toml"
    run("session", "new", "fedavg", "--name", "bench", "--features", "64",
        "--classes", "0..9", "--network", "mlp", "--hidden", given.hidden,
        "--rounds", str(given.rounds),
        "--set", f"fedavg.steps={given.steps}", "--set", "fedavg.held_out=0", *peers,
        "--set", "timing.linger_ms=20000", "--out", session)
    start = time.perf_counter()
    processes = [
        subprocess.Popen(
            [program, "join", session, "--key", folder / f"{name}.key", "--state", folder / "state",
             "--no-mdns", "--listen", listen[place], "--data", folder / f"{name}.csv",
             "--out", folder / f"{name}.safetensors"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for place, name in enumerate(names)
    ]
    spent = []
    for name, process in zip(names, processes):
        errors = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{name}: {errors}")
        spent.append(used)
    wall, load = time.perf_counter() - start, os.getloadavg()[0]
    if len({run("inspect", "--digest", folder / f"{name}.safetensors").split()[0] for name in names}) != 1:
        raise SystemExit("different networks")

size = 4 * weights
print(f"{given.peers} peers, {given.rounds} rounds of {weights} weights ({size / 2**20:.1f} MiB): "
      f"{wall:.1f} s wall; load of the machine {load:.1f}")
for name, used in zip(names, spent):
    peak = 1024 * used.ru_maxrss
    print(f"  {name}: {peak / 2**20:5.0f} MiB of memory, {peak / size:.2f} times the weights; "
          f"{used.ru_utime + used.ru_stime:.1f} s of processors")
