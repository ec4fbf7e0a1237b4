"""The agent: owns the members' socket, the generations, the snapshot memory and the watch over the processes of one
run.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Protocol

from tutti.train.agent import lines, roster
from tutti.train.agent.beats import ENTRIES, Beats, stragglers
from tutti.train.agent.begin import Begin
from tutti.train.agent.cabinet import Cabinet, Checksums
from tutti.train.agent.exits import Exit, meaning
from tutti.train.agent.far import Far, FarLine, FarWatch
from tutti.train.agent.folder import Folder
from tutti.train.agent.generation import Generation
from tutti.train.agent.hang import Hangs, Sight
from tutti.train.agent.journal import Journal, Unwritten
from tutti.train.agent.posts import Posts
from tutti.train.agent.seat import Seat
from tutti.train.agent.story import Story
from tutti.train.agent.watch import Farewells, Watch

LOOK_S = 0.02
GLANCE_S = 0.004
EXPECTED_S = 0.001
CALM_S = 1.0
LAST_S = 5.0
LASTING_S = 1.0
PARTING_S = 10.0
VAIN_S = 0.3


class Hands(Protocol):
    """What an agent cannot do itself: start a member, keep the store that groups meet at."""

    def start(self, member: str, facts: Begin) -> int:
        """Start a member, as a child of this process; its process id."""
        ...

    def store(self) -> str:
        """The address of a store that is alive."""
        ...

    def renew_store(self) -> None:
        """Forget everything that was said in the store."""
        ...


class Agent:
    """Runs a job: call `turn` until `code` is set. Its `fileno` may sit in another loop."""

    def __init__(
        self, folder: Folder, plan: roster.Roster, hands: Hands, story: Story, domains: tuple[str, ...] = ("",)
    ) -> None:
        self.folder = folder
        self.roster = plan
        self.hands = hands
        self.story = story
        self.asked = plan.want
        """The size that is wanted where there is room for it."""
        self.far: Far | None = None
        self.cabinet = Cabinet(folder.slots, domains)
        self.checksums = Checksums(self.cabinet)
        self.journal = Journal(folder.journal)
        self.beats = Beats(folder.beats)
        self.seats: dict[str, Seat] = {}
        self.code: int | None = None
        self.progress: dict[str, Any] = {}
        self.heard: dict[str, Callable[[Seat, lines.Message], None]] = self._ears()
        self.started = self._start_number()
        self.failures = 0
        self.sealed_at = 0.0
        self.restart_s = 0.0
        self.parked = ""
        self._attempt_began = time.monotonic()
        self._announced_at = 0.0
        self._formed_at = -1
        self._renewing_since = 0.0
        self.hangs = Hangs()
        self._slow: set[str] = set()
        self._lagging: tuple[set[str], float] = (set(), 0.0)
        self._stalled = ""
        self._selector = selectors.DefaultSelector()
        self._farewells = Farewells(self._selector)
        self._listener = lines.listen(str(folder.socket))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._next_look = 0.0
        self._next_hang_look = 0.0
        self.began = time.monotonic()
        plan.generation = self._after_restart()
        plan.store = hands.store()
        self.checksums.start()

    def reach_out(self, posts: Posts, room: int) -> None:
        """Have other machines take part, with room for so many members on this one; after their pasts and ours."""
        if not posts.begin(self.folder.past(self.cabinet)):
            self.cabinet.clear()
        now = posts.now
        self.folder.remember(now.life, now.base)
        self.started = max(self.started, now.number + 1)
        number = max(now.base, self.roster.generation.number)
        self.roster.generation = replace(self.roster.generation, number=number)
        self.journal.current = replace(self.journal.current, number=number)
        self.far = Far(self, posts, room)
        self._selector.register(posts, selectors.EVENT_READ, self.far.turn)
        self.fit()

    def counts_by(self, unit: int) -> None:
        """Members come and go by so many, unless the legal sizes were listed."""
        if not self.roster.rule.listed:
            self.roster.rule = replace(self.roster.rule, unit=unit)

    def fit(self, unwanted: tuple[str, ...] = ()) -> None:
        """As many members as are wanted and the machines that are here have room for."""
        room = sum(self.far.rooms().values()) if self.far else self.asked
        self.roster.want = self.roster.rule.at_most(min(self.asked, room)) or self.roster.want
        self._dismiss(unwanted)

    def _dismiss(self, names: tuple[str, ...]) -> None:
        for name in self.roster.dismiss(names):
            self.seats[name].watch.send(signal.SIGKILL)

    def fileno(self) -> int:
        return self._selector.fileno() if isinstance(self._selector, selectors.EpollSelector) else -1

    def turn(self, wait_s: float = LOOK_S) -> None:
        """Hear what happened, then do what follows from it."""
        for key, _ in self._selector.select(wait_s):
            key.data()
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_S
            self._look_at_beats()
            self._look_for_dying()
            if self.far:
                self.far.turn()
        if time.monotonic() >= self._next_hang_look:
            self._next_hang_look = time.monotonic() + 0.25
            self._look_for_hangs()
            self._farewells.are_over()
        self.roster.is_calm = self._is_calm()
        self.roster.is_vain = self._is_vain()
        self.roster.is_overdue = time.monotonic() - self._renewing_since > LAST_S
        self._follow_orders()

    def glance(self) -> bool:
        """Whether a member that computes is dying: looked at more often than there is time for everything else."""
        found = any(seat.watch.is_dying() for seat in self._active() if not seat.is_doomed)
        self._next_look = 0.0 if found else self._next_look
        return found

    @property
    def glance_s(self) -> float:
        """How long until the next glance: one that was killed from here is gone within milliseconds."""
        is_expected = any(seat.killed_for and not seat.is_doomed for seat in self.seats.values())
        return EXPECTED_S if is_expected else GLANCE_S

    def say_all(self, message: lines.Message) -> None:
        """Tell every active member."""
        for name in self.roster.generation.members:
            self.say(name, message)

    def say(self, name: str, message: lines.Message) -> None:
        seat = self.seats.get(name)
        if seat and seat.line:
            seat.line.send(message)

    def resize(self, want: int, members: tuple[str, ...] = ()) -> None:
        """Change the wanted size; the caller has checked that it is legal."""
        self.asked = want
        self.roster.want = want
        self.roster.holes = 0
        self.roster.unwanted = set()
        self.fit(members)

    def end_all(self) -> None:
        """Kill every member and wait until each is gone."""
        for seat in list(self.seats.values()):
            seat.watch.send(signal.SIGKILL)
        limit = time.monotonic() + 10
        while self.seats and time.monotonic() < limit:
            for seat in list(self.seats.values()):
                self.ended(seat)
            if self.far:
                self.far.turn()
            time.sleep(0.002)

    def part(self) -> None:
        """Have the members that compute keep what they have and go, as far as they do so in time."""
        self.say_all({"say": "leave", "id": ""})
        limit = time.monotonic() + PARTING_S
        while any(not seat.is_doomed for seat in self._active()) and time.monotonic() < limit:
            for key, _ in self._selector.select(LOOK_S):
                key.data()
            self._look_for_dying()

    def close(self) -> None:
        if self.code is None:
            self.part()
        self.end_all()
        limit = time.monotonic() + LAST_S
        while not self._farewells.are_over() and time.monotonic() < limit:
            time.sleep(0.002)
        self.checksums.end()
        self._selector.close()
        self._listener.close()
        self.journal.close()

    def fence(self, seat: Seat, why: str) -> None:
        """Make sure a member is out: nothing is announced without it until the kernel says it is dead."""
        if not seat.killed_for:
            seat.killed_for = why
            self.story.tell("fenced", f"{seat.name} {why}; it is killed", member=seat.name, why=why)
        seat.watch.send(signal.SIGKILL)

    # what members say

    def _ears(self) -> dict[str, Callable[[Seat, lines.Message], None]]:
        return {
            "ready": lambda seat, _: self.roster.is_ready(seat.name),
            "formed": self._heard_formed,
            "stuck": self._heard_stuck,
            "parting": self._heard_parting,
            "progress": self._heard_progress,
            "slots": self._heard_slots,
            "story": self._heard_story,
            "again": self._heard_again,
            "unit": lambda _, said: self.counts_by(said["unit"]),
        }

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        line = lines.Lines(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._greet(line))

    def _greet(self, line: lines.Lines) -> None:
        try:
            said = line.receive()
        except lines.BadLine:
            said, line.is_open = [], False
        hello = next((message for message in said if message["say"] == "hello"), None)
        seat = self.seats.get(hello["member"]) if hello else None
        if seat is None:
            if hello or not line.is_open:
                self._hang_up(line)
            return
        self._selector.modify(line.socket, selectors.EVENT_READ, lambda: self._listen(seat))
        seat.line = line
        self.welcome(seat)
        self.hear(seat, [message for message in said if message["say"] != "hello"])

    def welcome(self, seat: Seat) -> None:
        if self.roster.joined(seat.name):
            return
        self._stand_by(seat)

    def _stand_by(self, seat: Seat) -> None:
        place = len(self.roster.generation.members)
        standby = {"say": "standby", "rank": place, "world": place + 1, "store": self.roster.store}
        self.say(seat.name, {**standby, "domain": seat.domain})

    def _listen(self, seat: Seat) -> None:
        assert seat.line is not None
        try:
            self.hear(seat, seat.line.receive())
        except lines.BadLine as error:
            self.fence(seat, f"sent what is not a message ({error})")
            seat.line.is_open = False
        if not seat.line.is_open:
            self._hang_up(seat.line)
            seat.line = None

    def hear(self, seat: Seat, said: list[lines.Message]) -> None:
        for message in said:
            ear = self.heard.get(message["say"])
            if ear:
                ear(seat, message)

    def _hang_up(self, line: lines.Lines | FarLine) -> None:
        if isinstance(line, lines.Lines):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(line.socket)
        line.close()

    def _heard_formed(self, seat: Seat, said: lines.Message) -> None:
        self.roster.formed(seat.name, said["generation"])
        self.roster.committed(said.get("step", -1))
        if self.roster.is_settled():
            if self._attempt_began:
                self.restart_s, self._attempt_began = time.monotonic() - self._attempt_began, 0.0
            facts = {key: said[key] for key in ("step", "source", "world", "brought_s") if key in said}
            number, step = said["generation"], said.get("step", 0)
            self._formed_at = step
            text = f"generation {number} computes with {said.get('world')} members from step {step} on"
            self.story.tell("formed", text, generation=number, **facts)

    def _heard_stuck(self, seat: Seat, said: lines.Message) -> None:
        self.roster.stuck(seat.name, said["generation"])
        self.story.tell(
            "stuck", f"{seat.name} cannot go on: {said['why']}", member=seat.name, generation=said["generation"]
        )

    def _heard_parting(self, seat: Seat, _said: lines.Message) -> None:
        seat.is_parting = True
        self._part()

    def _part(self) -> None:
        """Members that have done all their work go when the last of them has; one that was about to come has none."""
        active = [seat for seat in self._active() if not seat.is_doomed and self.roster.members[seat.name].formed]
        if active and all(seat.is_parting for seat in active):
            self.say_all({"say": "parted"})

    def _heard_again(self, _seat: Seat, _said: lines.Message) -> None:
        if not self.roster.is_renewing:
            self.roster.is_renewing, self._renewing_since = True, time.monotonic()

    def _heard_progress(self, seat: Seat, said: lines.Message) -> None:
        self.roster.committed(said["step"])
        if said.get("snapshot_step", -1) > self.progress.get("snapshot_step", -1):
            self.cabinet.retire(said["snapshot_step"], list(self.seats))
            if self.far:
                retire = {"say": "retire", "step": said["snapshot_step"], "members": list(self.seats)}
                self.far.posts.say_all(retire)
            self.sealed_at = time.monotonic()
        self.progress = {**said, "member": seat.name}

    def _heard_story(self, seat: Seat, said: lines.Message) -> None:
        facts = said.get("facts", {})
        self.story.tell(said["event"], said["text"], **facts)
        if said["event"] in ("unkept", "kept"):
            seat.unkept = facts["step"] if said["event"] == "unkept" else -1

    def unkept(self) -> dict[str, int]:
        """Members that could not keep their last snapshot, with the step it was of."""
        return {seat.name: seat.unkept for seat in self._active() if seat.unkept >= 0}

    def _heard_slots(self, seat: Seat, said: lines.Message) -> None:
        self.say(seat.name, {"say": "slots", "why": self.cabinet.serve(seat.domain, seat.name, said)})

    # what processes do

    def ended(self, seat: Seat) -> None:
        code = self._farewells.see_off(seat.watch)
        if code is None:
            return
        if seat.line:
            self._drain(seat)
        del self.seats[seat.name]
        self.beats.clear(seat.index)
        if not seat.is_doomed:
            self._note_end(seat, code)

    def _drain(self, seat: Seat) -> None:
        """Its last words count, if they came before its end."""
        self._listen(seat)
        if seat.line:
            self._hang_up(seat.line)

    def _note_end(self, seat: Seat, code: int) -> None:
        is_dear = self.roster.gone(seat.name, code, seat.watch.is_cut_off)
        if is_dear and self.far:
            self.far.note_end(seat)
        self._part()
        # Nobody is lost who was ended from here, or who goes because all start again.
        is_meant = self.roster.is_ending or (self.roster.is_renewing and code == Exit.AGAIN)
        if seat.name in self.roster.lost() and not (self.roster.is_finished or is_meant):
            self.failures += 1
            self.story.tell("lost", f"{seat.name} is gone: {meaning(code)}", member=seat.name, code=code)
        else:
            self.story.tell("ended", f"{seat.name} ended: {meaning(code)}", member=seat.name, code=code)

    def _look_for_dying(self) -> None:
        """A killed process is taken apart for a while before the kernel says that it has ended; it does nothing more
        from the moment it was killed, and the others need not wait for its memory to be given back.
        """
        for seat in self._active():
            code = None if seat.is_doomed else seat.watch.doom()
            if code is not None:
                seat.is_doomed = True
                self._note_end(seat, code)

    def _look_at_beats(self) -> None:
        """A member that is silent beyond what was ever harmless, and that the kernel says is stopped, is frozen."""
        now = time.monotonic_ns()
        for seat in list(self.seats.values()):
            found = self.beats.read(seat.index)
            beat = found.beat_ns
            if not beat:
                self._look_at_starter(seat, (now - seat.began_ns) / 1e9)
                continue
            if found.compute_ns and found.step != seat.step:
                seat.step = found.step
                seat.computed_s.append(found.compute_ns / 1e9)
            if beat != seat.last_beat_ns and seat.last_beat_ns:
                seat.silence.observe((beat - seat.last_beat_ns) / 1e9)
            seat.last_beat_ns = beat
            silent_s = (now - beat) / 1e9
            if silent_s > seat.silence.allowed_s and seat.watch.is_stopped():
                self.fence(seat, f"has been frozen for {silent_s:.2f} s")

    def _look_at_starter(self, seat: Seat, silent_s: float) -> None:
        """One that is frozen before its heart has ever beaten would be waited for. A program that may never join is its
        owner's to freeze.
        """
        is_awaited = self.roster.may_join or self.roster.generation.number
        if is_awaited and silent_s > seat.silence.allowed_s and seat.watch.is_stopped():
            self.fence(seat, f"has been frozen since its start {silent_s:.2f} s ago")

    def _look_for_hangs(self) -> None:
        """A member that all others wait for is fenced when it does nothing, and named when it computes."""
        stall = self.hangs.look(time.monotonic(), [self._sight(seat) for seat in self._active()])
        if stall is None:
            self._stalled = ""
        elif stall.is_idle:
            why = f"is waited for by all others since {stall.waited_s:.1f} s"
            self.fence(self.seats[stall.name], why if self.hangs.limit_s else f"{why}, and does nothing")
        elif stall.name != self._stalled:
            self._stalled = stall.name
            text = f"all others wait for {stall.name} since {stall.waited_s:.1f} s; it computes, so it is left alone"
            self.story.tell("stalled", text, member=stall.name)

    def _sight(self, seat: Seat) -> Sight:
        beat = self.beats.read(seat.index)
        return Sight(seat.name, beat.step, beat.waits_ns / 1e9, 0.0 if beat.waits_ns else seat.watch.cpu_s())

    def _active(self) -> list[Seat]:
        return [self.seats[name] for name in self.roster.generation.members if name in self.seats]

    def stragglers(self) -> dict[str, float]:
        """Members that compute much longer than the others; told when it has lasted, once, and when it has ended."""
        found = stragglers({seat.name: seat.compute_s for seat in self._active() if len(seat.computed_s) >= 3})
        now = time.monotonic()
        if set(found) != self._lagging[0]:
            self._lagging = (set(found), now)
        elif set(found) != self._slow and now - self._lagging[1] >= LASTING_S:
            self._slow = set(found)
            text = ", ".join(f"{name} computes {factor} times as long as the others" for name, factor in found.items())
            self.story.tell("straggler", text or "nobody lags behind any more", members=found)
        return found

    # what follows

    def _follow_orders(self) -> None:
        for order in self.roster.orders():
            if isinstance(order, roster.Announce):
                self._announce(order)
            elif isinstance(order, roster.Spawn):
                self._spawn(order.count)
            elif isinstance(order, roster.EndAll):
                self._end(order)
            elif isinstance(order, roster.Dismiss):
                self._dismiss(order.names)
            elif isinstance(order, roster.Park):
                self._park(order.reason)
            else:
                self.code = order.code
                self.story.tell("finished", f"the run ends: {order.reason}", code=order.code)

    def _end(self, order: roster.EndAll) -> None:
        self.story.tell("ending", order.reason)
        self.roster.is_ending = True
        if order.is_gentle:
            self.part()
        self.end_all()
        self.roster.is_ending = False

    def _is_calm(self) -> bool:
        """Whether everyone in the present generation has begun the step after its first, or has had the time to."""
        if time.monotonic() - self._announced_at > CALM_S:
            return True
        steps = (self.beats.read(seat.index).step for seat in self._active())
        return self._formed_at >= 0 and all(step > self._formed_at for step in steps)

    def _is_vain(self) -> bool:
        """Whether some have lost their connections and all others wait for them: they may never hear of it."""
        active = self._active()
        waiting = [seat for seat in active if not self.roster.is_stuck(seat.name)]
        if not waiting or len(waiting) == len(active):
            return False
        since = [self.beats.read(seat.index).waits_ns for seat in waiting]
        return all(since) and time.monotonic_ns() - max(since) > VAIN_S * 1e9

    def _announce(self, order: roster.Announce) -> None:
        self._announced_at, self._formed_at = time.monotonic(), -1
        domains = tuple(self.seats[name].domain for name in order.generation.members)
        following = replace(order.generation, store=self.hands.store(), domains=domains)
        before = set(self.roster.generation.members)
        self._note_down(following)
        left_over = self.roster.announced(following)
        self.parked = ""
        self.story.tell(
            "generation", f"generation {following.number}: {len(following.members)} members ({following.reason})",
            generation=following.number, world=len(following.members), reason=following.reason,
        )  # fmt: skip
        for name in before | set(following.members):
            self.say(name, {"say": "generation", **following.to_record()})
        for name in left_over:
            self._stand_by(self.seats[name])

    def _note_down(self, following: Generation) -> None:
        try:
            self.journal.advance(self.roster.generation.number, following)
        except Unwritten as error:
            text = f"generation {following.number} could not be noted down ({error}): the run goes on"
            self.story.tell("unjournalled", text, generation=following.number)

    def _spawn(self, count: int) -> None:
        nobody = all(seat.is_doomed for seat in self.seats.values())
        if nobody:
            self._attempt_began = time.monotonic()
        if self.roster.members and nobody:
            self.hands.renew_store()
        attempt = self.roster.attempt - (0 if nobody else 1)
        for _ in range(count):
            if self.far is None or self.far.free(self.domain_sizes()):
                self._start(f"m{self.started}", attempt)

    def _start(self, name: str, attempt: int) -> None:
        sizes, index, want = self.domain_sizes(), self.started % ENTRIES, self.roster.want
        domain = self.far.choose(sizes, want) if self.far else min(sizes, key=lambda one: sizes[one])
        place = sum(member.is_here for member in self.roster.members.values())
        local = self._free_local(domain)
        facts = Begin(index, place, want, attempt, local, -(-want // len(sizes)) if self.far else want)
        watch: Watch | FarWatch
        if self.far and domain not in self.cabinet.domains:
            watch = self.far.start(domain, name, {**asdict(facts), "store": self.hands.store()})
        else:
            watch = Watch(self.hands.start(name, facts))
        self.started += 1
        seat = self.seats[name] = Seat(name, index, watch, domain, local)
        self.roster.started(name)
        if isinstance(watch, Watch):
            self._selector.register(watch, selectors.EVENT_READ, lambda: self.ended(seat))
            self.tell_started(seat)

    def tell_started(self, seat: Seat) -> None:
        where = f" on machine {seat.domain}" if self.far else ""
        text = f"{seat.name} is process {seat.watch.pid}{where}"
        self.story.tell("started", text, member=seat.name, pid=seat.watch.pid)

    def _free_local(self, domain: str) -> int:
        """The lowest place among the members of a machine that nobody alive has: a device that is free again."""
        seats = [seat for seat in self.seats.values() if not seat.is_doomed]
        taken = {seat.local for seat in seats if self.far is None or seat.domain == domain}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def domain_sizes(self) -> dict[str, int]:
        """How many members each failure domain has: they are spread evenly, so that one takes no more with it than
        another.
        """
        where = [seat.domain for seat in self.seats.values() if not seat.is_doomed]
        posts = self.far.posts.here if self.far else ()
        return {domain: where.count(domain) for domain in (*self.cabinet.domains, *posts)}

    def memory_bytes(self) -> int:
        """The memory of all snapshots, on all machines."""
        return self.cabinet.memory_bytes() + (self.far.memory_bytes() if self.far else 0)

    def replicas(self) -> int:
        """How many members have a copy of their state in another failure domain."""
        return self.cabinet.replicas() + (self.far.replicas() if self.far else 0)

    def write_status(self, status: dict[str, object]) -> None:
        """For whoever asks, on any of the machines."""
        self.folder.write_status(status)
        if self.far:
            self.far.posts.say_all({"say": "status", "status": status})

    def _park(self, reason: str) -> None:
        if reason != self.parked:
            self.parked = reason
            self.story.tell("parked", reason)

    def _start_number(self) -> int:
        """Names are never used twice in a run, not even over a restart of the agent."""
        taken = [int(name[1:]) for name in self.journal.current.members]
        return 1 + max([self.cabinet.highest_number(), *taken])

    def _after_restart(self) -> Generation:
        """Generations go on counting where a dead agent stopped, but its members are gone. One that found no room in
        the journal may be known by its snapshots.
        """
        last = self.journal.current
        number = max(last.number, self.cabinet.newest_generation())
        self.journal.current = replace(last, number=number)
        return Generation(number, (), "", last.step, last.reason)
