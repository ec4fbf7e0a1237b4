"""Fragmentation gradient descent (ATC 2023): a pod goes where it leaves the fewest shares of GPUs that the usual pod
cannot use.

What is usual is counted: the commonest asks that make up 95 of 100 pods. Shares of a node are lost to an ask when the
node cannot take it at all; otherwise only those on GPUs that have too little left.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .shares import MOST_GPUS, WHOLE, Floats, Ints, Nodes, Pod

USUAL = 0.95
Key = tuple[int, int, int, frozenset[str]]


class Ask(NamedTuple):
    """What some pods ask for, and what part of the usual ones they are."""

    cpu: int
    share: int
    gpus: int
    models: frozenset[str]
    part: float


def usual(pods: Sequence[Pod]) -> list[Ask]:
    """The commonest asks."""
    counts = Counter((pod.cpu, pod.share, pod.gpus, pod.models) for pod in pods)
    ranked = sorted(counts.items(), key=lambda entry: (entry[1], *entry[0][:3], sorted(entry[0][3])), reverse=True)
    found, so_far = list[tuple[Key, int]](), 0
    for entry in ranked:
        if so_far >= USUAL * len(pods):
            break
        found.append(entry)
        so_far += entry[1]
    return [Ask(*key, count / so_far) for key, count in found]


class Loss:
    """How many shares of each node are lost to the usual pod."""

    def __init__(self, asks: Sequence[Ask], models: NDArray[np.str_]) -> None:
        asking = [ask for ask in asks if ask.share]
        self.shares = np.array(sorted({ask.share for ask in asking}), np.int64)
        self.of_share = np.searchsorted(self.shares, [ask.share for ask in asking])
        self.cpu = np.array([ask.cpu for ask in asking], np.int64)
        self.gpus = np.array([ask.gpus for ask in asking], np.int64)
        self.part = np.array([ask.part for ask in asking])
        self.others = 1.0 - float(self.part.sum())
        """Asks without a GPU: to them all shares are lost."""
        kinds = [np.isin(models, sorted(ask.models)) if ask.models else np.ones(len(models), bool) for ask in asking]
        self.allowed = np.array(kinds).T

    def of(self, cpu: Ints, gpu: Ints, which: Ints) -> Floats:
        """For some states of nodes: free processors, free shares of each GPU, and which nodes they are states of."""
        left = np.maximum(gpu, 0)
        enough = gpu[:, :, None] >= self.shares
        total = left.sum(1).astype(np.float64)
        small = total[:, None] - np.where(enough, left[:, :, None], 0).sum(1)
        fits = (enough.sum(1)[:, self.of_share] >= self.gpus) & (cpu[:, None] >= self.cpu) & self.allowed[which]
        lost = np.where(fits, small[:, self.of_share], total[:, None])
        found: Floats = lost @ self.part + self.others * total
        return found


class Gradient:
    """The score of every node for every kind of pod; after a placement only that node's is computed anew."""

    def __init__(self, nodes: Nodes, pods: Sequence[Pod]) -> None:
        self.nodes = nodes
        self.loss = Loss(usual(pods), nodes.model)
        everyone = np.arange(len(nodes.cpu))
        self.now = self.loss.of(nodes.cpu, nodes.gpu, everyone)
        self._scores: dict[Key, tuple[Ints, Ints]] = {}
        self._seen: dict[Key, int] = {}
        self._changed: list[int] = []

    def choose(self, pod: Pod, which: Ints) -> tuple[int, int]:
        """The node, and which of its GPUs where the pod wants a part of one (-1 where it does not)."""
        score, gpu = self._known(pod)
        best = int(which[int(score[which].argmax())])
        return best, int(gpu[best])

    def placed(self, node: int) -> None:
        """A pod was put on a node."""
        self._changed.append(node)
        one = np.array([node])
        self.now[node] = self.loss.of(self.nodes.cpu[one], self.nodes.gpu[one], one)[0]

    def _known(self, pod: Pod) -> tuple[Ints, Ints]:
        key = (pod.cpu, pod.share, pod.gpus, pod.models)
        if key not in self._scores:
            size = len(self.now)
            self._scores[key] = np.zeros(size, np.int64), np.full(size, -1, np.int64)
            todo = np.arange(size)
        else:
            todo = np.unique(np.array(self._changed[self._seen[key] :], np.int64))
        self._seen[key] = len(self._changed)
        if len(todo):
            score, gpu = self._scores[key]
            score[todo], gpu[todo] = self._scored(pod, todo)
        return self._scores[key]

    def _scored(self, pod: Pod, which: Ints) -> tuple[Ints, Ints]:
        cpu, gpu = self.nodes.cpu[which] - pod.cpu, self.nodes.gpu[which]
        if pod.gpus == 1 and pod.share < WHOLE:
            return self._on_each(pod, which, cpu, gpu)
        idle = (gpu == WHOLE) & ((gpu == WHOLE).cumsum(1) <= pod.gpus)
        after = gpu - np.where(idle, pod.share, 0) if pod.gpus else gpu
        return self._score(which, self.loss.of(cpu, after, which)), np.full(len(which), -1, np.int64)

    def _on_each(self, pod: Pod, which: Ints, cpu: Ints, gpu: Ints) -> tuple[Ints, Ints]:
        """Each GPU of each node tried in turn; the first of the best is taken."""
        tried = np.repeat(gpu[:, None, :], MOST_GPUS, 1) - pod.share * np.eye(MOST_GPUS, dtype=np.int64)
        many = np.repeat(which, MOST_GPUS)
        lost = self.loss.of(np.repeat(cpu, MOST_GPUS), tried.reshape(-1, MOST_GPUS), many)
        scores = np.where(gpu >= pod.share, self._score(many, lost).reshape(-1, MOST_GPUS), -1)
        at = scores.argmax(1)
        return scores[np.arange(len(which)), at], at

    def _score(self, which: Ints, after: Floats) -> Ints:
        gain = (self.now[which] - after) / WHOLE
        found: Ints = (100 / (1 + np.exp(-gain))).astype(np.int64)
        return found
