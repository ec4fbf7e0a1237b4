"""What does everybody ask for, hold and give back, where all nodes are alike and one resource decides?

Kept between decisions: only gangs that changed are read again.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .estimate import run_time
from .floor import Floor, Held, held
from .horizon import Horizon
from .lineup import may_ever_borrow
from .model import NEVER, Arrange, Gang, Job, NodeState, Seats, State
from .news import News
from .place import Need
from .policy import Break, Policy, Term
from .releases import percentile
from .tally import Ints
from .validate import faults
from .view import View

if TYPE_CHECKING:
    from .cache import Cache, Kin

MOST_LEVELS = 64
"""Amounts that may be free on a node; where there are more, single nodes are hardly ever alike."""


class Asked(NamedTuple):
    """What a waiting gang asks for: so many members, so much for each, for so long."""

    members: int
    amount: int
    length: int


End = tuple[int, int]
"""When a running gang is expected to end, and its slot."""


class HeadCount:
    """The waiting and the running gangs of a world in which nothing but room on nodes that are alike decides.

    It is a cache and nothing else.
    """

    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self.columns: Ints = np.zeros((3, 64), np.int64)
        """The same for many at once: members, amount and length, by slot."""
        self._members, self._amounts, self._lengths = (column.data for column in self.columns)
        """Through these cells, single numbers take half the time."""
        self.due: dict[int, int] = {}
        """From when on a waiting gang is owed a promise, where it ever is."""
        self._first_due: int | None = NEVER
        self.ends: list[End] = []
        """Expected ends of running gangs, the first one first."""
        self.held: dict[int, Held] = {}
        """What running gangs take of which nodes."""
        self.planned: dict[int, tuple[Seats, Held]] = {}
        """The same of gangs that were told to start and are not known to run."""
        self.floor = Floor.empty(0, 0)
        self.horizon: Horizon | None = None
        """What is known of the start of who waits first."""
        self.which = 0
        """Which percentile of the estimates the ends are."""
        self._first = -1
        """The slot of who stands first in line, where that is known."""
        self.by_age = False
        """Whether nobody passes who came before."""
        self.least = NEVER
        """The least that any waiting gang asks for in all."""
        self._wanted: dict[tuple[int, int], int] = {}
        """How many waiting gangs ask for so many members, and so much for each."""
        self._resource = -1
        self._seats: dict[int, tuple[Seats, ...]] = {}
        self._ours: dict[int, Gang] = {}
        """Gangs that are known to be of the kind."""
        self._kinds: dict[Kin, bool] = {}
        """Whether gangs of a kind are counted."""
        self._odd: set[int] = set()
        """Gangs of another kind, or with something about them, for the time being, that is not a matter of room."""
        self._basis: tuple[object, ...] = ()
        self._applies = False
        self._news = News()

    def holds(self, view: View, policy: Policy, cache: "Cache") -> bool:
        """Bring it up to date; whether room on nodes says all there is to say about this view."""
        basis = (view.ground, view.rules, policy)
        if basis != self._basis:
            self._basis = basis
            self.which = percentile(policy.reserve.quantile)
            self._applies = counts(policy) and _is_even(view)
            self.by_age = policy.order.terms == (Term.AGE,) and not policy.order.fair_share
            self._news = News()
        if self._applies:
            self._read_news(view, policy, cache)
        return self._applies and not self._odd and len(self.floor.levels) <= MOST_LEVELS

    def _read_news(self, view: View, policy: Policy, cache: "Cache") -> None:
        changed: Iterable[int] | None = self._news.since(view)
        if changed is None:
            self.asked, self.due, self.ends, self.held, self._first_due = {}, {}, [], {}, NEVER
            self._ours, self._odd, self._resource, self.horizon = {}, set(), -1, None
            self._seats, self._kinds, self.planned = {}, {}, {}
            self._first, self.least, self._wanted = -1, NEVER, {}
            changed = (*view.queued, *view.seated)
        for slot in changed:
            job = view.jobs[slot]
            if job is not None and self._sits_on(view, slot, job):
                continue
            self._forget(slot)
            if job is not None and not self._read(view, policy, cache, slot, job):
                self._odd.add(slot)

    def _sits_on(self, view: View, slot: int, job: Job) -> bool:
        """Whether a running gang sits where it sat, for as long as it did."""
        known = self.held.get(slot)
        if known is None or self._seats[slot] is not job.life.seats or self._ours[slot] is not job.gang:
            return False
        return known.end == view.ends.item(slot, self.which)

    def _forget(self, slot: int) -> None:
        gone = self.held.pop(slot, None)
        if gone is not None:
            self.floor.give(gone)
            del self.ends[bisect_left(self.ends, (gone.end, slot))]
            if self.horizon is not None:
                self.horizon.ended(gone)
        elif (asked := self.asked.pop(slot, None)) is not None:
            self._want(asked.members, asked.amount, -1)
            if self.due.pop(slot, NEVER) == self._first_due:
                self._first_due = None
            if slot == self._first:
                self._first = -1
        if self._odd:
            self._odd.discard(slot)

    def _read(self, view: View, policy: Policy, cache: "Cache", slot: int, job: Job) -> bool:
        """Take in one gang; whether it is of the kind that this counts."""
        if slot in view.queued:
            return self._read_waiting(view, policy, cache, slot, job)
        if self._ours.get(slot) is not job.gang:
            if not self._is_ours(view, cache.kin(view, job.gang)):
                return False
            self._ours[slot] = job.gang
        self._seats[slot] = job.life.seats
        seats = job.life.seats[0]
        end = view.ends.item(slot, self.which)
        planned = self.planned.pop(slot, None)
        if planned is not None and planned[0] is seats and planned[1].end == end:
            taken = self.held[slot] = planned[1]
        else:
            amount = next(iter(job.gang.roles[0].shapes[0].ask.values()))
            taken = self.held[slot] = held(end, seats, amount)
        insort(self.ends, (taken.end, slot))
        self.floor.take(taken)
        if self.horizon is not None:
            self.horizon.began(taken)
        return True

    def _is_ours(self, view: View, kin: "Kin") -> bool:
        """Whether gangs of a kind are counted; the first one that comes says of which resource."""
        known = self._kinds.get(kin)
        if known is None:
            is_room = kin.free and _takes_room(view, kin.needs[0][0])
            if is_room and self._resource < 0:
                self._resource = kin.needs[0][0].ask[0][0]
                self.floor = Floor.empty(len(view.by_line), view.most[self._resource])
            known = self._kinds[kin] = is_room and kin.needs[0][0].ask[0][0] == self._resource
        return known

    def _read_waiting(self, view: View, policy: Policy, cache: "Cache", slot: int, job: Job) -> bool:
        gang = job.gang
        queue, kin = view.queues.get(gang.queue), cache.kin(view, gang)
        if queue is None or queue.closed or not gang.preemptible or not kin.plain or not self._is_ours(view, kin):
            return False
        amount, low = kin.needs[0][0].ask[0][1], kin.low(job)
        if kin.flaw is not None and not kin.is_sound(
            lambda: self._may_fit(view, low, amount) and not faults(gang, view)
        ):
            return False
        self._ours[slot] = gang
        promise = job.life.promise
        if is_odd(job) or may_ever_borrow(gang, policy) or (promise is not None and promise.start >= NEVER):
            self._odd.add(slot)
        asked = self.asked[slot] = Asked(low, amount, run_time(job, queue, policy.reserve.quantile))
        self._want(low, amount, 1)
        if self._first >= 0 and self._passes(gang, view.jobs[self._first]):
            self._first = -1
        if slot >= len(self._members):
            self.columns = np.concatenate([self.columns, np.zeros((3, slot), np.int64)], axis=1)
            self._members, self._amounts, self._lengths = (column.data for column in self.columns)
        self._members[slot], self._amounts[slot], self._lengths[slot] = asked
        if wait := gang.max_wait or queue.max_wait or policy.reserve.max_wait:
            due = self.due[slot] = gang.submitted + wait
            if self._first_due is not None:
                self._first_due = min(self._first_due, due)
        return True

    def _want(self, members: int, amount: int, sign: int) -> None:
        """One more gang, or one less, asks for so many members, and so much for each."""
        units, kind = members * amount, (members, amount)
        many = self._wanted.get(kind, 0) + sign
        if many:
            self._wanted[kind] = many
            self.least = min(self.least, units)
        else:
            del self._wanted[kind]
            if units == self.least:
                self.least = min((some * each for some, each in self._wanted), default=NEVER)

    def first_due(self) -> int:
        """From when on any waiting gang is owed a promise."""
        if self._first_due is None:
            self._first_due = min(self.due.values(), default=NEVER)
        return self._first_due

    def amounts(self) -> set[int]:
        """How much the members of waiting gangs ask for."""
        return {amount for _, amount in self._wanted}

    def _passes(self, gang: Gang, first: Job | None) -> bool:
        return first is None or (gang.submitted, gang.name) <= (first.gang.submitted, first.gang.name)

    def comes_first(self, slot: int) -> None:
        """Who was found to stand first in line; where age alone decides, only who came before can pass it."""
        if self.by_age:
            self._first = slot

    def stays_until(self, view: View, now: int) -> int | None:
        """Until when there is nothing to do, because too little is free for anybody and the first in line was told when
        it starts; None where that is not clear."""
        horizon, slot = self.horizon, self._first
        if self.floor.units >= self.least or horizon is None or self.due or slot not in view.promised:
            return None
        wants, promise = self.asked[slot], view.held(slot).life.promise
        if promise is None or promise.start != horizon.moment or not horizon.is_of(wants.members, wants.amount):
            return None
        end = self.ends[0][0] if self.ends else NEVER
        return min(horizon.moment, end) if end > now else None

    def _may_fit(self, view: View, members: int, amount: int) -> bool:
        return members <= view.most[self._resource] // amount * len(view.by_line)


def counts(policy: Policy) -> bool:
    """Whether the policy is one promise for the first that cannot start, and nothing that looks at single nodes."""
    return (
        policy.reserve.depth == 1
        and Break.BETTER_START in policy.reserve.breaks
        and not policy.order.strict
        and not policy.place.migrate
        and not policy.place.one_wide_gang_per_node
    )


def _is_even(view: View) -> bool:
    """Whether all nodes are alike and well, with nothing on them that is not ours."""
    traits = {trait for trait in view.traits if trait is not None}
    if len(traits) != 1 or not view.is_straight or view.faulty:
        return False
    (trait,) = traits
    return trait.state is NodeState.READY and not trait.foreign and not trait.foreign_marks


def _takes_room(view: View, need: Need) -> bool:
    """Whether a member takes some of one resource, on whichever node, and wants nothing more."""
    if len(need.ask) != 1 or need.role.near or need.role.arrange is not Arrange.PACK:
        return False
    return bool(view.topology.eligible(*need.key).all())


def is_odd(job: Job) -> bool:
    """Whether there is something about a waiting gang, for the time being, that is no matter of room."""
    life = job.life
    if life.pledge is not None or life.state is not State.WAITING:
        return True
    return bool(life.awaiting or life.attempt.count or life.done)
