"""The protocol of the Pollux study (OSDI 2021): rounds of a minute on 16 nodes of 4 GPUs, jobs of measured profiles.

Two of its policies are here: Tiresias, least attained service in two queues at the sizes the users tuned, and Optimus,
which gives the next GPU to the job whose remaining time it shortens most. A third, `marginal`, is ours: it aims at what
Pollux aims at, by simpler means.
"""

import csv
import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tutti.errors import Misused
from tutti.sim.profiles import Batch, Profile, compact

NODES, GPUS_PER_NODE, ROUND_S = 16, 4, 60
RESCALE_S = 30
"""How long a job stands still when its GPUs change."""
BATCHES = 12
"""How many steps there are between the smallest and the largest batch that is tried."""
DEMOTE_AFTER_GPU_S = 16 * 3600
Allocation = list[int]
"""The node of each GPU of a job."""


class Trainee(msgspec.Struct, eq=False):
    """A job of the workload as it goes along."""

    name: str
    profile: Profile
    submitted: int
    replicas: int
    batch: int
    placement: tuple[int, ...] = ()
    split: Batch = Batch(0, 0)
    paused: int = 0
    now: int = 0
    epoch: int = 0
    progress: float = 0.0
    ended: int | None = None

    def give(self, nodes: Allocation) -> None:
        """Other GPUs from now on, or none."""
        self.placement = tuple(Counter(nodes).values())
        if nodes:
            self.paused = RESCALE_S
            self._divide()

    def _divide(self) -> None:
        replicas = sum(self.placement)
        self.split = self.profile.split(self.batch, replicas, replicas == 1 and self.batch > self.profile.first_batch)

    def pass_time(self, seconds: int) -> None:
        """Train for a while, epoch by epoch."""
        end = self.now + seconds
        if self.placement and self.ended is None:
            pause = min(self.paused, seconds)
            self.paused -= pause
            self.now += pause
            while self.now < end and self.ended is None:
                self._train(end)
        self.now = end

    def _train(self, end: int) -> None:
        goodput = self._goodput()
        next_progress = self.profile.progress_after(self.epoch + 1)
        if self.progress + goodput * (end - self.now) < next_progress:
            self.progress += goodput * (end - self.now)
            self.now = end
            return
        self.epoch += 1
        self.now += round((next_progress - self.progress) / goodput)
        self.progress = next_progress
        if self.epoch >= self.profile.epochs:
            self.ended = self.now

    def tune(self, size: int) -> None:
        """The global batch that goes furthest on so many GPUs."""
        self.batch = self.best(size)[1]
        if sum(self.placement) == size:
            self._divide()

    def best(self, size: int) -> tuple[float, int]:
        """The best goodput on so many GPUs packed tightly, and the batch that has it."""
        return best(self.profile, compact(size, GPUS_PER_NODE), self.epoch)

    def _goodput(self) -> float:
        return goodput(self.profile, self.placement, self.split, self.epoch)


AnyTrainee = TypeVar("AnyTrainee", bound=Trainee)


def goodput(profile: Profile, placement: tuple[int, ...], split: Batch, epoch: int) -> float:
    """Progress in a second: how far a step goes, over how long it takes."""
    batch = sum(placement) * split.local * (split.extra + 1)
    step, sync = profile.step(placement, split.local)
    sqr, var = profile.gradients(batch, epoch)
    gain = (var + sqr) / (var / (batch / profile.first_batch) + sqr)
    return gain / (step + (step - sync) * split.extra)


@cache
def best(profile: Profile, placement: tuple[int, ...], epoch: int) -> tuple[float, int]:
    """The best goodput on these GPUs per node, and the batch that has it."""
    size = sum(placement)
    low, high = max(profile.first_batch, size * profile.least_local), profile.most_batch
    tried = {round(low * (high / low) ** (part / BATCHES)) for part in range(BATCHES + 1)} if high > low else {high}
    found = []
    for batch in sorted(tried):
        split = profile.split(batch, size, size == 1 and batch > profile.first_batch)
        if split.local >= 1:
            found.append((goodput(profile, placement, split, epoch), batch))
    return max(found) if found else (0.0, profile.first_batch)


class RoundPolicy(Protocol):
    """Decides at the end of every round who has how many GPUs."""

    def sizes(self, jobs: list[Trainee], now: int) -> dict[str, int]:
        """GPUs of each job, in the order in which places are given."""


class Tiresias:
    """Jobs that have had little service go first; a job that has had much falls behind all of those, for good."""

    def __init__(self) -> None:
        self._fresh: list[str] = []
        self._served: list[str] = []
        self._ran: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._running: set[str] = set()

    def sizes(self, jobs: list[Trainee], now: int) -> dict[str, int]:
        """Each job at the size its user tuned, as many as there is room for, skipping those that do not fit."""
        here = {job.name: job for job in jobs}
        self._fresh = [name for name in self._fresh if name in here]
        self._served = [name for name in self._served if name in here]
        known = {*self._fresh, *self._served}
        self._fresh += [job.name for job in jobs if job.name not in known]
        for job in jobs:
            self._count(job, now)
        return self._chosen(here)

    def _count(self, job: Trainee, now: int) -> None:
        if job.name in self._running:
            self._ran[job.name] = self._ran.get(job.name, 0) + now - self._last[job.name]
            if job.name in self._fresh and self._ran[job.name] * job.replicas >= DEMOTE_AFTER_GPU_S:
                self._fresh.remove(job.name)
                self._served.append(job.name)
        self._last[job.name] = now

    def _chosen(self, here: dict[str, Trainee]) -> dict[str, int]:
        free, chosen = NODES * GPUS_PER_NODE, {}
        for name in [*self._fresh, *self._served]:
            if here[name].replicas <= free:
                chosen[name] = here[name].replicas
                free -= here[name].replicas
        self._running = set(chosen)
        return chosen


class Optimus:
    """One GPU for everybody, then the next one to whoever saves most time with it."""

    def sizes(self, jobs: list[Trainee], now: int) -> dict[str, int]:  # noqa: ARG002 - the moment does not matter
        """GPUs of each job by marginal gain."""
        free = NODES * GPUS_PER_NODE
        sizes = {job.name: 1 if at < free else 0 for at, job in enumerate(jobs)}
        free -= sum(sizes.values())
        here = {job.name: job for job in jobs}
        left = {job.name: self._steps_left(job) for job in jobs}
        gains = {job.name: self._gain(job, 1, left[job.name]) if sizes[job.name] else 0.0 for job in jobs}
        if free < 1:
            gains = dict.fromkeys(gains, 0.0)
        while free > 0 and max(gains.values()) > 0:
            name = max(gains, key=lambda each: gains[each])
            sizes[name] += 1
            gains[name] = self._gain(here[name], sizes[name], left[name])
            free -= 1
        return dict(sorted(sizes.items(), key=lambda entry: entry[1]))

    def _steps_left(self, job: Trainee) -> float:
        last = job.profile.epochs - 1
        if job.epoch >= last:
            return 1.0
        return job.profile.iterations(job.batch, last) - job.profile.iterations(job.batch, job.epoch)

    def _gain(self, job: Trainee, size: int, left: float) -> float:
        most = 1 if job.profile.name == "ncf" else job.batch // job.profile.least_local
        if size + 1 > most:
            return 0.0
        return (predicted_step(job, size) - predicted_step(job, size + 1)) * left


class Marginal:
    """Elastic by marginal goodput: batch sizes are free, and the next GPU goes to whom it helps most in proportion.

    It aims at what Pollux aims at and is no copy of its genetic search: GPUs are dealt one by one so that the product
    of all speeds is largest, and dealt anew when jobs come or go, or after a while.
    """

    PATIENCE_S = 600

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._dealt_at = 0

    def sizes(self, jobs: list[Trainee], now: int) -> dict[str, int]:
        """GPUs of each job; the widest choose their places first."""
        names = {job.name for job in jobs}
        if names != set(self._last) or now - self._dealt_at >= self.PATIENCE_S:
            self._last, self._dealt_at = self._dealt(jobs), now
        for job in jobs:
            size = self._last[job.name]
            if size:
                job.tune(size)
        return dict(sorted(self._last.items(), key=lambda entry: -entry[1]))

    def _dealt(self, jobs: list[Trainee]) -> dict[str, int]:
        free = NODES * GPUS_PER_NODE
        sizes = {job.name: 1 if at < free else 0 for at, job in enumerate(jobs)}
        free -= sum(sizes.values())
        gains = {job.name: self._gain(job, 1) for job in jobs if sizes[job.name]}
        here = {job.name: job for job in jobs}
        while free > 0 and gains and max(gains.values()) > 0:
            name = max(gains, key=lambda each: gains[each])
            sizes[name] += 1
            gains[name] = self._gain(here[name], sizes[name])
            free -= 1
        return sizes

    def _gain(self, job: Trainee, size: int) -> float:
        if size + 1 > job.profile.most_batch // job.profile.least_local:
            return 0.0
        return math.log(job.best(size + 1)[0] / job.best(size)[0])


def predicted_step(job: Trainee, size: int) -> float:
    """Time of a step at a size, packed tightly."""
    split = job.profile.split(job.batch, size, size == 1)
    step, sync = job.profile.step(compact(size, GPUS_PER_NODE), split.local)
    return step + (step - sync) * split.extra


def place(sizes: dict[str, int], held: dict[str, Allocation]) -> dict[str, Allocation]:
    """Nodes for every job: whoever keeps its size keeps its place, others take the emptiest nodes first."""
    kept = {name: nodes for name, nodes in held.items() if sizes.get(name) == len(nodes)}
    used = Counter(node for nodes in kept.values() for node in nodes)
    free = {node: GPUS_PER_NODE - used[node] for node in range(NODES)}
    for name, size in sizes.items():
        if size and name not in kept:
            kept[name] = _emptiest(free, size)
    return kept


def _emptiest(free: dict[int, int], size: int) -> Allocation:
    nodes: Allocation = []
    while len(nodes) < size:
        node = max(free, key=lambda each: free[each])
        taken = min(free[node], size - len(nodes))
        nodes += [node] * taken
        free[node] -= taken
    return nodes


def play_rounds(jobs: list[AnyTrainee], decide: Callable[[list[AnyTrainee], int], None], round_s: int) -> None:
    """Round by round until all have ended; after each, it is decided who of those that are there goes on where."""
    now = 0
    while any(job.ended is None for job in jobs):
        for job in jobs:
            job.pass_time(round_s)
        now += round_s
        active = [job for job in jobs if job.submitted <= now and job.ended is None]
        if active:
            decide(active, now)


def completion_times(jobs: list[Trainee], policy: RoundPolicy, round_s: int = ROUND_S) -> dict[str, int]:
    """Seconds from submission to completion of every job."""
    held: dict[str, Allocation] = {}

    def decide(active: list[Trainee], now: int) -> None:
        nonlocal held
        held = {job.name: held[job.name] for job in active if job.name in held}
        given = place(policy.sizes(active, now), held)
        for job in active:
            if given.get(job.name) != held.get(job.name):
                job.give(given.get(job.name, []))
        held = given

    play_rounds(jobs, decide, round_s)
    return {job.name: (job.ended or 0) - job.submitted for job in jobs}


POLICIES: dict[str, type[RoundPolicy]] = {"tiresias": Tiresias, "optimus": Optimus, "marginal": Marginal}


def read_workload(path: Path, profiles: Path) -> list[Trainee]:
    """The jobs of a workload file, each with its measured profile."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    known = {name: Profile(profiles / name) for name in sorted({row["application"] for row in rows})}
    return [
        Trainee(
            row["name"], known[row["application"]], int(row["time"]), int(row["num_replicas"]), int(row["batch_size"])
        )
        for row in rows
    ]


def mean_completion_s(path: Path, profiles: Path, policy: str, round_s: int = ROUND_S) -> float:
    """Average completion time of one workload under one policy."""
    if policy not in POLICIES:
        raise Misused(f"this protocol has no policy {policy!r}", hint=f"one of {', '.join(POLICIES)}")
    times = completion_times(read_workload(path, profiles), POLICIES[policy](), round_s)
    return math.fsum(times.values()) / len(times)
