"""Checks this peer's machines and task with the vectors `flynn`, `sum` and `faults` (spec, section 18).

    python3 check_peer.py [FOLDER OF THE VECTORS]

Each function checks one file; pytest finds the functions too. `scripts/check-vectors.py` checks all other
vectors with the same primitives that this peer uses.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import model
import numpy
from primitives import crypto
from primitives.session import parse_session
from simulate import Simulation

from session import Session

VECTORS = Path(__file__).resolve().parents[3] / "tests/vectors"
h = bytes.fromhex


def vectors(name: str) -> Any:
    return json.loads((Path(VECTORS) / f"{name}.json").read_text())


def refused(what: str, run: Any, *errors: type[Exception]) -> None:
    try:
        run()
    except errors:
        return
    raise AssertionError(f"accepted: {what}")


def session_of(toml: str) -> Session:
    return parse_session(toml.encode(), Session)


def test_session() -> None:
    """Checks that this peer refuses sessions that need features it lacks (M1.1)."""
    lacking = 0
    for x in vectors("session")["good"]:
        try:
            session = session_of(x["toml"])
        except crypto.Refused as error:
            assert "lacks" in str(error), (error, x["toml"])
            lacking += 1
            continue
        assert session.id.hex() == x["id"] and [list(slot) for slot in session.plan] == x["plan"]
    assert len(vectors("session")["good"]) - lacking == 4
    for x in vectors("session")["bad"]:
        refused(x["what"], lambda: session_of(x["toml"]), crypto.Refused)


def test_flynn() -> None:
    d = vectors("flynn")
    seed, rows, labels = h(d["seed"]), numpy.frombuffer(
        h(d["rows"]), "<f4").reshape(-1, 3), numpy.array(d["labels"])
    for x in d["cases"]:
        s = session_of(x["toml"])
        words = model.column_sums(s, rows)
        assert words.hex() == x["moments"]
        moments = model.Task(s, rows, labels).opened_moments(words)
        assert model.scale(s, rows, moments).tobytes().hex() == x["scaled"], s.scaling
        prepared = model.prepared(s, seed, rows, moments)
        columns = model.matrix(seed, s.m, s.dimension, s.s)
        won = model.winners(prepared, columns, s.rho)
        assert columns.tolist() == x["matrix"] and won.tolist() == x["winners"]
        counts = model.counts_of(s, prepared, labels, seed)
        assert counts.tobytes().hex() == x["counts"]
        nothing = model.prepared(s, seed, rows[:0], moments)  # rows of a peer without rows
        assert not model.counts_of(s, nothing, labels[:0], seed).any()
    large = d["large"]
    columns = model.matrix(seed, large["m"], large["d"], large["s"]).astype("<u4")
    assert hashlib.sha256(columns.tobytes()).hexdigest() == large["sha256"]
    for x in d["moments"]:
        own = numpy.frombuffer(h(x["rows"]), "<f4").reshape(-1, x["features"])
        assert model.moments_of(own, x["squares"]).hex() == x["words"]
        moments = model.Moments(h(x["words"]), x["features"], x["squares"])
        assert numpy.array(moments.means, "<f8").tobytes().hex() == x["means"]
        assert numpy.array(moments.deviations, "<f8").tobytes().hex() == x["deviations"]
    x = d["compared"]
    own = numpy.frombuffer(h(x["rows"]), "<f4").reshape(-1, x["features"])
    words = [model.moments_of(each, True) for each in (own, model.typical(own))]
    assert b"".join(words).hex() == x["words"]
    for x in d["refused_moments"]:
        refused(x, lambda: model.Moments(h(x), 1, True), model.Refused)


def simulation(one_class: int | None = None) -> tuple[Simulation, Any]:
    """Returns the session of `sum`. All rows of the peer `one_class` are of the second class."""
    d = vectors("sum")
    s = session_of(d["toml"])
    identities = [crypto.Identity(h(x)) for x in d["seeds"]]
    labels = [[1] * 3 if me == one_class else x["labels"] for me, x in enumerate(d["data"])]
    tasks = [model.Task(s, numpy.array(x["rows"], numpy.float32), numpy.array(own)) for x, own in zip(d["data"], labels)]
    draws = [crypto.recorded({"view_secret": d["view_secrets"][me]["secret"],
                              "deals": [x for x in d["deals"] if x["dealer"] == me]}) for me in range(3)]
    run = Simulation(s, identities, tasks, draws)
    run.connect()
    return run, d


def test_sum() -> None:
    run, d = simulation()
    run.run(60_000)
    assert not run.dropped and [m.opened[q].hex() for m in run.machines for q in range(4)] == d["opened"] * 3

    def lines(log: list[Any], me: int, to: int | None, channel: str | None) -> list[Any]:
        return [x for x in log if x["from"] == me and x.get("to") == to and x.get("channel") == channel]

    for me in range(3):
        for to, channel in [(None, None)] + [(t, c) for t in range(3) for c in ("control", "bulk")]:
            mine, theirs = lines(run.log, me, to, channel), lines(d["log"], me, to, channel)
            for n, (a, b) in enumerate(zip(mine, theirs)):
                assert a == b, f"{n}th of {me} to {to}, {channel}:\nmine   {a}\ntheirs {b}"
            assert len(mine) == len(theirs), (me, to, channel, mine[len(theirs):], theirs[len(mine):])


def test_faults() -> None:
    for kind in ("blamed", "ignored"):
        for x in vectors("faults")[kind]:
            run, _ = simulation()
            run.run(x["us"])
            if x["us"] == 0:
                run.machines[x["to"]].up(x["from"], 0.0)
            machine, view = run.machines[x["to"]], run.machines[x["to"]].view
            assert not run.dropped, x["what"]
            machine.frame(x["from"], x["channel"] == "bulk", h(x["header"]), h(x["payload"]), run.now)
            if kind == "blamed":
                assert run.dropped == [(x["to"], x["from"], x["class"])], (x["what"], run.dropped)
            else:
                assert not run.dropped and machine.view is view, (x["what"], run.dropped)


def test_answers() -> None:
    for case in vectors("answers")["cases"]:
        run, _ = simulation(case["one_class"])
        for step in case["steps"]:
            if "run" in step:
                run.run(step["run"])
                continue
            machine, before, run.deaf, now = run.machines[case["to"]], len(run.log), True, step["us"] / 1e6
            if "lost" in step:
                machine.lost(step["lost"], now)
            elif "up" in step:
                machine.up(step["up"], now)
            else:
                data = h(step["header"]), h(step["payload"])
                machine.frame(step["from"], step["channel"] == "bulk", *data, now)
            run.deaf = False
            drops = {"from", "us"}
            does = [{name: part for name, part in entry.items() if name not in drops} for entry in run.log[before:]]
            did = sorted(does, key=lambda entry: json.dumps(entry, sort_keys=True))
            wanted = sorted(step["does"], key=lambda entry: json.dumps(entry, sort_keys=True))
            assert did == wanted and not run.dropped, (case["what"], step["us"], did, wanted, run.dropped)


def main() -> None:
    global VECTORS
    VECTORS = sys.argv[1] if len(sys.argv) > 1 else VECTORS
    failed = 0
    for name, run in list(globals().items()):
        if name.startswith("test_"):
            try:
                run()
                print(f"{name[5:]}: good")
            except Exception as error:  # shown; the next test still runs
                failed += 1
                print(f"{name[5:]}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
