"""What do the gangs that run now give back, and when?"""

from collections.abc import Collection

import numpy as np

from .estimate import overrun_end
from .model import NEVER, Job, State
from .tally import Ints
from .view import View


class Releases:
    """Every expected end of a running gang, class by class. As long as nobody else comes, room only grows with them."""

    def __init__(self, view: View, now: int, percent: int, grace: int = 0) -> None:
        alone = expected(view, now, percent)
        self.ends = if_asked(view, alone, now + max(grace, 1))
        """When each running gang is expected to end, by slot; or to be gone, where its room is lent."""
        at = self.ends[view.entry_slot]
        self.by_themselves = alone
        """The same where nobody is asked to leave."""
        live = ((view.entry_class >= 0) & (at < NEVER)).nonzero()[0]
        self.at: Ints = at[live]
        self.classes = view.entry_class[live]
        self.amounts = view.entry_amount[:, live]
        self._view = view
        self._width = len(view.class_weight)
        self._between: dict[tuple[int, int, int], Ints] = {}

    def first(self) -> int:
        """The next end that comes whether or not anybody is asked to leave."""
        if self.by_themselves is self.ends:
            return int(self.at.min(initial=NEVER))
        there = self._view.entry_slot[self._view.entry_class >= 0]
        return int(self.by_themselves[there].min(initial=NEVER))

    def between(self, after: int, until: int, resource: int) -> Ints:
        """What is given back of a resource on a node of each class, after a moment and up to another."""
        back = self._between.get((after, until, resource))
        if back is None:
            which = ((self.at > after) & (self.at <= until)).nonzero()[0]
            back = self._between[after, until, resource] = np.zeros(self._width, np.int64)
            np.add.at(back, self.classes[which], self.amounts[resource, which])
        return back


def percentile(percent: int) -> int:
    """The column of expected ends that promises are made with."""
    return 0 if percent <= 50 else 1 if percent <= 90 else 2


def lent(view: View, but: Collection[str] = ()) -> list[int]:
    """Gangs in room that is kept for somebody who was promised a start before they began, or whose promise counts on
    their leaving, and who still waits (leaving out some who do not).

    Who can no longer be parked, or asked to leave, stays.
    """
    slots = [slot for slot in view.watched if _is_lent(view.held(slot))]
    jobs = [view.held(slot) for slot in view.promised] if slots else []
    promises = [job.life.promise for job in jobs if job.life.promise and job.gang.name not in but]
    timed = [promise for promise in promises if promise.start < NEVER]
    first = min((promise.given for promise in timed), default=NEVER)
    clears = max((promise.clears for promise in timed), default=0)
    lives = ((slot, view.held(slot).life) for slot in slots)
    return [slot for slot, life in lives if first <= life.started or life.lent <= clears]


def _is_lent(job: Job) -> bool:
    return job.life.lent > 0 and job.gang.parkable and job.gang.preemptible


def if_asked(view: View, ends: Ints, leaves_by: int) -> Ints:
    """The same ends, but those in lent room are gone when they can be."""
    borrowers = lent(view)
    if not borrowers:
        return ends
    ends = ends.copy()
    for slot in borrowers:
        ends[slot] = min(int(ends[slot]), max(view.held(slot).life.lent, leaves_by))
    return ends


def expected(view: View, now: int, percent: int) -> Ints:
    """When each running gang is expected to end; a moment that has passed moves to the next percentile."""
    which = percentile(percent)
    ends = view.ends[:, which].copy()
    for slot in (ends < now).nonzero()[0].tolist():
        if slot in view.seated:
            ends[slot] = late_end(view, slot, now, which)
    # What is due this very moment is not late yet: it ends the next.
    np.maximum(ends, now + 1, out=ends)
    for leaver in view.leaving:
        life = view.held(leaver).life
        if life.state is State.DRAINING:
            ends[leaver] = min(int(ends[leaver]), max(life.leave_by, now + 1))
    return ends


def late_end(view: View, slot: int, now: int, which: int) -> int:
    """When a running gang that should be over by now, or is about to be, is expected to end."""
    if view.ends.item(slot, which) < now:
        later = (int(end) for end in view.ends[slot, which + 1 :] if end >= now)
        end = next(later, 0) or overrun_end(int(view.begun[slot]), int(view.ends[slot, 2]), now)
        return max(end, now + 1)
    return now + 1
