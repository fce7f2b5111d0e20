"""Calls commands of the program."""

import json
import logging
import os
import signal
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from flyswarm import _flyswarm
from flyswarm._arguments import arguments_named, suggests, toml
from flyswarm._files import write_arrays
from flyswarm._labels import named

LOG = logging.getLogger("flyswarm")


def call(*arguments):
    """Returns the output of a command of the program. Raises its error."""
    text, error = called(*arguments)
    if error is not None:
        with arguments_named():
            raise error
    return text


def called(*arguments):
    """Returns the output of a command of the program, and its error or None. Logs its messages."""
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in arguments]
    text, said, error = _flyswarm.call(words)
    for line in said:
        LOG.info("%s", line)
    return text, error


def main():
    """Runs the program `flyswarm` with the arguments of this process, and ends the process."""
    # The program handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_flyswarm.main(["flyswarm", *sys.argv[1:]]))


def options(given):
    """Converts keyword arguments to options: `seed=3` becomes `--seed=3`, `from_=x` becomes `--from=x`."""
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            yield option
        elif isinstance(value, Mapping):
            yield from (f"{option}={key}={each}" for key, each in value.items())
        elif isinstance(value, (list, tuple, np.ndarray)):
            yield from (f"{option}={each}" for each in value)
        elif value is not None and value is not False:
            yield f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"


@suggests()
def simulate(
    scenario,
    *,
    rows=None,
    session=None,
    seed=None,
    small=False,
    out=None,
    force=False,
    calibrate=False,
):
    """Runs the nodes of a scenario in virtual time.

    Parameters
    ----------
    scenario : path, mapping or Session
        The scenario file, or its fields, such as `{"peers": 5, "data": {"split": "by-class"}}`.
        `simulations/README.md` describes them. A `Session` is simulated with as many peers as it has.
    rows : (X, y) or None
        Rows and labels of all peers, which the scenario deals out. Only if the scenario is not a file.
    session : Session, path or None
        Session to simulate instead of the scenario's session, with other keys.
    seed : int or None
        Seed of the scenario. None means that of the file.
    small : bool, default=False
        If True, uses the small form of the scenario.
    out : path or None
        Folder for the results.
    force : bool, default=False
        If True, existing files in `out` are replaced.
    calibrate : bool, default=False
        If True, measures the speed of this machine first.

    Returns
    -------
    results : dict
        As `flyswarm simulate --json` prints them.

    Raises
    ------
    ValueError
        If the file is not a scenario, a field is unknown, or the rows do not fit the session.
    SessionError
        If a check of the scenario failed.

    Examples
    --------
    >>> simulate("missing.toml")
    Traceback (most recent call last):
    ...
    ValueError: missing.toml: No such file or directory (os error 2)
    """
    given = {"seed": seed, "small": small, "out": out, "force": force, "calibrate": calibrate}
    if hasattr(scenario, "text"):
        session = scenario
        scenario = {"peers": len(tomllib.loads(session.text)["roster"])}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if isinstance(scenario, Mapping):
            scenario = written(folder, dict(scenario), rows, session)
        elif rows is not None:
            raise ValueError("rows: only with a scenario that is not a file; a file names its own rows")
        if hasattr(session, "text"):
            (folder / "session.toml").write_text(session.text, "utf-8")
            session = folder / "session.toml"
        given["session"] = session
        try:
            return json.loads(call("simulate", scenario, "--json", *options(given)))
        except ValueError as error:
            raise ValueError(str(error).replace(f"{name}{os.sep}", "")) from None


def written(folder, fields, rows, session):
    """Writes a scenario with these fields to a file, and its rows next to it. Returns the path."""
    if rows is not None:
        X, y = rows
        names = session.classes if hasattr(session, "text") else [str(label) for label in np.unique(y)]
        columns = [str(column) for column in X.columns] if hasattr(X, "columns") else None
        labels = named(y, names)
        other = next((label for label in labels if label not in names), None)
        if other is not None:
            raise ValueError(f"y has the label {other!r}, expected one of {names}")
        write_arrays(folder / "rows.npz", X, labels, columns)
        if hasattr(session, "text"):
            width, features = np.shape(X)[1], session.show()["data"]["features"]
            if width != features:
                raise ValueError(f"X has {width} features, the session has {features}")
        fields["data"] = {**fields.get("data", {}), "set": "rows.npz"}
    path = folder / "scenario.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in fields.items()), "utf-8")
    return path
