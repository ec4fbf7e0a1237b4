"""What a new generation goes on from, as a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.train.agree import EMPTY, Accord, Claim, Vote, accord, check_alike, judge, resolves, settle
from tutti.train.errors import StateChanged


def claims(*steps, **options):
    return [Claim(f"m{rank}", step, **options) for rank, step in enumerate(steps)]


@pytest.mark.parametrize(
    ("found", "remembered", "expected"),
    [
        pytest.param(claims(5, 5, 5), [3], Accord(5, "live", 0), id="all there"),
        pytest.param(claims(4, 5, 5), [3], Accord(5, "live", 1), id="one is behind: the newest has it"),
        pytest.param(claims(5, EMPTY), [3], Accord(5, "live", 0), id="a newcomer"),
        pytest.param(claims(EMPTY, EMPTY), [7, 3], Accord(7, "memory"), id="everyone new: memory"),
        pytest.param(claims(EMPTY, EMPTY), [], Accord(0, "fresh", 0), id="everyone new, no memory: the beginning"),
        pytest.param(
            claims(5, 5, is_sharded=True, is_whole=False), [5, 4], Accord(5, "memory"), id="shards come by memory"
        ),
        pytest.param(
            claims(5, 5, is_sharded=True, is_whole=False), [4], Accord(4, "memory"), id="the newest complete step"
        ),
        pytest.param(
            claims(5, 5, is_sharded=True, is_whole=False), [], Accord(EMPTY, "lost"), id="a shard that is nowhere"
        ),
        pytest.param(
            claims(0, EMPTY, is_sharded=True, is_whole=False), [], Accord(0, "fresh", 0), id="shards at the start"
        ),
    ],
)
def test_where_a_generation_goes_on_from(found, remembered, expected):
    assert accord(found, remembered) == expected


@given(st.lists(st.tuples(st.integers(0, 1), st.booleans()), min_size=1, max_size=6), st.integers(3, 6))
def test_doubt_is_resolved_the_same_way_by_everyone(members, witnessed):
    """Members at step 4, some a step ahead, some having voted for it: all who can move end where the newest is."""
    found = [Claim(f"m{at}", 4 + ahead, in_doubt=not ahead and doubts) for at, (ahead, doubts) in enumerate(members)]
    newest = settle(found, min(witnessed, 5))
    after = [claim.step + resolves(claim, newest) for claim in found]
    assert all(4 <= step <= 5 for step in after)
    if newest == 4:
        assert after == [4] * len(after)
    for claim, step in zip(found, after, strict=True):
        assert step == newest or not claim.in_doubt


def test_a_vote_is_only_a_commit_when_everyone_is_well():
    rows = [Vote(1, 3, 0, 0, 2, 5, 9, 8).row(), Vote(1, 4, 1, 0, 2, 6, 9, 7).row()]
    verdict = judge(rows, 4, 11)
    assert (verdict.is_committed, verdict.generation, verdict.has_snapshot, verdict.has_leave, verdict.sealed) == (
        True,
        4,
        True,
        False,
        7,
    )
    rows[0] = Vote(0, 3, 0, 1, 2, 5, 9, 8).row()
    assert not judge(rows, 4, 11).is_committed


def refused(found):
    """The members that may not go on."""
    names = []
    for rank, claim in enumerate(found):
        try:
            check_alike(found, rank)
        except StateChanged:
            names.append(claim.member)
    return names


@pytest.mark.parametrize(
    ("steps", "kinds", "expected"),
    [
        pytest.param((5, 5, EMPTY), "aaa", [], id="all alike"),
        pytest.param((5, 5, EMPTY), "aab", ["m2"], id="a newcomer with another model"),
        pytest.param((EMPTY, 5), "ab", ["m0"], id="who has the state is right"),
        pytest.param((EMPTY, EMPTY), "ab", ["m0", "m1"], id="nobody is right yet"),
    ],
)
def test_who_protects_other_tensors_does_not_go_on(steps, kinds, expected):
    found = [Claim(f"m{rank}", step, kind=kind) for rank, (step, kind) in enumerate(zip(steps, kinds, strict=True))]
    assert refused(found) == expected
