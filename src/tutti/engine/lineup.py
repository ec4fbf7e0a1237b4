"""Who need not be looked at? Waiting gangs as columns, so that thousands are passed over in one comparison."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .model import NEVER, Job
from .news import News
from .policy import ALL

if TYPE_CHECKING:
    from .desk import Desk


EVERY_KIND = 8
"""More kinds are not told apart: looking at a few gangs too many costs less than looking over all of them again."""


class Lineup:
    """What each waiting gang asks at least, kept between decisions: only gangs that changed are read again."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._low: NDArray[np.int64] = np.zeros(64, np.int64)
        self._kind: NDArray[np.int64] = np.full(64, -1, np.int64)
        self._due: NDArray[np.int64] = np.full(64, NEVER, np.int64)
        self._length: NDArray[np.int64] = np.zeros(64, np.int64)
        self._kinds: dict[object, int] = {}
        self._basis: tuple[int, int] = (-1, -1)
        self._news = News()

    def hopeless(self, desk: "Desk") -> set[int]:
        """Slots of gangs for which too little is free now, and which nobody owes a promise."""
        self._update(desk)
        slots = np.fromiter(desk.view.queued, np.int64, len(desk.view.queued))
        kinds, low, due = self._kind[slots], self._low[slots], self._due[slots]
        coming = due[due > desk.now]
        if len(coming):
            desk.wake(int(coming.min()))
        judged = (kinds >= 0) & (due > desk.now)
        none = judged & (low > self._rooms(desk, kinds[judged])[kinds])
        first = desk.first_promised()
        long = judged & ~none & (self._length[slots] > first - desk.now)
        if long.any():
            none |= long & (low > self._rooms(desk, kinds[long], first)[kinds])
        for alike, known in desk.failed.items():
            same = judged & (kinds == self._kinds.get(alike, -2))
            for members, run in known:
                none |= same & (low >= members) & (self._length[slots] >= run)
        if desk.promised < desk.policy.reserve.depth:
            none &= self._endless(desk, kinds, low, self._length[slots])
        return set(slots[none].tolist())

    def _endless(
        self, desk: "Desk", kinds: NDArray[np.int64], low: NDArray[np.int64], length: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which of them can be promised nothing, because nobody knows when there will be room."""
        found = np.zeros(len(kinds), np.bool_)
        for alike, members, run in desk.endless:
            found |= (kinds == self._kinds.get(alike, -2)) & (low >= members) & (length >= run)
        return found

    def _rooms(self, desk: "Desk", kinds: NDArray[np.int64], past: int = 0) -> NDArray[np.int64]:
        """The most members that could sit now, or from now until after a moment, by what is asked."""
        rooms = np.zeros(len(self._kinds) + 1, np.int64)
        for kind in set(kinds.tolist()):
            card = desk.card(self._one_of(kind))
            rooms[kind] = desk.room_past(card, past) if past else desk.room(card)
        return rooms

    def _one_of(self, kind: int) -> Job:
        return next(job for slot, job in self._jobs.items() if self._kind[slot] == kind)

    def _update(self, desk: "Desk") -> None:
        view = desk.view
        if self._basis != (view.ground, view.rules):
            self._basis = (view.ground, view.rules)
            self._jobs, self._kinds = {}, {}
            self._news = News()
        if len(self._jobs) > 2 * len(view.queued) + 64:
            self._jobs = {slot: job for slot, job in self._jobs.items() if slot in view.queued}
        jobs, known, touched = view.jobs, self._jobs, self._news.since(view)
        for slot in view.queued if touched is None else touched:
            job = jobs[slot] if slot in view.queued else None
            if job is not None and known.get(slot) is not job:
                self._read(desk, slot, job)

    def _read(self, desk: "Desk", slot: int, job: Job) -> None:
        if slot >= len(self._low):
            more = max(slot + 1 - len(self._low), len(self._low))
            self._low = np.concatenate([self._low, np.zeros(more, np.int64)])
            self._kind = np.concatenate([self._kind, np.full(more, -1, np.int64)])
            self._due = np.concatenate([self._due, np.full(more, NEVER, np.int64)])
            self._length = np.concatenate([self._length, np.zeros(more, np.int64)])
        self._jobs[slot] = job
        card = desk.card(job)
        queue = card.queue
        bound = job.life.promise is not None or job.life.pledge is not None
        simple = card.kin.simple and not bound
        self._kind[slot] = self._kinds.setdefault(card.kin.alike, len(self._kinds)) if simple else -1
        self._low[slot], self._length[slot] = card.low, card.length
        most = job.gang.max_wait or (queue.max_wait if queue else 0) or desk.policy.reserve.max_wait
        self._due[slot] = job.gang.submitted + most if most else NEVER


def hopeless_kinds(desk: "Desk") -> int:
    """Kinds of gangs that get nothing out of being looked at where too little is free: those for which nobody knows a
    start, and once all promises are given, every one.
    """
    depth = desk.policy.reserve.depth
    if depth == ALL:
        return 0
    found = EVERY_KIND if desk.promised >= depth else min(len(desk.endless), EVERY_KIND - 1)
    return found if found and _may_pass_over(desk) else 0


def _may_pass_over(desk: "Desk") -> bool:
    return not (desk.policy.place.migrate or desk.is_strict or desk.rules.sliced or _somebody_may_reclaim(desk))


def _somebody_may_reclaim(desk: "Desk") -> bool:
    rules, view = desk.policy.reclaim, desk.view
    if (rules.surplus and view.watched) or (rules.quota and desk.rules.guaranteed):
        return True
    if not rules.priority or not view.seated:
        return False
    lowest = min(min(use.priorities, default=NEVER) for use in view.use.values())
    return max(view.priorities) > lowest
