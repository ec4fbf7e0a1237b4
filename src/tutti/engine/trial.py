"""Would it help? A change is tried by making it on a copy of the view and running the real decision."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TypeAlias, TypeVar

import msgspec

from tutti.errors import TuttiError

from . import events as ev
from .answers import Answers
from .decide import decide
from .desk import Desk
from .edit import AnyEdit, Edit, edited
from .explain import Explanation, known, told
from .model import NEVER, Data, Job, Seats
from .plan import Plan, Resume, Start
from .policy import Policy
from .twin import world_of
from .view import View

Step: TypeAlias = AnyEdit | ev.AnyEvent
T = TypeVar("T")


class Who(StrEnum):
    """Whose move it is."""

    OWNER = "owner"
    NOBODY = "nobody"
    ADMIN = "admin"


class Proposal(Data, frozen=True):
    """Something that may help; nobody has tried it yet."""

    steps: tuple[Step, ...]
    who: Who
    short: str
    says: str
    at: int = 0
    """When it has happened, if that is later than now."""
    expected: int = NEVER


class Tried:
    """A changed view, and the decision about it."""

    def __init__(self, view: View, plan: Plan, gang: str, at: int) -> None:
        self.view, self.plan, self.at = view, plan, at
        self.gang = gang
        given = [action.seats for action in plan.actions if isinstance(action, Start | Resume) and action.gang == gang]
        self.starts = bool(given)
        self.seats: tuple[Seats, ...] = given[0] if given else ()

    @property
    def job(self) -> Job:
        """The gang, as it is there."""
        return known(self.view, self.gang)

    @property
    def desk(self) -> Desk:
        """The working papers of the decision."""
        assert isinstance(self.plan.answers, Answers)
        return self.plan.answers.desk

    def explained(self) -> Explanation:
        """Why the gang still waits there."""
        return told(self.view, self.at, self.gang, self.plan)


class Trial:
    """Tries proposals out, one decision each, until the budget is spent."""

    def __init__(self, view: View, now: int, policy: Policy, gang: str, budget: int) -> None:
        self.view, self.now, self.policy, self.gang = view, now, policy, gang
        self.left = budget

    def run(self, steps: Sequence[Step], at: int = 0) -> Tried | None:
        """The decision after these steps; None where a step cannot be taken or the budget is spent."""
        if self.left <= 0:
            return None
        self.left -= 1
        at = max(at, self.now)
        try:
            view = after(self.view, steps)
        except TuttiError:
            return None
        if view.job(self.gang) is None:
            return None
        return Tried(view, decide(view, at, self.policy), self.gang, at)

    def largest(self, options: Sequence[T], steps: Callable[[T], Sequence[Step]], at: int = 0) -> T | None:
        """The last of the options that starts the gang, where an earlier one is never harder to meet."""
        if options and self.starts(steps(options[-1]), at):
            return options[-1]
        if len(options) < 2 or not self.starts(steps(options[0]), at):
            return None
        low, high = 0, len(options) - 1
        while high - low > 1 and self.left > 0:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts(steps(options[middle]), at) else (low, middle)
        return options[low]

    def starts(self, steps: Sequence[Step], at: int = 0) -> bool:
        """Whether the gang starts after these steps."""
        tried = self.run(steps, at)
        return tried is not None and tried.starts


def after(view: View, steps: Iterable[Step]) -> View:
    """The view as it would be after these steps. Raises an error for an edit that cannot be made."""
    events: list[ev.Event] = []
    for step in steps:
        if isinstance(step, Edit):
            view, events = edited(_happened(view, events), [step]), []
        else:
            events.append(step)
    return _happened(view, events)


def _happened(view: View, events: list[ev.Event]) -> View:
    if not events:
        return view
    world = world_of(view)
    for event in events:
        world.apply(msgspec.structs.replace(event, at=max(event.at, view.at)))
    return world.view()
