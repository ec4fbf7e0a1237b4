"""Packing shares of GPUs, as the study of fragmentation on Alibaba's openb cluster does (FGD, ATC 2023).

Pods arrive until they ask for 130 % of all GPUs, none leaves, and what counts is the part of the GPUs that is given
away. Shares of a GPU exist here alone: the scheduler gives whole devices.
"""

import csv
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.errors import Misused, NotFound

WHOLE = 1000
MOST_GPUS = 8
ARRIVALS = 1.3
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Pod(NamedTuple):
    """What one pod asks for; `share` is of each of its GPUs, in thousandths."""

    cpu: int
    memory: int
    gpus: int
    share: int
    models: frozenset[str]


class Nodes:
    """Free amounts of every node; GPUs one by one, -1 where a node has fewer."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        count = [int(row["gpu"]) for row in rows]
        self.cpu = np.array([int(row["cpu_milli"]) for row in rows], np.int64)
        self.memory = np.array([int(row["memory_mib"]) for row in rows], np.int64)
        self.gpu = np.where(np.arange(MOST_GPUS) < np.array(count)[:, None], WHOLE, -1).astype(np.int64)
        self.model = np.array([row["model"] for row in rows])
        self.most_cpu = int(self.cpu.max())
        self.capacity = int(sum(count)) * WHOLE
        self._by_models: dict[frozenset[str], NDArray[np.bool_]] = {}

    def fitting(self, pod: Pod) -> Ints:
        """Nodes that can take the pod."""
        fits = (self.cpu >= pod.cpu) & (self.memory >= pod.memory)
        if pod.models:
            known = self._by_models.get(pod.models)
            if known is None:
                known = self._by_models[pod.models] = np.isin(self.model, sorted(pod.models))
            fits &= known
        if pod.gpus:
            fits &= (self.gpu >= pod.share).sum(1) >= pod.gpus
        return np.flatnonzero(fits)

    def take(self, node: int, pod: Pod) -> None:
        """Give the pod the fullest GPUs of a node that still have its share."""
        self.cpu[node] -= pod.cpu
        self.memory[node] -= pod.memory
        row = self.gpu[node]
        for _ in range(pod.gpus):
            room = np.where(row >= pod.share, row, WHOLE + 1)
            row[int(room.argmin())] -= pod.share

    def free(self, which: Ints) -> Ints:
        """Free shares of all GPUs of each node together."""
        total: Ints = np.maximum(self.gpu[which], 0).sum(1)
        return total


Score = Callable[[Nodes, Ints, Pod], Floats]
"""How little each node is wanted: the least is taken, of equals the first."""


def best_fit(nodes: Nodes, which: Ints, pod: Pod) -> Floats:
    """Where the least is left."""
    return (nodes.cpu[which] - pod.cpu) / nodes.most_cpu + (nodes.free(which) - pod.gpus * pod.share) / (
        MOST_GPUS * WHOLE
    )


def dot_product(nodes: Nodes, which: Ints, pod: Pod) -> Floats:
    """Where what is free is least like what is asked."""
    asked = pod.cpu / nodes.most_cpu, pod.gpus * pod.share / (MOST_GPUS * WHOLE)
    return nodes.cpu[which] / nodes.most_cpu * asked[0] + nodes.free(which) / (MOST_GPUS * WHOLE) * asked[1]


def packing(nodes: Nodes, which: Ints, pod: Pod) -> Floats:
    """First GPUs that are shared already, then nodes in use, then idle nodes; of each the fullest."""
    gpu = nodes.gpu[which]
    shared = ((gpu >= pod.share) & (gpu < WHOLE) & (gpu >= 0)).any(1) & (0 < pod.share < WHOLE)
    used = ((gpu >= 0) & (gpu < WHOLE)).any(1)
    tightest = np.where((gpu >= pod.share) & (gpu >= 0), gpu, WHOLE + 1).min(1) / (2 * WHOLE)
    spread = (gpu == WHOLE).sum(1) / (2 * MOST_GPUS)
    order: Floats = np.where(shared, tightest, np.where(used, 1 + spread, 2 + spread))
    return order


POLICIES: dict[str, Score | None] = {
    "random": None,
    "dot-product": dot_product,
    "packing": packing,
    "best-fit": best_fit,
}


def arrivals(pods: list[Pod], capacity: int, seed: int) -> Iterator[Pod]:
    """Pods drawn from the trace, until they ask for 130 % of all GPUs."""
    draws, asked = random.Random(seed), 0
    while asked < ARRIVALS * capacity:
        pod = pods[draws.randrange(len(pods))]
        asked += pod.gpus * pod.share
        yield pod


def allocated(nodes: Nodes, pods: list[Pod], policy: str, seed: int) -> float:
    """Percent of all GPUs that are given away when 130 % have been asked for."""
    score, given = POLICIES[policy], 0
    draws = random.Random(f"place {seed}")
    for pod in arrivals(pods, nodes.capacity, seed):
        which = nodes.fitting(pod)
        if len(which):
            best = draws.randrange(len(which)) if score is None else int(score(nodes, which, pod).argmin())
            nodes.take(int(which[best]), pod)
            given += pod.gpus * pod.share
    return 100 * given / nodes.capacity


def mean_allocated(folder: Path, workload: str, policy: str, seeds: range) -> float:
    """The mean over seeds for one of the workloads in the folder."""
    if policy not in POLICIES:
        raise Misused(f"there is no policy {policy!r} in this study", hint=", ".join(POLICIES))
    rows, pods = _table(folder / "openb_node_list_gpu_node.csv"), read_pods(folder / f"openb_pod_list_{workload}.csv")
    return sum(allocated(Nodes(rows), pods, policy, seed) for seed in seeds) / len(seeds)


def read_pods(path: Path) -> list[Pod]:
    """The pods of a workload."""
    return [
        Pod(
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            int(row["num_gpu"]),
            int(row["gpu_milli"]),
            frozenset(filter(None, (row.get("gpu_spec") or "").split("|"))),
        )
        for row in _table(path)
    ]


def _table(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", hint="is TUTTI_TRACES the folder of traces?") from None
