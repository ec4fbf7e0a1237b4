"""When does a gang far down the line start? Counted from the work ahead; the engine is asked about the front only.

Thousands of gangs in line cannot be decided about thousands of times for one answer, and for those far behind it would
tell nothing more: by then every single start has been drawn many times over, and what counts is how much work is ahead.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

from tutti.engine import events as ev
from tutti.engine.demand import wanted
from tutti.engine.model import NEVER, Job, State
from tutti.engine.order import Standing
from tutti.engine.policy import Policy
from tutti.engine.twin import world_of
from tutti.engine.view import View

NEAR = 32
"""Gangs at the front of the line whose start the engine plays."""
KEPT = 128
"""Gangs at the front that are there when it does: those behind the near ones may fill gaps."""
WHOLE = 1_000_000_000


class Line:
    """The gangs that wait and are not on hold, in the order of their turns; queues by turns."""

    def __init__(self, view: View, now: int, policy: Policy) -> None:
        standing = Standing()
        standing.update(view, now, policy)
        places = standing.places()
        self._view = view
        self.slots = sorted(places, key=lambda slot: (places[slot], slot))
        self.names = [view.held(slot).gang.name for slot in self.slots]
        self.is_long = len(self.slots) > KEPT

    def far(self, names: Iterable[str]) -> set[str]:
        """Those of these gangs that are too far behind to be played."""
        if not self.is_long:
            return set()
        jobs = [self._view.held(slot) for slot in self.slots[NEAR:]]
        return {job.gang.name for job in jobs if job.life.promise is None} & set(names)

    def front(self) -> View:
        """The view without the gangs that stand further behind than those kept, and that nobody waits for."""
        if not self.is_long:
            return self._view
        view = self._view
        needed = {name for slot in view.followers for name in view.held(slot).gang.after}
        behind = [view.held(slot) for slot in self.slots[KEPT:]]
        world = world_of(view)
        for job in behind:
            if job.life.promise is None and job.gang.name not in needed:
                world.apply(ev.Ended(view.at, job.gang.name, State.CANCELLED))
        return world.view()

    def until(self, names: set[str]) -> list[tuple[int, int]]:
        """Slots up to the last of these gangs, each with the part of the cluster it takes, in billionths."""
        last = max(at for at, name in enumerate(self.names, 1) if name in names)
        return [(slot, _part(self._view, self._view.held(slot))) for slot in self.slots[:last]]


def counted_starts(view: View, now: int, line: Sequence[tuple[int, int]], draws: Mapping[int, int]) -> dict[str, int]:
    """When each gang in line starts if they start strictly in turn, as soon as their part of the cluster is free."""
    ends = [(_end(view.held(slot), now, draws[slot]), _part(view, view.held(slot))) for slot in view.seated]
    free, at = WHOLE - sum(part for _, part in ends), now
    heapq.heapify(ends)
    starts: dict[str, int] = {}
    for slot, part in line:
        while free < part and ends:
            end, freed = heapq.heappop(ends)
            at, free = max(at, end), free + freed
        if at >= NEVER or free < part:
            break
        starts[view.held(slot).gang.name] = at
        free -= part
        heapq.heappush(ends, (min(at + draws[slot], NEVER), part))
    return starts


def _end(job: Job, now: int, length: int) -> int:
    return min(max(job.life.started + max(length - job.life.ran, 1), now), NEVER)


def _part(view: View, job: Job) -> int:
    rooms = view.total
    asked = [(amount, rooms[view.resources[name]]) for name, amount in wanted(job).items() if name in view.resources]
    return min(max((amount * WHOLE // room for amount, room in asked if room > 0), default=0), WHOLE)
