"""Runs all peers of a session in this process."""

import contextlib
import queue
import re
import shutil
import tempfile
import threading
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path

from flyswarm._arguments import flag, function, pair, suggests
from flyswarm._events import Progress, SessionWarning
from flyswarm._identity import Identity
from flyswarm._joining import TICK
from flyswarm._session import Session
from flyswarm._training import FedAvg

LOOPBACK = ["/ip4/127.0.0.1/tcp/0"]


class Federation(list):
    """Results of `local`: a `Joined` for each peer, in the order of the parts.

    Attributes
    ----------
    names : list of str
        Names of the peers.
    session : Session
        The session of this run, with new keys.

    Examples
    --------
    >>> Federation([], [], None).table()
    'no rounds'
    """

    def __init__(self, results, names, session):
        super().__init__(results)
        self.names, self.session = names, session

    def table(self):
        """Returns the loss and accuracy of each round as a table, or the headline of a model.

        Returns
        -------
        table : str

        Examples
        --------
        >>> figures = {"rounds": [{"loss": 0.5, "accuracy": 0.75}]}
        >>> print(Federation([Joined(None, {}, b"", figures)], ["north"], None).table())
        round   loss  accuracy
            1  0.500     0.750
        """
        figures = self[0].figures if self else {}
        lines = [
            f"{number:5}  {found['loss']:5.3f}  {found['accuracy']:8.3f}"
            for number, found in enumerate(figures.get("rounds", []), 1)
        ]
        if lines:
            return "\n".join(["round   loss  accuracy", *lines])
        return figures.get("headline", "no rounds")


@suggests(Session.join, without=("key",))
def local(session, parts, *, trainers=None, progress=False, on_event=None, **given):
    """Runs a whole federation on this machine: all peers of a session, each with its part of the rows.

    Each peer is a real node that is connected to the others over loopback. The peers have new keys; the
    settings of the session stay the same. No file stays on the disk unless the session fails after a round of
    training. Then the file `NAME.round` in the working directory has the common weights of the last round,
    and the error names this file. An earlier file of this name is renamed to `NAME.before.round`.

    Parameters
    ----------
    session : Session
        The session. Its peer ids are replaced.
    parts : sequence of (X, y), or mapping of peer to (X, y)
        Rows and labels of each peer, as in `Session.join`: one part for each peer of the session. A sequence
        has the parts in the alphabetical order of the peers' names.
    trainers : sequence, mapping or None
        Task "fedavg": for each peer a trainer, as in `FedAvg`, or a `FedAvg` object. None uses the built-in
        learner.
    progress : bool, default=False
        If True, shows the events of the first peer: in one cell of a notebook, or on standard error. At the
        end it shows the table of rounds.
    on_event : callable or None
        Function that is called with the name of the peer and each `Event`, in this thread.
    **given
        Other arguments of `Session.join`, such as `strict=True`.

    Returns
    -------
    results : Federation
        A list with a `Joined` for each peer.

    Raises
    ------
    ValueError
        If the parts do not match the number or the names of the session's peers.
    BaseException
        The exception of the first peer that failed, with the name of the peer as a note. The other peers
        leave. If the exception's text does not name the file of weights, a further note does.

    Examples
    --------
    >>> X, y = [[0.0, 0.0], [1.0, 1.0]] * 20, ["low", "high"] * 20
    >>> session = Session.new("wards", keys, features=2, classes=["low", "high"], no_evaluate=True)
    >>> results = local(session, [(X, y)] * 3)
    >>> results[0].estimator.predict([[0.0, 0.0], [1.0, 1.0]])
    array(['low', 'high'], dtype='<U4')
    """
    if not isinstance(session, Session):
        raise TypeError(f"session is {session!r}, expected a Session")
    roster = [peer["name"] for peer in tomllib.loads(session.text)["roster"]]
    names = sorted(roster)
    parts = by_name("parts", parts, names)
    parts = {name: pair(f"the part of {name}", part) for name, part in parts.items()}
    progress, on_event = flag("progress", progress), function("on_event", on_event)
    trainers = None if trainers is None else by_name("trainers", trainers, names)
    with tempfile.TemporaryDirectory(prefix="flyswarm-") as folder:
        keys = {name: new_key(Path(folder) / str(at)) for at, name in enumerate(names)}
        made = Session(with_ids(session.text, [keys[name].peer_id for name in roster]))
        try:
            return Federation(run(made, keys, parts, trainers, progress, on_event, given), names, made)
        except BaseException as error:
            keep_rounds(Path(folder), Path(f"{made.name}.round").absolute(), error)
            raise


def keep_rounds(folder, path, error):
    """Moves the weights of the last round from the keys' folder to `path`. The error then names `path`."""
    files = sorted(folder.glob("*/*.round"), key=lambda file: file.stat().st_mtime_ns)
    if not files:
        return
    try:
        if path.exists():
            path.replace(path.with_suffix(".before.round"))
        shutil.copyfile(files[-1], path)
    except OSError as problem:
        path = Path(tempfile.mkdtemp(prefix="flyswarm-")) / path.name
        error.add_note(f"the weights of the last round could not be written here: {problem}")
        shutil.copyfile(files[-1], path)
    if error.args and isinstance(error.args[0], str):
        text = error.args[0]
        for file in files:
            text = text.replace(str(file), str(path))
        error.args = (text, *error.args[1:])
    if str(path) not in str(error):
        advice = "`initial` of Session.new starts from them"
        error.add_note(f"the weights of the last round are in {path}; {advice}")


def new_key(folder):
    """Makes a key in its own folder, because a peer's state is next to its key."""
    folder.mkdir()
    return Identity.new(folder / "key")


def by_name(what, values, names):
    """Returns a value for each name. Raises ValueError if the number of values or their names differ."""
    if isinstance(values, Mapping):
        if {*values} != {*names}:
            raise ValueError(f"{what} has the names {sorted(values)}, expected {sorted(names)}")
        return {name: values[name] for name in names}
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{what} is {values!r}, expected a list with an entry for each peer, or a mapping")
    values = list(values)
    if len(values) != len(names):
        raise ValueError(f"{what} has {len(values)} entries, expected one for each of {len(names)} peers")
    return dict(zip(names, values, strict=True))


def with_ids(text, ids):
    """Returns the text of a session file with other peer ids in its roster, and without addresses."""
    head, *peers = re.split(r"(?m)^\[\[roster\]\]$", text)
    out = [head]
    for peer, own in zip(peers, ids, strict=True):
        peer = re.sub(r'(?m)^peer_id = ".*"$', f'peer_id = "{own}"', peer)
        out.append(re.sub(r"(?ms)^addresses = \[.*?\]$", "addresses = []", peer))
    return "[[roster]]".join(out)


def run(session, keys, parts, trainers, progress, on_event, given):
    """Joins with all peers. Returns their results, or raises the exception of the first peer that failed."""
    results, happened, addresses, stop = {}, queue.Queue(), {}, threading.Event()

    def peer(name):
        def tell(event):
            if event.kind == "listening":
                addresses[keys[name].peer_id] = event.fields["address"]
            happened.put((name, event))

        X, y = parts[name]
        options = {"key": keys[name], "on_event": tell, "listen": LOOPBACK, "mdns": False, **given}
        options["quiet"] = True
        options["addresses"] = addresses
        try:
            if trainers is None:
                results[name] = session._join(stop, X, y, **options)
            else:
                own = trainers[name]
                trainer = own.trainer if isinstance(own, FedAvg) else own
                results[name] = FedAvg(session, trainer)._join(stop, X, y, **options)
        except BaseException as error:
            error.add_note(f"peer {name}")
            happened.put((name, error))
        happened.put((name, None))

    threads = [threading.Thread(target=peer, args=(name,), name=name) for name in keys]
    shown = Progress(session.name) if progress else contextlib.nullcontext()
    first, failed = next(iter(keys)), None
    try:
        for thread in threads:
            thread.start()
        left = len(threads)
        with shown:
            while left:
                try:
                    name, event = happened.get(timeout=TICK)
                except queue.Empty:
                    continue
                if event is None:
                    left -= 1
                elif isinstance(event, BaseException):
                    failed = failed or event
                    stop.set()
                else:
                    if event.kind == "warning":
                        warnings.warn(f"{name}: {event.fields['message']}", SessionWarning, stacklevel=4)
                    if progress and name == first:
                        shown(event)
                    if on_event is not None:
                        on_event(name, event)
            if progress and failed is None:
                shown("\n" + Federation([results[first]], [first], session).table())
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if failed is not None:
        raise failed
    return [results[name] for name in keys]
