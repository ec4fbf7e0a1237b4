"""Who deserves how much: a tree of queues, what each may use, has used, and should get.

The arithmetic is explained, with a worked example, in docs/explanation/order-and-quota.md.
"""

from collections.abc import Iterable, Iterator, Sequence

from .bounds import Caps, Crowd, Tally
from .decay import STEPS, decayed, remembered, steps_between
from .demand import Demand, capacity
from .divide import parted
from .model import NEVER, SECOND, Gang, Job, Queue
from .policy import Policy
from .use import QueueUse
from .view import View

PARTS = 1_000_000
"""Shares are counted in millionths."""
LN2 = 693_147
"""The natural logarithm of two, in millionths: one unit held for ever adds up to half-life / ln 2 unit-seconds."""

UNDER_GUARANTEE, IN_TURN, LEFTOVERS, NOWHERE = range(4)
"""Tiers of a share: guarantees come first, queues of weight 0 after all others, unknown queues last."""

Level = tuple[int, int, str]
"""One level of a share: tier, millionths, name."""


class Branch:
    """A queue in the tree, with everything below it. Lists are by resource."""

    __slots__ = (
        "assured",
        "children",
        "claim",
        "demand",
        "deserved",
        "floor",
        "guarantees",
        "level",
        "limits",
        "name",
        "need",
        "parent",
        "past",
        "roof",
        "total",
        "user_limits",
        "users",
        "weight",
    )

    def __init__(self, queue: Queue, resources: dict[str, int], parent: "Branch | None" = None) -> None:
        width = len(resources)
        self.name = queue.name
        self.weight = max(queue.weight, 0)
        self.parent = parent
        self.children: list[Branch] = []
        self.guarantees = _indexed(queue.guarantee, resources)
        self.limits = _indexed(queue.limit, resources)
        self.user_limits = _indexed(queue.user_limit, resources)
        self.total, self.floor, self.past = [0] * width, [0] * width, [0] * width
        self.users: dict[str, list[int]] = {}
        self.roof = [self.limits.get(r, NEVER) for r in range(width)]
        self.assured = [min(self.guarantees.get(r, 0), self.roof[r]) for r in range(width)]
        """Guarantee, or the sum of those below where that is more."""
        self.demand, self.need = [0] * width, [0] * width
        self.deserved: list[int] = []
        self.claim: list[int] = []
        """What it would deserve if it wanted everything."""
        self.level: Level | None = None

    def add(self, total: Sequence[int], floor: Sequence[int], sign: int) -> None:
        """Book what is held now."""
        for r, amount in enumerate(total):
            self.total[r] += sign * amount
            self.floor[r] += sign * floor[r]
        self.level = None

    def add_user(self, user: str, total: Sequence[int], sign: int) -> None:
        """Book what one user holds."""
        mine = self.users.get(user)
        if mine is None:
            mine = self.users[user] = [0] * len(self.total)
        for r, amount in enumerate(total):
            mine[r] += sign * amount

    def path(self) -> "Iterator[Branch]":
        """This branch and those above it, without the root."""
        branch = self
        while branch.parent is not None:
            yield branch
            branch = branch.parent

    def weigh(self, demand: Demand) -> None:
        """Learn what is wanted and what is guaranteed, from the leaves up."""
        for child in self.children:
            child.weigh(demand)
        below = self.children
        wants = demand.of(self.name) if not below else _sums(child.demand for child in below)
        if below:
            self.assured = [
                min(max(own, under), roof)
                for own, under, roof in zip(self.assured, _sums(c.assured for c in below), self.roof, strict=True)
            ]
        self.demand = [min(want, roof) for want, roof in zip(wants, self.roof, strict=True)]
        self.need = [self._need(r, want) for r, want in enumerate(self.demand)]

    def _need(self, r: int, want: int) -> int:
        own = min(self.guarantees.get(r, 0), want)
        return min(max(own, sum(child.need[r] for child in self.children)), want)

    def share_out(self) -> None:
        """Divide what this branch deserves among those below it."""
        below = self.children
        if not below:
            return
        weights = [child.weight for child in below]
        columns = [
            parted(amount, [c.need[r] for c in below], weights, [c.demand[r] for c in below])
            for r, amount in enumerate(self.deserved)
        ]
        for at, child in enumerate(below):
            child.deserved = [column[at] for column in columns]
            child.share_out()

    def claims(self) -> list[int]:
        """What this branch would deserve if it wanted everything, the others being as they are."""
        if self.claim or self.parent is None:
            return self.claim
        self.claim = [self._claim(r, amount) for r, amount in enumerate(self.parent.claims())]
        return self.claim

    def _claim(self, r: int, amount: int) -> int:
        assert self.parent is not None
        wants_more = self.deserved[r] < self.demand[r] and self.need[r] == self.assured[r]
        if wants_more and amount == self.parent.deserved[r]:
            return self.deserved[r]
        beside = self.parent.children
        at = next(i for i, branch in enumerate(beside) if branch is self)
        needs, roofs = [c.need[r] for c in beside], [c.demand[r] for c in beside]
        needs[at], roofs[at] = self.assured[r], self.roof[r]
        return parted(amount, needs, [c.weight for c in beside], roofs)[at]


def _indexed(amounts: dict[str, int], resources: dict[str, int]) -> dict[int, int]:
    return {resources[name]: amount for name, amount in sorted(amounts.items()) if name in resources}


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _parent(name: str, queues: dict[str, Queue]) -> str:
    """The queue above; '' for the root, from which also hang queues with an unknown parent and those in a circle."""
    seen = {name}
    above = queues[name].parent
    while above in queues and above not in seen:
        seen.add(above)
        above = queues[above].parent
    return queues[name].parent if above not in seen and queues[name].parent in queues else ""


def past_use(use: QueueUse, now: int, half_life: int) -> list[int]:
    """Decayed use in amount x seconds. Running gangs are charged at the end of each slice, not all the time."""
    if half_life <= 0:
        return [0] * len(use.past)
    until = max(use.at, slice_start(now, half_life))
    steps, counts = steps_between(use.at, until, half_life), remembered(use.at, until, half_life)
    return [decayed(past, steps) + held * counts // SECOND for past, held in zip(use.past, use.total, strict=True)]


def slice_start(now: int, half_life: int) -> int:
    """When the present slice of accounting began: a half-life has 1024 of them."""
    step = max(half_life // STEPS, 1)
    return now // step * step


def slice_end(now: int, half_life: int) -> int:
    """When running gangs are charged next, so that shares may change although nothing happened."""
    return slice_start(now, half_life) + max(half_life // STEPS, 1) if half_life > 0 else NEVER


class Tree:
    """The queues, with what they hold and have held."""

    def __init__(self, view: View, now: int, half_life: int) -> None:
        self.resources = view.resources
        self.root = Branch(Queue(""), view.resources)
        self.leaves: dict[str, Branch] = {}
        """Where the gangs of each queue are booked: the queue itself, or its own part beside its children."""
        self._plant(view)
        for name, use in view.use.items():
            self._book(name, use, past_use(use, now, half_life))

    def _plant(self, view: View) -> None:
        # Gangs of a queue that was removed run on; they have a claim only to what nobody else wants.
        removed = {name: Queue(name, weight=0) for name, use in view.use.items() if any(use.total)}
        queues = {**removed, **view.queues}
        branches = {name: Branch(queues[name], self.resources) for name in sorted(queues)}
        for name, branch in branches.items():
            above = _parent(name, queues)
            branch.parent = branches[above] if above else self.root
            branch.parent.children.append(branch)
        for name, branch in branches.items():
            self.leaves[name] = self._own(branch) if branch.children else branch

    def _own(self, branch: Branch) -> Branch:
        """The gangs that stand in a queue with queues below it: as if in one more queue there, of weight 1."""
        own = Branch(Queue(branch.name), self.resources, branch)
        branch.children.insert(0, own)
        return own

    def _book(self, name: str, use: QueueUse, past: list[int]) -> None:
        leaf = self.leaves.get(name)
        for branch in leaf.path() if leaf else ():
            branch.add(use.total, use.floor, 1)
            branch.past = [had + more for had, more in zip(branch.past, past, strict=True)]
            if branch.user_limits:
                for user, held in use.users.items():
                    branch.add_user(user, held, 1)

    def book(self, queue: str, user: str, total: Sequence[int], floor: Sequence[int], sign: int) -> None:
        """Add (or with sign -1 take away) what one gang holds, all the way up."""
        leaf = self.leaves.get(queue)
        for branch in leaf.path() if leaf else ():
            branch.add(total, floor, sign)
            if branch.user_limits:
                branch.add_user(user, total, sign)

    def settle(self, demand: Demand, room: list[int]) -> None:
        """Work out what every branch deserves of the room there is."""
        self.root.weigh(demand)
        self.root.deserved = self.root.claim = room
        self.root.share_out()


class Shares:
    """Quota and fair share at one moment, kept up to date while a plan is being made.

    Nothing is computed before it is asked for: a world with one queue and no limits pays next to nothing.
    """

    def __init__(
        self, view: View, now: int, policy: Policy, demand: Demand | None = None, caps: Caps | None = None
    ) -> None:
        self._view, self._now = view, now
        self._half_life = policy.order.half_life
        self._demand = demand
        self._caps = caps or Caps(view.queues)
        self._tally: Tally | None = None
        self._entered: list[tuple[Gang, Sequence[int], bool]] = []
        self._grown: Tree | None = None
        self._settled = False
        self._taken: list[tuple[str, str, Sequence[int], Sequence[int], int]] = []
        self.version = 0
        """Goes up with every take: while it stands still, no share changes."""

    def take(self, queue: str, user: str, total: Sequence[int], floor: Sequence[int], sign: int = 1) -> None:
        """A gang of the queue is going to hold this much more (or, with sign -1, less)."""
        self.version += 1
        if self._grown is None:
            self._taken.append((queue, user, total, floor, sign))
        else:
            self._grown.book(queue, user, total, floor, sign)

    def enter(self, gang: Gang, total: Sequence[int], floor: Sequence[int], starts: bool = True) -> None:
        """A gang starts and is going to hold this much, or holds this much more."""
        self.take(gang.queue, gang.user, total, floor)
        if self._tally is not None:
            self._tally.add(gang, total, starts)
        elif self._caps.counted:
            self._entered.append((gang, total, starts))

    def tally(self) -> Tally:
        """Who runs, and what they hold, as far as queues bound that."""
        if self._tally is None:
            self._tally = Tally(self._view, self._caps)
            for entered in self._entered:
                self._tally.add(*entered)
        return self._tally

    def crowd(self, job: Job) -> Crowd | None:
        """The bound on running gangs that forbids the gang to start, if one does."""
        return self.tally().crowd(job.gang) if self._caps.counted else None

    def blocked(self, job: Job, total: Sequence[int], floor: Sequence[int]) -> tuple[str, str] | None:
        """The resource and the limit that forbid the gang to hold this much, if one does.

        Limits count everything held, surplus included. A gang that may not be interrupted never borrows what is
        guaranteed to another queue: its minimum must fit into the guarantee of its own.
        """
        if self._caps.limited and (found := self._over_limit(job, total)):
            return found
        return None if job.gang.preemptible else self._borrows_for_good(job, floor)

    def share(self, queue: str) -> tuple[Level, ...]:
        """Whose turn it is: the smallest share. One level for each queue from the top of the tree down.

        A level is (tier, share in millionths, name); see the page on order for what is divided by what.
        """
        self._settle()
        leaf = self._tree().leaves.get(queue)
        if leaf is None:
            return ((NOWHERE, 0, queue),)
        return tuple(reversed([branch.level or self._stand(branch) for branch in leaf.path()]))

    def under_guarantee(self, queue: str, floor: Sequence[int]) -> bool:
        """Whether with this much more the queue, and every queue above it, stays inside its guarantee.

        Only resources that a guarantee names are counted, and one that is asked for must be named.
        """
        leaf = self._tree().leaves.get(queue)
        named = False
        for branch in leaf.path() if leaf else ():
            for r, most in branch.guarantees.items():
                if r < len(floor) and floor[r]:
                    if branch.floor[r] + floor[r] > most:
                        return False
                    named = True
        return named

    def over_deserved(
        self, queue: str, minus: Sequence[int] = (), wanted: Sequence[int] = (), claimant: str = ""
    ) -> bool:
        """Whether the queue holds more than it deserves of some resource even after giving up `minus`.

        With `wanted`, only the resources in it count. With `claimant`, every queue from this one up to where its branch
        and the claimant's part must hold too much, not this one alone.
        """
        self._settle()
        leaves = self._tree().leaves
        leaf, other = leaves.get(queue), leaves.get(claimant)
        shared = set(map(id, other.path())) if other else set()
        if leaf is None:
            return False
        branches = [branch for branch in leaf.path() if id(branch) not in shared] if other else [leaf]
        return bool(branches) and all(_exceeds(branch, minus, wanted) for branch in branches)

    def deserved(self, queue: str) -> list[int]:
        """What the queue (with the queues below it) deserves of each resource, given what everybody wants."""
        self._settle()
        branch = self._branch(queue)
        return branch.deserved if branch else [0] * len(self._view.resources)

    def claim(self, queue: str) -> list[int]:
        """What the queue would deserve of each resource if it wanted everything: what its use is compared with."""
        self._settle()
        branch = self._branch(queue)
        return branch.claims() if branch else [0] * len(self._view.resources)

    def held(self, queue: str) -> list[int]:
        """What the queue (with the queues below it) holds of each resource."""
        branch = self._branch(queue)
        return branch.total if branch else [0] * len(self._view.resources)

    def counted(self, queue: str) -> list[int]:
        """The part of it that counts in quota: every gang up to its minimum."""
        branch = self._branch(queue)
        return branch.floor if branch else [0] * len(self._view.resources)

    def _branch(self, queue: str) -> Branch | None:
        leaf = self._tree().leaves.get(queue)
        # The own part of an inner queue carries its name too; the queue itself is the branch above.
        return leaf.parent if leaf and leaf.parent and leaf.parent.name == queue else leaf

    def _over_limit(self, job: Job, total: Sequence[int]) -> tuple[str, str] | None:
        gang = job.gang
        leaf = self._tree().leaves.get(gang.queue)
        for branch in leaf.path() if leaf else ():
            for r, most in branch.limits.items():
                if r < len(total) and total[r] and branch.total[r] + total[r] > most:
                    return self._name(r), f"queue {branch.name}"
            mine = branch.users.get(gang.user, ())
            for r, most in branch.user_limits.items():
                if r < len(total) and total[r] and (mine[r] if mine else 0) + total[r] > most:
                    return self._name(r), f"user {gang.user} in queue {branch.name}"
        over = self.tally().over(gang, total) if self._caps.counted else None
        return (over[1], over[0].whose) if over else None

    def _borrows_for_good(self, job: Job, floor: Sequence[int]) -> tuple[str, str] | None:
        kept = self._kept_for_others(job.gang.queue)
        for r, amount in enumerate(floor):
            if amount and r in kept and not self.under_guarantee(job.gang.queue, [0] * r + [amount]):
                return self._name(r), f"the guarantee of queue {job.gang.queue}"
        return None

    def _kept_for_others(self, queue: str) -> set[int]:
        """Resources that are guaranteed to queues other than this one and those above it."""
        guaranteed = [other for other in self._view.queues.values() if other.guarantee]
        leaf = self._tree().leaves.get(queue) if guaranteed else None
        mine = {branch.name for branch in leaf.path()} if leaf else {queue}
        named = [
            name for other in guaranteed if other.name not in mine for name, most in other.guarantee.items() if most
        ]
        return {self._view.resources[name] for name in named if name in self._view.resources}

    def _name(self, r: int) -> str:
        return next(name for name, at in self._view.resources.items() if at == r)

    def _tree(self) -> Tree:
        if self._grown is None:
            self._grown = Tree(self._view, self._now, self._half_life)
            for taken in self._taken:
                self._grown.book(*taken)
        return self._grown

    def _settle(self) -> None:
        if self._settled:
            return
        self._settled = True
        demand = self._demand or Demand()
        demand.update(self._view)
        self._tree().settle(demand, capacity(self._view))

    def _stand(self, branch: Branch) -> Level:
        if any(held < need for held, need in zip(branch.floor, branch.need, strict=True)):
            tier = UNDER_GUARANTEE
        else:
            tier = IN_TURN if branch.weight else LEFTOVERS
        branch.level = (tier, self._dominant(branch), branch.name)
        return branch.level

    def _dominant(self, branch: Branch) -> int:
        """The largest part over the resources that there are any of, in millionths of the claim."""
        room = self._tree().root.deserved
        most = 0
        for r, claim in enumerate(branch.claims()):
            used = PARTS * branch.total[r]
            if branch.past[r]:
                used += PARTS * LN2 * branch.past[r] // self._half_life
            if used and room[r] > 0:
                most = max(most, used // claim if claim > 0 else NEVER)
        return most


def _exceeds(branch: Branch, minus: Sequence[int], wanted: Sequence[int]) -> bool:
    for r, held in enumerate(branch.total):
        if wanted and not (r < len(wanted) and wanted[r]):
            continue
        if held - (minus[r] if r < len(minus) else 0) > branch.deserved[r]:
            return True
    return False
