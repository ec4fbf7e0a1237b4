"""What to do about a view: actions, and an answer for each gang that was looked at."""

from abc import abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from .model import NEVER, Data, Kind, Pledge, Promise, Seats, Token


class Reason(Data, frozen=True):
    """Why a gang waits: a stable token, the numbers behind it, and what would wake it."""

    token: Token
    kind: Kind = Kind.WAIT
    detail: str = ""
    """What exactly: the resource, level, queue, field or gang the token is about."""
    asked: int = 0
    placeable: int = 0
    """Members that could be placed right now."""
    counts: tuple[tuple[str, int], ...] = ()
    """Nodes (or domains) by what rules them out, most common first."""
    blockers: tuple[str, ...] = ()
    """Gangs that hold or were promised what is missing, first the one that ends first."""
    wakes: tuple[str, ...] = ()
    """What would change the answer: 'capacity', 'queue:x', 'gang:y', 'node:z', 'time', 'owner'."""
    retry_at: int = NEVER


class How(StrEnum):
    """How a gang leaves its seats."""

    PARK = "park"
    REQUEUE = "requeue"
    CANCEL = "cancel"


class Action(Data, frozen=True, tag_field="do"):
    """Base of all actions on a gang.

    `expects` is the number of the view it rests on: it is void if its gang or a node it uses has changed since.
    `after` are positions in the plan of actions that must have been carried out first.
    `cost` is goodput given up, in member-microseconds.
    """

    gang: str
    expects: int = 0
    after: tuple[int, ...] = ()
    cost: int = 0


class Start(Action, frozen=True, tag="start"):
    """Give the whole gang these seats, one entry for each role."""

    seats: tuple[Seats, ...] = ()
    lent: int = 0
    """From when on the room may be asked back, where it is kept for another."""


class Resume(Action, frozen=True, tag="resume"):
    """Bring a parked gang back on these seats."""

    seats: tuple[Seats, ...] = ()
    lent: int = 0
    """From when on the room may be asked back, where it is kept for another."""


class Grow(Action, frozen=True, tag="grow"):
    """The gang's seats after growing; old ones keep their ranks."""

    seats: tuple[Seats, ...] = ()


class Shrink(Action, frozen=True, tag="shrink"):
    """The gang's seats after shrinking; the room is for `room_for`, or for anybody."""

    seats: tuple[Seats, ...] = ()
    room_for: str = ""
    by: int = NEVER


class Repair(Action, frozen=True, tag="repair"):
    """The gang's seats with every lost member in a new place; survivors stay."""

    seats: tuple[Seats, ...] = ()


class Restart(Action, frozen=True, tag="restart"):
    """End what is left of the gang and put it back in the queue, keeping its age."""

    why: str = ""


class Migrate(Action, frozen=True, tag="migrate"):
    """Move the running gang to these seats, so that something else fits."""

    seats: tuple[Seats, ...] = ()
    room_for: str = ""


class Evict(Action, frozen=True, tag="evict"):
    """Take the whole gang off its seats."""

    how: How = How.REQUEUE
    room_for: str = ""
    by: int = NEVER
    why: str = ""
    """Why this one: what it loses, and what the next one would have lost."""


class Reserve(Action, frozen=True, tag="reserve"):
    """Give (or move, or with None withdraw) a promise."""

    promise: Promise | None = None
    why: str = ""


class Await(Action, frozen=True, tag="await"):
    """Keep what is being freed for the gang, or (None) stop keeping it."""

    pledge: Pledge | None = None


class Fail(Action, frozen=True, tag="fail"):
    """The gang cannot go on."""

    why: str = ""


AnyAction: TypeAlias = Start | Resume | Grow | Shrink | Repair | Restart | Migrate | Evict | Reserve | Await | Fail
GIVES_SEATS = (Start, Resume, Grow, Shrink, Repair, Migrate)


class Outlined(Mapping[str, Reason]):
    """Reasons that are worked out when somebody asks, and told in outline for less."""

    __slots__ = ()

    @abstractmethod
    def outline(self, name: str) -> Reason | None:
        """Why a gang waits, without finding out which room is short; None where it does not wait."""


class Plan:
    """What to do about one view. Any prefix of the actions is safe to carry out.

    `answers` says for every gang that waits why it does; `wake_at` is when time alone changes the answer; `spent` names
    the gangs whose search was cut short by the budget. A plan whose answers were left out `is_answered` no longer.
    """

    __slots__ = ("actions", "answers", "at", "is_answered", "spent", "view", "wake_at")

    def __init__(
        self,
        view: int,
        at: int,
        actions: tuple[AnyAction, ...] = (),
        answers: Mapping[str, Reason] | None = None,
        wake_at: int = NEVER,
        spent: tuple[str, ...] = (),
    ) -> None:
        self.view = view
        self.at = at
        self.actions = actions
        self.answers: Mapping[str, Reason] = {} if answers is None else answers
        self.is_answered = True
        self.wake_at = wake_at
        self.spent = spent

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        mine, theirs = (self.view, self.at, self.actions), (other.view, other.at, other.actions)
        ends, others = (self.wake_at, self.spent), (other.wake_at, other.spent)
        return mine == theirs and ends == others and dict(self.answers) == dict(other.answers)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Plan(view={self.view}, at={self.at}, actions={self.actions!r}, answers={dict(self.answers)!r})"

    def outline(self, name: str) -> Reason | None:
        """Why a gang waits, in outline: where room is short, not which; None where it does not wait."""
        answers = self.answers
        return answers.outline(name) if isinstance(answers, Outlined) else answers.get(name)

    def on(self, view: int) -> "Plan":
        """The same plan, taken to be about another view."""
        same = Plan(view, self.at, self.actions, self.answers, self.wake_at, self.spent)
        same.is_answered = self.is_answered
        return same

    def drop_answers(self) -> None:
        """Let go of the answers, which may hold on to the view they speak of."""
        self.answers = {}
        self.is_answered = False

    def without_answers(self) -> "Plan":
        """The plan alone; answers may hold on to the view they speak of."""
        bare = Plan(self.view, self.at, self.actions, None, self.wake_at, self.spent)
        bare.drop_answers()
        return bare
