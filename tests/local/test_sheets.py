"""The ledger over time: stretches add up to what was installed, and old ones are kept less finely."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tutti.local.journal import Journal
from tutti.local.sheets import DAY, HOUR, MINUTE, Sheets

SECOND = 1_000_000


class Totals:
    """A ledger of one device: busy until a moment, idle after that."""

    def __init__(self, busy_until: int) -> None:
        self.busy_until = busy_until

    def ledger(self, now: int) -> Any:
        useful = min(now, self.busy_until)
        return SimpleNamespace(total={"useful-kept": useful, "no-demand": now - useful})


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
