"""Who starts when a gang ends, decided before it does: at its end the next one goes, and everything else comes after.

A decision made ahead holds for one case: that this gang finishes, and that nothing else has happened since. In any
other case the end is an event like others, and the decision is made then.
"""

import traceback
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
from .fault import now_us
from .held import Held, Run
from .keeper.records import Record
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


class Succession:
    """The decisions made ahead."""

    def __init__(self, backend: "LocalBackend") -> None:
        self._backend = backend
        self._ahead: dict[str, Ahead] = {}
        self._case = (-1, -1)
        self.driver: Driver | None = None

    def foresee(self) -> int:
        """Decide ahead about the next ends; when that is to be done again at the latest, 0 for never."""
        if self.driver is None or not self._backend.arming.has_any() or len(self._backend.held) > MOST_JOBS:
            return 0
        world, now = self.driver.world, now_us()
        if self._case != self._now():
            self._ahead, self._case = {}, self._now()
        ends = sorted(world.seated, key=lambda slot: int(world.ends[slot].min()))
        for name in [world.job_in(slot).gang.name for slot in ends[:MOST_ENDS]]:
            if name not in self._ahead or self._ahead[name].until <= now:
                self._ahead[name] = self._decided(world, name, now)
        return min((ahead.until for ahead in self._ahead.values() if ahead.start is not None), default=0)

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

    # -- the end

    def pass_on(self, held: Held, run: Run, record: Record) -> Heir | None:
        """The gang has ended: whoever was to be next goes now, if this is the case that was foreseen."""
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


def first_start(plan: Plan) -> Start | Resume | None:
    """The start that a plan begins with, if it begins with one: nothing else has to be done before."""
    for action in plan.actions:
        if isinstance(action, Start | Resume):
            return action if not action.after else None
        if not isinstance(action, Reserve | Await):
            return None
    return None
