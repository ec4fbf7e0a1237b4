"""Who is in, who is out, and what the next generation is. Pure: facts go in by name, orders come out of `orders`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tutti.train.agent.exits import Exit, meaning
from tutti.train.agent.generation import NOBODY, Generation
from tutti.train.agent.sizes import SizeRule

FRUITLESS = 20


class Stage(Enum):
    """Where a member is on its way."""

    STARTING = "starting"
    JOINING = "joining"
    BUILDING = "building"
    READY = "ready"
    ACTIVE = "active"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass
class Member:
    """One process of the job, from its start to its end."""

    name: str
    stage: Stage = Stage.STARTING
    formed: int = 0
    stuck_in: int = 0
    code: int | None = None
    attempt: int = 0

    @property
    def is_here(self) -> bool:
        return self.stage is not Stage.GONE


@dataclass(frozen=True)
class Spawn:
    count: int


@dataclass(frozen=True)
class Announce:
    generation: Generation


@dataclass(frozen=True)
class EndAll:
    """Kill every member that is left; the reason is for people. Those that compute may keep what they have first."""

    reason: str
    is_gentle: bool = False


@dataclass(frozen=True)
class Dismiss:
    """End these, who have nothing to keep: they are more than are wanted."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Park:
    reason: str


@dataclass(frozen=True)
class Finish:
    code: int
    reason: str


Order = Spawn | Announce | EndAll | Dismiss | Park | Finish


@dataclass
class Roster:
    """The membership of one run."""

    rule: SizeRule
    want: int
    restarts_left: int
    spares: int = 0
    store: str = ""
    generation: Generation = NOBODY
    members: dict[str, Member] = field(default_factory=dict)
    step: int = -1
    is_finished: bool = False
    is_leaving: bool = False
    fatal: Finish | None = None
    crashes: dict[int, int] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)
    unwanted: set[str] = field(default_factory=set)
    first_code: int | None = None
    fruitless: int = 0
    holes: int = 0
    is_ending: bool = False
    may_join: bool = False
    """Whether the program looks as if it would join."""
    is_calm: bool = True
    is_vain: bool = False
    """Whether those that are not stuck wait for those that are."""
    attempt: int = 0
    may_grow: bool = True
    """Whether somebody may bring more members, however many are lost."""
    is_renewing: bool = False
    """Whether all are to start again, because those that compute cannot change their number: nobody comes to those that
    are still there.
    """
    is_overdue: bool = False
    """Whether they have had the time to go by themselves."""

    # facts

    def started(self, name: str) -> None:
        """A member's process was started; the first after everyone was gone begins another attempt."""
        if not any(member.is_here for member in self.members.values()):
            self.attempt += 1
            self.is_renewing = False
        self.members[name] = Member(name, attempt=self.attempt)

    def joined(self, name: str) -> bool:
        """A member said hello; True when it waits for the first generation, False when it stands by a running one."""
        if self.members[name].stage is Stage.LEAVING:
            # It was let go before it had said a word.
            return True
        others = [member for member in self.members.values() if member.is_here and member.name != name]
        is_first = all(member.stage in (Stage.STARTING, Stage.JOINING) for member in others)
        self.members[name].stage = Stage.JOINING if is_first else Stage.BUILDING
        return is_first

    def dismiss(self, names: Iterable[str]) -> list[str]:
        """These are not wanted any more. Who computes is left out of the next generation; the others have nothing to
        finish and may be ended at once: their names.
        """
        found = [self.members[name] for name in names if name in self.members and self.members[name].is_here]
        idle = [member for member in found if member.stage not in (Stage.ACTIVE, Stage.LEAVING)]
        self.unwanted |= {member.name for member in found if member.stage is Stage.ACTIVE}
        for member in idle:
            member.stage = Stage.LEAVING
        return [member.name for member in idle]

    def is_ready(self, name: str) -> None:
        if self.members[name].stage is Stage.BUILDING:
            self.members[name].stage = Stage.READY

    def formed(self, name: str, number: int) -> None:
        self.members[name].formed = number

    def stuck(self, name: str, number: int) -> None:
        self.members[name].stuck_in = number

    def committed(self, step: int) -> None:
        self.fruitless = 0 if step > self.step else self.fruitless
        self.step = max(self.step, step)

    def gone(self, name: str, code: int, with_machine: bool = False) -> bool:
        """A member's process has ended, for certain; True when that cost a restart, or a place. What goes with its
        whole machine costs neither.
        """
        member = self.members[name]
        was, member.stage, member.code = member.stage, Stage.GONE, code
        self.unwanted.discard(name)
        if self.is_ending or with_machine:
            return False
        if code == Exit.FINISHED and was is not Stage.LEAVING:
            # One of those that never join says nothing about the others: each does its own work to its end.
            self.is_finished = self.is_finished or was is not Stage.STARTING or bool(self.generation.number)
        elif code == Exit.NO_RETRY:
            self.fatal = self.fatal or Finish(code, f"{name} said that another attempt would fail in the same way")
        elif code == Exit.AGAIN:
            self._starts_again(name)
        elif code not in (Exit.PREEMPTED, Exit.RELEASED) and was is not Stage.LEAVING:
            self._crashed(name, code, was is Stage.ACTIVE)
            return True
        return False

    def forgive(self, count: int) -> None:
        """So many losses turn out to have been the loss of their machine."""
        filled = min(self.holes, count)
        self.holes -= filled
        self.restarts_left += count - filled

    def _starts_again(self, name: str) -> None:
        """A member that asks to be started again costs no restart, unless it gets no further that way."""
        seen = self.again[self.step] = self.again.get(self.step, 0) + 1
        if seen > FRUITLESS * self.want:
            self.fatal = self.fatal or Finish(
                Exit.CRASHED,
                f"{name} asked to be started again, and {seen - 1} restarts {self._where()} did not help",
            )

    def _crashed(self, name: str, code: int, was_active: bool) -> None:
        """A loss costs a restart; without one left its place stays empty. One that never came as far as the others are
        says nothing about them: they go on.
        """
        self.first_code = self.first_code if self.first_code is not None else code
        if self.restarts_left > 0:
            self.restarts_left -= 1
        else:
            self.holes += 1
        is_beside = not was_active and any(member.stage is Stage.ACTIVE for member in self.members.values())
        if code <= 0 or self.is_finished or is_beside:
            return
        seen = self.crashes[self.step] = self.crashes.get(self.step, 0) + 1
        if seen > 1 and self.generation.number:
            self.fatal = self.fatal or Finish(
                code, f"two members crashed {self._where()}, the last {name}: the loop itself fails there"
            )

    def _where(self) -> str:
        return f"after step {self.step}" if self.step >= 0 else "before the first step"

    # orders

    def orders(self) -> list[Order]:
        """What to do now. Asking again without new facts gives the same answer."""
        here = [member for member in self.members.values() if member.is_here]
        if self.fatal:
            return [EndAll(self.fatal.reason, is_gentle=True)] if here else [self.fatal]
        if not here:
            return self._nobody_left()
        if self._done() and any(member.stage is not Stage.STARTING for member in here):
            self.is_finished = True
        is_renewing = self.is_renewing and not self.is_leaving
        why = self._why_end(here, is_renewing)
        if why or is_renewing:
            return [EndAll(why)] if why else []
        following = self._following()
        if following is not None:
            # Starting a process takes longer than forming a group: recovery first.
            return [Announce(following)]
        if self._is_hopeless():
            needed = f"{self.rule.fewest} members are the least"
            self.fatal = self._ending(f"{needed}, {max(0, self.want - self.holes)} can still come")
            return [EndAll(self.fatal.reason, is_gentle=True)]
        return [*self._parked(), *self._spawns(here)]

    def _why_end(self, here: list[Member], is_renewing: bool) -> str:
        """Why all that are left are to be ended now, if they are."""
        if self.is_finished and not any(member.formed for member in here) and not self._are_on_their_own(here):
            return "the run is finished; members that stood by are not needed"
        has_computed = any(member.stage in (Stage.ACTIVE, Stage.LEAVING) for member in here)
        if self.is_leaving and self.generation.number and not has_computed:
            return "the run leaves; members that stood by have nothing to keep"
        # Of those that all start again who computes goes by itself, soon; the others know nothing of it.
        is_going = any(member.name in self.generation.members and member.formed for member in here)
        if is_renewing and (self.is_overdue or not is_going):
            return "all members start again from memory"
        if self._is_plain_and_broken(here):
            return "a member was lost and the others never joined: all start again"
        return ""

    def _are_on_their_own(self, here: list[Member]) -> bool:
        """Whether these have joined and never asked for a batch, as nobody has: each does what it does to its end."""
        has_computed = any(member.formed for member in self.members.values())
        return not has_computed and any(member.stage is Stage.ACTIVE for member in here)

    def announced(self, generation: Generation) -> list[str]:
        """A generation is in the journal: its members are active, those of the last one that are not in it leave. Who
        came to start with the others and found no place stands by from now on: their names.
        """
        for name in self.generation.members:
            member = self.members.get(name)
            if member and member.is_here and name not in generation.members:
                member.stage = Stage.LEAVING
        for name in generation.members:
            self.members[name].stage = Stage.ACTIVE
        self.fruitless = 0 if self.lost() else self.fruitless + 1
        if self.fruitless > FRUITLESS:
            self.fatal = Finish(
                Exit.CRASHED,
                f"{FRUITLESS} generations in a row committed nothing, and nobody was lost: see why they are stuck",
            )
        self.generation = generation
        left_over = [member for member in self.members.values() if member.stage is Stage.JOINING]
        for member in left_over:
            member.stage = Stage.BUILDING
        return [member.name for member in left_over]

    def lost(self) -> list[str]:
        """Members of the current generation that ended without being asked to."""
        members = (self.members[name] for name in self.generation.members if name in self.members)
        asked = (Exit.FINISHED, Exit.PREEMPTED, Exit.RELEASED)
        return [member.name for member in members if not member.is_here and member.code not in asked]

    def _tried(self) -> list[Member]:
        """The members of the present attempt."""
        return [member for member in self.members.values() if member.attempt == self.attempt]

    def _done(self) -> int:
        """How many have done all their work without ever joining."""
        return 0 if self.generation.number else sum(member.code == Exit.FINISHED for member in self._tried())

    def _nobody_left(self) -> list[Order]:
        failed = self._failed_at_the_end() if self.is_finished else None
        if failed:
            assert failed.code is not None
            return [Finish(failed.code, f"finished, but {failed.name} {meaning(failed.code)} after that")]
        if self.is_finished or 0 < self._done() == len(self._tried()):
            return [Finish(Exit.FINISHED, "finished")]
        if self.is_leaving:
            return [Finish(Exit.PREEMPTED, "left, with its state kept")]
        # Those that never join cannot do with fewer: they were told how many they are.
        is_rigid = not (self.generation.number or self.may_join)
        if self.members and (self.want <= self.holes or (self.holes and is_rigid)):
            return [self._ending("every member is gone")]
        return [Spawn(self.want - self.holes)]

    def _ending(self, why: str) -> Finish:
        code = self.first_code or Exit.CRASHED
        return Finish(code if code > 0 else 128 - code, f"{why} ({meaning(code)}) and no restart is left")

    def _failed_at_the_end(self) -> Member | None:
        """One of the last that computed who failed by itself when the others had finished; whoever is killed then has
        nothing left to do.
        """
        last, meant = max(member.formed for member in self.members.values()), {int(code) for code in Exit}
        meant.discard(Exit.CRASHED)
        found = (member for member in self._tried() if member.formed == last and (member.code or 0) > 0)
        return next((member for member in found if member.code not in meant), None)

    def _is_hopeless(self) -> bool:
        """Whether nobody computes and there will never be enough for it."""
        is_over = self._broken() or not self._any(Stage.ACTIVE)
        too_few = self.holes and self.rule.at_most(self.want - self.holes) is None
        return bool(too_few and is_over and not (self.may_grow or self.is_finished or self.is_leaving))

    def _is_plain_and_broken(self, here: list[Member]) -> bool:
        """Members that never join cannot go on without the one that was lost."""
        never_joined = all(member.stage is Stage.STARTING for member in here)
        failed = any(not member.is_here and member.code != Exit.FINISHED for member in self._tried())
        return self.generation.number == 0 and never_joined and failed and not self._first_start()

    def _first_start(self) -> bool:
        return len(self.members) < self.want

    def _following(self) -> Generation | None:
        """The generation that should replace the current one, if any should."""
        if self.is_leaving or (self.is_finished and not self._broken()):
            return None
        chosen = self._chosen()
        if not chosen or (tuple(chosen) == self.generation.members and not self._broken()):
            return None
        if self.generation.number and not (self._broken() or self.is_settled()):
            return None
        number, is_urgent = self.generation.number + 1, self._broken()
        return Generation(number, tuple(chosen), self.store, self.step, self._why(chosen), is_urgent=is_urgent)

    def _chosen(self) -> list[str]:
        """Survivors keep their order; those that wait come behind them; never an illegal size."""
        kept = [name for name in self.generation.members if self._stays(name)]
        entering = Stage.READY if kept or self._any(Stage.READY) else Stage.JOINING
        fresh = [member.name for member in self.members.values() if member.stage is entering]
        if entering is Stage.JOINING and not self._is_whole(fresh):
            return []
        size = self.rule.at_most(min(self.want, len(kept) + len(fresh)))
        if self.is_finished:
            return kept
        return (kept + fresh)[:size] if size else []

    def _is_whole(self, fresh: list[str]) -> bool:
        """All or nothing: a first generation waits for everyone, or for as many as can still come."""
        coming = sum(member.stage is Stage.STARTING for member in self.members.values())
        return len(fresh) >= self.want or (coming == 0 and len(fresh) >= self.want - self.holes)

    def _stays(self, name: str) -> bool:
        member = self.members.get(name)
        if member is None or not member.is_here or name in self.unwanted:
            return False
        # Once one has finished, a member that never computed has nothing to add.
        return bool(member.formed) or not self.is_finished

    def _any(self, stage: Stage) -> bool:
        return any(member.stage is stage for member in self.members.values())

    def is_stuck(self, name: str) -> bool:
        return self.members[name].stuck_in == self.generation.number

    def _broken(self) -> bool:
        """Whether the current generation cannot go on: someone was lost, or everyone left in it is stuck, or waits for
        somebody who is.
        """
        if not self.generation.number:
            return False
        left = [self.members[name] for name in self.generation.members if self._stays(name) or name in self.unwanted]
        left = [member for member in left if member.is_here]
        is_over = all(self.is_stuck(member.name) for member in left)
        if self.is_finished:
            return bool(left) and is_over
        return bool(left) and (bool(self.lost()) or is_over or self.is_vain)

    def is_settled(self) -> bool:
        """A planned change waits until the one before it is complete."""
        members = (self.members[name] for name in self.generation.members)
        return all(member.formed == self.generation.number for member in members if member.is_here)

    def _why(self, chosen: list[str]) -> str:
        lost = self.lost()
        if lost and all(self.members[name].code == Exit.AGAIN for name in lost):
            return "start again"
        if lost:
            return f"lost {', '.join(lost)}"
        if not self.generation.number:
            return "start"
        before, now = len(self.generation.members), len(chosen)
        if not before:
            return "start again"
        return "formed again" if before == now else f"{'grow' if now > before else 'shrink'} from {before} to {now}"

    def _spawns(self, here: list[Member]) -> list[Order]:
        if self.is_finished or self.is_leaving:
            return []
        staying = sum(member.stage is not Stage.LEAVING and member.name not in self.unwanted for member in here)
        missing = self.want + self.spares - staying
        missing -= self.holes
        if self.generation.number == 0:
            missing -= self.spares + self._done()
        elif not self._broken() and not (self.is_settled() and self.is_calm):
            # A new process takes the processors from the first step of those who have just come together.
            return []
        return [Spawn(missing)] if missing > 0 else self._dismissals(here, -missing)

    def _dismissals(self, here: list[Member], count: int) -> list[Order]:
        """Those who came for a size that is not wanted any more, the last that would be ready first."""
        idle = [Stage.STARTING, Stage.JOINING, Stage.BUILDING, Stage.READY]
        found = sorted((member for member in here if member.stage in idle), key=lambda member: idle.index(member.stage))
        if not (count and found and self.generation.number):
            return []
        return [Dismiss(tuple(member.name for member in found[:count]))]

    def _parked(self) -> list[Order]:
        if not self._broken() or self.is_finished or self._following() is not None:
            return []
        alive = sum(self._stays(name) for name in self.generation.members)
        return [
            Park(
                f"{alive} members are left and {self.rule.fewest} is the least: "
                f"the state stays in memory till more come"
            )
        ]
