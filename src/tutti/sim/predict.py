"""Predicting a run time from what the same user ran last: the mean of the last two runs, never above the request."""

from typing import Protocol

from tutti.engine.model import NEVER, SECOND, Estimate, Source

from .task import Task


class Predictor(Protocol):
    """Says how long a task will run, and learns from those that have ended."""

    def estimate(self, task: Task) -> Estimate:
        """What the scheduler is told when the task is submitted."""

    def learn(self, task: Task, ran: int) -> None:
        """A task has ended after so much run time."""


class LastTwo:
    """Tsafrir, Etsion and Feitelson (2007). A run that outlasts its prediction is expected to take all it requested."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def estimate(self, task: Task) -> Estimate:
        """The mean of the user's last two runs in whole seconds, or the request where there are not two."""
        told = task.gang.estimate
        last = self._last.get(task.gang.user)
        if last is None or last[0] < 0 or told.limit >= NEVER:
            return told
        mean = sum(last) // 2 // SECOND * SECOND
        # An end at the very moment it was predicted for is not late.
        predicted = max(min(mean + 1, told.limit), 1)
        return Estimate(told.limit, predicted, predicted, Source.HISTORY)

    def learn(self, task: Task, ran: int) -> None:
        """Remember the run as its user's latest."""
        before = self._last.get(task.gang.user, (-1, -1))
        self._last[task.gang.user] = (before[1], ran)
