"""What the pictures show, as plain numbers: computed once, drawn as a page and as images."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.drive.account import Spent
from tutti.engine.model import HOUR, SECOND, State
from tutti.sim.record import ENDS, Column, Record

Floats = NDArray[np.float64]
POINTS = 400
BEYOND = 1.3
MOST_BARS = 3_000
MANY_NODES = 256
FEW = 200
"""So few jobs have no stragglers: everybody is shown to the end."""
LEAST = 1 / 3600
"""What took no longer is shown as a second: an axis of proportions has no place for nothing."""
KEPT, LOST, STALL = Spent.USEFUL.value, Spent.LATER_LOST.value, Spent.STALL.value
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1 << 30)


class Curve(NamedTuple):
    """A line: hours and values."""

    x: Floats
    y: Floats


class Bar(NamedTuple):
    """A job on a node for a while, in hours; where in the node's row it lies, and how much of it it takes."""

    job: str
    row: int
    begun: float
    ended: float
    devices: int
    at: float
    height: float
    computes: bool
    """Whether it does; otherwise it only holds the devices."""


def used(record: Record, devices: int, end: int) -> Curve:
    """Part of the devices that is held, over time."""
    spells = record.spells
    held = np.array(spells.devices, np.float64)
    ends = np.array(spells.ended, np.int64)
    ends = np.where(ends < 0, end, ends)
    curve = _averaged(np.array(spells.begun, np.int64), ends, held, _stretch(record, end))
    return Curve(curve.x, curve.y / devices)


def waiting(record: Record, end: int) -> Curve:
    """Jobs that wait, over time."""
    submitted, started, ended = (record.column(name) for name in ("submitted", "started", "ended"))
    left = np.where(started >= 0, started, np.where(ended >= 0, ended, end))
    return _averaged(submitted, left, np.ones(len(submitted)), _stretch(record, end))


def _stretch(record: Record, end: int) -> tuple[int, int]:
    """The time that curves are computed for: a little more than is shown, so that few points are wasted on the end."""
    first = min(record.submitted, default=0)
    return first, max(min(end, round(BEYOND * shown_until(record, end) * HOUR)), first + 1)


def _averaged(begun: NDArray[np.int64], ended: NDArray[np.int64], amount: Floats, stretch: tuple[int, int]) -> Curve:
    """The sum of amounts between their begin and end, averaged over equal parts of a stretch of time."""
    edges = np.linspace(*stretch, POINTS + 1)
    area = np.zeros(POINTS + 1)
    for at, sign in ((begun, 1.0), (ended, -1.0)):
        order = np.argsort(at)
        moments, total = at[order].astype(np.float64), np.cumsum(amount[order])
        weighted = np.cumsum(amount[order] * moments)
        index = np.searchsorted(moments, edges, "right")
        sums = np.concatenate([[0.0], total])[index]
        firsts = np.concatenate([[0.0], weighted])[index]
        area += sign * (sums * edges - firsts)
    width = edges[1] - edges[0]
    return Curve((edges[:-1] + width / 2) / HOUR, np.maximum(np.diff(area) / width, 0.0))


def completion(record: Record) -> Curve:
    """Which part of all jobs is done within so many hours of being submitted; nothing where none ever is."""
    ended, submitted = record.column("ended"), record.column("submitted")
    flow = np.sort((ended - submitted)[ended >= 0]) / HOUR
    if not len(flow):
        return Curve(np.zeros(0), np.zeros(0))
    at = np.unique(np.linspace(0, len(flow) - 1, POINTS).round().astype(int))
    soon = np.maximum(flow[at], LEAST)
    return Curve(np.concatenate([soon[:1], soon]), np.concatenate([[0.0], (at + 1) / len(ended)]))


class ByWidth(NamedTuple):
    """Mean wait in hours for each group of widths that has any jobs, and how many of them ever started."""

    labels: list[str]
    hours: list[float]
    jobs: list[int]


def waits_by_width(record: Record) -> ByWidth:
    """How long jobs wait, by how wide they are. Groups are those of the trace, so that policies have the same ones."""
    started, submitted, width = (record.column(name) for name in ("started", "submitted", "width"))
    wait = (started - submitted) / HOUR
    found = ByWidth([], [], [])
    for low, high in zip((0, *WIDTHS), WIDTHS, strict=False):
        there = (width > low) & (width <= high)
        chosen = there & (started >= 0)
        if there.any():
            found.labels.append(_width_label(low, high, width[there]))
            found.hours.append(float(wait[chosen].mean()) if chosen.any() else 0.0)
            found.jobs.append(int(chosen.sum()))
    return found


def _width_label(low: int, high: int, there: Column) -> str:
    """A group by the only width in it, or from and to."""
    if there.min() == there.max():
        return str(there.min())
    return f">{low}" if high == WIDTHS[-1] else f"{low + 1}-{high}"


class Promises(NamedTuple):
    """How far ahead a start was promised, and how much later it came, in hours."""

    ahead: Floats
    late: Floats


def promises(record: Record) -> Promises:
    """The first promise of every job that got one and started."""
    promised, told, started = (record.column(name) for name in ("promised", "told", "started"))
    known = (promised >= 0) & (started >= 0)
    return Promises((promised - told)[known] / HOUR, (started - promised)[known] / HOUR)


def shown_until(record: Record, end: int) -> float:
    """Until when pictures over time are worth looking at, in hours: who is stuck counts, a few stragglers do not."""
    ended = record.column("ended")
    if not len(ended) or (ended < 0).any():
        return max(end, 1) / HOUR
    nearly = min(np.percentile(ended, 99) * 1.03, ended.max()) if len(ended) > FEW else ended.max()
    return float(max(nearly, record.column("submitted").max(), 1)) / HOUR


def shown_from(record: Record) -> float:
    """When the first job was submitted, in hours."""
    return float(min(record.submitted, default=0)) / HOUR


def window(record: Record, end: int) -> tuple[float, float]:
    """The stretch of time around the longest queue whose bars can still be drawn, in hours."""
    spells = record.spells
    count = len(spells.task)
    if count <= MOST_BARS:
        return shown_from(record), max(min(end / HOUR, shown_until(record, end)), shown_from(record) + LEAST)
    queue = waiting(record, end)
    peak = float(queue.x[int(queue.y.argmax())])
    begun = np.sort(np.array(spells.begun, np.float64)) / HOUR
    middle = int(np.searchsorted(begun, peak))
    low = max(middle - MOST_BARS // 4, 0)
    return float(begun[low]), float(begun[min(low + MOST_BARS // 2, count - 1)])


def common_window(runs: list[tuple[Record, int]]) -> tuple[float, float]:
    """One stretch of time for all of them, each with its end: everything, or where the last has its longest queue."""
    long = [run for run in runs if len(run[0].spells.task) > MOST_BARS]
    if long:
        return window(*long[-1])
    found = [window(record, end) for record, end in runs]
    return min(low for low, _ in found), max(high for _, high in found)


def gantt(record: Record, end: int, sizes: list[int], shown: tuple[float, float]) -> list[Bar]:
    """Who sat where in a stretch of time, on nodes of these sizes: a node's row is divided among its devices."""
    low, high = shown
    free = [[0.0] * size for size in sizes]
    spells, found = record.spells, list[Bar]()
    for at, where in enumerate(spells.where or []):
        begun = spells.begun[at] / HOUR
        ended = (spells.ended[at] if spells.ended[at] >= 0 else end) / HOUR
        if ended <= low or begun >= high:
            continue
        up = spells.up[at] / HOUR if spells.up[at] >= 0 else ended
        parts = [(max(a, low), min(b, high), busy) for a, b, busy in ((begun, up, False), (up, ended, True))]
        boxes = _boxes(free, where, begun, ended)
        for box in _joined(boxes) if len(sizes) > MANY_NODES else boxes:
            lies = box.top + box.height / 2, box.height
            found += [
                Bar(record.names[spells.task[at]], spells.task[at], a, b, box.devices, *lies, busy)
                for a, b, busy in parts
                if b > a
            ]
    return found


class Box(NamedTuple):
    """A part of the rows of nodes: where it begins, how high it is, and how many devices it stands for."""

    top: float
    height: float
    devices: int


def _boxes(free: list[list[float]], where: Iterable[tuple[int, int]], begun: float, ended: float) -> list[Box]:
    """Where somebody sits, node by node."""
    return [
        Box(node + first / len(free[node]), count / len(free[node]), held)
        for node, held in where
        for first, count in _lanes(free[node], begun, ended, held)
    ]


def _joined(boxes: list[Box]) -> list[Box]:
    """The same with whole nodes that are neighbours in one piece: of thousands of rows nobody sees where one ends."""
    found: list[Box] = []
    for box in sorted(boxes):
        last = found[-1] if found else box
        if found and box.height == 1 <= last.height and last.top + last.height == box.top:
            found[-1] = Box(last.top, last.height + 1, last.devices + box.devices)
        else:
            found.append(box)
    return found


def _lanes(free: list[float], begun: float, ended: float, held: int) -> list[tuple[int, int]]:
    """Take devices that are free, and say which: first and count of each run of neighbours."""
    taken = [lane for lane, since in enumerate(free) if since <= begun][:held]
    runs: list[tuple[int, int]] = []
    for lane in taken:
        free[lane] = ended
        if runs and sum(runs[-1]) == lane:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((lane, 1))
    return runs


class Areas(NamedTuple):
    """What device time was spent on, as parts of all devices, each value up to its moment."""

    hours: Floats
    parts: dict[str, Floats]


def areas(samples: list[tuple[int, dict[str, int]]], devices: int, record: Record) -> Areas:
    """The ledger between samples, as rates."""
    kinds = sorted({what for _, total in samples for what, amount in total.items() if amount})
    at = np.array([moment for moment, _ in samples], np.float64)
    if len(at) < 2:
        return Areas(np.zeros(0), {})
    whole = np.maximum(np.diff(at), 1.0) * devices
    spent = {what: np.diff(np.array([total.get(what, 0) for _, total in samples], np.float64)) for what in kinds}
    if STALL in spent:
        spent.update(_evenly(spent))
    if LOST in spent:
        spent.update(_work_by_fate(spent, record, at))
    rates = {what: np.maximum(amount, 0.0) / whole for what, amount in spent.items()}
    return Areas(at / HOUR, {what: np.concatenate([rate[:1], rate]) for what, rate in rates.items()})


def _evenly(spent: dict[str, Floats]) -> dict[str, Floats]:
    """What saving cost, spread over the work that was saved: the ledger learns of it when a run is over."""
    nothing = np.zeros_like(spent[STALL])
    ran = spent.get(KEPT, nothing) + spent.get(LOST, nothing) + spent[STALL]
    stall = np.maximum(ran, 0.0) * (spent[STALL].sum() / max(np.maximum(ran, 0.0).sum(), 1.0))
    return {STALL: stall, KEPT: ran - stall - spent.get(LOST, nothing)}


def _work_by_fate(spent: dict[str, Floats], record: Record, at: Floats) -> dict[str, Floats]:
    """Work that was lost in the end, at the time it was done: the ledger only learns of it when it is lost."""
    done = spent.get(KEPT, 0.0) + spent[LOST]
    begun, ended = _wasted(record, int(at[-1]))
    held = np.array(record.spells.devices, np.float64)
    lost = np.array(
        [(held * np.clip(np.minimum(ended, b) - np.maximum(begun, a), 0, None)).sum() for a, b in pairwise(at)]
    )
    if lost.sum():
        lost *= spent[LOST].sum() / lost.sum()
    lost = np.minimum(lost, np.maximum(done, 0.0))
    return {KEPT: done - lost, LOST: lost}


def _wasted(record: Record, end: int) -> tuple[Floats, Floats]:
    """From when to when each spell worked for nothing: who never finished all the time, others before they lost it."""
    spells, numbers = record.spells, np.arange(len(record.spells.task))
    task, begun, up, ended = (np.array(each, np.int64) for each in (spells.task, spells.begun, spells.up, spells.ended))
    ended = np.where(ended < 0, end, ended)
    last = np.zeros(len(record), np.int64)
    last[task] = numbers
    cut_off = (up >= 0) & (numbers < last[task])
    pieces = np.bincount(task, cut_off, len(record))[task] * np.array(spells.devices, np.float64)
    tail = np.maximum(ended - record.column("lost")[task] / np.maximum(pieces, 1.0), up)
    is_finished = np.array(record.state, np.int64)[task] == ENDS.index(State.FINISHED)
    return np.where(is_finished, np.where(cut_off, tail, ended), begun), ended.astype(np.float64)


def seconds(value: int) -> float:
    """Microseconds as seconds."""
    return value / SECOND
