"""A view can be saved, read and replayed: the same plan to the byte, on any machine."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, seat, seats, submit
from tests.drive import histories
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import HOUR, SECOND, Domain, NodeState, Pool, Promise, Queue, Window
from tutti.engine.policy import Policy
from tutti.engine.presets import PRESETS
from tutti.engine.record import BadRecording, encode_plan, record, recorded, replay
from tutti.engine.twin import world_of

POLICIES = st.sampled_from(["balanced", "conservative", "fcfs", "easy"])


def after(history, picture="a: 8 8 | b: 8 8"):
    """A world that has been through something."""
    world = drawn(picture, Queue("q0", weight=2), Queue("q1", limit={"gpu": 20}))
    for event in histories.events(history):
        world.apply(event)
    return submit(world, gang("w1", 3, 2, run_s=60, queue="q0"), gang("w2", 9, 1, run_s=600, queue="q1"), at=world.at)


@given(history=histories.steps, name=POLICIES)
def test_a_replayed_view_gives_the_same_plan_to_the_byte(history, name):
    world, policy = after(history), PRESETS[name].policy
    view, now = world.view(), world.at + SECOND
    data = record(view, now, policy)
    again, then, rule = replay(data)
    assert (then, rule) == (now, policy)
    assert encode_plan(decide(again, then, rule)) == encode_plan(decide(view, now, policy))
    assert record(again, then, rule) == data


@given(history=histories.steps, more=histories.steps)
def test_a_world_made_of_a_view_lives_on_like_the_one_it_came_from(history, more):
    world = after(history)
    view = world.view()
    before = recorded(view)
    twin = world_of(view)
    assert twin.listing() == world.listing()
    for event in histories.events(more):
        assert bool(twin.apply(event).note) == bool(world.apply(event).note)
    assert twin.listing() == world.listing()
    assert recorded(view) == before, "the view has changed"
    plans = [decide(each.view(), world.at, Policy()) for each in (twin, world)]
    assert plans[0].actions == plans[1].actions


def test_everything_a_view_knows_survives():
    world = drawn("z/a: 8 8 | z/b: 8 4d", Queue("default"), Queue("x", parent="default", weight=3), cpu=64)
    world.apply(ev.PoolSet(0, Pool("default", ("zone", "rack"), (9, 3))))
    world.apply(ev.DomainSet(0, Domain("default", ("z", "a"), {"sharp": 2})))
    world.apply(ev.WindowSet(0, Window("fix", HOUR, 2 * HOUR, ("b0",))))
    seat(world, gang("r", 2, 4, queue="x", domain_ask={"rack": {"sharp": 1}}), "a0 a1", at=5 * SECOND)
    submit(world, gang("w", 4, 8, run_s=60), at=6 * SECOND)
    world.apply(ev.Promised(7 * SECOND, "w", Promise(HOUR, 2 * HOUR, (seats(world, "a0 a1 b0"),), 0)))
    world.apply(ev.NodeTurned(8 * SECOND, "b0", NodeState.QUARANTINED, fault=True))
    view = world.view()
    again, _, _ = replay(record(view, 0, Policy()))
    assert recorded(again) == recorded(view)
    assert list(again.domain_free.values()) == list(view.domain_free.values())
    assert [again.use[q].total for q in again.use] == [view.use[q].total for q in sorted(view.use)]


def test_numbers_stay_where_nodes_and_gangs_are_gone():
    world = submit(drawn("8 8 8"), gang("a"), gang("b"), gang("c"))
    world.apply(ev.NodeGone(1, "n0"))
    world.apply(ev.Ended(1, "a"))
    again, _, _ = replay(record(world.view(), 1, Policy()))
    assert again.node_index == {"n1": 1, "n2": 2}
    assert [job.gang.name if job else None for job in again.jobs] == [None, "b", "c"]


REPLAYED = """
import sys
from tutti.engine.decide import decide
from tutti.engine.record import encode_plan, replay
sys.stdout.buffer.write(encode_plan(decide(*replay(sys.stdin.buffer.read()))))
"""


def test_the_plan_does_not_depend_on_the_hash_seed():
    queues = [Queue("default"), *(Queue(f"q{i}", weight=i + 1) for i in range(5))]
    world = drawn("a: 8 8 8 | b: 8 8 4", *queues, cpu=64, ram=512)
    submit(world, *(gang(f"g{i}", 1 + i % 5, 1 + i % 4, run_s=60 * i + 60, queue=f"q{i % 5}") for i in range(30)))
    data = record(world.view(), SECOND, PRESETS["conservative"].policy)
    plans = {
        subprocess.run(
            [sys.executable, "-c", REPLAYED],
            input=data,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert plans == {encode_plan(decide(*replay(data)))}


def a_snapshot():
    return record(submit(drawn("8 8"), gang("a")).view(), 0, Policy())


BAD = [
    pytest.param(b"", "only a part", id="nothing at all"),
    pytest.param(a_snapshot()[:-40], "only a part", id="cut short"),
    pytest.param(b'{"x": 1}', "not a snapshot", id="some other JSON"),
    pytest.param(a_snapshot().replace(b"tutti/v1", b"tutti/v9"), "tutti/v9", id="from a later version"),
    pytest.param(a_snapshot().replace(b'"kind":"snapshot"', b'"kind":"plan"'), "'plan'", id="a plan"),
    pytest.param(a_snapshot().replace(b'"gpu":8', b'"gpu":"8"'), "damaged", id="a number that is a text"),
    pytest.param(a_snapshot().replace(b'"n1"', b'"n0"'), "same name", id="two nodes of one name"),
    pytest.param(a_snapshot().replace(b'"capacity"', b'"kapazity"'), "damaged", id="a word nobody knows"),
]


@pytest.mark.parametrize(("data", "said"), BAD)
def test_what_cannot_be_read_is_refused_with_a_sentence(data, said):
    with pytest.raises(BadRecording, match=said):
        replay(data)


def test_seats_on_a_node_that_is_not_there_are_refused():
    data = record(seat(drawn("8 8"), gang("a"), "n1").view(), 0, Policy())
    with pytest.raises(BadRecording, match=r"gang 'a'.*not there"):
        replay(data.replace(b'"nodes":[1]', b'"nodes":[7]'))
