"""One simulated future: a copied world pushed forward by the real decision, with run times that somebody drew.

The same decision that schedules also foretells, so a forecast respects topology, quota, promises and everything else.
"""

import heapq
from collections.abc import Collection, Mapping
from typing import Protocol

from . import events as ev
from .cache import Cache
from .decide import decide
from .estimate import overrun_end, pace
from .model import NEVER, QUEUED, SEATED, Data, Job, Seats, State
from .plan import (
    AnyAction,
    Await,
    Evict,
    Fail,
    Grow,
    How,
    Migrate,
    Plan,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)
from .policy import Policy
from .twin import world_of
from .view import View
from .world import World

STEPS = 1000
SAME_MOMENT = 8
"""Decisions at one moment at most; each may free something for the next."""


class Decision(Protocol):
    """The engine's decision, or another one with the same promise."""

    def __call__(self, view: View, now: int, policy: Policy, cache: Cache | None = None) -> Plan:
        """What to do about the view."""


class Starts(Data, frozen=True):
    """When gangs that waited would start, in one future."""

    at: dict[str, int]
    reached: int
    """The future is known up to here; who has not started by then starts later."""
    steps: int
    cut: bool = False
    """Whether the budget ended before the horizon did."""


def roll(
    view: View,
    now: int,
    draws: Mapping[str, int],
    until: int,
    policy: Policy,
    steps: int = STEPS,
    names: Collection[str] | None = None,
    choose: Decision = decide,
) -> Starts:
    """Push the view forward until the horizon, or until all gangs named (by default all that wait) have started.

    `draws` holds the whole run time of each gang at its wanted size. A gang without one ends by the middle of its
    estimate; one without an estimate does not end.
    """
    future = Future(world_of(view, policy.order.half_life), now, draws, policy, choose)
    waiting = {future.job(slot).gang.name for slot in view.queued}
    return future.run(until, steps, waiting if names is None else waiting & set(names))


class Future:
    """A world of its own and the moments at which something ends in it."""

    def __init__(self, world: World, now: int, draws: Mapping[str, int], policy: Policy, choose: Decision) -> None:
        self.world, self.now, self.draws, self.policy = world, now, draws, policy
        self.started: dict[str, int] = {}
        self._choose = choose
        self._cache = Cache()
        self._ends: list[tuple[int, str, int]] = []
        """Moment, gang, and when the run began that is to end."""
        self._leaves: list[tuple[int, str, bool]] = []
        self._end_of: dict[str, int] = {}
        for slot in tuple(world.seated):
            self._adopt(self.job(slot))

    def job(self, slot: int) -> Job:
        """The gang in a slot."""
        return self.world.job_in(slot)

    def run(self, until: int, steps: int, names: set[str]) -> Starts:
        """Decide, carry out, go on to the next moment."""
        taken = same = 0
        while taken < steps:
            taken += 1
            plan = self._choose(self.world.glance(), self.now, self.policy, cache=self._cache)
            # Answers hold on to the view, and what somebody looks at must be copied before it changes.
            plan.drop_answers()
            freed = [self._carry_out(action) for action in plan.actions]
            if names <= self.started.keys():
                return Starts(self.started, self.now, taken)
            if any(freed) and same < SAME_MOMENT:
                same += 1
                continue
            same = 0
            moment = max(min(self._next_end(), plan.wake_at), self.now + 1)
            if moment > until:
                return Starts(self.started, until, taken)
            self.now = moment
            self._let_end()
        return Starts(self.started, self.now, taken, cut=True)

    # -- what ends when

    def _adopt(self, job: Job) -> None:
        name, life = job.gang.name, job.life
        if life.state is State.STARTING:
            self._enter(ev.Running(self.now, name))
            life = self.job(self.world.slots[name]).life
        if life.target and life.target_by > self.now:
            self._enter(ev.Resized(self.now, name, life.target))
            self._enter(ev.Running(self.now, name))
        if life.state is State.DRAINING:
            self._leave(name, min(life.leave_by, self.now + self.policy.reclaim.grace), parked=False)
        drawn = self.draws.get(name)
        if drawn is not None:
            self._end_at(name, life.started + max(drawn - life.ran, 1), life.started)
            return
        slot = self.world.slots[name]
        ends = self.world.ends[slot].tolist()
        end = next((end for end in ends if end > self.now), NEVER)
        last = max((end for end in ends if end < NEVER), default=NEVER)
        if end >= NEVER and last < NEVER:
            end = overrun_end(life.started, last, self.now)
        self._end_at(name, end, life.started)

    def _end_at(self, name: str, moment: int, began: int) -> None:
        self._end_of[name] = moment
        if moment < NEVER:
            heapq.heappush(self._ends, (max(moment, self.now + 1), name, began))

    def _leave(self, name: str, moment: int, parked: bool) -> None:
        heapq.heappush(self._leaves, (max(moment, self.now), name, parked))

    def _next_end(self) -> int:
        return min([heap[0][0] for heap in (self._ends, self._leaves) if heap], default=NEVER)

    def _let_end(self) -> None:
        """Everything that is over by now, in order."""
        while self._ends and self._ends[0][0] <= self.now:
            _, name, began = heapq.heappop(self._ends)
            slot = self.world.slots.get(name, -1)
            if slot in self.world.seated and self.job(slot).life.started == began:
                self._enter(ev.Ended(self.now, name))
        while self._leaves and self._leaves[0][0] <= self.now:
            _, name, parked = heapq.heappop(self._leaves)
            self._interrupt(name, parked)

    def _interrupt(self, name: str, parked: bool) -> None:
        slot = self.world.slots.get(name, -1)
        if slot in self.world.seated:
            kept = self.now if parked else _saved_at(self.job(slot))
            self._enter(ev.Evicted(self.now, name, parked, max(kept - self.job(slot).life.started, 0)))

    # -- actions take effect at once

    def _carry_out(self, action: AnyAction) -> bool:
        """Do it; whether that may have made room at this very moment."""
        name = action.gang
        match action:
            case Start() | Resume():
                self._start(name, action.seats, action.lent)
            case Reserve():
                self._enter(ev.Promised(self.now, name, action.promise))
            case Await():
                self._enter(ev.Pledged(self.now, name, action.pledge))
            case Grow() | Shrink() | Repair() | Migrate():
                self._resize(name, action.seats)
                return not isinstance(action, Grow)
            case Evict() | Restart() | Fail():
                return self._end(action)
        return False

    def _start(self, name: str, seats: tuple[Seats, ...], lent: int) -> None:
        if self._enter(ev.Starting(self.now, name, seats, lent=lent)):
            self._enter(ev.Running(self.now, name))
            self.started.setdefault(name, self.now)
            job = self.job(self.world.slots[name])
            self._end_at(name, self._end_of_run(job), self.now)

    def _end_of_run(self, job: Job) -> int:
        drawn = self.draws.get(job.gang.name)
        if drawn is None:
            return int(self.world.ends[self.world.slots[job.gang.name]][0])
        if drawn >= NEVER:
            return NEVER
        have, want = pace(job.gang, job.life.seats) if job.gang.speed.points else (1, 1)
        return self.now + max((drawn - job.life.ran) * want // have, 1)

    def _resize(self, name: str, seats: tuple[Seats, ...]) -> None:
        slot = self.world.slots.get(name, -1)
        if slot not in self.world.seated:
            return
        before = self.job(slot)
        if not self._enter(ev.Resized(self.now, name, seats)):
            return
        self._enter(ev.Running(self.now, name))
        end = self._end_of.get(name, NEVER)
        if before.gang.speed.points and end < NEVER:
            have, now = pace(before.gang, before.life.seats)[0], pace(before.gang, seats)[0]
            end = self.now + max(end - self.now, 1) * have // now
        after = self.job(slot).life
        self._end_at(name, end, after.started)

    def _end(self, action: Evict | Restart | Fail) -> bool:
        name = action.gang
        slot = self.world.slots.get(name, -1)
        if slot < 0:
            return False
        state = self.job(slot).life.state
        if isinstance(action, Fail) or (isinstance(action, Evict) and action.how is How.CANCEL):
            self._enter(ev.Ended(self.now, name, State.FAILED))
        elif isinstance(action, Restart) and state in SEATED:
            self._interrupt(name, parked=False)
        elif isinstance(action, Evict) and state in SEATED:
            self._enter(ev.Leaving(self.now, name, action.room_for, action.by))
            parked = action.how is How.PARK
            self._leave(name, min(action.by, self.now + self.policy.reclaim.grace), parked)
            return False
        return state not in QUEUED

    def _enter(self, event: ev.Event) -> bool:
        return not self.world.apply(event).note


def _saved_at(job: Job) -> int:
    """When the gang's work was last saved; the beginning of its run if it never was."""
    return (job.life.progress.snapshot_at if job.life.progress else 0) or job.life.started
