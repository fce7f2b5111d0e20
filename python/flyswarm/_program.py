"""Calls commands of the program."""

import json
import logging
from typing import Any

from flyswarm import _flyswarm
from flyswarm._arguments import arguments_named

LOG = logging.getLogger("flyswarm")


def call(command: str, contents: bytes | None = None, **values: Any) -> str:
    """Returns the output of a command of the program. Raises the error of the command."""
    text, error = called(command, contents, **values)
    if error is not None:
        with arguments_named():
            raise error
    return text


def called(command: str, contents: bytes | None = None, **values: Any) -> tuple[str, Exception | None]:
    """Returns the output of a command of the program, and its error or None. Logs the command's messages.

    `contents` has the contents of a file that is only in memory.
    """
    text, said, error = _flyswarm.call(json.dumps({command: values}), contents)
    for line in said:
        LOG.info("%s", line)
    return text, error
