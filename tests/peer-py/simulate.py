"""Machines among themselves in virtual time, as in the vectors `sum` and `faults` (spec, section 18)."""

from __future__ import annotations

import heapq
from typing import Any, Callable

from crypto import Identity
from machine import Drop, Job, Machine, Persist, Say, Send, Stop
from model import Task
from session import Session
from store import NOTHING, Loaded

STEP = 1000  # microseconds of a frame on its way, and of a job
EMPTY = Loaded(NOTHING, None, None, [])


class Simulation:
    def __init__(self, session: Session, identities: list[Identity], tasks: list[Task],
                 secrets: list[Any]) -> None:
        self.us = 0
        self.log: list[dict[str, Any]] = []
        self.dropped: list[tuple[int, Drop]] = []
        self.said: list[tuple[int, Any]] = []
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.machines = [Machine(session, i, t, EMPTY, 0.0, s) for i, t, s in zip(identities, tasks, secrets)]

    def at(self, us: int, run: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (us, self.number, run))

    @property
    def now(self) -> float:
        return self.us / 1e6

    def connect(self) -> None:
        """All up at each other at 1,000."""
        for me, machine in enumerate(self.machines):
            for other in range(len(self.machines)):
                if other != me:
                    self.at(STEP, lambda m=machine, o=other: m.up(o, self.now))

    def carry_out(self, me: int) -> None:
        machine = self.machines[me]
        for action in machine.take_actions():
            if isinstance(action, Send):
                channel = "bulk" if action.bulk else "control"
                self.log.append({"from": me, "to": action.to, "channel": channel, "us": self.us,
                                 "header": action.header.hex(), "payload": action.payload.hex()})
                self.at(self.us + STEP, lambda a=action: self.deliver(me, a))
            elif isinstance(action, Persist):
                self.log.append({"from": me, "persist": action.label, "us": self.us})
            elif isinstance(action, Job):
                self.at(self.us + STEP, lambda a=action: machine.finished(a.number, a.run(), self.now))
            elif isinstance(action, Drop):
                self.dropped.append((me, action))
            elif isinstance(action, (Say, Stop)):
                self.said.append((me, action))

    def deliver(self, sender: int, action: Send) -> None:
        self.machines[action.to].frame(sender, action.bulk, action.header, action.payload, self.now)

    def run(self, until: int) -> None:
        """Everything up to and including a time."""
        while self.queue and self.queue[0][0] <= until:
            self.us, _, run = heapq.heappop(self.queue)
            run()
            for me in range(len(self.machines)):
                self.carry_out(me)
        self.us = until
