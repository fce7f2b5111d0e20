"""Sessions: made, looked at, and taken part in."""

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

# Most seconds that a wait takes before Ctrl-C is handled.
TICK = 0.1


@dataclass(frozen=True)
class Joined:
    """What a session came to. `estimator, receipt = session.join(...)` takes the first two.

    Attributes
    ----------
    estimator : FlyNNClassifier, Network, Labels or None
        By the task: "flynn" a fitted classifier, "fedavg" and "fedavg-xclp" the network, "xclp" labels of own
        rows, "tune" a classifier with the best setting that is not fitted. None with "sketch", and for a peer
        without rows.
    receipt : dict
        What this peer can show of the session.
    file : bytes
        The result's file, as `flyswarm join` writes it; empty for a peer without rows.
    figures : dict
        With "flynn" how good the model is: `headline`, a sentence, `warnings`, and in `pooled` the figures of
        all held-out rows. With a network loss and accuracy: `rounds`, a list, and `scores`, those of the last
        weights; if the session holds rows out also what "flynn" has. With "tune" the best setting; with
        "sketch" the common sketch and distances, as its file has them. Else empty.

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
        """Which of the opened sums hold this peer's rows, in a sentence.

        `receipt["own_rows"]` has their names.

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
    """What is computed together, by whom, and within which limits.

    Attributes
    ----------
    text : str
        The session file.

    Raises
    ------
    ValueError
        If the text is no session file.

    Examples
    --------
    In the examples of the methods `keys` and `session` are these, with the keys in a folder that stays:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keys = {name: Identity.new(f"{folder}/{name}") for name in ("north", "south", "east")}
    >>> session = Session.new("wards", keys, features=4, classes=["ill", "well"])
    >>> session.name, session.classes
    ('wards', ['ill', 'well'])
    """

    def __init__(self, text):
        """Reads the text of a session file. Raises ValueError if it is none."""
        self.text = text
        with self._file() as path:
            self._shown = json.loads(call("session", "show", "--json", path))

    @classmethod
    def new(cls, name, peers, task="flynn", **given):
        """Makes a session.

        Parameters
        ----------
        name : str
            What people call it.
        peers : mapping of str to str or Identity
            The peer id of each name, at least three; "ID@MULTIADDR" where an address is known.
        task : str
            What is computed, as `flyswarm session new --help` lists it.
        **given
            The options of `flyswarm session new TASK`, with underscores: `features=30`, `classes=[...]`,
            `epsilon=1`. A mapping sets fields of the section of its name, such as
            `timing={"start_wait_ms": 5000}`; `set={"min_peers": 3}` sets fields before the first section.

        Returns
        -------
        session : Session

        Raises
        ------
        ValueError
            In the words of the command.

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
            If it is no session file, or cannot be read.

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
        """Writes the session file. Never overwrites one.

        Parameters
        ----------
        path : path
            A file that is not there yet.

        Raises
        ------
        OSError
            If there is something already, or it cannot be written.

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
        """All settings, with defaults filled in.

        Returns
        -------
        settings : dict
            As `flyswarm session show --json` prints them; times are in milliseconds.

        Examples
        --------
        >>> settings = session.show()
        >>> settings["name"], settings["data"]["classes"]
        ('wards', ['ill', 'well'])
        """
        return json.loads(json.dumps(self._shown))

    @property
    def name(self):
        """What people call the session, a str.

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
        """What is computed: "flynn", "xclp", "sketch", "fedavg", "fedavg-xclp" or "tune".

        Examples
        --------
        >>> session.task
        'flynn'
        """
        return self._shown["task"]

    def __repr__(self):
        return f"Session({self.name!r}, task={self.task!r})"

    def doctor(self, key=None, **given):
        """What would go wrong if the session were started now, as `flyswarm doctor` finds it.

        Parameters
        ----------
        key : Identity or path or None
            This peer's key; the program's usual one where none is named.
        **given
            The options of `flyswarm doctor`, such as `wait=15` (seconds) and `no_mdns=True`.

        Returns
        -------
        findings : list of dict
            With `level`, `check`, `peer`, `text` and `advice`; the last one is the verdict, with
            `could_start`, `ready` and `needed`.

        Raises
        ------
        ValueError, OSError
            If it cannot look at all.

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
        # The verdict that no session could start is a finding, not an error.
        if error is not None and not (findings and findings[-1].get("check") == "verdict"):
            raise error
        return findings

    def forecast(self, rows):
        """How good the model of a private session may be, on made-up rows.

        Parameters
        ----------
        rows : int
            Rows that a peer has.

        Returns
        -------
        forecast : dict
            As `flyswarm session forecast --json` prints it.

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
        """Takes part in the session until this peer has its result and nobody needs it any more.

        Rows in memory are checked as `flyswarm join` checks a file. On Linux they stay in memory; elsewhere
        they lie in a folder that only this user can read until they are checked, before anything is sent.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features), path, or None
            This peer's rows; a path is a file that `flyswarm join` can read. None to join without rows.
        y : array-like of shape (n_samples,) or None
            The class of each row, by its name in the session. With the tasks "xclp" and "fedavg-xclp"
            None, NaN and "" stand for unknown, and so does -1 unless it is a class.
        key : Identity or path
            Who this peer is.
        on_event : callable or None
            Called with each `Event`, in this thread. Its exception ends the session and is raised.
        progress : bool, default=False
            Shows what happens: in a notebook in one cell, else on standard error.
        label : str or None
            Where X is a path: the label column.
        listen : sequence of str
            Addresses to listen on, such as "/ip4/0.0.0.0/tcp/4001".
        mdns : bool, default=True
            Whether to look for peers on the local network.
        network_key : bytes or None
            32 bytes that all nodes of the network share.
        state : path or None
            The folder under which the session's state is kept; beside the key where none is named.
        dataset, budget : str or None
            What the rows of a private session are called in the ledger, and what they may have spent then.
        strict : bool, default=False
            Whether to leave where a column looks wrong beside those of the others.
        yes : bool, default=False
            Whether to join a private session whatever its forecast.
        addresses : mapping of str to str or None
            Where peers can be reached, by peer id, beside what the session file says; what is added to it
            while the session runs counts too.

        Returns
        -------
        joined : Joined
            The fitted estimator, the receipt, the result's file, and figures.

        Raises
        ------
        ValueError
            Something that was given does not fit the session. Nothing was sent.
        SessionError
            The session could not be finished.
        OSError
            The disk or the network of this machine failed.
        LeftError
            The peer was told to leave by a signal.
        KeyboardInterrupt
            After Ctrl-C, when this peer has left. Its state is kept: it can join again.

        Examples
        --------
        Rows that do not fit are refused before anything is sent:

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
        """As `join`, for programs on asyncio: `on_event` is called in the event loop's thread.

        Cancelled, the peer leaves, and the cancellation goes on when it has left.

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
            If the task was cancelled, once the peer has left.

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
        # A callback that is awaited from the loop must not wait for the thread that calls it.
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
        """As `join`, until `stop` is set; `trainer` is that of `FedAvg`."""
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
        """The rows, checked as `flyswarm join` checks a file."""
        if isinstance(X, (str, os.PathLike)):
            return _flyswarm.SessionRows.read(self.text, X, label, os.fspath(X), False)
        labels = None if y is None else self._labels(y)
        frame = hasattr(X, "columns")
        table = tomllib.loads(self.text).get("table")
        if frame and table is not None:
            # The session describes the columns, so the frame is written unchanged, with its texts and
            # gaps.
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
        """Labels as texts; empty where unknown."""
        known = set(self.classes)
        unknown = lambda label: label is None or label != label or (str(label) == "-1" and "-1" not in known)
        return ["" if unknown(label) else str(label) for label in np.asarray(y, dtype=object).tolist()]

    def _file(self):
        """A file of this session that goes away again."""
        return temporary(lambda path: path.write_text(self.text, "utf-8"), "session.toml")


@contextlib.contextmanager
def leaving(running):
    """Leaves a session and waits for the end, however it is left."""
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
