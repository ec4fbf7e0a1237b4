"""What to do about a view. One pure function; the cycle below is the whole of the scheduler."""

from .cache import Cache
from .company import keep_windows_apart
from .desk import Desk, wait
from .explain import answer_blocked
from .gate import gate
from .model import Job, Kind, State, Token
from .order import Turns
from .plan import Plan, Reason, Resume, Start
from .policy import Policy
from .reclaim import reclaim
from .repair import drain, mend
from .reserve import hold_targets, keep_promises, may_have_promise, promise, wait_for_eviction
from .resize import fill_loose, grow
from .rotate import rotate
from .together import seat_roles
from .view import View
from .whole import Sitting, sit_at, sit_now


def decide(view: View, now: int, policy: Policy, cache: Cache | None = None) -> Plan:
    """Choose what to do now, and say why every gang that waits does so. The cache may only save time."""
    desk = Desk(view, now, policy, cache or Cache(), seat_roles)
    keep_windows_apart(desk)
    hold_targets(desk)
    mend(desk)
    drain(desk)
    keep_promises(desk)
    for slot in Turns(view, now, policy, desk.shares, desk.cache.standing):
        consider(desk, view.held(slot))
    fill_loose(desk)
    grow(desk)
    rotate(desk)
    answer_held(desk)
    answer_blocked(desk)
    return desk.plan()


def consider(desk: Desk, job: Job) -> None:
    """Start a gang, promise it a start, or note why it waits."""
    reason = gate(desk, job) or over_quota(desk, job) or behind(desk, job)
    if reason is not None:
        desk.answer(job, reason)
        return
    desk.unseat(job)
    if start(desk, job) or wait_for_eviction(desk, job) or reclaim(desk, job):
        return
    hold_the_queue(desk, job)
    if may_have_promise(desk, job):
        promise(desk, job)
    desk.blocked.append(job)


def start(desk: Desk, job: Job) -> bool:
    """Start the gang whole, now, if it delays nobody who was promised a start."""
    card = desk.card(job)
    if desk.is_hopeless(card):
        return False
    sitting = _within_quota(desk, job, sit_now(desk, job))
    if sitting is None:
        desk.note_hopeless(card)
        return False
    sitting.take(desk, job)
    total, floor = desk.amounts(job, sitting.seats)
    desk.shares.take(job.gang.queue, job.gang.user, total, floor)
    desk.highest_started = max(desk.highest_started, job.gang.priority)
    act = Resume if job.life.state is State.PARKED else Start
    desk.act(act(job.gang.name, desk.view.number, seats=sitting.seats))
    return True


def _within_quota(desk: Desk, job: Job, sitting: Sitting | None) -> Sitting | None:
    """The sitting, or a smaller one where a limit leaves room only for the minimum."""
    if sitting is None or not desk.shares.blocked(job, *desk.amounts(job, sitting.seats)):
        return sitting
    return sit_at(desk, job, desk.now, least=True)


def over_quota(desk: Desk, job: Job) -> Reason | None:
    """A reason when even the gang's minimum would break a limit."""
    least = desk.least_amounts(job)
    blocked = desk.shares.blocked(job, least, least)
    if blocked is None:
        return None
    resource, whose = blocked
    return wait(Token.QUOTA_REACHED, f"{resource} of {whose}", f"queue:{job.gang.queue}", "capacity", kind=Kind.ASK)


def behind(desk: Desk, job: Job) -> Reason | None:
    """A reason when somebody ahead in a strict queue cannot start."""
    ahead = desk.strict_queues.get("") or desk.strict_queues.get(job.gang.queue)
    if ahead is None:
        return None
    return wait(Token.BEHIND_OTHERS, ahead, f"gang:{ahead}", blockers=(ahead,))


def hold_the_queue(desk: Desk, job: Job) -> None:
    """In a strict queue nobody passes the first that cannot start."""
    queue = desk.queue(job)
    if desk.policy.order.strict:
        desk.strict_queues.setdefault("", job.gang.name)
    elif queue is not None and queue.strict:
        desk.strict_queues.setdefault(queue.name, job.gang.name)


def answer_held(desk: Desk) -> None:
    """Gangs on hold are not in the running, but they get their answer."""
    for slot in desk.view.queued:
        job = desk.view.held(slot)
        if job.life.state is State.HELD and job.gang.name not in desk.answers:
            reason = gate(desk, job)
            assert reason is not None
            desk.answer(job, reason)
