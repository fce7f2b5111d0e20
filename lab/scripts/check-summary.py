#!/usr/bin/env python3
"""Checks the task summary against an independent computation, in real processes.

    lab/scripts/check-summary.py --program target/debug/flyswarm [--peers 4] [--rows 400] [--seed 1]

Makes a random table of patients, deals it to peers, and runs `flyswarm join` for each of them. From the
pooled rows it computes with the standard library alone: every count, mean and standard deviation, and the
cells that pass. Each number of the result must be that of the pooled rows. No cell may be
open that does not pass. Every peer must have the same file. No closed cell may follow from open ones, by
elimination over fractions, over all tables of the session. `--plant` opens one closed cell in a copy of the
result first, so the audit must find another one. Quantiles must be those of the sorted rows, and open only with
enough rows of enough peers on both sides.
"""

import argparse
import csv
import fractions
import json
import os
import pathlib
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

LEVELS = {"arm": ["a", "b", "c"], "sex": ["f", "m"], "stage": ["1", "2", "3"]}
MISSING = {"sex", "stage", "bmi"}
NUMBERS = {"age": 0.1, "bmi": 0.01, "smoker": 1.0}
RANGES = {"age": (0.0, 120.0), "bmi": (10.0, 50.0), "smoker": (-1.0, 2.0)}
THRESHOLD, CONTRIBUTORS, REST = 10, 3, 5


def table() -> str:
    text = "[table]\n"
    for name, kind, fill in [("arm", "category", None), ("sex", "category", '""'), ("stage", "ordinal", '"2"'),
                             ("age", "number", None), ("bmi", "number", "25"), ("smoker", "number", None)]:
        text += f'[[table.column]]\nname = "{name}"\nkind = "{kind}"\n'
        text += f"levels = {json.dumps(LEVELS[name])}\n" if name in LEVELS else ""
        text += f"fill = {fill}\n" if fill else ""
        text += "indicator = true\n" if fill and name != "sex" else ""
    return text


def draw(rng: random.Random) -> dict[str, str]:
    return {
        "arm": rng.choices("abc", [5, 4, 0.3])[0],
        "sex": rng.choices(["f", "m", ""], [5, 5, 0.6])[0],
        "stage": rng.choices(["1", "2", "3", ""], [6, 3, 0.4, 0.5])[0],
        "age": str(rng.randint(180, 950) / 10),
        "bmi": rng.choices([f"{rng.uniform(16, 40):.2f}", ""], [9, 1])[0],
        "smoker": rng.choices("01", [40, 1])[0],
    }


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def join(program: pathlib.Path, folder: pathlib.Path, parts: list[list[dict[str, str]]], caught: bool) -> list[dict]:
    def run(*words: str) -> str:
        return subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=True).stdout

    names, ports = [f"p{i}" for i in range(len(parts))], [port() for _ in parts]
    text = (f'name = "s"\nrun_id = "{os.urandom(16).hex()}"\ncreated = 2026-11-22T16:05:06Z\ntask = "summary"\n'
            f'[data]\nscaling = "none"\n{table()}[summary]\nby = "arm"\ngrid = 0.1\n'
            f'grids = {{ bmi = 0.01, smoker = 1.0 }}\n'
            f'ranges = {{ {", ".join(f"{name} = {list(ends)}" for name, ends in RANGES.items())} }}\ntable = [{{ rows = "sex", columns = "stage" }}]\n'
            f'cheaters = "{"caught" if caught else "trusted"}"\n')
    for name, own in zip(names, ports):
        run("id", "--new", "--key", f"{name}.key")
        key = json.loads(run("id", "--key", f"{name}.key", "--json"))["peer_id"]
        text += f'[[roster]]\nname = "{name}"\npeer_id = "{key}"\naddresses = ["/ip4/127.0.0.1/tcp/{own}"]\n'
    (folder / "s.toml").write_text(text)
    started = []
    for name, own, part in zip(names, ports, parts):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            out = csv.DictWriter(file, list(part[0]))
            out.writeheader()
            out.writerows(part)
        words = ["join", "s.toml", "--data", f"{name}.csv", "--key", f"{name}.key", "--state", f"state-{name}",
                 "--listen", f"/ip4/127.0.0.1/tcp/{own}", "--no-mdns", "--out", f"{name}.json"]
        started.append(subprocess.Popen([program, *words], cwd=folder, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT))
    for name, process in zip(names, started):
        told, _ = process.communicate(timeout=240)
        if process.returncode:
            sys.exit(f"FAILED  {name}: exit code {process.returncode}\n{told}")
    shown = run("inspect", "p0.json")
    print(shown)
    files = [(folder / f"{name}.json").read_bytes() for name in names]
    require(len(set(files)) == 1, "every peer has the same file")
    report = next(folder.glob("p0*report.html")).read_text()
    require("All rows, and by arm" in report, "the report page has Table 1")
    return json.loads(files[0])


def require(held: bool, text: str) -> None:
    if not held:
        sys.exit(f"FAILED  {text}")
    print(f"ok  {text}", flush=True)


def level(row: dict[str, str], column: str) -> str:
    if column in NUMBERS:
        return "present" if row[column] else "missing"
    return row[column] or "missing"


def enough_rows(own: list[int]) -> bool:
    """Returns whether rows of each peer pass as a cell."""
    pooled = sum(own)
    return (pooled >= THRESHOLD and sum(rows > 0 for rows in own) >= CONTRIBUTORS
            and all(pooled - rows >= REST for rows in own))


def check_quantiles(result: dict, parts: list[list[dict[str, str]]]) -> None:
    opened = 0
    for column in result["columns"]:
        grid = NUMBERS.get(column["name"])
        for place, (group, found) in enumerate(zip(result["groups"], column.get("quantiles", []))):
            keep = {} if group == "all" else {"arm": group}
            values = [[round(struct.unpack("f", struct.pack("f", float(row[column["name"]])))[0] / grid) for row in part
                       if row[column["name"]] and all(level(row, c) == v for c, v in keep.items())] for part in parts]
            ordered = sorted(sum(values, []))
            present = column["levels"].index("present")
            for twentieths, value in zip((1, 5, 10, 15, 19), found):
                if not ordered:
                    require(value is None, f"no quantile of {column['name']} of {group}")
                    continue
                exact = ordered[max(0, -(-twentieths * len(ordered) // 20) - 1)]
                sides = [[sum(x < exact for x in own) for own in values], [sum(x > exact for x in own) for own in values]]
                may = all(map(enough_rows, sides)) and column["counts"][present][place] is not None
                if (value is not None) != may or value not in (None, exact):
                    sys.exit(f"FAILED  {column['name']} of {group}: {twentieths}/20 is {value}, exact {exact}, opens: {may}")
                opened += value is not None
    require(opened > 0, f"{opened} quantiles are those of the pooled rows, and only those open that may")


def passes(parts: list[list[dict[str, str]]], keep: dict[str, str]) -> tuple[int, bool]:
    """Returns the pooled count of the rows with these levels, and whether it passes."""
    own = [sum(all(level(row, column) == value for column, value in keep.items()) for row in part) for part in parts]
    pooled, enough = sum(own), enough_rows(own)
    return pooled, enough or (pooled == 0 and "missing" in keep.values())


def cells(result: dict) -> dict[frozenset, int | None]:
    """Returns all counts of a result by their levels."""
    found: dict[frozenset, int | None] = {}

    def put(keep: dict[str, str], count: int | None) -> None:
        # A column without missing values has one level. So its cells are those without the column.
        key = frozenset((column, value) for column, value in keep.items() if column in MISSING or value != "present")
        require_same = found.setdefault(key, count)
        if require_same != count:
            sys.exit(f"FAILED  two numbers for {keep}")

    groups = [{}, *({"arm": group} for group in result["groups"][1:])]
    for group, count in zip(groups, result["rows"]):
        put(group, count)
    for column in result["columns"]:
        for value, counts in zip(column["levels"], column["counts"]):
            for group, count in zip(groups, counts):
                put({column["name"]: value, **group}, count)
    for cross in result["tables"]:
        for one, counts in zip(cross["row_levels"], cross["counts"]):
            for two, count in zip(cross["column_levels"], counts):
                put({cross["rows"]: one, cross["columns"]: two}, count)
    return found


def equations(found: dict[frozenset, int | None]) -> list[tuple[frozenset, list[frozenset]]]:
    """Returns each cell with its parts by one more column."""
    made = []
    for total in found:
        columns = {column for cell in found if cell > total and len(cell) == len(total) + 1 for column, _ in cell - total}
        for column in columns:
            parts = [cell for cell in found if cell > total and len(cell) == len(total) + 1 and dict(cell - total).get(column)]
            made.append((total, parts))
    return made


def follows(found: dict[frozenset, int | None]) -> frozenset | None:
    """Returns a closed cell that is a combination of open ones."""
    rows: list[dict[frozenset, fractions.Fraction]] = []
    for total, parts in equations(found):
        row = {cell: fractions.Fraction(1) for cell in parts if found[cell] is None}
        if found[total] is None:
            row[total] = fractions.Fraction(-1)
        for other in rows:
            lead = next(iter(other))
            if lead in row:
                factor = row[lead] / other[lead]
                row = {c: v for c in {**row, **other} if (v := row.get(c, 0) - factor * other.get(c, 0))}
        if row:
            lead = next(iter(row))
            for at, other in enumerate(rows):
                if lead in other:
                    factor, first = other[lead] / row[lead], next(iter(other))
                    rest = {c: v for c in {**other, **row} if c != first and (v := other.get(c, 0) - factor * row.get(c, 0))}
                    rows[at] = {first: other[first], **rest}
            rows.append(row)
    return next((next(iter(row)) for row in rows if len(row) == 1), None)


def check_numbers(result: dict, parts: list[list[dict[str, str]]]) -> None:
    found, closed = cells(result), 0
    for key, count in found.items():
        pooled, enough = passes(parts, dict(key))
        if count is None:
            closed += 1
        elif count != pooled or not enough:
            sys.exit(f"FAILED  {dict(key)}: {count}, pooled {pooled}, passes: {enough}")
    require(closed > 0, f"{len(found) - closed} of {len(found)} cells are open, each is the pooled count and passes")
    opened = 0
    for column in result["columns"]:
        for group, moments in zip(result["groups"], column.get("moments", [])):
            keep = {} if group == "all" else {"arm": group}
            grid = NUMBERS[column["name"]]
            values = [struct.unpack("f", struct.pack("f", float(row[column["name"]])))[0]
                      for part in parts for row in part
                      if row[column["name"]] and all(level(row, c) == v for c, v in keep.items())]
            steps = [round(value / grid) for value in values]
            off = len(steps) - max((steps.count(value) for value in set(steps)), default=0)
            if moments is None:
                continue
            opened += 1
            if off < THRESHOLD:
                sys.exit(f"FAILED  {column['name']} of {group} opens, and only {off} rows differ from the commonest")
            same = moments["n"] == len(steps) and moments["sum"] == sum(steps)
            same &= moments["squares"] == sum(step * step for step in steps)
            mean, sd = statistics.mean(steps) * grid, statistics.stdev(steps) * grid
            same &= abs(moments["mean"] - mean) < 1e-9 * abs(mean) + 1e-12 and abs(moments["sd"] - sd) < 1e-9 * sd
            if not same:
                sys.exit(f"FAILED  {column['name']} of {group}: {moments}, {mean}, {sd}")
    require(opened > 0, f"{opened} means and deviations are those of the pooled rows")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--program", type=pathlib.Path, required=True)
    words.add_argument("--peers", type=int, default=4)
    words.add_argument("--rows", type=int, default=400)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--caught", action="store_true", help="the computing members prove their messages")
    words.add_argument("--plant", action="store_true", help="open one closed cell: the audit must find another")
    given = words.parse_args()
    rng = random.Random(given.seed)
    parts: list[list[dict[str, str]]] = [[] for _ in range(given.peers)]
    for _ in range(given.rows):
        rng.choice(parts).append(draw(rng))
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        result = join(given.program.resolve(), pathlib.Path(folder), parts, given.caught)
        print(f"{given.peers} peers, {given.rows} rows: {time.monotonic() - started:.1f} s with starting and ending")
    check_numbers(result, parts)
    check_quantiles(result, parts)
    found = cells(result)
    if given.plant:
        closed = [cell for cell, count in found.items() if count is None]
        planted = [cell for cell in closed if follows({**found, cell: passes(parts, dict(cell))[0]})]
        require(bool(planted), f"each of {len(planted)} of the {len(closed)} closed cells would reveal another one if it opened")
    require(follows(found) is None, "no closed cell follows from open ones")


if __name__ == "__main__":
    main()
