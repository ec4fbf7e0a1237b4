"""The page of results is what bench/results.py prints: nobody edits it by hand."""

import re
from pathlib import Path

import pytest

from bench.results import HEAD, LOADS, LOGS, NODE_FAILS_EVERY, POLICIES
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
    parts = page.split("\n## ")[1:]
    names = [*LOGS, *(f"generated, load {load}, faults" for load in LOADS)]
    assert [part.partition("\n")[0] for part in parts] == names
    for part in parts:
        rows = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| policy")]
        assert [row.split("|")[1].strip() for row in rows] == list(POLICIES)
        assert all(row.count("|") == 9 for row in rows)
        assert re.search(r"jobs on [\d,]+ devices, offered load [\d.]+, estimates \w+, \d+ faults", part)
