"""The loop every world shares: events in, decide, check, actions out.

The step is synchronous and does no input or output, so the simulator calls it directly; the shells of the other worlds
are thin (see `shell.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.check import Violation, check
from tutti.engine.model import NEVER, SECOND, Gang, Job, Life, Listing, Seats, State
from tutti.engine.plan import GIVES_SEATS, AnyAction, Fail, Plan, Reason, Start
from tutti.engine.policy import ALL, Policy, Term
from tutti.engine.view import View
from tutti.engine.world import Touched, World

from .backend import EVERYTHING, Capabilities, Refused
from .estimates import History
from .intake import Intake
from .ledger import Ledger
from .notice import Notice, Tell, Trouble, silent
from .outcome import ENDS, RESIZES, kind, outcome, undone
from .resync import kept_history

Keyed = tuple[str, AnyAction]
Watch = Callable[[ev.Event, Touched], None]

NONE: frozenset[int] = frozenset()
SETTLE = 10 * SECOND
"""News that only refines an estimate is looked at once in so long, together."""
PATIENCE, REST = 64, SECOND // 100
"""After so many looks in a row that changed nothing, there is a rest before the next one: who was asked to leave and is
still there could be gone at any moment, but whoever goes is heard of."""
SOFT = frozenset({ev.Reported, ev.Estimated, ev.Running, ev.TurnTaken, ev.Promised, ev.Pledged})
"""Events that never make a gang start by themselves."""
COMPLETED = frozenset({ev.Submitted, ev.Changed, ev.Refused})
"""Events that say less than is known."""


class Decide(Protocol):
    """The engine's decision, or another one with the same promise."""

    def __call__(self, view: View, now: int, policy: Policy, cache: Cache | None = None) -> Plan:
        """What to do about the view."""


class Check(Protocol):
    """The engine's checker, or another one."""

    def __call__(self, view: View, plan: Plan, policy: Policy, now: int | None = None) -> Sequence[Violation]:
        """What is wrong with the plan."""


class Driver:
    """Keeps the world, asks for decisions when they can matter, and lets only safe actions through.

    `step` never raises because of what an event says, what a decision does or what the checker finds: it tells.
    """

    def __init__(  # noqa: PLR0913 - every part but the policy may be left out
        self,
        policy: Policy,
        world: World | None = None,
        *,
        can: Capabilities = EVERYTHING,
        history: History | None = None,
        ledger: Ledger | None = None,
        decide: Decide | None = None,
        check: Check = check,
        tell: Tell = silent,
        watch: Sequence[Watch] = (),
        epoch: str = "",
        at_once: Callable[[Gang], bool] | None = None,
        keeps_views: bool = True,
    ) -> None:
        """`epoch` begins every key; a daemon that restarts gives a new one, so that no key is used twice.
        `at_once` says of which gangs all members are up as soon as they have seats: nobody need tell that they run.
        Where nobody `keeps_views` or answers of a decision when it is made, decisions cost less."""
        self.policy = policy
        self.world = world or World(policy.order.half_life)
        self.intake = Intake(can, history)
        self.ledger = ledger
        self.counts: Counter[Trouble] = Counter()
        self.plan = Plan(view=-1, at=0)
        """The latest plan, without its answers."""
        self._answered = -1
        self._answers: Mapping[str, Reason] = {}
        self._decide = decide or engine_decide()
        self._check = check
        self._tell = tell
        self._watch = tuple(watch)
        self._epoch = epoch
        self._at_once = at_once
        self._keeps_views = keeps_views
        self._cache = Cache()
        self._wake = 0
        self._looked = 0
        self._fruitless = 0
        """Looks in a row at which nothing had happened and nothing was done."""
        self._again: list[tuple[int, str, AnyAction]] = []
        self._is_one_line = is_one_line(policy)
        if world is not None:
            self._read_world(0)

    @property
    def wake_at(self) -> int:
        """When to call `step` next if nothing happens before."""
        return min([self._wake, *(at for at, _, _ in self._again)]) if self._again else self._wake

    def step(self, events: Iterable[ev.Event], now: int) -> list[Keyed]:
        """Take in what happened and answer with the actions to carry out, in order, each with its key.

        All events of one call are looked at together, by one decision at most.
        """
        due = False
        for event in events:
            if self._take(event, now):
                due = True
        out = self._sent_again(now) if self._again else []
        if due:
            self._fruitless = 0
        if due or now >= self._wake:
            out += self._act(now)
        return out

    def answer(self, name: str) -> Reason | None:
        """Why a gang waits, or None when it does not."""
        return self.answers().get(name)

    def answers(self) -> Mapping[str, Reason]:
        """Why each waiting gang waits, as of now."""
        if self._answered != self.world.version:
            self._answered = self.world.version
            self._answers = self._decide(self.world.view(), self._looked, self.policy, cache=None).answers
        return self._answers

    def refused(self, key: str, action: AnyAction, refusal: Refused, now: int) -> list[Keyed]:
        """The backend would not begin an action: what was entered for it is taken back."""
        self._say(Trouble.REFUSED, now, refusal.why, action.gang, key)
        later = max(refusal.not_before, now + self.policy.repair.back_off)
        slot = self.world.slots.get(action.gang, -1)
        entry = undone(action, refusal, self.world.job_in(slot).life, now, later) if slot >= 0 else None
        if isinstance(action, ENDS) and refusal.not_before < NEVER:
            self._again.append((later, key, action))
        return self._act(now) if entry is not None and self._take(entry, now) else []

    def resync(self, listing: Listing, now: int) -> None:
        """Replace what is known by a full listing. Promises, pledges and estimates it does not know are kept."""
        fresh = World.load(kept_history(listing, self.world), self.policy.order.half_life)
        fresh.version = max(fresh.version, self.world.version) + 1
        if self.world.version and fresh.listing() != self.world.listing():
            self._say(Trouble.DRIFT, now, "the listing differs from what the events had told")
        if self.ledger is not None:
            self.ledger.advance(self.world, now)
        self.world = fresh
        self._cache = Cache()
        self._wake = 0
        self._read_world(now)

    def lost_touch(self, sentence: str, now: int) -> None:
        """The backend could not be listed or listened to."""
        self._say(Trouble.LOST_TOUCH, now, sentence)

    def turn_to(self, policy: Policy) -> None:
        """Go by another policy from the next step on."""
        self.policy = policy
        self._is_one_line = is_one_line(policy)
        self._cache = Cache()
        self._wake = 0

    # -- events

    def _take(self, event: ev.Event, now: int) -> bool:
        """Enter one event from outside; whether it can change what should be done."""
        like: Job | None = None
        if isinstance(event, ev.Ended):
            like = self._learnt(event)
        elif type(event) in COMPLETED:
            event = self._completed(event)
        touched = self._enter(event)
        if touched.note:
            self._say(Trouble.STALE_EVENT, now, touched.note, str(getattr(event, "gang", "")))
            return False
        if like is not None:
            for news in self.intake.better(like.gang, self.world, event.at):
                self._enter(news)
        return self._matters(event, touched, now)

    def _completed(self, event: ev.Event) -> ev.Event:
        """The event with what whoever tells it does not know."""
        if isinstance(event, ev.Submitted):
            return self.intake.submitted(event, self.world)
        if isinstance(event, ev.Changed):
            return self.intake.changed(event, self.world)
        if isinstance(event, ev.Refused):
            return self.intake.refused(event, self.world, self.policy.repair.back_off)
        return event

    def _learnt(self, event: ev.Ended) -> Job | None:
        if not self.intake.ended(event, self.world):
            return None
        return self.world.job_in(self.world.slots[event.gang])

    def _enter(self, event: ev.Event) -> Touched:
        ledger = self.ledger
        touched = self.world.apply(event) if ledger is None else ledger.through(self.world, event)
        for watch in self._watch:
            watch(event, touched)
        return touched

    def _matters(self, event: ev.Event, touched: Touched, now: int) -> bool:
        world = self.world
        if touched.nodes:
            return True
        if not (world.queued or world.watched or world.leaving or world.draining):
            # Nobody waits, and nobody who runs is broken, leaving or of a changeable size.
            return False
        if type(event) in SOFT:
            self._wake = min(self._wake, max(self._looked + SETTLE, now))
            return False
        return not (self._is_one_line and type(event) is ev.Submitted and self._only_joins(event.gang))

    def _only_joins(self, gang: Gang) -> bool:
        """Whether a gang that was just submitted only joins the line: no room for it, and others have the promises."""
        world = self.world
        if world.watched or world.leaving or world.draining:
            return False
        closed = len(world.queued) > 1 if self.policy.order.strict else bool(world.promised)
        if not closed or len(world.promised) < self.policy.reserve.depth:
            return False
        for resource, amount in _needs(gang).items():  # noqa: SIM110 - asked at every submission
            if amount > self._free(resource):
                return True
        return False

    def _free(self, resource: str) -> int:
        """How much is free on all nodes together."""
        row = self.world.resources.get(resource, -1)
        return self.world.late.open(row) if row >= 0 else 0

    def _read_world(self, now: int) -> None:
        if self.ledger is not None:
            self.ledger.open(self.world, max(now, self.world.at))

    # -- decisions

    def _act(self, now: int) -> list[Keyed]:
        self._looked = now
        plan, bad = self._decided(now)
        if plan is None:
            self._cache = Cache()
            self._wake = now + self.policy.repair.back_off
            return []
        self.plan = plan
        self._fruitless = 0 if plan.actions else self._fruitless + 1
        self._wake = max(plan.wake_at, now + (1 if self._fruitless <= PATIENCE else REST))
        return self._carried_out(plan, bad, now) if plan.actions else []

    def _decided(self, now: int) -> tuple[Plan | None, frozenset[int]]:
        """A plan and the positions of actions that must not be carried out; None where deciding failed.

        The view lives no longer than this call, so that the world need not be copied when it next changes.
        """
        view = self.world.view() if self._keeps_views else self.world.glance()
        doing = "decide"
        try:
            made = self._decide(view, now, self.policy, cache=self._cache)
            if self.ledger is not None:
                self.ledger.answered(self.world, made.outline, now)
            # Answers hold on to the view they speak of; they are worked out again when somebody asks.
            made.drop_answers()
            if not made.actions:
                return made, NONE
            doing = "check"
            found = self._check(view, made, self.policy, now)
        except Exception as failure:  # noqa: BLE001 - whatever it is, running gangs must not suffer from it
            self._say(Trouble.CRASHED, now, f"{doing} failed: {type(failure).__name__}: {failure}")
            return None, NONE
        for violation in found:
            self._say(Trouble.VIOLATION, now, violation.sentence, violation.gang, rule=violation.rule.value)
        return made, frozenset([violation.action for violation in found if violation.action >= 0]) if found else NONE

    def carry_out(self, plan: Plan, now: int) -> list[Keyed]:
        """Carry out a plan made earlier, such as one a person has approved; what has gone stale is skipped."""
        view = self.world.view()
        found = self._check(view, plan.on(view.number), self.policy, now)
        del view
        for violation in found:
            self._say(Trouble.VIOLATION, now, violation.sentence, violation.gang, rule=violation.rule.value)
        return self._carried_out(plan, frozenset(each.action for each in found if each.action >= 0), now)

    def follow(self, event: ev.Event, action: AnyAction, now: int) -> bool:
        """Take in what happened and do at once what was decided for this very case; whether it was possible.

        Everything else that the event may change is looked at by the next step.
        """
        self._take(event, now)
        self._wake = now
        return bool(self.carry_out(Plan(self.world.version, now, (action,)).without_answers(), now))

    def _carried_out(self, plan: Plan, bad: frozenset[int], now: int) -> list[Keyed]:
        out: list[Keyed] = []
        stale = self._stale(plan, now) if plan.view != self.world.version else set()
        dropped = stale | bad
        for index, action in enumerate(plan.actions):
            if dropped and (index in dropped or not dropped.isdisjoint(action.after)):
                dropped.add(index)
                continue
            key = f"{self._epoch}{plan.view}/{action.gang}/{kind(action)}"
            if self._begun(action, key, plan.view, now):
                out.append((key, action))
            else:
                dropped.add(index)
        return out

    def _begun(self, action: AnyAction, key: str, decided: int, now: int) -> bool:
        """Enter an action's outcome; whether the action is to be sent."""
        slot = self.world.slots.get(action.gang, -1)
        if slot < 0:
            self._say(Trouble.NOT_ENTERED, now, f"no gang named {action.gang!r}", action.gang, key)
            return False
        job = self.world.job_in(slot)
        life = job.life
        if life.target:
            self._note_overdue(life, action, key, now)
        up = type(action) is Start and self._at_once is not None and self._at_once(job.gang)
        entry = outcome(action, life, now, decided, now + self.policy.repair.hold_up_to, up)
        if isinstance(entry, ev.Ended):
            self.intake.ended(entry, self.world)
        note = self._enter(entry).note if entry is not None else f"{kind(action)} means nothing to a gang that waits"
        if note:
            self._say(Trouble.NOT_ENTERED, now, note, action.gang, key)
        return not note

    def _note_overdue(self, life: Life, action: AnyAction, key: str, now: int) -> None:
        if life.target_by <= now and life.target != life.seats and isinstance(action, RESIZES):
            self._say(Trouble.OVERDUE, now, "it was asked to change its seats and never answered", action.gang, key)

    def _stale(self, plan: Plan, now: int) -> set[int]:
        """Positions of actions whose gang, or a node they use, has changed since the plan was made."""
        found = {i for i, action in enumerate(plan.actions) if self._is_stale(action, action.expects or plan.view)}
        for index in sorted(found):
            action = plan.actions[index]
            self._say(Trouble.STALE_ACTION, now, "the gang or a node has changed since", action.gang)
        return found

    def _is_stale(self, action: AnyAction, expects: int) -> bool:
        slot = self.world.slots.get(action.gang, -1)
        if slot < 0 or self.world.job_in(slot).life.version > expects:
            return True
        seats: tuple[Seats, ...] = action.seats if isinstance(action, GIVES_SEATS) else ()
        return any(self.world.versions[node] > expects for held in seats for node in held.nodes)

    def _sent_again(self, now: int) -> list[Keyed]:
        """Actions that end a gang and were refused: asked for again until the gang is gone."""
        ready = [(key, action) for at, key, action in self._again if at <= now]
        self._again = [entry for entry in self._again if entry[0] > now]
        return [(key, action) for key, action in ready if self._still_leaving(action)]

    def _still_leaving(self, action: AnyAction) -> bool:
        slot = self.world.slots.get(action.gang, -1)
        if slot < 0:
            return False
        waits_to_fail = isinstance(action, Fail) and slot in self.world.queued
        return waits_to_fail or self.world.job_in(slot).life.state is State.DRAINING

    def _say(self, trouble: Trouble, now: int, sentence: str, gang: str = "", key: str = "", rule: str = "") -> None:
        self.counts[trouble] += 1
        self._tell(Notice(trouble, now, sentence, gang, key, rule))


def _needs(gang: Gang) -> dict[str, int]:
    """What the gang asks at least, as far as it has no choice."""
    need: dict[str, int] = {}
    for role in gang.roles:
        if len(role.shapes) == 1:
            shape = role.shapes[0]
            least = shape.min or role.min
            for resource, amount in shape.ask.items():
                need[resource] = need.get(resource, 0) + least * amount
    return need


def is_one_line(policy: Policy) -> bool:
    """Whether gangs stand in one line by age and nothing is ever taken back: the last one changes nothing."""
    takes = policy.reclaim
    return (
        policy.order.terms == (Term.AGE,)
        and not policy.order.fair_share
        and policy.reserve.depth != ALL
        and not (takes.surplus or takes.priority or takes.quota)
        and not (policy.grow.on or policy.rotate.on or policy.place.migrate)
        and not policy.reserve.max_wait
    )


def engine_decide() -> Decide:
    """The engine's own decision."""
    from tutti.engine.decide import decide  # noqa: PLC0415 - a simulator with a decision of its own need not load it

    return decide
