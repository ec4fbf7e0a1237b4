"""The protocol of the Sia study (SOSP 2023): GPUs of several kinds, jobs of profiles measured on each, Gavel in rounds
of six minutes at the sizes the users tuned.

Gavel gives every job a part of the time on each kind of GPU, so that all steps together are most, and in every round
starts those that are furthest behind their part.
"""

import csv
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from tutti.sim.profiles import EPSILON, Batch, Profile, compact

from .fair_rounds import Learner, Parts
from .pollux import Allocation, Marginal, Trainee, completion_times, play_rounds
from .simplex import largest

ROUND_S = 360
RESTART_S = {"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15}
SLOWER = {"cifar10": 1.8, "ncf": 1.5}
OTHERS_SLOWER = 1.2
"""How much slower jobs were on a real cluster than their profiles say."""
TOO_WIDE = 0.1
"""The rate of a job on a kind of GPU that it is too wide for."""


class Pool(NamedTuple):
    """Nodes of one kind of GPU."""

    kind: str
    nodes: int
    each: int

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.each


MIXED = (Pool("aws", 6, 4), Pool("dgx-ext", 2, 8), Pool("rtx", 3, 8))
EQUAL = (Pool("aws", 16, 4),)


class Result(NamedTuple):
    """What came of some workloads, each of the same weight in a makespan."""

    completion_h: float
    p99_h: float
    makespan_h: float
    gpu_hours: float
    restarts: float


class Nomad(Trainee):
    """A job that moves between kinds of GPUs."""

    profiles: dict[str, Profile] = {}
    kind: str = ""
    starts: int = 0
    gpu_s: int = 0
    slower: float = 1.0
    rate_of: dict[str, float] = {}
    parts: dict[str, float] = {}
    held_s: dict[str, float] = {}

    def move(self, kind: str, placement: tuple[int, ...]) -> None:
        """Other GPUs from the next round on, or none; the same shape on the same kind costs nothing."""
        if placement and (kind, placement) != (self.kind, self.placement):
            self.profile = self.profiles[kind]
            self.split = self.split_on(kind, placement)
            self.paused = self.pause()
            self.starts += 1
        self.kind, self.placement = kind, placement

    def give(self, nodes: Allocation) -> None:
        """Other GPUs of the same kind from now on, or none."""
        super().give(nodes)
        if nodes:
            self.paused = self.pause()

    def pause(self) -> int:
        """How long it stands still when its GPUs change."""
        return RESTART_S.get(self.profile.name, 30)

    def split_on(self, kind: str, placement: tuple[int, ...]) -> Batch:
        """The batch as it is divided over so many GPUs of a kind."""
        profile, replicas = self.profiles[kind], sum(placement)
        local, most = math.ceil(self.batch / replicas - EPSILON), profile.most_local_on(placement)
        extra = math.ceil(local / most - EPSILON) - 1
        if replicas == 1 and self.batch > profile.first_batch:
            extra = max(extra, 1)
        each = min(math.ceil(local / (extra + 1) - EPSILON), most)
        return Batch(min(each, profile.most_batch // (replicas * (extra + 1))), extra)

    def _goodput(self) -> float:
        return super()._goodput() / self.slower

    def rate(self, pool: Pool) -> float:
        """Steps in a second on a kind of GPU, packed tightly."""
        if self.replicas > pool.gpus:
            return TOO_WIDE
        placement = compact(self.replicas, pool.each)
        split = self.split_on(pool.kind, placement)
        step, sync = self.profiles[pool.kind].step(placement, split.local)
        return 1 / (step + (step - sync) * split.extra)


Placements = dict[str, tuple[str, tuple[int, ...]]]
"""Kind of GPU and GPUs per node, by job."""


class Gavel:
    """Parts of the time by a linear program, and rounds that follow them."""

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        self.pools = pools
        self._total = {pool.kind: 0.0 for pool in pools}
        self._seats: Placements = {}
        """Kind of GPU and numbers of the GPUs of each job in the last round."""

    def placements(self, jobs: list[Nomad], now: int) -> Placements:
        """Kind of GPU and GPUs per node of whoever runs in the next round."""
        for job in jobs:
            if not job.held_s:
                self._enter(job)
        self._share(jobs, now)
        chosen = self._chosen(jobs)
        self._seats = {name: seat for pool in self.pools for name, seat in self._seated(pool, chosen[pool.kind])}
        for job in jobs:
            if job.name in self._seats:
                kind = self._seats[job.name][0]
                job.held_s[kind] += ROUND_S
                self._total[kind] += ROUND_S
        each = {pool.kind: pool.each for pool in self.pools}
        return {name: (kind, _runs(seats, each[kind])) for name, (kind, seats) in self._seats.items()}

    def _enter(self, job: Nomad) -> None:
        job.held_s = {pool.kind: ROUND_S / 2 for pool in self.pools}
        job.rate_of = {pool.kind: job.rate(pool) for pool in self.pools}
        for kind in self._total:
            self._total[kind] += ROUND_S / 2

    def _share(self, jobs: list[Nomad], now: int) -> None:  # noqa: ARG002 - the moment does not matter
        """Parts of the time on every kind; jobs that are alike have alike parts."""
        groups: dict[tuple[float, ...], list[Nomad]] = {}
        for job in jobs:
            groups.setdefault((job.replicas, *job.rate_of.values()), []).append(job)
        kinds, classes = len(self.pools), list(groups.values())
        c = np.array([job.rate_of[pool.kind] for job, *_ in classes for pool in self.pools])
        a = np.zeros((len(classes) + kinds, len(c)))
        for at, (job, *_) in enumerate(classes):
            a[at, at * kinds : (at + 1) * kinds] = 1
            for column in range(kinds):
                a[len(classes) + column, at * kinds + column] = job.replicas
        b = np.array([*(len(each) for each in classes), *(pool.gpus for pool in self.pools)], np.float64)
        shares = largest(c, a, b).reshape(len(classes), kinds)
        for each, row in zip(classes, shares, strict=True):
            for job in each:
                parts = [round(min(float(part) / len(each), 1.0), 5) for part in row]
                job.parts = {pool.kind: part for pool, part in zip(self.pools, parts, strict=True)}

    def _chosen(self, jobs: list[Nomad]) -> dict[str, list[Nomad]]:
        """Who runs on which kind: the furthest behind first, and what still fits."""
        queue = [(job, pool.kind) for pool in self.pools for job in jobs]
        queue.sort(key=lambda entry: self._rank(*entry), reverse=True)
        free, chosen = {pool.kind: pool.gpus for pool in self.pools}, {pool.kind: list[Nomad]() for pool in self.pools}
        taken: set[str] = set()
        for job, kind in queue:
            if job.name not in taken and job.replicas <= free[kind]:
                free[kind] -= job.replicas
                chosen[kind].append(job)
                taken.add(job.name)
        return chosen

    def _rank(self, job: Nomad, kind: str) -> tuple[float, float]:
        part = job.parts[kind]
        return part / (job.held_s[kind] / self._total[kind]), part

    def _seated(self, pool: Pool, jobs: list[Nomad]) -> list[tuple[str, tuple[str, tuple[int, ...]]]]:
        """GPUs for those chosen: wide ones first, where they were if that is still free."""
        used: set[int] = set()
        seats: dict[str, tuple[int, ...]] = {}
        for width in sorted({job.replicas for job in jobs}, reverse=True):
            alike = [job.name for job in jobs if job.replicas == width]
            for name in alike:
                kind, before = self._seats.get(name, ("", ()))
                if kind == pool.kind and not used & set(before):
                    seats[name] = before
                    used |= set(before)
            for name in alike:
                if name not in seats:
                    seats[name] = tuple(gpu for gpu in range(pool.gpus) if gpu not in used)[:width]
                    used |= set(seats[name])
        return [(name, (pool.kind, gpus)) for name, gpus in seats.items()]


class Fair(Gavel):
    """Gavel's rounds on equal GPUs, with parts of the time by a rule of fairness."""

    def __init__(self, pools: tuple[Pool, ...], rule: Parts) -> None:
        super().__init__(pools)
        self._rule = rule
        self._known: dict[str, Learner] = {}

    def _share(self, jobs: list[Nomad], now: int) -> None:
        (pool,) = self.pools
        parts = self._rule([self._learner(job, pool.kind) for job in jobs], pool.gpus, now)
        for job, part in zip(jobs, parts, strict=True):
            job.parts = {pool.kind: part}

    def _learner(self, job: Nomad, kind: str) -> Learner:
        """The job as the rule knows it: steps at the batch its user tuned."""
        last = job.profile.epochs - 1
        steps, done = (round(job.profile.iterations(job.batch, epoch)) for epoch in (last, min(job.epoch, last)))
        rate = job.rate_of[kind] / job.slower
        known = self._known.setdefault(
            job.name, Learner(job.name, "", job.replicas, "static", job.batch, job.batch, steps, job.submitted, rate)
        )
        known.done = min(done, steps - 1)
        return known


def _runs(gpus: tuple[int, ...], each: int) -> tuple[int, ...]:
    """GPUs per node."""
    return tuple(Counter(gpu // each for gpu in gpus).values())


def read_workload(path: Path, profiles: Path, pools: tuple[Pool, ...]) -> list[Nomad]:
    """The jobs of a workload, with their profiles on every kind of GPU."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    known = {
        name: {pool.kind: Profile(profiles / name, pool.kind) for pool in pools}
        for name in sorted({row["application"] for row in rows})
    }
    return [
        Nomad(
            row["name"],
            next(iter(known[row["application"]].values())),
            round(float(row["time"])),
            int(row["num_replicas"]),
            int(row["batch_size"]),
            profiles=known[row["application"]],
            slower=SLOWER.get(row["application"], OTHERS_SLOWER),
        )
        for row in rows
    ]


class Rule(Protocol):
    """Decides at the end of every round who runs where."""

    def placements(self, jobs: list[Nomad], now: int) -> Placements:
        """Kind of GPU and GPUs per node of whoever runs in the next round."""


def play(jobs: list[Nomad], policy: Rule, round_s: int = ROUND_S) -> None:
    """Round by round until all have ended."""

    def decide(active: list[Nomad], now: int) -> None:
        placed = policy.placements(active, now)
        for job in active:
            job.move(*placed.get(job.name, ("", ())))
            job.gpu_s += round_s * sum(job.placement)

    play_rounds(jobs, decide, round_s)


def marginal_h(files: list[Path], profiles: Path) -> float:
    """Mean completion under our own elastic rule on equal GPUs, by this study's costs and speeds."""
    means = []
    for path in files:
        times = completion_times(list[Trainee](read_workload(path, profiles, EQUAL)), Marginal())
        means.append(math.fsum(times.values()) / len(times) / 3600)
    return math.fsum(means) / len(means)


def results(
    files: list[Path],
    profiles: Path,
    pools: tuple[Pool, ...],
    rule: Callable[[tuple[Pool, ...]], Rule] = Gavel,
    round_s: int = ROUND_S,
) -> Result:
    """All workloads under a rule."""
    played = []
    for path in files:
        jobs = read_workload(path, profiles, pools)
        play(jobs, rule(pools), round_s)
        played.append(jobs)
    every = [job for jobs in played for job in jobs]
    times = sorted((job.ended or 0) - job.submitted for job in every)
    spans = [max(job.ended or 0 for job in jobs) - min(job.submitted for job in jobs) for jobs in played]
    return Result(
        math.fsum(times) / len(times) / 3600,
        times[int(0.99 * len(times))] / 3600,
        math.fsum(spans) / len(spans) / 3600,
        sum(job.gpu_s for job in every) / len(every) / 3600,
        sum(job.starts - 1 for job in every) / len(every),
    )
