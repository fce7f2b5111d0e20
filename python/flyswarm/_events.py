"""Events of a peer, and their display."""

import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """An event at a peer. `str(event)` is one readable line.

    Attributes
    ----------
    kind : str
        Kind of the event, such as "waiting", "joined", "view", "opened" or "finished".
    time : float
        Seconds since 1970.
    fields : dict
        All other fields, as `flyswarm join --json` prints them.

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
    """A warning for the user of the result, such as a suspicious column or a poor model.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", SessionWarning)
    """


class Progress:
    """Shows events in one cell of a notebook, or as lines on standard error outside a notebook.

    Parameters
    ----------
    name : str
        Name of the session.

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
