"""What may be taken back, and from whom? Surplus first, then the victims that lose the least, and only if it helps."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from .desk import Desk, wait
from .model import DAY, MINUTE, NEVER, Job, Pledge, Resizing, Seats, State, Token, span
from .plan import Await, Evict, How, Shrink
from .ranks import cut
from .seats import beyond
from .whole import Sitting, sit_at

BROKEN = frozenset({State.DEGRADED, State.REPAIRING})
"""A gang that waits for lost members may leave as a whole, but not change its size."""
COMES_UP = MINUTE
"""How long a gang that was just given its seats is left alone, so that nobody is taken off them before it runs."""


class Victim:
    """A gang that could give something up: what it would keep, and what that would cost."""

    __slots__ = ("cost", "job", "keeps", "slot", "weight")

    def __init__(self, slot: int, job: Job, keeps: tuple[Seats, ...], cost: int) -> None:
        self.slot = slot
        self.job = job
        self.keeps = keeps
        self.cost = cost
        self.weight = cost
        """What decides between victims: the cost, and more where the policy says so."""

    @property
    def is_surplus(self) -> bool:
        """Whether the gang goes on with fewer members."""
        return bool(self.keeps)


def reclaim(desk: Desk, job: Job) -> bool:
    """Make room for a gang that may claim it; True when victims were found whose leaving makes it start."""
    return reclaim_from(desk, job, candidates(desk, job))


def reclaim_from(desk: Desk, job: Job, found: list[Victim]) -> bool:
    """Make room from among these victims, if their leaving makes the gang start."""
    chosen = cheapest_set(desk, job, found)
    if chosen is None:
        return False
    victims, sitting = spared(desk, job, *chosen)
    pledge = Pledge(
        sitting.seats,
        tuple(victim.job.gang.name for victim in victims),
        desk.now,
        desk.now + desk.policy.reclaim.pledge_for,
    )
    at = desk.act(Await(job.gang.name, desk.view.number, pledge=pledge))
    for victim in victims:
        tell(desk, job, victim, at, why_this_one(victim, victims, found))
    keep_room(desk, job, victims, sitting)
    names = pledge.victims
    desk.wake(pledge.expires)
    desk.answer(job, wait(Token.WAITING_FOR_EVICTION, ", ".join(names), *(f"gang:{n}" for n in names), blockers=names))
    return True


def why_this_one(victim: Victim, victims: list[Victim], found: list[Victim]) -> str:
    """What a gang loses that is to leave, and what the cheapest that is spared would have lost."""
    chosen = {other.slot for other in victims}
    spared_ones = (other for other in found if not other.is_surplus and other.slot not in chosen)
    other = min(spared_ones, key=lambda one: (one.weight, one.job.gang.name), default=None)
    beside = f", {other.job.gang.name} would lose {span(other.cost)}" if other is not None else ""
    return f"it loses {span(victim.cost)} of its members' time{beside}"


def tell(desk: Desk, job: Job, victim: Victim, await_at: int, why: str = "") -> None:
    """Ask a victim to shrink, or to leave with its state if it can keep it."""
    by = desk.now + desk.policy.reclaim.grace
    name, number = victim.job.gang.name, desk.view.number
    desk.disturbed.add(name)
    if victim.is_surplus:
        desk.act(Shrink(name, number, (await_at,), victim.cost, victim.keeps, job.gang.name, by))
    else:
        how = How.PARK if victim.job.gang.parkable else How.REQUEUE
        desk.act(Evict(name, number, (await_at,), victim.cost, how, job.gang.name, by, why))


def keep_room(desk: Desk, job: Job, victims: list[Victim], sitting: Sitting) -> None:
    """From the moment the victims are gone their room is the gang's."""
    ready = max(min(desk.end_of(victim.slot), desk.gone_by()) for victim in victims)
    for victim in victims:
        leave(desk, victim, ready)
    desk.forget_failures()
    desk.serve(job)
    length = desk.length(job, sitting.seats)
    sitting.start, sitting.end = ready, NEVER if length >= NEVER else ready + length
    sitting.take(desk)


def candidates(desk: Desk, job: Job) -> list[Victim]:
    """Every gang that may be asked to give something up for this one, cheapest first."""
    found: list[Victim] = []
    if not has_rights(desk, job):
        return found
    under = desk.shares.under_guarantee(job.gang.queue, desk.least_amounts(job)) if desk.rules.guaranteed else False
    for slot in desk.view.seated:
        other = desk.view.held(slot)
        settled, broken = is_settled(desk, other), other.life.state in BROKEN or _is_stuck(desk, other)
        if not settled and not broken:
            continue
        if settled and desk.policy.reclaim.surplus and (keeps := without_surplus(desk, other)):
            found.append(Victim(slot, other, keeps, shrink_cost(other, keeps)))
        if not _may_take_all(desk, job, other, under):
            continue
        if broken and other.gang.name in desk.disturbed:
            # This plan still tries to mend it; whether it must leave is the next one's question, and nothing may
            # happen before: whoever would make its members again may not exist.
            desk.wake(desk.now + 1)
        else:
            found.append(Victim(slot, other, (), loss(desk, other)))
    if desk.policy.reclaim.lowest_first:
        _weigh_by_priority(found)
    return sorted(found, key=lambda v: (not v.is_surplus, v.weight, v.job.gang.name))


def _weigh_by_priority(found: list[Victim]) -> None:
    """One gang of a priority weighs more than all that are lower together."""
    whole = [victim for victim in found if not victim.is_surplus]
    step = sum(victim.cost + 1 for victim in whole)
    levels = {priority: at for at, priority in enumerate(sorted({victim.job.gang.priority for victim in whole}))}
    for victim in whole:
        victim.weight += step * ((len(whole) + 1) ** levels[victim.job.gang.priority] - 1)


def has_rights(desk: Desk, job: Job) -> bool:
    """Whether anybody could possibly be asked: surplus somewhere, lower priority in the queue, or a guarantee."""
    if not job.gang.preempts:
        return False
    rules = desk.policy.reclaim
    use = desk.view.use.get(job.gang.queue)
    lower = rules.priority and use is not None and min(use.priorities, default=job.gang.priority) < job.gang.priority
    return lower or (rules.surplus and bool(desk.view.watched)) or (rules.quota and desk.rules.guaranteed)


def is_settled(desk: Desk, job: Job) -> bool:
    """Running, not already asked to change, not disturbed in this plan."""
    life = job.life
    pending = bool(life.target) and life.target_by > desk.now
    return life.state is State.RUNNING and not pending and job.gang.name not in desk.disturbed


def _is_stuck(desk: Desk, job: Job) -> bool:
    """Whether it has its seats and has not come up for so long that it may never: an image that is not there."""
    if job.life.state is not State.STARTING:
        return False
    desk.wake(job.life.started + COMES_UP)
    return job.life.started + COMES_UP <= desk.now


def without_surplus(desk: Desk, job: Job) -> tuple[Seats, ...]:
    """The seats of an elastic gang at its minimum; () where it has nothing above it."""
    if job.gang.resizing is not Resizing.LIVE or job.gang.keeps_surplus:
        return ()
    kept = tuple(_at_minimum(desk, job, role, held) for role, held in enumerate(job.life.seats))
    return kept if kept != job.life.seats else ()


def _at_minimum(desk: Desk, job: Job, role: int, held: Seats) -> Seats:
    low = desk.sizes(job, role, held.shape).low
    return cut(held, low) if 0 < low < held.members else held


def _may_take_all(desk: Desk, job: Job, other: Job, under: bool) -> bool:
    """Whether the whole of another gang may be taken for this one."""
    rules = desk.policy.reclaim
    gang = other.gang
    if not gang.preemptible or gang.name == job.gang.name or not may_be_interrupted(desk, other):
        return False
    if gang.queue == job.gang.queue:
        return rules.priority and gang.priority < job.gang.priority
    wanted = desk.least_amounts(job)
    return rules.quota and under and desk.shares.over_deserved(gang.queue, (), wanted, job.gang.queue)


def may_be_interrupted(desk: Desk, job: Job) -> bool:
    """Past its minimum run time, and not interrupted too often today."""
    least = min_run(desk, job)
    if job.life.started + least > desk.now:
        desk.wake(job.life.started + least)
        return False
    return has_budget(desk, job)


def min_run(desk: Desk, job: Job) -> int:
    """How long the gang is left alone after it started."""
    queue = desk.queue(job)
    return max(job.gang.min_run, queue.min_run if queue else 0, desk.policy.reclaim.min_run)


def has_budget(desk: Desk, job: Job) -> bool:
    """Whether it was not interrupted too often today."""
    most = job.gang.interruptions_per_day or desk.policy.reclaim.interruptions_per_day
    return sum(at > desk.now - DAY for at in job.life.interruptions) < most


def loss(desk: Desk, job: Job) -> int:
    """Goodput lost when the whole gang leaves, in member-microseconds: unsaved work, saving and restarting."""
    life, members = job.life, sum(held.members for held in job.life.seats)
    told = life.progress
    saved_at = max(told.snapshot_at if told else 0, life.started)
    redo = 0 if job.gang.parkable else desk.now - saved_at
    overhead = (told.save_cost + told.restart_cost) if told else 0
    return members * (redo + overhead)


def shrink_cost(job: Job, keeps: tuple[Seats, ...]) -> int:
    """What changing size costs everybody who stays."""
    told = job.life.progress
    return sum(held.members for held in keeps) * (told.save_cost if told else 0)


def cheapest_set(desk: Desk, job: Job, found: list[Victim]) -> tuple[list[Victim], Sitting] | None:
    """The set of victims that costs least and makes the gang start; proven by seating it without them."""
    if not found or not _enough(desk, job, found):
        return None
    tries = desk.policy.effort.victims
    for chosen in sets_by_cost(found):
        if tries == 0:
            break
        tries -= 1
        sitting = would_sit(desk, job, chosen) if _quota_allows(desk, job, chosen) else None
        if sitting is not None:
            return chosen, sitting
    return _greedy(desk, job, found)


def spared(desk: Desk, job: Job, victims: list[Victim], sitting: Sitting) -> tuple[list[Victim], Sitting]:
    """The same victims, but each that goes on with fewer members keeps as many as the gang can do without."""
    for at in range(len(victims)):
        for role in range(len(victims[at].keeps)):
            victims, sitting = _spared(desk, job, victims, sitting, at, role)
    return victims, sitting


def _spared(
    desk: Desk, job: Job, victims: list[Victim], sitting: Sitting, at: int, role: int
) -> tuple[list[Victim], Sitting]:
    """The largest legal size of one role of one victim with which the gang still sits."""
    kept = victims[at].keeps[role]
    legal = desk.sizes(victims[at].job, role, kept.shape).legal
    low, high = bisect_right(legal, kept.members), bisect_left(legal, victims[at].job.life.seats[role].members)
    while low < high:
        middle = (low + high) // 2
        tried = [*victims[:at], _keeping(victims[at], role, legal[middle]), *victims[at + 1 :]]
        found = would_sit(desk, job, tried)
        if found is None:
            high = middle
        else:
            victims, sitting, low = tried, found, middle + 1
    return victims, sitting


def _keeping(victim: Victim, role: int, members: int) -> Victim:
    """The victim with so many members of a role left to it."""
    seats = cut(victim.job.life.seats[role], members)
    keeps = (*victim.keeps[:role], seats, *victim.keeps[role + 1 :])
    return Victim(victim.slot, victim.job, keeps, shrink_cost(victim.job, keeps))


def _quota_allows(desk: Desk, job: Job, victims: list[Victim]) -> bool:
    """Whether each queue still holds more than it deserves when its next gang is taken."""
    gone: dict[str, list[int]] = {}
    for victim in victims:
        queue = victim.job.gang.queue
        if victim.is_surplus or queue == job.gang.queue:
            continue
        if not desk.shares.over_deserved(queue, gone.get(queue, ()), desk.least_amounts(job), job.gang.queue):
            return False
        total, _ = desk.amounts(victim.job, victim.job.life.seats)
        gone[queue] = [a + b for a, b in zip(total, gone.get(queue, [0] * len(total)), strict=True)]
    return True


def sets_by_cost(found: list[Victim]) -> Iterator[list[Victim]]:
    """Sets of victims in order of cost; surplus costs nothing beside a whole gang."""
    weights = [victim.weight + (0 if victim.is_surplus else 1) for victim in found]
    heap: list[tuple[int, int, tuple[int, ...]]] = [(weights[0], 1, (0,))]
    while heap:
        cost, _, chosen = heapq.heappop(heap)
        slots = {found[at].slot for at in chosen}
        if len(slots) == len(chosen):
            yield [found[at] for at in chosen]
        last = chosen[-1]
        if last + 1 < len(found):
            heapq.heappush(heap, (cost + weights[last + 1], len(chosen) + 1, (*chosen, last + 1)))
            heapq.heappush(heap, (cost - weights[last] + weights[last + 1], len(chosen), (*chosen[:-1], last + 1)))


def _greedy(desk: Desk, job: Job, found: list[Victim]) -> tuple[list[Victim], Sitting] | None:
    """Cheapest victims until the gang sits, then without each that turns out not to be needed."""
    chosen: list[Victim] = []
    sitting = None
    for victim in found:
        more = [other for other in chosen if other.slot != victim.slot] + [victim]
        if not _quota_allows(desk, job, more):
            continue
        chosen = more
        sitting = would_sit(desk, job, chosen)
        if sitting is not None:
            break
    if sitting is None:
        return None
    for victim in sorted(chosen, key=lambda v: -v.weight):
        fewer = [other for other in chosen if other is not victim]
        still = would_sit(desk, job, fewer) if fewer else None
        if still is not None:
            chosen, sitting = fewer, still
    return chosen, sitting


def _enough(desk: Desk, job: Job, found: list[Victim]) -> bool:
    """Whether the gang would sit if everybody gave up everything they may be asked for."""
    whole = {victim.slot: victim for victim in found}
    return would_sit(desk, job, list(whole.values())) is not None


def would_sit(desk: Desk, job: Job, victims: list[Victim]) -> Sitting | None:
    """Where the gang would sit from now on if these victims were gone.

    They take their time to go, and it stays so much longer.
    """
    receipts = [receipt for victim in victims for receipt in leave(desk, victim, desk.now)]
    sitting = sit_at(desk, job, desk.now, least=True, late=desk.gone_by() - desk.now)
    for receipt in receipts:
        desk.profile.give(receipt)
    return sitting


def leave(desk: Desk, victim: Victim, start: int) -> list[int]:
    """Take a victim's members (those it gives up) off their nodes from a moment until it would have ended."""
    end = desk.end_of(victim.slot)
    needs = desk.needs(victim.job)
    receipts = []
    for role, given_up in _given_up(desk, victim):
        if given_up.nodes and start < end:
            seating, ask = desk.seating(given_up), needs[role][given_up.shape].ask
            receipts.append(desk.profile.take(start, end, seating.positions, seating.counts, ask, -1))
    return receipts


def _given_up(desk: Desk, victim: Victim) -> Iterator[tuple[int, Seats]]:
    """What a victim holds and would not keep, role by role; who leaves needs no places for lost members either."""
    if not victim.keeps:
        yield from all_of(desk, victim.job)
        return
    for role, held in enumerate(victim.job.life.seats):
        yield role, beyond(held, victim.keeps[role])


def all_of(desk: Desk, job: Job) -> Iterator[tuple[int, Seats]]:
    """All that a gang holds, role by role: its seats, and those that it was asked to change to."""
    life = job.life
    yield from enumerate(life.seats)
    if life.target and life.target_by > desk.now and desk.are_there(life.target):
        for role, held in enumerate(life.target):
            yield role, beyond(held, life.seats[role])
