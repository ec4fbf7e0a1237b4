"""Every row of the table of keys is played on the translation: it does what the table says."""

import re

import pytest

from tests.kube.verdicts import played
from tutti.jobs.kube.verdicts.all import TABLE
from tutti.jobs.kube.verdicts.row import Verdict

ROWS = [(dialect, row) for dialect, rows in TABLE.items() for row in rows]
PLAYED = [(dialect, row) for dialect, row in ROWS if row.example is not None]
CLUSTERS = ("grouped", "bare", "none")


def ids(pairs):
    return [f"{dialect} {row.on} {row.key} {str(row.example)[:40]}" for dialect, row in pairs]


@pytest.mark.parametrize(("dialect", "row"), PLAYED, ids=ids(PLAYED))
def test_a_key_is_treated_as_the_table_says(dialect, row):
    outcomes = [played(dialect, row, pods) for pods in CLUSTERS]
    changes = [with_it[0] != without[0] for without, with_it in outcomes]
    said = {text for without, with_it in outcomes for text in with_it[1] if text not in without[1]}
    if row.verdict is Verdict.REFUSED:
        assert any(named(row) in text for text in said), said
    else:
        assert not said
        assert any(changes) is (row.verdict is Verdict.HONOURED), outcomes


def named(row):
    """The word by which a key is called in what people are told."""
    last = re.split(r"[.\]]", row.name.removesuffix("[]"))[-1] if not row.name.count("/") else row.name
    return last.partition("[]")[0] if "[]" not in row.name else re.split(r"\.", row.name)[-1].removesuffix("[]")


def test_what_has_an_effect_is_played():
    assert [row for _, row in ROWS if row.example is None and row.verdict is not Verdict.KNOWN] == []


def test_no_key_has_two_rows_that_say_the_same():
    keys = [(dialect, row.on, row.key, str(row.example)) for dialect, row in ROWS]
    assert len(keys) == len(set(keys))
