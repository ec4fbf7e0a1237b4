"""What the loop has to say about itself: actions it stopped, decisions that failed, events it could not use."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from tutti.engine.model import Data


class Trouble(StrEnum):
    """What went wrong. Stable words: alerts match on these."""

    VIOLATION = "violation"
    """The checker found that the plan breaks a promise; the action was stopped."""
    CRASHED = "crashed"
    """A decision or a check failed; nothing was done."""
    STALE_ACTION = "stale-action"
    """The gang or a node changed after the decision; the action was skipped."""
    STALE_EVENT = "stale-event"
    """The event does not fit what is known; it changed nothing."""
    NOT_ENTERED = "not-entered"
    """The outcome of an action could not be entered in the world; the action was stopped."""
    REFUSED = "refused"
    """The backend would not begin an action."""
    OVERDUE = "overdue"
    """Something asked of a gang was never answered; it may be asked again."""
    LOST_TOUCH = "lost-touch"
    """The backend could not be listed or listened to; it is tried again."""
    DRIFT = "drift"
    """A full listing differs from what the events had told."""


class Notice(Data, frozen=True):
    """One piece of trouble: what, when, about whom, in a sentence."""

    trouble: Trouble
    at: int
    sentence: str
    gang: str = ""
    key: str = ""
    rule: str = ""
    """The rule that would have been broken, for a violation."""


Tell: TypeAlias = Callable[[Notice], None]


def silent(notice: Notice) -> None:
    """Nobody listens."""
