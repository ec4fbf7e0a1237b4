"""Who starts, and when do the others, where everybody is promised a start and the machine is a single node?

Then what is free is one number for each stretch of time. The plan is the one that `deliberate` makes; where anything
asks for more than room, or not all promises can be kept, nothing is decided here.
"""

from typing import NamedTuple

import numpy as np

from .answers import Deliberate, glanced
from .cache import Cache, Card
from .head_count import is_odd
from .lineup import somebody_may_reclaim
from .model import NEVER, Arrange, Job, NodeState, Promise, Seats
from .order import steady_until
from .plan import AnyAction, Plan, Reserve, Start
from .policy import ALL, Break, Policy
from .releases import Releases
from .tally import Bools, Ints
from .validate import faults
from .view import View


class Wish(NamedTuple):
    """What a waiting gang asks for: so many members on the node, so much of a resource in all, for so long."""

    job: Job
    resource: int
    members: int
    units: int
    length: int

    @property
    def seats(self) -> tuple[Seats, ...]:
        """Where they sit."""
        return (Seats((0,), (self.members,), 0),)

    def end(self, start: int) -> int:
        """When a stay is over that begins at a moment."""
        return NEVER if self.length >= NEVER else start + self.length


def everybody(view: View, now: int, policy: Policy, cache: Cache, deliberate: Deliberate) -> Plan | None:
    """What to do about a view in which room on one node decides, now and later; None where it does not."""
    if not _promises_all(policy) or not _is_one_node(view) or len(view.queued) > policy.effort.search_steps:
        return None
    if view.watched or view.leaving or view.draining or view.windows or view.followers or view.on_hold:
        return None
    rules = cache.rules(view)
    # Among equals no promise is broken for somebody more important.
    if rules.limited or rules.sliced or rules.strict or len(view.priorities) != 1:
        return None
    wishes = _wishes(view, now, policy, cache)
    if not wishes or somebody_may_reclaim(view, policy, rules):
        return None
    outlook = Outlook(view, now, policy, wishes)
    if not outlook.decide():
        return None
    wake_at = outlook.next_moment()
    if len(wishes) > 1 and wake_at < NEVER:
        wake_at = min(wake_at, steady_until(view, now, policy, cache.standing.lines))
    return glanced(view, now, policy, tuple(outlook.actions), wake_at, deliberate)


def _is_one_node(view: View) -> bool:
    """Whether there is one node, and it is well and all ours."""
    if len(view.by_line) != 1 or not view.is_straight or view.faulty:
        return False
    trait = view.traits[int(view.class_of[0])]
    return trait is not None and trait.state is NodeState.READY and not trait.foreign and not trait.foreign_marks


def _promises_all(policy: Policy) -> bool:
    place = policy.place
    more = policy.reserve.lend or policy.order.strict or place.migrate or place.one_wide_gang_per_node
    return policy.reserve.depth == ALL and not more


def _wishes(view: View, now: int, policy: Policy, cache: Cache) -> list[Wish]:
    """What everybody in line asks for; nothing where that is more than room."""
    found: list[Wish] = []
    asks: dict[object, tuple[int, int]] = {}
    for slot in cache.only_line(view, now, policy) or ():
        job = view.held(slot)
        card = cache.card(view, job, policy.reserve.quantile)
        ask = asks.get(card.kin)
        if ask is None:
            ask = asks[card.kin] = _ask(view, card)
        resource, amount = ask
        wish = Wish(job, resource, card.low, card.low * amount, card.length)
        if not amount or wish.resource != (found or [wish])[0].resource or not _is_ready(card, wish):
            return []
        found.append(wish)
    return found


def _ask(view: View, card: Card) -> tuple[int, int]:
    """The one resource that a member takes some of, and how much; nothing where gangs of the kind want more."""
    kin = card.kin
    need = kin.needs[0][0] if kin.free and kin.plain else None
    if need is None or len(need.ask) != 1 or need.role.near or need.role.arrange is not Arrange.PACK:
        return 0, 0
    ((resource, amount),) = need.ask
    fits = 0 < card.low * amount <= view.most[resource] and bool(view.topology.eligible(*need.key).all())
    sound = fits and kin.is_sound(lambda: not faults(card.job.gang, view))
    return (resource, amount) if sound else (0, 0)


def _is_ready(card: Card, wish: Wish) -> bool:
    """Whether nothing but room is missing, and what was promised is what is asked for."""
    gang, queue, promise = card.job.gang, card.queue, card.job.life.promise
    if queue is None or queue.closed or not gang.preemptible or is_odd(card.job) or wish.length <= 0:
        return False
    return promise is None or (promise.start < NEVER and promise.seats == wish.seats)


class Outlook:
    """What is free on the node from now on, stretch by stretch, with all promises taken out."""

    def __init__(self, view: View, now: int, policy: Policy, wishes: list[Wish]) -> None:
        self.actions: list[AnyAction] = []
        self.started: set[str] = set()
        self._view, self._now, self._wishes = view, now, wishes
        self._may_move = Break.BETTER_START in policy.reserve.breaks
        self._units: Ints = np.array([wish.units for wish in wishes], np.int64)
        promises = [wish.job.life.promise for wish in wishes]
        self._starts = [NEVER if each is None else max(each.start, now) for each in promises]
        """When everybody starts, as far as is known."""
        self._releases = Releases(view, now, policy.reserve.quantile)
        self._lay_out(wishes[0].resource)
        self._chances: Bools | None = None

    def _lay_out(self, resource: int) -> None:
        """The node as it frees, with the stays of all who were promised one."""
        stays = [each for each in zip(self._starts, self._wishes, strict=True) if each[0] < NEVER]
        freed = zip(self._releases.at.tolist(), self._releases.amounts[resource].tolist(), strict=True)
        begun = ((start, -wish.units) for start, wish in stays)
        over = ((wish.end(start), wish.units) for start, wish in stays)
        now = (self._now, int(self._view.class_free[resource, self._view.class_of[0]]))
        changes = np.array([each for each in (now, *freed, *begun, *over) if each[0] < NEVER], np.int64)
        times, which = np.unique(changes[:, 0], return_inverse=True)
        steps: Ints = np.zeros(len(times), np.int64)
        np.add.at(steps, which, changes[:, 1])
        self._times: Ints = np.append(times, NEVER)
        """Where stretches begin, and where the last one ends."""
        self._free: Ints = np.add.accumulate(steps)

    def decide(self) -> bool:
        """Look at everybody in turn who may start or be promised a better start; False where promises collide."""
        at = 0 if int(self._free.min()) >= 0 else -1
        while 0 <= at < len(self._wishes):
            at = self._next(at)
            if at < len(self._wishes):
                at = at + 1 if self._place(at) else -1
        return at >= 0

    def _next(self, at: int) -> int:
        """The first in line, from one on, who may get another start than the one known."""
        if self._chances is None:
            self._chances = self._found_chances()
        ahead = self._chances[at:]
        return at + int(ahead.argmax()) if ahead.any() else len(self._wishes)

    def _found_chances(self) -> Bools:
        """Who is due, who was promised nothing, and, if starts may move, who ever finds room before the one known."""
        starts = np.array(self._starts, np.int64)
        found: Bools = (starts <= self._now) | (starts >= NEVER)
        if self._may_move:
            first = np.maximum.accumulate(self._free).searchsorted(self._units)
            found |= self._times[first] < starts
        return found

    def _place(self, at: int) -> bool:
        """Start somebody, or promise the first start there is; False where there is none."""
        wish, known = self._wishes[at], self._starts[at]
        start = self._first(wish, known)
        if start != known:
            self._move(wish, known, start)
            self._starts[at], self._chances = start, None
        if start <= self._now:
            self.started.add(wish.job.gang.name)
            self.actions.append(Start(wish.job.gang.name, self._view.number, seats=wish.seats))
        elif start != known:
            self._promise(wish, start)
        return start < NEVER

    def _first(self, wish: Wish, known: int) -> int:
        """The first moment from which there is room for the whole stay: the one that is known, if there is no other."""
        times = self._times
        full = (self._free[: times.searchsorted(known)] < wish.units).nonzero()[0]
        begins = np.empty(len(full) + 1, np.int64)
        begins[0], begins[1:] = times[0], times[full + 1]
        # What is free up to the start that is known goes on with the gang's own stay.
        long_enough = times[full] - begins[:-1] >= wish.length
        return int(begins[long_enough.argmax() if long_enough.any() else -1])

    def _move(self, wish: Wish, known: int, start: int) -> None:
        """Give back the stay that is known, and take another; its end may be a moment at which nothing else changes."""
        end, free = wish.end(start), self._free.copy()
        if known < NEVER:
            free[self._stay(known, wish)] += wish.units
        at = int(self._times.searchsorted(end))
        if self._times[at] != end:
            self._times, free = np.insert(self._times, at, end), np.insert(free, at, free[at - 1])
        free[self._stay(start, wish)] -= wish.units
        self._free = free

    def _stay(self, start: int, wish: Wish) -> slice:
        first, last = self._times.searchsorted((start, wish.end(start))).tolist()
        return slice(first, last)

    def _promise(self, wish: Wish, start: int) -> None:
        old = wish.job.life.promise
        given, broken = (self._now, 0) if old is None else (old.given, old.broken)
        promise = Promise(start, wish.end(start), wish.seats, given, broken)
        why = "" if old is None else Break.BETTER_START
        self.actions.append(Reserve(wish.job.gang.name, self._view.number, promise=promise, why=why))

    def next_moment(self) -> int:
        """When something is expected to begin or to end next, where anybody waits for it."""
        if len(self.started) == len(self._wishes):
            return NEVER
        stays = list(zip(self._starts, self._wishes, strict=True))
        ahead = [start for start, _ in stays if start > self._now]
        return min(self._releases.first(), *ahead, *(wish.end(start) for start, wish in stays))
