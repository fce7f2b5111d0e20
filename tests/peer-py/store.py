"""What must survive a restart, and how it is written (spec, section 10).

One file a record: written beside, synced, renamed, and the folder synced. Each ends with a checksum.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from typing import NamedTuple

import encoding
from encoding import Ballot, Malformed, canonical, decode

# `small` has what every peer keeps, and how council members have shown themselves. Totals may be longer than
# what the decoder takes: they stand behind the head.
encoding.define("""
Small         { promised: Ballot, joined: Ballot, lost_state: bool, traces: Vec<(peer, Trace)> }
AcceptedHead  { ballot: Ballot, record: Record }
ReleasedState { slot: u32, value: [u8; 32], decision: Vec<Signed<Acknowledgement>> }
""")
Small, AcceptedHead, ReleasedState = (encoding.CLASSES[n] for n in ("Small", "AcceptedHead", "ReleasedState"))


class AcceptedState(NamedTuple):
    ballot: encoding.Ballot
    record: encoding.Record
    total: bytes


class FrozenState(NamedTuple):
    frozen: encoding.Frozen
    total: bytes


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
        try:
            small = self.read("small")
            accepted, released = self.read("accepted"), self.read("released")
            frozen: list[FrozenState] = []
            while (data := self.read(f"frozen-{len(frozen)}")) is not None:
                head, total = unpack(data)
                frozen.append(FrozenState(decode("Frozen", head), total))
            if accepted is not None:
                head, total = unpack(accepted)
                accepted = AcceptedState(*decode("AcceptedHead", head), total)
            return Loaded(NOTHING if small is None else decode("Small", small), accepted,
                          None if released is None else decode("ReleasedState", released), frozen)
        except Malformed as error:
            raise StateError(f"{self.folder} is damaged: {error}") from None


NOTHING = Small(Ballot(0, 0), Ballot(0, 0), False, [])


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def pack(head: bytes, total: bytes) -> bytes:
    return len(head).to_bytes(4, "little") + head + total


def unpack(data: bytes) -> tuple[bytes, bytes]:
    n = int.from_bytes(data[:4], "little")
    return data[4:4 + n], data[4 + n:]


def pack_accepted(state: AcceptedState) -> bytes:
    return pack(canonical("AcceptedHead", AcceptedHead(state.ballot, state.record)), state.total)


def pack_frozen(state: FrozenState) -> bytes:
    return pack(canonical("Frozen", state.frozen), state.total)
