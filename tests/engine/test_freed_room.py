"""Whose is room that is being freed? From when on, for how long, and what others who were promised a start have of it.

Each of these came out of a random story played with the checker on.
"""

from tests.clusters import brief, drawn, gang, seat, seats, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import MINUTE, SECOND, NodeState, Pledge, Promise, Queue, Resizing
from tutti.engine.plan import Reserve
from tutti.engine.policy import ALL, Break, Order, Placing, Policy, Reclaim, Reservation, Term
from tutti.engine.world import World

BY_AGE = Order(terms=(Term.AGE,), fair_share=False)


def rules(grace_s: int = 0, one_wide: bool = False) -> Policy:
    """Everybody in the order of arrival; a higher priority may take room, and a victim has so long to leave."""
    reserve = Reservation(depth=ALL, backfill=Term.AGE, quantile=100, max_wait=0, lend=0)
    place = Placing(one_wide_gang_per_node=one_wide)
    return Policy(order=BY_AGE, reserve=reserve, reclaim=Reclaim(min_run=0, grace=grace_s * SECOND), place=place)


def told(world: World, now: int, policy: Policy) -> str:
    """What is decided, which the checker has nothing to say about."""
    view = world.view()
    plan = decide(view, now, policy)
    assert check(view, plan, policy, now) == []
    return brief(plan.without_answers(), view)


def promised(world: World, name: str, start_s: int, end_s: int, where: str, given_s: int = 0) -> None:
    """The gang was promised a start."""
    promise = Promise(start_s * SECOND, end_s * SECOND, (seats(world, where),), given_s * SECOND)
    world.apply(ev.Promised(given_s * SECOND, name, promise))


def test_a_victim_without_grace_holds_its_room_until_it_is_gone():
    world = seat(drawn("8"), gang("low", 8, run_s=100), "n0*8")
    submit(world, gang("high", run_s=10, priority=1), gang("small", run_s=100, submitted=SECOND))

    assert told(world, SECOND, rules()) == "high<n0 low!requeue small>1@n0"


def test_room_is_freed_only_where_the_gang_has_it_to_the_end_though_it_comes_after_the_grace():
    world = drawn("3")
    for name in ("low", "other", "another"):
        seat(world, gang(name, run_s=100, preemptible=name == "low"), "n0")
    submit(world, gang("wide", 3, run_s=50, priority=1, preempts=False))
    promised(world, "wide", 100, 150, "n0*3")
    submit(world, gang("high", run_s=90, priority=1), at=SECOND)

    assert told(world, SECOND, rules(grace_s=5)) == "high<n0 low!requeue"
    assert told(world, SECOND, rules(grace_s=20)) == "high>150@n0"


def test_what_is_freed_counts_from_the_end_of_a_victim_that_ends_before_it_must_leave():
    world = seat(drawn("2"), gang("low", run_s=20), "n0")
    seat(world, gang("stays", run_s=10, preemptible=False), "n0")
    submit(world, gang("high", run_s=100, priority=1))
    submit(world, gang("wide", 2, run_s=5), at=SECOND)

    assert told(world, SECOND, rules(grace_s=30)) == "high<n0 low!requeue wide>120@n0*2"


def test_room_whose_victims_are_gone_is_the_gangs_from_now_on():
    """Somebody else who is late is expected to end the next moment: until then there is room for one of two."""
    world = seat(drawn("2"), gang("late", run_s=10), "n0")
    submit(world, gang("low", run_s=10))
    submit(world, gang("high", run_s=10, priority=1, submitted=SECOND))
    world.apply(ev.Pledged(10 * SECOND, "high", Pledge((seats(world, "n0"),), ("gone",), 9 * SECOND, MINUTE)))

    assert "high@n0" in told(world, 10 * SECOND, rules())


def test_whoever_must_move_does_not_move_where_who_is_looked_at_first_was_promised_a_start():
    world = seat(drawn("1 1"), gang("late", run_s=10), "n1")
    submit(world, gang("first", run_s=60), gang("second", run_s=60))
    promised(world, "first", 10, 70, "n0")
    promised(world, "second", 10, 70, "n1")

    assert told(world, 10 * SECOND, rules()) == "first@n0 second>10@n1"


def test_who_left_for_a_gang_does_not_hold_it_up_in_a_strict_queue():
    world = submit(drawn("8", Queue("default", strict=True)), gang("low", 8, run_s=100))
    submit(world, gang("high", run_s=10, priority=1, submitted=SECOND))
    world.apply(ev.Pledged(2 * SECOND, "high", Pledge((seats(world, "n0"),), ("low",), 2 * SECOND, MINUTE)))

    assert "high@n0" in told(world, 3 * SECOND, rules())


def test_a_turn_lasts_at_least_as_long_as_a_gang_is_left_alone():
    world = seat(drawn("8", Queue("default", slice=5 * SECOND, min_run=MINUTE)), gang("a", 8, parkable=True), "n0*8")
    submit(world, gang("b", 8, run_s=100), at=SECOND)

    assert "a!park" not in told(world, 50 * SECOND, rules())
    assert "a!park" in told(world, MINUTE, rules())


def test_of_two_gangs_that_grow_in_one_plan_only_one_comes_to_span_a_node():
    world = drawn("1 1 4")
    for name, where in (("a", "n0"), ("b", "n1")):
        seat(world, gang(name, 1, run_s=600, max=3, resizing=Resizing.LIVE), where)

    assert "a+@" in told(world, 10 * MINUTE - 1, rules(one_wide=True))


def test_a_promise_that_moves_for_a_higher_priority_which_is_promised_room_says_so():
    world = seat(drawn("8"), gang("busy", 8, run_s=100, preemptible=False), "n0*8")
    submit(world, gang("low", 8, run_s=50))
    promised(world, "low", 100, 150, "n0*8")
    submit(world, gang("high", 8, run_s=30, priority=1), at=SECOND)
    policy = Policy(reserve=Reservation(depth=ALL, quantile=100))

    plan = decide(world.view(), SECOND, policy)

    assert brief(plan.without_answers(), world.view()) == "high>100@n0*8 low>130@n0*8"
    assert [act.why for act in plan.actions if isinstance(act, Reserve)] == ["", Break.HIGHER_PRIORITY]


def test_who_must_leave_a_node_does_not_move_to_room_that_is_freed_for_another():
    world = seat(drawn("8 8"), gang("moves", 8, run_s=600, resizing=Resizing.LIVE), "n0*8")
    submit(world, gang("high", 8, run_s=10))
    world.apply(ev.Pledged(SECOND, "high", Pledge((seats(world, "n1*8"),), ("gone",), SECOND, MINUTE)))
    world.apply(ev.NodeTurned(2 * SECOND, "n0", NodeState.DRAINING))

    assert told(world, 2 * SECOND, rules()) == "high@n1*8"
