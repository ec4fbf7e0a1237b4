"""A member's side of its agent: the socket, the heartbeat, and what to do when the agent is gone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
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
FLUSH_S = 1.0


class AgentGone(Exception):
    """The agent closed its end; the member saves and leaves."""


class Leaving(Exception):
    """All were asked to leave, so there will be no other generation."""


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
        self.headless_at = 0.0
        """When the machine that decides was lost; 0 while it is there."""
        self.on_news: Callable[[], None] = lambda: None
        self._news = threading.Condition()
        self._index = index
        self._computed_s = 0.0
        self._beats = Beats(self.folder.beats)
        self._slots: dict[str, Any] = {}
        self._line = lines.connect(str(self.folder.socket))
        self.say("hello", member=name, pid=os.getpid())
        self._start("tutti-beat", self._beat)
        self._start("tutti-ear", self._listen)

    @property
    def has_agent(self) -> bool:
        return self._line.is_open

    @property
    def has_head(self) -> bool:
        """Whether anybody is there who could announce a generation."""
        return self._line.is_open and not self.headless_at

    @property
    def is_leaving(self) -> bool:
        return "leave" in self.asked

    @property
    def shelf(self) -> Shelf:
        """Where this member's failure domain keeps its snapshots."""
        return Shelf(self.folder.slots / self.domain)

    def say(self, word: str, **facts: Any) -> None:
        self._line.send({"say": word, **facts})

    def _listen(self) -> None:
        """Take in what the agent says as soon as it is said, whatever the loop does at the time."""
        while self._line.is_open:
            said = self._received()
            with self._news:
                for message in said:
                    self._hear(message)
                self._news.notify_all()
            if said:
                self.on_news()
        if os.environ.get("TUTTI_TRAIN_MACHINES"):
            self.headless_at = self.headless_at or time.monotonic()

    def _received(self) -> list[lines.Message]:
        try:
            return self._line.receive(FLUSH_S)
        except lines.BadLine:
            self._line.is_open = False
            return []

    def _hear(self, message: lines.Message) -> None:
        if message["say"] == "generation":
            self._announce(from_record(message))
        elif message["say"] == "standby":
            self.standby = message
            self.domain = message.get("domain", "")
        elif message["say"] == "slots":
            self._slots = message
        elif message["say"] == "parted":
            self.is_parted = True
        elif message["say"] == "headless":
            self.headless_at = time.monotonic()
        elif message["say"] in ("snapshot", "leave"):
            self.asked[message["say"]] = message

    def until(self, is_so: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Wait for the agent to make something so; False when it is gone, or when the time is over."""
        with self._news:
            self._news.wait_for(lambda: is_so() or not self.has_head, limit_s)
            return is_so()

    def _announce(self, generation: Generation) -> None:
        self.announced = generation
        rank = generation.rank(self.name)
        if rank is not None and generation.domains:
            self.domain = generation.domains[rank]

    def wait_generation(self, after: int) -> Generation:
        """The next generation; blocks, because there is nothing to compute without one."""
        if not self.until(lambda: self.announced.number > after or self.is_leaving):
            raise AgentGone
        if self.announced.number <= after:
            raise Leaving
        return self.announced

    def part(self) -> None:
        """Leave together: whoever goes first closes connections that a slower one may still be reading from."""
        number = self.announced.number
        self.say("parting")
        self.until(lambda: self.is_parted or self.announced.number != number, PART_S)

    def wait_place(self) -> None:
        """Until the agent says whether we start together or stand by."""
        if not self.until(lambda: self.standby is not None or self.announced.number > 0):
            raise TrainError("the agent ended before this member had a place: see what it said")

    def ask_slots(self, shelf: str, table: int, data: int, count: int, role: str = "own") -> Entry:
        """Memory for snapshots, or NoMemory with the numbers."""
        self._slots = {}
        self.say("slots", shelf=shelf, table=table, data=data, count=count, role=role)
        with self._news:
            self._news.wait_for(lambda: self._slots or not self.has_agent, SLOTS_S)
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

    def _beat(self) -> None:
        while True:
            self._beats.beat(self._index)
            time.sleep(BEAT_S)

    def _start(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()
