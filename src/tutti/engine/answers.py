"""Why each gang waits, worked out when somebody asks: most plans are carried out without anybody asking."""

from collections.abc import Callable, Iterator, Mapping

from .desk import Desk, wait
from .gate import gate, over_quota
from .model import NEVER, Job, Token
from .plan import AnyAction, Outlined, Plan, Reason, Start
from .policy import Policy
from .verdict import MISSING, Verdict
from .view import View
from .whole import shapes_of

Deliberate = Callable[[View, int, Policy], Plan]
"""A decision that looks at everybody."""


def glanced(
    view: View, now: int, policy: Policy, actions: tuple[AnyAction, ...], wake_at: int, deliberate: Deliberate
) -> Plan:
    """A plan that was made at a glance; whoever asks for its answers makes it be looked at closely."""
    return Plan(view.number, now, actions, Deferred(view, now, policy, actions, deliberate), wake_at)


class Answers(Outlined):
    """A reason for every gang that waits and is not started by the plan. It speaks of the plan's own view."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[str, Reason] = dict(desk.noted)
        self._verdicts: dict[object, Verdict] = {}
        self._slots: dict[str, int] | None = None

    @property
    def desk(self) -> Desk:
        """The working papers the plan was made with, as they were at its end."""
        return self._desk

    def __getitem__(self, name: str) -> Reason:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._find(self._desk.view.held(self._waiting()[name]))
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiting())

    def __len__(self) -> int:
        return len(self._waiting())

    def __repr__(self) -> str:
        return repr(dict(self))

    def _waiting(self) -> dict[str, int]:
        if self._slots is None:
            named = ((self._desk.view.held(slot).gang.name, slot) for slot in self._desk.view.queued)
            self._slots = {name: slot for name, slot in named if name not in self._desk.started}
        return self._slots

    def outline(self, name: str) -> Reason | None:
        """Why a gang waits, without finding out which room is short; None where it does not wait."""
        slot = self._waiting().get(name)
        if slot is None:
            return None
        return self._known.get(name) or self._shut(self._desk.view.held(slot)) or MISSING[Token.NO_CAPACITY]

    def _find(self, job: Job) -> Reason:
        return self._shut(job) or self._cut_short(job) or self._spoken_for(job, self._verdict(job).reason(job))

    def _spoken_for(self, job: Job, found: Reason) -> Reason:
        """Where there is room, and yet it is promised: whose turn it would take, if that is it."""
        desk = self._desk
        if found.token is not Token.RESERVED_AHEAD or not desk.is_bounded(job):
            return found
        taken = desk.spoken_for.taken(job, desk.now, min(desk.now + desk.length(job), NEVER))
        if taken is None or not taken.by:
            return found
        wakes = (*(f"gang:{name}" for name in taken.by), f"queue:{taken.cap.key[0]}", "time")
        return wait(Token.RESERVED_AHEAD, str(taken), *wakes, blockers=taken.by)

    def _shut(self, job: Job) -> Reason | None:
        """What keeps the gang waiting whatever is free."""
        desk = self._desk
        return gate(desk, job) or over_quota(desk, job) or self._behind(job)

    def _behind(self, job: Job) -> Reason | None:
        """A reason when somebody ahead in a strict queue cannot start."""
        ahead = self._desk.strict_queues.get("") or self._desk.strict_queues.get(job.gang.queue)
        if ahead is None or ahead == job.gang.name:
            return None
        return wait(Token.BEHIND_OTHERS, ahead, f"gang:{ahead}", blockers=(ahead,))

    def _cut_short(self, job: Job) -> Reason | None:
        """A reason when each role has room by itself, and the search for all of them together was given up."""
        if job.gang.name not in self._desk.spent or len(job.gang.roles) == 1 or not self._verdict(job).fits_singly(job):
            return None
        limit = f"effort.search_steps = {self._desk.policy.effort.search_steps}"
        return wait(Token.BUDGET_SPENT, limit, "capacity", "owner", "policy")

    def _verdict(self, job: Job) -> Verdict:
        """Gangs that ask alike are judged together."""
        alike = self._desk.card(job).kin.alike
        verdict = self._verdicts.get(alike)
        if verdict is None:
            verdict = self._verdicts[alike] = Verdict(self._desk, next(iter(shapes_of(self._desk, job))))
        return verdict


class Deferred(Outlined):
    """Answers of a plan that was made without looking at anybody closely. Whoever asks makes it be looked at."""

    __slots__ = ("_actions", "_deliberate", "_found", "_now", "_policy", "_view", "_waiting")

    def __init__(
        self, view: View, now: int, policy: Policy, actions: tuple[AnyAction, ...], deliberate: Deliberate
    ) -> None:
        self._view, self._now, self._policy = view, now, policy
        self._actions = actions
        self._deliberate = deliberate
        self._found: Mapping[str, Reason] | None = None
        self._waiting: set[str] | None = None

    @property
    def _answers(self) -> Mapping[str, Reason]:
        if self._found is None:
            self._found = self._deliberate(self._view, self._now, self._policy).answers
        return self._found

    def __getitem__(self, name: str) -> Reason:
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    def outline(self, name: str) -> Reason | None:
        """Why a gang waits, without finding out which room is short; None where it does not wait."""
        if self._waiting is None:
            started = {action.gang for action in self._actions if isinstance(action, Start)}
            self._waiting = {self._view.held(slot).gang.name for slot in self._view.queued} - started
        return MISSING[Token.NO_CAPACITY] if name in self._waiting else None
