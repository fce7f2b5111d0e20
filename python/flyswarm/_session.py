"""Makes, shows, checks and joins sessions."""

import asyncio
import contextlib
import json
import os
import tempfile
import threading
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flyswarm import _flyswarm, _tensors
from flyswarm._events import Event, Progress, SessionWarning
from flyswarm._files import temporary, write_arrays, write_table
from flyswarm._identity import path_of
from flyswarm._program import LOG, call, called, options
from flyswarm._results import result
from flyswarm._training import calls

# Longest wait in seconds before Ctrl-C is handled.
TICK = 0.1


@dataclass(frozen=True)
class Joined:
    """Result of a session. `estimator, receipt = session.join(...)` unpacks the first two attributes.

    Attributes
    ----------
    estimator : FlyNNClassifier, Network, Labels or None
        Depends on the task. "flynn": a fitted classifier. "fedavg" and "fedavg-xclp": the network. "xclp":
        labels of this peer's rows. "tune": a classifier with the best setting, not fitted. "sketch": None.
        Always None for a peer without rows.
    receipt : dict
        Record of this peer's part in the session.
    file : bytes
        Result file, as `flyswarm join` writes it; empty for a peer without rows.
    figures : dict
        Depends on the task. "flynn": quality of the model, with `headline` (a sentence), `warnings`, and
        `pooled`, the figures of all held-out rows. "fedavg" and "fedavg-xclp": loss and accuracy in `rounds`
        (a list) and `scores` (of the last weights), and the entries of "flynn" if the session holds rows out.
        "tune": the best setting. "sketch": the common sketch and the distances, as in the result file.
        Otherwise empty.

    Examples
    --------
    >>> own = {"included": ["counts"], "left_out": [], "text": "your rows are in all sums: counts"}
    >>> joined = Joined(None, {"own_rows": own}, b"")
    >>> estimator, receipt = joined
    >>> joined.own_rows
    'your rows are in all sums: counts'
    """

    estimator: Any
    receipt: dict[str, Any]
    file: bytes = field(repr=False)
    figures: dict[str, Any] = field(default_factory=dict, repr=False)

    def __iter__(self):
        return iter((self.estimator, self.receipt))

    @property
    def own_rows(self):
        """A sentence that names the opened sums with this peer's rows.

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


class Session:
    """A session file: the task, the peers, and the limits of the computation.

    Attributes
    ----------
    text : str
        Text of the session file.

    Raises
    ------
    ValueError
        If the text is not a session file.

    Examples
    --------
    The examples of the methods use these `keys` and this `session`, with the keys in a permanent folder:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keys = {name: Identity.new(f"{folder}/{name}") for name in ("north", "south", "east")}
    >>> session = Session.new("wards", keys, features=4, classes=["ill", "well"])
    >>> session.name, session.classes
    ('wards', ['ill', 'well'])
    """

    def __init__(self, text):
        """Reads the text of a session file. Raises ValueError if it is not a session file."""
        self.text = text
        with self._file() as path:
            self._shown = json.loads(call("session", "show", "--json", path))

    @classmethod
    def new(cls, name, peers, task="flynn", **given):
        """Makes a session.

        Parameters
        ----------
        name : str
            Name of the session.
        peers : mapping of str to str or Identity
            Names of at least three peers with their peer ids; "ID@MULTIADDR" if an address is known.
        task : str
            Name of the task. `flyswarm session new --help` lists the tasks.
        **given
            Options of `flyswarm session new TASK` with underscores, such as `features=30`, `classes=[...]` or
            `epsilon=1`. A mapping sets the fields of the section of that name, such as
            `timing={"start_wait_ms": 5000}`; `set={"min_peers": 3}` sets fields before the first section.

        Returns
        -------
        session : Session

        Raises
        ------
        ValueError
            If an option is wrong, with the message of the command.

        Examples
        --------
        >>> Session.new("wards", keys, features=4, classes=["ill", "well"])
        Session('wards', task='flynn')
        """
        entries = [f"--peer={peer}={getattr(id, 'peer_id', id)}" for peer, id in peers.items()]
        sections = {key: given.pop(key) for key in list(given) if isinstance(given[key], Mapping)}
        entries += [
            f"--set={'' if section == 'set' else section + '.'}{key}={json.dumps(value)}"
            for section, fields in sections.items()
            for key, value in fields.items()
        ]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "session.toml"
            call("session", "new", task, f"--name={name}", *entries, *options(given), f"--out={out}")
            return cls(out.read_text("utf-8"))

    @classmethod
    def load(cls, path):
        """Reads a session file.

        Parameters
        ----------
        path : path
            The session file.

        Returns
        -------
        session : Session

        Raises
        ------
        ValueError
            If the file is not a session file, or cannot be read.

        Examples
        --------
        >>> Session.load("missing.toml")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: missing.toml: cannot be read: ...
        """
        call("session", "check", path)
        return cls(Path(path).read_text("utf-8"))

    def save(self, path):
        """Writes the session file. Never overwrites a file.

        Parameters
        ----------
        path : path
            File to write, which must not exist yet.

        Raises
        ------
        OSError
            If the file exists, or cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session.save(f"{folder}/wards.toml")
        ...     Session.load(f"{folder}/wards.toml").text == session.text
        True
        """
        with open(path, "x", encoding="utf-8") as file:
            file.write(self.text)

    def show(self):
        """Returns all settings, with defaults filled in.

        Returns
        -------
        settings : dict
            Settings as `flyswarm session show --json` prints them. Times are in milliseconds.

        Examples
        --------
        >>> settings = session.show()
        >>> settings["name"], settings["data"]["classes"]
        ('wards', ['ill', 'well'])
        """
        return json.loads(json.dumps(self._shown))

    @property
    def name(self):
        """Name of the session, a str.

        Examples
        --------
        >>> session.name
        'wards'
        """
        return self._shown["name"]

    @property
    def classes(self):
        """Names of the classes, a list of str in the order of their indices.

        Examples
        --------
        >>> session.classes
        ['ill', 'well']
        """
        return list(self._shown["data"]["classes"])

    @property
    def task(self):
        """Name of the task: "flynn", "xclp", "sketch", "fedavg", "fedavg-xclp" or "tune".

        Examples
        --------
        >>> session.task
        'flynn'
        """
        return self._shown["task"]

    def __repr__(self):
        return f"Session({self.name!r}, task={self.task!r})"

    def doctor(self, key=None, **given):
        """Checks whether the session could start now, as `flyswarm doctor` does.

        Parameters
        ----------
        key : Identity or path or None
            Key of this peer. None means the default key of the program.
        **given
            Options of `flyswarm doctor`, such as `wait=15` (seconds) and `no_mdns=True`.

        Returns
        -------
        findings : list of dict
            Findings with `level`, `check`, `peer`, `text` and `advice`. The last one is the verdict, with
            `could_start`, `ready` and `needed`.

        Raises
        ------
        ValueError, OSError
            If the check itself cannot run.

        Examples
        --------
        >>> listen = ["/ip4/127.0.0.1/tcp/0"]
        >>> findings = session.doctor(keys["north"], wait=1, no_mdns=True, listen=listen)
        >>> findings[-1]["could_start"], findings[-1]["ready"], findings[-1]["needed"]
        (False, 1, 3)
        """
        with self._file() as path:
            text, error = called("doctor", path, "--json", *options({"key": path_of(key), **given}))
        findings = [json.loads(line) for line in text.splitlines()]
        # The verdict that the session could not start is a finding, not an error.
        if error is not None and not (findings and findings[-1].get("check") == "verdict"):
            raise error
        return findings

    def forecast(self, rows):
        """Estimates the quality of the model of a private session, on synthetic rows.

        Parameters
        ----------
        rows : int
            Number of rows of each peer.

        Returns
        -------
        forecast : dict
            Forecast as `flyswarm session forecast --json` prints it.

        Raises
        ------
        ValueError
            If the session is not private.

        Examples
        --------
        >>> private = Session.new("wards", keys, features=4, classes=["ill", "well"], epsilon="0.001")
        >>> private.forecast(20)["useful"]
        False
        """
        with self._file() as path:
            return json.loads(call("session", "forecast", path, f"--rows={rows}", "--json"))

    def join(
        self,
        X=None,
        y=None,
        *,
        key,
        on_event=None,
        progress=False,
        label=None,
        listen=(),
        mdns=True,
        network_key=None,
        state=None,
        dataset=None,
        budget=None,
        strict=False,
        yes=False,
        addresses=None,
    ):
        """Joins the session until this peer has its result and no other peer needs this peer.

        Rows in memory are checked in the same way as `flyswarm join` checks a file. On Linux they stay in
        memory. Elsewhere they are written to a folder that only this user can read. That file is removed
        after the check, before any message is sent.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features), path, or None
            Rows of this peer. A path names a file that `flyswarm join` can read. None joins without rows.
        y : array-like of shape (n_samples,) or None
            Class of each row, by its name in the session. With the tasks "xclp" and "fedavg-xclp" the
            values None, NaN and "" mean unknown, and so does -1 unless it is a class.
        key : Identity or path
            Identity of this peer.
        on_event : callable or None
            Function that is called with each `Event`, in this thread. If it raises, the session ends and the
            exception is raised.
        progress : bool, default=False
            If True, shows events: in one cell of a notebook, or on standard error outside a notebook.
        label : str or None
            Label column, if X is a path.
        listen : sequence of str
            Addresses to listen on, such as "/ip4/0.0.0.0/tcp/4001".
        mdns : bool, default=True
            If True, looks for peers on the local network by mDNS.
        network_key : bytes or None
            Key of 32 bytes that all nodes of the network share.
        state : path or None
            Folder for the state of the session. None means next to the key.
        dataset, budget : str or None
            For a private session: name of the rows in the privacy ledger, and the most that these rows may
            have spent including this session.
        strict : bool, default=False
            If True, leaves the session before any rows are counted if a column of this peer looks wrong
            compared with those of the other peers.
        yes : bool, default=False
            If True, joins a private session even if its forecast is poor.
        addresses : mapping of str to str or None
            Addresses of peers by peer id, in addition to those of the session file. Entries that are added
            while the session runs are used too.

        Returns
        -------
        joined : Joined
            Estimator, receipt, result file and figures.

        Raises
        ------
        ValueError
            If an argument does not fit the session. No message was sent.
        SessionError
            If the session could not be finished.
        OSError
            If the disk or the network of this machine failed.
        LeftError
            If a signal made the peer leave.
        KeyboardInterrupt
            After Ctrl-C, when this peer has left. Its state is kept, so it can join again.

        Examples
        --------
        Rows that do not fit the session are refused before any message is sent:

        >>> session.join([[0.0, 1.0, 2.0]], ["ill"], key=keys["north"])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: X, line 1: 3 features..., expected 4
        """
        return self._join(
            None,
            X,
            y,
            key=key,
            on_event=on_event,
            progress=progress,
            label=label,
            listen=listen,
            mdns=mdns,
            network_key=network_key,
            state=state,
            dataset=dataset,
            budget=budget,
            strict=strict,
            yes=yes,
            addresses=addresses,
        )

    async def join_async(self, X=None, y=None, *, key, on_event=None, **given):
        """As `join`, for programs on asyncio. `on_event` is called in the thread of the event loop.

        If the task is cancelled, the peer leaves first, and then the cancellation continues.

        Parameters
        ----------
        X, y, key, on_event, **given
            As in `join`.

        Returns
        -------
        joined : Joined

        Raises
        ------
        ValueError, SessionError, OSError, LeftError
            As `join`.
        asyncio.CancelledError
            If the task was cancelled, after the peer has left.

        Examples
        --------
        >>> import asyncio
        >>> joining = session.join_async([[0.0, 1.0, 2.0, 3.0]], ["sick"], key=keys["north"])
        >>> asyncio.run(joining)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: X...: ..."sick"...
        """
        loop, stop = asyncio.get_running_loop(), threading.Event()

        async def called(event):
            on_event(event)

        def told(event):
            if not stop.is_set():
                asyncio.run_coroutine_threadsafe(called(event), loop).result()

        given["on_event"] = told if on_event is not None else None
        # The loop must stay free while the thread runs, because the thread waits for callbacks on the loop.
        task = asyncio.ensure_future(asyncio.to_thread(self._join, stop, X, y, key=key, **given))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([task])
            raise

    def _join(
        self, stop, X, y, *, key, on_event=None, progress=False, label=None, addresses=None, listen=(),
        mdns=True, network_key=None, state=None, dataset=None, budget=None, strict=False, yes=False,
        trainer=None,
    ):  # fmt: skip
        """Joins as `join` does, until `stop` is set. `trainer` is the trainer of `FedAvg`."""
        rows = None if X is None else self._rows(X, y, label)
        if rows is not None and rows.said:
            LOG.info("%s", rows.said)
        running = _flyswarm.Running.start(
            self.text,
            path_of(key),
            rows,
            listen=list(listen),
            mdns=mdns,
            network_key=network_key,
            state=state,
            dataset=dataset,
            budget=None if budget is None else str(budget),
            strict=strict,
            yes=yes,
            trainer=None if trainer is None else calls(trainer),
            weights=None if trainer is None else _tensors.write(trainer.get_weights()),
        )
        shown = Progress(self.name) if progress else contextlib.nullcontext()
        callbacks = [call for call in (shown if progress else None, on_event) if call is not None]
        with leaving(running), shown:
            told = set()
            while True:
                for place in set((addresses or {}).items()) - told:
                    running.add_address(*place)
                    told.add(place)
                found = running.next(TICK)
                if stop is not None and stop.is_set():
                    raise _flyswarm.LeftError("stopped")
                if found is None:
                    continue
                content, text, ended = found
                if ended is not None:
                    return self._joined(json.loads(content), *ended)
                fields = json.loads(content)
                event = Event(fields.pop("event"), fields.pop("time"), fields, text)
                if event.kind == "warning":
                    warnings.warn(event.fields["message"], SessionWarning, stacklevel=3)
                LOG.info("%s", text, extra={"event": event.kind})
                for callback in callbacks:
                    callback(event)

    def _joined(self, receipt, file, learnt):
        estimator, figures = result(self.task, file, self.classes, receipt, learnt)
        return Joined(estimator, receipt, file, figures)

    def _rows(self, X, y, label):
        """Returns the rows after the checks that `flyswarm join` applies to a file."""
        if isinstance(X, (str, os.PathLike)):
            return _flyswarm.SessionRows.read(self.text, X, label, os.fspath(X), False)
        labels = None if y is None else self._labels(y)
        frame = hasattr(X, "columns")
        table = tomllib.loads(self.text).get("table")
        if frame and table is not None:
            # The session describes the columns, so the frame is written unchanged, including texts and
            # missing values.
            named = table.get("label", "label")
            write, name, label = lambda path: write_table(path, X, labels, named), "rows.csv", None
        else:
            columns = [str(column) for column in X.columns] if frame else None
            write, name = lambda path: write_arrays(path, X, labels, columns), "rows.npz"
            label = "none" if labels is None else "last"
        with temporary(write, name) as path:
            try:
                return _flyswarm.SessionRows.read(self.text, path, label, "X", True)
            except ValueError as error:
                raise ValueError(str(error).replace(str(path), "X")) from None

    def _labels(self, y):
        """Returns labels as texts, with an empty text for an unknown label."""
        known = set(self.classes)
        unknown = lambda label: label is None or label != label or (str(label) == "-1" and "-1" not in known)
        return ["" if unknown(label) else str(label) for label in np.asarray(y, dtype=object).tolist()]

    def _file(self):
        """Returns a temporary file of this session."""
        return temporary(lambda path: path.write_text(self.text, "utf-8"), "session.toml")


@contextlib.contextmanager
def leaving(running):
    """Leaves the session after an exception in the block, and waits until it has ended."""
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
