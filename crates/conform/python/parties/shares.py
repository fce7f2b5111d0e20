"""Shares of an owner's input (spec, section 15e, stage 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy
from primitives.crypto import Stream, le, tagged

from .parts import Shares
from .words import Ring


@dataclass
class Input:
    """An owner's shares, by their numbers. `words` are those of codes, or of parts of distances."""

    rows: int
    words: Shares
    labels: Shares
    sent: list[bytes]  # the three shares, in the form of the parcels

    @property
    def hashes(self) -> list[bytes]:
        return [tagged("share", share) for share in self.sent]

    def parcels(self) -> list[bytes]:
        return [self.sent[i] + self.sent[(i + 1) % 3] for i in range(3)]

    def view(self, commitment: bytes) -> bytes:
        """Returns what each party sees of the owner's announcement of its hashes."""
        return tagged("announced", commitment, *self.hashes)


def shared_out(ring: Ring, words: numpy.ndarray, labels: list[int | None], classes: int, place: int,
               seeds: list[bytes]) -> Input:
    """Shares an owner's words and labels out. The seeds are two seeds of streams, and a salt."""
    size = 8 * -(-classes // 64)
    hot = b"".join(le(0 if label is None else 1 << label, size) for label in labels)
    words, hot = words.astype(ring.dtype), numpy.frombuffer(hot, "<u8")
    *drawn, salt = seeds
    shares = [None] * 3
    for number, seed in enumerate(drawn, 1):
        stream = Stream(seed, "shares/input", b"")
        own = numpy.frombuffer(stream.take(words.nbytes), ring.dtype)
        own_hot = numpy.frombuffer(stream.take(hot.nbytes), "<u8")
        shares[(place + number) % 3] = own, own_hot, b"\x00" + seed
        words, hot = ring.less(words, own), hot ^ own_hot
    shares[place % 3] = words, hot, b"\x01" + salt + words.tobytes() + hot.tobytes()
    return Input(len(labels), *map(list, zip(*shares)))
