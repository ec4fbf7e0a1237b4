"""Loose members are refilled: tasks until every one has had its turn, lost ones while the others go on."""

import msgspec
import pytest

from tests.clusters import brief, drawn, gang, lasting, seat, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import (
    SECOND,
    Coupling,
    Gang,
    Life,
    Node,
    NodeState,
    OnLoss,
    Queue,
    Role,
    Seats,
    Shape,
    State,
    Token,
)
from tutti.engine.plan import Grow, Repair, Start
from tutti.engine.policy import Policy
from tutti.engine.world import World


def test_tasks_that_are_done_are_not_counted_twice():
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.NodeSeen(0, Node("n0", {"gpu": 8})))
    role = Role("task", 1, 20, 20, (Shape({"gpu": 1}),), Coupling.LOOSE)
    world.apply(ev.Submitted(0, Gang("array", (role,))))
    world.apply(ev.Starting(0, "array", (Seats((0,), (8,)),)))
    world.apply(ev.Running(0, "array"))
    for round_number, running in enumerate((8, 4)):
        world.apply(ev.MembersDone(1, "array", 0, (0,), (8,)))
        (action,) = decide(world.view(), 2, Policy()).actions
        assert isinstance(action, Grow), round_number
        assert action.seats[0].members == running
        world.apply(ev.Resized(3, "array", action.seats))


HEAD = Role("head", 1, 1, 1, (Shape({"cpu": 1}),))
WORKERS = Role("worker", 1, 3, 3, (Shape({"gpu": 1}),), Coupling.LOOSE)


@pytest.mark.parametrize("roles", [(HEAD, WORKERS), (WORKERS,)], ids=["beside a head", "alone"])
@pytest.mark.parametrize("how", ["member", "node"])
def test_a_lost_loose_member_is_started_again_and_nobody_waits_for_it(roles, how):
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    for name in ("n0", "n1"):
        world.apply(ev.NodeSeen(0, Node(name, {"gpu": 4, "cpu": 8})))
    world.apply(ev.Submitted(0, Gang("cluster", roles)))
    seats = tuple(Seats((int(role is WORKERS),), (role.want,)) for role in roles)
    world.apply(ev.Starting(0, "cluster", seats))
    world.apply(ev.Running(0, "cluster"))
    worker = len(roles) - 1
    if how == "node":
        world.apply(ev.NodeTurned(1, "n1", NodeState.LOST))
    else:
        world.apply(ev.MemberLost(1, "cluster", worker, (1,), (1,)))
    job = world.view().job("cluster")
    assert job is not None
    life = job.life
    assert life.state is State.RUNNING
    assert not any(lost.nodes for lost in life.lost)
    (action,) = decide(world.view(), 2, Policy()).actions
    assert isinstance(action, Grow)
    assert action.seats[worker].members == 3
    assert action.seats[:worker] == seats[:worker]


@pytest.mark.parametrize(
    ("limits", "running"),
    [({"limit": {"gpu": 3}}, 3), ({"user_limit": {"gpu": 1}}, 1), ({"limit": {"gpu": 5}, "user_limit": {"gpu": 2}}, 2)],
)
def test_as_many_tasks_run_as_limits_allow_until_all_are_done(limits, running):
    world = World()
    world.apply(ev.QueueSet(0, Queue("default", **limits)))
    world.apply(ev.NodeSeen(0, Node("n0", {"gpu": 8})))
    role = Role("task", 1, 7, 7, (Shape({"gpu": 1}),), Coupling.LOOSE)
    world.apply(ev.Submitted(0, Gang("array", (role,), user="ann")))
    world.apply(ev.Starting(0, "array", (Seats((0,), (1,)),)))
    world.apply(ev.Running(0, "array"))
    done, there = 0, 1
    while done < 7:
        for action in decide(world.view(), 1, Policy()).actions:
            assert isinstance(action, Grow)
            world.apply(ev.Resized(1, "array", action.seats))
            there = action.seats[0].members
        assert there == min(running, 7 - done)
        world.apply(ev.MembersDone(2, "array", 0, (0,), (there,)))
        done, there = done + there, 0


def test_an_array_with_nothing_left_to_do_is_in_nobody_s_way():
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.NodeSeen(0, Node("n0", {"gpu": 8})))
    role = Role("task", 1, 2, 2, (Shape({"gpu": 1}),), Coupling.LOOSE)
    world.apply(ev.Submitted(0, Gang("array", (role,))))
    world.apply(ev.Starting(0, "array", (Seats((0,), (2,)),)))
    world.apply(ev.MembersDone(1, "array", 0, (0,), (2,)))
    world.apply(ev.Evicted(1, "array"))
    world.apply(ev.Submitted(2, Gang("wide", (Role("worker", 3, 3, 3, (Shape({"gpu": 1}),)),), submitted=2)))
    started = [action.gang for action in decide(world.view(), 3, Policy()).actions if isinstance(action, Start)]
    assert started == ["wide"]


def optional(ask, first=True):
    """A head and two workers that nobody waits for, in either order."""
    loose = Role("worker", 0, 2, 2, (Shape(ask),), Coupling.LOOSE)
    return Gang("cluster", (loose, HEAD) if first else (HEAD, loose))


@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
@pytest.mark.parametrize("ask", [{"gpu": 9}, {"tpu": 1}], ids=["too big for every node", "of what no node has"])
def test_nobody_waits_for_loose_members_that_never_fit(ask, first):
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.NodeSeen(0, Node("n0", {"gpu": 4, "cpu": 8})))
    world.apply(ev.Submitted(0, optional(ask, first)))
    (action,) = decide(world.view(), 2, Policy()).actions
    assert isinstance(action, Start)
    assert [held.members for held in action.seats] == ([0, 1] if first else [1, 0])


def test_of_loose_roles_those_start_that_fit():
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.NodeSeen(0, Node("n0", {"gpu": 4})))
    never = Role("never", 0, 1, 1, (Shape({"gpu": 9}),), Coupling.LOOSE)
    small = Role("small", 0, 3, 3, (Shape({"gpu": 2}),), Coupling.LOOSE)
    world.apply(ev.Submitted(0, Gang("some", (never, small))))
    world.apply(ev.Submitted(0, Gang("none", (never, msgspec.structs.replace(never, name="nor")))))
    plan = decide(world.view(), 2, Policy())
    (action,) = plan.actions
    assert isinstance(action, Start)
    assert (action.gang, [held.members for held in action.seats]) == ("some", [0, 2])
    assert plan.answers["none"].token is Token.NEVER_FITS


# -- members of another kind come to a gang that runs

LATE = Role("late", 0, 2, 2, (Shape({"gpu": 2}),), Coupling.LOOSE)
PAIR = Role("worker", 2, 2, 2, (Shape({"gpu": 4}),))


def pair(*nodes: int, limits: dict[str, int] | None = None) -> World:
    """A gang of two on nodes of four cards each."""
    world = World()
    world.apply(ev.QueueSet(0, Queue("default", limit=limits or {})))
    for at in nodes:
        world.apply(ev.NodeSeen(0, Node(f"n{at}", {"gpu": 4})))
    world.apply(ev.Submitted(0, Gang("pair", (PAIR,))))
    world.apply(ev.Starting(1, "pair", (Seats((0, 1), (1, 1)),)))
    world.apply(ev.Running(2, "pair"))
    return world


def life(world: World) -> Life:
    return world.job_in(world.slots["pair"]).life


def test_who_comes_late_gets_a_place_when_there_is_room_and_the_others_stay():
    world = pair(0, 1)
    assert not world.apply(ev.Changed(3, Gang("pair", (PAIR, LATE)))).note
    assert not decide(world.view(), 4, Policy()).actions
    world.apply(ev.NodeSeen(5, Node("n2", {"gpu": 4})))

    plan = decide(world.view(), 6, Policy())

    (grow,) = plan.actions
    assert isinstance(grow, Grow)
    assert grow.seats == (Seats((0, 1), (1, 1)), Seats((2,), (2,)))
    assert not list(check(world.view(), plan, Policy(), 6))
    world.apply(ev.Resized(7, "pair", grow.seats))
    assert world.view().use["default"].total == [12]
    assert world.view().use["default"].floor == [8]
    world.apply(ev.Ended(8, "pair"))
    assert world.view().use["default"].total == [0]
    assert world.listing() == World.load(world.listing()).listing()


def test_who_comes_late_is_counted_by_limits():
    world = pair(0, 1, 2, limits={"gpu": 10})
    world.apply(ev.Changed(3, Gang("pair", (PAIR, LATE))))

    (grow,) = decide(world.view(), 4, Policy()).actions

    assert isinstance(grow, Grow)
    assert grow.seats[1].members == 1


def test_nobody_waits_for_one_that_came_late_and_is_lost():
    world = pair(0, 1, 2)
    world.apply(ev.Changed(3, Gang("pair", (PAIR, LATE))))
    world.apply(ev.Resized(4, "pair", (Seats((0, 1), (1, 1)), Seats((2,), (2,)))))
    world.apply(ev.MemberLost(5, "pair", 1, (2,), (1,)))

    assert life(world).state is State.RUNNING
    (grow,) = decide(world.view(), 6, Policy()).actions
    assert isinstance(grow, Grow)
    assert grow.seats[1].members == 2


def test_a_gang_that_is_being_mended_takes_others_in():
    world = pair(0, 1, 2)
    world.apply(ev.MemberLost(3, "pair", 0, (1,), (1,)))
    world.apply(ev.Changed(4, Gang("pair", (PAIR, LATE), on_loss=OnLoss.REPAIR)))

    assert [held.members for held in life(world).lost] == [1, 0]
    (repair,) = decide(world.view(), 5, Policy()).actions
    assert isinstance(repair, Repair)
    assert [held.members for held in repair.seats] == [2, 0]
    world.apply(ev.Asked(5, "pair", repair.seats, 99))
    world.apply(ev.Changed(6, Gang("pair", (PAIR, LATE, msgspec.structs.replace(LATE, name="later")))))
    assert [len(each) for each in (life(world).seats, life(world).target, life(world).lost)] == [3, 3, 3]


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param((LATE, PAIR), id="another order"),
        pytest.param((LATE,), id="fewer"),
        pytest.param((PAIR, msgspec.structs.replace(LATE, coupling=Coupling.GANG)), id="one that others wait for"),
        pytest.param((PAIR, msgspec.structs.replace(LATE, shapes=())), id="one without a shape"),
        pytest.param((msgspec.structs.replace(PAIR, shapes=LATE.shapes), LATE), id="another shape"),
    ],
)
def test_nothing_else_of_what_a_seated_gang_asks_for_can_change(roles):
    world = pair(0, 1)
    before = world.listing()

    assert world.apply(ev.Changed(2, Gang("pair", roles))).note
    assert world.listing() == before


def test_a_gang_that_waits_and_gets_more_roles_remembers_who_is_done():
    role = Role("task", 1, 3, 3, (Shape({"gpu": 1}),), Coupling.LOOSE)
    world = pair(0, 1)
    world.apply(ev.Submitted(3, Gang("array", (role,))))
    world.apply(ev.NodeSeen(3, Node("n2", {"gpu": 4})))
    world.apply(ev.Starting(4, "array", (Seats((2,), (3,)),)))
    world.apply(ev.MembersDone(5, "array", 0, (2,), (1,)))
    world.apply(ev.Evicted(6, "array"))
    world.apply(ev.Changed(7, Gang("array", (role, msgspec.structs.replace(role, name="more")))))

    (start,) = decide(world.view(), 8, Policy()).actions

    assert isinstance(start, Start)
    assert [held.members for held in start.seats] == [2, 2]


def test_who_joins_a_gang_that_is_late_stays_as_long_as_it_does():
    """The rest of it is to be over by now, and may take until its limit: so may whoever joins it."""
    loose = gang("loose", 1, estimate=lasting(100, 25, 25), want=3, coupling=Coupling.LOOSE)
    world = seat(drawn("4"), loose, "n0")
    seat(world, gang("other", 1, run_s=80), "n0")
    submit(world, gang("wide", 3, run_s=10))
    view = world.view()

    plan = decide(view, 30 * SECOND, Policy())

    assert check(view, plan, Policy()) == []
    assert brief(plan.without_answers(), view) == "wide>80@n0*3"
