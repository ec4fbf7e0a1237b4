"""The ledger over time: stretches add up to what was installed, old ones are kept less finely, and what was done."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tutti.local.journal import Journal
from tutti.local.sheets import DAY, HOUR, MINUTE, Sheets
from tutti.local.throughput import throughput

SECOND = 1_000_000


class Totals:
    """A ledger of one device: busy until a moment, idle after that."""

    def __init__(self, busy_until: int) -> None:
        self.busy_until = busy_until

    def ledger(self, now: int) -> Any:
        useful = min(now, self.busy_until)
        return SimpleNamespace(since=0, total={"useful-kept": useful, "no-demand": now - useful})


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal.db")
    yield made
    made.close()


def written(journal: Journal, *moments: int, busy_until: int = 0) -> Sheets:
    sheets = Sheets(journal, Totals(busy_until))  # type: ignore[arg-type]  # all that is asked of them
    for version, moment in enumerate(moments):
        sheets.turn(moment, version)
    asyncio.run(journal.commit(()))
    return sheets


def kept(journal: Journal) -> list[int]:
    return [row["at"] for row in journal.rows("SELECT at FROM sheets ORDER BY at")]


def test_stretches_say_what_happened_in_them(journal):
    sheets = written(journal, 10 * SECOND, 20 * SECOND, 40 * SECOND, busy_until=30 * SECOND)
    found = sheets.history(0, 50 * SECOND, 100, 50 * SECOND).stretches
    assert [(one.begun_us // SECOND, one.ended_us // SECOND, one.goodput) for one in found] == [
        (10, 20, 1.0), (20, 40, 0.5), (40, 50, 0.0),
    ]  # fmt: skip
    assert [sum(one.spent.values()) for one in found] == [10.0, 20.0, 10.0]


def test_many_stretches_are_shown_together_and_end_now(journal):
    sheets = written(journal, *(at * 10 * SECOND for at in range(1, 100)), busy_until=DAY)
    found = sheets.history(0, 1000 * SECOND, 10, 1000 * SECOND).stretches
    assert len(found) <= 10
    assert found[-1].ended_us == 1000 * SECOND
    assert {one.goodput for one in found} == {1.0}


def test_nothing_is_written_more_often_than_it_must_be(journal):
    sheets = written(journal, 10 * SECOND, 12 * SECOND, 21 * SECOND)
    sheets.turn(40 * SECOND, 2)
    sheets.turn(90 * SECOND, 2)
    asyncio.run(journal.commit(()))
    assert kept(journal) == [10 * SECOND, 21 * SECOND, 90 * SECOND]


def test_a_clock_that_was_set_back_does_not_stop_it(journal):
    written(journal, HOUR, MINUTE)
    assert kept(journal) == [MINUTE, HOUR]


def test_old_ones_become_coarser_and_go(journal):
    sheets = written(journal, *(at * 30 * SECOND for at in range(1, 601)))
    now = 3 * DAY
    sheets.thin(now, oldest=HOUR)
    asyncio.run(journal.commit(()))
    assert [at // HOUR for at in kept(journal)] == [1, 2, 3, 4, 5]
    sheets.thin(now, oldest=now)
    asyncio.run(journal.commit(()))
    assert not kept(journal)


ENDED = """
INSERT INTO jobs (name, user, queue, submitted, started, ended, state, devices, device_us, job, context, gang, life)
VALUES (?, 'u', 'default', ?, ?, ?, ?, ?, ?, '', '', '', '')
"""
JOBS = (
    # submitted, started, ended, state, devices: in seconds
    (0, 5, 65, "finished", 1),
    (0, 20, 120, "finished", 4),
    (10, 70, 72, "failed", 3),
    (20, 0, 30, "cancelled", 8),
    (90, 100, 0, "running", 2),
)
LOOSE = """
UPDATE jobs SET members = 60, devices = 60, gang = '{"roles": [{"coupling": "loose"}]}' WHERE name = 'j0'"""


def test_what_was_done_is_found_in_the_journal(journal):
    sheets = written(journal, 10 * SECOND, 60 * SECOND, busy_until=150 * SECOND)
    writes = [
        (
            ENDED,
            (f"j{at}", *(moment * SECOND for moment in moments), state, devices, devices * 36 * SECOND),
        )
        for at, (*moments, state, devices) in enumerate(JOBS)
    ]
    asyncio.run(journal.commit([*writes, (LOOSE, ())]))
    found = throughput(journal, sheets, 0, 200 * SECOND)
    assert (found.since_us, found.jobs, found.ended) == (0, 4, {"finished": 2, "failed": 1, "cancelled": 1})
    assert (found.device_hours, found.utilization, found.goodput) == (0.16, 0.75, 0.75)
    assert found.useful_device_hours == 150 / 3600
    assert (found.jobs_per_day, found.useful_device_hours_per_day) == (4 * 432, 18.0)
    assert [(one.devices, one.jobs, one.wait_s, one.wait_longest_s, one.slowdown) for one in found.widths] == [
        ("1", 1, 5.0, 5.0, 65 / 60), ("3-4", 2, 40.0, 60.0, (120 / 100 + 62 / 10) / 2),
    ]  # fmt: skip


def test_what_was_done_lately_leaves_out_what_was_before(journal):
    sheets = written(journal, 10 * SECOND, 60 * SECOND, busy_until=80 * SECOND)
    found = throughput(journal, sheets, 70 * SECOND, 100 * SECOND)
    assert (found.since_us, found.jobs, found.spent) == (60 * SECOND, 0, {"useful-kept": 20.0, "no-demand": 20.0})
