#!/usr/bin/env python3
"""Compares the CPU time of a regression of real peers with that of statsmodels on the pooled rows, in one run.

    lab/scripts/bench-glm.py PROGRAM [--rows 1000000] [--columns 50] [--peers 5] [--cheaters caught]

PROGRAM is a release build of flyswarm. Makes a logistic outcome and columns of numbers with two decimals, and deals the
rows to the peers. The number of columns includes the intercept. Prints the CPU seconds of all peers: of a session with one
column, which mostly reads the rows, and of the session with all columns. Prints the CPU seconds of statsmodels: reading
the same rows with pandas, and `GLM.fit`. Both sides may use all cores. Needs statsmodels.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import subprocess
import tempfile
import time

import numpy
import pandas
import statsmodels.api as sm

arguments = argparse.ArgumentParser()
arguments.add_argument("program", type=pathlib.Path)
arguments.add_argument("--rows", type=int, default=1_000_000)
arguments.add_argument("--columns", type=int, default=50)
arguments.add_argument("--peers", type=int, default=5)
arguments.add_argument("--cheaters", default="caught", choices=["caught", "trusted"])
given = arguments.parse_args()
program, rng = given.program.resolve(), numpy.random.default_rng(1)


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def session(folder: pathlib.Path, terms: list[str]) -> dict:
    """Runs a session of all peers. Returns the result, with the CPU and wall seconds of all processes."""
    run = lambda *words: subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=True).stdout
    columns = "".join(f'[[table.column]]\nname = "{name}"\nkind = "number"\n' for name in [*names, "y"])
    text = (f'name = "s"\nrun_id = "{os.urandom(16).hex()}"\ncreated = 2026-11-22T16:05:06Z\ntask = "glm"\n[data]\nscaling = "none"\n'
            f'[glm]\nfamily = "logistic"\noutcome = "y"\nterms = {json.dumps(terms)}\ncheaters = "{given.cheaters}"\n[table]\n{columns}')
    ports = [port() for _ in range(given.peers)]
    for at, own in enumerate(ports):
        run("id", "--new", "--key", f"{at}.key")
        key = json.loads(run("id", "--key", f"{at}.key", "--json"))["peer_id"]
        text += f'[[roster]]\nname = "p{at}"\npeer_id = "{key}"\naddresses = ["/ip4/127.0.0.1/tcp/{own}"]\n'
    (folder / "s.toml").write_text(text)
    before, begun = cpu(resource.RUSAGE_CHILDREN), time.monotonic()
    started = [subprocess.Popen([program, "join", "s.toml", "--data", f"{at}.csv", "--key", f"{at}.key", "--state", f"state-{at}-{len(terms)}",
                                 "--listen", f"/ip4/127.0.0.1/tcp/{own}", "--no-mdns", "--out", f"{at}.json", "--force"], cwd=folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for at, own in enumerate(ports)]
    for process in started:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    used, wall = cpu(resource.RUSAGE_CHILDREN) - before, time.monotonic() - begun
    return {**json.loads((folder / "0.json").read_text()), "cpu": used, "wall": wall}


names = [f"x{at}" for at in range(1, given.columns)]
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    x = rng.integers(-400, 400, (given.rows, len(names))) / 100
    slope = rng.normal(size=len(names)) / len(names) ** 0.5 / 3
    y = rng.random(given.rows) < 1 / (1 + numpy.exp(-x @ slope))
    for at in range(given.peers):
        part = slice(at, None, given.peers)
        frame = pandas.DataFrame(x[part], columns=names).assign(y=y[part].astype(int))
        frame.to_csv(folder / f"{at}.csv", index=False)
    del x, y
    read = session(folder, names[:1])
    fit = session(folder, names)
    begun = cpu(resource.RUSAGE_SELF)
    rows = pandas.concat([pandas.read_csv(folder / f"{at}.csv") for at in range(given.peers)])
    loaded = cpu(resource.RUSAGE_SELF)
    known = sm.GLM(rows["y"].to_numpy(float), sm.add_constant(rows[names].to_numpy(float)), family=sm.families.Binomial()).fit()
    fitted = cpu(resource.RUSAGE_SELF)
    estimates = numpy.array([each["estimate"] for each in fit["coefficients"]])
    print(f"{given.rows} rows, {given.columns} columns, {given.peers} peers, {given.cheaters}; load {os.getloadavg()[0]:.1f}")
    print(f"peers        one column {read['cpu']:.1f} s CPU, {read['wall']:.1f} s; all columns {fit['cpu']:.1f} s CPU, {fit['wall']:.1f} s; "
          f"{fit['rounds']} rounds")
    print(f"statsmodels  reading {loaded - begun:.1f} s CPU; GLM.fit {fitted - loaded:.1f} s CPU, {known.fit_history['iteration']} iterations")
    print(f"CPU of peers / statsmodels: {fit['cpu'] / (fitted - begun):.2f} with reading, "
          f"{(fit['cpu'] - read['cpu']) / (fitted - loaded):.2f} without")
    print(f"largest relative difference of estimates: {numpy.max(numpy.abs(estimates / known.params - 1)):.1e}")
