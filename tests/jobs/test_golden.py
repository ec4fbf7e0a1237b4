"""Inputs as people have them, and what is understood of each; `python -m tests.jobs.golden_files` writes them anew."""

import json
import re

import pytest

from tests.jobs.golden_files import GROUPS, PAGE, cases, outcome, page, written
from tutti.jobs.explain import as_json
from tutti.jobs.understand import understand

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


def test_the_answer_for_machines_has_every_key_and_each_has_its_source():
    line = "torchrun --nnodes 2:4 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 8"
    said = as_json(understand((line,), {"time": "2h"}, env={}))
    gang, sources = said["gang"], said["sources"]
    keys = {"name", "roles", "legal_sizes", "elastic_level", "limit_s", "queue", "priority", "framework"}
    assert keys <= set(gang)
    assert keys <= set(sources)
    assert gang["roles"] == [
        {
            "name": "worker",
            "min": 2,
            "want": 4,
            "max": 4,
            "coupling": "gang",
            "ask": {"gpu": 8, "cpu_milli": 0, "memory_bytes": 0},
        }
    ]
    assert sources["gpu"] == "--nproc-per-node on the command line"
    assert sources["roles"] == sources["max"] == "--nnodes on the command line"
    assert sources["limit_s"] == "--time on the command line"
    assert sources["legal_sizes"] == "tensor 8"
