"""Members that run and get nowhere: everyone else waits for one, far longer than was ever usual, and it does nothing.

A beating heart is no proof of work: the thread that beats goes on while the loop is stuck in a lock or a dead file
system. Pure: what was seen goes in, names and reasons come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.train.agent.beats import Budget

LEAST_S = 30.0
MOST_S = 600.0
TIMES_USUAL = 10.0
BUSY = 0.05


@dataclass(frozen=True)
class Sight:
    """One member at one moment: since when it waits for others (0: it does not), and the processor time it has used."""

    name: str
    step: int
    waits_since_s: float
    cpu_s: float


@dataclass(frozen=True)
class Stall:
    """A member that all others wait for beyond the limit; an idle one will not come."""

    name: str
    waited_s: float
    is_idle: bool


class Hangs:
    """Learns how long members wait for the last one of them, and says when that is no longer usual.

    `limit_s` is a limit given by the user: beyond it a member counts as idle, whether it computes or not.
    """

    def __init__(self, limit_s: float = 0.0) -> None:
        self.limit_s = limit_s
        self._usual = Budget(LEAST_S, MOST_S, TIMES_USUAL)
        self._last = ("", -1)
        self._waited_s = 0.0
        self._cpu_s = 0.0
        self._seen_s = 0.0

    @property
    def allowed_s(self) -> float:
        return self.limit_s or self._usual.allowed_s

    def look(self, now_s: float, sights: Sequence[Sight]) -> Stall | None:
        """Who stalls everyone now, if anyone does."""
        last = last_of(sights)
        if last is None or (last.name, last.step) != self._last:
            self._moved_on(now_s, last)
        if last is None:
            return None
        self._waited_s = now_s - max(other.waits_since_s for other in sights)
        if self._waited_s <= self.allowed_s:
            return None
        is_idle = last.cpu_s - self._cpu_s < BUSY * (now_s - self._seen_s)
        return Stall(last.name, self._waited_s, is_idle or bool(self.limit_s))

    def _moved_on(self, now_s: float, last: Sight | None) -> None:
        """The last one is another one now, or nobody: the wait before was harmless."""
        if self._last[0]:
            self._usual.observe(self._waited_s)
        self._last = (last.name, last.step) if last else ("", -1)
        self._seen_s, self._waited_s = now_s, 0.0
        self._cpu_s = last.cpu_s if last else 0.0


def last_of(sights: Sequence[Sight]) -> Sight | None:
    """The one member that does not wait while all others do."""
    free = [sight for sight in sights if not sight.waits_since_s]
    return free[0] if len(free) == 1 and len(sights) > 1 else None
