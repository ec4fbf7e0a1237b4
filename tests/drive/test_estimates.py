"""Estimates from history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode

from tests.clusters import gang, lasting
from tutti.drive.estimates import ENOUGH, KEEP_RUNS, History, Memory, quantiles, stem
from tutti.engine.model import NEVER, SECOND, Estimate, Source

STEMS = [
    ("train-17", "train"),
    ("llama_70b-0042", "llama_70b"),
    ("sweep.3.12", "sweep"),
    ("job-7f3a9c", "job"),
    ("resnet50", "resnet50"),
    ("123", "123"),
    ("plain", "plain"),
    ("bert-base", "bert-base"),
]


@pytest.mark.parametrize(("name", "expected"), STEMS)
def test_what_stays_the_same_from_run_to_run(name, expected):
    assert stem(gang(name)) == expected


def learnt(*runs_s, name="train-1", members=2, user="ann"):
    history = History()
    for run_s in runs_s:
        history.learn(gang(name, members, user=user), run_s * SECOND)
    return history


def test_the_middle_is_the_mean_of_the_last_two_runs():
    estimate = learnt(500, 100, 200).estimate(gang("train-2", 2, user="ann"))
    assert estimate == Estimate(NEVER, 150 * SECOND, 1000 * SECOND, Source.HISTORY)


def test_with_enough_runs_the_cautious_estimate_is_a_quantile():
    estimate = learnt(*range(20, 0, -1)).estimate(gang("train-2", 2, user="ann"))
    assert estimate.p90 == 18 * SECOND


FALLBACKS = [
    pytest.param(gang("train-2", 2, user="ann"), 100, id="same command and size"),
    pytest.param(gang("eval", 2, user="ann"), 100, id="another command of the size"),
    pytest.param(gang("eval", 9, user="ann"), 100, id="another size"),
    pytest.param(gang("train-2", 2, user="bob"), 0, id="another user"),
]


@pytest.mark.parametrize(("each", "p50_s"), FALLBACKS)
def test_where_a_kind_of_run_is_new_the_next_larger_group_speaks(each, p50_s):
    assert learnt(100).estimate(each).p50 == p50_s * SECOND


def test_runs_without_a_user_are_not_all_alike():
    history = learnt(100, user="")
    assert history.estimate(gang("train-2", 2)).p50 == 100 * SECOND
    assert history.estimate(gang("other", 5)).source is Source.NONE


def test_a_declared_limit_stays_and_nothing_is_estimated_above_it():
    estimate = learnt(100, 900).estimate(gang("train-2", 2, user="ann", estimate=lasting(600)))
    assert (estimate.limit, estimate.p50, estimate.p90) == (600 * SECOND, 500 * SECOND, 600 * SECOND)


def test_declared_quantiles_stay_as_declared():
    told = lasting(600, 500, 400)
    assert learnt(100).estimate(gang("train-2", 2, user="ann", estimate=told)) == told


@pytest.mark.parametrize("told", [Estimate(), lasting(60), Estimate(9, 9, 9, Source.PROGRESS)])
def test_without_history_what_was_told_stays(told):
    assert History().estimate(gang("a", estimate=told)) == told


def test_an_estimate_can_be_completed_again_as_history_grows():
    history = learnt(100)
    first = history.estimate(gang("train-2", 2, user="ann", estimate=lasting(600)))
    history.learn(gang("train-2", 2, user="ann"), 300 * SECOND)
    second = history.estimate(gang("train-3", 2, user="ann", estimate=first))
    assert (second.limit, second.p50) == (600 * SECOND, 200 * SECOND)


def test_whoever_knows_the_command_line_may_say_so():
    history = History(command=lambda each: "python train.py")
    history.learn(gang("a", user="ann"), 100 * SECOND)
    assert history.alike(gang("a", user="ann"), gang("b", user="ann"))


def test_memory_is_bounded_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr("tutti.drive.estimates.KEEP_KEYS", 6)
    history = History()
    for i in range(10):
        for _ in range(KEEP_RUNS + 5):
            history.learn(gang("train", user=f"u{i}"), SECOND)
    runs = history.memory().runs
    assert [entry.key for entry in runs if len(entry.key) == 1] == [("u8",), ("u9",)]
    assert all(len(entry.lengths) == KEEP_RUNS for entry in runs)


def test_a_stored_history_gives_the_same_estimates():
    history = learnt(100, 200, 300)
    again = History.recalled(decode(history.dump(), type=Memory))
    each = gang("train-9", 2, user="ann")
    assert again.estimate(each) == history.estimate(each)
    assert again.dump() == history.dump()


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=KEEP_RUNS))
def test_quantiles_are_ordered_and_near_what_was_seen(runs):
    p50, p90 = quantiles(tuple(runs))
    assert min(runs) <= p50 <= p90
    assert p90 <= max(runs) * (1 if len(runs) >= ENOUGH else 2)
