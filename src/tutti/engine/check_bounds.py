"""Are the limits of queues kept, now and when promises fall due? Added up anew, gang by gang, without the planner."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .estimate import sizes
from .model import Bound, Gang, Job, Promise, Queue, Seats
from .view import View


class Runs(NamedTuple):
    """A gang that runs, or will."""

    gang: Gang
    amounts: Counter[str]
    end: int
    before: Counter[str] | None = None
    """What it had before the plan; None where it is the plan that starts it."""


class Sum:
    """What those hold together whom a bound is about."""

    def __init__(self) -> None:
        self.gangs: Counter[str] = Counter()
        self.amounts: Counter[str] = Counter()

    def add(self, runs: Runs) -> None:
        """One more gang."""
        self.gangs[_counted(runs.gang)] += 1
        self.amounts.update(runs.amounts)


Who = tuple[str, str, Bound]
"""Whom a bound is about: a key, the same in words, and the bound."""


class Limits:
    """Every gang that has seats, and those that a plan gives some, as far as queues bound them."""

    def __init__(self, view: View, now: int, end_of: Callable[[Job], int]) -> None:
        self._queues, self._now = view.queues, now
        self._about: dict[tuple[str, str, tuple[str, ...]], list[Who]] = {}
        self._sums: dict[str, Sum] = {}
        self._runs: dict[str, Runs] = {}
        for job in (view.held(slot) for slot in view.seated) if any(map(_has_bounds, view.queues.values())) else ():
            has = amounts(job.gang, job.life.seats)
            self._enter(Runs(job.gang, has, end_of(job), has))

    def start(self, gang: Gang, seats: tuple[Seats, ...], end: int) -> Iterator[str]:
        """Let a gang start, and say which bounds it breaks."""
        mine = Runs(gang, amounts(gang, seats), end)
        self._enter(mine)
        for key, words, bound in self._of(gang):
            yield from _broken(words, bound, self._sums[key], mine)

    def grow(self, gang: Gang, seats: tuple[Seats, ...]) -> Iterator[str]:
        """Let a gang that runs have more seats, and say which limits that breaks."""
        before = self._runs.get(gang.name)
        if before is None:
            return
        more = amounts(gang, seats) - before.amounts
        self._runs[gang.name] = before._replace(amounts=before.amounts + more)
        for key in self._keys(gang):
            self._sums[key].amounts.update(more)
        for key, words, bound in self._of(gang):
            yield from _too_much(words, bound, self._sums[key], more)

    def delays(self, gang: Gang, promise: Promise) -> str:
        """The bound by which what the plan starts leaves no turn for a promise that could be kept without."""
        moment = max(promise.start, self._now)
        mine = Runs(gang, _least(gang, promise.seats), promise.end)
        there = [runs for runs in self._runs.values() if runs.end > moment and runs.gang.name != gang.name]
        for key, words, bound in self._of(gang):
            meant = [runs for runs in there if key in self._keys(runs.gang)]
            old = [runs._replace(amounts=runs.before) for runs in meant if runs.before is not None]
            kept_before = not any(_broken(words, bound, _sum((*old, mine)), mine))
            found = next(_broken(words, bound, _sum((*meant, mine)), mine), "")
            if kept_before and found:
                return found
        return ""

    def _enter(self, runs: Runs) -> None:
        self._runs[runs.gang.name] = runs
        for key in self._keys(runs.gang):
            self._sums.setdefault(key, Sum()).add(runs)

    def _keys(self, gang: Gang) -> set[str]:
        """Everybody whom a bound is about and who the gang is one of."""
        return {key for key, _, _ in self._of(gang)}

    def _of(self, gang: Gang) -> list[Who]:
        who = gang.queue, gang.user, gang.groups
        if who not in self._about:
            self._about[who] = [found for queue in self._line(gang.queue) for found in self._says(queue, gang)]
        return self._about[who]

    def _line(self, name: str) -> list[Queue]:
        """A queue and those above it, as far as they are known."""
        found: dict[str, Queue] = {}
        while name in self._queues and name not in found:
            found[name] = self._queues[name]
            name = self._queues[name].parent
        return list(found.values())

    def _says(self, queue: Queue, gang: Gang) -> Iterator[Who]:
        """What a queue says about a gang."""
        words, user, group = f"queue {queue.name!r}", gang.user, self._group(gang)
        yield f"{queue.name} all", words, Bound(max_running=queue.max_running, limit=queue.limit)
        named = [bound for bound in queue.bounds if user in bound.users]
        others = [bound for bound in queue.bounds if "*" in bound.users]
        for bound in (Bound(limit=queue.user_limit), *(named or others)[:1]):
            yield f"{queue.name} user {user}", f"user {user!r} in {words}", bound
        for bound in [bound for bound in queue.bounds if group and group in bound.groups][:1]:
            yield f"{queue.name} group {group}", f"group {group!r} in {words}", bound

    def _group(self, gang: Gang) -> str:
        """The group a gang counts in: the first one named on the way up, or `*` where a queue has that and no other."""
        for queue in self._line(gang.queue):
            named = [group for bound in queue.bounds for group in bound.groups]
            for group in named:
                if group in gang.groups:
                    return group
            if gang.groups and "*" in named:
                return "*"
        return ""


def amounts(gang: Gang, seats: tuple[Seats, ...]) -> Counter[str]:
    """What seats hold of each resource."""
    total: Counter[str] = Counter()
    for role, held in zip(gang.roles, seats, strict=True):
        if held.nodes:
            for resource, amount in role.shapes[held.shape].ask.items():
                total[resource] += amount * held.members
    return total


def _least(gang: Gang, seats: tuple[Seats, ...]) -> Counter[str]:
    """What a gang holds at its smallest, on the shapes of these seats."""
    total: Counter[str] = Counter()
    for role, held in zip(gang.roles, seats, strict=True):
        for resource, amount in role.shapes[held.shape].ask.items():
            total[resource] += amount * min(sizes(role, held.shape)[0], held.members)
    return total


def _has_bounds(queue: Queue) -> bool:
    return bool(queue.limit or queue.user_limit or queue.bounds or queue.max_running is not None)


def _counted(gang: Gang) -> str:
    return gang.counts_as or gang.name


def _sum(runs: Iterable[Runs]) -> Sum:
    found = Sum()
    for one in runs:
        found.add(one)
    return found


def _broken(words: str, bound: Bound, together: Sum, mine: Runs) -> Iterator[str]:
    """What of a bound does not hold with a gang that came last."""
    many, most = len(together.gangs), bound.max_running
    if most is not None and many > max(most, 0) and together.gangs[_counted(mine.gang)] == 1:
        yield f"{words} would run {many} gangs, and at most {most} may"
    yield from _too_much(words, bound, together, mine.amounts)


def _too_much(words: str, bound: Bound, together: Sum, more: Counter[str]) -> Iterator[str]:
    for resource, most in bound.limit.items():
        if more[resource] and together.amounts[resource] > most:
            yield f"{words} would hold {together.amounts[resource]} {resource}, and the limit is {most}"
