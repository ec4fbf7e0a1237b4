"""What the user's program does between two runs through the data, with collectives of its own, while members come and
go.
"""

import pytest

from tests.train.test_faults import check_samples, same_on_all
from tutti.train.course import Course

pytestmark = pytest.mark.slow
LOOP = {"samples": 24, "batch": 24, "epochs": 60, "nested": True, "collect": True, "sleep": 0.02}


def check(run, epochs=60):
    assert run.finish() == 0, run.said()
    check_samples(run, epochs=epochs, batch=24, samples=24)
    same_on_all(run)
    assert run.leftovers() == []


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_whoever_comes_at_the_end_of_an_epoch_is_not_mixed_with_what_follows_it(launch, wrap):
    """Every epoch is one step, so every change would be at its end; it waits for the next loop to begin."""
    loop = {**LOOP, "wrap": wrap, "faults": {"m1": {"5": "kill"}, "m0": {"30": "kill"}}}
    run = launch("--workers", 3, "--max-restarts", 9, loop=loop)
    check(run)
    assert {event["member"] for event in run.events("lost")} == {"m0", "m1"}
    assert run.counts()["fallback"] == 0
    assert run.events("formed")[-1]["world"] == 3, "they did come"


def test_a_member_lost_between_two_epochs_costs_no_committed_step(launch):
    """The loop's own collective is thrown, all start again, and the last snapshot was twenty steps ago."""
    loop = {**LOOP, "wrap": "ddp", "faults": {"m1": {"between": 21}}}
    run = launch("--workers", 3, "--snapshot-every", 1000, loop=loop)
    check(run)
    assert run.counts()["fallback"] == 2
    assert run.events("formed")[-1]["step"] == 21
    assert run.events("formed")[-1]["source"] == "memory"


def test_a_collective_that_the_others_have_behind_them_is_refused_with_words(launch):
    """A plain range around the loop: who comes later would go through every epoch that is over."""
    loop = {**LOOP, "wrap": "ddp", "nested": "range", "faults": {"m1": {"5": "kill"}}}
    run = launch("--workers", 3, "--max-restarts", 2, loop=loop)
    check(run)
    assert "Write `for epoch in job.epochs(n)`" in run.log.read_text()
    crashed = {event["member"] for event in (*run.events("ended"), *run.events("lost")) if event["code"] == 1}
    assert crashed
    assert not crashed & {"m0", "m2"}, "nobody else is harmed"


def test_a_run_that_ends_while_somebody_comes_does_not_wait_for_it(launch):
    """The change was announced and agreed on at the very last commit."""
    loop = {"samples": 24, "batch": 24, "epochs": 1, "sleep": 3.0}
    run = launch("--workers", 2, "--max", 3, "--standby", 1, loop={**loop, "wrap": "ddp"})
    check(run, epochs=1)


def test_between_two_loops_is_where_one_has_ended_and_the_next_has_not_begun():
    course = Course(length=10, opened=1)
    places = []
    for epoch, cursor, opened in ((1, 5, 1), (2, 0, 1), (2, 0, 2), (2, 5, 2), (0, 0, 0)):
        course.epoch, course.cursor, course.opened = epoch, cursor, opened
        places.append(course.is_between)
    assert places == [False, True, False, False, False]


def test_a_loop_that_fails_by_itself_goes_on_from_the_step_where_it_did(launch):
    loop = {"samples": 24, "batch": 24, "epochs": 12, "wrap": "ddp"}
    faults = {member: {"7": "raise"} for member in ("m0", "m1", "m2")}
    run = launch("--workers", 3, "--snapshot-every", 1000, loop={**loop, "faults": faults})
    assert run.finish() == 1, run.said()
    again = launch("--workers", 2, loop=loop, home=run.home)
    check(again, epochs=12)
    assert (again.events("formed")[0]["source"], again.events("formed")[0]["step"]) == ("memory", 7)
