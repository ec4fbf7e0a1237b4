"""The agent of another machine: it starts members, owns their memory and watches them; what it sees it tells the first
machine's agent, which decides.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tutti.train.agent import lines
from tutti.train.agent.beats import Beats
from tutti.train.agent.begin import Begin
from tutti.train.agent.cabinet import Cabinet, Checksums
from tutti.train.agent.watch import Farewells, Watch

if TYPE_CHECKING:
    from tutti.train.agent.folder import Folder

GLANCE_S = 0.004
PULSE_S = 0.05
COUNT_S = 0.5
PARTING_S = 10.0
LAST_S = 5.0


class Hands(Protocol):
    """What a post cannot do itself: start a member, that will meet the others at a store elsewhere."""

    def start(self, member: str, facts: Begin) -> int: ...

    def use_store(self, address: str) -> None: ...


@dataclass
class Seat:
    """A member of this machine."""

    name: str
    index: int
    watch: Watch
    line: lines.Lines | None = None
    is_doomed: bool = False


@dataclass(frozen=True)
class End:
    """How it ended for this machine: the run's code, and whether its state is kept elsewhere. Without a code the first
    machine is gone.
    """

    code: int | None
    is_saved: bool = False


class Post:
    """Serves one life of the first machine's agent; call `turn` until `end` is set."""

    def __init__(self, folder: Folder, cabinet: Cabinet, hands: Hands, head: lines.Lines, lease_s: float) -> None:
        self.folder = folder
        self.cabinet = cabinet
        self.hands = hands
        self.head = head
        self.end: End | None = None
        self.seats: dict[str, Seat] = {}
        self._lease_s = lease_s
        self._heard_at = time.monotonic()
        self._next_pulse = 0.0
        self._next_count = 0.0
        self._memory_bytes = 0
        self._beats = Beats(folder.beats)
        self._checksums = Checksums(cabinet)
        folder.socket.unlink(missing_ok=True)
        self._listener = lines.listen(str(folder.socket))
        self._selector = selectors.DefaultSelector()
        self._farewells = Farewells(self._selector)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(head.socket, selectors.EVENT_READ, self._hear_head)
        self._checksums.start()

    def turn(self) -> None:
        """Hear members, processes and the first machine, and tell it what was heard."""
        for key, _ in self._selector.select(GLANCE_S):
            key.data()
        self._look_for_dying()
        if time.monotonic() >= self._next_pulse:
            self._next_pulse = time.monotonic() + PULSE_S
            self.head.send(self._pulse())
            self._farewells.are_over()
        silent_s = time.monotonic() - self._heard_at
        if self.end is None and (not self.head.is_open or silent_s > self._lease_s):
            self.end = End(None)

    def leave(self) -> None:
        """Ask for this machine's members to be let go."""
        self.head.send({"say": "leaving"})

    def close(self) -> None:
        """Members of a lost first machine keep what they have and go; whoever has not gone by then is killed."""
        if self.end is None or self.end.code is None:
            for seat in self.seats.values():
                self._tell(seat.name, {"say": "headless"})
            self._await_ends(PARTING_S)
        for seat in self.seats.values():
            seat.watch.send(signal.SIGKILL)
        self._await_ends(LAST_S)
        self._checksums.end()
        self.head.close()
        self._selector.close()
        self._listener.close()

    def _await_ends(self, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        while (self.seats or not self._farewells.are_over()) and time.monotonic() < until:
            for key, _ in self._selector.select(GLANCE_S):
                if key.fileobj is not self.head.socket:
                    key.data()

    # the first machine

    def _hear_head(self) -> None:
        try:
            said = self.head.receive()
        except lines.BadLine:
            said, self.head.is_open = [], False
        self._heard_at = time.monotonic()
        self.obey(said)

    def obey(self, said: list[lines.Message]) -> None:
        for message in said:
            self._obey(message)

    def _obey(self, said: lines.Message) -> None:
        word = said["say"]
        if word == "start":
            self._start(said)
        elif word == "down":
            self._tell(said["member"], said["said"])
        elif word == "kill" and said["member"] in self.seats:
            self.seats[said["member"]].watch.send(said["number"])
        elif word == "retire":
            self.cabinet.retire(said["step"], said["members"])
        elif word == "status":
            self.folder.write_status(said["status"])
        elif word == "end":
            self.end = End(said["code"], said["saved"])

    def _start(self, said: lines.Message) -> None:
        name = said["member"]
        facts = Begin(**{key: said[key] for key in Begin.__dataclass_fields__})
        self.hands.use_store(said["store"])
        watch = Watch(self.hands.start(name, facts))
        seat = self.seats[name] = Seat(name, facts.index, watch)
        self._selector.register(watch, selectors.EVENT_READ, lambda: self._ended(seat))
        self.head.send({"say": "began", "member": name, "pid": watch.pid})

    def _pulse(self) -> lines.Message:
        beats = {seat.name: self._signs(seat) for seat in self.seats.values() if not seat.is_doomed}
        if time.monotonic() >= self._next_count:
            self._next_count = time.monotonic() + COUNT_S
            self._memory_bytes = self.cabinet.memory_bytes()
        return {"say": "pulse", "beats": beats, "memory": self._memory_bytes, "replicas": self.cabinet.replicas()}

    def _signs(self, seat: Seat) -> list[float | bool]:
        """How long ago its heart beat, what it does, and since when it waits (-1: it never did, or does not)."""
        now, beat = time.monotonic_ns(), self._beats.read(seat.index)
        beats, since, waits = (now - at if at else -1 for at in (beat.beat_ns, beat.since_ns, beat.waits_ns))
        facts = [beats, beat.phase, beat.step, since, beat.compute_ns, waits]
        return [*facts, seat.watch.cpu_s(), seat.watch.is_stopped()]

    # members

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        line = lines.Lines(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._greet(line))

    def _greet(self, line: lines.Lines) -> None:
        said = received(line)
        hello = next((message for message in said if message["say"] == "hello"), None)
        seat = self.seats.get(hello["member"]) if hello else None
        if seat is None:
            if hello or not line.is_open:
                self._hang_up(line)
            return
        seat.line = line
        self._selector.modify(line.socket, selectors.EVENT_READ, lambda: self._listen(seat))
        self._pass_on(seat, said)

    def _listen(self, seat: Seat) -> None:
        assert seat.line is not None
        self._pass_on(seat, received(seat.line))
        if not seat.line.is_open:
            self._hang_up(seat.line)
            seat.line = None

    def _pass_on(self, seat: Seat, said: list[lines.Message]) -> None:
        """To the first machine; but memory is given here."""
        for message in said:
            if message["say"] == "slots":
                domain = self.cabinet.domains[0]
                self._tell(seat.name, {"say": "slots", "why": self.cabinet.serve(domain, seat.name, message)})
            else:
                self.head.send({"say": "up", "member": seat.name, "said": message})

    def _tell(self, name: str, message: lines.Message) -> None:
        seat = self.seats.get(name)
        if seat and seat.line:
            seat.line.send(message)

    def _hang_up(self, line: lines.Lines) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.socket)
        line.close()

    # processes

    def _ended(self, seat: Seat) -> None:
        code = self._farewells.see_off(seat.watch)
        if code is None:
            return
        if seat.line:
            self._listen(seat)
        if seat.line:
            self._hang_up(seat.line)
        del self.seats[seat.name]
        self._beats.clear(seat.index)
        self.head.send({"say": "gone", "member": seat.name, "code": code})

    def _look_for_dying(self) -> None:
        """As the agent of one machine does: the others need not wait until a killed process is taken apart."""
        for seat in self.seats.values():
            code = None if seat.is_doomed or not seat.watch.is_dying() else seat.watch.doom()
            if code is not None:
                seat.is_doomed = True
                self.head.send({"say": "doomed", "member": seat.name, "code": code})


def received(line: lines.Lines) -> list[lines.Message]:
    """What a member said; one that sends what is not a message is not listened to any more."""
    try:
        return line.receive()
    except lines.BadLine:
        line.is_open = False
        return []
