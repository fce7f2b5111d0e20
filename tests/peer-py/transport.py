"""Connections on py-libp2p, substreams, frames, and the loop that drives the machine (spec, section 6).

Of py-libp2p only its Noise, multistream-select and Yamux are used: which connection is kept, who opens what
and when, is decided here. Nothing is cancelled in the middle of a write while its connection is to live: each
substream has one task that writes.
"""

from __future__ import annotations

import collections
import logging
import random
import signal
import socket
import struct
import time
from typing import Any, Awaitable, Callable

import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_noise_key_pair
from libp2p.io.trio import TrioTCPStream
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.peer.id import ID
from libp2p.protocol_muxer.multiselect import Multiselect
from libp2p.protocol_muxer.multiselect_client import MultiselectClient
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator
from libp2p.security.noise.exceptions import PeerIDMismatchesPubkey
from libp2p.security.noise.transport import Transport as Noise
from libp2p.stream_muxer.exceptions import MuxedStreamEOF
from libp2p.stream_muxer.yamux.yamux import Yamux, YamuxStream

from crypto import PEER_ID_PREFIX
from encoding import frame
from machine import Drop, Job, Machine, Persist, Say, Send, Stop
from store import Store

NOISE, YAMUX, PING = "/noise", "/yamux/1.0.0", "/ipfs/ping/1.0.0"
CHANNELS = {"/flyswarm/4/control": False, "/flyswarm/4/bulk": True}
FRAME_LIMIT = 1_048_576
QUEUE_LIMIT = {False: 4 << 20, True: 16 << 20}
SETTLE = 10.0      # all four substreams must stand within
OVERDUE = 5.0
PIECE = 64 << 10   # what one write has at most
GATHER = 0.002     # where bytes are lacking: a read takes longer than that of a byte alone
CREDIT = 128 << 10  # so much is read before the window is opened again: half of it
logging.getLogger("libp2p").setLevel(logging.CRITICAL)


class Outgoing:
    """What waits to be written on one channel."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.frames: collections.deque[bytes | None] = collections.deque()
        self.size = 0
        self.wake = trio.Event()

    def put(self, data: bytes | None) -> bool:
        self.frames.append(data)
        self.size += len(data or b"") + 256
        self.wake.set()
        return self.size <= self.limit

    async def get(self) -> bytes | None:
        while not self.frames:
            self.wake = trio.Event()
            await self.wake.wait()
        data = self.frames.popleft()
        self.size -= len(data or b"") + 256
        return data


class Tcp(TrioTCPStream):
    """Reads ahead, as Noise asks for two bytes and then for the rest. Notes when something was heard."""

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self.ahead = bytearray()
        self.heard = time.monotonic()

    async def read(self, n: int | None = None) -> bytes:
        if not self.ahead:
            self.ahead += await super().read(PIECE)
            self.heard = time.monotonic()
        data = bytes(self.ahead[:n])
        del self.ahead[:n]
        return data


class Substream:
    """Exact lengths of a library's substream, and a window update for half a window, not for each read."""

    def __init__(self, stream: YamuxStream) -> None:
        self.stream = stream
        self.write = stream.write
        self.close = stream.close
        self.unreported = 0

    async def read(self, n: int) -> bytes:
        data = await self.stream.muxed_conn.read_stream(self.stream.stream_id, n)
        self.unreported += len(data)
        if self.unreported >= CREDIT:
            read, self.unreported = self.unreported, 0
            self.stream.recv_window += read
            await self.stream.send_window_update(read)
        return data

    async def exactly(self, n: int) -> bytes:
        data = bytearray(await self.read(n))
        while len(data) < n:
            await trio.sleep(GATHER)
            data += await self.read(n - len(data))
        return bytes(data)


class Connection:
    def __init__(self, peer: int, tcp: Tcp, muxed: Yamux) -> None:
        self.peer = peer
        self.tcp = tcp
        self.muxed = muxed
        self.incoming: dict[bool, Substream] = {}
        self.outgoing: dict[bool, Substream] = {}
        self.opening = False
        self.standing = trio.Event()  # all four substreams
        self.closed = False
        self.echo_due: float | None = None
        self.queues = {bulk: Outgoing(limit) for bulk, limit in QUEUE_LIMIT.items()}
        self.ends: set[bool] = set()

    def stand(self) -> None:
        if len(self.incoming) == 2 and len(self.outgoing) == 2:
            self.standing.set()


class Broken(Exception):
    """The other side breaks the rules."""


async def select(stream: Any, protocol: str) -> None:
    """Asks for a protocol."""
    await MultiselectClient().select_one_of([protocol], MultiselectCommunicator(stream))


async def offer(stream: Any, protocols: list[str]) -> str:
    """Lets the other side choose."""
    chosen, _ = await Multiselect(dict.fromkeys(protocols)).negotiate(MultiselectCommunicator(stream))
    return chosen


class Node:
    def __init__(self, machine: Machine, store: Store, on_done: Callable[[], None]) -> None:
        self.machine = machine
        self.store = store
        self.on_done = on_done
        self.model_written = False
        self.roster = machine.session.roster
        self.me = machine.me
        self.key_pair = create_new_key_pair(machine.identity.seed)
        self.links: dict[int, list[Connection]] = {p: [] for p in range(len(self.roster)) if p != self.me}
        self.chosen: dict[int, Connection] = {}
        self.avoided: dict[str, float] = {}
        self.was_up: set[int] = set()  # connected since the last look
        self.ended: Stop | None = None
        self.events, self.inbox = trio.open_memory_channel(64)
        self.nursery: trio.Nursery

    # --- connections

    def chooses(self, peer: int) -> bool:
        return self.roster[self.me] < self.roster[peer]

    def admitted(self, public: bytes) -> int | None:
        if public not in self.roster:
            return None
        peer = self.roster.index(public)
        if peer == self.me or peer in self.machine.blamed or self.ended is not None:
            return None
        if peer in self.chosen and self.chooses(peer):
            return None
        return peer if len(self.links[peer]) < 3 else None

    async def establish(self, stream: trio.SocketStream, expected: int | None) -> None:
        """From a TCP connection to substreams, and on until it breaks."""
        stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        connection = None
        try:
            with trio.fail_after(SETTLE):
                tcp = Tcp(stream)
                raw = RawConnection(tcp, expected is not None)
                noise = Noise(self.key_pair, create_noise_key_pair().private_key)
                if expected is None:
                    await offer(raw, [NOISE])
                    secured = await noise.secure_inbound(raw)
                else:
                    await select(raw, NOISE)
                    secured = await noise.secure_outbound(raw, ID(PEER_ID_PREFIX + self.roster[expected]))
                identity = secured.get_remote_peer()
                public = identity.to_bytes().removeprefix(PEER_ID_PREFIX)
                peer = self.admitted(public)
                if peer is None:  # M6.5
                    return
                await (offer(secured, [YAMUX]) if expected is None else select(secured, YAMUX))
                if self.admitted(public) is None:
                    return
            connection = Connection(peer, tcp, Yamux(secured, identity, expected is not None))
            self.links[peer].append(connection)
            await self.live(connection)
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
            if connection is not None:
                self.links[connection.peer].remove(connection)

    async def live(self, connection: Connection) -> None:
        peer = connection.peer
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.mux, connection, nursery.cancel_scope)
            await connection.muxed.event_started.wait()
            nursery.start_soon(self.guarded, connection, self.accept, connection, nursery)
            if self.chooses(peer):
                self.chosen[peer] = connection
                nursery.start_soon(self.open_channels, connection)
            with trio.move_on_after(SETTLE):
                await connection.standing.wait()
            if connection.standing.is_set():
                self.was_up.add(peer)
                await self.events.send(("up", connection))
                for bulk in (False, True):
                    nursery.start_soon(self.guarded, connection, self.read_frames, connection, bulk)
                    nursery.start_soon(self.guarded, connection, self.write_frames, connection, bulk)
                nursery.start_soon(self.guarded, connection, self.ping, connection)
            else:
                await self.close(connection)
        if self.chosen.get(peer) is connection:
            del self.chosen[peer]
        if connection.standing.is_set():
            await self.events.send(("lost", connection))

    async def mux(self, connection: Connection, scope: trio.CancelScope) -> None:
        """Runs the library's reader until the connection ends."""
        try:
            await connection.muxed.start()
        finally:
            connection.closed = True
            scope.cancel()

    async def accept(self, connection: Connection, nursery: trio.Nursery) -> None:
        while True:
            stream = Substream(await connection.muxed.accept_stream())
            nursery.start_soon(self.guarded, connection, self.incoming, connection, stream)

    async def close(self, connection: Connection) -> None:
        """At once, without a farewell that might block."""
        if not connection.closed:
            connection.closed = True
            await trio.aclose_forcefully(connection.tcp.stream)

    async def guarded(self, connection: Connection, run: Callable[..., Awaitable[None]], *args: Any) -> None:
        """A task of a connection: where it fails the connection is closed."""
        try:
            await run(*args)
        except Exception:
            await self.close(connection)

    async def open_channels(self, connection: Connection) -> None:
        if connection.opening:
            return
        connection.opening = True

        async def opened() -> None:
            for protocol, bulk in CHANNELS.items():
                stream = Substream(await connection.muxed.open_stream())
                await select(stream, protocol)
                connection.outgoing[bulk] = stream
            connection.stand()

        await self.guarded(connection, opened)

    async def incoming(self, connection: Connection, stream: Substream) -> None:
        protocol = await offer(stream, [*CHANNELS, PING])
        if protocol == PING:
            try:
                while True:
                    await stream.write(await stream.exactly(32))
            except MuxedStreamEOF:
                await stream.close()
            return
        bulk = CHANNELS[protocol]
        if bulk in connection.incoming:
            raise Broken("a second substream of one protocol")
        peer = connection.peer
        if not self.chooses(peer):
            first = self.chosen.get(peer)
            if first is not None and first is not connection:
                await self.close(first)  # dead at the chooser
            self.chosen[peer] = connection
            self.nursery.start_soon(self.open_channels, connection)
        connection.incoming[bulk] = stream
        connection.stand()

    # --- frames

    async def read_frames(self, connection: Connection, bulk: bool) -> None:
        reader = connection.incoming[bulk]
        try:
            while True:
                length, header = struct.unpack("<II", await reader.exactly(8))
                if not (4 <= length <= FRAME_LIMIT and header <= length - 4):
                    raise Broken("a length outside the limits")
                data = await reader.exactly(length - 4)
                await self.events.send(("frame", connection, bulk, data[:header], data[header:]))
        except MuxedStreamEOF:
            connection.ends.add(bulk)
            if len(connection.ends) == 2:  # the other side leaves
                await self.events.send(("left", connection))

    async def write_frames(self, connection: Connection, bulk: bool) -> None:
        stream, queue = connection.outgoing[bulk], connection.queues[bulk]
        while (data := await queue.get()) is not None:
            for at in range(0, len(data), PIECE):
                await stream.write(data[at:at + PIECE])
        await stream.close()

    async def ping(self, connection: Connection) -> None:
        connection.echo_due = time.monotonic() + OVERDUE
        stream = Substream(await connection.muxed.open_stream())
        await select(stream, PING)
        while True:
            connection.echo_due = time.monotonic() + OVERDUE
            sent = random.randbytes(32)
            await stream.write(sent)
            if await stream.exactly(32) != sent:
                raise Broken("another echo")
            connection.echo_due = None
            await trio.sleep(2.0)

    async def watch(self) -> None:
        """Liveness: looked at every 0.25 s."""
        while True:
            await trio.sleep(0.25)
            now = time.monotonic()
            for connection in [c for link in self.links.values() for c in link]:
                due = connection.echo_due
                if due is not None and now > due and now - connection.tcp.heard > OVERDUE:
                    await self.close(connection)

    # --- dialling

    async def dial(self, peer: int, addresses: list[tuple[str, int]]) -> None:
        wait, since = 0.2, time.monotonic()
        while True:
            if self.links[peer]:
                wait, since = 0.2, time.monotonic()
                await trio.sleep(0.2)
                continue
            if peer in self.machine.blamed:
                return
            if not self.chooses(peer) and time.monotonic() - since < 3.0:
                await trio.sleep(0.1)
                continue
            for host, port in addresses:
                if self.avoided.get(f"{host} {port} {peer}", 0.0) < time.monotonic() and not self.links[peer]:
                    await self.try_address(peer, host, port)
            if peer in self.was_up:  # meanwhile
                self.was_up.discard(peer)
                wait, since = 0.2, time.monotonic()
            await trio.sleep(wait * random.uniform(1.0, 1.25))
            wait = min(2 * wait, 5.0)

    async def try_address(self, peer: int, host: str, port: int) -> None:
        try:
            with trio.fail_after(SETTLE):
                stream = await trio.open_tcp_stream(host, port)
            await self.establish(stream, peer)
        except PeerIDMismatchesPubkey:
            self.avoided[f"{host} {port} {peer}"] = time.monotonic() + 60.0
        except Exception:
            return

    async def answer(self, stream: trio.SocketStream) -> None:
        try:
            await self.establish(stream, None)
        except Exception:
            return

    # --- the loop

    async def carry_out(self) -> None:
        machine = self.machine
        while actions := machine.take_actions():
            for action in actions:
                if isinstance(action, Send):
                    connection = self.chosen.get(action.to)
                    if connection is not None and connection.standing.is_set():
                        data = frame(action.header, action.payload)
                        if not connection.queues[action.bulk].put(data):
                            await self.close(connection)
                elif isinstance(action, Persist):
                    self.store.write(action.file, action.data)
                elif isinstance(action, Job):
                    self.nursery.start_soon(self.compute, action)
                elif isinstance(action, Drop):
                    name = machine.session.names[action.peer]
                    print(f"{name} is refused from now on: {action.text}", flush=True)
                    for connection in self.links[action.peer]:
                        await self.close(connection)
                elif isinstance(action, Say):
                    print(action.text, flush=True)
                elif isinstance(action, Stop):
                    self.ended = action
        if machine.done and not self.model_written:
            self.model_written = True
            self.on_done()

    async def compute(self, job: Job) -> None:
        def run() -> Any:
            try:
                return job.run()
            except Exception as error:
                return error

        result = await trio.to_thread.run_sync(run)
        await self.events.send(("job", job.number, result))

    async def ticks(self) -> None:
        while True:
            await trio.sleep(0.05)
            await self.events.send(("tick",))

    async def interrupts(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                await self.events.send(("interrupt",))

    def handle(self, event: tuple[Any, ...]) -> None:
        machine, now = self.machine, time.monotonic()
        if event[0] == "tick":
            machine.tick(now)
        elif event[0] == "interrupt":
            machine.leave(now)
        elif event[0] == "job":
            machine.finished(event[1], event[2], now)
        else:
            connection = event[1]
            current = self.chosen.get(connection.peer) is connection
            if event[0] == "up" and current:
                if connection.peer in self.up:  # the first is dead, and its end comes later
                    machine.lost(connection.peer, now)
                self.up[connection.peer] = connection
                machine.up(connection.peer, now)
            elif event[0] == "lost" and self.up.get(connection.peer) is connection:
                del self.up[connection.peer]
                machine.lost(connection.peer, now)
            elif event[0] == "frame" and self.up.get(connection.peer) is connection:
                machine.frame(connection.peer, event[2], event[3], event[4], now)

    async def run(self, listener: socket.socket, addresses: dict[int, list[tuple[str, int]]]) -> Stop:
        self.up: dict[int, Connection] = {}
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
            nursery.start_soon(trio.serve_listeners, self.answer, listeners)
            for peer, found in addresses.items():
                nursery.start_soon(self.dial, peer, found)
            nursery.start_soon(self.watch)
            nursery.start_soon(self.ticks)
            nursery.start_soon(self.interrupts)
            await self.carry_out()
            while self.ended is None:
                event = await self.inbox.receive()
                self.handle(event)
                await self.carry_out()
                if event[0] == "left":
                    await self.close(event[1])
            await self.farewell()
            nursery.cancel_scope.cancel()
        return self.ended

    async def farewell(self) -> None:
        """Writes what is queued and ends both substreams; the other side then closes."""
        for connection in self.up.values():
            for queue in connection.queues.values():
                queue.put(None)
        with trio.move_on_after(3.0):
            while any(not c.closed for c in self.up.values()):
                event = await self.inbox.receive()
                if event[0] in ("left", "lost"):
                    await self.close(event[1])
