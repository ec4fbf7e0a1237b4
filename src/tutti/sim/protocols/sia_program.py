"""Elastic jobs on several kinds of GPUs: the linear program under Sia's integer one, rounded.

Every job may take one shape: a power of two of GPUs of one node, or whole nodes, of one kind. The speed of each, at the
batch that goes furthest on it, is counted in units of the job's slowest; the program finds shares of shapes that are
worth most, and whole shapes are dealt from the largest share down.
"""

import numpy as np

from tutti.sim.profiles import compact

from .pollux import best
from .sia import Nomad, Placements, Pool
from .simplex import largest

ROUND_S = 60
POWER, SEATED = -0.5, 1.1
"""How little speed counts for the fast, and what it is worth to run at all; as the study has them."""
Shape = tuple[str, tuple[int, ...]]
"""Kind of GPU and GPUs per node."""


def shapes(pool: Pool) -> list[Shape]:
    """What a job may take of a pool: parts of a node, then whole nodes."""
    parts = [1 << at for at in range(pool.each.bit_length()) if 1 << at < pool.each]
    whole = [pool.each * nodes for nodes in range(1, pool.nodes + 1)]
    return [(pool.kind, compact(size, pool.each)) for size in (*parts, *whole)]


class Program:
    """One shape for every job that gets one, of all shapes together those worth most."""

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        self._room = {pool.kind: pool.gpus for pool in pools}
        self._shapes = [shape for pool in pools for shape in shapes(pool)]

    def placements(self, jobs: list[Nomad], now: int) -> Placements:
        """Kind of GPU and GPUs per node of whoever runs in the next round."""
        worth = [self._worth(job, now) for job in jobs]
        dealt = self._dealt(jobs, worth, self._shares(worth))
        for job in jobs:
            kind, placement = dealt.get(job.name, ("", ()))
            if placement and (kind, placement) != (job.kind, job.placement):
                job.batch = best(job.profiles[kind], placement, job.epoch)[1]
        return dealt

    def _worth(self, job: Nomad, now: int) -> list[float]:
        """What each shape is worth to a job; 0 where it cannot use it."""
        speeds = [self._speed(job, shape) for shape in self._shapes]
        slowest = min((speed for speed in speeds if speed > 0), default=1.0)
        age = max(now - job.submitted, ROUND_S)
        lost = job.starts * job.pause()
        kept = max(age - lost, 0) / (age + job.pause())
        found = []
        for shape, speed in zip(self._shapes, speeds, strict=True):
            stays = not job.placement or shape == (job.kind, job.placement)
            unit = speed / slowest * (1 if stays else kept)
            found.append(SEATED - unit**POWER if unit > 0 else 0.0)
        return found

    def _speed(self, job: Nomad, shape: Shape) -> float:
        kind, placement = shape
        profile, size = job.profiles[kind], sum(placement)
        before = sum(job.placement)
        if size > profile.most_batch // profile.least_local or size > max(2 * before, 1):
            return 0.0
        return best(profile, placement, job.epoch)[0]

    def _shares(self, worth: list[list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """The part of each shape that each job has in the program's answer."""
        count, kinds = len(self._shapes), list(self._room)
        a = np.zeros((len(worth) + len(kinds), len(worth) * count))
        for at in range(len(worth)):
            a[at, at * count : (at + 1) * count] = 1
            for column, (kind, placement) in enumerate(self._shapes):
                a[len(worth) + kinds.index(kind), at * count + column] = sum(placement)
        b = np.array([*(1.0 for _ in worth), *self._room.values()], np.float64)
        return largest(np.maximum(np.array(worth).ravel(), 0.0), a, b).reshape(len(worth), count)

    def _dealt(
        self, jobs: list[Nomad], worth: list[list[float]], shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    ) -> Placements:
        """Whole shapes from the largest share down, then whatever still has room."""
        free, given = dict(self._room), Placements()
        wanted = [
            (-shares[row][at], -worth[row][at], row, at) for row in range(len(jobs)) for at in range(len(shares[0]))
        ]
        for _, less, row, at in sorted(wanted):
            kind, placement = self._shapes[at]
            if less < 0 and jobs[row].name not in given and sum(placement) <= free[kind]:
                given[jobs[row].name] = (kind, placement)
                free[kind] -= sum(placement)
        return given
