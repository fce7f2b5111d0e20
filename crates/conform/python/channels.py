"""Noise, multistream-select and Yamux from py-libp2p 0.8.1 (spec, section 6).

This module reads the socket ahead, because bytes may arrive one by one. A read that is too short waits for
more bytes.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from types import SimpleNamespace
from typing import Any

import trio

# `import libp2p` loads all of the library, such as hosts, QUIC and DHT, and takes 1 s. These packages are
# left empty, but their modules are found as usual. `QUICStream` is used only as the name of a type.
for package in ("libp2p", "libp2p.network", "libp2p.network.connection", "libp2p.security",
                "libp2p.transport"):
    sys.modules[package] = importlib.util.module_from_spec(importlib.util.find_spec(package))
sys.modules["libp2p.transport.quic.stream"] = SimpleNamespace(QUICStream=object)

from libp2p.crypto.ed25519 import create_new_key_pair  # noqa: E402
from libp2p.crypto.x25519 import create_new_key_pair as create_noise_key_pair  # noqa: E402
from libp2p.io.trio import TrioTCPStream  # noqa: E402
from libp2p.io.utils import read_exactly  # noqa: E402
from libp2p.peer.id import ID  # noqa: E402
from libp2p.protocol_muxer.multiselect import Multiselect  # noqa: E402
from libp2p.protocol_muxer.multiselect_client import MultiselectClient  # noqa: E402
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator  # noqa: E402
from libp2p.security.noise.transport import Transport as Noise  # noqa: E402
from libp2p.security.secure_session import SecureSession  # noqa: E402
from libp2p.stream_muxer.yamux.yamux import Yamux, YamuxStream  # noqa: E402
from primitives.crypto import PEER_ID_PREFIX, Identity  # noqa: E402

NOISE, YAMUX = "/noise", "/yamux/1.0.0"
PIECE = 64 << 10
GATHER = 0.002  # s, wait for more data after a read that is too short
logging.getLogger("libp2p").setLevel(logging.CRITICAL)


async def select(stream: Any, protocol: str) -> None:
    """Asks the other side for a protocol."""
    await MultiselectClient().select_one_of([protocol], MultiselectCommunicator(stream))


async def offer(stream: Any, protocols: list[str]) -> str:
    """Lets the other side choose one of the protocols, and returns it."""
    chosen, _ = await Multiselect(dict.fromkeys(protocols)).negotiate(MultiselectCommunicator(stream))
    return chosen


class Ahead:
    """Reads ahead, because Noise and Yamux first ask for a few bytes. Records the time of the last read."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.write = source.write
        self.close = source.close
        self.ahead = bytearray()
        self.heard = time.monotonic()

    async def read(self, n: int | None = None) -> bytes:
        if not self.ahead:
            self.ahead += await self.source.read(None)
            self.heard = time.monotonic()
        data = bytes(self.ahead[:n])
        del self.ahead[:n]
        return data


class Mux(Yamux):
    """Yamux without the library's time-out for each frame, which takes a third of the time of a short frame.
    Pings detect a dead connection."""

    async def _read_data_body(self, length: int) -> bytes:
        return await read_exactly(self.secured_conn, length)


async def secured(stream: trio.SocketStream, identity: Identity, expected: bytes | None) -> SecureSession:
    """Sets up Noise on a connection. If this side dialled, the other side must hold the expected key."""
    tcp = Ahead(TrioTCPStream(stream))
    noise = Noise(create_new_key_pair(identity.seed), create_noise_key_pair().private_key)
    if expected is None:
        await offer(tcp, [NOISE])
        return await noise.secure_inbound(tcp)
    await select(tcp, NOISE)
    return await noise.secure_outbound(tcp, ID(PEER_ID_PREFIX + expected))


def key_of(session: SecureSession) -> bytes:
    return session.get_remote_peer().to_bytes().removeprefix(PEER_ID_PREFIX)


async def multiplexed(session: SecureSession, dialled: bool) -> Mux:
    await (select(session, YAMUX) if dialled else offer(session, [YAMUX]))
    return Mux(Ahead(session), session.get_remote_peer(), dialled)


class Substream:
    def __init__(self, stream: YamuxStream) -> None:
        self.stream = stream
        self.read = stream.read
        self.close = stream.close
        self.reset = stream.reset

    async def exactly(self, n: int) -> bytes:
        data = bytearray(await self.read(n))
        while len(data) < n:
            await trio.sleep(GATHER)
            data += await self.read(n - len(data))
        return bytes(data)

    async def write(self, data: bytes) -> None:
        while data:
            room = min(self.stream.send_window, PIECE)
            if room == 0:  # the library itself waits at most 5 s
                await trio.sleep(GATHER)
            else:
                await self.stream.write(data[:room])
                data = data[room:]
