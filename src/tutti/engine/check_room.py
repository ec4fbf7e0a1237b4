"""Does every node still hold, at every moment ahead, what was given away of it? Plain dictionaries, node by node.

Only nodes that a plan touches are looked at, so the cost follows the plan and not the cluster.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .check_seats import newcomers
from .estimate import overrun_end, run_time
from .model import MOST_MEMBERS, NEVER, SEATED, Gang, Job, Node, Pledge, Promise, Seats, State
from .policy import Policy
from .view import View


class Claim(NamedTuple):
    """Amounts of one node that a gang holds, or will hold, for a while."""

    gang: str
    begin: int
    end: int
    asks: Mapping[str, int]
    victims: frozenset[str] = frozenset()
    """Of a pledge: who may still hold part of it."""


Claims = dict[int, Claim]
SEAT, GOING, PROMISE, PLEDGE = "seat", "going", "promise", "pledge"
"""Why a gang has a claim: it sits there, it is on its way in or out, it was promised the room, room is freed for it."""
HELD = (SEAT, GOING)


class Room:
    """Who holds what, and until when. A node is read from the view when it is first asked about."""

    def __init__(self, view: View, now: int, policy: Policy) -> None:
        self.view, self.now = view, now
        self.slots = {job.gang.name: slot for slot, job in enumerate(view.jobs) if job is not None}
        self.leaving: dict[str, int] = {}
        """Gangs that the plan tells to leave, and by when."""
        self._percent = policy.reserve.quantile
        self._grace = policy.reclaim.grace
        self._asked = self._targets()
        self._here: dict[int, dict[tuple[str, str], Claim]] = {}

    def write(self, kind: str, claims: Claims) -> None:
        """Enter claims."""
        for node, claim in claims.items():
            self._claims(node)[kind, claim.gang] = claim

    def erase(self, kind: str, gang: str, seats: tuple[Seats, ...]) -> None:
        """Strike out what a gang claimed on these seats."""
        for held in seats:
            for node in held.nodes:
                self._claims(node).pop((kind, gang), None)

    def spread(self, gang: str, seats: tuple[Seats, ...], begin: int, end: int) -> Claims:
        """What seats claim of each node in a stretch of time."""
        asks: dict[int, dict[str, int]] = {}
        for role, held in zip(self.gang(gang).roles, seats, strict=False):
            if held.shape >= len(role.shapes):
                continue
            for node, members in zip(held.nodes, held.counts, strict=False):
                mine = asks.setdefault(node, {})
                for resource, amount in role.shapes[held.shape].ask.items():
                    mine[resource] = mine.get(resource, 0) + members * amount
        return {node: Claim(gang, begin, end, mine) for node, mine in asks.items()}

    def promised(self, gang: str, promise: Promise) -> Claims:
        """What a promise claims; one without a time claims its seats from now on."""
        begin = self.now if promise.start >= NEVER else max(promise.start, self.now)
        return self.spread(gang, promise.seats, begin, max(promise.end, begin + 1))

    def pledged(self, gang: str, pledge: Pledge) -> Claims:
        """What a pledge claims, from the moment its victims are expected to be gone, for as long as the gang runs."""
        begin = max([self.now, *(self.gone_by(victim, pledge) for victim in pledge.victims)])
        job = self.view.held(self.slots[gang])
        length = run_time(job, self.view.queue_of(job), self._percent, pledge.seats)
        claims = self.spread(gang, pledge.seats, begin, min(begin + length, NEVER))
        victims = frozenset(pledge.victims)
        return {node: claim._replace(victims=victims) for node, claim in claims.items()}

    def gone_by(self, victim: str, pledge: Pledge) -> int:
        """When a victim is expected to have made room."""
        job = self.job(victim)
        if job is None or job.life.state not in SEATED:
            return self.now
        return min(self.end(job), self.leaving.get(victim, NEVER), pledge.since + self._grace)

    def end(self, job: Job) -> int:
        """When a seated gang is expected to give its seats back; always ahead."""
        end = self.by_itself(job)
        return min(end, max(job.life.lent, self.now + max(self._grace, 1))) if self._must_give_back(job) else end

    def by_itself(self, job: Job) -> int:
        """The same where nobody asks it for room that it is lent."""
        slot = self.slots[job.gang.name]
        first = 0 if self._percent <= 50 else 1 if self._percent <= 90 else 2
        ends = [int(end) for end in self.view.ends[slot]]
        later = [max(end, self.now + 1) for end in ends[first:] if end >= self.now]
        end = later[0] if later else overrun_end(int(self.view.begun[slot]), ends[2], self.now)
        leaving = job.life.state is State.DRAINING
        return max(min(end, job.life.leave_by), self.now + 1) if leaving else end

    def _must_give_back(self, job: Job) -> bool:
        """Whether somebody waits who was promised a start before the gang was put into lent room, or in view of it."""
        can_go = job.life.lent > 0 and job.gang.parkable and job.gang.preemptible
        promises = [self.view.held(slot).life.promise for slot in self.view.promised] if can_go else []
        return any(
            promise is not None
            and promise.start < NEVER
            and (promise.given <= job.life.started or job.life.lent <= promise.clears)
            for promise in promises
        )

    def short(self, node: int, mine: Claim, against: tuple[str, ...]) -> str:
        """The resource a node would lack at some moment of a claim, or nothing; `against` says whose claims count."""
        there = self.view.nodes[node]
        if there is None:
            return "everything"
        others = [
            claim
            for (kind, name), claim in self._claims(node).items()
            if kind in against and (name != mine.gang or kind == GOING) and claim.end > mine.begin
        ]
        if not others:
            return next((name for name, ask in mine.asks.items() if ask and ask > _capacity(there, name)), "")
        return next(filter(None, (lacking(there, at, mine, others) for at in _moments(mine, others))), "")

    def fits(self, node: int, ask: Mapping[str, int], begin: int, end: int, before: bool) -> int:
        """How many members a node could hold for a while beside those that sit there; `before` leaves out the plan."""
        there = self.view.nodes[node]
        if there is None:
            return 0
        here = self._seated(node) if before else self._claims(node)
        others = [claim for (kind, _), claim in here.items() if kind in HELD]
        stay = Claim("", begin, end, {})
        room = [
            (_capacity(there, resource) - _held_at(at, resource, others)) // amount
            for at in _moments(stay, others)
            for resource, amount in ask.items()
            if amount > 0
        ]
        return max(min(room, default=MOST_MEMBERS), 0)

    def job(self, name: str) -> Job | None:
        """The gang of that name, or None."""
        slot = self.slots.get(name)
        return None if slot is None else self.view.jobs[slot]

    def gang(self, name: str) -> Gang:
        """The gang of a name that is known to exist."""
        return self.view.held(self.slots[name]).gang

    def _claims(self, node: int) -> dict[tuple[str, str], Claim]:
        here = self._here.get(node)
        if here is None:
            here = self._here[node] = self._seated(node)
        return here

    def _seated(self, node: int) -> dict[tuple[str, str], Claim]:
        """What the view says is held on a node."""
        found: dict[tuple[str, str], Claim] = {}
        if not 0 <= node < len(self.view.nodes) or self.view.nodes[node] is None:
            return found
        for slot, role, members in self.view.loads[self.view.class_of[node]]:
            job = self.view.held(slot)
            asks = times(job.gang.roles[role].shapes[job.life.seats[role].shape].ask, members)
            before = found.get((SEAT, job.gang.name))
            asks = plus(before.asks, asks) if before else asks
            found[SEAT, job.gang.name] = Claim(job.gang.name, self.now, self.end(job), asks)
        found.update({(GOING, claim.gang): claim for claim in self._asked.get(node, ())})
        return found

    def _targets(self) -> dict[int, list[Claim]]:
        """Room kept for gangs that were asked to change their seats and have not answered yet."""
        found: dict[int, list[Claim]] = {}
        for slot in self.view.seated:
            job = self.view.jobs[slot]
            if job is not None and job.life.target and job.life.target_by > self.now:
                more = newcomers(job.life.target, job.life.seats)
                for node, claim in self.spread(job.gang.name, more, self.now, self.end(job)).items():
                    found.setdefault(node, []).append(claim)
        return found


def lacking(node: Node, at: int, mine: Claim, others: list[Claim]) -> str:
    """The resource of a node that is given away twice at a moment, or nothing."""
    active = [claim for claim in others if claim.begin <= at < claim.end]
    for resource, amount in mine.asks.items():
        held = _held_at(at, resource, others) + _counted(mine, resource, active)
        if amount and held > _capacity(node, resource):
            return resource
    return ""


def _moments(mine: Claim, others: list[Claim]) -> list[int]:
    """The moments of a stay at which more may be held than just before."""
    return [mine.begin, *(claim.begin for claim in others if mine.begin < claim.begin < mine.end)]


def _capacity(node: Node, resource: str) -> int:
    return node.capacity.get(resource, 0) - node.foreign.get(resource, 0)


def _held_at(at: int, resource: str, claims: list[Claim]) -> int:
    active = [claim for claim in claims if claim.begin <= at < claim.end]
    return sum(_counted(claim, resource, active) for claim in active)


def _counted(claim: Claim, resource: str, active: list[Claim]) -> int:
    """Of a pledge only what its victims have already given back is counted: the rest is counted as theirs."""
    amount = claim.asks.get(resource, 0)
    if not claim.victims:
        return amount
    theirs = sum(other.asks.get(resource, 0) for other in active if other.gang in claim.victims)
    return max(amount - theirs, 0)


def times(ask: Mapping[str, int], members: int) -> dict[str, int]:
    """What so many members ask for together."""
    return {resource: amount * members for resource, amount in ask.items()}


def plus(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Both amounts together."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other)}
