#!/usr/bin/env python3
"""Compares the fits of the task glm with statsmodels on 22 sets of rows.

    pip install statsmodels
    cargo build --release -p flyswarm-lab --example glm
    lab/scripts/check-glm.py target/release/examples/glm [--plant] [--speed ROWS COLUMNS]
    lab/scripts/check-glm.py target/debug/flyswarm --join

For each set, the estimates, standard errors (model and HC1), intervals, p values, deviances and AIC must agree
within 1e-8 (relative), and the bits must be the same over 1, 3, 5 and 64 peers. Where statsmodels has no finite
answer (separation, a dependent column), the program must complain in one line. `--plant` changes one estimate by 1e-7: the
comparison must find it. `--join` runs four real peers on random patients: the result must be that of the pooled
rows, and a model with a small cell must end without an opened sum. `--speed` prints the CPU seconds of both on the same rows.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import time
import warnings

import numpy
import scipy.stats
import statsmodels.api as sm

WITHIN = 1e-8


class Set:
    """A set of rows: columns in steps, their steps, and the outcome."""

    def __init__(self, name, family, columns, steps, outcome, offset=None, weights=None, step=1.0, complaint=None):
        self.name, self.family, self.step, self.complaint = name, family, step, complaint
        self.columns = numpy.column_stack([numpy.ones(len(outcome), int), *columns]).astype(int)
        self.steps = [1.0, *steps]
        self.outcome = numpy.asarray(outcome, float)
        self.offset, self.weights = offset, weights

    def text(self, peers: int, robust: bool) -> str:
        head = [self.family, peers, int(robust), 60, repr(self.step), *map(repr, self.steps)]
        offset = numpy.zeros(len(self.outcome)) if self.offset is None else self.offset / self.step
        weights = numpy.ones(len(self.outcome)) if self.weights is None else self.weights
        lines = [" ".join(map(str, head))]
        for y, o, w, row in zip(self.outcome.tolist(), offset.tolist(), weights.tolist(), self.columns.tolist()):
            lines.append(f"{y!r} {o!r} {w!r} {' '.join(map(str, row))}")
        return "\n".join(lines) + "\n"

    def reference(self, robust: bool):
        x = self.columns * numpy.array(self.steps)
        y = self.outcome * self.step
        families = {"linear": sm.families.Gaussian(), "logistic": sm.families.Binomial(), "poisson": sm.families.Poisson()}
        kind = {"cov_type": "HC1"} if robust else {}
        model = sm.GLM(y, x, family=families[self.family], offset=self.offset, var_weights=self.weights)
        fit = model.fit(tol=1e-14, maxiter=200, tol_criterion="params", use_t=self.family == "linear", **kind)
        return fit


def sets() -> list[Set]:
    rng = numpy.random.default_rng(39)

    def numbers(n, columns, spread=1000):
        return [rng.integers(-spread, spread, n) for _ in range(columns)]

    def levels(n, p):
        drawn = rng.choice(len(p), n, p=p)
        return [(drawn == level).astype(int) for level in range(1, len(p))]

    def event(predictor):
        return (rng.random(len(predictor)) < 1 / (1 + numpy.exp(-predictor))).astype(float)

    out = []
    n = 800
    x = numbers(n, 3)
    d = levels(n, [0.5, 0.3, 0.2])
    eta = 0.4 + 0.001 * x[0] - 0.0005 * x[1] + 0.7 * d[0] - 0.3 * d[1]
    steps = [0.01, 0.1, 0.5, 1.0, 1.0]
    out.append(Set("linear", "linear", [*x, *d], steps, numpy.round(100 * eta + rng.normal(0, 40, n)), step=0.01))
    out.append(Set("logistic", "logistic", [*x, *d], steps, event(eta)))
    out.append(Set("poisson", "poisson", [*x, *d], steps, rng.poisson(numpy.exp(eta)).astype(float)))
    weights = rng.integers(1, 17, n) / 4
    out.append(Set("linear, weights", "linear", [*x, *d], steps, numpy.round(100 * eta + rng.normal(0, 40, n)), weights=weights, step=0.01))
    out.append(Set("logistic, weights", "logistic", [*x, *d], steps, event(eta), weights=weights))
    out.append(Set("poisson, weights", "poisson", [*x, *d], steps, rng.poisson(numpy.exp(eta)).astype(float), weights=weights))
    offset = rng.integers(-20, 20, n) / 10
    out.append(Set("linear, offset", "linear", [*x, *d], steps, numpy.round(100 * eta), offset=offset, step=0.01))
    out.append(Set("logistic, offset", "logistic", [*x, *d], steps, event(eta + offset), offset=offset))
    out.append(Set("poisson, offset", "poisson", [*x, *d], steps, rng.poisson(numpy.exp(eta + offset)).astype(float), offset=offset))
    n = 60_000
    x = numbers(n, 2)
    out.append(Set("rare outcome", "logistic", x, [0.01, 0.01], event(-7.5 + 0.001 * x[0])))
    out.append(Set("rare counts", "poisson", x, [0.01, 0.01], rng.poisson(numpy.exp(-7 + 0.001 * x[0])).astype(float)))
    n = 500
    year = rng.integers(1990, 2020, n)
    out.append(Set("years without centring", "logistic", [year], [1.0], event(0.1 * (year - 2005.0))))
    days = rng.integers(14_000, 19_000, n)
    out.append(Set("dates", "linear", [days], [1.0], numpy.round(0.3 * days + rng.normal(0, 300, n))))
    a = rng.integers(-1000, 1000, n)
    near = a + rng.integers(-3, 4, n)
    out.append(Set("nearly collinear", "linear", [a, near], [0.01, 0.01], numpy.round(a + rng.normal(0, 300, n)), step=0.1))
    out.append(Set("nearly collinear, logistic", "logistic", [a, near], [0.01, 0.01], event(0.002 * a)))
    out.append(Set("collinear", "logistic", [a, 2 * a + 7], [0.01, 0.01], event(0.002 * a), complaint="is a linear combination"))
    d = levels(n, [0.4, 0.3, 0.3])
    every = [a, *d, 1 - d[0] - d[1]]
    counts = rng.poisson(2, n).astype(float)
    out.append(Set("all levels of a category", "poisson", every, [0.01, 1, 1, 1], counts, complaint="is a linear combination"))
    out.append(Set("separated", "logistic", [a], [0.01], (a > 5).astype(float), complaint="separates the outcome"))
    out.append(Set("no event in a level", "logistic", [a, *d], [0.01, 1, 1], event(0.001 * a) * (1 - d[1]), complaint="separates the outcome"))
    big = numbers(40, 1, 1_000_000)
    out.append(Set("few rows, large numbers", "linear", big, [0.001], numpy.round(0.5 * big[0] + rng.normal(0, 1e5, 40)), step=0.001))
    many = numbers(4000, 20)
    eta = sum((0.0001 * (at + 1)) * x for at, x in enumerate(many)) / 4
    out.append(Set("20 columns", "logistic", many, [0.01] * 20, event(eta)))
    counts = rng.poisson(numpy.exp(6 + 0.001 * a)).astype(float)
    out.append(Set("large counts", "poisson", [a], [0.01], counts))
    return out


def run(program: pathlib.Path, rows: Set, peers: int, robust: bool) -> tuple[str, str]:
    done = subprocess.run([program], input=rows.text(peers, robust), capture_output=True, text=True)
    return done.stdout, done.stderr.strip()


def compare(rows: Set, text: str, robust: bool, plant: float) -> float:
    """Returns the largest relative difference."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = rows.reference(robust)
    lines = [line.split() for line in text.splitlines()]
    found = {lines[0][2]: float(lines[0][3]), lines[0][4]: float(lines[0][5]), lines[1][0]: float(lines[1][1])}
    estimates = numpy.array([[float(x) for x in line] for line in lines[2:]])
    estimates[0, 0] *= 1 + plant
    # The robust errors of statsmodels' GLM are HC0 under every name.
    n, columns = rows.columns.shape
    errors = fit.bse * ((n / (n - columns)) ** 0.5 if robust else 1.0)
    law = scipy.stats.t(n - columns) if rows.family == "linear" else scipy.stats.norm
    pairs = [(estimates[:, 0], fit.params), (estimates[:, 2 if robust else 1], errors)]
    pairs.append((estimates[:, 3], 2 * law.sf(abs(fit.params / errors))))
    pairs += [(estimates[:, 4 + end], fit.params + law.ppf((0.025, 0.975)[end]) * errors) for end in (0, 1)]
    if rows.weights is None:
        # The AIC of statsmodels does not count the dispersion, and with weights it has another constant.
        aic = fit.aic + (2 if rows.family == "linear" else 0)
        pairs.append((numpy.array([found["aic"]]), numpy.array([aic])))
    pairs.append((numpy.array([found["deviance"]]), numpy.array([fit.deviance])))
    if rows.offset is None:
        pairs.append((numpy.array([found["null"]]), numpy.array([fit.null_deviance])))
    worst = 0.0
    for at, (own, other) in enumerate(pairs):
        # Errors of estimates and of ends of intervals are relative to the standard error if it is larger. Tiny p values may differ more.
        scale = numpy.maximum(abs(other), errors) if at in (0, 3, 4) else abs(other)
        if at == 2:
            own, other, scale = own[other > 1e-12], other[other > 1e-12], 100 * scale[other > 1e-12]
        worst = max(worst, float(numpy.max(abs(own - other) / scale, initial=0)))
    return worst


def speed(program: pathlib.Path, n: int, p: int) -> None:
    rng = numpy.random.default_rng(1)
    x = rng.integers(-1000, 1000, (n, p))
    outcome = (rng.random(n) < 1 / (1 + numpy.exp(-0.0005 * x[:, 0]))).astype(float)
    rows = Set("speed", "logistic", list(x.T), [0.01] * p, outcome)
    text = rows.text(5, False)
    done = subprocess.run([program], input=text, capture_output=True, text=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{n} rows, {p} columns, 5 peers in one thread: {used.ru_utime + used.ru_stime:.1f} s of CPU with reading the "
          f"text, {done.stderr.strip()} without, {done.stdout.split()[1]} rounds")
    before = resource.getrusage(resource.RUSAGE_SELF)
    begun = time.monotonic()
    sm.GLM(outcome, rows.columns * 0.01, family=sm.families.Binomial()).fit(tol=1e-12)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"statsmodels: {cpu:.1f} s of CPU, {time.monotonic() - begun:.1f} s")


def column(name: str, kind: str, *lines: str) -> str:
    return "\n".join(["[[table.column]]", f'name = "{name}"', f'kind = "{kind}"', *lines, ""])


TABLE = "[table]\n" + "".join([
    column("arm", "category", 'levels = ["a", "b", "c"]'),
    column("age", "number"),
    column("bmi", "number", 'fill = 25.0', 'indicator = true'),
    column("died", "category", 'levels = ["no", "yes"]'),
]) + """[glm]
family = "logistic"
outcome = "died"
terms = ["arm", "age", "bmi", "arm:age"]
grid = 0.1
robust = true
cheaters = "trusted"
"""


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def joined(program: pathlib.Path, parts: list[list[tuple]]) -> list[tuple[int, str, bytes]]:
    """Runs a peer for each part. Returns the exit code, the output and the result of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = lambda *words: subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=True).stdout
        text = (f'name = "s"\nrun_id = "{os.urandom(16).hex()}"\ncreated = 2026-11-22T16:05:06Z\ntask = "glm"\n'
                f'[data]\nscaling = "none"\n{TABLE}')
        ports = [port() for _ in parts]
        for at, own in enumerate(ports):
            run("id", "--new", "--key", f"{at}.key")
            key = json.loads(run("id", "--key", f"{at}.key", "--json"))["peer_id"]
            text += f'[[roster]]\nname = "p{at}"\npeer_id = "{key}"\naddresses = ["/ip4/127.0.0.1/tcp/{own}"]\n'
        (folder / "s.toml").write_text(text)
        started = []
        for at, (own, part) in enumerate(zip(ports, parts)):
            lines = [",".join(map(str, row)) for row in part]
            (folder / f"{at}.csv").write_text("\n".join(["arm,age,bmi,died", *lines]) + "\n")
            words = ["join", "s.toml", "--data", f"{at}.csv", "--key", f"{at}.key", "--state", f"state-{at}",
                     "--listen", f"/ip4/127.0.0.1/tcp/{own}", "--no-mdns", "--out", f"{at}.json"]
            started.append(subprocess.Popen([program, *words], cwd=folder, text=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT))
        done = []
        for at, process in enumerate(started):
            told, _ = process.communicate(timeout=300)
            out = folder / f"{at}.json"
            done.append((process.returncode, told, out.read_bytes() if out.exists() else b""))
        if done[0][2]:
            print(run("inspect", "0.json"))
            page = next(folder.glob("0*report.html")).read_text()
            require("Forest plot" in page and "odds ratio" in page, "the report page has the table and the forest plot")
        return done


def require(held: bool, text: str) -> None:
    if not held:
        sys.exit(f"FAILED  {text}")
    print(f"ok  {text}", flush=True)


def check_join(program: pathlib.Path) -> None:
    rng = numpy.random.default_rng(7)

    def patient():
        arm, age = rng.integers(3), rng.integers(180, 950) / 10
        bmi = "" if rng.random() < 0.1 else rng.integers(160, 400) / 10
        died = rng.random() < 1 / (1 + numpy.exp(3 - 0.04 * age - 0.3 * arm))
        return "abc"[arm], age, bmi, "yes" if died else "no"

    parts = [[patient() for _ in range(n)] for n in (300, 200, 150, 5)]
    begun = time.monotonic()
    done = joined(program, parts)
    for code, told, _ in done:
        require(code == 0, f"a peer ends well, after {time.monotonic() - begun:.1f} s" if code == 0 else told)
    require(len({file for *_, file in done}) == 1, "every peer has the same file")
    result = json.loads(done[0][2])
    rows = [row for part in parts for row in part if row[2] != ""]
    arm = numpy.array([[row[0] == level for level in "bc"] for row in rows], float)
    age, bmi = (numpy.array([row[at] for row in rows], float) for at in (1, 2))
    x = numpy.column_stack([numpy.ones(len(rows)), arm, age, bmi, arm * age[:, None]])
    y = numpy.array([row[3] == "yes" for row in rows], float)
    fit = sm.GLM(y, x, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=100, tol_criterion="params", cov_type="HC0")
    errors = fit.bse * (len(rows) / (len(rows) - x.shape[1])) ** 0.5
    own = result["coefficients"]
    worst = max(*abs(numpy.array([c["estimate"] for c in own]) / fit.params - 1), *abs(numpy.array([c["se"] for c in own]) / errors - 1))
    require(result["rows"] == len(rows) and worst < WITHIN, f"{len(rows)} rows, estimates and errors within {worst:.1e} of statsmodels")
    # Nine deaths in arm c.
    small = [[row for row in part if row[0] != "c" or row[3] == "no"] for part in parts]
    small[0] += [("c", 50.0 + at, 25.0, "yes") for at in range(9)]
    for code, told, file in joined(program, small):
        line = next((line for line in told.splitlines() if "refused before anything opens" in line), "")
        require(code != 0 and not file and "died=yes and arm=c" in line, f"a small cell ends the session: {line or told}")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("program", type=pathlib.Path)
    words.add_argument("--plant", action="store_true")
    words.add_argument("--speed", type=int, nargs=2, metavar=("ROWS", "COLUMNS"))
    words.add_argument("--join", action="store_true")
    given = words.parse_args()
    if given.join:
        check_join(given.program.resolve())
        return
    if given.speed:
        speed(given.program, *given.speed)
        return
    failed = 0
    for rows in sets():
        for robust in (False, True):
            texts = [run(given.program, rows, peers, robust) for peers in (1, 3, 5, 64)]
            same = len({text for text, _ in texts}) == 1
            text, error = texts[0]
            if rows.complaint:
                good, told = rows.complaint in error and not text, error
            elif not text:
                good, told = False, error
            else:
                worst = compare(rows, text, robust, 1e-7 if given.plant else 0.0)
                good, told = worst <= WITHIN, f"largest relative difference {worst:.1e}, {text.split()[1]} rounds"
            failed += not (good and same)
            kind = "HC1" if robust else "model"
            print(f"{'ok' if good and same else 'FAILED'}  {rows.name}, {kind}: {told}{'' if same else ', NOT THE SAME BITS'}", flush=True)
    sys.exit(f"{failed} failed" if failed else 0)


if __name__ == "__main__":
    main()
