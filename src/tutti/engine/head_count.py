"""What does everybody ask for, hold and give back, where all nodes are alike and one resource decides?

Kept between decisions: only gangs that changed are read again.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .floor import Floor, Held, held
from .horizon import Horizon
from .model import NEVER, Arrange, Gang, Job, NodeState, Seats, State
from .news import News
from .place import Need
from .policy import Break, Policy
from .releases import percentile
from .validate import faults
from .view import View

if TYPE_CHECKING:
    from .cache import Cache, Card, Kin

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
        self.due: dict[int, int] = {}
        """From when on a waiting gang is owed a promise, where it ever is."""
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
            self._news = News()
        if self._applies:
            self._read_news(view, policy, cache)
        return self._applies and not self._odd and len(self.floor.levels) <= MOST_LEVELS

    def _read_news(self, view: View, policy: Policy, cache: "Cache") -> None:
        changed: Iterable[int] | None = self._news.since(view)
        if changed is None:
            self.asked, self.due, self.ends, self.held = {}, {}, [], {}
            self._ours, self._odd, self._resource, self.horizon = {}, set(), -1, None
            self._seats, self._kinds, self.planned = {}, {}, {}
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
        elif self.asked.pop(slot, None) is not None:
            self.due.pop(slot, None)
        self._odd.discard(slot)

    def _read(self, view: View, policy: Policy, cache: "Cache", slot: int, job: Job) -> bool:
        """Take in one gang; whether it is of the kind that this counts."""
        if slot in view.queued:
            return self._read_waiting(view, policy, slot, cache.card(view, job, policy.reserve.quantile))
        if self._ours.get(slot) is not job.gang:
            if not self._is_ours(view, cache.card(view, job, policy.reserve.quantile)):
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
            taken = self.held[slot] = held(end, seats.nodes, seats.counts, amount)
        insort(self.ends, (taken.end, slot))
        self.floor.take(taken)
        if self.horizon is not None:
            self.horizon.began(taken)
        return True

    def _is_ours(self, view: View, card: "Card") -> bool:
        """Whether the gang is of a kind that is counted; the first one that comes says of which resource."""
        kin = card.kin
        if kin not in self._kinds:
            self._kinds[kin] = kin.free and _takes_room(view, kin.needs[0][0])
            if self._kinds[kin] and self._resource < 0:
                self._resource = kin.needs[0][0].ask[0][0]
                self.floor = Floor.empty(len(view.by_line), view.most[self._resource])
        return self._kinds[kin] and kin.needs[0][0].ask[0][0] == self._resource

    def _read_waiting(self, view: View, policy: Policy, slot: int, card: "Card") -> bool:
        gang, queue = card.job.gang, card.queue
        if queue is None or queue.closed or not gang.preemptible or not card.kin.plain or not self._is_ours(view, card):
            return False
        amount = card.needs[0][0].ask[0][1]
        if not card.kin.is_sound(lambda: self._may_fit(view, card.low, amount) and not faults(gang, view)):
            return False
        self._ours[slot] = gang
        promise = card.job.life.promise
        if is_odd(card.job) or (promise is not None and promise.start >= NEVER):
            self._odd.add(slot)
        self.asked[slot] = Asked(card.low, amount, card.length)
        if wait := gang.max_wait or queue.max_wait or policy.reserve.max_wait:
            self.due[slot] = gang.submitted + wait
        return True

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
