"""Keys, and the ledger beside each of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyswarm import _flyswarm
from flyswarm._program import call, options


@dataclass(frozen=True)
class Identity:
    """A key file and the name that others know its owner by.

    Attributes
    ----------
    path : pathlib.Path
        The key file. Ledger, marks and state are kept beside it.
    peer_id : str
        The libp2p name, for session files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> made = Identity.new(pathlib.Path(folder.name) / "wards.key")
    >>> made == Identity.load(made.path), made.peer_id[:8]
    (True, '12D3KooW')
    >>> folder.cleanup()
    """

    path: Path
    peer_id: str

    @classmethod
    def new(cls, path=None):
        """Makes a key file. Never overwrites one.

        Parameters
        ----------
        path : path or None
            The file; None is the program's usual place.

        Returns
        -------
        identity : Identity

        Raises
        ------
        ValueError
            If there is a key file already.
        OSError
            If none can be written.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = Identity.new(f"{folder}/wards.key")
        >>> made.path.name, len(made.peer_id)
        ('wards.key', 52)
        """
        found = json.loads(call("id", "--new", "--json", *options({"key": path})))
        return cls(Path(found["key"]), found["peer_id"])

    @classmethod
    def load(cls, path):
        """Reads a key file.

        Parameters
        ----------
        path : path
            A key file that only its owner may read.

        Returns
        -------
        identity : Identity

        Raises
        ------
        ValueError
            If it is no key file, cannot be read, or other users may read it.

        Examples
        --------
        `keys` are identities by name, as in the examples of `Session`.

        >>> Identity.load(keys["north"].path) == keys["north"]
        True
        """
        return cls(Path(path), _flyswarm.peer_id(path))


def path_of(key):
    """The key file of an identity, or the path that was given."""
    return key.path if isinstance(key, Identity) else key


@dataclass(frozen=True)
class Ledger:
    """What the data sets of an identity have spent in private sessions.

    Attributes
    ----------
    path : pathlib.Path
        The ledger.
    datasets : list of dict
        Of each data set its name, what was spent, and how many sessions of the task xclp it was in.
    charges : list of dict
        Every entry.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> Ledger.read(Identity.new(pathlib.Path(folder.name) / "wards.key")).charges
    []
    >>> folder.cleanup()
    """

    path: Path
    datasets: list[dict[str, Any]]
    charges: list[dict[str, Any]]

    @classmethod
    def read(cls, key):
        """The ledger beside a key.

        Parameters
        ----------
        key : Identity or path or None
            The key; None is the program's usual one.

        Returns
        -------
        ledger : Ledger
            Empty if nothing was spent.

        Raises
        ------
        ValueError
            If it is damaged.
        OSError
            If it cannot be read.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger.read(Identity.new(f"{folder}/wards.key"))
        >>> ledger.datasets, ledger.charges
        ([], [])
        """
        found = json.loads(call("ledger", "--json", *options({"key": path_of(key)})))
        return cls(Path(found["ledger"]), found["datasets"], found["charges"])
