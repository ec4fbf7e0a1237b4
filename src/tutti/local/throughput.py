"""How much work went through the box since a moment? Found in the journal anew each time somebody asks."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tutti.api import types as t
from tutti.engine.model import SECOND

from .journal import Journal
from .sheets import Sheets

DAY = 86_400 * SECOND
SHORT_S = 10
"""Shorter jobs count as this long in a slowdown, as is usual, or they would be all of the mean."""
IDLE = frozenset({"reserved-idle", "fragmented-idle", "quota-idle", "no-demand", "broken", "foreign"})
"""Parts of the ledger in which no job of ours held the devices, or only for a spare."""
LOOSE = "json_valid(CAST(gang AS TEXT)) AND json_extract(CAST(gang AS TEXT), '$.roles[0].coupling') = 'loose'"
ENDED = f"""
SELECT submitted, started, ended, state, device_us, CASE WHEN {LOOSE} THEN devices / max(members, 1) ELSE devices END
AS devices FROM jobs WHERE ended > ? AND ended <= ?"""  # noqa: S608 - all of it is written here
"""A loose job is as wide as one of its members: they start one by one."""


def throughput(journal: Journal, sheets: Sheets, since: int, now: int) -> t.Throughput:
    """Jobs that ended since a moment, what the devices did, and how long jobs of each width waited."""
    rows = journal.rows(ENDED, since, now)
    stretch = sheets.since(since, now)
    spent = stretch.spent
    days = max(now - stretch.begun_us, SECOND) / DAY
    started = [row for row in rows if row["started"]]
    useful = max(spent.get("useful-kept", 0.0), 0.0) / 3600
    installed = sum(spent.values())
    busy = sum(amount for what, amount in spent.items() if what not in IDLE)
    return t.Throughput(
        since_us=stretch.begun_us,
        at_us=now,
        jobs=len(rows),
        ended=dict(Counter(row["state"] for row in rows)),
        jobs_per_day=len(rows) / days,
        device_hours=sum(row["device_us"] for row in rows) / SECOND / 3600,
        useful_device_hours=useful,
        useful_device_hours_per_day=useful / days,
        utilization=busy / installed if installed > 0 else 0.0,
        goodput=stretch.goodput,
        spent=spent,
        widths=[_width(low, high, among) for (low, high), among in _by_width(started)],
    )


def _by_width(rows: Sequence[Any]) -> list[tuple[tuple[int, int], list[Any]]]:
    """Jobs in ranges of devices that double: none, 1, 2, 3-4, 5-8 ..."""
    found: dict[tuple[int, int], list[Any]] = {}
    for row in rows:
        high = 1 << (row["devices"] - 1).bit_length() if row["devices"] else 0
        found.setdefault((high // 2 + 1 if high > 1 else high, high), []).append(row)
    return sorted(found.items())


def _width(low: int, high: int, rows: Sequence[Any]) -> t.Width:
    waits = [(row["started"] - row["submitted"]) / SECOND for row in rows]
    runs = [(row["ended"] - row["started"]) / SECOND for row in rows]
    slow = [max((wait + run) / max(run, SHORT_S), 1.0) for wait, run in zip(waits, runs, strict=True)]
    return t.Width(
        devices=f"{low}-{high}" if low < high else str(high),
        jobs=len(rows),
        wait_s=statistics.fmean(waits),
        wait_median_s=statistics.median(waits),
        wait_longest_s=max(waits),
        slowdown=statistics.fmean(slow),
    )
