"""The token of gangs with several roles, and what never fits."""

import pytest

from tests.clusters import drawn, seat, submit
from tests.clusters import gang as one_role
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, Estimate, Gang, Kind, Near, Role, Shape, Source, Token, Window
from tutti.engine.policy import Effort, Policy, Reservation

NOW = 100 * SECOND


def two(ps: int, workers: int, run_s: int = 60, **worker: object) -> Gang:
    """A gang of `ps` members of two cards and `workers` of eight."""
    roles = (
        Role("ps", ps, shapes=(Shape({"gpu": 2}),)),
        Role("worker", workers, shapes=(Shape({"gpu": 8}),), **worker),  # type: ignore[arg-type]
    )
    return Gang("g", roles, estimate=Estimate(run_s * SECOND, source=Source.DECLARED))


def reason(world):
    return decide(world.view(), NOW, Policy(reserve=Reservation(depth=1))).answers["g"]


@pytest.mark.parametrize(
    ("picture", "gang", "token"),
    [
        pytest.param("8 8", two(1, 2), Token.NEVER_FITS, id="each role fits, all together ask for more than there is"),
        pytest.param("8 8 8", two(1, 4), Token.NEVER_FITS, id="one role does not fit"),
        pytest.param("8 8-1 8-1", two(1, 2), Token.USED_BY_OTHERS, id="others use what the second role needs"),
        pytest.param("8 8x 8x", two(1, 2), Token.NODES_LOST, id="nodes are missing for the second role"),
    ],
)
def test_several_roles(picture, gang, token):
    assert reason(submit(drawn(picture), gang)).token is token


def test_roles_that_fit_alone_but_not_beside_each_other_lack_room():
    world = seat(drawn("8 8 8"), one_role("h", 1, 7, run_s=500), "n0")
    assert reason(submit(world, two(1, 2))).token is Token.NO_CAPACITY


def test_all_roles_together_are_told_with_their_numbers():
    found = reason(submit(drawn("8 8"), two(1, 2)))
    assert found.detail == "its roles ask for 18 gpu together, and all nodes together have 16"
    assert found.kind is Kind.CHANGE


def test_the_role_that_never_fits_is_named_with_the_size_that_would():
    found = reason(submit(drawn("8 8 8 8"), two(1, 5)))
    assert found.detail == "role 'worker': at most 4 of 5 members would fit on the empty cluster"
    assert (found.asked, found.placeable) == (5, 4)


def test_several_roles_that_would_delay_a_promise():
    world = seat(drawn("8 8 8"), one_role("h", 1, 8, run_s=200), "n0")
    submit(world, one_role("first", 3, 8, run_s=50, priority=1))
    found = reason(submit(world, two(1, 1, run_s=500)))
    assert found.token is Token.RESERVED_AHEAD


def test_the_nearest_of_several_shapes_is_told():
    shapes = (Shape({"gpu": 16}), Shape({"gpu": 8}))
    found = reason(submit(drawn("8 8"), Gang("g", (Role(min=3, shapes=shapes),))))
    assert found.detail == "at most 2 of 3 members would fit on the empty cluster"


def test_room_beside_somebody_it_may_not_sit_with_is_no_room():
    world = seat(drawn("8"), one_role("db", 1, 1, run_s=500, marks=("db",)), "n0")
    assert reason(submit(world, one_role("g", 1, 1, repels=(Near("db"),)))).token is Token.NO_CAPACITY


@pytest.mark.parametrize(
    ("start", "token"),
    [
        pytest.param(50, Token.NO_CAPACITY, id="a window is open"),
        pytest.param(150, Token.RESERVED_AHEAD, id="a window is coming"),
    ],
)
def test_a_window_closes_nodes_while_it_is_open_and_promises_them_before(start, token):
    world = submit(drawn("8"), one_role("g", 1, 8, run_s=100))
    world.apply(ev.WindowSet(0, Window("upkeep", start * SECOND, 300 * SECOND, ("n0",))))
    assert reason(world).token is token


def test_a_search_that_was_given_up_says_so_and_not_that_there_is_no_room():
    roles = (Role("a", min=3, shapes=(Shape({"gpu": 3}),)), Role("b", min=2, shapes=(Shape({"gpu": 4}),)))
    view = submit(drawn("12 5"), Gang("g", roles)).view()
    assert decide(view, 1, Policy()).answers["g"].token is Token.NO_CAPACITY
    plan = decide(view, 1, Policy(effort=Effort(search_steps=1)))
    assert plan.answers["g"].token is Token.BUDGET_SPENT
    assert plan.answers["g"].detail == "effort.search_steps = 1"
    assert plan.spent == ("g",)
