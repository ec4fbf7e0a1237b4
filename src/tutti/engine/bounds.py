"""Who may run how many gangs, and hold how much? Bounds of queues, of their users and of groups of users.

A bound of a queue is about everything below it too. What a user may have is meant for each user, what a group may have
for all of it together. How users and groups are matched is on the page docs/explanation/order-and-quota.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .model import NEVER, Bound, Gang, Queue
from .use import held
from .view import View

OTHERS = "*"
"""Whoever a queue does not name elsewhere."""

USER, GROUP, ALL = "user", "group", ""

Key = tuple[str, str, str]
"""Who a bound is about: a queue, what of it (a user, a group, everybody), and the name. Users may be without one."""


class Cap(NamedTuple):
    """A bound that a gang is under."""

    key: Key
    most: int
    """So many gangs may run at once; NEVER where any number may."""
    limit: Mapping[str, int]

    @property
    def whose(self) -> str:
        """Whom it is about, in words."""
        queue, kind, name = self.key
        return f"{kind} {name or 'without a name'} in queue {queue}" if kind else f"queue {queue}"


class Crowd(NamedTuple):
    """A bound on running gangs that is reached."""

    cap: Cap
    running: int
    gangs: tuple[str, ...]
    """All that run there; those that count as one, too."""

    def __str__(self) -> str:
        queue, kind, name = self.cap.key
        who = f"{kind} {name or 'without a name'}" if kind else f"queue {queue}"
        said = f"{who} runs {self.running} {'gang' if self.running == 1 else 'gangs'} of at most {self.cap.most}"
        return f"{said} in queue {queue}" if kind else said


class Caps:
    """The bounds of all queues, looked up by where a gang stands and whose it is."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._known: dict[tuple[str, str, tuple[str, ...]], tuple[Cap, ...]] = {}
        self.counted = any(queue.max_running is not None or queue.bounds for queue in queues.values())
        """Whether there are others than limits of queues and of every user."""
        self.limited = self.counted or any(queue.limit or queue.user_limit for queue in queues.values())

    def of(self, gang: Gang) -> tuple[Cap, ...]:
        """The bounds that a gang is under, those of its own queue first."""
        who = (gang.queue, gang.user, gang.groups)
        known = self._known.get(who)
        if known is None:
            known = self._known[who] = tuple(self._find(*who))
        return known

    def _find(self, queue: str, user: str, groups: tuple[str, ...]) -> Iterator[Cap]:
        line = tuple(lineage(queue, self._queues))
        group = _group(line, groups)
        for above in line:
            yield from _capped((above.name, ALL, ""), (Bound(max_running=above.max_running, limit=above.limit),))
            named = first_about(above, user, "")
            own = Bound(limit=above.user_limit)
            yield from _capped((above.name, USER, user), (named, own) if named else (own,))
            told = first_about(above, "", group) if group else None
            yield from _capped((above.name, GROUP, group), (told,) if told else ())


def wrong(queue: Queue) -> str:
    """What makes no sense about the bounds of a queue; nothing where all of it does."""
    everybody = Bound(max_running=queue.max_running)
    for at, bound in enumerate((everybody, *queue.bounds)):
        where = f"bounds[{at - 1}].max_running" if at else "max_running"
        if bound.max_running is not None and bound.max_running < 0:
            return f"{where} is {bound.max_running}; write 0 or more"
        if at and not (bound.users or bound.groups):
            return f"bounds[{at - 1}] is about nobody; write users or groups"
    return ""


def lineage(name: str, queues: Mapping[str, Queue]) -> Iterator[Queue]:
    """A queue and those above it, as far as they are known, each once."""
    seen: set[str] = set()
    while name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = queues[name].parent


def counted_as(gang: Gang) -> str:
    """What the gang is where running gangs are counted."""
    return gang.counts_as or gang.name


def _group(line: Iterable[Queue], groups: tuple[str, ...]) -> str:
    """The one group that the user of a gang is counted in: the first that is named, in the gang's queue or above it."""
    for queue in line if groups else ():
        named = [group for bound in queue.bounds for group in bound.groups]
        found = next((group for group in named if group in groups), OTHERS if OTHERS in named else "")
        if found:
            return found
    return ""


def first_about(queue: Queue, user: str, group: str) -> Bound | None:
    """The bound of a queue that is about a group, or about a user: by name, or as one of the others."""
    if group:
        return next((bound for bound in queue.bounds if group in bound.groups), None)
    named = (bound for who in (user, OTHERS) for bound in queue.bounds if who in bound.users)
    return next(named, None)


def _capped(key: Key, bounds: tuple[Bound, ...]) -> Iterator[Cap]:
    """All bounds about somebody as one, if they bound anything."""
    most = min((max(bound.max_running, 0) for bound in bounds if bound.max_running is not None), default=NEVER)
    limit: dict[str, int] = {}
    for bound in bounds:
        limit |= {name: min(amount, limit.get(name, amount)) for name, amount in bound.limit.items()}
    if most < NEVER or limit:
        yield Cap(key, most, limit)


class Tally:
    """Who runs, and what they hold, by whom bounds are about."""

    def __init__(self, view: View, caps: Caps) -> None:
        self._resources, self._caps = view.resources, caps
        self._names: dict[Key, dict[str, list[str]]] = {}
        """Running gangs, by what they count as."""
        self._held: dict[Key, list[int]] = {}
        self._crowds: dict[Key, Crowd] = {}
        for slot in view.seated:
            job = view.held(slot)
            if caps.of(job.gang):
                self.add(job.gang, held(view.resources, job.gang, job.life.seats)[0])

    def add(self, gang: Gang, total: Sequence[int], starts: bool = True) -> None:
        """A gang starts and holds so much, or holds so much more."""
        self._crowds.clear()
        for cap in self._caps.of(gang):
            names = self._names.setdefault(cap.key, {})
            if starts:
                names.setdefault(counted_as(gang), []).append(gang.name)
            sums = self._held.get(cap.key, [0] * len(self._resources))
            self._held[cap.key] = [had + more for had, more in zip(sums, total, strict=True)]

    def crowd(self, gang: Gang) -> Crowd | None:
        """The bound by which no more gangs than now may run, if this one would be one more.

        Of several it is the one that fewest gangs are under: of the others they are mostly a part, so that the end of
        one of them helps with all.
        """
        found: list[Cap] = []
        for cap in self._caps.of(gang):
            names = self._names.get(cap.key, {})
            if len(names) >= cap.most and counted_as(gang) not in names:
                found.append(cap)
        return self._crowd(min(found, key=lambda cap: len(self._names.get(cap.key, ())))) if found else None

    def _crowd(self, cap: Cap) -> Crowd:
        """All who run there; the same again while nobody starts, for many may wait for it."""
        crowd = self._crowds.get(cap.key)
        if crowd is None:
            names = self._names.get(cap.key, {})
            gangs = tuple(name for gangs in names.values() for name in gangs)
            crowd = self._crowds[cap.key] = Crowd(cap, len(names), gangs)
        return crowd

    def running(self, cap: Cap, gang: Gang) -> int:
        """How many gangs would run there with this one."""
        return len({*self._names.get(cap.key, ()), counted_as(gang)})

    def counted(self, queue: str) -> int:
        """How many gangs run in a queue that bounds their number."""
        return len(self._names.get((queue, ALL, ""), ()))

    def over(self, gang: Gang, total: Sequence[int]) -> tuple[Cap, str] | None:
        """The bound on what is held that so much more would break, and the resource."""
        for cap in self._caps.of(gang):
            sums = self._held.get(cap.key)
            for name, most in cap.limit.items():
                more = total[self._resources[name]] if name in self._resources else 0
                if more and more + (sums[self._resources[name]] if sums else 0) > most:
                    return cap, name
        return None

    def held(self, cap: Cap, resource: str) -> int:
        """What those whom a bound is about hold of a resource."""
        sums = self._held.get(cap.key)
        return sums[self._resources[resource]] if sums and resource in self._resources else 0
