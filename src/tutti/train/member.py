"""A member's side of its agent: the socket, the heartbeat, and what to do when the agent is gone."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from tutti.train.agent import lines
from tutti.train.agent.beats import Beats
from tutti.train.agent.folder import Folder
from tutti.train.agent.generation import NOBODY, Generation, from_record
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.errors import NoMemory, TrainError

BEAT_S = 0.02
SLOTS_S = 60.0
PART_S = 20.0


class AgentGone(Exception):
    """The agent closed its end; the member saves and leaves."""


class Member:
    """What this process knows from its agent."""

    def __init__(self, folder: Path, name: str, index: int) -> None:
        self.name = name
        self.folder = Folder(folder)
        self.domain = ""
        self.announced: Generation = NOBODY
        self.standby: dict[str, Any] | None = None
        self.asked: dict[str, dict[str, Any]] = {}
        self.is_parted = False
        self._index = index
        self._computed_s = 0.0
        self._beats = Beats(self.folder.beats)
        self._slots: dict[str, Any] = {}
        self._line = lines.connect(str(self.folder.socket))
        self.say("hello", member=name, pid=os.getpid())
        self._start_beating()

    @property
    def has_agent(self) -> bool:
        return self._line.is_open

    @property
    def shelf(self) -> Shelf:
        """Where this member's failure domain keeps its snapshots."""
        return Shelf(self.folder.slots / self.domain)

    def say(self, word: str, **facts: Any) -> None:
        self._line.send({"say": word, **facts})

    def hear(self, wait_s: float | None = 0.0) -> None:
        """Take in what the agent said."""
        for message in self._line.receive(wait_s):
            if message["say"] == "generation":
                self._announce(from_record(message))
            elif message["say"] == "standby":
                self.standby = message
                self.domain = message.get("domain", "")
            elif message["say"] == "slots":
                self._slots = message
            elif message["say"] == "parted":
                self.is_parted = True
            elif message["say"] in ("snapshot", "leave"):
                self.asked[message["say"]] = message

    def _announce(self, generation: Generation) -> None:
        self.announced = generation
        rank = generation.rank(self.name)
        if rank is not None and generation.domains:
            self.domain = generation.domains[rank]

    def wait_generation(self, after: int, limit_s: float | None = None) -> Generation:
        """The next generation; blocks, because there is nothing to compute without one."""
        until = None if limit_s is None else time.monotonic() + limit_s
        while self.announced.number <= after:
            if not self.has_agent:
                raise AgentGone
            self.hear(None if until is None else max(0.0, until - time.monotonic()))
            if until is not None and time.monotonic() >= until:
                break
        return self.announced

    def part(self) -> None:
        """Leave together: whoever goes first closes connections that a slower one may still be reading from."""
        number, until = self.announced.number, time.monotonic() + PART_S
        self.say("parting")
        while not self.is_parted and self.has_agent and self.announced.number == number:
            self.hear(max(0.0, until - time.monotonic()))
            if time.monotonic() >= until:
                return

    def wait_place(self) -> None:
        """Until the agent says whether we start together or stand by."""
        while self.standby is None and self.announced.number == 0:
            if not self.has_agent:
                raise TrainError("the agent ended before this member had a place: see what it said")
            self.hear(None)

    def ask_slots(self, shelf: str, table: int, data: int, count: int, role: str = "own") -> Entry:
        """Memory for snapshots, or NoMemory with the numbers."""
        self._slots.clear()
        self.say("slots", shelf=shelf, table=table, data=data, count=count, role=role)
        until = time.monotonic() + SLOTS_S
        while not self._slots and self.has_agent and time.monotonic() < until:
            self.hear(0.5)
        if not self._slots:
            raise AgentGone
        if self._slots["why"]:
            raise NoMemory(self._slots["why"])
        return Entry(shelf, table, data, count)

    def phase(self, phase: int, step: int, compute_s: float = 0.0) -> None:
        self._computed_s = compute_s or self._computed_s
        self._beats.phase(self._index, phase, step, int(self._computed_s * 1e9))

    def waits(self, is_waiting: bool) -> None:
        self._beats.waits(self._index, is_waiting)

    def _start_beating(self) -> None:
        def beat() -> None:
            while True:
                self._beats.beat(self._index)
                time.sleep(BEAT_S)

        threading.Thread(target=beat, name="tutti-beat", daemon=True).start()
