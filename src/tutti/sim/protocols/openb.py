"""Packing shares of GPUs, as the study of fragmentation on Alibaba's openb cluster does (FGD, ATC 2023).

Pods arrive until they ask for 130 % of all GPUs, none leaves, and what counts is the part of the GPUs that is given
away.
"""

import csv
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tutti.errors import Misused, NotFound

from .fgd import Gradient
from .shares import MOST_GPUS, WHOLE, Floats, Ints, Nodes, Pod

MOST_CPU = 128_000
"""The study counts processors as parts of this many thousandths."""
ARRIVALS = 1.3
Score = Callable[[Nodes, Ints, Pod], Ints]
"""How much each node is wanted, from 0 to 100 in whole numbers; of equals the first by name is taken."""


def best_fit(nodes: Nodes, which: Ints, pod: Pod) -> Ints:
    """Where the least is left."""
    left = (nodes.cpu[which] - pod.cpu) / MOST_CPU + (nodes.free(which) - pod.gpus * pod.share) / (MOST_GPUS * WHOLE)
    return _whole(100 * (1 - left / 2))


def dot_product(nodes: Nodes, which: Ints, pod: Pod) -> Ints:
    """Where what is free is least like what is asked."""
    asked = pod.cpu / MOST_CPU, pod.gpus * pod.share / (MOST_GPUS * WHOLE)
    alike = nodes.cpu[which] / MOST_CPU * asked[0] + nodes.free(which) / (MOST_GPUS * WHOLE) * asked[1]
    return _whole(100 * (1 - alike / 2))


def packing(nodes: Nodes, which: Ints, pod: Pod) -> Ints:
    """First GPUs that are in use already, the fuller the better; then nodes in use; then idle ones, small before large.

    Nodes in use differ only by how many idle GPUs the pod would take: a full and an almost empty one are equally good.
    To a pod that asks for no GPU all nodes are.
    """
    if not pod.gpus:
        return np.zeros(len(which), np.int64)
    gpu = nodes.gpu[which]
    idle = (gpu == WHOLE).sum(1)
    taken = np.sort(np.where(gpu >= max(pod.share, 0), gpu, WHOLE + 1), axis=1)[:, : pod.gpus]
    fresh = (taken == WHOLE).sum(1)
    shared = 100 - (taken * 100 // WHOLE).sum(1) // 10
    used = np.where(fresh > 0, np.maximum(50 - fresh, 33), np.maximum(shared, 50))
    order: Ints = np.where(idle == (gpu >= 0).sum(1), np.maximum(33 - idle, idle), used)
    return order


def clustering(nodes: Nodes, which: Ints, pod: Pod) -> Ints:
    """Beside pods that ask for as many GPUs: where only such are, where such are too, on idle nodes, anywhere."""
    if not pod.gpus:
        return np.zeros(len(which), np.int64)
    here = nodes.kinds[which]
    alike, alone = here[:, pod.kind] > 0, (here > 0).sum(1) == 1
    base = np.where(alike, np.where(alone, 75, 50), np.where((here > 0).any(1), 0, 25))
    return base + 25 * (MOST_GPUS * WHOLE - nodes.free(which)) // (MOST_GPUS * WHOLE)


def _whole(scores: Floats) -> Ints:
    return scores.astype(np.int64)


FGD = "fgd"
POLICIES: dict[str, Score | None] = {
    "random": None,
    FGD: None,
    "dot-product": dot_product,
    "clustering": clustering,
    "packing": packing,
    "best-fit": best_fit,
}


def arrivals(pods: list[Pod], capacity: int, seed: int) -> list[Pod]:
    """Every pod of the trace once and others drawn from it, until they ask for 130 % of all GPUs; then shuffled."""
    draws = random.Random(seed)
    asked, more = sum(pod.gpus * pod.share for pod in pods), list(pods)
    while asked + (pod := pods[draws.randrange(len(pods))]).share <= ARRIVALS * capacity:
        asked += pod.gpus * pod.share
        more.append(pod)
    draws.shuffle(more)
    return more


def allocated(nodes: Nodes, pods: list[Pod], policy: str, seed: int) -> float:
    """Percent of all GPUs that are given away when 130 % have been asked for."""
    choose, given = chooser(nodes, pods, policy, seed), 0
    for pod in arrivals(pods, nodes.capacity, seed):
        which = nodes.fitting(pod)
        if len(which):
            choose(pod, which)
            given += pod.gpus * pod.share
    return 100 * given / nodes.capacity


def chooser(nodes: Nodes, pods: list[Pod], policy: str, seed: int) -> Callable[[Pod, Ints], None]:
    """What puts a pod on one of the nodes that can take it."""
    draws, score = random.Random(f"place {seed}"), POLICIES[policy]
    gradient = Gradient(nodes, pods) if policy == FGD else None

    def choose(pod: Pod, which: Ints) -> None:
        if gradient is not None:
            node, gpu = gradient.choose(pod, which)
            nodes.take(node, pod, gpu)
            gradient.placed(node)
        elif score is None:
            node = int(which[draws.randrange(len(which))])
            room = np.flatnonzero(nodes.gpu[node] >= pod.share).tolist()
            nodes.take(node, pod, draws.choice(room) if 0 < pod.share < WHOLE else -1)
        else:
            nodes.take(int(which[int(score(nodes, which, pod).argmax())]), pod)

    return choose


def mean_allocated(folder: Path, workload: str, policy: str, seeds: range) -> float:
    """The mean over seeds for one of the workloads in the folder."""
    if policy not in POLICIES:
        raise Misused(f"there is no policy {policy!r} in this study", hint=", ".join(POLICIES))
    rows = sorted(_table(folder / "openb_node_list_gpu_node.csv"), key=lambda row: row["sn"])
    pods = read_pods(folder / f"openb_pod_list_{workload}.csv")
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
