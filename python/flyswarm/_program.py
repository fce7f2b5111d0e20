"""Calls commands of the program."""

import json
import logging
import os
import signal
import sys
from collections.abc import Mapping

import numpy as np

from flyswarm import _flyswarm
from flyswarm._arguments import arguments_named, suggests

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
def simulate(scenario, *, session=None, seed=None, small=False, out=None, force=False, calibrate=False):
    """Runs the nodes of a scenario in virtual time.

    Parameters
    ----------
    scenario : path
        The scenario file. `simulations/README.md` describes its fields.
    session : path or None
        Session file to use instead of the scenario's session.
    seed : int or None
        Seed of the scenario. None means that of the file.
    small : bool, default=False
        If True, uses the small form of the scenario.
    out : path or None
        Folder for the results of the nodes.
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
        If the file is not a scenario.
    SessionError
        If a check of the scenario failed.

    Examples
    --------
    >>> simulate("missing.toml")
    Traceback (most recent call last):
    ...
    ValueError: missing.toml: No such file or directory (os error 2)
    """
    given = {"session": session, "seed": seed, "small": small, "out": out, "force": force}
    return json.loads(call("simulate", scenario, "--json", *options({**given, "calibrate": calibrate})))
