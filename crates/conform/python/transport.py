"""Connections, substreams, frames, and the loop that drives the machine (spec, section 6).

Each connection has a nursery, and ends when one of its tasks fails or `close` is called. Each substream
has one task that writes, so only the end of the connection can cancel a write halfway. """

from __future__ import annotations

import math
import random
import signal
import socket
import struct
import time
from typing import Any, Callable

import trio
from channels import Mux, Substream, key_of, multiplexed, offer, secured, select  # before the imports below
from libp2p.protocol_muxer.exceptions import MultiselectError
from libp2p.security.noise.exceptions import PeerIDMismatchesPubkey
from libp2p.stream_muxer.exceptions import MuxedStreamEOF, MuxedStreamError
from machine import Machine
from model import Task
from primitives import VERSION
from primitives.crypto import Draw, Identity
from primitives.encoding import frame

from session import Session
from store import Store

PING = "/ipfs/ping/1.0.0"
CHANNELS = {f"/flyswarm/{VERSION}/control": False, f"/flyswarm/{VERSION}/bulk": True}
FRAME_LIMIT = 1_048_576
QUEUE_LIMIT = {False: 4 << 20, True: 16 << 20}
SETTLE = 10.0  # s, time limit to open all four substreams
OVERDUE = 5.0
Address = tuple[str, int]


class Broken(Exception):
    """A violation of the rules by the other side."""


class Queue:
    """Frames that wait to be written on one channel."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.inlet, self.outlet = trio.open_memory_channel[bytes](math.inf)

    def put(self, data: bytes) -> bool:
        self.inlet.send_nowait(data)
        self.size += len(data) + 256
        return self.size <= self.limit

    async def write_to(self, stream: Substream) -> None:
        async for data in self.outlet:
            self.size -= len(data) + 256
            await stream.write(data)
        await stream.close()


class Connection:
    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.muxed: Mux
        self.nursery: trio.Nursery
        self.scope = trio.CancelScope()
        self.incoming: dict[bool, Substream] = {}
        self.outgoing: dict[bool, Substream] = {}
        self.standing = trio.Event()  # set once all four substreams are open
        self.echo_due = math.inf
        self.queues = {bulk: Queue(limit) for bulk, limit in QUEUE_LIMIT.items()}
        self.ended: set[bool] = set()  # channels on which the other side has finished sending

    def close(self) -> None:
        """Closes at once, without a last message that might block."""
        self.scope.cancel()

    async def mux(self) -> None:
        await self.muxed.start()
        self.close()

    async def open(self, protocol: str) -> Substream:
        stream = Substream(await self.muxed.open_stream())
        await select(stream, protocol)
        return stream

    async def open_channels(self) -> None:
        for protocol, bulk in CHANNELS.items():
            self.outgoing[bulk] = await self.open(protocol)
        self.stand()

    def stand(self) -> None:
        if len(self.incoming) == len(self.outgoing) == 2:
            self.standing.set()

    async def ping(self) -> None:
        self.echo_due = time.monotonic() + OVERDUE
        stream = await self.open(PING)
        while True:
            self.echo_due = time.monotonic() + OVERDUE
            sent = random.randbytes(32)
            await stream.write(sent)
            if await stream.exactly(32) != sent:
                raise Broken("another echo")
            self.echo_due = math.inf
            await trio.sleep(2.0)

    async def watch(self) -> None:
        """Closes a dead connection. Checks every 0.25 s."""
        while time.monotonic() < max(self.echo_due, self.muxed.secured_conn.heard + OVERDUE):
            await trio.sleep(0.25)
        self.close()


class Node:
    """Connections with all peers, and the driver of the machine."""

    def __init__(self, session: Session, identity: Identity, task: Task, store: Store, draw: Draw,
                 done: Callable[[Machine], None]) -> None:
        self.identity = identity
        self.store = store
        self.roster = session.roster
        self.names = session.names
        self.links: dict[int, list[Connection]] = {p: [] for p in range(len(self.roster))}
        self.chosen: dict[int, Connection] = {}  # connections that the machine uses once they are set up
        self.last_up = dict.fromkeys(self.links, time.monotonic())
        self.outcome: tuple[int, str] | None = None  # exit code and text
        self.over = trio.Event()
        self.nursery: trio.Nursery
        self.machine = Machine(session, identity, task, store.load(), draw, self, time.monotonic())
        self.done = lambda: done(self.machine)

    # --- connections

    def chooses(self, peer: int) -> bool:
        return self.roster[self.machine.me] < self.roster[peer]

    def admitted(self, public: bytes) -> int | None:
        if public not in self.roster:
            return None
        peer = self.roster.index(public)
        if peer == self.machine.me or peer in self.machine.blamed or self.outcome is not None:
            return None
        if len(self.links[peer]) >= 3 or (peer in self.chosen and self.chooses(peer)):
            return None
        return peer

    async def establish(self, stream: trio.SocketStream, key: bytes | None = None) -> None:
        """Sets up a TCP connection and serves it until it breaks. `key` is given if this side dialled."""
        stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        connection = None
        try:
            with trio.fail_after(SETTLE):
                session = await secured(stream, self.identity, key)
            peer = self.admitted(key_of(session))
            if peer is None:  # M6.5
                return
            connection = Connection(peer)
            self.links[peer].append(connection)
            if self.chooses(peer):
                self.chosen[peer] = connection
            with connection.scope:
                with trio.fail_after(SETTLE):
                    connection.muxed = await multiplexed(session, key is not None)
                await self.live(connection)
        except PeerIDMismatchesPubkey:
            raise
        except Exception:
            return  # the connection is closed after any error
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
            if connection is not None:
                self.links[peer].remove(connection)
                self.give_up(connection)

    def give_up(self, connection: Connection) -> None:
        if self.chosen.get(connection.peer) is connection:
            del self.chosen[connection.peer]
            if connection.standing.is_set():
                self.last_up[connection.peer] = time.monotonic()
                self.tell(self.machine.lost, connection.peer)

    async def live(self, connection: Connection) -> None:
        async with trio.open_nursery() as nursery:
            connection.nursery = nursery
            nursery.start_soon(connection.mux)
            await connection.muxed.event_started.wait()
            nursery.start_soon(self.accept, connection)
            if self.chooses(connection.peer):
                nursery.start_soon(connection.open_channels)
            with trio.fail_after(SETTLE):
                await connection.standing.wait()
            self.tell(self.machine.up, connection.peer)
            for bulk in (False, True):
                nursery.start_soon(self.read_frames, connection, bulk)
                nursery.start_soon(connection.queues[bulk].write_to, connection.outgoing[bulk])
            nursery.start_soon(connection.ping)
            nursery.start_soon(connection.watch)

    async def accept(self, connection: Connection) -> None:
        while True:
            stream = Substream(await connection.muxed.accept_stream())
            connection.nursery.start_soon(self.incoming, connection, stream)

    async def incoming(self, connection: Connection, stream: Substream) -> None:
        try:
            protocol = await offer(stream, [*CHANNELS, PING])
        except (MultiselectError, MuxedStreamError):  # the other side asked for another protocol and left
            await stream.reset()
            return
        if protocol == PING:
            try:
                while True:
                    await stream.write(await stream.exactly(32))
            except MuxedStreamEOF:
                await stream.close()
            return
        peer, bulk = connection.peer, CHANNELS[protocol]
        if bulk in connection.incoming:
            raise Broken("a second substream of one protocol")
        connection.incoming[bulk] = stream
        if not self.chooses(peer) and self.chosen.get(peer) is not connection:
            if peer in self.chosen:  # the choosing peer has lost the old connection
                self.chosen[peer].close()
                self.give_up(self.chosen[peer])
            self.chosen[peer] = connection
            connection.nursery.start_soon(connection.open_channels)
        connection.stand()

    async def read_frames(self, connection: Connection, bulk: bool) -> None:
        stream = connection.incoming[bulk]
        try:
            while True:
                length, header = struct.unpack("<II", await stream.exactly(8))
                if not (4 <= length <= FRAME_LIMIT and header <= length - 4):
                    raise Broken("a length outside the limits")
                data = await stream.exactly(length - 4)
                if self.chosen.get(connection.peer) is connection:
                    self.tell(self.machine.frame, connection.peer, bulk, data[:header], data[header:])
        except MuxedStreamEOF:
            connection.ended.add(bulk)
            if len(connection.ended) == 2:  # the other side leaves
                connection.close()

    # --- dialling

    async def dial(self, peer: int, addresses: list[Address]) -> None:
        wait, since = 0.2, self.last_up[peer]
        avoided: dict[Address, float] = {}  # addresses that lead to another peer, and the time until which to avoid them
        while peer not in self.machine.blamed:
            if self.last_up[peer] != since:
                wait, since = 0.2, self.last_up[peer]
            if self.links[peer] or (not self.chooses(peer) and time.monotonic() - since < 3.0):
                await trio.sleep(0.1)
                continue
            for address in addresses:
                if avoided.get(address, 0.0) >= time.monotonic() or self.links[peer]:
                    continue
                try:
                    with trio.fail_after(SETTLE):
                        stream = await trio.open_tcp_stream(*address)
                    await self.establish(stream, self.roster[peer])
                except PeerIDMismatchesPubkey:
                    avoided[address] = time.monotonic() + 60.0
                except (OSError, trio.TooSlowError):
                    pass
            if self.last_up[peer] == since:
                await trio.sleep(wait * random.uniform(1.0, 1.25))
                wait = min(2 * wait, 5.0)

    # --- events for the machine

    def tell(self, event: Callable[..., None], *arguments: Any) -> None:
        """Passes an event to the machine. An error here is not an error of a connection, so it ends the
        node."""
        if self.outcome is not None:
            return
        try:
            event(*arguments, time.monotonic())
        except Exception as error:
            self.stop(4, f"{type(error).__name__}: {error}")

    async def ticks(self) -> None:
        while True:
            self.tell(self.machine.tick)
            await trio.sleep(0.05)

    async def interrupts(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                self.tell(self.machine.leave)

    # --- requests of the machine

    def send(self, to: int, bulk: bool, header: bytes, payload: bytes) -> None:
        connection = self.chosen.get(to)
        if connection is not None and not connection.queues[bulk].put(frame(header, payload)):
            connection.close()

    def persist(self, label: str, file: str, data: bytes) -> None:
        self.store.write(file, data)

    def drop(self, peer: int, kind: str, text: str) -> None:
        self.say(f"{self.names[peer]} is refused from now on: {text}")
        for connection in self.links[peer]:
            connection.close()

    def compute(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def result() -> Any:
            try:
                return run()
            except Exception as error:
                return error

        async def wait() -> None:
            self.tell(self.machine.finished, then, await trio.to_thread.run_sync(result))

        self.nursery.start_soon(wait)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def stop(self, code: int, text: str) -> None:
        self.outcome = code, text
        self.over.set()

    async def run(self, listener: socket.socket, addresses: dict[int, list[Address]]) -> tuple[int, str]:
        """Runs the node. Returns the exit code and a text."""
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
            nursery.start_soon(trio.serve_listeners, self.establish, listeners)
            for peer, found in addresses.items():
                nursery.start_soon(self.dial, peer, found)
            nursery.start_soon(self.ticks)
            nursery.start_soon(self.interrupts)
            await self.over.wait()
            for connection in self.chosen.values():  # queued frames are written; the other side then closes
                for queue in connection.queues.values():
                    queue.inlet.close()
            with trio.move_on_after(3.0):
                while any(connection.standing.is_set() for connection in self.chosen.values()):
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        return self.outcome
