"""Compares the code for one federation of a CNN in flyswarm and in Flower: lines, names, settings, commands.

    pip install ./python torch 'flwr[simulation]'
    python3 lab/scripts/compare-quickstart.py [SEEDS]     # --count only counts, --without-flower needs no flwr

Both programs in lab/quickstart train the network from the same initial weights, and use the rows of
lab/quickstart/digits.py, as does plain FedAvg in PyTorch (plain.py). Each runs with SEEDS seeds (3); the order of
the batches is drawn. Flower's app has
the form of its quickstart for PyTorch: a server app, a client app and a pyproject.toml. Lines are lines of code
without blank lines, comments and docstrings. Names are the names that are imported from the library. Settings are
keyword arguments of calls of the library, keys of mappings in these calls, and keys in the section [tool.flwr].
"""

import ast
import io
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "quickstart"
SWARM = [HERE / "swarm.py"]
FLOWER = [HERE / "flower" / "quickstart" / name for name in ("server_app.py", "client_app.py")]
PROJECT = HERE / "flower" / "pyproject.toml"
# Steps of a real run of four peers, from the documentation of each program. They are not run here.
REAL = {
    "flyswarm": ["each: flyswarm id", "one: flyswarm session new", "each: a script with FedAvg(...).join"],
    "Flower": [
        "one: certificates",
        "one: flower-superlink",
        "each: a key for flower-supernode",
        "each: flower-supernode",
        "one: flwr run",
    ],
}


def lines(path):
    """Returns the number of lines with code."""
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        return sum(bool(line.strip()) and not line.startswith("#") for line in text.splitlines())
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in nothing]
    docs = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    code = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    return len(code - docs)


def names(path, library):
    """Returns the names that are imported from the library, and the keywords of calls of these names."""
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == library
        for alias in node.names
    }
    # The methods of objects that these names have made count, too.
    made = set(imported)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and root(node.value.func) in made:
            made |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and root(node.func) in made]
    settings = {keyword.arg for call in calls for keyword in call.keywords}
    inside = [node for call in calls for node in ast.walk(call) if isinstance(node, ast.Dict)]
    settings |= {key.value for node in inside for key in node.keys if isinstance(key, ast.Constant)}
    return imported, settings


def root(node):
    """Returns the name at the start of an expression such as `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def keys(table, path=()):
    """Yields the keys of a table of TOML, with those of its tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from keys(value, (*path, key))
        else:
            yield ".".join((*path, key))


def counted(files, library):
    imported, settings = set(), set()
    for path in files:
        found = names(path, library)
        imported |= found[0]
        settings |= found[1]
    return sum(map(lines, files)), imported, settings


def run(name, command, folder, home):
    """Runs a command. Returns its accuracy and its seconds."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(HERE), "HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    # Ray's workers would otherwise have the lowest priority.
    own["RAY_worker_niceness"] = "0"
    environment = {**os.environ, **own}
    begun = time.monotonic()
    out = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=3600)
    found = re.search(r"accuracy (\d\.\d+)", out.stdout + out.stderr)
    if found is None:
        raise SystemExit(f"{name}: no accuracy in its output:\n{out.stdout[-2000:]}{out.stderr[-2000:]}")
    return float(found[1]), time.monotonic() - begun


def end(home):
    """Ends the processes that this script started with the home folder `home`, because Flower leaves a server running."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={home}".encode() in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGTERM)
        except OSError:
            continue


def main():
    seeds = int(next(filter(str.isdecimal, sys.argv[1:]), "3"))
    swarm, flower = counted(SWARM, "flyswarm"), counted(FLOWER, "flwr")
    project = set(keys(tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["flwr"]))
    rows = [
        ("files", len(SWARM), len(FLOWER) + 1),
        ("lines of code", swarm[0], flower[0] + lines(PROJECT)),
        ("names of the library", len(swarm[1]), len(flower[1])),
        ("settings", len(swarm[2]), len(flower[2] | project)),
        ("programs in addition to the peers", 0, "server (SuperLink)"),
        ("steps of a real run with encryption and keys", *(len(steps) for steps in REAL.values())),
    ]
    if "--count" not in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as home:
            program = Path(sys.executable).with_name("flwr")
            four = ["--stream", "--federation-config", "num-supernodes=4"]
            flwr = [program, "run", ".", "local", *four, "--run-config"]
            python = lambda name, seed: run(name, [sys.executable, name, str(seed)], HERE, home)
            try:
                ran = [[python(name, seed) for seed in range(seeds)] for name in ("swarm.py", "plain.py")]
                if "--without-flower" not in sys.argv[1:]:
                    flower_app = HERE / "flower"
                    ran.insert(1, [run("Flower", [*flwr, f"seed={seed}"], flower_app, home) for seed in range(seeds)])
            finally:
                end(home)
        told = lambda found: ", ".join(f"{accuracy:.3f}" for accuracy, _ in found)
        mean = lambda found: f"{statistics.mean(accuracy for accuracy, _ in found):.3f} ({told(found)})"
        *both, plain = ran
        rows.append((f"accuracy on the test rows, mean of {seeds}", *map(mean, both), *[""] * (2 - len(both))))
        best = [f"{min(seconds for _, seconds in found):.0f}" for found in both]
        rows.append(("seconds, 20 rounds", *best, *[""] * (2 - len(both))))
        print(f"plain FedAvg in PyTorch: {mean(plain)}")
    print("| | flyswarm | Flower |\n| --- | --- | --- |")
    for row in rows:
        print(f"| {row[0]} | {row[1]} | {row[2]} |")
    print("\nflyswarm:", ", ".join(sorted(swarm[1])), "; settings:", ", ".join(sorted(swarm[2])))
    print("Flower:", ", ".join(sorted(flower[1])), "; settings:", ", ".join(sorted(flower[2] | project)))
    for name, steps in REAL.items():
        print(f"{name}, a real run:", "; ".join(steps))
    print("shared, not counted: lab/quickstart/digits.py,", lines(HERE / "digits.py"), "lines")


if __name__ == "__main__":
    main()
