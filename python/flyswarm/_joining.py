"""Takes part in a session, and reads this peer's rows."""

import contextlib
import json
import os
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from flyswarm import _flyswarm
from flyswarm._arguments import (
    address,
    arguments_named,
    flag,
    function,
    label_of,
    number,
    path_text,
    text,
    texts,
    whole,
)
from flyswarm._events import Event, Progress, SessionWarning
from flyswarm._files import archive, table
from flyswarm._identity import path_of
from flyswarm._labels import named, typed
from flyswarm._plots import Page, plot
from flyswarm._program import LOG
from flyswarm._results import result

# Ctrl-C is handled after at most this number of seconds.
TICK = 0.1
# Type of the estimator that a session makes.
Result = TypeVar("Result")


@dataclass(frozen=True)
class Joined(Generic[Result]):
    """Result of a session. `estimator, receipt = session.join(...)` unpacks the first two attributes.

    Attributes
    ----------
    estimator : FlyNNClassifier, Network, Labels or None
        Depends on the task. "flynn": a fitted classifier. "fedavg" and "fedavg-xclp": the network. "xclp":
        labels of this peer's rows. "tune": a classifier with the best settings, not fitted. "sketch",
        "summary" and "glm": None. For a peer without rows it is always None.
    receipt : dict
        Record of this peer's part in the session.
    file : bytes
        Result file, as `flyswarm join` writes it; empty for a peer without rows.
    figures : dict
        Depends on the task. "flynn": quality of the model, with `headline` (a sentence), `warnings`, and
        `pooled`, the figures of all held-out rows. "fedavg" and "fedavg-xclp": loss and accuracy in `rounds`
        (a list) and `scores` (of the final weights), and the entries of "flynn" if the session holds rows
        out. "xclp" with `hold_out`: the quality on the hidden labels in `held_out`. "tune": the best
        settings. "sketch", "summary" and "glm": the contents of the result file. Otherwise empty.
    own : str or None
        This peer's own figures as JSON, for the report.
    warnings : list of str
        Warnings for this peer, one sentence each.
    page : Page or None
        With the argument `page` of `join`: the live page with all its events.
    personal : KNNPerClassifier or None
        With the argument `personalise` of `join`: the classifier for this peer.

    Examples
    --------
    >>> own = {"included": ["counts"], "left_out": [], "text": "your rows are in all sums: counts"}
    >>> joined = Joined(None, {"own_rows": own}, b"")
    >>> estimator, receipt = joined
    >>> joined.own_rows
    'your rows are in all sums: counts'
    """

    estimator: Result
    receipt: dict[str, Any] = field(repr=False)
    file: bytes = field(repr=False)
    figures: dict[str, Any] = field(default_factory=dict, repr=False)
    own: str | None = field(default=None, repr=False)
    warnings: list[str] = field(default_factory=list, repr=False)
    page: Page | None = field(default=None, repr=False)
    personal: Any = field(default=None, repr=False)

    def plot(self, kind=None, ax=None):
        """Draws the rounds, the confusion matrix or the calibration. Needs matplotlib.

        Parameters
        ----------
        kind : {"rounds", "confusion", "calibration"} or None
            "rounds": loss and accuracy of each round. "confusion" and "calibration": figures of the held-out
            rows of all peers. None draws the rounds if there are any, otherwise the confusion matrix.
        ax : matplotlib.axes.Axes or None
            Axes to draw on. None makes a new figure.

        Returns
        -------
        ax : matplotlib.axes.Axes

        Raises
        ------
        ValueError
            If the result does not have these figures.
        ImportError
            If matplotlib is not installed.

        Examples
        --------
        >>> Joined(None, {}, b"").plot("curves")
        Traceback (most recent call last):
        ...
        ValueError: kind is 'curves', expected one of rounds, confusion, calibration
        """
        return plot(self.figures, kind, ax)

    def table(self, number=0):
        """Returns a table of a session of the task "summary" or "glm", as the report shows it.

        Table 1 has the columns "SMD" and "p" if there are groups to compare. "closed" replaces a number that
        does not open, or a test that needs such a number. `to_csv` and `to_markdown` of the data frame export
        the table.

        Parameters
        ----------
        number : int
            0 is Table 1 or the table of coefficients. The next numbers are the cross tables in the order of
            the session file, or the figures of the fit. `figures` has the same results as numbers.

        Returns
        -------
        table : pandas.DataFrame or list of dict
            If pandas is installed, a data frame; otherwise a dict for each line, in which "" is the key of
            the line's name.

        Raises
        ------
        KeyError
            If the result has no tables.

        Examples
        --------
        >>> tables = [{"title": "All rows", "lines": [["", "all"], ["n", "20"]]}]
        >>> len(Joined(None, {"tables": tables}, b"").table())
        1
        """
        head, *lines = self.receipt["tables"][number]["lines"]
        lines = [dict(zip(head, line)) for line in lines]
        try:
            import pandas as pd
        except ImportError:
            return lines
        return pd.DataFrame(lines).set_index("")

    def summary(self):
        """Returns all tables of a session of the task "summary" or "glm" as text.

        Returns
        -------
        text : str
            A title and aligned lines for each table.

        Raises
        ------
        KeyError
            If the result has no tables.

        Examples
        --------
        >>> tables = [{"title": "Fit", "lines": [["", "value"], ["rows", "20"]]}]
        >>> print(Joined(None, {"tables": tables}, b"").summary())
        Fit
              value
        rows  20
        """
        parts = []
        for table in self.receipt["tables"]:
            widths = [max(map(len, column)) for column in zip(*table["lines"])]
            padded = [[cell.ljust(width) for cell, width in zip(line, widths)] for line in table["lines"]]
            parts.append("\n".join([table["title"], *("  ".join(line).rstrip() for line in padded)]))
        return "\n\n".join(parts)

    def report(self):
        """Returns the report page of the session. A notebook shows this page in the cell.

        Returns
        -------
        page : Page
            `page.html` has the text, and `page.save("wards.html")` writes it.

        Examples
        --------
        >>> own = {"included": ["counts"], "left_out": [], "text": "your rows are in all sums: counts"}
        >>> page = Joined(None, {"name": "wards", "peer": "north", "own_rows": own}, b"").report()
        >>> "<title>" in page.html and "north" in page.html
        True
        """
        return Page(_flyswarm.page(json.dumps(self.receipt), self.own, self.warnings))

    def __iter__(self):
        return iter((self.estimator, self.receipt))

    @property
    def own_rows(self):
        """A sentence that names the opened sums that contain this peer's rows.

        `receipt["own_rows"]` has the names of these sums.

        Returns
        -------
        own_rows : str

        Examples
        --------
        >>> own = {"included": [], "left_out": [], "text": "your rows are in all sums: counts"}
        >>> Joined(None, {"own_rows": own}, b"").own_rows
        'your rows are in all sums: counts'
        """
        return self.receipt["own_rows"]["text"]


def join(
    session, stop, X, y, *, key, on_event=None, progress=False, label=None, addresses=None, listen=(),
    mdns=True, network_key=None, state=None, dataset=None, budget=None, strict=False, yes=False,
    map=None, drop=(), initial=None, hold_out=None, metrics=None, page=None, trace=None,
    personalise=False, trainer=None, weights=None, quiet=False,
):  # fmt: skip
    """Joins as `Session.join` does; leaves if `stop` is set. `trainer` replaces the built-in learner.

    If `quiet` is True, warnings are only events.
    """
    key = path_text("key", path_of(key), needed=True)
    given = options_of(
        network_key=network_key, state=state, dataset=dataset, budget=budget, hold_out=hold_out,
        metrics=metrics, page=page, initial=initial, trace=trace,
    )  # fmt: skip
    given["listen"] = texts("listen", listen)
    given |= {"mdns": flag("mdns", mdns), "strict": flag("strict", strict), "yes": flag("yes", yes)}
    personalise, progress = flag("personalise", personalise), flag("progress", progress)
    function("on_event", on_event)
    if addresses is not None and not isinstance(addresses, Mapping):
        raise TypeError(f"addresses is {addresses!r}, expected a mapping of peer ids to addresses")
    if X is None and y is not None:
        raise ValueError("y: only with X, the rows of the labels")
    if personalise and (X is None or session.task != "fedavg"):
        raise ValueError("personalise: only with rows, in a session of the task fedavg")
    with arguments_named():
        rows = None if X is None else rows_of(session, X, y, label, map, drop)
    classes = typed(session.classes, labels_of(session, X, y))
    if rows is not None and rows.said:
        LOG.info("%s", rows.said)
    with arguments_named():
        running = _flyswarm.Running.start(
            session.text,
            key,
            rows,
            trainer=trainer,
            weights=weights,
            **given,
        )
    shown = Progress(session.name) if progress else contextlib.nullcontext()
    callbacks = [call for call in (shown if progress else None, on_event) if call is not None]
    with leaving(running), shown:
        told, said = set(), []
        while True:
            for place in set((addresses or {}).items()) - told:
                running.add_address(*place)
                told.add(place)
            found = running.next(TICK)
            if stop is not None and stop.is_set():
                raise _flyswarm.LeftError("stopped")
            if found is None:
                continue
            content, line, ended = found
            if ended is not None:
                break
            fields = json.loads(content)
            event = Event(fields.pop("event"), fields.pop("time"), fields, line)
            if event.kind == "warning":
                said.append(event.fields["message"])
                if not quiet:
                    warnings.warn(event.fields["message"], SessionWarning, stacklevel=5)
            LOG.info("%s", line, extra={"event": event.kind})
            if event.kind == "page" and not progress:
                # Users cannot open the page without its address.
                with Progress(session.name) as show:
                    show(event)
            for callback in callbacks:
                callback(event)
    made = joined(session, classes, said, json.loads(content), *ended)
    if personalise:
        made = replace(made, personal=personal_of(session, made.estimator, X, y, label, map, drop))
    return made


def options_of(**given):
    """Returns the optional arguments of `join` as the extension takes them. None stays None."""
    checks = {
        "network_key": network_key_of,
        "dataset": text,
        "budget": number,
        "hold_out": lambda name, value: whole(name, value, 1, 50, strict=True),
        "metrics": address,
        "page": address,
    }
    return {
        name: None if value is None else checks.get(name, path_text)(name, value)
        for name, value in given.items()
    }


def network_key_of(name, value):
    """Returns the 32 bytes of a network key."""
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"{name} is of the type {type(value).__name__}, expected bytes")
    if len(value) != 32:
        raise ValueError(f"{name} has {len(value)} bytes, expected 32")
    return bytes(value)


def joined(session, classes, said, receipt, file, learnt, own, page):
    """Returns the result of a session. `classes` are the labels of its classes, and `said` the warnings."""
    estimator, figures = result(session.task, file, session.classes, classes, receipt, learnt, own)
    return Joined(estimator, receipt, file, figures, own, said, None if page is None else Page(page))


def personal_of(session, network, *given):
    """Returns the personal classifier from a network and this peer's rows, which `given` describes."""
    X, codes, groups = network._layers.rows(*source_of(session, *given))
    return network._personalised(X, network.classes_[codes], groups)


def rows_of(session, X, y, label, map=None, drop=()):
    """Returns the rows after the checks that `flyswarm join` applies to a file."""
    return _flyswarm.SessionRows.read(session.text, *source_of(session, X, y, label, map, drop))


def source_of(session, X, y, label, map, drop):
    """Returns the file of rows, label column, contents (if in memory), map file, and columns to drop."""
    map, drop = path_text("map", map), texts("drop", drop)
    if isinstance(X, (str, os.PathLike)):
        if y is not None:
            raise ValueError("y: not with a file of rows; label is the column of the file with the labels")
        return X, label_of(label), None, map, drop
    if label is not None:
        raise ValueError("label: only with a file of rows; y has the labels of rows in memory")
    labels = None if y is None else named(y, session.classes)
    frame = hasattr(X, "columns")
    described = tomllib.loads(session.text).get("table")
    if frame and described is not None:
        # The session describes the columns, so the data frame is passed on unchanged, with its texts and
        # missing values.
        return "X", None, table(X, labels, described.get("label", "label")), map, drop
    columns = [str(column) for column in X.columns] if frame else None
    return "X", "none" if labels is None else "last", archive(X, labels, columns), map, drop


def labels_of(session, X, y):
    """Returns `y`, or the label column of the frame `X`, or None."""
    if y is not None or not hasattr(X, "columns"):
        return y
    column = tomllib.loads(session.text).get("table", {}).get("label", "label")
    return X[column] if column in list(X.columns) else None


@contextlib.contextmanager
def leaving(running):
    """Leaves the session after an exception in the block, and waits until the peer has ended."""
    try:
        yield
    except BaseException:
        running.leave()
        with contextlib.suppress(Exception):
            while True:
                found = running.next(TICK)
                if found is not None and found[2] is not None:
                    break
        raise
