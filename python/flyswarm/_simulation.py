"""Runs scenarios in virtual time."""

import json
import tomllib
from collections.abc import Mapping

import numpy as np

from flyswarm._arguments import flag, pair, path_text, plain, suggests, whole
from flyswarm._files import archive
from flyswarm._labels import named
from flyswarm._program import call
from flyswarm._session import Session


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
        The scenario file, or the fields of a scenario, such as `{"peers": 5, "data": {"split": "by-class"}}`.
        `simulations/README.md` describes the fields. A `Session` is simulated with the number of its peers.
    rows : (X, y) or None
        Rows and labels, which the scenario distributes to the peers. Only if the scenario is not a file.
    session : Session, path or None
        Session to simulate instead of the scenario's own session. Its keys are replaced.
    seed : int or None
        Seed of the scenario. None means the seed in the file.
    small : bool, default=False
        If True, uses the small variant of the scenario.
    out : path or None
        Folder for the results.
    force : bool, default=False
        If True, existing files in `out` are replaced.
    calibrate : bool, default=False
        If True, only measures the speed of this machine, and writes the rates into the scenario file.

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
    given = {
        "seed": None if seed is None else whole("seed", seed, 0, 2**64 - 1),
        "small": flag("small", small),
        "out": path_text("out", out),
        "force": flag("force", force),
        "calibrate": flag("calibrate", calibrate),
    }
    if force and out is None:
        raise ValueError("force: needs out, the folder whose files are replaced")
    if hasattr(scenario, "text"):
        session = scenario
        scenario = {"peers": len(tomllib.loads(session.text)["roster"])}
    fields = isinstance(scenario, Mapping)
    if not fields and rows is not None:
        raise ValueError("rows: only with a scenario that is not a file; a file names its own rows")
    if calibrate and (fields or session is not None or seed is not None or small or out is not None):
        raise ValueError("calibrate: only with a scenario file, and with no other argument")
    if session is not None and not hasattr(session, "text"):
        session = Session.load(session)
    given["session"] = None if session is None else session.text
    given["scenario"] = plain(scenario) if fields else path_text("scenario", scenario, needed=True)
    contents = None if rows is None else archive_of(*pair("rows", rows), session)
    return json.loads(call("simulate", contents, **given))


def archive_of(X, y, session):
    """Returns rows as the contents of a file. Labels must be classes of the session, if there is one."""
    names = [str(label) for label in np.unique(y)] if session is None else session.classes
    columns = [str(column) for column in X.columns] if hasattr(X, "columns") else None
    labels = named(y, names)
    other = next((label for label in labels if label not in names), None)
    if other is not None:
        raise ValueError(f"y has the label {other!r}, expected one of {names}")
    contents = archive(X, labels, columns)
    if session is not None:
        width, features = np.shape(X)[1], session.show()["data"]["features"]
        if width != features:
            raise ValueError(f"X has {width} features, the session has {features}")
    return contents
