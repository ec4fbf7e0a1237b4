"""Room that is kept for another is lent to who can be parked, and given back in time."""

import pytest
from msgspec.structs import replace

from tests.clusters import drawn, gang, seat, submit
from tests.promises.outcomes import carry_out
from tutti.engine import events as ev
from tutti.engine.check import Rule, check
from tutti.engine.decide import decide
from tutti.engine.explain import explain
from tutti.engine.model import HOUR, MINUTE, SECOND, Estimate, Life, OnLoss, Queue, Resizing, Source, State
from tutti.engine.plan import Evict, How, Plan, Reserve, Resume, Start
from tutti.engine.policy import Policy, Reclaim, Reservation
from tutti.engine.world import World

DEFAULT = Policy()
GRACE = DEFAULT.reclaim.grace
NOTICE = GRACE + SECOND
LENT = 30 * MINUTE


def kept_for(wide: int = 2, hours: int = 5, **fields: object) -> World:
    """One of two nodes is busy for hours; a gang as wide as both waits for it, and one that is long finds the other."""
    world = seat(drawn("8 8"), gang("busy", 1, 8, run_s=hours * 3600), "n0")
    submit(world, gang("wide", wide, 8, run_s=3600), at=SECOND)
    return submit(world, gang("long", 1, 8, run_s=86_400, **{"parkable": True, **fields}), at=2 * SECOND)


def decided(world: World, now: int, policy: Policy = DEFAULT) -> Plan:
    """What is decided, which the checker has nothing to say about."""
    view = world.view()
    plan = decide(view, now, policy)
    assert check(view, plan, policy) == []
    return plan


def starts(plan: Plan) -> dict[str, int]:
    """Who starts, and from when on its room may be asked back."""
    return {action.gang: action.lent for action in plan.actions if isinstance(action, Start | Resume)}


def promised(plan: Plan) -> dict[str, int]:
    """Who is promised a start, and when."""
    return {
        action.gang: action.promise.start for action in plan.actions if isinstance(action, Reserve) and action.promise
    }


def promises(world: World) -> dict[str, int]:
    """Who holds a promise, and for when."""
    jobs = [world.view().held(slot) for slot in world.promised]
    return {job.gang.name: job.life.promise.start for job in jobs if job.life.promise}


def leaving(plan: Plan) -> list[str]:
    """Who is asked to leave."""
    return [action.gang for action in plan.actions if isinstance(action, Evict)]


def life(world: World, name: str) -> Life:
    """What has happened to a gang."""
    return world.view().held(world.slots[name]).life


def lent_out(now: int = MINUTE) -> World:
    """The long gang runs in the room of the wide one."""
    world = kept_for()
    carry_out(world, decided(world, now), now, settle=True)
    assert life(world, "long").lent == now + LENT
    return world


@pytest.mark.parametrize(
    ("fields", "policy", "lent"),
    [
        pytest.param({}, Policy(), True, id="who can be parked"),
        pytest.param({"parkable": False}, Policy(), False, id="not who would lose its work"),
        pytest.param({"preemptible": False}, Policy(), False, id="not who may not be interrupted"),
        pytest.param({"resizing": Resizing.LIVE, "max": 2}, Policy(), False, id="not who changes its size"),
        pytest.param({}, Policy(reserve=Reservation(lend=0)), False, id="not where nothing is lent"),
        pytest.param({"min_run": 6 * HOUR}, Policy(), False, id="not who is to be left alone for longer"),
        pytest.param({}, Policy(reserve=Reservation(lend=6 * HOUR)), False, id="not for less than the policy says"),
        pytest.param({}, Policy(reclaim=Reclaim(min_run=10 * HOUR)), False, id="not inside the minimum run time"),
        pytest.param({}, Policy(reserve=Reservation(depth=0)), True, id="and where nothing is promised it is its own"),
    ],
)
def test_who_is_lent_room(fields, policy, lent):
    plan = decided(kept_for(**fields), MINUTE, policy)

    assert ("long" in starts(plan)) is lent


def test_lent_room_is_said_to_be_lent_and_own_room_is_not():
    assert starts(decided(kept_for(), MINUTE)) == {"long": MINUTE + LENT}
    assert starts(decided(kept_for(wide=1), MINUTE)) == {"wide": 0}


def test_who_was_interrupted_often_enough_today_is_lent_nothing():
    world = kept_for(interruptions_per_day=1)
    carry_out(world, decided(world, MINUTE), MINUTE, settle=True)
    world.apply(ev.Evicted(HOUR, "long", parked=True))

    assert starts(decided(world, HOUR + SECOND)) == {}


def test_the_promise_is_what_it_would_be_without_lending():
    world, without = lent_out(), kept_for(parkable=False)
    carry_out(without, decided(without, MINUTE), MINUTE, settle=True)

    assert promises(world) == promises(without) == {"wide": 5 * HOUR}
    assert decided(world, 2 * MINUTE).actions == ()


def test_nothing_is_looked_at_before_the_room_is_needed():
    assert decided(lent_out(), 2 * HOUR).wake_at == 5 * HOUR - NOTICE


def test_room_is_asked_back_in_time_and_the_promise_is_kept():
    world, due = lent_out(), 5 * HOUR

    (leaves,) = decided(world, due - GRACE).actions

    assert isinstance(leaves, Evict)
    assert (leaves.gang, leaves.how, leaves.room_for, leaves.by) == ("long", How.PARK, "wide", due)
    assert leaves.why == "its room was lent to it, and wide needs it now"
    carry_out(world, decided(world, due - GRACE), due - GRACE, settle=True)
    assert starts(decided(world, due - 1)) == {}, "not in the room of who is about to start"
    world.apply(ev.Ended(due, "busy"))
    assert "wide" in starts(decided(world, due))


def test_who_wakes_a_moment_late_keeps_the_promise_all_the_same():
    plan = decided(lent_out(), 5 * HOUR - NOTICE + SECOND // 2)

    assert promised(plan) == {}, "it is not moved"
    assert leaving(plan) == ["long"]


@pytest.mark.parametrize("grace", [0, 5 * SECOND])
def test_room_is_asked_back_however_short_the_grace_is(grace):
    policy = Policy(reclaim=Reclaim(grace=grace))
    world, now = kept_for(), 2 * HOUR
    carry_out(world, decided(world, MINUTE, policy), MINUTE, settle=True)
    world.apply(ev.Ended(now, "busy"))

    assert leaving(decided(world, now, policy)) == ["long"]


def test_who_came_up_late_gives_the_room_back_as_early_as_the_others():
    """Its minimum run time was minded when the room was lent to it."""
    policy = Policy(reclaim=Reclaim(min_run=HOUR))
    world = kept_for()
    carry_out(world, decided(world, MINUTE, policy), MINUTE)
    lent = life(world, "long").lent
    world.apply(ev.Running(20 * MINUTE, "long"))
    world.apply(ev.Ended(30 * MINUTE, "busy"))
    carry_out(world, decided(world, 30 * MINUTE, policy), 30 * MINUTE)

    plan = decided(world, lent - NOTICE, policy)

    assert promised(plan) == {}, "it was promised to start when the loan is over, and that is not moved"
    assert leaving(plan) == ["long"]


def test_who_does_not_come_up_gives_the_room_back():
    world = kept_for()
    carry_out(world, decided(world, MINUTE), MINUTE)

    assert life(world, "long").state is State.STARTING
    assert leaving(decided(world, 5 * HOUR - NOTICE)) == ["long"]


def test_who_waits_for_a_lost_member_gives_the_room_back():
    world, due = kept_for(on_loss=OnLoss.REPAIR), 5 * HOUR
    carry_out(world, decided(world, MINUTE), MINUTE, settle=True)
    world.apply(ev.MemberLost(due - NOTICE - 1, "long", 0, life(world, "long").seats[0].nodes, (1,)))
    carry_out(world, decided(world, due - NOTICE - 1), due - NOTICE - 1)

    assert life(world, "long").state is State.REPAIRING
    assert leaving(decided(world, due - NOTICE)) == ["long"]


def test_who_should_be_over_by_now_gives_the_room_back():
    world = lent_out()
    world.apply(ev.Estimated(HOUR, "long", Estimate(2 * HOUR, source=Source.DECLARED)))

    assert leaving(decided(world, 5 * HOUR - NOTICE)) == ["long"]


@pytest.mark.parametrize("fields", [{"parkable": False}, {"preemptible": False}])
def test_who_can_no_longer_be_parked_stays_and_the_promise_moves(fields):
    world = lent_out()
    world.apply(ev.Changed(HOUR, replace(world.view().held(world.slots["long"]).gang, **fields)))

    assert promised(decided(world, HOUR)) == {"wide": MINUTE + 24 * HOUR}


def test_who_ends_early_lets_the_promised_one_start_as_soon_as_the_borrower_is_gone():
    world, now = lent_out(), 2 * HOUR
    world.apply(ev.Ended(now, "busy"))

    plan = decided(world, now)

    assert promised(plan) == {"wide": now + GRACE}
    assert leaving(plan) == ["long"]
    carry_out(world, plan, now, settle=True)
    assert "wide" in starts(decided(world, now + SECOND))


def test_a_borrower_is_left_alone_for_its_minimum_run_time():
    world, now = lent_out(), 5 * MINUTE
    world.apply(ev.Ended(now, "busy"))

    plan = decided(world, now)

    assert promised(plan) == {"wide": MINUTE + LENT}
    assert leaving(plan) == []


def test_only_those_leave_whose_room_is_needed():
    world = seat(drawn("8 8 8"), gang("busy", 1, 8, run_s=5 * 3600), "n0")
    submit(world, gang("wide", 2, 8, run_s=3600, within=""), at=SECOND)
    for name in ("one", "two"):
        submit(world, gang(name, 1, 4, run_s=86_400, parkable=True), at=2 * SECOND)
    submit(world, gang("three", 1, 8, run_s=86_400, parkable=True), at=3 * SECOND)
    seat(world, gang("other", 1, 8, run_s=20 * 3600), "n2")
    carry_out(world, decided(world, MINUTE), MINUTE, settle=True)

    assert leaving(decided(world, 5 * HOUR - GRACE)) == ["one", "two"]


def test_room_is_its_own_once_nobody_waits_for_it():
    world = lent_out()
    world.apply(ev.Ended(HOUR, "wide", State.CANCELLED))
    submit(world, gang("next", 2, 8, run_s=3600), at=HOUR)

    assert promised(decided(world, HOUR)) == {"next": MINUTE + 24 * HOUR}, "after all that runs has ended"


def test_a_promise_that_counts_on_a_borrower_leaving_is_kept_when_the_other_is_cancelled():
    policy = Policy(reserve=Reservation(depth=2))
    world = kept_for(wide=2)
    carry_out(world, decided(world, MINUTE, policy), MINUTE, settle=True)
    submit(world, gang("next", 2, 8, run_s=3600, submitted=90 * SECOND), at=90 * SECOND)
    carry_out(world, decided(world, 2 * MINUTE, policy), 2 * MINUTE, settle=True)
    assert promises(world) == {"wide": 5 * HOUR, "next": 6 * HOUR}

    world.apply(ev.Ended(HOUR, "wide", State.CANCELLED))
    carry_out(world, decided(world, HOUR, policy), HOUR, settle=True)

    assert promises(world) == {"next": 5 * HOUR}
    assert leaving(decided(world, 5 * HOUR - NOTICE, policy)) == ["long"]


def test_a_promise_given_as_the_lender_starts_does_not_count_on_room_that_is_now_the_borrowers_own():
    world, now = drawn("8 8 8 8"), 2 * HOUR
    seat(world, gang("busy", 1, 8, run_s=5 * 3600), "n0")
    seat(world, gang("other", 1, 8, run_s=30 * 3600), "n1")
    submit(world, gang("wide", 3, 8, run_s=3600), at=SECOND)
    submit(world, gang("long", 1, 8, run_s=86_400, parkable=True), at=2 * SECOND)
    carry_out(world, decided(world, MINUTE), MINUTE, settle=True)
    assert life(world, "long").lent == MINUTE + LENT
    submit(world, gang("next", 4, 8, run_s=3600, submitted=90 * SECOND), at=90 * SECOND)
    world.apply(ev.Ended(now, "busy"))
    world.apply(ev.Ended(now, "other"))

    plan = decided(world, now)

    assert starts(plan) == {"wide": 0}
    assert promised(plan) == {"next": MINUTE + 24 * HOUR}, "after all that runs has ended"
    carry_out(world, plan, now, settle=True)
    assert decided(world, now + SECOND).actions == ()


def test_who_left_lent_room_waits_as_before_and_comes_back():
    world, due = lent_out(), 5 * HOUR
    carry_out(world, decided(world, due - GRACE), due - GRACE, settle=True)
    world.apply(ev.Ended(due, "busy"))
    carry_out(world, decided(world, due), due, settle=True)
    world.apply(ev.Ended(due + HOUR, "wide"))

    again = decided(world, due + HOUR)

    assert starts(again) == {"long": 0}
    assert isinstance(again.actions[0], Resume)


def test_it_is_told_of_who_runs_there():
    world = lent_out()

    said = explain(world.view(), 2 * MINUTE, Policy(), "long").statement

    assert said.endswith("in room that is kept for another, and is parked when that is needed")


def test_limits_of_a_queue_hold_for_borrowers():
    world = kept_for()
    world.apply(ev.QueueSet(SECOND, Queue("default", limit={"gpu": 8})))

    assert starts(decided(world, MINUTE)) == {}


@pytest.mark.parametrize("bound", [{"max_running": 1}, {"limit": {"gpu": 16}}])
def test_room_is_not_lent_to_who_would_take_the_turn_or_the_limit_of_the_promised_one(bound):
    """It is asked for its room only: what it has of a bound it keeps for as long as it runs."""
    apart = seat(
        drawn("8 8", Queue("default", **bound), Queue("apart")), gang("busy", 1, 8, 18_000, queue="apart"), "n0"
    )
    submit(apart, gang("wide", 2, 8, run_s=3600), at=SECOND)
    submit(apart, gang("long", 1, 8, run_s=86_400, parkable=True), at=2 * SECOND)
    assert starts(decided(apart, MINUTE)) == {}

    submit(apart, gang("other", 1, 8, run_s=86_400, parkable=True, queue="apart"), at=2 * SECOND)
    assert starts(decided(apart, MINUTE)) == {"other": MINUTE + LENT}


def test_the_checker_sees_a_borrower_that_takes_the_turn_of_the_promised_one():
    world = kept_for()
    plan = decided(world, MINUTE)
    world.apply(ev.QueueSet(SECOND, Queue("default", max_running=2)))
    view = world.view()
    assert check(view, plan.on(view.number), DEFAULT) == []
    world.apply(ev.QueueSet(SECOND, Queue("default", max_running=1)))
    world.apply(ev.Ended(MINUTE, "busy"))
    view = world.view()

    found = check(view, plan.on(view.number), DEFAULT)

    assert [(each.rule, each.gang) for each in found] == [(Rule.PROMISE, "wide")]


def test_nobody_borrows_who_is_in_the_way_beside_its_seats():
    marked = gang("long", 1, 8, run_s=86_400, parkable=True)
    marked = replace(marked, roles=(replace(marked.roles[0], marks=("port",)),))
    world = seat(drawn("8 8"), gang("busy", 1, 8, run_s=5 * 3600), "n0")
    submit(world, gang("wide", 2, 8, run_s=3600), at=SECOND)
    submit(world, marked, at=2 * SECOND)

    assert starts(decided(world, MINUTE)) == {}


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        pytest.param(lambda seats: Start("long", seats=seats, lent=MINUTE + 1), Rule.RECLAIM, id="asked back too soon"),
        pytest.param(lambda seats: Start("long", seats=seats), Rule.PROMISE, id="for good"),
        pytest.param(lambda seats: Start("long", seats=seats, lent=9 * HOUR), Rule.PROMISE, id="for too long"),
    ],
)
def test_the_checker_sees_room_that_is_lent_wrongly(action, rule):
    world = kept_for()
    plan = decided(world, MINUTE)
    seats = next(each.seats for each in plan.actions if isinstance(each, Start))
    promise = next(each for each in plan.actions if isinstance(each, Reserve))
    view = world.view()

    found = check(view, Plan(view.number, MINUTE, (promise, action(seats))), Policy())

    assert rule in {violation.rule for violation in found}


def test_the_checker_sees_a_borrower_that_leaves_for_nobody_who_needs_it_soon():
    world = lent_out()
    view = world.view()
    leaves = Evict("long", view.number, (), 0, How.PARK, "wide", 2 * HOUR + GRACE)

    found = check(view, Plan(view.number, 2 * HOUR, (leaves,)), Policy())

    assert [violation.rule for violation in found if violation.gang == "long"] == [Rule.RECLAIM]


def test_nobody_is_lent_room_that_would_be_asked_back_at_once():
    policy = Policy(reserve=Reservation(lend=SECOND), reclaim=Reclaim(min_run=0, grace=0))
    world = kept_for(hours=1)

    assert starts(decided(world, HOUR - SECOND - 1, policy)) == {}


def test_somebody_looks_in_time_though_the_room_is_lent_until_the_very_start():
    world = kept_for(hours=1)
    start = HOUR - LENT

    plan = decided(world, start)
    carry_out(world, plan, start, settle=True)

    assert starts(plan) == {"long": HOUR}
    assert plan.wake_at == HOUR - NOTICE
    assert leaving(decided(world, plan.wake_at)) == ["long"]
