"""The check: a plan that is right passes, and each way of being wrong is named."""

import msgspec
import pytest

from tests.clusters import drawn, gang, seat, seats, submit
from tutti.engine import events as ev
from tutti.engine.check import Rule, check
from tutti.engine.model import (
    HOUR,
    MINUTE,
    SECOND,
    Cap,
    Domain,
    Gang,
    Near,
    NodeState,
    Pledge,
    Promise,
    Queue,
    Role,
    Seats,
    Segment,
    Shape,
    SizeRule,
    Token,
    Window,
)
from tutti.engine.plan import (
    Await,
    Evict,
    Fail,
    Grow,
    How,
    Plan,
    Reason,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)
from tutti.engine.policy import Placing, Policy, Reclaim
from tutti.engine.world import World

NOW = HOUR
POLICY = Policy(reclaim=Reclaim(min_run=MINUTE))


def found(world: World, *actions, answers=(), policy=POLICY) -> set[Rule]:
    """The rules that a plan of these actions breaks; gangs that are not named are answered."""
    view = world.view()
    starting = {action.gang for action in actions if isinstance(action, Start | Resume)}
    waiting = {view.held(slot).gang.name for slot in view.queued} - starting
    reasons = dict.fromkeys(answers or waiting, Reason(Token.NO_CAPACITY))
    return {broken.rule for broken in check(view, Plan(view.number, NOW, actions, reasons), policy)}


def start(world: World, name: str, *where: str) -> Start:
    """A start on seats like `n0 n1*2`, one text for each role."""
    return Start(name, seats=tuple(seats(world, text) for text in where))


PICTURE = "a: 8 8 | b: 8 8"


@pytest.mark.parametrize(
    ("role", "where", "rules"),
    [
        pytest.param({"members": 2}, "a0 a1", set(), id="as it should be"),
        pytest.param({"members": 2}, "a0*2", set(), id="two on one node"),
        pytest.param({"members": 2}, "a0", {Rule.SIZE}, id="half a gang"),
        pytest.param({"members": 2}, "a0 a1 b0", {Rule.SIZE}, id="more than its maximum"),
        pytest.param({"members": 2, "max": 3}, "a0 a1 b0", set(), id="more than its minimum"),
        pytest.param({"members": 1, "max": 4, "rule": SizeRule(power_of_two=True)}, "a0*3", {Rule.SIZE}, id="illegal"),
        pytest.param({"members": 3, "gpu": 4}, "a0*3", {Rule.ROOM}, id="one too many on a node"),
        pytest.param({"members": 2, "role_within": "rack"}, "a0 b0", {Rule.FIT}, id="two racks instead of one"),
        pytest.param({"members": 2, "role_within": "moon"}, "a0 a1", {Rule.FIT}, id="a level that is not there"),
        pytest.param({"members": 2, "caps": (Cap("node", 1),)}, "a0*2", {Rule.FIT}, id="more than the cap on a node"),
        pytest.param(
            {"members": 3, "caps": (Cap("rack", 2),)}, "a0*2 a1", {Rule.FIT}, id="more than the cap in a rack"
        ),
        pytest.param({"members": 4, "segment": Segment("rack", 2)}, "a0*2 b0*2", set(), id="whole segments"),
        pytest.param({"members": 4, "segment": Segment("rack", 2)}, "a0*3 b0", {Rule.FIT}, id="a torn segment"),
        pytest.param({"shapes": (Shape({"gpu": 1}, tags=(("fast",),)),)}, "a0", {Rule.FIT}, id="without its tag"),
        pytest.param({"shapes": (Shape({"tpu": 1}),)}, "a0", {Rule.ROOM}, id="a resource nobody has"),
    ],
)
def test_seats_of_one_role(role, where, rules):
    world = submit(drawn(PICTURE), gang("g", **role))

    assert found(world, start(world, "g", where)) == rules


@pytest.mark.parametrize(
    ("picture", "where", "rules"),
    [
        pytest.param("8d 8", "n0", {Rule.FIT}, id="draining"),
        pytest.param("8x 8", "n0", {Rule.FIT}, id="lost"),
        pytest.param("8q 8", "n0", {Rule.FIT}, id="quarantined"),
        pytest.param("8-6 8", "n0", {Rule.ROOM}, id="used by others"),
        pytest.param("8+!odd 8", "n0", {Rule.FIT}, id="tainted"),
        pytest.param("8 8", "n1", set(), id="ready"),
    ],
)
def test_nodes_that_do_not_take_members(picture, where, rules):
    world = submit(drawn(picture), gang("g", gpu=4))

    assert found(world, start(world, "g", where)) == rules


def test_a_node_that_failed_too_often_takes_no_members():
    world = submit(drawn("8"), gang("g"))
    for at in range(3):
        world.apply(ev.NodeTurned(at, "n0", NodeState.READY, fault=True))

    assert found(world, start(world, "g", "n0")) == {Rule.FIT}


def test_each_role_has_its_seats():
    roles = (Role("a", shapes=(Shape({"gpu": 4}),)), Role("b", min=2, shapes=(Shape({"gpu": 2}),)))
    world = submit(drawn(PICTURE), Gang("g", roles, within="rack"))

    assert found(world, start(world, "g", "a0", "a1*2")) == set()
    assert found(world, start(world, "g", "a0", "a0 a1")) == set()
    assert found(world, start(world, "g", "a0", "b1*2")) == {Rule.FIT}
    assert found(world, start(world, "g", "a0")) == {Rule.WHOLE}
    assert found(world, start(world, "g", "a0", "")) == {Rule.SIZE}
    assert found(world, start(world, "g", "a0", "a0*3")) >= {Rule.SIZE, Rule.ROOM}


def test_what_runs_keeps_its_room():
    world = submit(seat(drawn("8"), gang("old", gpu=6), "n0"), gang("new", gpu=4))

    assert found(world, start(world, "new", "n0")) == {Rule.ROOM}


def test_the_second_start_sees_the_first():
    world = submit(drawn("8"), gang("one", gpu=5), gang("two", gpu=5))

    assert found(world, start(world, "one", "n0")) == set()
    assert found(world, start(world, "one", "n0"), start(world, "two", "n0")) == {Rule.ROOM}


def test_nobody_starts_twice_or_without_waiting():
    world = submit(seat(drawn("8"), gang("old"), "n0"), gang("new"))
    again = start(world, "new", "n0")

    assert found(world, again, again) == {Rule.ONCE}
    assert found(world, start(world, "old", "n0")) == {Rule.ONCE}
    assert found(world, start(world, "nobody", "n0")) == {Rule.ONCE}
    assert found(world, Resume("new", seats=again.seats)) == {Rule.ONCE}


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        pytest.param({}, ev.Held(0, "g"), id="held"),
        pytest.param({}, ev.MembersSeen(0, "g", 1), id="missing members"),
        pytest.param({}, ev.QueueSet(0, Queue("default", closed=True)), id="closed queue"),
        pytest.param({}, ev.QueueGone(0, "default"), id="no queue"),
        pytest.param({}, ev.QueueSet(0, Queue("default", limit={"gpu": 3})), id="over the queue's limit"),
        pytest.param({}, ev.QueueSet(0, Queue("default", user_limit={"gpu": 3})), id="over the user's limit"),
        pytest.param({"after": ("other",)}, None, id="waits for another"),
        pytest.param({"unsupported": "volumes"}, None, id="cannot be delivered"),
    ],
)
def test_gates_are_kept_shut(fields, event):
    world = submit(drawn("8"), gang("g", gpu=4, **fields))
    if event is not None:
        world.apply(event)

    assert found(world, start(world, "g", "n0")) == {Rule.QUOTA}


def test_a_limit_counts_what_the_plan_has_added_and_all_below():
    queues = Queue("top", limit={"gpu": 4}), Queue("x", "top"), Queue("y", "top")
    world = submit(drawn("8", *queues), gang("one", gpu=3, queue="x"), gang("two", gpu=2, queue="y"))

    assert found(world, start(world, "one", "n0")) == set()
    assert found(world, start(world, "one", "n0"), start(world, "two", "n0")) == {Rule.QUOTA}


def test_somebody_who_backs_off_is_left_alone():
    world = submit(drawn("8"), gang("g"))
    world.apply(ev.Starting(0, "g", (seats(world, "n0"),)))
    world.apply(ev.Refused(0, "g", NOW + SECOND))

    assert found(world, start(world, "g", "n0")) == {Rule.QUOTA}


def promise(world: World, name: str, where: str, start_s: int, run_s: int = 60) -> ev.Promised:
    """A promise that begins so many seconds from now."""
    begin = NOW + start_s * SECOND
    return ev.Promised(0, name, Promise(begin, begin + run_s * SECOND, (seats(world, where),), 0))


@pytest.mark.parametrize(
    ("picture", "run_s", "rules"),
    [
        pytest.param("8", 30, set(), id="gone before the promised moment"),
        pytest.param("8", 90, {Rule.PROMISE}, id="still there at the promised moment"),
        pytest.param("8", 0, {Rule.PROMISE}, id="nobody knows for how long"),
        pytest.param("8 8", 90, set(), id="still there, but there is room elsewhere"),
    ],
)
def test_backfill_delays_no_promise(picture, run_s, rules):
    world = submit(drawn(picture), gang("big", gpu=8, run_s=60), gang("small", run_s=run_s))
    world.apply(promise(world, "big", "n0", start_s=60))

    assert found(world, start(world, "small", "n0")) == rules


def test_a_promise_moves_later_only_by_a_named_break():
    world = submit(drawn("8"), gang("big", gpu=8, run_s=60))
    world.apply(promise(world, "big", "n0", start_s=60))
    later = promise(world, "big", "n0", start_s=90).promise
    sooner = promise(world, "big", "n0", start_s=30).promise

    assert found(world, Reserve("big", promise=sooner)) == set()
    assert found(world, Reserve("big", promise=later)) == {Rule.PROMISE}
    assert found(world, Reserve("big", promise=later, why="overrun")) == set()
    assert found(world, Reserve("big")) == {Rule.PROMISE}


def test_a_promise_needs_room_when_it_is_due():
    world = submit(seat(drawn("8"), gang("old", gpu=4, run_s=7200), "n0"), gang("big", gpu=8), gang("half", gpu=4))

    assert found(world, Reserve("big", promise=promise(world, "big", "n0", 60).promise)) == {Rule.ROOM}
    assert found(world, Reserve("half", promise=promise(world, "half", "n0", 60).promise)) == set()
    assert found(world, Reserve("half", promise=promise(world, "half", "n0*2", 60).promise)) >= {Rule.SIZE}
    assert found(world, Reserve("half", promise=promise(world, "half", "n0", -60).promise)) == {Rule.PROMISE}


def test_nobody_runs_into_a_window_who_may_not():
    world = submit(drawn("8"), gang("long", run_s=90), gang("short", run_s=30), gang("mine", run_s=90, user="ann"))
    world.apply(ev.WindowSet(0, Window("upkeep", NOW + MINUTE, NOW + HOUR, ("n0",), ("user:ann",))))

    assert found(world, start(world, "short", "n0")) == set()
    assert found(world, start(world, "long", "n0")) == {Rule.PROMISE}
    assert found(world, start(world, "mine", "n0")) == set()


def pledged(where: Seats, *victims: str) -> Pledge:
    """Room that these victims were told to make."""
    return Pledge((where,), victims, NOW, NOW + HOUR)


def crowded(**victim) -> World:
    """A node that one gang fills, and another that waits for it."""
    world = seat(drawn("8", Queue("default")), gang("low", gpu=8, **victim), "n0")
    return submit(world, gang("high", gpu=8, priority=1, run_s=60), gang("small", run_s=10), gang("slow", run_s=300))


def test_room_is_made_for_somebody_and_kept():
    world = crowded()
    keep = Await("high", pledge=pledged(seats(world, "n0"), "low"))
    leave = Evict("low", after=(0,), room_for="high", by=NOW + MINUTE)

    assert found(world, keep, leave) == set()
    assert found(world, leave) >= {Rule.RECLAIM, Rule.ORDER}
    assert found(world, keep) == {Rule.RECLAIM}
    assert found(world, keep, leave, leave) == {Rule.ONCE}
    assert Rule.ROOM in found(world, keep, leave, start(world, "small", "n0"))


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param({"preemptible": False}, id="may not be interrupted"),
        pytest.param({"min_run": 2 * HOUR}, id="inside its minimum run time"),
        pytest.param({"interruptions_per_day": 1}, id="interrupted often enough"),
    ],
)
def test_who_may_not_be_taken_is_not_taken(victim):
    world = crowded(**victim)
    world.apply(ev.Evicted(SECOND, "low"))
    world.apply(ev.Starting(2 * SECOND, "low", (seats(world, "n0"),)))
    keep = Await("high", pledge=pledged(seats(world, "n0"), "low"))

    assert found(world, keep, Evict("low", room_for="high", by=NOW + MINUTE)) == {Rule.RECLAIM}


def test_only_what_can_be_parked_is_parked():
    world = crowded()
    keep = Await("high", pledge=pledged(seats(world, "n0"), "low"))

    assert found(world, keep, Evict("low", how=How.PARK, room_for="high", by=NOW + MINUTE)) == {Rule.RECLAIM}


def test_what_is_pledged_belongs_to_nobody_else():
    world = submit(drawn("8 8"), gang("high", gpu=8, run_s=60), gang("slow", run_s=300))
    world.apply(ev.Pledged(0, "high", pledged(seats(world, "n0"))))

    assert found(world, start(world, "slow", "n1")) == set()
    assert found(world, start(world, "slow", "n0")) == {Rule.PROMISE}
    assert found(world, start(world, "high", "n0")) == set()


def test_whoever_has_room_freed_for_it_waits_for_that_and_not_for_the_start_it_was_promised():
    world = submit(drawn("8 8"), gang("high", gpu=8, run_s=60), gang("slow", run_s=300))
    world.apply(promise(world, "high", "n0", start_s=60))
    seat(world, gang("long", gpu=8, run_s=900), "n1")
    assert found(world, start(world, "slow", "n0")) == {Rule.PROMISE}

    world.apply(ev.Pledged(0, "high", pledged(seats(world, "n1"))))

    assert found(world, start(world, "slow", "n0")) == set()


def elastic(**fields) -> World:
    """A gang that may have two to four members and has two."""
    return seat(drawn("8 8 8"), gang("g", 2, gpu=4, max=4, **fields), "n0 n1")


@pytest.mark.parametrize(
    ("action", "where", "rules"),
    [
        pytest.param(Grow, "n0 n1 n2", set(), id="grows at the end"),
        pytest.param(Grow, "n0*2 n1", {Rule.FIT}, id="grows between its ranks"),
        pytest.param(Grow, "n0 n2 n2", {Rule.FIT}, id="grows and moves"),
        pytest.param(Grow, "n0 n1 n2*3", {Rule.SIZE, Rule.ROOM}, id="grows too much"),
        pytest.param(Shrink, "n0", {Rule.SIZE}, id="shrinks below its minimum"),
        pytest.param(Shrink, "n0 n2", {Rule.FIT}, id="shrinks to somewhere else"),
        pytest.param(Repair, "n0 n1 n2", set(), id="a place for one more"),
        pytest.param(Repair, "n0 n2", {Rule.FIT}, id="survivors do not move"),
    ],
)
def test_changes_of_size(action, where, rules):
    world = elastic()

    assert found(world, action("g", seats=(seats(world, where),))) == rules


def test_only_what_sits_changes_or_ends():
    world = submit(drawn("8"), gang("g"))

    assert found(world, Grow("g", seats=(seats(world, "n0"),))) == {Rule.ONCE}
    assert found(world, Evict("g")) == {Rule.ONCE}
    assert found(world, Restart("g")) == {Rule.ONCE}
    assert found(world, Fail("g")) == set()


def test_neighbours_that_do_not_get_along():
    shy = gang("shy", repels=(Near("loud"),))
    loud = gang("loud", marks=("loud",))
    needy = gang("needy", needs=(Near("loud", "rack"),))
    world = submit(seat(drawn(PICTURE), loud, "a0"), shy, needy)

    assert found(world, start(world, "shy", "a0")) == {Rule.FIT}
    assert found(world, start(world, "shy", "a1")) == set()
    assert found(world, start(world, "needy", "a1")) == set()
    assert found(world, start(world, "needy", "b0")) == {Rule.FIT}


def test_a_newcomer_keeps_away_from_whoever_repels_it():
    world = submit(
        seat(drawn(PICTURE), gang("shy", repels=(Near("loud", "rack"),)), "a0"), gang("loud", marks=("loud",))
    )

    assert found(world, start(world, "loud", "a1")) == {Rule.FIT}
    assert found(world, start(world, "loud", "b0")) == set()


def test_members_that_repel_each_other_sit_apart():
    world = submit(drawn(PICTURE), gang("ports", 2, marks=("port",), repels=(Near("port"),)))

    assert found(world, start(world, "ports", "a0 a1")) == set()
    assert found(world, start(world, "ports", "a0*2")) == {Rule.FIT}


def test_wide_gangs_share_no_node_where_they_should_not():
    world = submit(seat(drawn("8 8 8"), gang("wide", 2), "n0 n1"), gang("two", 2), gang("one"))
    apart = msgspec.structs.replace(POLICY, place=Placing(one_wide_gang_per_node=True))

    assert found(world, start(world, "two", "n1 n2"), policy=apart) == {Rule.FIT}
    assert found(world, start(world, "two", "n2*2"), policy=apart) == set()
    assert found(world, start(world, "one", "n1"), policy=apart) == set()


def test_what_a_domain_has_is_counted_too():
    world = drawn(PICTURE)
    world.apply(ev.DomainSet(0, Domain("default", ("a",), {"switch": 1})))
    tree = {"rack": {"switch": 1}}
    submit(world, gang("one", 2, domain_ask=tree), gang("two", domain_ask=tree))

    assert found(world, start(world, "one", "a0 a1")) == set()
    assert found(world, start(world, "one", "a0 a1"), start(world, "two", "a0")) == {Rule.ROOM}
    assert found(world, start(world, "two", "b0")) == {Rule.ROOM}


def test_every_gang_that_waits_is_answered_and_no_other():
    world = submit(seat(drawn("8"), gang("old"), "n0"), gang("new"), gang("next"))

    assert found(world, answers=("new", "next")) == set()
    assert found(world, answers=("new",)) == {Rule.ANSWER}
    assert found(world, answers=("new", "next", "old")) == {Rule.ANSWER}
    assert found(world, start(world, "new", "n0"), answers=("new", "next")) == {Rule.ANSWER}


def test_a_plan_whose_answers_were_left_out_is_not_asked_for_them():
    world = submit(drawn("8"), gang("new"))
    view = world.view()

    assert check(view, Plan(view.number, NOW).without_answers(), POLICY) == []


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(Seats((0, 1), (1,)), id="more nodes than counts"),
        pytest.param(Seats((0,), (0,)), id="nobody on a node"),
        pytest.param(Seats((9,), (1,)), id="a node that is not there"),
        pytest.param(Seats((-1,), (1,)), id="a node before the first"),
        pytest.param(Seats((0,), (1,), 3), id="a shape it does not have"),
    ],
)
def test_seats_that_are_none(given):
    world = submit(drawn("8"), gang("g"))

    assert found(world, Start("g", seats=(given,))) == {Rule.WHOLE}
