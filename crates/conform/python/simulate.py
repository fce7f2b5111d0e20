"""Runs several machines in virtual time, as in the vectors `sum` and `faults` (spec, section 18)."""

from __future__ import annotations

import heapq
from typing import Any, Callable

from machine import Machine
from model import Task
from primitives.crypto import Draw, Identity

from session import Session
from store import NOTHING, Loaded

STEP = 1000  # microseconds until a frame arrives or a job ends
EMPTY = Loaded(NOTHING, None, None, [])


class Driver:
    """Driver of one machine."""

    def __init__(self, simulation: Simulation, me: int) -> None:
        self.simulation = simulation
        self.me = me

    def send(self, to: int, bulk: bool, header: bytes, payload: bytes) -> None:
        run, me, channel = self.simulation, self.me, "bulk" if bulk else "control"
        run.log.append({"from": me, "to": to, "channel": channel, "us": run.us, "header": header.hex(),
                        "payload": payload.hex()})
        if not run.deaf:
            run.after(lambda: run.machines[to].frame(me, bulk, header, payload, run.now))

    def persist(self, label: str, file: str, data: bytes) -> None:
        self.simulation.log.append({"from": self.me, "persist": label, "us": self.simulation.us})

    def compute(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        run = self.simulation
        run.after(lambda: run.machines[self.me].finished(then, work(), run.now))

    def drop(self, peer: int, kind: str, text: str) -> None:
        self.simulation.dropped.append((self.me, peer, kind))

    def say(self, text: str) -> None:
        pass

    def done(self) -> None:
        pass

    def stop(self, code: int, text: str) -> None:
        if code:
            self.simulation.log.append({"from": self.me, "ends": code, "us": self.simulation.us})


class Simulation:
    def __init__(self, session: Session, identities: list[Identity], tasks: list[Task],
                 draws: list[Draw]) -> None:
        self.us = 0
        self.deaf = False  # True while no peer gets the sent messages
        self.log: list[dict[str, Any]] = []
        self.dropped: list[tuple[int, int, str]] = []  # dropping peer, dropped peer, reason
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.machines = [Machine(session, identity, task, EMPTY, draw, Driver(self, me), 0.0)
                         for me, (identity, task, draw) in enumerate(zip(identities, tasks, draws))]

    @property
    def now(self) -> float:
        return self.us / 1e6

    def after(self, run: Callable[[], None]) -> None:
        """Schedules a call one step from now."""
        self.number += 1
        heapq.heappush(self.queue, (self.us + STEP, self.number, run))

    def connect(self) -> None:
        """Connects all machines with each other at 1,000 microseconds."""
        for me, machine in enumerate(self.machines):
            for other in range(len(self.machines)):
                if other != me:
                    self.after(lambda m=machine, o=other: m.up(o, self.now))

    def run(self, until: int) -> None:
        """Runs all calls up to and including the time `until`."""
        while self.queue and self.queue[0][0] <= until:
            self.us, _, run = heapq.heappop(self.queue)
            run()
        self.us = until
