"""What must survive a restart, and how it is written (spec, section 10).

One file a record: written beside, synced, renamed, and the folder synced. Each ends with a checksum.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from typing import NamedTuple

from encoding import Acknowledgement, B32, Ballot, Frozen, Malformed, Peer, Raw, Record, Signed, TRACE, U32
from encoding import canonical, decode


class Kept(NamedTuple):
    peer: Peer
    trace: TRACE


class Small(NamedTuple):
    """`promised`, `joined`, whether the state was lost, and how council members have shown themselves."""

    promised: Ballot
    joined: Ballot
    lost_state: bool
    traces: list[Kept]


class AcceptedState(NamedTuple):
    ballot: Ballot
    record: Record
    total: Raw


class ReleasedState(NamedTuple):
    slot: U32
    value: B32
    decision: list[Signed[Acknowledgement]]


class FrozenState(NamedTuple):
    frozen: Frozen
    total: Raw


class StateError(Exception):
    """Stored state is damaged, or in use."""


class Loaded(NamedTuple):
    small: Small
    accepted: AcceptedState | None
    released: ReleasedState | None
    frozen: list[FrozenState]


class Store:
    def __init__(self, root: str, public: bytes, session_id: bytes) -> None:
        self.folder = os.path.join(root, f"{session_id.hex()}-{public.hex()[:16]}")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        for folder in (root, os.path.dirname(os.path.abspath(root))):
            sync_folder(folder)
        self.lock = open(os.path.join(self.folder, "lock"), "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError(f"{self.folder} is in use by another process") from None

    def write(self, name: str, data: bytes) -> None:
        path = os.path.join(self.folder, name)
        with open(path + ".new", "wb") as file:
            file.write(data + hashlib.sha256(data).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        sync_folder(self.folder)

    def read(self, name: str) -> bytes | None:
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if len(data) < 32 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise StateError(f"{self.folder}/{name} is damaged")
        return data[:-32]

    def load(self) -> Loaded:
        def get(name: str, kind: type) -> object:
            data = self.read(name)
            try:
                return None if data is None else decode(kind, data)
            except Malformed as error:
                raise StateError(f"{self.folder}/{name} is damaged: {error}") from None

        small = get("small", Small) or Small(Ballot(0, 0), Ballot(0, 0), False, [])
        frozen: list[FrozenState] = []
        while (data := self.read(f"frozen-{len(frozen)}")) is not None:
            frozen.append(unpack_frozen(data))
        accepted = self.read("accepted")
        return Loaded(small, None if accepted is None else unpack_accepted(accepted),
                      get("released", ReleasedState), frozen)


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


# totals may be longer than what the decoder takes, so they stand behind the record

def pack(head: bytes, total: bytes) -> bytes:
    return len(head).to_bytes(4, "little") + head + total


def unpack(data: bytes) -> tuple[bytes, bytes]:
    n = int.from_bytes(data[:4], "little")
    return data[4:4 + n], data[4 + n:]


class AcceptedHead(NamedTuple):
    ballot: Ballot
    record: Record


def pack_accepted(state: AcceptedState) -> bytes:
    return pack(canonical(AcceptedHead, AcceptedHead(state.ballot, state.record)), state.total)


def unpack_accepted(data: bytes) -> AcceptedState:
    head, total = unpack(data)
    try:
        return AcceptedState(*decode(AcceptedHead, head), total)
    except Malformed as error:
        raise StateError(f"`accepted` is damaged: {error}") from None


def pack_frozen(state: FrozenState) -> bytes:
    return pack(canonical(Frozen, state.frozen), state.total)


def unpack_frozen(data: bytes) -> FrozenState:
    head, total = unpack(data)
    try:
        return FrozenState(decode(Frozen, head), total)
    except Malformed as error:
        raise StateError(f"`frozen` is damaged: {error}") from None
