"""Bounds on what runs at once: of a queue, of those below it, of its users and of groups of users."""

import pytest

from tests.clusters import brief, drawn, gang, seat, submit
from tests.promises.outcomes import carry_out
from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.check import Rule, check
from tutti.engine.decide import decide
from tutti.engine.edit import SetQueue, edited
from tutti.engine.explain import explain
from tutti.engine.forecast import roll
from tutti.engine.model import HOUR, SECOND, Bound, Coupling, Gang, Kind, Queue, Resizing, Seats, Token
from tutti.engine.plan import Grow, Plan, Reserve, Start
from tutti.engine.policy import Break, Order, Policy, Reservation, Term
from tutti.engine.remedy import remedies
from tutti.engine.twin import world_of
from tutti.engine.world import World
from tutti.views.why import sentence

POLICY = Policy()
BY_AGE = Policy(order=Order(terms=(Term.AGE,)), reserve=Reservation(backfill=Term.AGE))


def told(world, now=0, policy=POLICY):
    view = world.view()
    plan = decide(view, now, policy)
    assert check(view, plan, policy) == []
    return brief(plan, view)


def queues(**fields):
    return Queue("research", **fields), Queue("other")


def test_no_more_gangs_start_than_a_queue_may_run():
    world = seat(drawn("8 8 8", *queues(max_running=2)), gang("a", queue="research"), "n0")
    submit(world, *(gang(name, queue="research") for name in ("b", "c")), gang("d", queue="other"))

    assert told(world) == "d@n0 b@n0 c:QuotaReached"


def test_a_queue_counts_what_runs_below_it():
    tree = (Queue("top", max_running=1), Queue("left", "top"), Queue("right", "top"))
    world = seat(drawn("8", *tree), gang("a", queue="left"), "n0")
    submit(world, gang("b", queue="right"), gang("c", queue="top"))

    assert told(world) == "b:QuotaReached c:QuotaReached"


@pytest.mark.parametrize(
    ("bound", "started"),
    [
        pytest.param(Bound(users=("ann",), max_running=1), {"bob-1", "bob-2"}, id="a user by name"),
        pytest.param(Bound(users=("*",), max_running=2), {"ann-1", "bob-1", "bob-2"}, id="each user for itself"),
        pytest.param(Bound(groups=("ml",), max_running=2), {"ann-1"}, id="a group all together"),
        pytest.param(Bound(groups=("*",), max_running=2), {"ann-1"}, id="all groups that are not named"),
        pytest.param(Bound(groups=("ops",), max_running=1), {"ann-1", "ann-2", "bob-1", "bob-2"}, id="another group"),
        pytest.param(Bound(users=("ann",), limit={"gpu": 2}), {"ann-1", "bob-1", "bob-2"}, id="what a user holds"),
        pytest.param(Bound(groups=("ml",), limit={"gpu": 1}), set(), id="what a group holds"),
    ],
)
def test_what_users_and_groups_may_have(bound, started):
    world = drawn("8 8", *queues(bounds=(bound,)))
    seat(world, gang("ann-0", queue="research", user="ann", groups=("ml",)), "n0")
    names = ("ann-1", "ann-2", "bob-1", "bob-2")
    submit(world, *(gang(name, queue="research", user=name[:3], groups=("ml",)) for name in names))
    plan = decide(world.view(), 0, POLICY)

    assert check(world.view(), plan, POLICY) == []
    assert {action.gang for action in plan.actions} == started


def test_a_user_who_is_named_is_not_one_of_the_others():
    bounds = (Bound(users=("*",), max_running=0), Bound(users=("ann",), max_running=1))
    world = drawn("8", *queues(bounds=bounds))
    submit(world, gang("a", queue="research", user="ann"), gang("b", queue="research", user="bob"))

    assert told(world) == "a@n0 b:QuotaReached"


def test_the_group_is_the_first_that_is_named_from_the_queue_up():
    top = Queue("top", bounds=(Bound(groups=("staff",), max_running=0), Bound(groups=("ml",), max_running=1)))
    below = Queue("research", "top", bounds=(Bound(groups=("ml",), max_running=5),))
    world = drawn("8", top, below)
    submit(world, *(gang(name, queue="research", user="ann", groups=("staff", "ml")) for name in ("a", "b")))

    assert told(world) == "a@n0 b:QuotaReached"


def test_gangs_that_count_as_one_take_one_turn():
    world = seat(drawn("8", *queues(max_running=1)), gang("driver", queue="research", counts_as="app"), "n0")
    submit(world, gang("executor", queue="research", counts_as="app"), gang("stranger", queue="research"))

    assert told(world) == "executor@n0 stranger:QuotaReached"


def test_the_reason_says_how_many_run_and_whose_end_helps():
    world = drawn("8", *queues(max_running=2))
    seat(world, gang("long", queue="research", run_s=900), "n0")
    seat(world, gang("short", queue="research", run_s=60), "n0")
    submit(world, gang("new", queue="research"))
    view = world.view()
    reason = decide(view, 0, POLICY).answers["new"]

    assert (reason.token, reason.kind) == (Token.QUOTA_REACHED, Kind.WAIT)
    assert reason.detail == "queue research runs 2 gangs of at most 2"
    assert reason.blockers == ("short", "long")
    assert reason.wakes == ("gang:short", "gang:long", "queue:research")
    found = explain(view, 0, POLICY, "new")
    assert sentence(found) == "It would be one gang too many: queue research runs 2 gangs of at most 2."
    assert found.quota is not None
    assert (found.quota.resource, found.quota.used, found.quota.limit) == ("gangs", 2, 2)

    world.apply(ev.Ended(SECOND, "short"))
    assert told(world, SECOND) == "new@n0"


def test_where_nobody_may_run_somebody_has_to_be_asked():
    world = submit(drawn("8", *queues(max_running=0)), gang("new", queue="research", user="ann"))
    reason = decide(world.view(), 0, POLICY).answers["new"]

    assert (reason.kind, reason.detail) == (Kind.ASK, "queue research runs 0 gangs of at most 0")
    assert [remedy.short for remedy in remedies(world.view(), 0, POLICY, "new")] == [
        'queue = "other"',
        "research: max_running = 1",
    ]


def test_a_bound_of_a_user_is_raised_as_far_as_needed():
    bounds = (Bound(users=("ann", "bob"), max_running=1, limit={"gpu": 3}), Bound(users=("*",), max_running=0))
    world = seat(drawn("8", Queue("research", bounds=bounds)), gang("a", 1, 2, queue="research", user="ann"), "n0")
    submit(world, gang("new", 1, 2, queue="research", user="ann"))
    said = decide(world.view(), 0, POLICY).answers["new"].detail
    shorts = [remedy.short for remedy in remedies(world.view(), 0, POLICY, "new")]

    assert said == "user ann runs 1 gang of at most 1 in queue research"
    assert "a ends" in shorts
    raised = "{users = [ann, bob], max_running = 2, limit = {gpu = 4}}, {users = [*], max_running = 0}"
    assert f"research: bounds = [{raised}]" in shorts


def test_a_turn_that_is_promised_is_not_given_away():
    """The wide gang is promised the second turn of its queue; whoever would still run then does not start."""
    world = seat(drawn("8 8 8", *queues(max_running=1)), gang("r", 2, 8, queue="other", run_s=100), "n0 n1")
    submit(world, gang("wide", 2, 8, queue="research", run_s=100))
    submit(world, gang("long", 1, 8, queue="research", run_s=1000, submitted=1))
    assert told(world, policy=BY_AGE) == "wide>100@n0,n1 long:ReservedAhead"

    reason = decide(world.view(), 0, BY_AGE).answers["long"]
    assert (reason.token, reason.blockers) == (Token.RESERVED_AHEAD, ("wide",))
    assert reason.detail == "the next turn of queue research is promised to wide"

    submit(world, gang("short", 1, 8, queue="research", run_s=50, submitted=2))
    assert told(world, policy=BY_AGE) == "wide>100@n0,n1 short@n2 long:QuotaReached"


def test_what_a_limit_leaves_is_kept_for_a_promise_too():
    world = seat(drawn("8 8 8", *queues(limit={"gpu": 16})), gang("r", 2, 8, queue="other", run_s=100), "n0 n1")
    submit(world, gang("wide", 2, 8, queue="research", run_s=100))
    submit(world, gang("long", 1, 8, queue="research", run_s=1000, submitted=1))
    carry_out(world, decide(world.view(), 0, POLICY), 0, settle=True)
    assert told(world) == "long:ReservedAhead wide:NoCapacity"

    world.apply(ev.Ended(100 * SECOND, "r"))
    assert told(world, 100 * SECOND) == "wide@n0,n1 long:QuotaReached"


def test_promises_are_given_one_after_the_other_where_one_may_run():
    policy = Policy(reserve=Reservation(depth=2))
    world = seat(drawn("8 8", *queues(max_running=1)), gang("r", 2, 8, queue="other", run_s=100), "n0 n1")
    submit(world, *(gang(name, 1, 8, queue="research", run_s=60, submitted=at) for at, name in enumerate("ab")))

    assert told(world, policy=policy) == "a>100@n0 b>160@n0"


@pytest.mark.parametrize("waiting", [1, 2])
def test_plans_at_a_glance_step_aside(waiting):
    world = seat(drawn("8 8 8", *queues(max_running=1)), gang("a", 1, 8, queue="research"), "n0")
    submit(world, *(gang(f"b{at}", 1, 8, queue="research") for at in range(waiting)))
    view, cache = world.view(), Cache()

    assert decide(view, 0, POLICY, cache).actions == decide(view, 0, POLICY).actions == ()


def test_a_forecast_lets_one_run_after_the_other():
    world = drawn("8", *queues(max_running=1))
    submit(world, *(gang(name, queue="research", run_s=60, submitted=at) for at, name in enumerate("abc")))

    assert roll(world.view(), 0, {}, HOUR, POLICY).at == {"a": 0, "b": 60 * SECOND, "c": 120 * SECOND}


def test_a_bound_that_is_changed_in_a_copy_of_the_view():
    world = submit(drawn("8", *queues(max_running=1)), *(gang(name, queue="research") for name in "abc"))
    view = world.view()
    more = edited(view, [SetQueue("research", {"max_running": 2})])
    without = edited(view, [SetQueue("research", {"max_running": None})])

    assert [len(decide(each, 0, POLICY).actions) for each in (view, more, without)] == [1, 2, 3]


def test_a_world_with_bounds_is_the_same_again_when_it_is_copied():
    bounds = (Bound(users=("ann",), max_running=1, limit={"tpu": 3}),)
    world = seat(drawn("8", *queues(max_running=2, bounds=bounds)), gang("a", queue="research", user="ann"), "n0")
    submit(world, gang("b", queue="research", user="ann"), gang("c", queue="research"), gang("d", queue="research"))

    assert told(world_of(world.view())) == told(world) == "c@n0 b:QuotaReached d:QuotaReached"
    assert "tpu" in world.resources


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_running": 1}, "queue 'research' would run 2 gangs, and at most 1 may"),
        ({"bounds": (Bound(users=("ann",), max_running=1),)}, "user 'ann' in queue 'research' would run 2 gangs"),
        ({"bounds": (Bound(groups=("ml",), max_running=1),)}, "group 'ml' in queue 'research' would run 2 gangs"),
        ({"bounds": (Bound(groups=("*",), limit={"gpu": 1}),)}, "group '*' in queue 'research' would hold 2 gpu"),
    ],
)
def test_the_check_sees_a_bound_that_is_broken(fields, said):
    world = drawn("8", *queues(**fields))
    seat(world, gang("a", queue="research", user="ann", groups=("ml",)), "n0")
    submit(world, gang("b", queue="research", user="ann", groups=("ml",)))
    view = world.view()
    plan = Plan(view.number, 0, (Start("b", view.number, seats=(Seats((0,), (1,)),)),))

    (found,) = check(view, plan, POLICY)
    assert found.rule is Rule.QUOTA
    assert said in found.sentence


def test_the_check_sees_a_turn_that_was_promised_to_somebody_else():
    world = seat(drawn("8 8 8", *queues(max_running=1)), gang("r", 2, 8, queue="other", run_s=100), "n0 n1")
    submit(world, gang("wide", 2, 8, queue="research", run_s=100))
    carry_out(world, decide(world.view(), 0, POLICY), 0)
    submit(world, gang("long", 1, 8, queue="research", run_s=1000, submitted=1))
    view = world.view()
    plan = Plan(view.number, 0, (Start("long", view.number, seats=(Seats((2,), (1,)),)),))

    found = next(one for one in check(view, plan, POLICY) if one.rule is Rule.PROMISE)
    assert found.gang == "wide"
    assert "would run 2 gangs, and at most 1 may when it was promised a start" in found.sentence


def test_who_has_no_name_is_counted_for_itself_and_not_with_everybody():
    bounds = (Bound(users=("*",), max_running=2, limit={"gpu": 8}),)
    world = drawn("8 8", Queue("research", max_running=5, limit={"gpu": 16}, bounds=bounds))
    seat(world, gang("mine", 1, 4, queue="research"), "n0")
    seat(world, gang("theirs", 1, 4, queue="research", user="bob"), "n0")
    submit(world, gang("new", 1, 4, queue="research"), gang("more", 1, 4, queue="research", submitted=1))

    assert told(world) == "new@n1 more:QuotaReached"
    detail = decide(world.view(), 0, POLICY).answers["more"].detail
    assert detail == "user without a name runs 2 gangs of at most 2 in queue research"


def test_of_several_bounds_the_one_is_named_where_an_end_helps():
    """The end of the other user's gang would leave this one over the bound of its own user."""
    world = drawn("8", *queues(max_running=2, bounds=(Bound(users=("ann",), max_running=1),)))
    seat(world, gang("a", queue="research", user="ann", run_s=1000), "n0")
    seat(world, gang("b", queue="research", user="bob", run_s=10), "n0")
    submit(world, gang("new", queue="research", user="ann"))
    reason = decide(world.view(), 0, POLICY).answers["new"]

    assert (reason.detail, reason.blockers) == ("user ann runs 1 gang of at most 1 in queue research", ("a",))
    world.apply(ev.Ended(SECOND, "a"))
    assert told(world, SECOND) == "new@n0"


def test_who_runs_above_a_bound_that_was_lowered_runs_on():
    world = drawn("8", *queues(max_running=1))
    for name in "abc":
        seat(world, gang(name, queue="research"), "n0")
    submit(world, gang("new", queue="research"))

    assert told(world) == "new:QuotaReached"
    assert decide(world.view(), 0, POLICY).answers["new"].detail == "queue research runs 3 gangs of at most 1"
    assert "a, b and c end" in [remedy.short for remedy in remedies(world.view(), 0, POLICY, "new")]


@pytest.mark.parametrize(
    ("fields", "raised"),
    [
        pytest.param(
            {"user_limit": {"gpu": 3}, "bounds": (Bound(users=("ann",), limit={"gpu": 10}),)},
            "research: user_limit = {gpu = 4}",
            id="one that is high enough stays",
        ),
        pytest.param(
            {"bounds": (Bound(users=("ann",), groups=("ml",), limit={"gpu": 3}),)},
            "research: bounds = [{users = [ann], groups = [ml], limit = {gpu = 6}}]",
            id="one about a user and a group",
        ),
    ],
)
def test_bounds_are_raised_never_lowered(fields, raised):
    world = drawn("8", Queue("research", **fields))
    seat(world, gang("a", 1, 2, queue="research", user="ann", groups=("ml",)), "n0")
    seat(world, gang("b", 1, 2, queue="research", user="bob", groups=("ml",)), "n0")
    submit(world, gang("new", 1, 2, queue="research", user="ann", groups=("ml",)))

    assert raised in [remedy.short for remedy in remedies(world.view(), 0, POLICY, "new")]


def growing(limit, **fields):
    """An elastic gang with room to grow, and one of its queue that was promised a start when others end."""
    world = drawn("8 8 8 8 8 8", *queues(**limit))
    role = {"want": 3, "max": 3, **fields}
    seat(world, gang("elastic", 1, 8, queue="research", user="ann", run_s=10_000, **role), "n0")
    seat(world, gang("r", 3, 8, queue="other", run_s=1000), "n1 n2 n3")
    return submit(world, gang("wide", 3, 8, queue="research", user="ann", run_s=100), at=700 * SECOND)


@pytest.mark.parametrize("fields", [{"resizing": Resizing.LIVE}, {"coupling": Coupling.LOOSE}], ids=["live", "loose"])
@pytest.mark.parametrize(
    ("limit", "grown"),
    [
        pytest.param({}, "n0,n4,n5", id="no limit"),
        pytest.param({"limit": {"gpu": 40}}, "n0,n4", id="of the queue"),
        pytest.param({"user_limit": {"gpu": 40}}, "n0,n4", id="of every user"),
        pytest.param({"bounds": (Bound(users=("ann",), limit={"gpu": 40}),)}, "n0,n4", id="of a user"),
    ],
)
def test_who_grows_leaves_of_a_limit_what_is_promised(limit, grown, fields):
    world = growing(limit, **fields)
    now = 700 * SECOND
    assert told(world, now) == f"wide>1000@n1,n2,n3 elastic+@{grown}"

    carry_out(world, decide(world.view(), now, POLICY), now, settle=True)
    world.apply(ev.Ended(1000 * SECOND, "r"))
    assert "wide@n1,n2,n3" in told(world, 1000 * SECOND)


def test_two_that_grow_leave_it_together():
    world = growing({"limit": {"gpu": 48}}, resizing=Resizing.LIVE, max=2, want=2)
    seat(world, gang("other", 1, 4, queue="research", run_s=10_000, max=2, want=2, resizing=Resizing.LIVE), "n4")
    found = told(world, 700 * SECOND)

    assert found == "wide>1000@n1,n2,n3 elastic+@n0,n5 other+@n4*2"
    found = told(tight(world, 44), 700 * SECOND)
    assert found.count("+@") == 1


def tight(world, most):
    world.apply(ev.QueueSet(0, Queue("research", limit={"gpu": most})))
    return world


def test_the_check_sees_growth_that_takes_what_was_promised():
    world = growing({"limit": {"gpu": 32}}, resizing=Resizing.LIVE)
    now = 700 * SECOND
    carry_out(world, decide(world.view(), now, POLICY), now)
    view = world.view()
    plan = Plan(view.number, now, (Grow("elastic", view.number, seats=(Seats((0, 4), (1, 1)),)),))

    found = next(one for one in check(view, plan, POLICY) if one.rule is Rule.PROMISE)
    assert found.gang == "wide"
    assert "would hold 40 gpu, and the limit is 32 when it was promised a start" in found.sentence


def test_all_who_wait_for_a_bound_hear_the_same():
    """It is worked out once: hundreds may wait for a bound that hundreds are under."""
    world = seat(drawn("8", *queues(max_running=1)), gang("a", queue="research"), "n0")
    submit(world, *(gang(f"w{at}", queue="research") for at in range(3)))
    answers = decide(world.view(), 0, POLICY).answers

    assert answers["w0"] is answers["w1"] is answers["w2"]


def low_and_high(world: World, *ahead: Gang) -> World:
    """A gang that is promised a start at 100 s on both nodes; then others come before it."""
    seat(world, gang("r", 1, 8, queue="other", run_s=100), "n0")
    submit(world, gang("low", 2, 8, queue="research", run_s=100))
    assert told(world) == "low>100@n0,n1"
    carry_out(world, decide(world.view(), 0, POLICY), 0, settle=True)
    return submit(world, *ahead, at=SECOND)


def test_a_promised_turn_that_a_higher_priority_takes_moves_in_the_same_plan():
    high = gang("high", queue="research", run_s=200, priority=1)
    world = low_and_high(drawn("8 8", *queues(max_running=1)), high)
    world.apply(ev.Ended(100 * SECOND, "r"))

    assert told(world, 100 * SECOND) == "high@n0 low>300@n0,n1"
    moved = [act for act in decide(world.view(), 100 * SECOND, POLICY).actions if isinstance(act, Reserve)]
    assert [(act.why, act.promise and act.promise.broken) for act in moved] == [(Break.HIGHER_PRIORITY, 1)]


def test_a_promise_that_the_queue_cannot_keep_is_told_before_its_gang_may_start():
    world = low_and_high(drawn("8 8", *queues(max_running=1)))
    seat(world, gang("s", queue="research", run_s=300), "n1", at=SECOND)

    assert told(world, SECOND) == "low>301@n0,n1"
    moved = [act for act in decide(world.view(), SECOND, POLICY).actions if isinstance(act, Reserve)]
    assert [(act.why, act.promise and act.promise.broken) for act in moved] == [(Break.OVERRUN, 1)]


def test_where_nobody_knows_when_the_turn_comes_back_the_promise_is_withdrawn():
    high = gang("high", queue="research", priority=1)
    world = low_and_high(drawn("8 8", *queues(max_running=1)), high)
    world.apply(ev.Ended(100 * SECOND, "r"))

    assert told(world, 100 * SECOND) == "high@n0 low>none low:QuotaReached"


def test_room_that_a_higher_priority_leaves_to_a_promise_is_not_for_those_behind():
    high = gang("high", queue="other", priority=1, after=("finished:nobody",))
    late = gang("late", queue="other", run_s=1000, submitted=SECOND)
    world = low_and_high(drawn("8 8", *queues(max_running=1)), high, late)
    seat(world, gang("short", queue="research", run_s=50), "n1", at=SECOND)

    assert told(world, SECOND, BY_AGE) == "late>200@n0 high:DependencyWait low:QuotaReached"


def test_a_promise_behind_the_head_of_a_strict_queue_moves_with_it():
    world = low_and_high(drawn("8 8", *queues(strict=True)), gang("high", 2, 8, queue="research", run_s=50, priority=1))

    assert told(world, SECOND) == "high>100@n0,n1 low>150@n0,n1"
