"""Which connection is kept, substreams, frames, and the loop that drives the machine (spec, section 6).

Each connection has a nursery, and ends when one of its tasks fails or `close` is called. Only then is a write
cancelled in its middle; each substream has one task that writes.
"""

from __future__ import annotations

import functools
import math
import random
import signal
import socket
import struct
import time
from typing import Any, Callable

import trio

from channels import Broken, Mux, Substream, offer, select, upgraded  # before what follows
from libp2p.protocol_muxer.exceptions import MultiselectError
from libp2p.security.noise.exceptions import PeerIDMismatchesPubkey
from libp2p.stream_muxer.exceptions import MuxedStreamEOF, MuxedStreamError

from encoding import frame
from machine import Drop, Job, Machine, Persist, Say, Send, Stop
from store import Store

PING = "/ipfs/ping/1.0.0"
CHANNELS = {"/flyswarm/4/control": False, "/flyswarm/4/bulk": True}
FRAME_LIMIT = 1_048_576
QUEUE_LIMIT = {False: 4 << 20, True: 16 << 20}
SETTLE = 10.0  # s, within which all four substreams must stand
OVERDUE = 5.0
Address = tuple[str, int]


class Queue:
    """What waits to be written on one channel."""

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
    def __init__(self, peer: int, muxed: Mux) -> None:
        self.peer = peer
        self.muxed = muxed
        self.nursery: trio.Nursery
        self.incoming: dict[bool, Substream] = {}
        self.outgoing: dict[bool, Substream] = {}
        self.opening = False
        self.standing = trio.Event()  # all four substreams
        self.echo_due = math.inf
        self.queues = {bulk: Queue(limit) for bulk, limit in QUEUE_LIMIT.items()}
        self.ends: set[bool] = set()

    def close(self) -> None:
        """At once, without a farewell that might block."""
        self.nursery.cancel_scope.cancel()

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
        """Liveness: looked at every 0.25 s."""
        while time.monotonic() < max(self.echo_due, self.muxed.secured_conn.heard + OVERDUE):
            await trio.sleep(0.25)
        self.close()


class Node:
    """Connections with all peers. What happens on them goes to the machine through `events`, one by one, as
    functions of the time."""

    def __init__(self, machine: Machine, store: Store, on_done: Callable[[], None]) -> None:
        self.machine = machine
        self.store = store
        self.on_done = on_done
        self.model_written = False
        self.roster = machine.session.roster
        self.links: dict[int, list[Connection]] = {p: [] for p in range(len(self.roster))}
        self.chosen: dict[int, Connection] = {}
        self.up: dict[int, Connection] = {}  # of which the machine knows
        self.last_up = dict.fromkeys(self.links, time.monotonic())
        self.avoided: dict[tuple[Address, int], float] = {}
        self.ended: Stop | None = None
        self.events, self.inbox = trio.open_memory_channel[Callable[[float], None]](64)
        self.nursery: trio.Nursery

    # --- connections

    def chooses(self, peer: int) -> bool:
        return self.roster[self.machine.me] < self.roster[peer]

    def admitted(self, public: bytes) -> int | None:
        if public not in self.roster:
            return None
        peer = self.roster.index(public)
        if peer == self.machine.me or peer in self.machine.blamed or self.ended is not None:
            return None
        if len(self.links[peer]) >= 3 or (peer in self.chosen and self.chooses(peer)):
            return None
        return peer

    async def establish(self, stream: trio.SocketStream, expected: int | None = None) -> None:
        """From a TCP connection to substreams, and on until it breaks."""
        stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        connection = None
        try:
            with trio.fail_after(SETTLE):
                muxed, public = await upgraded(
                    stream, self.machine.identity, None if expected is None else self.roster[expected],
                    lambda public: self.admitted(public) is not None)
            peer = self.admitted(public)
            if peer is None:
                return
            connection = Connection(peer, muxed)
            self.links[peer].append(connection)
            await self.live(connection)
        except PeerIDMismatchesPubkey:
            raise
        except Exception:
            return  # whatever went wrong, the connection is closed
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
            if connection is not None:
                self.links[peer].remove(connection)

    async def live(self, connection: Connection) -> None:
        peer = connection.peer
        try:
            async with trio.open_nursery() as nursery:
                connection.nursery = nursery
                nursery.start_soon(connection.mux)
                await connection.muxed.event_started.wait()
                nursery.start_soon(self.accept, connection)
                if self.chooses(peer):
                    self.chosen[peer] = connection
                    nursery.start_soon(connection.open_channels)
                with trio.fail_after(SETTLE):
                    await connection.standing.wait()
                await self.events.send(functools.partial(self.on_up, connection))
                for bulk in (False, True):
                    nursery.start_soon(self.read_frames, connection, bulk)
                    nursery.start_soon(connection.queues[bulk].write_to, connection.outgoing[bulk])
                nursery.start_soon(connection.ping)
                nursery.start_soon(connection.watch)
        finally:
            if self.chosen.get(peer) is connection:
                del self.chosen[peer]
            if connection.standing.is_set():
                self.last_up[peer] = time.monotonic()
                await self.events.send(functools.partial(self.on_lost, connection))

    async def accept(self, connection: Connection) -> None:
        while True:
            stream = Substream(await connection.muxed.accept_stream())
            connection.nursery.start_soon(self.incoming, connection, stream)

    async def incoming(self, connection: Connection, stream: Substream) -> None:
        try:
            protocol = await offer(stream, [*CHANNELS, PING])
        except (MultiselectError, MuxedStreamError):  # it asked for something else, and went away
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
        if not self.chooses(peer) and not connection.opening:
            connection.opening = True
            if peer in self.chosen:
                self.chosen[peer].close()  # dead at the chooser
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
                await self.events.send(
                    functools.partial(self.on_frame, connection, bulk, data[:header], data[header:]))
        except MuxedStreamEOF:
            connection.ends.add(bulk)
            if len(connection.ends) == 2:  # the other side leaves
                await self.events.send(lambda now: connection.close())

    # --- dialling

    async def dial(self, peer: int, addresses: list[Address]) -> None:
        wait, since = 0.2, self.last_up[peer]
        while peer not in self.machine.blamed:
            if self.last_up[peer] != since:
                wait, since = 0.2, self.last_up[peer]
            if self.links[peer] or (not self.chooses(peer) and time.monotonic() - since < 3.0):
                await trio.sleep(0.1)
                continue
            for address in addresses:
                if self.avoided.get((address, peer), 0.0) < time.monotonic() and not self.links[peer]:
                    await self.try_address(peer, address)
            if self.last_up[peer] == since:
                await trio.sleep(wait * random.uniform(1.0, 1.25))
                wait = min(2 * wait, 5.0)

    async def try_address(self, peer: int, address: Address) -> None:
        try:
            with trio.fail_after(SETTLE):
                stream = await trio.open_tcp_stream(*address)
            await self.establish(stream, peer)
        except PeerIDMismatchesPubkey:
            self.avoided[address, peer] = time.monotonic() + 60.0
        except (OSError, trio.TooSlowError):
            pass

    # --- events

    def on_up(self, connection: Connection, now: float) -> None:
        peer = connection.peer
        if self.chosen.get(peer) is connection:
            if peer in self.up:  # the first is dead, and its end comes later
                self.machine.lost(peer, now)
            self.up[peer] = connection
            self.machine.up(peer, now)

    def on_lost(self, connection: Connection, now: float) -> None:
        if self.up.get(connection.peer) is connection:
            del self.up[connection.peer]
            self.machine.lost(connection.peer, now)

    def on_frame(self, connection: Connection, bulk: bool, header: bytes, payload: bytes, now: float) -> None:
        if self.up.get(connection.peer) is connection:
            self.machine.frame(connection.peer, bulk, header, payload, now)

    async def compute(self, job: Job) -> None:
        def run() -> Any:
            try:
                return job.run()
            except Exception as error:
                return error

        result = await trio.to_thread.run_sync(run)
        await self.events.send(functools.partial(self.machine.finished, job.number, result))

    async def ticks(self) -> None:
        while True:
            await trio.sleep(0.05)
            await self.events.send(self.machine.tick)

    async def interrupts(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                await self.events.send(self.machine.leave)

    # --- actions, and the loop

    def carry_out(self, action: Any) -> None:
        match action:
            case Send(to, bulk, header, payload):
                connection = self.up.get(to)
                if connection is not None and not connection.queues[bulk].put(frame(header, payload)):
                    connection.close()
            case Persist(_, file, data):
                self.store.write(file, data)
            case Job():
                self.nursery.start_soon(self.compute, action)
            case Drop(peer, _, text):
                print(f"{self.machine.session.names[peer]} is refused from now on: {text}", flush=True)
                for connection in self.links[peer]:
                    connection.close()
            case Say(text):
                print(text, flush=True)
            case Stop():
                self.ended = action

    def carry_out_all(self) -> None:
        while actions := self.machine.take_actions():
            for action in actions:
                self.carry_out(action)
        if self.machine.done and not self.model_written:
            self.model_written = True
            self.on_done()

    async def run(self, listener: socket.socket, addresses: dict[int, list[Address]]) -> Stop:
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
            nursery.start_soon(trio.serve_listeners, self.establish, listeners)
            for peer, found in addresses.items():
                nursery.start_soon(self.dial, peer, found)
            nursery.start_soon(self.ticks)
            nursery.start_soon(self.interrupts)
            self.carry_out_all()
            while self.ended is None:
                event = await self.inbox.receive()
                event(time.monotonic())
                self.carry_out_all()
            await self.farewell()
            nursery.cancel_scope.cancel()
        return self.ended

    async def farewell(self) -> None:
        """Writes what is queued and ends both substreams; the other side then closes."""
        for connection in self.up.values():
            for queue in connection.queues.values():
                queue.inlet.close()
        with trio.move_on_after(3.0):
            while self.up:
                event = await self.inbox.receive()
                event(time.monotonic())
