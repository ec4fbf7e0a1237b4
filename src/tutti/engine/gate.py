"""May the gang be placed at all? What must hold before anybody looks for seats."""

from typing import cast

from .bounds import Crowd
from .cache import UNKNOWN
from .desk import Desk, wait
from .model import Job, Kind, State, Token
from .plan import Reason
from .validate import faults
from .verdict import never_fits

MOST_NAMED = 8
"""Running gangs that a reason names."""


def gate(desk: Desk, job: Job) -> Reason | None:
    """The first thing that keeps the gang out of the running, or None."""
    if job.life.state is State.HELD:
        return flaw(desk, job) or wait(Token.HELD, "", "owner", kind=Kind.CHANGE)
    return flaw(desk, job) or _begin(desk, job) or _queue(desk, job) or _others(job) or _time(desk, job)


def flaw(desk: Desk, job: Job) -> Reason | None:
    """Why the gang can never start as it is, on the nodes there are; None where nothing is wrong with it."""
    kin = desk.card(job).kin
    if kin.flaw is UNKNOWN:
        kin.flaw = _flaw(desk, job)
    return cast("Reason | None", kin.flaw)


def _flaw(desk: Desk, job: Job) -> Reason | None:
    if wrong := faults(job.gang, desk.view):
        return wait(Token.INVALID, "; ".join(wrong), "owner", kind=Kind.CHANGE)
    if never := never_fits(desk, job):
        return never
    if job.gang.unsupported:
        return wait(Token.UNSUPPORTED, job.gang.unsupported, "owner", kind=Kind.CHANGE)
    return None


def _begin(desk: Desk, job: Job) -> Reason | None:
    if job.gang.begin <= desk.now:
        return None
    desk.wake(job.gang.begin)
    return Reason(Token.HELD, detail="it was to start later", wakes=("time", "owner"), retry_at=job.gang.begin)


def _queue(desk: Desk, job: Job) -> Reason | None:
    name = job.gang.queue
    queue = desk.queue(job)
    if queue is None:
        return wait(Token.QUEUE_CLOSED, f"there is no queue {name!r}", f"queue:{name}", kind=Kind.CHANGE)
    if queue.closed:
        return wait(Token.QUEUE_CLOSED, f"queue {name!r} is closed", f"queue:{name}", kind=Kind.ASK)
    return None


def _others(job: Job) -> Reason | None:
    if job.gang.after:
        names = tuple(entry.split(":", 1)[-1] for entry in job.gang.after)
        never = any(entry.startswith("never:") for entry in job.gang.after)
        kind = Kind.CHANGE if never else Kind.WAIT
        wakes = tuple(f"gang:{name}" for name in names)
        return Reason(Token.DEPENDENCY_WAIT, kind, ", ".join(job.gang.after), blockers=names, wakes=wakes)
    if job.life.awaiting:
        return wait(Token.WAITING_FOR_MEMBERS, f"{_members(job.life.awaiting)} not there yet", f"gang:{job.gang.name}")
    return None


def _time(desk: Desk, job: Job) -> Reason | None:
    attempt = job.life.attempt
    if attempt.not_before <= desk.now:
        return None
    desk.wake(attempt.not_before)
    return Reason(Token.BACKING_OFF, detail=attempt.why, wakes=("time",), retry_at=attempt.not_before)


def over_quota(desk: Desk, job: Job) -> Reason | None:
    """A reason when even the gang's minimum would break a limit, or it would be one gang too many."""
    if not desk.rules.limited and job.gang.preemptible:
        return None
    if crowd := desk.shares.crowd(job):
        return _crowded(desk, crowd)
    least = desk.least_amounts(job)
    blocked = desk.shares.blocked(job, least, least)
    if blocked is None:
        return None
    resource, whose = blocked
    return wait(Token.QUOTA_REACHED, f"{resource} of {whose}", f"queue:{job.gang.queue}", "capacity", kind=Kind.ASK)


def _crowded(desk: Desk, crowd: Crowd) -> Reason:
    """No more gangs may run there; the end of one of them would do, unless none may at all."""
    known = desk.crowded.get(crowd.cap.key)
    if known is not None and known[0] is crowd:
        return known[1]
    gangs = desk.by_end(crowd.gangs)[:MOST_NAMED]
    wakes = (*(f"gang:{name}" for name in gangs), f"queue:{crowd.cap.key[0]}")
    kind = Kind.WAIT if gangs else Kind.ASK
    reason = Reason(Token.QUOTA_REACHED, kind, str(crowd), blockers=tuple(gangs), wakes=wakes)
    desk.crowded[crowd.cap.key] = crowd, reason
    return reason


def _members(count: int) -> str:
    return "1 member is" if count == 1 else f"{count} members are"
