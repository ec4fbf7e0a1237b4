"""How much there is, and how much is wanted."""

import pytest
from hypothesis import given

from tests.clusters import drawn, gang, seat, submit
from tests.worlds import PLAIN, scenes
from tutti.engine import events as ev
from tutti.engine.demand import Demand, capacity, wanted
from tutti.engine.model import Coupling, NodeState, Queue, Seats, Shape


@given(scenes(PLAIN))
def test_capacity_is_what_ready_nodes_have_and_others_do_not_use(scene):
    view = scene.view()
    expected = dict.fromkeys(view.resources, 0)
    for node in filter(None, view.nodes):
        if node.state is NodeState.READY:
            for name in expected:
                expected[name] += node.capacity.get(name, 0) - node.foreign.get(name, 0)
    assert capacity(view) == [max(amount, 0) for amount in expected.values()]


@given(scenes(PLAIN))
def test_demand_kept_between_decisions_equals_demand_added_up_anew(scene):
    world = scene.world()
    warm = Demand()
    warm.update(world.view())
    for event in _troubles(world):
        world.apply(event)
        view = world.view()
        warm.update(view)
        cold = Demand()
        cold.update(view)
        assert {name: warm.of(name) for name in view.queues} == {name: cold.of(name) for name in view.queues}


def _troubles(world):
    """A few things that change what is wanted."""
    names = sorted(world.slots)
    yield from (ev.Held(world.at, name) for name in names[::3])
    yield from (ev.Ended(world.at, name) for name in names[1::3])
    yield ev.Submitted(world.at, gang("late", members=2, queue="qa"))
    yield from (ev.Released(world.at, name) for name in names[::6])
    yield ev.NodeGone(world.at, next(iter(world.node_index)))


def test_huge_amounts_do_not_wrap_around():
    world = drawn("1 1 1 1", Queue("default"), memory=1 << 62)
    assert capacity(world.view()) == [4, 4 << 62]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(gang("g", 2, gpu=4), {"gpu": 8}, id="members times what one asks"),
        pytest.param(gang("g", 2, want=4, max=8), {"gpu": 4}, id="the wanted size, not the largest"),
        pytest.param(
            gang("g", 1, shapes=(Shape({"gpu": 1}), Shape({"tpu": 1}))), {"gpu": 1}, id="the shape liked best"
        ),
    ],
)
def test_what_a_waiting_gang_wants(job, expected):
    view = submit(drawn("8"), job).view()
    assert wanted(view.held(0)) == expected


def test_members_that_are_done_want_nothing_more():
    array = gang("array", 4, coupling=Coupling.LOOSE)
    world = seat(drawn("8"), array, "n0*4")
    world.apply(ev.MembersDone(1, "array", 0, (0,), (3,)))
    assert wanted(world.view().held(0)) == {"gpu": 1}


@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param({"after": ("first",)}, id="it waits for another"),
        pytest.param({"unsupported": "hostPort"}, id="it cannot be delivered"),
        pytest.param({"members": 99}, id="all nodes together are too small for it"),
        pytest.param({"shapes": (Shape({"tpu": 1}),)}, id="it asks for what nobody has"),
    ],
)
def test_a_gang_that_cannot_run_adds_nothing_to_demand(stuck):
    demand = Demand()
    demand.update(submit(drawn("8"), gang("g", **stuck)).view())
    assert demand.of("default") == [0]


def test_seats_on_another_shape_are_wanted_on_that_shape():
    either = gang("g", 1, shapes=(Shape({"gpu": 1}), Shape({"cpu": 4}, want=2)))
    world = drawn("8", cpu=64)
    submit(world, either)
    world.apply(ev.Starting(0, "g", (Seats((0,), (1,), 1),)))
    assert wanted(world.view().held(0)) == {"cpu": 8}
