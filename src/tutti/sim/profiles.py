"""Measured training jobs (Pollux, Sia): how long a step takes on which GPUs, and how many steps an epoch takes."""

import csv
import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tutti.errors import NotFound

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which the authors call a job done."""
MOST_LOCAL = {"yolov3": 8}
"""The largest batch of one GPU where it is not the largest one measured."""
EPSILON = 1e-8

Curve = list[tuple[float, float, float]]
"""Local batch, step time, and the part of it spent on synchronising; by batch."""


class Batch(NamedTuple):
    """How a global batch is split: on one GPU at a time, and how many times before a step."""

    local: int
    extra: int


class Epochs(NamedTuple):
    """What one validation run measured after each epoch."""

    progress: list[float]
    iteration: list[float]
    grad_sqr: list[float]
    grad_var: list[float]


class Profile:
    """One application, on one kind of GPU where there are several. Times are seconds."""

    def __init__(self, folder: Path, kind: str = "") -> None:
        self.name = folder.name
        self.runs = dict(sorted(_validations(folder).items()))
        on = f"-{kind}" if kind else ""
        self.placements = _placements(folder / f"placements{on}.csv")
        self.levels = _levels(self.placements, folder / f"scalability{on}.csv")
        batches = [point[0] for curve in self.placements.values() for point in curve]
        self.least_local = int(min(batches))
        self.most_local = MOST_LOCAL.get(self.name, int(max(batches)))
        self.first_batch, self.most_batch = min(self.runs), max(self.runs)
        self.epochs = EPOCHS.get(self.name, min(len(run.progress) for run in self.runs.values()))
        self.step = cache(self._step)
        self.gradients = cache(self._gradients)
        self.progress_after = cache(self._progress_after)

    def _progress_after(self, epoch: int) -> float:
        return min(run.progress[epoch - 1] for run in self.runs.values()) if epoch else 0.0

    def iterations(self, batch: int, epoch: int) -> float:
        """Steps needed to finish an epoch at a global batch."""
        return self._between(batch, lambda run: run.iteration[epoch])

    def _gradients(self, batch: int, epoch: int) -> tuple[float, float]:
        return (
            self._between(batch, lambda run: run.grad_sqr[epoch]),
            self._between(batch, lambda run: run.grad_var[epoch]),
        )

    def _between(self, batch: int, value: Callable[[Epochs], float]) -> float:
        """A value between the two measured batches around this one."""
        known = list(self.runs)
        at = min(max(bisect_left(known, batch), 0), len(known) - 1)
        upper = known[at]
        lower = upper if upper == batch or at == 0 else known[at - 1]
        low, high = value(self.runs[lower]), value(self.runs[upper])
        return low if lower == upper else ((batch - lower) * high + (upper - batch) * low) / (upper - lower)

    def _step(self, placement: tuple[int, ...], local: int) -> tuple[float, float]:
        """Step and synchronising time on these GPUs per node."""
        known = self.placements.get(_turned(placement))
        if known is not None:
            return _at(known, local)
        return self._far(min(len(placement), max(self.levels)), sum(placement), local)

    def _far(self, nodes: int, replicas: int, local: int) -> tuple[float, float]:
        """Between measured numbers of nodes and of GPUs, straight lines."""
        known = sorted(self.levels)
        at = bisect_left(known, nodes)
        upper = known[min(at, len(known) - 1)]
        lower = known[max(at - 1, 0)] if upper > nodes else upper
        low, high = self._on_level(lower, replicas, local), self._on_level(upper, replicas, local)
        share = (nodes - lower) / (upper - lower) if upper > lower else 0.0
        return low[0] + (high[0] - low[0]) * share, low[1] + (high[1] - low[1]) * share

    def _on_level(self, nodes: int, replicas: int, local: int) -> tuple[float, float]:
        level = self.levels[nodes]
        curve = [(float(size), *_at(level[size], local)) for size in sorted(level)]
        return _at(curve, replicas)

    def split(self, batch: int, replicas: int, careful: bool) -> Batch:
        """A global batch over so many GPUs; `careful` takes two rounds where one GPU would do all at once."""
        local = math.ceil(batch / replicas - EPSILON)
        extra = math.ceil(local / self.most_local - EPSILON) - 1
        if careful:
            extra = max(extra, 1)
        each = math.ceil(local / (extra + 1) - EPSILON)
        return Batch(min(each, self.most_batch // (replicas * (extra + 1))), extra)

    def most_local_on(self, placement: tuple[int, ...]) -> int:
        """The largest batch of one GPU that was measured with so many GPUs per node."""
        curve = self.placements.get(_turned(placement))
        if curve is None:
            wider = [level for nodes, level in self.levels.items() if nodes >= len(placement)]
            curves = [curve for level in wider for size, curve in level.items() if size >= sum(placement)]
            curve = max(curves, key=lambda points: points[-1][0], default=[(float(self.most_local), 0.0, 0.0)])
        return int(curve[-1][0])

    def run_time(self, batch: int, placement: tuple[int, ...]) -> float:
        """How long the whole job takes on these GPUs, in seconds."""
        replicas = sum(placement)
        split = self.split(batch, replicas, replicas == 1 and batch > self.first_batch)
        step, sync = self.step(placement, split.local)
        return self.iterations(batch, self.epochs - 1) * (step + (step - sync) * split.extra)


def _turned(placement: tuple[int, ...]) -> tuple[int, ...]:
    """The way round in which a placement is written down."""
    return min(placement[i:] + placement[:i] for i in range(len(placement)))


def compact(replicas: int, per_node: int = 4) -> tuple[int, ...]:
    """GPUs per node when the job is packed as tightly as it goes."""
    full, rest = divmod(replicas, per_node)
    return (per_node,) * full + ((rest,) if rest else ())


def _at(curve: Curve, x: float) -> tuple[float, float]:
    """A point of a curve; beyond its ends nothing changes."""
    at = bisect_left(curve, (x,))
    if at == 0:
        return curve[0][1], curve[0][2]
    if at == len(curve):
        return curve[-1][1], curve[-1][2]
    (x0, a0, b0), (x1, a1, b1) = curve[at - 1], curve[at]
    share = (x - x0) / (x1 - x0)
    return a0 + (a1 - a0) * share, b0 + (b1 - b0) * share


def _table(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise NotFound(
            f"the profile {path} is not there",
            hint="workloads of Pollux and Sia need the folder `profiles` beside them, or TUTTI_TRACES set",
        ) from None


def _validations(folder: Path) -> dict[int, Epochs]:
    found = {}
    for path in sorted(folder.glob("validation-*.csv")):
        rows = _table(path)
        columns = [[float(row[name]) for row in rows] for name in Epochs._fields]
        found[int(path.stem.partition("-")[2])] = Epochs(*columns)
    if not found:
        raise NotFound(f"there is no profile in {folder}", hint="is TUTTI_TRACES the folder of traces?")
    return found


def _point(row: dict[str, str]) -> tuple[float, float, float]:
    return float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])


def _placements(path: Path) -> dict[tuple[int, ...], Curve]:
    found: dict[tuple[int, ...], Curve] = {}
    for row in _table(path):
        found.setdefault(tuple(int(digit) for digit in row["placement"]), []).append(_point(row))
    return {placement: sorted(curve) for placement, curve in found.items()}


def _levels(placements: dict[tuple[int, ...], Curve], path: Path) -> dict[int, dict[int, Curve]]:
    """Curves by number of nodes and of GPUs; placements that differ only in layout are averaged."""
    points: dict[tuple[int, int], dict[float, list[tuple[float, float]]]] = {}
    rows = [((len(placement), sum(placement)), point) for placement, curve in placements.items() for point in curve]
    rows += [((int(row["num_nodes"]), int(row["num_replicas"])), _point(row)) for row in _table(path)]
    for key, (local, step, sync) in rows:
        points.setdefault(key, {}).setdefault(local, []).append((step, sync))
    levels: dict[int, dict[int, Curve]] = {}
    for (nodes, replicas), by_batch in points.items():
        curve = [(local, *_mean(values)) for local, values in sorted(by_batch.items())]
        levels.setdefault(nodes, {})[replicas] = curve
    return levels


def _mean(values: list[tuple[float, float]]) -> tuple[float, float]:
    return sum(a for a, _ in values) / len(values), sum(b for _, b in values) / len(values)
