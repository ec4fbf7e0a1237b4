"""First come first served and EASY as textbooks have them: counts of processors, no nodes, no engine."""

import heapq
from typing import NamedTuple


class Entry(NamedTuple):
    """A job: submitted when, runs how long, how wide, how long it asked for."""

    submit: int
    run: int
    width: int
    request: int


def starts(jobs: list[Entry], processors: int, backfill: str = "") -> list[int]:
    """When each job starts; `backfill` is empty, 'age' or 'shortest'."""
    return _Machine(jobs, processors, backfill).play()


class _Machine:
    def __init__(self, jobs: list[Entry], processors: int, backfill: str) -> None:
        self.jobs, self.free, self.backfill = jobs, processors, backfill
        self.started = [-1] * len(jobs)
        self.waiting: list[int] = []
        self.running: list[int] = []
        self.events = [(job.submit, 0, at, at) for at, job in enumerate(jobs)]

    def play(self) -> list[int]:
        heapq.heapify(self.events)
        while self.events:
            now, is_end, _, job = heapq.heappop(self.events)
            if is_end:
                self.free += self.jobs[job].width
                self.running.remove(job)
            else:
                self.waiting.append(job)
            self._schedule(now)
        return self.started

    def _schedule(self, now: int) -> None:
        while self.waiting and self.jobs[self.waiting[0]].width <= self.free:
            self._start(self.waiting[0], now)
        if len(self.waiting) > 1 and self.backfill:
            self._fill(now)

    def _fill(self, now: int) -> None:
        shadow, spare = self._shadow(self.jobs[self.waiting[0]].width)
        behind = self.waiting[1:]
        if self.backfill == "shortest":
            behind.sort(key=lambda at: self.jobs[at].request)
        for at in behind:
            job = self.jobs[at]
            in_time = now + job.request <= shadow
            if job.width <= self.free and (in_time or job.width <= spare):
                spare -= 0 if in_time else job.width
                self._start(at, now)

    def _shadow(self, width: int) -> tuple[int, int]:
        """When the head can start, and how many processors are to spare then."""
        ends = sorted({self._end(at) for at in self.running})
        for end in ends:
            room = self.free + sum(self.jobs[at].width for at in self.running if self._end(at) <= end)
            if room >= width:
                return end, room - width
        raise AssertionError("the head is wider than the machine")

    def _end(self, at: int) -> int:
        return self.started[at] + self.jobs[at].request

    def _start(self, at: int, now: int) -> None:
        self.waiting.remove(at)
        self.running.append(at)
        self.free -= self.jobs[at].width
        self.started[at] = now
        heapq.heappush(self.events, (now + self.jobs[at].run, 1, len(self.events) + 1000 * now, at))
