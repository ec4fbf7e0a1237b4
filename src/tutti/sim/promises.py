"""Two policies promise other gangs a start, at other moments: what of their promises can be set side by side?

Who is promised a start further ahead, or for a gang that many short ones stand before, is further off, whatever the
policy is worth. So only jobs count that both promised a start, and both about equally far ahead.
"""

from bisect import bisect_right
from typing import NamedTuple

from tutti.drive.calibration import HORIZONS
from tutti.engine.model import SECOND

from .record import Record

LIMITS = [limit for limit, _ in HORIZONS]


class Promised(NamedTuple):
    """The first promise of a job."""

    lead: int
    """How far ahead it looked, in microseconds."""
    error: int
    """How much later than promised the job started; below 0 it was earlier."""


class Alike(NamedTuple):
    """Promises to the same jobs at the same horizon, under one policy and under another."""

    jobs: int
    error_s: tuple[float, float]
    """Mean distance of the promised start from the real one, early or late."""
    part: tuple[float, float]
    """The same distances as a part of how far ahead the promises looked."""
    late: tuple[float, float]
    """Part of the jobs that started more than a second later than promised."""


def promises(record: Record, since: int = 0) -> dict[str, Promised]:
    """The first promise of every job that was given one and started, of those submitted from a moment on."""
    rows = range(len(record))
    started = (row for row in rows if min(record.promised[row], record.started[row]) >= 0)
    return {
        record.names[row]: Promised(record.promised[row] - record.told[row], record.started[row] - record.promised[row])
        for row in started
        if record.submitted[row] >= since
    }


def alike(one: dict[str, Promised], other: dict[str, Promised]) -> Alike:
    """Both promises of the jobs that were promised a start under both, at the same horizon."""
    both = [(one[name], other[name]) for name in one if name in other]
    pairs = [pair for pair in both if len({bisect_right(LIMITS, each.lead) for each in pair}) == 1]
    sides = tuple(zip(*pairs, strict=True)) or ((), ())
    first, second = (_figures(side) for side in sides)
    return Alike(len(pairs), *((a, b) for a, b in zip(first, second, strict=True)))


def _figures(side: tuple[Promised, ...]) -> tuple[float, float, float]:
    errors = [abs(each.error) for each in side]
    many = max(len(side), 1)
    return (
        sum(errors) / many / SECOND,
        sum(errors) / max(sum(each.lead for each in side), 1),
        sum(each.error > SECOND for each in side) / many,
    )
