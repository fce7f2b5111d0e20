"""Reads the files of the vectors, and counts the checks that pass or fail."""

import functools
import json
from pathlib import Path

from primitives import Refused
from primitives.crypto import le
from primitives.session import Session

ROOT = Path(__file__).resolve().parents[4]
RESULTS = {True: 0, False: 0}


def vectors(name):
    return json.loads((ROOT / "tests/vectors" / f"{name}.json").read_text())


def check(what, holds):
    RESULTS[bool(holds)] += 1
    if not holds:
        print(f"FAILED: {what}")


def check_refused(what, expected, function, *args, why=None):
    """Checks that an input is refused with the expected class, and for the reason `why` if one is given."""
    try:
        function(*args)
        check(f"{what}: refused", False)
    except Refused as error:
        check(f"{what}: {error.args} for {expected}, {why}", error.kind == expected and why in (None, error.text))


@functools.cache
def session_of(text):
    return Session(text)


def words(values):
    return b"".join(le(value, 4) for value in values)
