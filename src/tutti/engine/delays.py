"""Does a gang ahead put off the start that was promised? Worked out by leaving it out and deciding again."""

import msgspec

from .edit import Cancel
from .explain import Ahead, Explanation, promise_of
from .model import NEVER
from .policy import Policy
from .trial import Trial
from .view import View

MOST = 3
"""Gangs ahead that are left out one by one; each costs a decision."""


def with_delays(view: View, now: int, policy: Policy, found: Explanation, most: int = MOST) -> Explanation:
    """The same explanation, in which the first gangs ahead that hold nothing up now say how much later they make it."""
    if not found.ahead:
        return found
    trial = Trial(view, now, policy, found.gang, most)
    start = NEVER if found.promise is None else found.promise.start
    ahead = tuple(other if other.holds_up else _looked_at(trial, start, other) for other in found.ahead)
    return msgspec.structs.replace(found, ahead=ahead)


def _looked_at(trial: Trial, start: int, other: Ahead) -> Ahead:
    tried = trial.run((Cancel(other.gang),))
    if tried is None:
        return other
    if tried.starts:
        return msgspec.structs.replace(other, holds_up=True)
    promise = promise_of(tried.job, tried.plan)
    sooner = promise is not None and promise.start < start
    if not sooner or promise is None:
        return other
    return msgspec.structs.replace(other, puts_off=start - promise.start if start < NEVER else NEVER)
