"""Noise, multistream-select and Yamux, as libp2p specifies them and section 6 of our specification uses them.

Those of py-libp2p 0.8.1 interoperate as well (README.md), but take more than a second of processor time to
import, and too long for frames of one byte. `noiseprotocol` is what py-libp2p uses, too.
"""

from __future__ import annotations

import os
import struct
from typing import Callable

import trio
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from noise.connection import Keypair, NoiseConnection

from crypto import Identity

MULTISTREAM = "/multistream/1.0.0"
KEY_HEAD = bytes.fromhex("08011220")  # protobuf: an Ed25519 key of 32 bytes
NOISE_LIMIT = 65_535 - 16
WINDOW = 256 << 10
PIECE = 64 << 10
DATA, WINDOW_UPDATE, PING, GO_AWAY = range(4)
SYN, ACK, FIN, RST = 1, 2, 4, 8


class Broken(Exception):
    """The other side breaks the rules, or the connection is gone."""


class Ended(Exception):
    """Everything was read."""


class Source:
    """Reads exact lengths from pieces of any length."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    async def receive(self) -> bytes:
        raise NotImplementedError

    async def write(self, data: bytes) -> None:
        raise NotImplementedError

    async def exactly(self, n: int) -> bytes:
        while len(self.buffer) < n:
            self.buffer += await self.receive()
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data


class Tcp(Source):
    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__()
        self.stream = stream

    async def receive(self) -> bytes:
        data = await self.stream.receive_some(PIECE)
        if not data:
            raise Ended("end of the connection")
        return data

    async def write(self, data: bytes) -> None:
        await self.stream.send_all(data)


# --- multistream-select


async def send_text(source: Source, *lines: str) -> None:
    data = b""
    for line in lines:
        body = line.encode() + b"\n"
        data += bytes([len(body)]) + body  # no name that this peer sends has 127 bytes
    await source.write(data)


async def read_text(source: Source) -> str:
    length = (await source.exactly(1))[0]
    if length > 127:
        length = length & 127 | (await source.exactly(1))[0] << 7
    if not 1 <= length <= 1024:
        raise Broken("multistream-select: a length outside the limits")
    return (await source.exactly(length))[:-1].decode("utf-8", "replace")


async def select(source: Source, protocol: str) -> None:
    """Asks for a protocol."""
    await send_text(source, MULTISTREAM, protocol)
    if [await read_text(source), await read_text(source)] != [MULTISTREAM, protocol]:
        raise Broken(f"{protocol} is not spoken")


async def offer(source: Source, protocols: list[str]) -> str:
    """Lets the other side choose."""
    await send_text(source, MULTISTREAM)
    if await read_text(source) != MULTISTREAM:
        raise Broken("no multistream-select")
    while (protocol := await read_text(source)) not in protocols:
        await send_text(source, "na")
    await send_text(source, protocol)
    return protocol


# --- Noise XX


class Secure(Source):
    """A connection after the handshake. `remote` is the other side's Ed25519 key."""

    def __init__(self, below: Source, identity: Identity, initiator: bool) -> None:
        super().__init__()
        self.below = below
        self.identity = identity
        self.initiator = initiator
        self.remote = b""
        self.lock = trio.Lock()
        secret = os.urandom(32)
        self.state = NoiseConnection.from_name(b"Noise_XX_25519_ChaChaPoly_SHA256")
        self.state.set_keypair_from_private_bytes(Keypair.STATIC, secret)

    async def handshake(self) -> None:
        state = self.state
        (state.set_as_initiator if self.initiator else state.set_as_responder)()
        state.start_handshake()
        inner = state.noise_protocol.handshake_state
        public = inner.s.public_bytes
        signature = self.identity.key.sign(b"noise-libp2p-static-key:" + public)
        mine = b"\x0a\x24" + KEY_HEAD + self.identity.public + b"\x12\x40" + signature
        if self.initiator:
            await self.put(bytes(state.write_message(b"")))
            theirs = bytes(state.read_message(await self.get()))
        else:
            state.read_message(await self.get())
            await self.put(bytes(state.write_message(mine)))
            theirs = bytes(state.read_message(await self.get()))
        static = inner.rs.public.public_bytes(Encoding.Raw, PublicFormat.Raw)
        fields = self.fields(theirs)
        key, proof = fields.get(1, b""), fields.get(2, b"")
        if len(key) != 36 or key[:4] != KEY_HEAD:
            raise Broken("no Ed25519 identity")
        try:
            Ed25519PublicKey.from_public_bytes(key[4:]).verify(proof, b"noise-libp2p-static-key:" + static)
        except InvalidSignature:
            raise Broken("the identity's signature") from None
        self.remote = key[4:]
        if self.initiator:
            await self.put(bytes(state.write_message(mine)))

    @staticmethod
    def fields(data: bytes) -> dict[int, bytes]:
        """The fields of a protobuf message that have a length."""
        found, at = {}, 0
        try:
            while at < len(data):
                tag, length, at = data[at], data[at + 1], at + 2
                if length > 127:
                    length, at = length & 127 | data[at] << 7, at + 1
                if tag & 7 != 2:
                    raise Broken("the payload of the handshake")
                found[tag >> 3] = data[at:at + length]
                at += length
        except IndexError:
            raise Broken("the payload of the handshake") from None
        return found

    async def put(self, data: bytes) -> None:
        await self.below.write(struct.pack(">H", len(data)) + data)

    async def get(self) -> bytes:
        return await self.below.exactly(struct.unpack(">H", await self.below.exactly(2))[0])

    async def receive(self) -> bytes:
        return self.state.decrypt(await self.get())

    async def write(self, data: bytes) -> None:
        async with self.lock:
            parts = [self.state.encrypt(data[at:at + NOISE_LIMIT]) for at in range(0, len(data), NOISE_LIMIT)]
            await self.below.write(b"".join(struct.pack(">H", len(part)) + part for part in parts))


# --- Yamux


class Substream(Source):
    def __init__(self, mux: Mux, number: int) -> None:
        super().__init__()
        self.mux = mux
        self.number = number
        self.arrived = bytearray()
        self.ended = self.dead = False
        self.window = WINDOW  # what may still be sent
        self.unreported = 0   # what was read since the last window update
        self.wake = trio.Event()

    def woken(self) -> None:
        self.wake.set()
        self.wake = trio.Event()

    async def receive(self) -> bytes:
        while not self.arrived:
            if self.dead:
                raise Broken("the substream is gone")
            if self.ended:
                raise Ended("end of the substream")
            await self.wake.wait()
        data = bytes(self.arrived)
        self.arrived.clear()
        self.unreported += len(data)
        if self.unreported >= WINDOW // 2 and not self.dead:
            read, self.unreported = self.unreported, 0
            await self.mux.send(WINDOW_UPDATE, 0, self.number, read)
        return data

    async def write(self, data: bytes) -> None:
        while data:
            while self.window == 0 and not self.dead:
                await self.wake.wait()
            if self.dead:
                raise Broken("the substream is gone")
            n = min(len(data), self.window, PIECE)
            self.window -= n
            await self.mux.send(DATA, 0, self.number, n, data[:n])
            data = data[n:]

    async def close(self) -> None:
        await self.mux.send(DATA, FIN, self.number, 0)

    async def reset(self) -> None:
        self.dead = True
        await self.mux.send(DATA, RST, self.number, 0)


class Mux:
    def __init__(self, secure: Secure) -> None:
        self.secure = secure
        self.next = 1 if secure.initiator else 2
        self.streams: dict[int, Substream] = {}

    async def send(self, kind: int, flags: int, number: int, length: int, data: bytes = b"") -> None:
        await self.secure.write(struct.pack(">BBHII", 0, kind, flags, number, length) + data)

    async def open(self) -> Substream:
        stream = self.streams[self.next] = Substream(self, self.next)
        self.next += 2
        await self.send(WINDOW_UPDATE, SYN, stream.number, 0)
        return stream

    async def run(self, accepted: Callable[[Substream], None], heard: Callable[[], None]) -> None:
        """Reads until the connection ends."""
        try:
            while True:
                header = await self.secure.exactly(12)
                version, kind, flags, number, length = struct.unpack(">BBHII", header)
                if version != 0 or kind > GO_AWAY or (kind == DATA and length > WINDOW):
                    raise Broken("yamux: a frame outside the limits")
                data = await self.secure.exactly(length) if kind == DATA else b""
                heard()
                if kind == GO_AWAY:
                    return
                if kind == PING:
                    if flags & SYN:
                        await self.send(PING, ACK, 0, length)
                    continue
                if flags & SYN:
                    if number in self.streams or number % 2 == self.next % 2 or len(self.streams) > 256:
                        raise Broken("yamux: a substream that may not be opened")
                    self.streams[number] = Substream(self, number)
                    await self.send(WINDOW_UPDATE, ACK, number, 0)
                    accepted(self.streams[number])
                stream = self.streams.get(number)
                if stream is not None:
                    self.take(stream, kind, flags, length, data)
        finally:
            for stream in self.streams.values():
                stream.dead = True
                stream.woken()

    def take(self, stream: Substream, kind: int, flags: int, length: int, data: bytes) -> None:
        if kind == WINDOW_UPDATE:
            stream.window += length
        stream.arrived += data
        if len(stream.arrived) > 2 * WINDOW:
            raise Broken("yamux: more than the window")
        if flags & FIN:
            stream.ended = True
        if flags & RST:
            stream.dead = True
            del self.streams[stream.number]
        stream.woken()


