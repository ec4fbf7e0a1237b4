"""How fast the run goes: seconds per step, lately."""

from __future__ import annotations

import time


class Pace:
    """A moving mean of the time between commits, without the pauses of a resize."""

    def __init__(self) -> None:
        self.step_s = 0.0
        self._last = 0.0

    def tick(self) -> None:
        now = time.perf_counter()
        if self._last:
            taken = now - self._last
            self.step_s = taken if not self.step_s else 0.9 * self.step_s + 0.1 * taken
        self._last = now

    def pause(self) -> None:
        """The time until the next commit is not the time of a step."""
        self._last = 0.0
