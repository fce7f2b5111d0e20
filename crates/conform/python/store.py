"""State that must survive a restart (spec, section 10).

Each record has its own file, which ends with a checksum. A record is written to a new file, synced and
renamed, and the folder is synced.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections import namedtuple
from pathlib import Path
from typing import Any

from primitives import encoding
from primitives.encoding import Ballot, Malformed, decode

# `Small` has the values that every peer keeps, and the traces from committee members.
encoding.define("""
Small         { promised: Ballot, joined: Ballot, lost_state: bool, traces: Vec<(peer, Trace)> }
AcceptedState { ballot: Ballot, record: Record, total: Vec<u8> }
ReleasedState { slot: u32, value: [u8; 32], decision: Vec<Signed<Acknowledgement>> }
CommittedState   { committed: Committed, total: Vec<u8> }
""")
Small, AcceptedState, ReleasedState, CommittedState = (
    encoding.TYPES[name] for name in ("Small", "AcceptedState", "ReleasedState", "CommittedState"))
Loaded = namedtuple("Loaded", "small accepted released committed")
NOTHING = Small(Ballot(0, 0), Ballot(0, 0), False, [])


class Store:
    def __init__(self, root: str, public: bytes, session_id: bytes) -> None:
        self.folder = Path(root).resolve() / f"{session_id.hex()}-{public.hex()[:16]}"
        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        for folder in list(self.folder.parents)[:2]:
            sync_folder(folder)
        self.lock = open(self.folder / "lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OSError(f"{self.folder} is in use by another process") from None

    def write(self, name: str, data: bytes) -> None:
        write_whole(self.folder / name, data + hashlib.sha256(data).digest())

    def read(self, name: str, kind: str) -> Any:
        """Returns the stored value, or None."""
        path = self.folder / name
        if not path.exists():
            return None
        stored = path.read_bytes()
        data = stored[:-32]
        try:
            if hashlib.sha256(data).digest() != stored[-32:]:
                raise Malformed("another checksum")
            return decode(kind, data, len(data))
        except Malformed as error:
            raise OSError(f"{path} is damaged: {error}") from None

    def load(self) -> Loaded:
        committed: list[Any] = []
        while (state := self.read(f"committed-{len(committed)}", "CommittedState")) is not None:
            committed.append(state)
        return Loaded(self.read("small", "Small") or NOTHING, self.read("accepted", "AcceptedState"),
                      self.read("released", "ReleasedState"), committed)


def write_whole(path: Path, data: bytes) -> None:
    """Replaces a file and syncs it, so that a reader sees either the old or the new content."""
    beside = path.with_name(path.name + ".new")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
