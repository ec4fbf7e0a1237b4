"""What is behind a reason? The numbers, worked out for one gang when somebody asks."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

import numpy as np

from tutti.errors import NotFound

from .answers import Answers
from .decide import decide
from .desk import Desk
from .model import NEVER, SEATED, Coupling, Data, Gang, Job, Kind, Promise, Resizing, State, Token
from .order import Gauge, Standing, entries
from .place import Need, Outlook
from .plan import Plan, Reason, Reserve
from .policy import Policy, Term
from .quota import Branch, Tree
from .ruled_out import Cause, Count, fits_when_empty, ruled_out, unseen
from .topology import NOWHERE
from .view import View
from .whole import allowed, shapes_of

MOST_LISTED = 50
QUEUES_NAMED = 4
"""Blockers, domains and gangs ahead beyond this many are counted but not listed."""
FIT_TO_LOOK = frozenset(Token) - {Token.INVALID}
"""Tokens of gangs whose members can be looked at at all."""


GANGS = "gangs"
"""What a bound on running gangs counts."""


class RoleRoom(Data, frozen=True):
    """How many members of a role are needed at least, and how many could sit in its turn, with the roles before it."""

    role: str
    asked: int
    placeable: int


class DomainRoom(Data, frozen=True):
    """How many members one domain has room for now, and how many it would have to hold."""

    name: str
    room: int
    needed: int
    nodes: int = 0
    unwell: int = 0
    """Nodes of it that take no new members."""


class Blocker(Data, frozen=True):
    """A gang that holds, or was promised, what is missing. `until` is when it is expected to give it back."""

    gang: str
    how: str
    """'runs', 'leaves', 'starts', 'promised', 'first' (it must finish before) or 'ahead' (nobody may pass it)."""
    members: int = 0
    until: int = NEVER


class Ahead(Data, frozen=True):
    """A gang that stands before this one in its line. It holds it up when it is given room this one could use."""

    gang: str
    members: int
    holds_up: bool
    puts_off: int = 0
    """By how much it makes the promised start later; NEVER where a start could be promised without it."""


class Part(Data, frozen=True):
    """One term of the order and its value for this gang: the priority as given, times in microseconds."""

    term: Term
    value: int
    key: int
    """What is compared: of two gangs the one with the smaller key goes first."""


class Quota(Data, frozen=True):
    """A limit that would be broken: what the gang asks at least, what is used already, how much there may be."""

    resource: str
    whose: str
    asked: int
    used: int
    limit: int


class Explanation(Data, frozen=True):
    """Why a gang waits (or is no larger), with all the numbers. It speaks of one view at one moment."""

    gang: str
    at: int
    state: State
    queue: str
    token: Token | None = None
    """The reason of the plan; None for a gang that has seats."""
    kind: Kind = Kind.WAIT
    detail: str = ""
    statement: str = ""
    """For a gang that has seats or gets them now: what there is to say about it."""
    waited: int = 0
    asked: int = 0
    placeable: int = 0
    roles: tuple[RoleRoom, ...] = ()
    nodes: int = 0
    counts: tuple[Count, ...] = ()
    """All nodes, by what rules them out for the first role that does not fit; most common first."""
    stopped_by: Count | None = None
    """The most common thing that stopped the members that could not be placed."""
    level: str = ""
    domains: tuple[DomainRoom, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    position: int = 0
    in_line: int = 0
    ahead: tuple[Ahead, ...] = ()
    score: tuple[Part, ...] = ()
    share: tuple[tuple[str, int, int], ...] = ()
    """Where queues take turns: (queue, tier, share in millionths) from the top of the tree down."""
    quota: Quota | None = None
    promise: Promise | None = None
    wakes: tuple[str, ...] = ()
    retry_at: int = NEVER


def explain(view: View, now: int, policy: Policy, gang: str) -> Explanation:
    """Everything behind a gang's reason, as the plan for this view gives it. Raises NotFound for an unknown name."""
    known(view, gang)
    return told(view, now, gang, decide(view, now, policy))


def told(view: View, now: int, gang: str, plan: Plan) -> Explanation:
    """The same for a plan that was just made; the plan's working papers are used up by it."""
    job = known(view, gang)
    base = {"gang": gang, "at": now, "state": job.life.state, "queue": job.gang.queue}
    if job.life.state in SEATED:
        return Explanation(**base, statement=_of_seated(job), promise=None)  # type: ignore[arg-type]
    reason = plan.answers.get(gang)
    if reason is None:
        starting = "it has a place and starts now"
        return Explanation(**base, token=Token.STARTING, statement=starting)  # type: ignore[arg-type]
    assert isinstance(plan.answers, Answers)
    return _of_waiting(plan.answers.desk, job, reason, plan)


def known(view: View, gang: str) -> Job:
    """The gang of that name; an error with the nearest name where there is none."""
    job = view.job(gang)
    if job is None:
        names = [job.gang.name for job in view.jobs if job is not None]
        close = get_close_matches(gang, names, n=1, cutoff=0.4)
        raise NotFound(f"there is no gang named {gang!r}.", hint=close[0] if close else None)
    return job


def _detail(desk: Desk, job: Job, reason: Reason) -> str:
    """What the reason says, and where a queue is named that does not exist, which ones do."""
    queues = desk.view.queues
    if reason.token is not Token.QUEUE_CLOSED or job.gang.queue in queues or not queues:
        return reason.detail
    close = get_close_matches(job.gang.queue, queues, n=QUEUES_NAMED, cutoff=0.4)
    first = [*close, *(name for name in sorted(queues) if name not in close)][:QUEUES_NAMED]
    more = f" and {len(queues) - len(first)} more" if len(queues) > len(first) else ""
    return f"{reason.detail}; there are {', '.join(map(repr, first))}{more}"


# -- gangs that have seats


def _of_seated(job: Job) -> str:
    life, gang = job.life, job.gang
    have = sum(held.members for held in life.seats)
    if life.lost:
        lost = sum(held.members for held in life.lost)
        return f"it runs with {_so_many(have)}; {lost} lost and to be replaced"
    if life.state is State.DRAINING:
        return f"it is leaving{' for ' + life.leaving_for if life.leaving_for else ''}"
    if life.state is State.STARTING:
        return "its only member is coming up" if have == 1 else f"its {have} members are coming up"
    lent = ", in room that is kept for another, and is parked when that is needed" if life.lent else ""
    return f"it runs with {_so_many(have)}{_of_most(gang, have)}{lent}"


def _of_most(gang: Gang, have: int) -> str:
    """How many it could have, and what that takes."""
    most = sum(max(role.max, role.want, role.min) for role in gang.roles)
    if have >= most:
        return ", all it asked for"
    if any(role.coupling is Coupling.LOOSE for role in gang.roles):
        return f" of at most {most}; the others start one by one as there is room"
    if gang.resizing is Resizing.NONE:
        return f" of at most {most}; it cannot change its size while it runs"
    return f" of at most {most}; it grows when there is room that nobody waits for"


def _so_many(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


# -- gangs that wait


def _of_waiting(desk: Desk, job: Job, reason: Reason, plan: Plan) -> Explanation:
    slot = next(slot for slot in desk.view.queued if desk.view.held(slot) is job)
    line = Standing()
    line.update(desk.view, desk.now, desk.policy)
    position, in_line = line.place(slot)
    given = promise_of(job, plan)
    _back_to_its_turn(desk, job, line, position)
    ahead = _ahead(desk, job, line, position)
    seen = _Room(desk, job) if reason.token in FIT_TO_LOOK else None
    return Explanation(
        gang=job.gang.name,
        at=desk.now,
        state=job.life.state,
        queue=job.gang.queue,
        token=reason.token,
        kind=reason.kind,
        detail=_detail(desk, job, reason),
        waited=max(desk.now - job.gang.submitted, 0),
        asked=seen.asked if seen else 0,
        placeable=seen.placeable if seen else 0,
        roles=seen.roles if seen else (),
        nodes=int(desk.view.class_weight.sum()),
        counts=seen.counts if seen else unseen(desk),
        stopped_by=seen.stopped_by if seen else None,
        level=seen.level if seen else "",
        domains=seen.domains() if seen else (),
        blockers=_blockers(desk, job, reason, seen),
        position=position,
        in_line=in_line,
        ahead=ahead,
        score=_score(desk, job, slot),
        share=_share(desk, job),
        quota=_quota(desk, job) if reason.token is Token.QUOTA_REACHED else None,
        promise=given,
        wakes=reason.wakes,
        retry_at=reason.retry_at,
    )


def _back_to_its_turn(desk: Desk, job: Job, line: Standing, position: int) -> None:
    """Take back what the plan gave to the gang itself and, as far as that is known, to gangs whose turn came later.

    What was promised before this plan stays promised, whoever it was promised to.
    """
    desk.profile.slots(desk.now, desk.now + 1)
    given = list(desk.stays)
    later = set(given[given.index(job.gang.name) :]) if job.gang.name in given else {job.gang.name}
    entries = line.lines.get(_line_of(desk, job), [])[position:] if position else []
    later |= {desk.view.held(cast("int", entry[-1])).gang.name for entry in entries}
    for name in [name for name in given if name in later]:
        other = desk.stays[name][2]
        if name == job.gang.name or not (other.life.promise or other.life.pledge):
            desk.unseat(other)


def _line_of(desk: Desk, job: Job) -> str:
    return job.gang.queue if desk.policy.order.fair_share else ""


def promise_of(job: Job, plan: Plan) -> Promise | None:
    """The promise the gang has once the plan is carried out."""
    for action in plan.actions:
        if isinstance(action, Reserve) and action.gang == job.gang.name:
            return action.promise
    return job.life.promise


class _Room:
    """How much of a gang could sit right now, on the shapes on which most of it can."""

    def __init__(self, desk: Desk, job: Job) -> None:
        self.desk, self.job = desk, job
        options = [(self._seated(needs), needs) for needs in shapes_of(desk, job)]
        self.roles, self.needs = max(options, key=lambda option: _missing_least(option[0]))
        self.asked = sum(role.asked for role in self.roles)
        self.placeable = sum(min(role.placeable, role.asked) for role in self.roles)
        short = (at for at, role in enumerate(self.roles) if role.placeable < role.asked)
        self.need = self.needs[next(short, 0)]
        self.counts = ruled_out(desk, job, self.need)
        stops = [count for count in self.counts if count.cause is not Cause.ROOM]
        self.stopped_by = stops[0] if stops and self.placeable < self.asked else None
        self._outlook = self._look(self.need)
        self.level = self._outlook.need.level

    def _seated(self, needs: tuple[Need, ...]) -> tuple[RoleRoom, ...]:
        """Roles one after the other, each on what those before it leave."""
        desk, receipts, found = self.desk, [], []
        for at, need in enumerate(needs):
            low = desk.sizes(self.job, at, need.shape).low
            outlook = self._look(need)
            room = outlook.capacity()
            found.append(RoleRoom(need.role.name, low, room))
            seating = outlook.choose(min(room, low)) if min(room, low) > 0 else None
            if seating is not None and len(needs) > 1:
                receipts.append(desk.profile.take(desk.now, self._end, seating.positions, seating.counts, need.ask))
        for receipt in receipts:
            desk.profile.give(receipt)
        return tuple(found)

    @property
    def _end(self) -> int:
        length = self.desk.length(self.job)
        return NEVER if length >= NEVER else self.desk.now + length

    def _look(self, need: Need) -> Outlook:
        desk = self.desk
        mask = allowed(desk, self.job, need, desk.now, self._end)
        return Outlook(desk.profile, need, *desk.profile.slots(desk.now, self._end), mask)

    def domains(self) -> tuple[DomainRoom, ...]:
        """Room by domain, most first, where all must sit in one."""
        if not self.level:
            return ()
        view = self.desk.view
        topology = view.topology
        of_class = topology.domains(self.level)[view.class_kind]
        sums = self._outlook.sums(self.level)
        here = [at for at in np.unique(of_class[view.class_weight > 0]).tolist() if at != NOWHERE]
        low = max(self.desk.sizes(self.job, self._role(), self.need.shape).low, 0)
        found = [
            DomainRoom(
                topology.name(at),
                int(sums[at]),
                low,
                int(view.class_weight[of_class == at].sum()),
                int(view.class_weight[(of_class == at) & ~view.class_ready].sum()),
            )
            for at in here
        ]
        return tuple(sorted(found, key=lambda domain: (-domain.room, domain.name))[:MOST_LISTED])

    def _role(self) -> int:
        return next(at for at, need in enumerate(self.needs) if need is self.need)


def _missing_least(roles: tuple[RoleRoom, ...]) -> tuple[int, int]:
    """The larger, the more of the gang can sit."""
    missing = sum(max(role.asked - role.placeable, 0) for role in roles)
    return -missing, sum(min(role.placeable, role.asked) for role in roles)


# -- who is in the way


def _blockers(desk: Desk, job: Job, reason: Reason, seen: _Room | None) -> tuple[Blocker, ...]:
    """Gangs that hold what is missing, first the one that is expected to end first."""
    if reason.blockers:
        how = "first" if reason.token is Token.DEPENDENCY_WAIT else "ahead"
        return tuple(_named(desk, name, how) for name in reason.blockers)
    if seen is None or seen.placeable >= seen.asked:
        return ()
    found = [*_holders(desk, seen.need), *_promised(desk, job)]
    return tuple(sorted(found, key=lambda blocker: (blocker.until, blocker.gang))[:MOST_LISTED])


def _named(desk: Desk, name: str, how: str) -> Blocker:
    job = desk.view.job(name)
    if job is None or job.life.state not in SEATED:
        return Blocker(name, how)
    return Blocker(name, _how(job), _members(job), desk.end_of(desk.slot(job)))


def _how(job: Job) -> str:
    return "leaves" if job.life.state is State.DRAINING else "runs"


def _members(job: Job) -> int:
    if job.life.seats:
        return sum(held.members for held in job.life.seats)
    return sum(max(role.want, role.min) for role in job.gang.roles)


def _holders(desk: Desk, need: Need) -> list[Blocker]:
    """Running gangs that hold what a member asks for, on nodes that would take one."""
    view = desk.view
    fits = fits_when_empty(desk, need)
    asked = [resource for resource, _ in need.ask]
    held = (view.entry_class >= 0) & (view.entry_amount[asked] > 0).any(axis=0)
    at = np.flatnonzero(held)
    slots = sorted(set(view.entry_slot[at[fits[view.entry_class[at]]]].tolist()))
    jobs = [(slot, view.held(slot)) for slot in slots if slot in view.seated]
    return [Blocker(job.gang.name, _how(job), _members(job), desk.end_of(slot)) for slot, job in jobs]


def _promised(desk: Desk, job: Job) -> list[Blocker]:
    """Gangs that start now or were promised a start during the stay."""
    return [
        Blocker(name, "starts" if name in desk.started else "promised", _members(other), stop)
        for name, (_, stop, other, seats, _) in desk.stays.items()
        if name != job.gang.name and _overlaps(desk, job, name) and any(held.nodes for held in seats)
    ]


def _overlaps(desk: Desk, job: Job, other: str) -> bool:
    """Whether another gang's stay in this plan overlaps the one this gang would have now."""
    if other not in desk.stays:
        return False
    start, end, *_ = desk.stays[other]
    length = desk.length(job)
    return desk.now < end and (length >= NEVER or start < desk.now + length)


def _ahead(desk: Desk, job: Job, line: Standing, position: int) -> tuple[Ahead, ...]:
    """Gangs before this one in its line, in order."""
    before = line.lines.get(_line_of(desk, job), [])[: max(position - 1, 0)][:MOST_LISTED]
    jobs = [desk.view.held(cast("int", entry[-1])) for entry in before]
    return tuple(Ahead(other.gang.name, _members(other), _holds_up(desk, job, other)) for other in jobs)


def _holds_up(desk: Desk, job: Job, other: Job) -> bool:
    name = other.gang.name
    return name in desk.strict_queues.values() or (_overlaps(desk, job, name) and _shares_nodes(desk, job, name))


def _shares_nodes(desk: Desk, job: Job, other: str) -> bool:
    """Whether some node of another's stay would take a member of this gang."""
    nodes = sorted({node for held in desk.stays[other][3] for node in held.nodes})
    options = [need for needs in desk.needs(job) for need in needs]
    return any(fits_when_empty(desk, need)[desk.view.class_of[nodes]].any() for need in options if not need.missing)


# -- where it stands, and what it may have


def _score(desk: Desk, job: Job, slot: int) -> tuple[Part, ...]:
    terms = desk.policy.order.terms
    gauge = Gauge(desk.view, desk.now, desk.policy, terms)
    keys: Sequence[int | str] = entries(gauge, terms, [slot], [job])[0]
    return tuple(
        Part(term, _value(desk, job, term, int(key)), int(key)) for term, key in zip(terms, keys, strict=False)
    )


def _value(desk: Desk, job: Job, term: Term, key: int) -> int:
    match term:
        case Term.PRIORITY:
            return job.gang.priority
        case Term.AGE:
            return max(desk.now - job.gang.submitted, 0)
        case Term.SLACK:
            return NEVER if key >= NEVER else key - desk.now
        case Term.STRETCH:
            return key - desk.now
        case Term.DOWNTIME | Term.LARGEST | Term.WFP3 | Term.UNI:
            return -key
        case _:
            return key


def _share(desk: Desk, job: Job) -> tuple[tuple[str, int, int], ...]:
    if not desk.policy.order.fair_share or job.gang.queue not in desk.view.queues:
        return ()
    return tuple((name, tier, part) for tier, part, name in desk.shares.share(job.gang.queue) if name)


def _quota(desk: Desk, job: Job) -> Quota | None:
    """The numbers of the limit that the gang's minimum would break."""
    if crowd := desk.shares.crowd(job):
        return Quota(GANGS, crowd.cap.whose, 1, crowd.running, crowd.cap.most)
    least = desk.least_amounts(job)
    found = desk.shares.blocked(job, least, least)
    if found is None:
        return None
    resource, whose = found
    at = desk.view.resources[resource]
    for branch in branches(desk, job):
        mine = branch.users.get(job.gang.user, ())
        options = [(f"queue {branch.name}", branch.limits, branch.total[at])]
        options += [(f"user {job.gang.user} in queue {branch.name}", branch.user_limits, mine[at] if mine else 0)]
        options += [
            (f"the guarantee of queue {branch.name}", {**dict.fromkeys([at], 0), **branch.guarantees}, branch.floor[at])
        ]
        for name, limits, used in options:
            if name == whose and at in limits:
                return Quota(resource, whose, least[at], used, limits[at])
    over = desk.shares.tally().over(job.gang, least)
    if over is None:
        return Quota(resource, whose, least[at], 0, 0)
    return Quota(resource, whose, least[at], desk.shares.tally().held(over[0], resource), over[0].limit[resource])


def branches(desk: Desk, job: Job) -> list[Branch]:
    """The gang's queue and those above it, with what the plan's own starts hold."""
    tree = Tree(desk.view, desk.now, desk.policy.order.half_life)
    for name in sorted(desk.started & desk.stays.keys()):
        _, _, other, seats, _ = desk.stays[name]
        tree.book(other.gang.queue, other.gang.user, *desk.amounts(other, seats), 1)
    leaf = tree.leaves.get(job.gang.queue)
    return list(leaf.path()) if leaf else []
