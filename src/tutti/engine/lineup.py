"""Who need not be looked at? Waiting gangs as columns, so that thousands are passed over in one comparison."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .estimate import is_flexible, sizes
from .model import NEVER, Gang, Job
from .news import News
from .policy import ALL, Policy
from .view import View

if TYPE_CHECKING:
    from .cache import Rules
    from .desk import Desk

Ints = NDArray[np.int64]

EVERY_KIND = 8
"""More kinds are not told apart: looking at a few gangs too many costs less than looking over all of them again."""


class Lineup:
    """What each waiting gang asks at least, kept between decisions: only gangs that changed are read again."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._low: Ints = np.zeros(64, np.int64)
        self._kind: Ints = np.full(64, -1, np.int64)
        self._due: Ints = np.full(64, NEVER, np.int64)
        self._length: Ints = np.zeros(64, np.int64)
        self._kinds: dict[object, int] = {}
        self._some: list[Job] = []
        """One gang of each kind."""
        self._basis: tuple[int, int] = (-1, -1)
        self._news = News()

    def now(self, desk: "Desk") -> "Line":
        """The gangs that wait in this decision."""
        self._update(desk)
        slots = np.fromiter(desk.view.queued, np.int64, len(desk.view.queued))
        due = self._due[slots]
        coming = due[due > desk.now]
        if len(coming):
            desk.wake(int(coming.min()))
        slots = slots[(self._kind[slots] >= 0) & (due > desk.now)]
        return Line(slots, self._kind[slots], self._low[slots], self._length[slots], self._kinds, self._some)

    def _update(self, desk: "Desk") -> None:
        view = desk.view
        if self._basis != (view.ground, view.rules):
            self._basis = (view.ground, view.rules)
            self._jobs, self._kinds, self._some = {}, {}, []
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
        simple = card.kin.simple and not bound and not may_ever_borrow(job.gang, desk.policy)
        self._kind[slot] = self._number(card.kin.alike, job) if simple else -1
        self._low[slot], self._length[slot] = card.low, card.length
        most = job.gang.max_wait or (queue.max_wait if queue else 0) or desk.policy.reserve.max_wait
        self._due[slot] = job.gang.submitted + most if most else NEVER

    def _number(self, alike: object, job: Job) -> int:
        number = self._kinds.setdefault(alike, len(self._kinds))
        if number == len(self._some):
            self._some.append(job)
        return number


class Line:
    """Gangs of one decision which nobody owes a promise and whose kind says all there is to say about their room."""

    def __init__(
        self, slots: Ints, kinds: Ints, low: Ints, length: Ints, numbers: dict[object, int], some: list[Job]
    ) -> None:
        self._slots, self._kinds, self._low, self._length = slots, kinds, low, length
        self._numbers = numbers
        self._some = some
        self._here = _present(kinds)

    def hopeless(self, desk: "Desk") -> set[int]:
        """Slots of gangs for which too little is free now."""
        kinds, low, length = self._kinds, self._low, self._length
        none = low > self._rooms(desk, self._here)[kinds]
        first = desk.first_promised()
        long = ~none & (length > first - desk.now)
        if long.any():
            none |= long & (low > self._rooms(desk, _present(kinds[long]), first)[kinds])
        for alike, known in desk.rooms.failed.items():
            same = kinds == self._numbers.get(alike, -1)
            for members, run in known:
                none |= same & (low >= members) & (length >= run)
        if desk.promised < desk.policy.reserve.depth:
            none &= self._endless(desk)
        return set(self._slots[none].tolist())

    def _endless(self, desk: "Desk") -> NDArray[np.bool_]:
        """Which of them can be promised nothing, because nobody knows when there will be room."""
        found = np.zeros(len(self._slots), np.bool_)
        for alike, members, run in desk.endless:
            same = self._kinds == self._numbers.get(alike, -1)
            found |= same & (self._low >= members) & (self._length >= run)
        return found

    def _rooms(self, desk: "Desk", kinds: list[int], past: int = 0) -> Ints:
        """The most members that could sit now, or from now until after a moment, by what is asked."""
        rooms = np.zeros(len(self._numbers) + 1, np.int64)
        for kind in kinds:
            card = desk.card(self._some[kind])
            rooms[kind] = desk.rooms.room_past(card, past) if past else desk.rooms.room(card)
        return rooms


def may_ever_borrow(gang: Gang, policy: Policy) -> bool:
    """Whether the gang can give room back that is lent to it: it can be parked, as a whole, and takes only room."""
    if not (gang.parkable and gang.preemptible and policy.reserve.lend > 0):
        return False
    return not (is_flexible(gang) or _minds_company(gang, policy))


def _minds_company(gang: Gang, policy: Policy) -> bool:
    """Whether it may be in somebody's way beside its seats: by a mark, by what it has of a domain, by its width."""
    if gang.domain_ask or any(role.marks or role.repels or role.needs for role in gang.roles):
        return True
    return policy.place.one_wide_gang_per_node and (len(gang.roles) > 1 or sizes(gang.roles[0])[1] > 1)


def _present(kinds: Ints) -> list[int]:
    return np.bincount(kinds).nonzero()[0].tolist()


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
    if desk.policy.place.migrate or desk.is_strict or desk.rules.sliced:
        return False
    return not somebody_may_reclaim(desk.view, desk.policy, desk.rules)


def somebody_may_reclaim(view: View, policy: Policy, queues: "Rules") -> bool:
    """Whether any waiting gang could possibly be given what others hold."""
    rules = policy.reclaim
    if (rules.surplus and view.watched) or (rules.quota and queues.guaranteed):
        return True
    if not rules.priority or not view.seated:
        return False
    lowest = min(min(use.priorities, default=NEVER) for use in view.use.values())
    return max(view.priorities) > lowest
