"""Keys, and the privacy ledger next to each key."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyswarm import _flyswarm
from flyswarm._arguments import path_text
from flyswarm._program import call


@dataclass(frozen=True)
class Identity:
    """A key file and the peer id of its owner.

    Attributes
    ----------
    path : pathlib.Path
        The key file. Ledger, marks and state are stored next to it.
    peer_id : str
        The libp2p peer id, as in session files.

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
        """Makes a key file. Never overwrites a file.

        Parameters
        ----------
        path : path or None
            The file to write. None means the default path of the program.

        Returns
        -------
        identity : Identity

        Raises
        ------
        ValueError
            If the key file already exists.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = Identity.new(f"{folder}/wards.key")
        >>> made.path.name, len(made.peer_id)
        ('wards.key', 52)
        """
        found = json.loads(call("id", key=path_text("path", path)))
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
            If the file is not a key file, cannot be read, or other users may read it.

        Examples
        --------
        `keys` is a dict of identities by name, as in the examples of `Session`.

        >>> Identity.load(keys["north"].path) == keys["north"]
        True
        """
        return cls(Path(path), _flyswarm.peer_id(path))


def path_of(key):
    """Returns the path of the key file, from an identity or a path."""
    return key.path if isinstance(key, Identity) else key


@dataclass(frozen=True)
class Ledger:
    """Privacy ledger: the budget that private sessions have spent of the data sets of an identity.

    Attributes
    ----------
    path : pathlib.Path
        The ledger file.
    datasets : list of dict
        For each data set: its name, the budget spent, and the number of sessions on secret shares.
    charges : list of dict
        All entries of the ledger.

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
        """Reads the ledger next to a key file.

        Parameters
        ----------
        key : Identity or path or None
            The key. None means the default key of the program.

        Returns
        -------
        ledger : Ledger
            Empty if no budget was spent.

        Raises
        ------
        ValueError
            If the ledger is damaged.
        OSError
            If the ledger cannot be read.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger.read(Identity.new(f"{folder}/wards.key"))
        >>> ledger.datasets, ledger.charges
        ([], [])
        """
        found = json.loads(call("ledger", key=path_text("key", path_of(key))))
        return cls(Path(found["ledger"]), found["datasets"], found["charges"])
