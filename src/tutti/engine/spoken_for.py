"""Is it spoken for? What bounds of queues leave at moments ahead, beside everything that was promised.

What runs now ends, so a bound that is kept now is kept later, too. But whoever was promised a start needs its turn, and
its part of every limit, when its time comes. Room that is lent is given back for its sake, but no turn and no part of a
limit: who is lent room counts for as long as it would stay by itself.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import proxy

from .bounds import Cap, counted_as
from .model import NEVER, Job, Seats
from .use import held

if TYPE_CHECKING:
    from .desk import Desk

Decided = tuple[int, int, Job, tuple[Seats, ...]]
"""A stay: from, to, who, and where if that is known."""
Share = tuple[frozenset[str], list[int]]
"""What somebody has of a bound: gangs by what they count as, and amounts by resource."""


class Taken(NamedTuple):
    """A bound that a stay would break because of what was promised to others."""

    cap: Cap
    resource: str
    """What there would be too much of; '' where it is the number of gangs."""
    by: tuple[str, ...]
    """Gangs that were promised a start."""

    def __str__(self) -> str:
        what = f"{self.resource} of {self.cap.whose}" if self.resource else f"the next turn of {self.cap.whose}"
        return f"{what} is promised to {', '.join(self.by)}"


class SpokenFor:
    """What is left of bounds through a stay, with all that one decision has decided so far."""

    def __init__(self, desk: "Desk") -> None:
        self._desk: Desk = proxy(desk)
        self._running: dict[object, list[tuple[int, Job]]] | None = None
        self._then: dict[tuple[object, int], Share] = {}
        self._grown: list[tuple[int, Job, Sequence[int]]] = []
        """What running gangs come to hold beside what they have, and until when."""

    def grows(self, job: Job, total: Sequence[int], end: int) -> None:
        """A gang that runs is going to hold so much more."""
        if self._desk.is_bounded(job):
            self._grown.append((end, job, total))
            self._then.clear()

    def allows(self, job: Job, start: int, end: int, amounts: Sequence[int] = ()) -> bool:
        """Whether all bounds are kept through a stay, at the gang's minimum or with so much."""
        return not self._desk.rules.limited or self.taken(job, start, end, amounts) is None

    def taken(self, job: Job, start: int, end: int, amounts: Sequence[int] = ()) -> Taken | None:
        """The first bound that a stay would break."""
        of = self._desk.rules.caps.of
        caps = of(job.gang)
        decided = map(self._whole, self._desk.decided() if caps else ())
        stays = [stay for stay in decided if self._meets(stay, job, start, end)]
        for cap in caps:
            mine = [stay for stay in stays if any(other.key == cap.key for other in of(stay[2].gang))]
            for moment in sorted({start, *(stay[0] for stay in mine if stay[0] > start)}):
                there = [stay for stay in mine if stay[0] <= moment < stay[1]]
                short = self._short(job, cap, there, moment, amounts)
                if short is not None:
                    return Taken(cap, short, tuple(stay[2].gang.name for stay in mine if self._is_promise(stay)))
        return None

    def _whole(self, stay: Decided) -> Decided:
        """A stay as if nobody asked for the room that it is lent."""
        start, end, job, seats = stay
        return start, self._desk.loans.stays.get(job.gang.name, end), job, seats

    def _meets(self, stay: Decided, job: Job, start: int, end: int) -> bool:
        return stay[2].gang.name != job.gang.name and stay[0] < end and start < stay[1]

    def _is_promise(self, stay: Decided) -> bool:
        return stay[2].gang.name not in self._desk.started

    def _short(self, job: Job, cap: Cap, stays: list[Decided], moment: int, amounts: Sequence[int]) -> str | None:
        """What there would be too much of at a moment, if anything."""
        names, sums = self._at(cap, moment)
        if cap.most < NEVER:
            others = names.union(counted_as(stay[2].gang) for stay in stays)
            if counted_as(job.gang) not in others and len(others) >= cap.most:
                return ""
        asked, resources = amounts or self._desk.least_amounts(job), self._desk.view.resources
        for name, most in cap.limit.items():
            at = resources.get(name, -1)
            if at >= 0 and asked[at] and sums[at] + asked[at] + sum(self._holds(stay)[at] for stay in stays) > most:
                return name
        return None

    def _holds(self, stay: Decided) -> Sequence[int]:
        """Who starts now holds its seats; who comes later holds its minimum for certain."""
        _, _, job, seats = stay
        starts = seats and job.gang.name in self._desk.started
        return self._desk.amounts(job, seats)[0] if starts else self._desk.least_amounts(job)

    def _at(self, cap: Cap, moment: int) -> Share:
        """What gangs that run now will still have of a bound at a moment."""
        known = self._then.get((cap.key, moment))
        if known is None:
            view = self._desk.view
            there = [job for end, job in self._under(cap) if end > moment]
            sums = [0] * len(view.resources)
            for job in there if cap.limit else ():
                _add(sums, held(view.resources, job.gang, job.life.seats)[0])
            for end, job, more in self._grown if cap.limit else ():
                if end > moment and any(other.key == cap.key for other in self._desk.rules.caps.of(job.gang)):
                    _add(sums, more)
            known = frozenset(counted_as(job.gang) for job in there), sums
            self._then[cap.key, moment] = known
        return known

    def _under(self, cap: Cap) -> list[tuple[int, Job]]:
        """The running gangs that a bound is about, and when each is expected to end."""
        if self._running is None:
            self._running = {}
            for slot in self._desk.view.seated:
                job = self._desk.view.held(slot)
                for other in self._desk.rules.caps.of(job.gang):
                    self._running.setdefault(other.key, []).append((self._desk.ends_by_itself(slot), job))
        return self._running.get(cap.key, [])


def _add(sums: list[int], more: Sequence[int]) -> None:
    for at, amount in enumerate(more):
        sums[at] += amount
