"""Makes, shows, checks and joins sessions."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Generic

from flyswarm import _flyswarm
from flyswarm._arguments import (
    flag,
    in_words_of_python,
    label_of,
    path_text,
    suggests,
    texts,
    whole,
)
from flyswarm._identity import path_of
from flyswarm._joining import Result, join, rows_of
from flyswarm._new import new_session
from flyswarm._program import call, called


class Session(Generic[Result]):
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
        self._shown = json.loads(_flyswarm.settings(text))

    @classmethod
    @suggests()
    def new(
        cls,
        name,
        peers,
        task="flynn",
        *,
        features=None,
        classes=None,
        from_=None,
        label=None,
        group=None,
        map=None,
        min_rows=None,
        epsilon=None,
        network=None,
        hidden=None,
        rounds=None,
        initial=None,
        after=None,
        refresh=None,
        paper_settings=False,
        settings=None,
        tuning=None,
        candidates=None,
        no_evaluate=False,
        hash=None,
        open_distances=False,
        pairwise=False,
        choose=None,
        hamming=None,
        balance=False,
        few_rows=False,
        large_owner=False,
        set=None,
        data=None,
        evaluate=None,
        flynn=None,
        tune=None,
        xclp=None,
        pseudo_labels=None,
        sketch=None,
        fedavg=None,
        custom=None,
        privacy=None,
        timing=None,
        limits=None,
    ):
        """Makes a session. `flyswarm session new TASK --help` explains the arguments of each task.

        Parameters
        ----------
        name : str
            Name of the session.
        peers : mapping of str to str or Identity
            Names of at least three peers with their peer ids, or with "ID@MULTIADDR" if an address is known.
        task : str
            Name of the task: "flynn", "tune", "xclp", "sketch", "fedavg" or "fedavg-xclp".
        features : int, iterable of names, or None
            Number of features, or names of all features. If you give names, rows with column names must have
            the same names.
        classes : iterable of labels, str, or None
            The classes of all peers. A text is a range such as "0..9", or a list of names separated by
            commas.
        from_, label, group, map, min_rows
            Description of the columns: a file of rows, its label column (as in `join`), the column that
            groups rows, a map file, and the smallest number of rows with a text that other peers may see.
        epsilon : float or None
            Budget of differential privacy.
        network, hidden, rounds, initial, after, refresh
            Task "fedavg": the network, the units of its hidden layers, the number of rounds, and the network
            file to start from. The task "fedavg-xclp" also has `after` and `refresh`.
        paper_settings, settings, tuning, candidates, no_evaluate
            Tasks "flynn" and "tune": the source of the settings, and whether rows are held out.
        hash, open_distances, pairwise, choose
            Task "sketch".
        hamming, balance, few_rows, large_owner
            Task "xclp".
        set, data, evaluate, flynn, tune, xclp, pseudo_labels, sketch, fedavg, custom, privacy, timing, limits
            Mappings with the fields of a section, such as `timing={"start_wait_ms": 5000}`.
            `set={"min_peers": 3}` sets fields before the first section.

        Returns
        -------
        session : Session

        Raises
        ------
        ValueError
            If an argument is out of range, does not fit the task, or a field is unknown.
        TypeError
            If an argument is unknown or has a wrong type.

        Examples
        --------
        >>> Session.new("wards", keys, features=4, classes=["ill", "well"])
        Session('wards', task='flynn')
        """
        # `locals()` must be called before any other local name is set.
        given = dict(locals())
        return cls(new_session(name, peers, task, given))

    @classmethod
    @suggests()
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
        call("check", file=path_text("path", path, needed=True))
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
        """Returns all settings, including those with default values.

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
        """Name of the task, such as "flynn" or "fedavg".

        Examples
        --------
        >>> session.task
        'flynn'
        """
        return self._shown["task"]

    def __repr__(self):
        return f"Session({self.name!r}, task={self.task!r})"

    @suggests()
    def doctor(
        self,
        key=None,
        *,
        wait=None,
        listen=(),
        no_mdns=False,
        network_key=None,
        state=None,
        out=None,
        data=None,
        map=None,
        label=None,
    ):
        """Checks whether the session could start now, as `flyswarm doctor` does.

        Parameters
        ----------
        key : Identity or path or None
            Key of this peer. None means the default key of the program.
        wait : int or None
            Maximum time in seconds to look for the other peers, 1 to 3600; None means 15.
        listen : sequence of str
            Addresses to listen on.
        no_mdns : bool, default=False
            If True, does not look for peers by mDNS.
        network_key, state, out : path or None
            File of the network key, state folder and result file of `flyswarm join`.
        data, map, label
            File of rows to check, its map file and its label column.

        Returns
        -------
        findings : list of dict
            Findings with `level`, `check`, `peer`, `text` and `advice`. The last finding is the verdict, with
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
        text, error = called(
            "doctor",
            session=self.text,
            key=path_text("key", path_of(key)),
            wait=None if wait is None else whole("wait", wait, 1, 3600, strict=True),
            listen=texts("listen", listen),
            no_mdns=flag("no_mdns", no_mdns),
            network_key=path_text("network_key", network_key),
            state=path_text("state", state),
            out=path_text("out", out),
            data=path_text("data", data),
            map=path_text("map", map),
            label=label_of(label),
        )
        findings = [json.loads(line) for line in text.splitlines()]
        for found in findings:
            words = [name for name in ("text", "advice") if name in found]
            found.update({name: in_words_of_python(found[name]) for name in words})
        # If the session could not start now, that is a finding, not an error.
        if error is not None and not (findings and findings[-1].get("check") == "verdict"):
            raise error
        return findings

    @suggests()
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
        return json.loads(call("forecast", session=self.text, rows=whole("rows", rows, strict=True)))

    @suggests()
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
        map=None,
        drop=(),
        initial=None,
        hold_out=None,
        metrics=None,
        page=None,
        trace=None,
        personalise=False,
    ):
        """Joins the session until this peer has its result and no other peer needs this peer.

        Rows in memory are checked in the same way as `flyswarm join` checks a file, and stay in memory.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features), path, or None
            Rows of this peer, or the path of a file that `flyswarm join` can read. None means to join without
            rows.
        y : array-like of shape (n_samples,) or None
            Class of each row: a label whose text is the name of a class of the session. The result has labels
            of the same type. In the tasks "xclp" and "fedavg-xclp" the values None, NaN and "" mean an
            unknown label, and so does -1 unless it is a class.
        key : Identity or path
            Identity of this peer.
        on_event : callable or None
            Function that is called with each `Event`, in this thread. If the function raises an exception,
            this peer leaves, and `join` raises the exception.
        progress : bool, default=False
            If True, shows events: in one cell of a notebook, or on standard error outside a notebook.
        label : str, int or None
            Label column, if X is a path: its name, its number from 1, "last" or "none".
        listen : sequence of str
            Addresses to listen on, such as "/ip4/0.0.0.0/tcp/4001".
        mdns : bool, default=True
            If True, looks for peers on the local network by mDNS.
        network_key : bytes or None
            Key of 32 bytes that all nodes of the network share.
        state : path or None
            Folder for the state of the session. None means next to the key.
        dataset : str or None
            For a private session: name of the rows in the privacy ledger.
        budget : float or None
            For a private session: the maximum that these rows may have spent in total, including this
            session.
        strict : bool, default=False
            If True and a column of this peer differs suspiciously from the other peers' columns, the peer
            leaves before the result counts its rows.
        yes : bool, default=False
            If True, joins a private session even if its forecast is poor.
        addresses : mapping of str to str or None
            Addresses of peers by peer id, in addition to those of the session file. Entries that are added
            while the session runs are used too.
        map : path or None
            Map file, as for `flyswarm join`: how the rows of this peer differ from the session.
        drop : sequence of str
            Names of columns to leave out.
        initial : path or None
            Network file that a session of the task "fedavg" with the field `initial` starts from.
        hold_out : int or None
            Task "xclp": percentage of this peer's labels that are hidden from the session, 1 to 50. `figures`
            has the quality on these rows, which only this peer sees.
        metrics : int, str or None
            Port or "ADDRESS:PORT" that serves metrics for Prometheus while the session runs.
        page : int, str or None
            Port or "ADDRESS:PORT" of a page that shows the running session in a browser; port 0 selects a
            free port. The event "page" has the page's address, which contains a secret and is also printed.
            At the end `joined.page` has the page with all events.
        trace : path or None
            New file that gets all messages of this peer, for `flyswarm-conform`. Only this user can read it.
        personalise : bool, default=False
            Task "fedavg": if True, `joined.personal` is a personal classifier from the network and this
            peer's rows, as made by `Network.personalise`.

        Returns
        -------
        joined : Joined
            Estimator, receipt, result file and figures.

        Raises
        ------
        ValueError
            If an argument does not fit the session. In this case no message was sent.
        SessionError
            If the session could not be finished. In the task "fedavg" a file next to the key then has the
            weights of the last round; the error text names this file.
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
            map=map,
            drop=drop,
            initial=initial,
            hold_out=hold_out,
            metrics=metrics,
            page=page,
            trace=trace,
            personalise=personalise,
        )

    @suggests(join)
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
        return await self._join_async(X, y, key=key, on_event=on_event, **given)

    async def _join_async(self, X, y, *, key, on_event=None, **given):
        loop, stop = asyncio.get_running_loop(), threading.Event()

        async def called(event):
            on_event(event)

        def told(event):
            if not stop.is_set():
                asyncio.run_coroutine_threadsafe(called(event), loop).result()

        given["on_event"] = told if on_event is not None else None
        # This wait must not block the event loop, because the thread waits for callbacks that run on the
        # loop.
        task = asyncio.ensure_future(asyncio.to_thread(self._join, stop, X, y, key=key, **given))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([task])
            raise

    def _join(self, stop, X, y, **given):
        return join(self, stop, X, y, **given)

    def _rows(self, X, y, label, map=None, drop=()):
        return rows_of(self, X, y, label, map, drop)
