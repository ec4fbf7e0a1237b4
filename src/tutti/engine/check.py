"""Is this plan safe to carry out? Asked in production before every plan, and answered without the planner's help.

The actions are carried out one by one on plain dictionaries that hold only the nodes the plan touches. Every action is
judged against what the actions before it left behind, so a plan without a violation is safe in any prefix.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from .check_bounds import Limits
from .check_room import GOING, HELD, PLEDGE, PROMISE, SEAT, Claims, Room
from .check_seats import Neighbours, apart, domain_of, malformed, moved_wrongly, newcomers, wrong_sizes
from .estimate import run_time, sizes
from .model import (
    DAY,
    NEVER,
    QUEUED,
    SEATED,
    SECOND,
    Coupling,
    Data,
    Gang,
    Job,
    NodeState,
    Pledge,
    Promise,
    Role,
    Seats,
    State,
    Window,
)
from .plan import (
    AnyAction,
    Await,
    Evict,
    Fail,
    Grow,
    How,
    Migrate,
    Plan,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)
from .policy import Policy
from .view import View

AHEAD = SECOND
"""So much earlier than the grace before a start whoever is in its way may be asked to leave: nobody wakes on time."""


class Rule(StrEnum):
    """What a plan must keep; the numbers are those of the promises in the design."""

    WHOLE = "1 all or nothing"
    ROOM = "2 nothing is promised twice"
    SIZE = "3 never below the minimum nor at an illegal size"
    PROMISE = "4 a promise is not delayed"
    QUOTA = "5 limits and gates of a queue"
    ANSWER = "6 every waiting gang has a reason"
    ONCE = "8 nothing runs twice"
    RECLAIM = "9 nothing is taken without cause"
    FIT = "seats meet the gang's conditions"
    ORDER = "an action follows what it rests on"


class Violation(Data, frozen=True):
    """One rule that a plan breaks, for which gang, and by which action (-1: by the plan as a whole)."""

    rule: Rule
    gang: str
    sentence: str
    action: int = -1


Found = Iterator[tuple[Rule, str]]


def check(view: View, plan: Plan, policy: Policy, now: int | None = None) -> list[Violation]:
    """Everything that is wrong with a plan, in the order of its actions; empty when it may be carried out."""
    if not plan.actions and (not plan.is_answered or not (view.queued or plan.answers)):
        return []
    return list(_Audit(view, plan, policy, plan.at if now is None else now).run())


class _Audit:
    """The cluster as the actions are carried out on it, and the judgement of each."""

    def __init__(self, view: View, plan: Plan, policy: Policy, now: int) -> None:
        self.view, self.plan, self.policy, self.now = view, plan, policy, now
        self.room = Room(view, now, policy)
        self.beside = Neighbours(view, policy, now)
        self.limits = Limits(view, now, self.room.by_itself)
        self.seats = {view.held(slot).gang.name: view.held(slot).life.seats for slot in view.seated}
        waiting = [view.held(slot) for slot in view.queued]
        self.promises = {job.gang.name: job.life.promise for job in waiting if job.life.promise is not None}
        self.pledges = {
            job.gang.name: pledge for job in waiting if (pledge := job.life.pledge) and pledge.expires > now
        }
        self.given: dict[str, tuple[Seats, ...]] = {}
        """Seats of the promises that this plan gives. Those of older ones are chosen anew in every plan."""
        self.told: dict[str, Promise] = {}
        """The promises that this plan gives."""
        self.started: set[str] = set()
        self.ended: set[str] = set()
        self.added: Counter[tuple[str, str]] = Counter()
        """Amounts this plan has added, by domain and by resource."""
        self._look_ahead()

    def run(self) -> Iterator[Violation]:
        for index, action in enumerate(self.plan.actions):
            for rule, sentence in self._judge(index, action):
                yield Violation(rule, action.gang, sentence, index)
        for gang, sentence in self._delayed():
            yield Violation(Rule.PROMISE, gang, sentence)
        for gang, sentence in _answers(self.view, self.plan, self.started, self.ended):
            yield Violation(Rule.ANSWER, gang, sentence)

    def _look_ahead(self) -> None:
        """Note who is told to leave, and for whom room is kept or used."""
        self.expected: set[str] = set(self.pledges)
        for action in self.plan.actions:
            if isinstance(action, Evict | Shrink):
                self.room.leaving[action.gang] = action.by
            elif isinstance(action, Migrate) and action.room_for:
                self.room.leaving[action.gang] = self.now + self.policy.reclaim.grace
            if isinstance(action, Start | Resume) or (isinstance(action, Await) and action.pledge):
                self.expected.add(action.gang)
        for name, pledge in self.pledges.items():
            self.room.write(PLEDGE, self.room.pledged(name, pledge))

    # -- one action at a time

    def _judge(self, index: int, action: AnyAction) -> Found:
        if any(not 0 <= before < index for before in action.after):
            yield Rule.ORDER, "it must follow an action that does not come before it"
        job = self.room.job(action.gang)
        if job is None:
            yield Rule.ONCE, "there is no such gang"
            return
        match action:
            case Start() | Resume():
                yield from self._start(job, action)
            case Grow() | Shrink() | Repair() | Migrate():
                yield from self._resize(job, action)
            case Evict():
                yield from self._evict(job, action)
            case Reserve():
                yield from self._reserve(job, action)
            case Await():
                yield from self._await(job, action)
            case Restart() | Fail():
                yield from self._end(job, action)

    def _start(self, job: Job, action: Start | Resume) -> Found:
        gang = job.gang
        if gang.name in self.started or not self._waits(job):
            yield Rule.ONCE, "it is started although it does not wait"
            return
        if isinstance(action, Resume) and job.life.state is not State.PARKED:
            yield Rule.ONCE, "it is brought back although it was not parked"
        for why in self._shut(job):
            yield Rule.QUOTA, why
        self.started.add(gang.name)
        self._forget(gang.name)
        if problem := malformed(self.view, gang, action.seats):
            yield Rule.WHOLE, problem
            return
        yield from self._whole(job, action.seats)
        length = run_time(job, self.view.queue_of(job), self.policy.reserve.quantile, action.seats)
        end = min(self.now + length, NEVER)
        if action.lent:
            yield from self._lent(job, action.lent)
        yield from self._settle(job, action.seats, min(end, action.lent or end))
        yield from ((Rule.QUOTA, sentence) for sentence in self.limits.start(gang, action.seats, end))

    def _lent(self, job: Job, until: int) -> Found:
        """Lent room is for who can give it back, and not before it may be interrupted."""
        if not job.gang.parkable or not job.gang.preemptible:
            yield Rule.RECLAIM, "it is lent room that it could not give back"
        if until < self.now + self._least_run(job) + self.policy.reclaim.grace:
            yield Rule.RECLAIM, "the room that it is lent would be asked back too soon"

    def _least_run(self, job: Job) -> int:
        queue = self.view.queue_of(job)
        return max(job.gang.min_run, queue.min_run if queue is not None else 0, self.policy.reclaim.min_run)

    def _shut(self, job: Job) -> Iterator[str]:
        """Why the gang may not start now, wherever it is put."""
        gang, life, queue = job.gang, job.life, self.view.queue_of(job)
        if life.state is State.HELD:
            yield "it is held"
        if gang.begin > self.now:
            yield "it is not to start yet"
        if gang.unsupported:
            yield f"{gang.unsupported} cannot be delivered"
        if queue is None or queue.closed:
            yield f"its queue {gang.queue!r} is closed or missing"
        if gang.after:
            yield "it must wait for other gangs"
        if life.awaiting > 0:
            yield "some of its members do not exist yet"
        if life.attempt.not_before > self.now:
            yield "it is backing off"

    def _resize(self, job: Job, action: Grow | Shrink | Repair | Migrate) -> Found:
        name = job.gang.name
        if not self._sits(job):
            yield Rule.ONCE, "its seats change although it has none"
            return
        if problem := malformed(self.view, job.gang, action.seats):
            yield Rule.WHOLE, problem
            return
        before = self.seats[name]
        for sentence in moved_wrongly(job, action, before):
            yield Rule.FIT, sentence
        yield from self._whole(job, action.seats)
        end = self.room.end(job)
        yield from self._settle(job, action.seats, end, before)
        if isinstance(action, Grow):
            yield from ((Rule.QUOTA, sentence) for sentence in self.limits.grow(job.gang, action.seats))
        if isinstance(action, Shrink | Migrate):
            yield from self._for_somebody(name, action.room_for)
            by = action.by if isinstance(action, Shrink) else self.now + self.policy.reclaim.grace
            until = max(min(end, by), self.now + 1)
            given_up = newcomers(before, action.seats)
            self.room.write(GOING, self.room.spread(name, given_up, self.now, until))

    def _evict(self, job: Job, action: Evict) -> Found:
        name = job.gang.name
        if not self._sits(job):
            yield Rule.ONCE, "it is told to leave although it has no seats"
            return
        self.ended.add(name)
        until = max(min(self.room.end(job), action.by), self.now + 1)
        self.room.write(SEAT, self.room.spread(name, self.seats[name], self.now, until))
        if action.how is How.PARK and not job.gang.parkable:
            yield Rule.RECLAIM, "it cannot be parked"
        gives_back = self._gives_back(job, action)
        if not gives_back:
            yield from self._for_somebody(name, action.room_for)
        if not gives_back and not self._on_bad_nodes(job) and not self._turn_is_over(job, action):
            yield from self._spared(job)

    def _gives_back(self, job: Job, action: Evict) -> bool:
        """Whether its room was lent to it until now, and is needed by one who was promised a start and has it soon.

        Where that one will sit is known if the plan says so; seats that were told before are chosen anew.
        """
        told, name = self.told.get(action.room_for), job.gang.name
        promise = told or self.promises.get(action.room_for)
        if not job.life.lent or not job.gang.preemptible or promise is None or name == action.room_for:
            return False
        nodes = {node for held in told.seats for node in held.nodes} if told else None
        has = (*self.seats[name], *job.life.target)
        touches = nodes is None or any(node in nodes for held in has for node in held.nodes)
        soon = self.now + max(self.policy.reclaim.grace, 1) + AHEAD
        return touches and max(promise.start, job.life.lent) <= soon

    def _spared(self, job: Job) -> Found:
        """A gang is left alone if it says so, in its minimum run time, and beyond its budget of interruptions."""
        reclaim = self.policy.reclaim
        if not job.gang.preemptible:
            yield Rule.RECLAIM, "it may not be interrupted"
        if job.life.started + self._least_run(job) > self.now:
            yield Rule.RECLAIM, "it is taken inside its minimum run time"
        budget = job.gang.interruptions_per_day or reclaim.interruptions_per_day
        if sum(at > self.now - DAY for at in job.life.interruptions) >= budget:
            yield Rule.RECLAIM, f"it was already interrupted {budget} times within a day"

    def _turn_is_over(self, job: Job, action: Evict) -> bool:
        """Whether its queue takes turns, and it makes room for another of the queue after its own."""
        queue, other = self.view.queue_of(job), self.room.job(action.room_for)
        if queue is None or not queue.slice or other is None or other.gang.queue != queue.name:
            return False
        least = max(job.gang.min_run, queue.min_run, queue.slice)
        return action.how is How.PARK and job.life.turn + least <= self.now

    def _on_bad_nodes(self, job: Job) -> bool:
        """Whether it cannot stay anyway: members are lost, or a node under it is being emptied."""
        nodes = [self.view.nodes[node] for held in job.life.seats for node in held.nodes]
        return bool(job.life.lost) or any(node is None or node.state is not NodeState.READY for node in nodes)

    def _for_somebody(self, victim: str, room_for: str) -> Found:
        if room_for and (room_for == victim or room_for not in self.expected):
            yield Rule.RECLAIM, f"it makes room for {room_for!r}, for which nothing is kept"

    def _reserve(self, job: Job, action: Reserve) -> Found:
        name, new = job.gang.name, action.promise
        old = self.promises.pop(name, None)
        if name in self.given:
            self.room.erase(PROMISE, name, self.given.pop(name))
        if name in self.started or not self._waits(job):
            yield Rule.PROMISE, "it is promised a start although it does not wait"
            return
        if old is not None and (new is None or new.start > old.start) and not action.why:
            yield Rule.PROMISE, "its promise is moved later or withdrawn, and what breaks it is not named"
        if new is None:
            return
        if problem := malformed(self.view, job.gang, new.seats):
            yield Rule.WHOLE, problem
            return
        self.given[name], self.told[name] = new.seats, new
        claims = self.room.promised(name, new)
        self.room.write(PROMISE, claims)
        if new.start < NEVER:
            yield from self._promise(job, new, claims)

    def _promise(self, job: Job, promise: Promise, claims: Claims) -> Found:
        """A promise with a time is for the whole gang, and there is room for it then."""
        if promise.start < self.now or promise.end <= promise.start:
            yield Rule.PROMISE, "its promise does not lie ahead"
        yield from self._whole(job, promise.seats)
        yield from self._closed(job, promise.seats, promise.start, promise.end)
        yield from self._fits(claims)

    def _await(self, job: Job, action: Await) -> Found:
        name, new = job.gang.name, action.pledge
        old = self.pledges.pop(name, None)
        if old is not None:
            self.room.erase(PLEDGE, name, old.seats)
        if new is None:
            return
        if name in self.started or not self._waits(job):
            yield Rule.ONCE, "room is kept for it although it does not wait"
            return
        if problem := malformed(self.view, job.gang, new.seats):
            yield Rule.WHOLE, problem
            return
        yield from self._pledge(job, new)

    def _pledge(self, job: Job, pledge: Pledge) -> Found:
        """A pledge is for the whole gang, and whoever still holds it was told to leave."""
        for victim in pledge.victims:
            leaving = self.room.job(victim)
            asked = leaving is not None and (leaving.life.state is State.DRAINING or leaving.life.target)
            if victim not in self.room.leaving and not asked:
                yield Rule.RECLAIM, f"it waits for {victim!r}, which was not told to leave"
        yield from self._whole(job, pledge.seats)
        self.pledges[job.gang.name] = pledge
        claims = self.room.pledged(job.gang.name, pledge)
        self.room.write(PLEDGE, claims)
        yield from self._fits(claims)

    def _end(self, job: Job, action: Restart | Fail) -> Found:
        if not self._sits(job) and (isinstance(action, Restart) or not self._waits(job)):
            yield Rule.ONCE, "it is ended although it does not run"
        self.ended.add(job.gang.name)

    def _waits(self, job: Job) -> bool:
        return job.life.state in QUEUED and job.gang.name not in self.ended

    def _sits(self, job: Job) -> bool:
        return job.life.state in SEATED and job.gang.name not in self.ended

    # -- seats given to a gang

    def _settle(self, job: Job, seats: tuple[Seats, ...], end: int, before: tuple[Seats, ...] = ()) -> Found:
        """Give the gang its seats and say what is wrong with those that are new."""
        name, fresh = job.gang.name, newcomers(seats, before)
        for sentence in self.beside.faults(job, seats, fresh):
            yield Rule.FIT, sentence
        yield from self._closed(job, fresh, self.now, end)
        yield from self._domain_room(job.gang, seats, before)
        self.room.erase(SEAT, name, before)
        self.room.erase(GOING, name, job.life.target)
        self.seats[name] = seats
        self.beside.sit(job.gang, seats)
        claims = self.room.spread(name, seats, self.now, end)
        self.room.write(SEAT, claims)
        new = {node for held in fresh for node in held.nodes}
        yield from self._fits({node: claim for node, claim in claims.items() if node in new})

    def _forget(self, gang: str) -> None:
        """What was promised and pledged to a gang that starts is used up."""
        self.promises.pop(gang, None)
        self.room.erase(PROMISE, gang, self.given.pop(gang, ()))
        if (pledge := self.pledges.pop(gang, None)) is not None:
            self.room.erase(PLEDGE, gang, pledge.seats)

    def _whole(self, job: Job, seats: tuple[Seats, ...]) -> Found:
        for sentence in wrong_sizes(job, seats):
            yield Rule.SIZE, sentence
        for sentence in apart(self.view, job.gang, seats):
            yield Rule.FIT, sentence

    def _fits(self, claims: Claims) -> Found:
        """Nothing is given away twice; where only promises of others are in the way, it is they who are wronged."""
        for node, claim in claims.items():
            if short := self.room.short(node, claim, (*HELD, PROMISE, PLEDGE)):
                there = self.view.nodes[node]
                rule = Rule.ROOM if self.room.short(node, claim, HELD) else Rule.PROMISE
                yield rule, f"node {there.name if there else node!r} would have too little {short}"

    def _closed(self, job: Job, seats: tuple[Seats, ...], begin: int, end: int) -> Found:
        """No node is in maintenance, or reserved for somebody else, while the gang is expected to run."""
        if not self.view.windows:
            return
        names = {there.name for held in seats for node in held.nodes if (there := self.view.nodes[node])}
        for window in self.view.windows.values():
            overlaps = window.start < end and begin < window.end
            if overlaps and not names.isdisjoint(window.nodes) and not _allows(window, job.gang):
                yield Rule.PROMISE, f"it would run into {window.name!r}"

    def _domain_room(self, gang: Gang, seats: tuple[Seats, ...], before: tuple[Seats, ...]) -> Found:
        for level, asks in gang.domain_ask.items():
            held = {domain_of(self.view, node, level) for s in before for node in s.nodes}
            for domain in {domain_of(self.view, node, level) for s in seats for node in s.nodes} - held:
                left = self._domain_free(domain)
                for resource, amount in asks.items():
                    self.added[f"domain:{domain}", resource] += amount
                    if self.added[f"domain:{domain}", resource] > left.get(resource, 0):
                        yield Rule.ROOM, f"a {level} would have too little {resource}"

    def _domain_free(self, domain: object) -> dict[str, int]:
        for at, known in self.view.domains.items():
            if (known.pool, *known.path) == domain:
                return self.view.domain_free[at]
        return {}

    # -- promises given before

    def _delayed(self) -> Iterator[tuple[str, str]]:
        """Gangs whose promise could be kept without what this plan starts, and cannot be kept with it.

        Whoever has room being freed for it waits for that instead.
        """
        for name, promise in {**self.promises, **self.told}.items():
            job = self.room.job(name)
            late = self.limits.delays(job.gang, promise) if job is not None and self._waits(job) else ""
            if late and promise.start < NEVER and name not in self.started:
                yield name, f"{late} when it was promised a start"
        for name, promise in self.promises.items():
            job = self.room.job(name)
            if promise.start >= NEVER or job is None or not self._waits(job) or name in self.pledges:
                continue
            claims = self.room.promised(name, promise)
            if claims and not any(self.room.short(node, claim, HELD) for node, claim in claims.items()):
                continue
            if self._could_sit(job, promise, before=True) and not self._could_sit(job, promise, before=False):
                yield name, "what the plan starts leaves no room for it at the promised time"

    def _could_sit(self, job: Job, promise: Promise, before: bool) -> bool:
        """Whether each role on its own would have room at the promised time; more is not asked, to be sure."""
        begin = max(promise.start, self.now)
        stay = (begin, max(promise.end, begin + 1))
        tight = [role for role in job.gang.roles if role.coupling is Coupling.GANG]
        return all(self._role_could_sit(role, stay, before) for role in tight)

    def _role_could_sit(self, role: Role, stay: tuple[int, int], before: bool) -> bool:
        for at, shape in enumerate(role.shapes):
            low, room = sizes(role, at)[0], Counter[object]()
            for node, there in enumerate(self.view.nodes):
                if there is not None and not self.beside.unfit(there, shape):
                    domain = domain_of(self.view, node, role.within) if role.within else ""
                    room[domain] += self.room.fits(node, shape.ask, *stay, before)
                    if domain is not None and room[domain] >= low:
                        return True
        return False


def _answers(view: View, plan: Plan, started: set[str], ended: set[str]) -> Iterator[tuple[str, str]]:
    """Every gang that waits, and no other, has a reason; a plan whose answers were left out is not asked."""
    if not plan.is_answered:
        return
    waiting = {view.held(slot).gang.name for slot in view.queued}
    answers = set(plan.answers)
    for name in sorted(waiting - started - ended - answers):
        yield name, "it waits, and the plan neither starts it nor says why"
    for name in sorted(answers & started):
        yield name, "it starts, and yet there is a reason why it waits"
    for name in sorted(answers - waiting):
        yield name, "there is a reason why it waits, but it does not wait"


def _allows(window: Window, gang: Gang) -> bool:
    return not {f"queue:{gang.queue}", f"user:{gang.user}", f"gang:{gang.name}"}.isdisjoint(window.allow)
