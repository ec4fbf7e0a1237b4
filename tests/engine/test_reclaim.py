"""Whom does it hit? The least work lost, or the lowest priority first where the policy says so."""

import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import HOUR, MINUTE, SECOND, NodeState, OnLoss, Progress, Resizing, Seats, SizeRule
from tutti.engine.plan import Await, Evict, Repair, Shrink, Start
from tutti.engine.policy import Policy, Reclaim

NOW = 3 * HOUR


@pytest.mark.parametrize(
    ("rules", "leaves"),
    [
        pytest.param(Reclaim(), "middle", id="the least work lost"),
        pytest.param(Reclaim(lowest_first=True), "low", id="the lowest priority first"),
    ],
)
def test_who_leaves(rules, leaves):
    world = seat(drawn("8 8"), gang("low", 1, 8, run_s=86_400, priority=1), "n0", at=0)
    seat(world, gang("middle", 1, 8, run_s=86_400, priority=2), "n1", at=2 * HOUR)
    view = submit(world, gang("high", 1, 8, run_s=60, priority=3), at=NOW).view()
    policy = Policy(reclaim=rules)

    plan = decide(view, NOW, policy)

    assert [action.gang for action in plan.actions if action.gang != "high"] == [leaves]
    assert check(view, plan, policy) == []


def test_of_two_alike_the_one_that_saved_last_leaves_and_both_costs_are_said():
    world = seat(drawn("8 8"), gang("saved-just-now", 1, 8, run_s=86_400), "n0", at=0)
    seat(world, gang("saved-long-ago", 1, 8, run_s=86_400), "n1", at=0)
    for name, ago in (("saved-just-now", 5 * SECOND), ("saved-long-ago", 20 * MINUTE)):
        world.apply(ev.Reported(NOW, name, Progress(10, 100, 1000, NOW, snapshot_at=NOW - ago)))
    view = submit(world, gang("high", 1, 8, run_s=60, priority=3), at=NOW).view()

    (leaves,) = [action for action in decide(view, NOW, Policy()).actions if isinstance(action, Evict)]

    assert leaves.gang == "saved-just-now"
    assert leaves.why == "it loses 5s of its members' time, saved-long-ago would lose 20m"


def test_all_of_a_lower_priority_weigh_less_than_one_of_a_higher():
    world = seat(drawn("8 4 4"), gang("middle", 1, 8, run_s=86_400, priority=2), "n0", at=2 * HOUR)
    seat(world, gang("low1", 1, 4, run_s=86_400, priority=1), "n1", at=0)
    seat(world, gang("low2", 1, 4, run_s=86_400, priority=1), "n2", at=0)
    view = submit(world, gang("high", 2, 4, run_s=60, priority=3), at=NOW).view()

    plan = decide(view, NOW, Policy(reclaim=Reclaim(lowest_first=True)))

    assert [action.gang for action in plan.actions if action.gang != "high"] == ["low1", "low2"]


@pytest.mark.parametrize(
    ("needs", "fields", "keeps"),
    [
        pytest.param(2, {}, 6, id="one of seven, for one is free"),
        pytest.param(4, {}, 4, id="as many as are missing"),
        pytest.param(7, {}, 1, id="down to its minimum"),
        pytest.param(2, {"rule": SizeRule(multiple=3), "min": 3}, 3, id="no illegal size in between"),
    ],
)
def test_a_gang_shrinks_no_further_than_it_must(needs, fields, keeps):
    rule = {"min": 1, "max": 8, **fields}
    held = 6 if "rule" in fields else 7
    elastic = gang("elastic", held, 1, run_s=86_400, resizing=Resizing.LIVE, **rule)
    world = seat(drawn("7" if "rule" in fields else "8"), elastic, f"n0*{held}", at=0)
    view = submit(world, gang("waits", needs, 1, run_s=60, priority=3), at=NOW).view()
    policy = Policy()

    plan = decide(view, NOW, policy)

    shrinks = [action for action in plan.actions if isinstance(action, Shrink)]
    assert [(action.gang, sum(held.members for held in action.seats)) for action in shrinks] == [("elastic", keeps)]
    assert check(view, plan, policy) == []


def test_who_keeps_its_surplus_gives_none_and_may_still_leave_whole():
    elastic = gang("elastic", 7, 1, run_s=86_400, resizing=Resizing.LIVE, min=1, max=8, keeps_surplus=True)
    world = seat(drawn("8"), elastic, "n0*7", at=0)
    plan = decide(submit(world, gang("waits", 4, 1, run_s=60, priority=3), at=NOW).view(), NOW, Policy())
    assert not any(isinstance(action, Shrink) for action in plan.actions)
    assert any(isinstance(action, Evict) and action.gang == "elastic" for action in plan.actions)


def broken(nodes="n0 n1 n2", at=0):
    """A gang of three, one of which was lost a moment ago."""
    world = seat(drawn("8 8 8"), gang("low", 3, 8, run_s=86_400, on_loss=OnLoss.REPAIR), nodes, at=at)
    world.apply(ev.MemberLost(NOW, "low", 0, (0,), (1,)))
    return world


def taken(plan):
    return [action.gang for action in plan.actions if isinstance(action, Evict)]


@pytest.mark.parametrize("members", [2, 3])
def test_a_gang_that_waits_for_a_lost_member_keeps_nobody_important_waiting(members):
    world = submit(broken(), gang("high", members, 8, run_s=60, priority=3), at=NOW)
    mending = decide(world.view(), NOW, Policy())
    (repair,) = [action for action in mending.actions if isinstance(action, Repair)]
    assert taken(mending) == []
    assert mending.wake_at == NOW + 1, "whoever is to be mended is looked at again at once"
    world.apply(ev.Asked(NOW, "low", repair.seats, NOW + HOUR))
    view = world.view()

    plan = decide(view, NOW + 1, Policy())

    assert taken(plan) == ["low"]
    assert check(view, plan, Policy(), NOW + 1) == []


def test_a_gang_that_finds_no_place_for_a_lost_member_keeps_nobody_important_waiting():
    world = broken()
    world.apply(ev.NodeTurned(NOW, "n0", NodeState.LOST, fault=True))
    view = submit(world, gang("high", 2, 8, run_s=60, priority=3), at=NOW).view()

    plan = decide(view, NOW, Policy())

    assert taken(plan) == ["low"]
    assert check(view, plan, Policy(), NOW) == []


def test_the_room_of_a_broken_gang_that_leaves_is_kept_until_it_is_gone():
    world = submit(broken(), gang("high", 3, 8, run_s=60, priority=3), at=NOW)
    (repair,) = [a for a in decide(world.view(), NOW, Policy()).actions if isinstance(a, Repair)]
    world.apply(ev.Asked(NOW, "low", repair.seats, NOW + HOUR))
    (keeps,) = [a for a in decide(world.view(), NOW + 1, Policy()).actions if isinstance(a, Await)]
    world.apply(ev.Pledged(NOW + 1, "high", keeps.pledge))
    world.apply(ev.Leaving(NOW + 1, "low", "high", NOW + MINUTE))
    submit(world, gang("small", 1, 8, run_s=60), at=NOW + 2)
    view = world.view()

    plan = decide(view, NOW + SECOND, Policy())
    assert plan.answers["high"].token == "WaitingForEviction"
    assert not any(isinstance(action, Start) for action in plan.actions)
    assert check(view, plan, Policy(), NOW + SECOND) == []

    world.apply(ev.Evicted(NOW + 2 * SECOND, "low"))
    plan = decide(world.view(), NOW + 2 * SECOND, Policy())
    assert [action.gang for action in plan.actions if isinstance(action, Start)] == ["high"]


@pytest.mark.parametrize(("waited", "expected"), [(59 * SECOND, []), (MINUTE, ["low"])])
def test_a_gang_that_never_comes_up_keeps_nobody_important_waiting(waited, expected):
    world = submit(drawn("8 8"), gang("low", 2, 8, run_s=86_400), at=0)
    world.apply(ev.Starting(NOW, "low", (Seats((0, 1), (1, 1)),)))
    view = submit(world, gang("high", 2, 8, run_s=60, priority=3), at=NOW).view()
    policy = Policy(reclaim=Reclaim(min_run=0))

    plan = decide(view, NOW + waited, policy)

    assert taken(plan) == expected
    assert expected or plan.wake_at == NOW + MINUTE
    assert check(view, plan, policy, NOW + waited) == []
