"""How sure is a figure? The same case with other draws, and the interval its mean lies in."""

import math
import random
from collections.abc import Sequence

import msgspec

from tutti.engine.model import DAY, Data

from .experiment import Outcome
from .generate import Drawn, Load
from .traces.log import Log, Row

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
"""95 % points of Student's distribution for 2, 3 ... draws."""
FIGURES = ("wait mean", "completion mean", "slowdown mean", "utilisation", "goodput", "interruptions")


class Interval(Data, frozen=True):
    """A mean over seeds, and how far the true one may lie from it, at 95 %."""

    mean: float
    half: float


def drawn_anew(log: Log, load: Load | None, draw: int) -> Log:
    """The same kind of load once more: a generated one with the next seed, a trace with its days in another order."""
    if load is not None:
        return Drawn(msgspec.structs.replace(load, seed=load.seed + draw)).log()
    if not draw:
        return log
    return msgspec.structs.replace(log, rows=_other_days(log.rows, draw), notes=list(log.notes))


def _other_days(rows: Sequence[Row], seed: int) -> list[Row]:
    """Whole days change places: what was submitted together stays together."""
    days: dict[int, list[Row]] = {}
    for row in rows:
        days.setdefault(row.at // DAY, []).append(row)
    order, dealt = sorted(days), sorted(days)
    random.Random(seed).shuffle(dealt)
    moved = [
        msgspec.structs.replace(row, at=row.at + (to - day) * DAY)
        for day, to in zip(order, dealt, strict=True)
        for row in days[day]
    ]
    return sorted(moved, key=lambda row: row.at)


def intervals(outcomes: Sequence[Outcome]) -> dict[str, Interval]:
    """The figures of one policy over its seeds."""
    return {name: interval([_figure(outcome, name) for outcome in outcomes]) for name in FIGURES}


def _figure(outcome: Outcome, name: str) -> float:
    metrics = outcome.metrics
    return {
        "wait mean": metrics.wait_s.mean,
        "completion mean": metrics.completion_s.mean,
        "slowdown mean": metrics.slowdown.mean,
        "utilisation": metrics.utilization,
        "goodput": metrics.goodput,
        "interruptions": float(metrics.interruptions),
    }[name]


def interval(values: Sequence[float]) -> Interval:
    """The mean of a few values and the half width of its 95 % interval."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Interval(mean, math.inf)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    factor = STUDENT[count - 2] if count - 2 < len(STUDENT) else 1.96 + 2.4 / count
    return Interval(mean, factor * spread / math.sqrt(count))
