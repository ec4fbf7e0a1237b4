"""Members on other machines, brought to the agent as if they were here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tutti.train.agent.beats import Beat
from tutti.train.agent.exits import Exit
from tutti.train.agent.lines import BadLine, Message
from tutti.train.agent.posts import Posts, rank_of

if TYPE_CHECKING:
    from tutti.train.agent.agent import Agent
    from tutti.train.agent.seat import Seat

KILLED = -9
TOGETHER_S = 3.0


class FarWatch:
    """A process on another machine, as its post tells of it."""

    is_cut_off = False

    def __init__(self, say: Callable[[Message], None], member: str) -> None:
        self.pid = 0
        self.code: int | None = None
        self.doomed: int | None = None
        self.is_frozen = False
        self.used_s = 0.0
        self._say = say
        self._member = member

    def fileno(self) -> int:
        return -1

    def send(self, number: int) -> bool:
        self._say({"say": "kill", "member": self._member, "number": int(number)})
        return self.code is None

    def reap(self) -> int | None:
        return self.code

    def end_group(self) -> bool:
        """Its post does that."""
        return False

    def doom(self) -> int | None:
        return self.doomed

    def is_dying(self) -> bool:
        return self.doomed is not None

    def is_stopped(self) -> bool:
        return self.is_frozen

    def cpu_s(self) -> float:
        return self.used_s

    def close(self) -> None:
        """Nothing is open."""


class FarLine:
    """The way to a member on another machine, by its post."""

    def __init__(self, say: Callable[[Message], None], member: str) -> None:
        self.is_open = True
        self._say = say
        self._member = member

    def send(self, message: Message) -> bool:
        self._say({"say": "down", "member": self._member, "said": message})
        return self.is_open

    def receive(self) -> list[Message]:
        """What it says comes from its post."""
        return []

    def close(self) -> None:
        self.is_open = False


class Far:
    """Carries what posts say to the agent, and what becomes of a machine to its members."""

    def __init__(self, agent: Agent, posts: Posts, room: int) -> None:
        self.agent = agent
        self.posts = posts
        self.room = room
        """Members that there is a place for on this machine."""
        self._ended: list[tuple[float, str]] = []
        self._ears = {
            "up": self._up,
            "began": self._began,
            "doomed": self._doomed,
            "gone": self._gone,
            "pulse": self._pulse,
            "leaving": self._leaving,
            "lost": self._lost,
            "greet": self._came,
        }

    def turn(self) -> None:
        for domain, said in self.posts.hear():
            ear = self._ears.get(said["say"])
            if ear is None:
                continue
            try:
                ear(domain, said)
            except (KeyError, TypeError, ValueError, IndexError, BadLine) as error:
                self._lost(domain, {"why": f"it said what makes no sense ({said['say']}: {error})"})
        self.posts.pulse()
        self._let_go()

    def _let_go(self) -> None:
        """A machine that leaves may go when its last member has."""
        for domain in [name for name, post in self.posts.here.items() if post.is_leaving and not self._seats(name)]:
            self.posts.say(domain, {"say": "end", "code": int(Exit.RELEASED), "saved": True})
            self.posts.lose(domain)

    def start(self, domain: str, member: str, facts: Message) -> FarWatch:
        """Have a member started on another machine."""
        self.posts.say(domain, {"say": "start", "member": member, **facts})
        return FarWatch(lambda message: self.posts.say(domain, message), member)

    def rooms(self) -> dict[str, int]:
        """How many members each machine that stays has a place for, in the order of their ranks."""
        staying = {name: post.room for name, post in self.posts.here.items() if not post.is_leaving}
        rooms = {self.agent.cabinet.domains[0]: self.room, **staying}
        return dict(sorted(rooms.items(), key=lambda one: rank_of(one[0])))

    def free(self, sizes: dict[str, int]) -> int:
        return sum(max(0, room - sizes.get(domain, 0)) for domain, room in self.rooms().items())

    def choose(self, sizes: dict[str, int], want: int) -> str:
        """The machine of the next member: the first that has less than its share, so that ranks are neighbours."""
        rooms = self.rooms()
        share = -(-want // len(rooms))
        short = [name for name, room in rooms.items() if sizes.get(name, 0) < min(share, room)]
        others = [name for name, room in rooms.items() if sizes.get(name, 0) < room]
        return short[0] if short else min(others, key=lambda name: sizes.get(name, 0))

    def note_end(self, seat: Seat) -> None:
        """When a member ended: those that ended just before their machine was lost went with it."""
        self._ended = [one for one in self._ended if time.monotonic() - one[0] < TOGETHER_S]
        self._ended.append((time.monotonic(), seat.domain))

    def memory_bytes(self) -> int:
        return sum(post.memory_bytes for post in self.posts.here.values())

    def replicas(self) -> int:
        return sum(post.replicas for post in self.posts.here.values())

    # what posts say

    def _up(self, domain: str, said: Message) -> None:
        seat, message = self._seat(domain, said), said["said"]
        if seat is None:
            return
        if message["say"] == "hello":
            seat.line = FarLine(lambda one: self.posts.say(domain, one), seat.name)
            self.agent.welcome(seat)
        else:
            self.agent.hear(seat, [message])

    def _began(self, domain: str, said: Message) -> None:
        seat = self._seat(domain, said)
        if seat:
            seat.watch.pid = int(said["pid"])
            self.agent.tell_started(seat)

    def _doomed(self, domain: str, said: Message) -> None:
        watch = self._watch(domain, said)
        if watch:
            watch.doomed = int(said["code"])
            self.agent.glance()

    def _gone(self, domain: str, said: Message) -> None:
        watch, seat = self._watch(domain, said), self._seat(domain, said)
        if watch and seat:
            watch.code = int(said["code"])
            self.agent.ended(seat)

    def _pulse(self, domain: str, said: Message) -> None:
        """Ages, not times: the clocks of two machines have nothing in common."""
        post = self.posts.here[domain]
        post.memory_bytes, post.replicas = int(said["memory"]), int(said["replicas"])
        now = time.monotonic_ns()
        for member, facts in said["beats"].items():
            watch, seat = self._watch(domain, {"member": member}), self._seat(domain, {"member": member})
            if watch is None or seat is None:
                continue
            age, phase, step, since, compute, waits, watch.used_s, watch.is_frozen = facts
            # This machine may have been started after that.
            beat_ns, since_ns, waits_ns = (max(1, now - one) if one >= 0 else 0 for one in (age, since, waits))
            self.agent.beats.put(seat.index, Beat(beat_ns, phase, step, since_ns, compute, waits_ns))

    def _came(self, domain: str, _said: Message) -> None:
        room = self.posts.here[domain].room
        self.agent.story.tell("machine", f"machine {domain} is here, with room for {room} members", domain=domain)
        self.agent.fit()

    def _leaving(self, domain: str, _said: Message) -> None:
        """A machine is asked to give its members back: the others go on without them, from a step of their own."""
        self.posts.here[domain].is_leaving = True
        members = tuple(seat.name for seat in self._seats(domain))
        self.agent.story.tell("leaving", f"machine {domain} leaves, with {len(members)} members", domain=domain)
        self.agent.fit(members)

    def _lost(self, domain: str, said: Message) -> None:
        """All of a machine's members went with it. It costs no restart, and no place is kept for them."""
        self.posts.lose(domain)
        seats = self._seats(domain)
        text = f"machine {domain} is lost, with {len(seats)} members: {said['why']}"
        self.agent.story.tell("machine lost", text, domain=domain, members=[seat.name for seat in seats])
        just_before = [one for one in self._ended if one[1] == domain and time.monotonic() - one[0] < TOGETHER_S]
        self._ended = [one for one in self._ended if one[1] != domain]
        self.agent.roster.forgive(len(just_before))
        for seat in seats:
            seat.watch.is_cut_off = True
            assert isinstance(seat.watch, FarWatch)
            seat.watch.code = KILLED
            self.agent.ended(seat)
        self.agent.fit()

    def _seats(self, domain: str) -> list[Seat]:
        return [seat for seat in self.agent.seats.values() if seat.domain == domain]

    def _seat(self, domain: str, said: Message) -> Seat | None:
        seat = self.agent.seats.get(said["member"])
        return seat if seat and seat.domain == domain else None

    def _watch(self, domain: str, said: Message) -> FarWatch | None:
        seat = self._seat(domain, said)
        return seat.watch if seat and isinstance(seat.watch, FarWatch) else None
