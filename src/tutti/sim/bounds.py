"""What no scheduler can beat: lower bounds on makespan, completion time and slowdown of a set of jobs.

They hold for rigid gangs on so many devices whatever the policy. `squashed` bounds pretend that the cluster is one
machine that can give all its devices to any job.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from tutti.engine.model import Data

THRESHOLD_S = 10


class Job(NamedTuple):
    """A job for the bounds: released when, how wide, how long. Times in seconds."""

    release: float
    width: int
    run: float


class Bounds(Data, frozen=True):
    """The best that could be had, in seconds; slowdown is a plain number."""

    makespan_s: float
    avg_flow_s: float
    avg_wait_s: float
    avg_bounded_slowdown: float
    by: str
    """Which bound on the average completion is the largest: run-time, squashed or busy-time."""


def bounds(jobs: Sequence[Job], devices: int) -> Bounds:
    """All bounds of a set of jobs on so many devices."""
    kinds = {
        "run-time": sum(job.run for job in jobs) / len(jobs),
        "squashed": squashed_flow(jobs, devices),
        "busy-time": busy_time_flow(jobs, devices),
    }
    best = max(kinds, key=lambda kind: kinds[kind])
    return Bounds(
        makespan(jobs, devices),
        kinds[best],
        max(kinds[best] - kinds["run-time"], 0.0),
        bounded_slowdown(jobs, devices),
        best,
    )


def makespan(jobs: Sequence[Job], devices: int) -> float:
    """From the first release to the earliest possible end of the last job."""
    first = min(job.release for job in jobs)
    longest = max(job.release + job.run for job in jobs)
    area, dense = 0.0, 0.0
    for job in sorted(jobs, key=lambda job: -job.release):
        area += job.width * job.run
        dense = max(dense, job.release + area / devices)
    wide = [job for job in jobs if 2 * job.width > devices]
    exclusive = min((job.release for job in wide), default=0.0) + sum(job.run for job in wide)
    return max(longest, dense, exclusive) - first


def squashed_flow(jobs: Sequence[Job], devices: int) -> float:
    """Shortest remaining area first on one machine that gives all devices to one job: the mean time to completion."""
    total = 0.0
    now, queue, left = 0.0, list[tuple[float, float]](), sorted(jobs, key=lambda job: job.release)
    at = 0
    while at < len(left) or queue:
        if not queue:
            now = max(now, left[at].release)
        while at < len(left) and left[at].release <= now:
            heapq.heappush(queue, (left[at].width * left[at].run / devices, left[at].release))
            at += 1
        size, release = heapq.heappop(queue)
        limit = left[at].release if at < len(left) else float("inf")
        if now + size <= limit:
            now += size
            total += now - release
        else:
            heapq.heappush(queue, (size - (limit - now), release))
            now = limit
    return total / len(jobs)


def busy_time_flow(jobs: Sequence[Job], devices: int) -> float:
    """Mean busy times of the best preemptive order on the squashed machine, plus half of each run."""
    return _busy_time(jobs, devices, [1.0] * len(jobs))


def bounded_slowdown(jobs: Sequence[Job], devices: int) -> float:
    """The same with each job weighted by its length; never below one."""
    weights = [1.0 / max(job.run, THRESHOLD_S) for job in jobs]
    return max(_busy_time(jobs, devices, weights), 1.0)


def _busy_time(jobs: Sequence[Job], devices: int, weights: Sequence[float]) -> float:
    """The weighted sum of (mean busy time + half a run - release) over the jobs, divided by their number."""
    total = sum(weight * (job.run / 2 - job.release) for job, weight in zip(jobs, weights, strict=True))
    order = sorted(range(len(jobs)), key=lambda index: jobs[index].release)
    sizes = [max(job.width * job.run / devices, 1e-9) for job in jobs]
    remaining = list(sizes)
    queue: list[tuple[float, int]] = []
    now, at = 0.0, 0
    while at < len(order) or queue:
        if not queue:
            now = max(now, jobs[order[at]].release)
        while at < len(order) and jobs[order[at]].release <= now:
            index = order[at]
            heapq.heappush(queue, (-weights[index] / sizes[index], index))
            at += 1
        index = queue[0][1]
        limit = jobs[order[at]].release if at < len(order) else float("inf")
        piece = min(remaining[index], limit - now)
        total += weights[index] * (now + piece / 2) * piece / sizes[index]
        now += piece
        remaining[index] -= piece
        if remaining[index] <= 1e-12:
            heapq.heappop(queue)
    return total / len(jobs)
