"""A load to generate that looks like a trace: what the trace is like, as the numbers the generator takes."""

import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from tutti.engine.model import DAY, HOUR, NEVER, SECOND, State

from .experiment import Case
from .generate import Drawn, Load
from .traces.log import Row

PARTS = 50
"""Run times are told by the values that so many equal parts of the jobs stay under."""
MOST_WIDTHS = 64


def fitted(case: Case) -> Load:
    """The load whose drawn jobs are most like those of the case."""
    rows, each = case.log.rows, max(case.node_sizes)
    wide = _split(rows)
    return Load(
        jobs=len(rows),
        devices=case.devices,
        each=each,
        load=round(case.offered, 3) or 0.9,
        style="batch" if case.log.resource == "slot" else "gpu",
        users=max(len({row.user for row in rows}), 1),
        cancelled=_part(rows, lambda row: row.patience < NEVER or row.outcome is State.CANCELLED),
        failed=_part(rows, lambda row: row.outcome is State.FAILED),
        requested=_part(rows, lambda row: row.limit > 0),
        widths=_widths(rows),
        runs_s=_quantiles([row.run / SECOND for row in rows if row.width <= wide]),
        wide_runs_s=_quantiles([row.run / SECOND for row in rows if row.width > wide]),
        wide_above=wide,
        asked=_quantiles([row.limit / max(row.run, SECOND) for row in rows if row.limit], digits=3),
        hours=_hours(rows),
        weekend=_weekend(rows),
    )


def as_text(load: Load, source: str) -> str:
    """The load as a file that `tutti simulate` reads."""
    lines = [f"# fitted to {source}", "[generate]"]
    usual = Load()
    for name in Load.__struct_fields__:
        value = getattr(load, name)
        if value != getattr(usual, name) or name in {"jobs", "devices", "each", "load"}:
            lines.append(f"{name} = {_written(value)}")
    return "\n".join(lines) + "\n"


def closeness(case: Case, load: Load) -> list[tuple[str, float, float]]:
    """Figures of the trace beside those of the load drawn from the fit: what, theirs, ours."""
    rows = case.log.rows
    drawn = list(Drawn(msgspec.structs.replace(load, jobs=min(load.jobs, 20_000))).rows())
    pairs = {
        "mean width": [float(np.mean([row.width for row in each])) for each in (rows, drawn)],
        "median run, s": [float(np.median([row.run for row in each])) / SECOND for each in (rows, drawn)],
        "mean run, s": [float(np.mean([row.run for row in each])) / SECOND for each in (rows, drawn)],
        "jobs a day": [len(each) * DAY / max(each[-1].at - each[0].at, SECOND) for each in (rows, drawn)],
    }
    return [(what, theirs, ours) for what, (theirs, ours) in pairs.items()]


def _part(rows: Sequence[Row], holds: object) -> float:
    assert callable(holds)
    return round(sum(1 for row in rows if holds(row)) / len(rows), 4)


def _widths(rows: Sequence[Row]) -> tuple[tuple[int, int], ...]:
    """The commonest widths; the few others are counted to the next of them."""
    found = Counter(row.width for row in rows)
    kept = {width: 0 for width, _ in found.most_common(MOST_WIDTHS)} | {max(found): 0}
    for width, many in found.items():
        kept[min(kept, key=lambda near: (abs(near - width), near))] += many
    return tuple(sorted((width, many) for width, many in kept.items() if many))


def _split(rows: Sequence[Row]) -> int:
    """The width from which jobs are told apart, so that device time comes out best when run times are drawn anew."""
    width = np.array([row.width for row in rows], np.float64)
    run = np.array([row.run for row in rows], np.float64)

    def off(split: int) -> float:
        wide = width > split
        means = [run[part].mean() if part.any() else 0.0 for part in (~wide, wide)]
        return abs(float((width * np.where(wide, means[1], means[0])).sum() - (width * run).sum()))

    splits = [1 << power for power in range(int(width.max()).bit_length())]
    return min(splits, key=off)


def _quantiles(values: list[float], digits: int = 1) -> tuple[float, ...]:
    if not values:
        return ()
    return tuple(round(float(value), digits) for value in np.quantile(values, np.linspace(0, 1, PARTS + 1)))


def _hours(rows: Sequence[Row]) -> tuple[float, ...]:
    counts = Counter(row.at % DAY // HOUR for row in rows)
    return tuple(float(counts.get(hour, 0)) for hour in range(24))


def _weekend(rows: Sequence[Row]) -> float:
    """The two quietest neighbouring days of the week are its end; even weeks have none."""
    if rows[-1].at - rows[0].at < 14 * DAY:
        return 1.0
    counts = Counter(row.at // DAY % 7 for row in rows)
    return round(7 * (counts.get(5, 0) + counts.get(6, 0)) / (2 * len(rows)), 3)


def _written(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    return re.sub(r"\.0$", "", str(value)) if isinstance(value, float) and value > 1 else str(value)
