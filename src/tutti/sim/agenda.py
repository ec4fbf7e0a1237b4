"""What happens when: a heap of happenings over virtual time, with ties settled by rank and then by order of entry."""

from collections.abc import Callable, Iterable
from enum import IntEnum
from heapq import heappop, heappush
from typing import TypeAlias

from tutti.engine.events import AnyEvent
from tutti.engine.model import NEVER

Happening: TypeAlias = Callable[[int], Iterable[AnyEvent]]
"""Called with the moment; what it makes happen in the world is what it returns."""


class Rank(IntEnum):
    """What goes first among happenings of one moment."""

    NODES = 0
    DUE = 1
    EARLY_ARRIVAL = 2
    ENDS = 3
    ARRIVAL = 4


class Agenda:
    """Happenings in the order of time. The same entries give the same order on every machine."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Happening]] = []
        self._entered = 0
        self.next_at = NEVER
        """When the next thing happens."""

    def __bool__(self) -> bool:
        """Whether anything is still to happen."""
        return bool(self._heap)

    def add(self, at: int, rank: int, happening: Happening) -> None:
        """Let something happen at a moment."""
        self._entered += 1
        heappush(self._heap, (at, rank, self._entered, happening))
        self.next_at = min(self.next_at, at)

    def has_due(self, now: int) -> bool:
        """Whether the next thing is another end that was expected just now."""
        return bool(self._heap) and self._heap[0][:2] == (now, Rank.DUE)

    def pop(self) -> Happening:
        """The next thing."""
        heap = self._heap
        happening = heappop(heap)[3]
        self.next_at = heap[0][0] if heap else NEVER
        return happening
