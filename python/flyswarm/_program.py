"""Calls of the program's own commands."""

import json
import logging
import os
from collections.abc import Mapping

import numpy as np

from flyswarm import _flyswarm

LOG = logging.getLogger("flyswarm")


def call(*arguments):
    """What a command of the program prints. Its error is raised."""
    text, error = called(*arguments)
    if error is not None:
        raise error
    return text


def called(*arguments):
    """What a command of the program prints, and its error or None. What it says beside is logged."""
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in arguments]
    text, said, error = _flyswarm.call(words)
    for line in said:
        LOG.info("%s", line)
    return text, error


def options(given):
    """Keyword arguments as options of the program: `seed=3` is `--seed=3`, `from_=x` is `--from=x`."""
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


def simulate(scenario, **given):
    """Runs the nodes of a scenario in virtual time.

    Parameters
    ----------
    scenario : path
        The scenario's file; `simulations/README.md` has its fields.
    **given
        The options of `flyswarm simulate`, such as `seed=7` and `small=True`.

    Returns
    -------
    results : dict
        As `flyswarm simulate --json` prints them.

    Raises
    ------
    ValueError
        Where it is no scenario.
    SessionError
        Where a check failed.

    Examples
    --------
    >>> simulate("missing.toml")
    Traceback (most recent call last):
    ...
    ValueError: missing.toml: No such file or directory (os error 2)
    """
    return json.loads(call("simulate", scenario, "--json", *options(given)))
