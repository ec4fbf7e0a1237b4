"""Who starts when a gang ends, decided before it does: at its end the next one goes, and everything else comes after.

A decision made ahead holds for one case: that this gang finishes, and that nothing else has happened since. In any
other case the end is an event like others, and the decision is made then.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tutti.drive.loop import Driver
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import Seats, State
from tutti.engine.plan import Await, Plan, Reserve, Resume, Start
from tutti.engine.twin import world_of
from tutti.engine.world import World

from . import shelf
from .arming import Ready, is_same
from .ends import Fate, verdict
from .fault import now_us, point
from .held import Held, Run
from .keeper import turn
from .keeper.records import Record, begun_at
from .layout import NoRoom, entering

if TYPE_CHECKING:
    from .backend import LocalBackend

MOST_ENDS = 4
"""Gangs whose end is foreseen: those that will probably end first."""
MOST_JOBS = 2000
"""In a longer queue a decision ahead costs more than it is worth."""


class Ahead(NamedTuple):
    """Who starts if a gang finishes; None where nobody does, or something else would have to be done first."""

    start: Start | Resume | None
    until: int
    """When time alone might change the decision."""


class Heir(NamedTuple):
    """A gang that is ready, and its start."""

    ready: Ready
    start: Start | Resume


class Left(NamedTuple):
    """A gang that runs, and whom its keeper lets go when it has finished."""

    held: Held
    run: Run
    heir: Heir
    until: int
    """When it has to be asked again."""


class Succession:
    """The decisions made ahead."""

    def __init__(self, backend: "LocalBackend") -> None:
        self._backend = backend
        self._ahead: dict[str, Ahead] = {}
        self._case = (-1, -1)
        self._left: Left | None = None
        """What the keeper of a gang may do at its end without asking."""
        self._pauses = 0
        self.driver: Driver | None = None

    def foresee(self) -> int:
        """Decide ahead about the next ends; when that is to be done again at the latest, 0 for never."""
        if self.driver is None or not self._backend.arming.has_any() or len(self._backend.held) > MOST_JOBS:
            return 0
        world, now = self.driver.world, now_us()
        if self._case != self._now():
            self.recall()
            self._ahead, self._case = {}, self._now()
        ends = sorted(world.seated, key=lambda slot: int(world.ends[slot].min()))
        for name in [world.job_in(slot).gang.name for slot in ends[:MOST_ENDS]]:
            if name not in self._ahead or self._ahead[name].until <= now:
                self._ahead[name] = self._decided(world, name, now)
        self._bequeath(now)
        again = [ahead.until for ahead in self._ahead.values() if ahead.start is not None]
        return min([*again, *([self._left.until] if self._left is not None else [])], default=0)

    def _now(self) -> tuple[int, int]:
        """The version of the world, and how many events have been told: a decision ahead is about these."""
        assert self.driver is not None
        return self.driver.world.version, self._backend.told

    def _decided(self, world: World, name: str, now: int) -> Ahead:
        assert self.driver is not None
        policy = self.driver.policy
        after = world_of(world.view(), policy.order.half_life)
        after.apply(ev.Ended(now, name, State.FINISHED))
        view = after.view()
        plan = decide(view, now, policy)
        start = first_start(plan)
        if start is not None and check(view, Plan(view.number, now, (start,)).without_answers(), policy, now):
            start = None
        return Ahead(start, plan.wake_at)

    def _is_for(self, ready: Ready, seats: tuple[Seats, ...], name: str) -> bool:
        """Whether it was made ready for the places it would have."""
        try:
            placed = entering(ready.held.gang, (), seats, self._backend.booking.chooser_after(name), None)
        except NoRoom:
            return False
        return is_same(ready.run, placed)

    # -- what keepers do by themselves

    def _bequeath(self, now: int) -> None:
        """Leave the start to the keeper of the gang whose end it waits for. There is one such case at a time: after it
        everything else may be different.
        """
        left = self._left
        if self._backend.seen < self._backend.told:
            # What was told and is not known yet may be a reason against it; it is looked at again after that.
            return
        if left is not None and left.until > now and left.heir.start is self._start_after(left.held.name):
            return
        self.recall()
        for name, ahead in self._ahead.items() if not self._pauses else ():
            held = self._backend.held.get(name)
            ready = self._backend.arming.of(ahead.start.gang) if ahead.start is not None else None
            if held is None or ready is None or ahead.start is None or ahead.until <= now:
                continue
            if may_bequeath(held, ready) and self._backend.arming.may_go(ready) and self._is_left(ready, ahead, name):
                self._leave(held, Heir(ready, ahead.start), ahead.until)
                return

    def _start_after(self, name: str) -> Start | Resume | None:
        ahead = self._ahead.get(name)
        return ahead.start if ahead is not None else None

    def _is_left(self, ready: Ready, ahead: Ahead, name: str) -> bool:
        """Whether it needs nothing but what that gang has."""
        wanted = {device for one in ready.run.members.values() for device in one.devices}
        has_all = wanted <= set(self._backend.booking.of(name))
        return bool(wanted) and has_all and ahead.start is not None and self._is_for(ready, ahead.start.seats, name)

    def _leave(self, held: Held, heir: Heir, until: int) -> None:
        assert self.driver is not None
        run, next_run = held.run, heir.ready.run
        assert run is not None
        assert run.link is not None
        until = min(until, self.driver.wake_at)
        if until <= now_us():
            return
        try:
            turn.offer(str(next_run.folder))
        except OSError:
            return
        self._left = Left(held, run, heir, until)
        run.link.send(
            {
                "say": "heir",
                "folder": str(next_run.folder),
                "members": next_run.at_gate,
                "locks": self._backend.starting.locks_of(list(next_run.members.values())),
                "until": until,
            }
        )
        point("ready: left")

    def recall(self) -> None:
        """Something is about to change, so nobody may act on what was decided before. Where somebody has, that came
        first, and is taken in before anything else.
        """
        left, self._left = self._left, None
        if left is None or turn.recall(str(left.heir.ready.run.folder)):
            return
        at = begun_at(str(left.heir.ready.run.folder))
        record = {"why": "", "code": 0, "ended": at, "saved": left.run.saved}
        self._backend.over(left.held, left.run, record, self._went(left))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody starts in another's place meanwhile without being asked."""
        self._pauses += 1
        try:
            self.recall()
            yield
        finally:
            self._pauses -= 1
            self._backend.arming.soon()

    def _went(self, left: Left) -> Heir:
        """Its members were let go. Their keeper hears it once more: whoever let them go may have been killed then."""
        self._backend.arming.take(left.heir.ready)
        self._backend.let_go(left.heir.ready.run)
        return left.heir

    # -- the end

    def pass_on(self, held: Held, run: Run, record: Record) -> Heir | None:
        """The gang has ended: whoever was to be next goes now, if this is the case that was foreseen."""
        left = self._left
        if record.get("passed_on") and left is not None and left.run is run:
            self._left = None
            return self._went(left)
        self.recall()
        if held.run is not run:
            return None
        try:
            heir = self._heir(held, run, record)
        except Exception:  # noqa: BLE001 - an end must be heard, whoever comes next
            traceback.print_exc()
            return None
        if heir is not None:
            self._backend.arming.take(heir.ready)
            self._backend.let_go(heir.ready.run)
        return heir

    def _heir(self, held: Held, run: Run, record: Record) -> Heir | None:
        ahead = self._ahead.pop(held.name, None)
        if ahead is None or ahead.start is None or self._case != self._now() or ahead.until <= now_us():
            return None
        ready = self._backend.arming.of(ahead.start.gang)
        if ready is None or not self._backend.arming.may_go(ready):
            return None
        found = verdict(held.job, run.leaving, run.leaving_why, held.course.losses, record)
        has_finished = found.fate is Fate.OVER and found.state is State.FINISHED
        if not has_finished or not self._is_for(ready, ahead.start.seats, held.name):
            return None
        return Heir(ready, ahead.start)

    def enter(self, heir: Heir, ended: ev.Ended) -> None:
        """What was decided ahead has been carried out: the world learns of it."""
        assert self.driver is not None
        held, run = heir.ready.held, heir.ready.run
        members = list(run.members.values())
        self._backend.booking.take(held.name, [device for one in members for device in one.devices])
        self._backend.own(held, run, members)
        self._backend.journal.later(shelf.begun(run))
        self.driver.follow(ended, heir.start, now_us())


def may_bequeath(held: Held, ready: Ready) -> bool:
    """Whether the keeper of a gang that runs can let those go who are ready."""
    run = held.run
    quiet = run is not None and bool(run.up) and not run.leaving and run.change is None and not run.broken
    return quiet and not held.is_loose and run is not None and run.link is not None and bool(ready.run.at_gate)


def first_start(plan: Plan) -> Start | Resume | None:
    """The start that a plan begins with, if it begins with one: nothing else has to be done before."""
    for action in plan.actions:
        if isinstance(action, Start | Resume):
            return action if not action.after else None
        if not isinstance(action, Reserve | Await):
            return None
    return None
