"""Lost members get a place again where their gang allows it."""

import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, Arrange, Gang, OnLoss, Role, Shape
from tutti.engine.plan import Repair
from tutti.engine.policy import Placing, Policy


def repaired(picture: str, within: str, role_within: str = "") -> tuple[str, ...]:
    """Where the roles sit after the first, of one member, was lost as a whole."""
    roles = tuple(Role(name, within=role_within, shapes=(Shape({"gpu": 2}),)) for name in ("head", "rest"))
    world = drawn(picture)
    seat(world, Gang("g", roles=roles, within=within, on_loss=OnLoss.REPAIR), "y0", "x0")
    lost = world.node_index["y0"]
    world.apply(ev.MemberLost(SECOND, "g", 0, (lost,), (1,)))
    plan = decide(world.view(), SECOND, Policy())
    assert check(world.view(), plan, Policy()) == []
    found = [action for action in plan.actions if isinstance(action, Repair)]
    names = {index: name for name, index in world.node_index.items()}
    return tuple(names[node] for action in found for held in action.seats for node in held.nodes)


@pytest.mark.parametrize("role_within", ["", "rack"])
def test_a_role_that_is_lost_as_a_whole_stays_with_the_others(role_within):
    # In the other zone a node would be filled to the last device, which is what packing looks for.
    picture = "a/x: 2 | a/y: 8d | a/w: 8 | b/z: 2"
    assert repaired(picture, "zone", role_within)[0] == "w0"
    assert repaired(picture, "", role_within)[0] == "z0"


def test_where_the_others_have_no_room_beside_them_it_waits():
    assert repaired("a/x: 2 | a/y: 8d | b/z: 2", "zone") == ()


def test_who_starts_in_the_same_plan_knows_where_a_repaired_gang_will_sit():
    policy = Policy(place=Placing(one_wide_gang_per_node=True))
    world = drawn("2 4 4")
    seat(world, gang("wide", members=2, gpu=2, on_loss=OnLoss.REPAIR), "n0 n1")
    world.apply(ev.MemberLost(SECOND, "wide", 0, (world.node_index["n1"],), (1,)))
    submit(world, gang("next", members=4, gpu=1, arrange=Arrange.SPREAD))
    plan = decide(world.view(), SECOND, policy)
    assert check(world.view(), plan, policy) == []
    assert [action.gang for action in plan.actions if isinstance(action, Repair)] == ["wide"]
