"""Running gangs move closer together for one that needs room in one piece, where the policy asks for it."""

from typing import Any

import pytest

from tests.clusters import brief, drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import HOUR, Gang, Resizing
from tutti.engine.plan import Await, Migrate, Plan
from tutti.engine.policy import Placing, Policy
from tutti.engine.world import World

MOVES = Policy(place=Placing(migrate=True))
LATER = HOUR


def live(name: str, members: int = 1, gpu: int = 1, **fields: Any) -> Gang:
    return gang(name, members, gpu, run_s=86_400, resizing=Resizing.LIVE, **fields)


def moves(plan: Plan) -> list[tuple[str, str]]:
    return [(action.gang, action.room_for) for action in plan.actions if isinstance(action, Migrate)]


def world_in_pieces() -> World:
    """Half of each node is taken."""
    world = seat(drawn("8 8"), live("left", 2, 2), "n0*2")
    seat(world, live("right", 1, 4), "n1")
    return submit(world, gang("wide", 1, 8, run_s=60))


def test_a_move_makes_room_in_one_piece():
    world = world_in_pieces()
    view = world.view()

    plan = decide(view, LATER, MOVES)

    assert brief(plan, view) == "wide<n1 right=@n0 wide:WaitingForEviction"
    assert check(view, plan, MOVES) == []
    assert moves(plan) == [("right", "wide")]


def test_the_gang_starts_once_the_other_has_moved():
    world = world_in_pieces()
    plan = decide(world.view(), LATER, MOVES)
    for action in plan.actions:
        if isinstance(action, Await):
            world.apply(ev.Pledged(LATER, action.gang, action.pledge))
        if isinstance(action, Migrate):
            world.apply(ev.Resized(LATER + 1, action.gang, action.seats))
    view = world.view()

    plan = decide(view, LATER + 2, MOVES)

    assert brief(plan, view).startswith("wide@")
    assert check(view, plan, MOVES) == []


@pytest.mark.parametrize(
    ("policy", "now", "fields"),
    [
        pytest.param(Policy(), LATER, {}, id="nobody asked for moves"),
        pytest.param(MOVES, 1, {}, id="they have only just sat down"),
        pytest.param(MOVES, LATER, {"within": "rack"}, id="they are bound to their rack"),
    ],
)
def test_nobody_moves(policy, now, fields):
    world = seat(drawn("a: 8 | b: 8"), live("left", 2, 2, **fields), "a0*2")
    seat(world, live("right", 1, 4, **fields), "b0")
    submit(world, gang("wide", 1, 8, run_s=60))
    if fields:
        # Whoever is bound to a rack may still sit in the other one; two that are bound to their own cannot.
        seat(world, gang("rest", 1, 4, run_s=86_400), "a0")
    view = world.view()

    plan = decide(view, now, policy)

    assert "=@" not in brief(plan, view)


def test_what_is_not_there_in_sum_is_not_made_by_moves():
    world = submit(seat(drawn("8 8"), live("left", 2, 2), "n0 n1"), gang("wide", 2, 8, run_s=60))
    view = world.view()

    assert "=@" not in brief(decide(view, LATER, MOVES), view)


def test_a_gang_whose_members_may_not_move_stays():
    world = seat(drawn("8 8"), gang("left", 1, 4, run_s=86_400), "n0")
    seat(world, gang("right", 1, 4, run_s=86_400), "n1")
    view = submit(world, gang("wide", 1, 8, run_s=60)).view()

    assert "=@" not in brief(decide(view, LATER, MOVES), view)


def test_seats_of_a_move_are_kept_for_it():
    world = world_in_pieces()
    submit(world, gang("small", 1, 4, run_s=3600, submitted=LATER), at=LATER)
    view = world.view()

    plan = decide(view, LATER, MOVES)

    assert check(view, plan, MOVES) == []
    assert brief(plan, view).startswith("wide<n1 right=@n0 ")
    assert "small@" not in brief(plan, view)
