"""First come first served, EASY and conservative as textbooks have them: counts of processors, no nodes, no engine."""

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


def promised_starts(jobs: list[Entry], processors: int) -> list[int]:
    """When each job starts where all are promised a start when they are submitted, and a better one as others end."""
    return _Promises(jobs, processors).play()


class _Promises:
    def __init__(self, jobs: list[Entry], processors: int) -> None:
        self.jobs, self.processors = jobs, processors
        self.start: dict[int, int] = {}
        """Of jobs that have not ended: when they started or are promised to."""
        self.running: set[int] = set()
        self.found = [-1] * len(jobs)

    def play(self) -> list[int]:
        events = [(job.submit, 0, at) for at, job in enumerate(self.jobs)]
        heapq.heapify(events)
        while events:
            now, kind, at = heapq.heappop(events)
            moved = list[int]()
            if kind == 0:
                moved = [at]
            elif kind == 1:
                del self.start[at]
                self.running.remove(at)
                moved = [other for other in sorted(self.start) if self.start[other] > now]
            elif self.start.get(at) == now and at not in self.running:
                self.found[at] = now
                self.running.add(at)
                heapq.heappush(events, (now + self.jobs[at].run, 1, at))
            for other in moved:
                self.start.pop(other, None)
                self.start[other] = self._earliest(other, now)
                heapq.heappush(events, (self.start[other], 2, other))
        return self.found

    def _earliest(self, at: int, now: int) -> int:
        ends = (self.start[other] + self.jobs[other].request for other in self.start)
        return min(start for start in {now, *(end for end in ends if end > now)} if self._fits(at, start))

    def _fits(self, at: int, start: int) -> bool:
        moments = {start, *(begin for begin in self.start.values() if start < begin < start + self.jobs[at].request)}
        return all(self._used(moment) + self.jobs[at].width <= self.processors for moment in moments)

    def _used(self, moment: int) -> int:
        there = (o for o, begin in self.start.items() if begin <= moment < begin + self.jobs[o].request)
        return sum(self.jobs[other].width for other in there)
