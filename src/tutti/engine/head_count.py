"""How many nodes does everybody ask for, hold and give back, where a node has one seat? Kept between decisions."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .model import NEVER, Arrange, Gang, Job, NodeState, State
from .news import News
from .place import Need
from .policy import Break, Policy
from .releases import percentile
from .validate import faults
from .view import View

if TYPE_CHECKING:
    from .cache import Cache, Card


class Asked(NamedTuple):
    """What a waiting gang asks for: so many nodes, for so long."""

    nodes: int
    length: int


End = tuple[int, int, int]
"""When a running gang is expected to end, its slot, and how many nodes it gives back."""


class HeadCount:
    """The waiting and the running gangs of a world in which every node takes one member of any of them, and no more.

    It is a cache and nothing else: only gangs that changed are read again.
    """

    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self.due: dict[int, int] = {}
        """From when on a waiting gang is owed a promise, where it ever is."""
        self.ends: list[End] = []
        """Expected ends of running gangs, the first one first."""
        self.which = 0
        """Which percentile of the estimates that is."""
        self.resource = -1
        self.amount = 0
        """What a member takes of a node."""
        self._alike: object = None
        self.held = 0
        """Nodes that running gangs hold."""
        self._entered: dict[int, End] = {}
        self._counted: dict[int, Gang] = {}
        """Gangs that are known to be of the kind."""
        self._odd: set[int] = set()
        """Gangs with something about them, for the time being, that is not a matter of counting."""
        self._basis: tuple[object, ...] = ()
        self._applies = False
        self._news = News()

    def holds(self, view: View, policy: Policy, cache: "Cache") -> bool:
        """Bring it up to date; whether numbers of nodes say all there is to say about this view."""
        basis = (view.ground, view.rules, policy)
        if basis != self._basis:
            self._basis, self._alike = basis, None
            self.which = percentile(policy.reserve.quantile)
            self._applies = counts(policy) and _is_even(view)
            self._news = News()
        if self._applies:
            self._read_news(view, policy, cache)
        return self._applies and not self._odd

    def _read_news(self, view: View, policy: Policy, cache: "Cache") -> None:
        changed: Iterable[int] | None = self._news.since(view)
        if changed is None:
            self.asked, self.due, self.ends, self.held = {}, {}, [], 0
            self._entered, self._counted, self._odd = {}, {}, set()
            changed = (*view.queued, *view.seated)
        for slot in changed:
            self._forget(slot)
            job = view.jobs[slot]
            if job is not None and self._applies:
                self._applies = self._read(view, policy, cache, slot, job)

    def _forget(self, slot: int) -> None:
        end = self._entered.pop(slot, None)
        if end is not None:
            self.held -= end[2]
            del self.ends[bisect_left(self.ends, end)]
        elif self.asked.pop(slot, None) is not None:
            self.due.pop(slot, None)
            self._odd.discard(slot)

    def _read(self, view: View, policy: Policy, cache: "Cache", slot: int, job: Job) -> bool:
        """Take in one gang; whether it is of the one kind that this counts."""
        if slot in view.queued:
            return self._read_waiting(view, policy, slot, cache.card(view, job, policy.reserve.quantile))
        if self._counted.get(slot) is not job.gang:
            if not self._is_ours(view, cache.card(view, job, policy.reserve.quantile)):
                return False
            self._counted[slot] = job.gang
        nodes = len(job.life.seats[0].nodes)
        end = self._entered[slot] = view.ends.item(slot, self.which), slot, nodes
        insort(self.ends, end)
        self.held += nodes
        return True

    def _is_ours(self, view: View, card: "Card") -> bool:
        """Whether the gang is of the kind that is counted; the first one that comes says which that is."""
        if self._alike is None and card.kin.free and _takes_a_node(view, card.needs[0][0]):
            self._alike = card.kin.alike
            self.resource, self.amount = card.needs[0][0].ask[0]
        return card.kin.free and card.kin.alike == self._alike

    def _read_waiting(self, view: View, policy: Policy, slot: int, card: "Card") -> bool:
        gang, queue = card.job.gang, card.queue
        if queue is None or queue.closed or not gang.preemptible or not card.kin.plain or not self._is_ours(view, card):
            return False
        if not card.kin.is_sound(lambda: card.low <= len(view.by_line) and not faults(gang, view)):
            return False
        self._counted[slot] = gang
        promise = card.job.life.promise
        if is_odd(card.job) or (promise is not None and promise.start >= NEVER):
            self._odd.add(slot)
        self.asked[slot] = Asked(card.low, card.length)
        if wait := gang.max_wait or queue.max_wait or policy.reserve.max_wait:
            self.due[slot] = gang.submitted + wait
        return True


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


def _takes_a_node(view: View, need: Need) -> bool:
    """Whether a node has room for one member, and for one only."""
    if len(need.ask) != 1 or need.role.near or need.role.arrange is not Arrange.PACK:
        return False
    ((resource, amount),) = need.ask
    return amount <= view.most[resource] < 2 * amount and bool(view.topology.eligible(*need.key).all())


def is_odd(job: Job) -> bool:
    """Whether there is something about a waiting gang, for the time being, that is no matter of room."""
    life = job.life
    if life.pledge is not None or life.state is not State.WAITING:
        return True
    return bool(life.awaiting or life.attempt.count or life.done)
