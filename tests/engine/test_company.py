"""Where two gangs that span nodes never share one: who might span nodes counts as one that does."""

import msgspec
import pytest

from tests.clusters import brief, drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import (
    HOUR,
    SECOND,
    Arrange,
    Coupling,
    Gang,
    Near,
    NodeState,
    OnLoss,
    Resizing,
    Role,
    Seats,
    Shape,
    Window,
)
from tutti.engine.policy import Placing
from tutti.engine.presets import PRESETS
from tutti.engine.world import World

APART = msgspec.structs.replace(PRESETS["balanced"].policy, place=Placing(one_wide_gang_per_node=True))


def elastic(members: int, **more: int) -> Gang:
    return gang("g", members, resizing=Resizing.LIVE, run_s=100, **more)


def beside_a_wide_gang(picture: str) -> World:
    return seat(drawn(picture), gang("wide", 2, gpu=2, run_s=5000), "n0 n1")


def planned(world: World) -> str:
    view = world.view()
    plan = decide(view, HOUR, APART)
    assert check(view, plan, APART) == []
    return brief(plan, view)


@pytest.mark.parametrize(
    ("comes", "sits"),
    [
        pytest.param(gang("g", 1, run_s=100), "g@n0", id="one member goes anywhere"),
        pytest.param(gang("g", 2, run_s=100), "g@n0*2", id="two that fit on a node share it"),
        pytest.param(gang("g", 2, run_s=100, arrange=Arrange.SPREAD), "g@n2*2", id="two that spread keep away"),
        pytest.param(elastic(2, want=6, max=6), "g@n2*4", id="more than one node is wanted"),
    ],
)
def test_whoever_comes(comes, sits):
    assert planned(submit(beside_a_wide_gang("4 4 4"), comes)) == sits


def test_a_gang_grows_on_its_only_node_but_not_to_others_when_a_wide_one_is_there():
    world = seat(beside_a_wide_gang("5 4 4"), elastic(2, max=6), "n0*2")
    assert planned(world) == "g+@n0*3"


def test_a_gang_that_is_alone_on_its_node_grows_to_others_without_wide_gangs():
    world = seat(beside_a_wide_gang("4 4 4 4"), elastic(4, max=8), "n2*4")
    assert planned(world) == "g+@n2*4,n3*4"


def test_a_lost_member_goes_where_the_rest_of_its_gang_must_be():
    roles = tuple(Role(name, 1, shapes=(Shape({"gpu": 1}),)) for name in ("head", "worker"))
    both = Gang("g", roles, within="rack", on_loss=OnLoss.REPAIR)
    world = drawn("a: 1 2 | b: 8")
    submit(world, both)
    world.apply(ev.Starting(0, "g", (Seats((0,), (1,)), Seats((1,), (1,)))))
    world.apply(ev.Running(0, "g"))
    world.apply(ev.MemberLost(1, "g", 0, (0,), (1,)))
    world.apply(ev.NodeTurned(1, "a0", NodeState.LOST))
    assert planned(world) == "g~@a1/a1"


def test_a_repair_that_spans_nodes_keeps_others_away_that_do():
    world = seat(drawn("4 3"), gang("g", 2, gpu=2, on_loss=OnLoss.REPAIR, run_s=5000), "n0 n1")
    world.apply(ev.MemberLost(1, "g", 0, (0,), (1,)))
    submit(world, gang("new", 3, run_s=100), at=2)
    assert planned(world).startswith("g~@n0,n1 new>")


@pytest.mark.parametrize(("level", "sits"), [("node", "g@a1"), ("rack", "g@b0")])
def test_nobody_comes_near_one_who_keeps_away_from_it_although_it_does_not_mind_itself(level, sits):
    alone = Gang("alone", (Role("r", shapes=(Shape({"gpu": 1}),), repels=(Near("loud", level),)),))
    world = seat(drawn("a: 4 4 | b: 8"), alone, "a0")
    loud = Gang("g", (Role("r", shapes=(Shape({"gpu": 1}),), marks=("loud",)),))

    assert planned(submit(world, loud)) == sits


def test_who_joins_a_gang_later_goes_where_the_rest_of_it_must_be():
    late = Role("late", 0, 2, 2, (Shape({"gpu": 2}),), Coupling.LOOSE)
    pair = gang("g", 2, within="rack")
    world = seat(drawn("a: 2 3 | b: 8"), pair, "a0 a1")
    world.apply(ev.Changed(0, msgspec.structs.replace(pair, roles=(*pair.roles, late))))

    assert planned(world) == "g+@a0,a1/a1"


def test_seats_that_are_chosen_while_a_window_is_looked_at_disturb_nobody():
    """They cut nodes off those that were like them, after the gang that is looked at had counted the kinds of nodes."""
    world = seat(drawn("2 2 2 2"), gang("busy", 6, run_s=100), "n0*2 n1*2 n2*2")
    world.apply(ev.WindowSet(0, Window("upkeep", 500 * SECOND, 600 * SECOND, ("n3",))))
    submit(world, gang("wide", 2, 2, run_s=1000), gang("short", run_s=10, submitted=SECOND))
    view, cache = world.view(), Cache()

    for _ in range(2):
        # Only where it is known that the gang fits at all are seats not yet taken when it is looked at.
        plan = decide(view, SECOND, PRESETS["easy"].policy, cache)
        assert brief(plan.without_answers(), view) == "wide>100@n0,n1 short@n3"
