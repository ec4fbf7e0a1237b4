"""The other machines of a run, as the first one sees them: who has come, what each may keep, what it says.

Every machine has an agent of its own that starts its members and owns its memory (a post). One decides: the first
machine's. A post that is not heard of any more is lost, with all that it had.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from dataclasses import dataclass, field

from tutti.train.agent.lines import BadLine, Lines, Message

VERSION = 1
LEASE_S = 15.0
PULSE_S = 0.5
LAST_CALL_S = 5.0
MOST_STRANGERS = 64


class Twice(Exception):
    """A machine of that rank is here."""


@dataclass(frozen=True)
class Past:
    """What a machine remembers of a run. Each start of the first machine's agent is another life; `base` is the newest
    generation there was before it.
    """

    life: int = 0
    base: int = 0
    generation: int = 0
    number: int = -1
    """The highest number that a member had whose snapshots are here."""


def newest_life(pasts: list[Past]) -> Past:
    """The last life that anybody took part in, and what it began with."""
    return max(pasts, key=lambda past: (past.life, past.base))


def belongs(past: Past, newest: Past) -> bool:
    """Whether what a machine holds is of the run's one history. One that was away during a life may hold steps that
    were computed again, by other generations of the same numbers.
    """
    return past.life == newest.life or past.generation <= newest.base


@dataclass
class Post:
    """A machine that has greeted."""

    domain: str
    line: Lines
    room: int
    past: Past
    heard_at: float = field(default_factory=time.monotonic)
    memory_bytes: int = 0
    replicas: int = 0
    is_leaving: bool = False
    is_welcome: bool = False


class Posts:
    """The machines that are here. What they say comes out of `hear`, in order, by the name of their failure domain."""

    def __init__(self, listener: socket.socket, run: str, machines: int, lease_s: float = LEASE_S) -> None:
        self.run = run
        self.machines = machines
        self.here: dict[str, Post] = {}
        self.now = Past()
        """This life; posts that come before it has begun wait for their welcome."""
        self._lease_s = lease_s
        self._listener = listener
        self._strangers: list[Lines] = []
        self._said: list[tuple[str, Message]] = []
        self._selector = selectors.EpollSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._next_pulse = 0.0

    def fileno(self) -> int:
        return self._selector.fileno()

    def hear(self, wait_s: float = 0.0) -> list[tuple[str, Message]]:
        """What was said since the last time; a machine that came says `greet`, of one that is gone it says `lost`."""
        for key, _ in self._selector.select(wait_s):
            key.data()
        self._look_for_silent()
        said, self._said = self._said, []
        return said

    def say(self, domain: str, message: Message) -> None:
        post = self.here.get(domain)
        if post and post.is_welcome:
            post.line.send(message)

    def say_all(self, message: Message) -> None:
        for domain in list(self.here):
            self.say(domain, message)

    def pulse(self) -> None:
        """Tell everyone, now and then, that this machine is there."""
        if time.monotonic() >= self._next_pulse:
            self._next_pulse = time.monotonic() + PULSE_S
            self.say_all({"say": "pulse"})

    def gather(self, least: int, limit_s: float) -> bool:
        """Wait for the other machines: for all of them, or a little longer once there are enough; False when there are
        not in time.
        """
        until = time.monotonic() + limit_s
        while len(self.here) + 1 < self.machines and time.monotonic() < until:
            for _, said in self.hear(0.1):
                if said["say"] == "greet" and len(self.here) + 1 >= least:
                    until = min(until, time.monotonic() + LAST_CALL_S)
        return len(self.here) + 1 >= least

    def begin(self, mine: Past) -> bool:
        """Begin a life after all others that are known, and welcome who is here; whether what this machine holds
        belongs to it.
        """
        pasts = [mine, *(post.past for post in self.here.values())]
        newest = newest_life(pasts)
        kept = [past for past in pasts if belongs(past, newest)]
        base = max(past.generation for past in kept)
        number = max(past.number for past in pasts)
        self.now = Past(newest.life + 1, base, base, number)
        for post in self.here.values():
            self._welcome(post, belongs(post.past, newest))
        return belongs(mine, newest)

    def lose(self, domain: str) -> None:
        post = self.here.pop(domain, None)
        if post:
            self._forget(post.line)

    def close(self) -> None:
        for post in list(self.here.values()):
            self._forget(post.line)
        for line in self._strangers:
            self._forget(line)
        self._selector.close()
        self._listener.close()

    def _welcome(self, post: Post, is_kept: bool) -> None:
        post.is_welcome = True
        self.say(post.domain, {"say": "welcome", "life": self.now.life, "base": self.now.base, "keep": is_kept})

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Lines(connection)
            self._strangers.append(line)
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._greet(line))
            if len(self._strangers) > MOST_STRANGERS:
                self._forget(self._strangers.pop(0))

    def _greet(self, line: Lines) -> None:
        """Someone connected: it is one of this run's machines, or it is told why not."""
        said = self._received(line)
        if not said and line.is_open:
            return
        self._strangers.remove(line)
        try:
            self._admit(line, said[0])
        except Twice as error:
            line.send({"say": "refused", "why": str(error), "again": True})
            self._forget(line)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            line.send({"say": "refused", "why": str(error) or "that is no greeting", "again": False})
            self._forget(line)

    def _admit(self, line: Lines, greeting: Message) -> None:
        domain, past = name_of(int(greeting["node"])), Past(*map(int, greeting["past"]))
        why = self._why_not(greeting)
        if why:
            raise ValueError(why)
        self._check_new(domain)
        post = Post(domain, line, int(greeting["room"]), past)
        self.here[domain] = post
        self._selector.modify(line.socket, selectors.EVENT_READ, lambda: self._listen(post))
        self._said.append((domain, greeting))
        if self.now.life:
            self._welcome(post, belongs(past, self.now))

    def _why_not(self, greeting: Message) -> str:
        node = int(greeting["node"])
        if greeting["say"] != "greet" or greeting["version"] != VERSION:
            return f"it speaks version {greeting.get('version')} and this machine {VERSION}: use the same on all"
        if greeting["run"] != self.run:
            return f"run {self.run!r} is here, not {greeting['run']!r}: give the same --run-id on all machines"
        if not 0 < node < self.machines:
            return f"--node-rank {node}: there are {self.machines} machines, and this is the one with rank 0"
        return ""

    def _check_new(self, domain: str) -> None:
        """A machine that starts again may come before its end was noticed; it tries again."""
        before = self.here.get(domain)
        if before:
            self._listen(before)
        if domain in self.here:
            raise Twice(f"machine {domain} is here already: each has a --node-rank of its own")

    def _listen(self, post: Post) -> None:
        said = self._received(post.line)
        post.heard_at = time.monotonic()
        self._said += [(post.domain, message) for message in said]
        if not post.line.is_open:
            self._lost(post, "its agent is gone")

    def _received(self, line: Lines) -> list[Message]:
        try:
            return line.receive()
        except BadLine:
            line.is_open = False
            return []

    def _look_for_silent(self) -> None:
        for post in list(self.here.values()):
            silent_s = time.monotonic() - post.heard_at
            if silent_s > self._lease_s * 4 / 3:
                self._lost(post, f"nothing was heard of it for {silent_s:.0f} s")

    def _lost(self, post: Post, why: str) -> None:
        self.lose(post.domain)
        self._said.append((post.domain, {"say": "lost", "why": why}))

    def _forget(self, line: Lines) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.socket)
        line.close()


def name_of(node: int) -> str:
    """The failure domain that a machine is."""
    return f"n{node}"


def rank_of(domain: str) -> int:
    return int(domain[1:])
