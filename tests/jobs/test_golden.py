"""Inputs as people have them, and what is understood of each; `python -m tests.jobs.golden_files` writes them anew."""

import json
import re

import pytest

from tests.jobs.golden_files import GROUPS, PAGE, cases, outcome, page, written

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_is_understood_is_what_was_reviewed(case):
    assert written(outcome(case)) == case.expected.read_text()


def test_there_are_many_of_every_kind():
    counts = {group: sum(case.group == group for case in CASES) for group in GROUPS}
    assert sum(counts.values()) >= 120
    assert min(counts.values()) >= 15


def test_the_table_of_the_documentation_is_made_from_them():
    assert PAGE.read_text() == page(), "run python -m tests.jobs.golden_files"


def test_nothing_unknown_is_guessed():
    """Where a count is known only at run time, it is asked for and no source claims to know it."""
    unknown = [case for case in CASES if "unknown-variable" in case.name or "substitution" in case.name]
    assert unknown
    for case in unknown:
        said = json.loads(case.expected.read_text())
        assert said["asks"], case.name


def test_the_promises_of_the_documentation_name_tests_that_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text())
    assert len(named) > 15
    for file, name in named:
        assert f"\ndef {name}(" in (PAGE.parents[2] / file).read_text(), name
