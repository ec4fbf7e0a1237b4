"""What to do about a view. One pure function; the cycle below is the whole of the scheduler."""

from collections.abc import Iterator
from itertools import filterfalse

from .alone import alone
from .answers import Answers
from .cache import Cache, Card
from .company import keep_windows_apart
from .consolidate import consolidate, may_consolidate
from .counted import counted
from .desk import Desk
from .everybody import everybody
from .gate import gate, over_quota
from .lend import ask_back, borrowed, leave_alone, may_borrow
from .lineup import Line, hopeless_kinds
from .model import Job, State
from .order import Turns, backfilling, has_own_backfill, steady_until
from .plan import Plan, Resume, Start
from .policy import Policy
from .reclaim import has_rights, reclaim
from .repair import drain, mend
from .reserve import (
    hold_pledges,
    hold_targets,
    keep_aside,
    keep_promises,
    keep_start,
    list_promises,
    may_have_promise,
    promise,
    settle_seats,
    stands_ahead,
    wait_for_eviction,
)
from .resize import fill_loose, give_back, grow
from .rotate import rotate
from .together import seat_roles
from .view import View
from .whole import Sitting, sit_at, sit_now

ONCE_MORE = 4
"""After so many who got nothing, those are left out again for whom too little is left."""


def decide(view: View, now: int, policy: Policy, cache: Cache | None = None) -> Plan:
    """Choose what to do now, and say why every gang that waits does so. The cache may only save time."""
    if not (view.queued or view.watched or view.draining):
        return Plan(view.number, now)
    if cache is None:
        return deliberate(view, now, policy)
    return at_a_glance(view, now, policy, cache) or deliberate(view, now, policy, cache)


def at_a_glance(view: View, now: int, policy: Policy, cache: Cache) -> Plan | None:
    """The same plan where it is clear without looking closely; None where it is not."""
    if not view.queued:
        return None
    plan = counted(view, now, policy, cache, deliberate)
    if plan is None:
        plan = everybody(view, now, policy, cache, deliberate)
    if plan is None and len(view.queued) == 1:
        plan = alone(view, now, policy, cache, deliberate)
    return plan


def deliberate(view: View, now: int, policy: Policy, cache: Cache | None = None) -> Plan:
    """The same, looking at everybody who waits or may have to change, in the light of what is free where and when."""
    desk = Desk(view, now, policy, cache or Cache(), seat_roles)
    keep_windows_apart(desk)
    if view.promised and (view.watched or view.draining):
        hold_pledges(desk)
    if view.watched:
        hold_targets(desk)
        mend(desk)
        give_back(desk)
    drain(desk)
    if view.queued:
        if view.promised:
            list_promises(desk)
        place_in_turn(desk)
        keep_promises(desk)
        settle_seats(desk)
        ask_back(desk)
    if view.watched:
        fill_loose(desk)
        grow(desk)
    rotate(desk)
    return Plan(view.number, now, tuple(desk.actions), Answers(desk), desk.wake_at, tuple(desk.spent))


def place_in_turn(desk: Desk) -> None:
    """Every waiting gang in its turn: start it, promise it a start, or leave it waiting."""
    view, now, policy = desk.view, desk.now, desk.policy
    several = len(view.queued) > 1
    turns: Iterator[int] = iter(Turns(view, now, policy, desk.shares, desk.cache.standing) if several else view.queued)
    passed_over = fruitless = learned = 0
    line: Line | None = None
    first: set[int] | None = set() if several and has_own_backfill(policy) else None
    while (slot := next(turns, None)) is not None:
        started = len(desk.started)
        consider(desk, view.held(slot))
        fruitless += len(desk.started) == started
        if first is not None:
            first.add(slot)
            if desk.promised >= max(policy.reserve.depth, 1):
                turns, first, passed_over = _behind(desk, first), None, 0
        if "" in desk.strict_queues and not desk.unseen:
            break
        known = hopeless_kinds(desk) if several else 0
        if known > passed_over or (known and fruitless >= ONCE_MORE and learned < desk.rooms.learned):
            passed_over, fruitless, learned = known, 0, desk.rooms.learned
            line = line or desk.cache.lineup.now(desk)
            turns = filterfalse(line.hopeless(desk).__contains__, turns)
    if desk.promised:
        desk.wake(desk.next_moment())
    if several and (desk.promised or desk.strict_queues):
        desk.wake(steady_until(view, now, policy, desk.cache.standing.lines))


def _behind(desk: Desk, first: set[int]) -> Iterator[int]:
    """Gangs behind the promises, in an order of their own: queues take turns as ever, and the urgent go first."""
    turns = Turns(desk.view, desk.now, backfilling(desk.policy), desk.shares, desk.cache.behind)
    return filterfalse(first.__contains__, turns)


def consider(desk: Desk, job: Job) -> None:
    """Start a gang, promise it a start, or leave it waiting."""
    card = desk.card(job)
    desk.unseen.discard(job.gang.name)
    if is_hopeless(desk, job, card):
        return
    if may_not_start(desk, job):
        keep_aside(desk, job)
        return
    if desk.unkept.keys() - {job.gang.name}:
        # With its own, so that nobody whose room is gone moves there.
        keep_promises(desk)
    desk.unkept.clear()
    desk.unseat(job)
    if keep_start(desk, job):
        return
    if start(desk, job, card) or wait_for_eviction(desk, job) or reclaim(desk, job) or consolidate(desk, job):
        return
    if borrow(desk, job, card):
        return
    hold_the_queue(desk, job)
    if may_have_promise(desk, job):
        promise(desk, job)
    if desk.rules.sliced:
        desk.blocked.append(job)


def may_not_start(desk: Desk, job: Job) -> bool:
    """Whether the gang is kept from starting whatever room there is: by others before it, a gate, or its queue."""
    # Who left to make room for a gang may stand ahead of it from then on.
    is_passed = job.life.pledge is None and not desk.strict_queues.keys().isdisjoint(("", job.gang.queue))
    return is_passed or bool(gate(desk, job) or over_quota(desk, job))


def is_hopeless(desk: Desk, job: Job, card: Card) -> bool:
    """Whether it is clear without looking further that the gang neither starts nor is promised a start."""
    life = job.life
    if life.promise is not None or life.pledge is not None or desk.rules.sliced or desk.is_strict:
        return False
    if may_consolidate(desk) or stands_ahead(desk, job) or may_borrow(desk, job):
        return False
    return desk.rooms.is_hopeless(card) and not may_have_promise(desk, job) and not has_rights(desk, job)


def start(desk: Desk, job: Job, card: Card) -> bool:
    """Start the gang whole, now, if it delays nobody who was promised a start."""
    # A gang that waits alone mostly finds room: looking whether there is any would be looking twice.
    if desk.rooms.is_hopeless(card) if len(desk.view.queued) > 1 else desk.rooms.has_failed(card):
        return False
    sitting = _within_quota(desk, job, sit_now(desk, job))
    if sitting is None:
        if not desk.is_bounded(job):
            desk.rooms.note_hopeless(card)
        return False
    _begin(desk, job, sitting)
    desk.rooms.note_started(card)
    return True


def borrow(desk: Desk, job: Job, card: Card) -> bool:
    """Start the gang whole in room that is kept for others, if it can give it back when they need it."""
    sitting = borrowed(desk, job, card)
    if sitting is None:
        return False
    _begin(desk, job, sitting, sitting.end)
    return True


def _begin(desk: Desk, job: Job, sitting: Sitting, lent: int = 0) -> None:
    desk.take(sitting)
    desk.charge(job, sitting.seats)
    desk.serve(job)
    desk.started.add(job.gang.name)
    act = Resume if job.life.state is State.PARKED else Start
    desk.act(act(job.gang.name, desk.view.number, seats=sitting.seats, lent=lent))
    if desk.loans.borrowers and job.life.promise is not None:
        leave_alone(desk)


def _within_quota(desk: Desk, job: Job, sitting: Sitting | None) -> Sitting | None:
    """The sitting, or a smaller one where a limit leaves room only for the minimum."""
    if sitting is None or not desk.rules.limited:
        return sitting
    total, floor = desk.amounts(job, sitting.seats)
    if not desk.shares.blocked(job, total, floor) and desk.spoken_for.allows(job, desk.now, sitting.end, total):
        return sitting
    return sit_at(desk, job, desk.now, least=True)


def hold_the_queue(desk: Desk, job: Job) -> None:
    """In a strict queue nobody passes the first that cannot start; where gangs take turns, turns decide."""
    queue = desk.queue(job)
    if desk.rules.sliced and queue is not None and queue.slice:
        return
    if desk.policy.order.strict:
        desk.strict_queues.setdefault("", job.gang.name)
    elif queue is not None and queue.strict:
        desk.strict_queues.setdefault(queue.name, job.gang.name)
