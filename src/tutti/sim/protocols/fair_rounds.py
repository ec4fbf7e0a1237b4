"""Gavel's rounds on equal GPUs, as the Shockwave study uses them: shares of time, and who runs in the next two minutes.

A policy says which part of the time each job should have. In every round the jobs furthest behind their part go first,
the others fill what is left. Parts are computed anew when jobs have come or gone, but not before a while has passed;
who comes in between waits for it, and what it would have taken stays idle.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

ROUND_S = 120
KEEP_S = 1000
"""Parts of the time are kept at least so long."""
RESUME_S = 20
"""What it costs to go on after a round of standing still."""
SHORT_S = 5
"""A round cut shorter than by this much is a job's last, and nothing is taken off it."""
MOST_T, LEAST_T, NEAR_T = 1e6, 100.0, 1.05
"""Where the shortest time for everything is looked for, and how closely."""
LONG = 0.8
"""What part of the longest job's time makes another a long one."""


class Learner(msgspec.Struct, eq=False):
    """A job that trains; its batch grows and shrinks on the way."""

    name: str
    model: str
    width: int
    mode: str
    first_batch: int
    batch: int
    steps: int
    arrived: float
    rate: float
    """Steps in a second at its present batch."""
    done: int = 0
    ended: float | None = None
    held_s: float = ROUND_S / 2
    """Time on GPUs since parts were computed, with half a round for a start."""
    behind_s: float = 0.0
    alone_s: float = 0.0
    """How long it would have taken so far with its equal part of the cluster, and nobody to wait for."""
    last: tuple[int, float] | None = None
    """Steps left and rate alone when that was last added up."""

    @property
    def left(self) -> int:
        """Steps still to do."""
        return self.steps - self.done


Parts = Callable[[Sequence[Learner], int, float], list[float]]
"""The part of the time each job should run: jobs, GPUs, the moment."""


def center(least: Sequence[float], widths: Sequence[int], gpus: int) -> list[float]:
    """The middle of all parts between the least and 1 that fit on the GPUs: what an interior-point solver answers."""

    def at(price: float) -> list[float]:
        found = []
        for low, width in zip(least, widths, strict=True):
            room, cost = 1 - low, price * width
            found.append(low + 2 * room / (cost * room + 2 + math.sqrt(cost * cost * room * room + 4)))
        return found

    def spare(parts: Sequence[float]) -> float:
        return gpus - math.fsum(width * part for width, part in zip(widths, parts, strict=True))

    if spare(least) <= 1e-9:
        return list(least)
    low, high = 1e-9, 1e12
    for _ in range(100):
        price = math.sqrt(low * high)
        low, high = (price, high) if spare(at(price)) < 1 / price else (low, price)
    return at(high)


def _narrowed(low: float, high: float, near: float, fits: Callable[[float], bool]) -> float:
    """The least value between two that fits, as near as asked for."""
    while low * near < high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _fit(parts: Sequence[float], jobs: Sequence[Learner], gpus: int) -> bool:
    taken = math.fsum(part * job.width for part, job in zip(parts, jobs, strict=True))
    return all(0 <= part <= 1 for part in parts) and taken <= gpus


def max_min(jobs: Sequence[Learner], gpus: int, now: float) -> list[float]:  # noqa: ARG001 - not needed here
    """Gavel without knowledge of speeds: the least GPU-time anybody has is as much as it can be."""
    widths = [job.width for job in jobs]
    each = min(gpus / len(jobs), *widths)
    return center([each / width for width in widths], widths, gpus)


def gandiva_fair(jobs: Sequence[Learner], gpus: int, now: float) -> list[float]:  # noqa: ARG001 - not needed here
    """The same part for everybody, however wide."""
    return [min(gpus / len(jobs), 1.0)] * len(jobs)


def min_makespan(jobs: Sequence[Learner], gpus: int, now: float) -> list[float]:  # noqa: ARG001 - not needed here
    """Parts with which all that is there ends as soon as it can."""

    def least(until: float) -> list[float]:
        return [job.left / job.rate / until for job in jobs]

    until = _narrowed(LEAST_T, MOST_T, NEAR_T, lambda until: _fit(least(until), jobs, gpus))
    return center(least(until), [job.width for job in jobs], gpus)


def long_and_short(jobs: Sequence[Learner], gpus: int, now: float) -> list[float]:  # noqa: ARG001 - not needed here
    """Ours, for what Shockwave aims at without its search: the longest get what lets all end as soon as they can, and
    the others the rest, the more the shorter they are."""
    lasts = [job.left / job.rate for job in jobs]
    until = _narrowed(LEAST_T, MOST_T, NEAR_T, lambda until: _fit([each / until for each in lasts], jobs, gpus))
    least = [each / until if each >= LONG * max(lasts) else 0.0 for each in lasts]

    def at(price: float) -> list[float]:
        wanted = (1 / (price * each * job.width) for each, job in zip(lasts, jobs, strict=True))
        return [min(max(part, low), 1.0) for part, low in zip(wanted, least, strict=True)]

    return at(_narrowed(1e-12, 1e12, 1 + 1e-9, lambda price: _fit(at(price), jobs, gpus)))


def finish_time(jobs: Sequence[Learner], gpus: int, now: float) -> list[float]:
    """Themis: the worst stretch over an equal part of the cluster of one's own is as small as it can be."""
    alone = [_alone(job, gpus / len(jobs)) for job in jobs]

    def least(stretch: float) -> list[float]:
        rests = [stretch * own - (now - job.arrived) for job, own in zip(jobs, alone, strict=True)]
        return [job.left / job.rate / rest if rest > 0 else 2.0 for job, rest in zip(jobs, rests, strict=True)]

    stretch = _narrowed(1e-6, 1e6, 1 + 1e-9, lambda stretch: _fit(least(stretch), jobs, gpus))
    return center(least(stretch), [job.width for job in jobs], gpus)


def _alone(job: Learner, share: float) -> float:
    """How long the job takes from beginning to end with its equal part of the cluster."""
    if job.last is not None:
        job.alone_s += (job.last[0] - job.left) / job.last[1]
    rate = job.rate * min(share / job.width, 1.0)
    job.last = (job.left, rate)
    return job.alone_s + job.left / rate


class AlloX:
    """Shortest first, and whoever has been given all of its time keeps it."""

    def __init__(self) -> None:
        self._given: dict[str, float] = {}

    def __call__(self, jobs: Sequence[Learner], gpus: int, now: float) -> list[float]:  # noqa: ARG002 - not needed here
        """Parts for the shortest jobs that have none yet."""
        fixed = [job for job in jobs if self._given.get(job.name) == 1.0]
        others = sorted((job for job in jobs if job not in fixed), key=lambda job: job.left / job.rate)
        self._given = {job.name: self._given.get(job.name, 0.0) for job in jobs}
        self._given.update({job.name: 1 / job.width for job in others[: max(gpus - len(fixed), 0)]})
        return [self._given[job.name] for job in jobs]


POLICIES: dict[str, Callable[[], Parts]] = {
    "max-min": lambda: max_min,
    "finish-time": lambda: finish_time,
    "allox": AlloX,
    "gandiva-fair": lambda: gandiva_fair,
    "min-makespan": lambda: min_makespan,
    "long-and-short": lambda: long_and_short,
}


class Rounds:
    """All jobs of a trace under one policy. `adapt` looks at a job after every round, `grown` when it has run."""

    def __init__(self, jobs: Sequence[Learner], gpus: int, parts: Parts) -> None:
        self.gpus = gpus
        self.now = min(job.arrived for job in jobs)
        self.active: list[Learner] = []
        self._coming = sorted(jobs, key=lambda job: job.arrived)
        self._parts_of = parts
        self._parts: dict[str, float] = {}
        self._parts_at = 0.0
        self._stale = False
        self._held_s = 0.0
        self._before: set[str] = set()

    def play(self, flag: Callable[[Learner], int], rescale: Callable[[Learner, int], None]) -> None:
        """Until everybody is done."""
        wanted: dict[str, int] = {}
        self._arrive()
        while self.active:
            chosen = self._chosen()
            self._run(chosen, wanted, rescale)
            wanted = {job.name: flag(job) for job in self.active}
            self._arrive()

    def _arrive(self) -> None:
        if not self.active and self._coming:
            self.now = max(self.now, self._coming[0].arrived)
        while self._coming and self._coming[0].arrived <= self.now:
            self.active.append(self._coming.pop(0))
            self._stale = True

    def _chosen(self) -> list[Learner]:
        """Who runs in the next round."""
        if self._stale and (self._parts_at == 0 or self.now - self._parts_at >= KEEP_S):
            self._compute()
        free, chosen = self.gpus, []
        for job in sorted(self.active, key=self._rank, reverse=True):
            if job.width <= free:
                free -= job.width
                chosen.append(job)
        return [job for job in chosen if job.name in self._parts]

    def _rank(self, job: Learner) -> tuple[float, float, float]:
        part = self._parts.get(job.name, 0.0)
        held = job.held_s / self._held_s if self._held_s else 0.0
        return (part / held if held else 1e9 * part, job.behind_s, part)

    def _compute(self) -> None:
        for job in self.active:
            job.behind_s += self._parts.get(job.name, 0.0) * (self.now - self._parts_at) - (job.held_s - ROUND_S / 2)
            job.held_s = ROUND_S / 2
        self._held_s = len(self.active) * ROUND_S / 2
        parts = self._parts_of(self.active, self.gpus, self.now)
        self._parts = {job.name: part for job, part in zip(self.active, parts, strict=True)}
        self._parts_at, self._stale = self.now, False

    def _run(self, chosen: list[Learner], wanted: dict[str, int], rescale: Callable[[Learner, int], None]) -> None:
        begun = self.now
        for job in chosen:
            steps = min(int(job.rate * ROUND_S), job.left)
            lasts = steps / job.rate
            self.now = max(self.now, begun + lasts)
            job.ended = begun + lasts
            if self._before and job.name not in self._before and lasts > ROUND_S - SHORT_S:
                steps = int(steps * (lasts - RESUME_S) / lasts)
                lasts -= RESUME_S
            job.done += steps
            job.held_s += lasts
            self._held_s += lasts
            if job.left > 0:
                job.ended = None
                if wanted.get(job.name):
                    rescale(job, wanted[job.name])
        if not chosen:
            self.now += ROUND_S
        self._before = {job.name for job in chosen}
        over = [job for job in self.active if job.ended is not None]
        self._stale = self._stale or bool(over)
        self.active = [job for job in self.active if job.ended is None]
