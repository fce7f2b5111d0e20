"""What happens to a peer, and how it is shown."""

import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """What happened to a peer: `str(event)` is one line for people.

    Attributes
    ----------
    kind : str
        Such as "waiting", "joined", "view", "opened", "finished".
    time : float
        Seconds since 1970.
    fields : dict
        What else is known, as `flyswarm join --json` prints it.

    Examples
    --------
    >>> print(Event("joined", 0.0, {"peer": "north"}, "connected to north"))
    connected to north
    """

    kind: str
    time: float
    fields: dict[str, Any]
    text: str = field(repr=False)

    def __str__(self):
        return self.text


class SessionWarning(UserWarning):
    """A warning for the user of the result: a column that looks wrong, or how good the result is.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", SessionWarning)
    """


class Progress:
    """Shows events: in a notebook in one cell, else as lines on standard error.

    Parameters
    ----------
    name : str
        What the session is called.

    Examples
    --------
    >>> import contextlib, sys
    >>> with contextlib.redirect_stderr(sys.stdout), Progress("wards") as show:
    ...     show(Event("joined", 0.0, {"peer": "north"}, "connected to north"))
    wards: connected to north
    """

    def __init__(self, name):
        self.name = name
        self.handle = None

    def __enter__(self):
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is not None and hasattr(shell, "kernel"):
            from IPython.display import display

            self.handle = display({"text/plain": self.name}, raw=True, display_id=True)
        return self

    def __call__(self, event):
        text = f"{self.name}: {event}" if str(event) else ""
        if text and self.handle is not None:
            self.handle.update({"text/plain": text}, raw=True)
        elif text:
            print(text, file=sys.stderr)

    def __exit__(self, *error):
        return None
