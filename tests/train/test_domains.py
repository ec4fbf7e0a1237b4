"""Losing a whole failure domain, its memory included, loses no committed step."""

import signal
import time

import pytest

from tests.train.stage import LIMIT_S
from tests.train.support import claim
from tests.train.test_faults import check_samples, same_on_all
from tutti.train.boxes import Box
from tutti.train.domains import Places, is_whole, moves, without


def test_a_buddy_is_always_in_another_domain_and_everyone_has_one():
    for names in (("a", "b"), ("a", "b", "a", "b"), ("a", "a", "a", "b"), ("a", "b", "c", "a", "b")):
        places = Places(names)
        for rank in range(len(names)):
            assert names[places.buddy(rank)] != names[rank]
        assert sorted(source for rank in range(len(names)) for source in places.sources(rank)) == [*range(len(names))]


def test_alone_in_one_domain_there_is_no_buddy():
    places = Places(("", "", ""))
    assert (places.is_split, places.share(1), [places.sources(rank) for rank in range(3)]) == (False, (1, 3), [[]] * 3)


def test_only_what_a_domain_lacks_travels_and_each_part_once():
    rows = [Box((at, 0), (2, 4)) for at in (0, 2, 4)]
    places = Places(("a", "b"))
    held = {"a": {"w": [rows[0], rows[2]]}, "b": {"w": [rows[1], rows[0]]}}
    wanted = [{"w": Box((0, 0), (3, 4))}, {"w": Box((3, 0), (3, 4))}]
    found = moves(places, wanted, held)
    assert [(move.source, move.target, move.part) for move in found] == [
        ("b", "a", Box((2, 0), (1, 4))),
        ("a", "b", Box((4, 0), (2, 4))),
    ]


def test_what_is_left_of_a_box_is_exact():
    left = without(Box((0, 0), (4, 4)), [Box((1, 1), (2, 2)), Box((0, 0), (1, 4))])
    assert sum(box.elements for box in left) == 16 - 4 - 4
    assert is_whole((2, 2), [Box((0, 0), (2, 1)), Box((0, 1), (2, 1))])
    assert not is_whole((2, 2), [Box((0, 0), (2, 1))])
    assert is_whole((), [Box((), ())])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrap", "workers", "domains"),
    [pytest.param("fsdp", 4, 2, id="half of a sharded model"), pytest.param("fsdp", 3, 3, id="a third of it"),
     pytest.param("ddp", 4, 2, id="half of the replicas")],
)  # fmt: skip
def test_a_lost_domain_loses_no_committed_step(launch, wrap, workers, domains):
    loop = {"samples": 100, "batch": 12, "wrap": wrap, "faults": {"m1": {"5": "node"}}}
    run = launch("--workers", workers, "--domains", domains, "--max-restarts", 0, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    same_on_all(run)
    assert run.counts()["lost"] == workers // domains
    # The fault strikes inside step 6, so five are committed, and the next generation begins behind them.
    lost = run.events("lost")[-1]
    after = next(event for event in run.events("formed") if event["at"] > lost["at"])
    assert after["step"] == 5
    if wrap == "fsdp":
        assert after["source"] == "memory"
        assert bool(run.counts()["filled"]) == (domains == 3)
    assert run.leftovers() == []
    claim(wrap, "L3" if wrap == "fsdp" else "L2")


@pytest.mark.slow
def test_a_domain_that_is_lost_with_the_agent_loses_no_committed_step(launch):
    """Those of the other domain leave by themselves; what they and their buddies kept is enough for another agent."""
    loop = {"samples": 100, "batch": 12, "wrap": "fsdp"}
    run = launch("--workers", 4, "--domains", 2, loop={**loop, "faults": {"m1": {"5": "node and agent"}}})
    assert run.finish() == -signal.SIGKILL
    limit = time.monotonic() + LIMIT_S
    while run.processes():
        assert time.monotonic() < limit, run.said()
        time.sleep(0.02)
    again = launch("--workers", 3, "--domains", 2, loop=loop, home=run.home)
    assert again.finish() == 0, again.said()
    first = again.events("formed")[0]
    assert (first["source"], first["step"]) == ("memory", 5)
    assert again.counts()["filled"], "the lost domain gets its part from the other"
    check_samples(again)
    same_on_all(again)
    assert again.leftovers() == []
