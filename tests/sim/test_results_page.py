"""The page of results is what bench/results.py prints: nobody edits it by hand."""

import re
from pathlib import Path

import pytest

from bench.results import (
    BAD,
    BESIDE,
    CALIBRATION,
    COLUMNS,
    FORECASTS,
    HEAD,
    KEPT,
    LOADS,
    LOGS,
    NODE_FAILS_EVERY,
    POLICIES,
    PROMISES,
    SEEDS,
    WINDOWS,
)
from tutti.engine.model import DAY

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "results.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text()


def test_the_head_is_the_one_that_is_printed(page: str) -> None:
    jobs = re.search(r"Of each log ([\d,]+) jobs", page)
    assert jobs is not None
    assert page.startswith(HEAD.format(jobs=jobs[1], fails=NODE_FAILS_EVERY // DAY))


def test_every_load_has_a_row_for_every_policy(page: str) -> None:
    beside, *parts, told = page.split("\n## ")[1:]
    names = [*LOGS, *(f"generated, load {load}, faults" for load in LOADS)]
    assert [part.partition("\n")[0] for part in parts] == names
    jobs = re.search(r"windows of ([\d,]+) jobs.* seeds of ([\d,]+) jobs", beside)
    assert jobs is not None
    head = BESIDE.format(windows=WINDOWS, seeds=SEEDS, jobs=jobs[1], drawn=jobs[2])
    assert beside.startswith(head.removeprefix("## "))
    assert KEPT in beside
    rows = [row.split("|")[1].strip() for row in beside.splitlines() if row.startswith("| ")]
    assert rows == ["load", *names, "load", *names]
    told_of = [line.partition(":")[0] for line in beside.splitlines() if line.startswith("- ")]
    assert told_of == [f"- {figure}" for figure in BAD]
    assert told.startswith("\n".join(CALIBRATION).removeprefix("## "))
    assert [told.count(f"| {name} |") > 0 for name in FORECASTS] == [True] * len(FORECASTS)
    for part in parts:
        rows = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| policy")]
        assert [row.split("|")[1].strip() for row in rows] == list(POLICIES)
        assert all(row.count("|") == 2 + len((*COLUMNS, *PROMISES)) for row in rows)
        assert re.search(r"jobs on [\d,]+ devices, offered load [\d.]+, estimates \w+, \d+ faults", part)


def test_the_default_waits_no_longer_than_easy_and_forecasts_hold_what_they_say(page: str) -> None:
    beside, *_, told = page.split("\n## ")[1:]
    rows = [line.split("|")[1:-1] for line in beside.splitlines() if line.count("|") == 7][2:]
    assert len(rows) == len(LOGS) + len(LOADS)
    for cell in (cell for row in rows for cell in row[2:4]):
        less = re.search(r"\((\d+) of (\d+)\)", cell)
        assert less is None or 2 * int(less[1]) >= int(less[2]), cell
    for goodput in (row[5].split() for row in rows):
        assert float(goodput[0]) + float(goodput[2]) >= 0, "lower by more than chance"
    for figure in ("wait", "completion", "promise error"):
        (told_of,) = (line for line in beside.splitlines() if line.startswith(f"- {figure}:"))
        assert "more on" not in told_of, "by more than chance"
    covered = [float(row.split("|")[5].split()[0]) for row in told.splitlines() if "| all |" in row]
    assert len(covered) == len(FORECASTS)
    assert all(85 <= each <= 95 for each in covered)
