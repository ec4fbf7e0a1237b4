"""Nodes whose GPUs are given away in thousandths. In the simulator alone: the scheduler gives whole devices."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WHOLE = 1000
MOST_GPUS = 8
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Pod(NamedTuple):
    """What one pod asks for; `share` is of each of its GPUs, in thousandths."""

    cpu: int
    memory: int
    gpus: int
    share: int
    models: frozenset[str]

    @property
    def kind(self) -> int:
        """Pods that belong together: a share of a GPU is 0, otherwise so many GPUs."""
        return self.gpus if self.share >= WHOLE else 0


class Nodes:
    """Free amounts of every node; GPUs one by one, -1 where a node has fewer."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        count = [int(row["gpu"]) for row in rows]
        self.cpu = np.array([int(row["cpu_milli"]) for row in rows], np.int64)
        self.memory = np.array([int(row["memory_mib"]) for row in rows], np.int64)
        self.gpu = np.where(np.arange(MOST_GPUS) < np.array(count)[:, None], WHOLE, -1).astype(np.int64)
        self.model = np.array([row["model"] for row in rows])
        self.kinds = np.zeros((len(rows), MOST_GPUS + 1), np.int64)
        """How many pods of each kind sit on each node."""
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

    def take(self, node: int, pod: Pod, gpu: int = -1) -> None:
        """Give the pod the GPU of a node that was chosen, or the fullest ones that still have its share."""
        self.cpu[node] -= pod.cpu
        self.memory[node] -= pod.memory
        row = self.gpu[node]
        if pod.gpus:
            self.kinds[node, pod.kind] += 1
        if gpu >= 0:
            row[gpu] -= pod.share
            return
        for _ in range(pod.gpus):
            room = np.where(row >= pod.share, row, WHOLE + 1)
            row[int(room.argmin())] -= pod.share

    def free(self, which: Ints) -> Ints:
        """Free shares of all GPUs of each node together."""
        total: Ints = np.maximum(self.gpu[which], 0).sum(1)
        return total
