"""What an action means for the world at the moment it is taken: the event that is entered before the backend answers.

What is entered errs on the side of holding: seats asked for are held from now on, seats being given up are held until
the backend says they are free. So whatever the backend does, and however slowly, nothing is given away twice.
"""

from typing import get_args

from tutti.engine import events as ev
from tutti.engine.model import NEVER, SEATED, Life, State
from tutti.engine.plan import (
    AnyAction,
    Await,
    Evict,
    Fail,
    Grow,
    How,
    Migrate,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)

from .backend import Refused

RESIZES = (Grow, Shrink, Repair, Migrate)
ENDS = (Evict, Restart, Fail)
KINDS = {each: str(each.__struct_config__.tag) for each in get_args(AnyAction)}


def kind(action: AnyAction) -> str:
    """The action's word: 'start', 'evict' ..."""
    return KINDS[type(action)]


def outcome(
    action: AnyAction, life: Life, now: int, decided: int, answer_by: int, up: bool = False
) -> ev.AnyEvent | None:
    """The event to enter when the action is taken; None where it makes no sense for such a gang.

    A change of seats that is not answered by `answer_by` (or by the time the action itself sets) may be asked again. A
    gang that starts may be known to be `up` at once.
    """
    name = action.gang
    match action:
        case Start() | Resume():
            return ev.Starting(now, name, action.seats, decided, up, action.lent)
        case Grow() | Repair() | Migrate() | Shrink():
            by = action.by if isinstance(action, Shrink) and action.by < NEVER else answer_by
            return ev.Asked(now, name, action.seats, by, decided)
        case Reserve():
            return ev.Promised(now, name, action.promise)
        case Await():
            return ev.Pledged(now, name, action.pledge)
        case Evict() | Restart() | Fail():
            return _going(action, life, now)


def _going(action: Evict | Restart | Fail, life: Life, now: int) -> ev.Leaving | ev.Ended | None:
    """A gang with seats holds them until the backend says it is gone; one without can end at once."""
    if life.state in SEATED:
        room_for, by = (action.room_for, action.by) if isinstance(action, Evict) else ("", NEVER)
        return ev.Leaving(now, action.gang, room_for, by)
    if isinstance(action, Fail):
        return ev.Ended(now, action.gang, State.FAILED)
    cancelled = isinstance(action, Evict) and action.how is How.CANCEL
    return ev.Ended(now, action.gang, State.CANCELLED) if cancelled else None


def undone(action: AnyAction, refusal: Refused, life: Life, now: int, later: int) -> ev.AnyEvent | None:
    """The event that takes back what was entered for an action the backend then refused."""
    if isinstance(action, Start | Resume):
        return ev.Refused(now, action.gang, refusal.not_before, refusal.why)
    if isinstance(action, ENDS) and refusal.not_before >= NEVER:
        return ev.Stays(now, action.gang) if life.state is State.DRAINING else None
    if isinstance(action, RESIZES) and life.state in SEATED:
        # Asked to stay as it is: nothing more is held, and it is not asked again before then.
        return ev.Asked(now, action.gang, life.seats, later)
    return None
