"""An elastic rule that does not know that GPUs differ, on several kinds of them: how Sia's study sets up Pollux there.

It sees virtual nodes of four GPUs, all alike. Whoever is given GPUs of several kinds keeps those of which it has most,
and the rest stands idle until the next time.
"""

from collections import Counter

from .pollux import GPUS_PER_NODE, Allocation, Marginal, Trainee, best, place
from .sia import Nomad, Placements, Pool

FASTEST_FIRST = ("dgx-ext", "rtx", "aws")
"""Which kind is kept where two have equally many."""


class Blind:
    """GPUs dealt one by one as if all were alike, and what does not belong together is dropped."""

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        self._real = [
            (pool.kind, node)
            for pool in pools
            for node in range(pool.nodes)
            for _ in range(0, pool.each, GPUS_PER_NODE)
        ]
        """Kind and number of the node behind each virtual one."""
        self._sizes = Marginal()
        self._held: dict[str, Allocation] = {}

    def placements(self, jobs: list[Nomad], now: int) -> Placements:
        """Kind of GPU and GPUs per node of whoever runs in the next round."""
        known = list[Trainee](jobs)
        here = {job.name for job in jobs}
        held = {name: nodes for name, nodes in self._held.items() if name in here}
        self._held = place(self._sizes.sizes(known, now), held)
        placed = {job.name: kept([self._real[node] for node in self._held.get(job.name, ())]) for job in jobs}
        for job in jobs:
            kind, placement = placed[job.name]
            if placement and (kind, placement) != (job.kind, job.placement):
                job.batch = best(job.profiles[kind], placement, job.epoch)[1]
        return placed


def kept(where: list[tuple[str, int]]) -> tuple[str, tuple[int, ...]]:
    """Of GPUs by kind and node: the kind there is most of, and the GPUs on each node of it."""
    if not where:
        return "", ()
    count = Counter(kind for kind, _ in where)
    most = min(count, key=lambda each: (-count[each], FASTEST_FIRST.index(each)))
    return most, tuple(Counter(node for kind, node in where if kind == most).values())
