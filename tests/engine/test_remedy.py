"""What would make it start: the right means are found, and the cheapest of each kind."""

import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.explain import explain
from tutti.engine.model import (
    NEVER,
    SECOND,
    Cap,
    Domain,
    Near,
    NodeState,
    Queue,
    Segment,
    Shape,
    SizeRule,
    Token,
    Window,
)
from tutti.engine.plan import Resume, Start
from tutti.engine.policy import Order, Policy, Reclaim, Reservation
from tutti.engine.remedy import remedies
from tutti.engine.trial import Who, after
from tutti.errors import NotFound

NOW = 100 * SECOND
EASY = Policy(reserve=Reservation(depth=1))


def found(world, name, policy=EASY, **more):
    return remedies(world.view(), NOW, policy, name, **more)


def shorts(world, name, policy=EASY, **more):
    return [remedy.short for remedy in found(world, name, policy, most=20, **more)]


def busy(picture, *names, gpu=8, run_s=500, **fields):
    """A drawn cluster with a gang of one member on each of the named nodes, each running a little longer."""
    world = drawn(picture)
    for number, name in enumerate(names):
        seat(world, gang(f"on-{name}", 1, gpu=gpu, run_s=run_s + number, **fields), name)
    return world


# -- changes of the job


def test_fewer_workers_is_the_largest_size_that_fits():
    world = submit(busy("8 8 8 8", "n0"), gang("wide", 4, gpu=8, run_s=10))
    assert "workers = 3" in shorts(world, "wide")


def test_fewer_workers_is_a_legal_size():
    world = submit(busy("8 8 8 8", "n0"), gang("wide", 4, gpu=8, run_s=10, rule=SizeRule(power_of_two=True)))
    assert "workers = 2" in shorts(world, "wide")


def test_the_nearest_size_when_it_never_fits():
    world = submit(drawn("8 8"), gang("wide", 5, gpu=8))
    assert explain(world.view(), NOW, EASY, "wide").token is Token.NEVER_FITS
    assert shorts(world, "wide")[:1] == ["workers = 2"]


def test_a_wider_domain_is_the_narrowest_that_will_do():
    picture = "z/a: 8 8 | z/b: 8 8 | y/c: 8 8"
    world = submit(drawn(picture), gang("rack", 3, gpu=8, within="rack", run_s=10))
    said = shorts(world, "rack")
    assert 'within = "zone"' in said
    assert 'within = "any"' not in said
    assert "workers = 2" in said


def test_any_node_when_no_wider_domain_will_do():
    world = submit(drawn("z/a: 8 8 | y/c: 8 8"), gang("rack", 3, gpu=8, within="rack", run_s=10))
    assert 'within = "any"' in shorts(world, "rack")


def test_the_longest_run_time_that_ends_before_a_promise():
    world = seat(drawn("8 8"), gang("runs", 1, gpu=8, run_s=200), "n0")
    submit(world, gang("first", 2, gpu=8, run_s=50), at=1)
    submit(world, gang("late", 1, gpu=8, run_s=500), at=2)
    assert explain(world.view(), NOW, EASY, "late").token is Token.RESERVED_AHEAD
    assert "time = 1m40s" in shorts(world, "late")


@pytest.mark.parametrize(
    ("picture", "fields", "short"),
    [
        pytest.param("8 8", {"gpu": 2, "caps": (Cap("node", 1),)}, "without caps", id="caps"),
        pytest.param("a: 8 8 | b: 4", {"gpu": 4, "segment": Segment("node", 3)}, "without segments", id="segments"),
        pytest.param(
            "8+fast 8 8", {"shapes": (Shape({"gpu": 8}, tags=(("fast",),)),)}, "without tags", id="kinds of nodes"
        ),
    ],
)
def test_a_wish_that_can_be_dropped(picture, fields, short):
    world = submit(drawn(picture), gang("g", 3, run_s=10, **fields))
    assert short in shorts(world, "g")


def test_neighbours_and_claims_on_domains_can_be_dropped():
    shy = gang("shy", 1, run_s=10, repels=(Near("db"),))
    world = submit(seat(drawn("8"), gang("db", 1, marks=("db",), run_s=500), "n0"), shy)
    assert "without rules about neighbours" in shorts(world, "shy")

    world = submit(drawn("a: 8"), gang("g", 1, domain_ask={"rack": {"switch": 2}}, run_s=10))
    world.apply(ev.DomainSet(0, Domain("default", ("a",), {"switch": 1})))
    assert "without claims on domains" in shorts(world, "g")


def test_smaller_members_that_come_to_the_same():
    world = submit(busy("8 8 8", "n0", "n1", "n2", gpu=4), gang("g", 1, gpu=8, run_s=10))
    assert "workers = 2, each {gpu = 4}" in shorts(world, "g")


# -- gates


def test_a_hold_is_released():
    world = submit(drawn("8"), gang("g", 1))
    world.apply(ev.Held(1, "g"))
    (only,) = found(world, "g")
    assert (only.short, only.who, only.strength) == ("release it", Who.OWNER, 1)


def test_a_hold_is_released_and_then_there_must_be_room():
    world = submit(busy("8", "n0"), gang("g", 1, gpu=8, run_s=10))
    world.apply(ev.Held(1, "g"))
    first = found(world, "g")[0]
    assert first.short == "release it, and on-n0 ends"
    assert first.who is Who.NOBODY
    assert first.expected == 500 * SECOND


def test_a_closed_queue_opens_or_is_left():
    world = submit(drawn("8", Queue("shut", closed=True), Queue("open")), gang("g", 1, queue="shut"))
    assert [(r.short, r.who) for r in found(world, "g")] == [
        ('queue = "open"', Who.OWNER),
        ("queue shut opens", Who.ADMIN),
    ]


def test_an_unknown_queue_is_left():
    world = submit(drawn("8", Queue("open")), gang("g", 1, queue="nowhere"))
    assert shorts(world, "g") == ['queue = "open"']


def test_what_it_comes_after_ends_as_it_must():
    world = seat(drawn("8"), gang("first", 1, run_s=200), "n0")
    submit(world, gang("next", 1, after=("failed:first",)))
    assert [(r.short, r.expected // SECOND) for r in found(world, "next") if r.who is Who.NOBODY] == [
        ("first ends", 200)
    ]
    assert "after = []" in shorts(world, "next")


def test_the_next_try():
    world = seat(drawn("8"), gang("g", 1, run_s=200), "n0")
    world.apply(ev.Refused(90 * SECOND, "g", not_before=130 * SECOND, why="no answer"))
    assert [(r.short, r.at // SECOND) for r in found(world, "g")] == [("the pause is over", 130)]


def test_missing_members_come():
    world = drawn("8")
    world.apply(ev.Submitted(0, gang("g", 2), awaiting=1))
    assert shorts(world, "g") == ["all members are there"]


def test_a_field_that_cannot_be_honoured_is_left_out():
    world = submit(drawn("8"), gang("g", 1, unsupported="spec.hostIPC"))
    assert shorts(world, "g") == ["without spec.hostIPC"]


def test_a_limit_is_raised_as_far_as_needed_all_the_way_up():
    queues = (Queue("top", limit={"gpu": 10}), Queue("team", parent="top", limit={"gpu": 8}, user_limit={"gpu": 7}))
    world = seat(drawn("8 8", *queues), gang("runs", 1, gpu=6, run_s=200, queue="team", user="ann"), "n0")
    submit(world, gang("more", 1, gpu=6, queue="team", user="ann"))
    asked = [r for r in found(world, "more") if r.who is Who.ADMIN]
    assert asked[0].short == "team: limit = {gpu = 12}, user_limit = {gpu = 12}; top: limit = {gpu = 12}"
    assert "runs ends" in shorts(world, "more")
    assert "workers = " not in " ".join(shorts(world, "more"))


def test_a_limit_that_is_met_once_there_is_room_is_not_asked_for():
    world = seat(drawn("4", Queue("small", limit={"gpu": 4})), gang("runs", 1, gpu=4, run_s=200, queue="small"), "n0")
    submit(world, gang("more", 1, gpu=4, queue="small"))
    assert shorts(world, "more").count("runs ends") == 1
    assert not [short for short in shorts(world, "more") if "limit" in short and "runs ends" in short]


# -- the cluster


def test_nodes_that_would_have_to_come_back():
    world = submit(drawn("8 8x 8d 8q"), gang("g", 3, gpu=8, run_s=10))
    assert explain(world.view(), NOW, EASY, "g").token is Token.NODES_LOST
    assert [(r.short, r.who) for r in found(world, "g")][-1] == ("n1 and n2 back", Who.ADMIN)


def test_lemons_count_as_nodes_that_may_come_back():
    world = submit(drawn("8"), gang("g", 1, gpu=8))
    for at in (97, 98, 99):
        world.apply(ev.NodeTurned(at * SECOND, "n0", NodeState.READY, fault=True))
    assert "n0 back" in shorts(world, "g")


def test_what_others_use_is_given_back():
    world = submit(drawn("8-8 8-1 8"), gang("g", 2, gpu=8, run_s=10))
    assert explain(world.view(), NOW, EASY, "g").token is Token.USED_BY_OTHERS
    assert "n0 given back" in shorts(world, "g")


# -- waiting


def test_the_endings_that_are_enough_and_no_others():
    world = submit(busy("8 8 4", "n2", gpu=4, run_s=200), gang("g", 2, gpu=8, run_s=10))
    seat(world, gang("a", 1, gpu=8, run_s=300), "n0")
    seat(world, gang("b", 1, gpu=8, run_s=400), "n1")
    waits = [r for r in found(world, "g") if r.who is Who.NOBODY]
    assert [(r.short, r.expected // SECOND) for r in waits] == [("a and b end", 400)]
    assert waits[0].says == "wait until a and b have ended"


def test_those_ahead_have_their_turn_first():
    world = submit(busy("8", "n0"), gang("first", 1, gpu=8, run_s=50), gang("later", 1, gpu=8, run_s=50, submitted=5))
    waits = [r for r in found(world, "later") if r.who is Who.NOBODY]
    assert waits[0].says == "wait until on-n0 has ended and first has had its turn"
    assert waits[0].expected == NEVER


def test_in_a_strict_line_the_first_is_waited_for_or_passed_by_priority():
    world = submit(busy("8 8", "n0"), gang("first", 2, gpu=8, run_s=50), gang("small", 1, gpu=8, run_s=50, submitted=5))
    strict = Policy(order=Order(strict=True), reserve=Reservation(depth=0))
    assert explain(world.view(), NOW, strict, "small").token is Token.BEHIND_OTHERS
    assert "priority = 1" in shorts(world, "small", strict)
    assert "first ends" in shorts(world, "small", strict)


def test_a_window_passes():
    world = submit(drawn("8"), gang("g", 1, gpu=8, run_s=100))
    world.apply(ev.WindowSet(0, Window("upkeep", 150 * SECOND, 300 * SECOND, ("n0",))))
    said = found(world, "g")
    assert [(r.short, r.at // SECOND) for r in said if r.who is Who.NOBODY] == [("window upkeep is over", 300)]
    assert "time = 50s" in [r.short for r in said]


def test_those_who_are_told_to_leave_have_left():
    world = seat(drawn("8"), gang("low", 1, gpu=8, run_s=5000), "n0")
    submit(world, gang("high", 1, gpu=8, run_s=10, priority=5))
    policy = Policy(reclaim=Reclaim(min_run=0))
    assert explain(world.view(), NOW, policy, "high").token is Token.WAITING_FOR_EVICTION
    assert shorts(world, "high", policy)[0] == "low makes room"


def test_several_things_that_must_come_together():
    world = submit(busy("8 8-8 8x", "n0"), gang("g", 3, gpu=8, min=3, run_s=10, rule=SizeRule(sizes=(3,))))
    (only,) = found(world, "g")
    assert only.short == "n1 and n2 back, and on-n0 ends"
    assert only.who is Who.ADMIN


# -- manners


def test_no_more_decisions_than_the_budget(monkeypatch):
    world = submit(busy("8 8 8 8", "n0", "n1"), gang("wide", 4, gpu=8, run_s=10, within=""))
    ran = []

    def counted(*about):
        ran.append(1)
        return decide(*about)

    monkeypatch.setattr("tutti.engine.trial.decide", counted)
    found(world, "wide", budget=3)
    assert len(ran) == 3


def test_no_budget_no_remedies():
    world = submit(busy("8", "n0"), gang("g", 1, gpu=8))
    assert found(world, "g", budget=0) == []


def test_at_most_a_handful():
    world = submit(busy("z/a: 8 8 | z/b: 8 8", "a0"), gang("g", 4, gpu=8, within="rack", run_s=10))
    assert len(found(world, "g", most=2)) <= 2


def test_a_running_or_starting_gang_needs_none():
    world = submit(busy("8 8", "n0"), gang("g", 1, gpu=8))
    assert found(world, "on-n0") == []
    assert found(world, "g") == []


def test_an_unknown_gang_is_an_error():
    with pytest.raises(NotFound):
        found(drawn("8"), "nobody")


def test_the_view_is_left_alone():
    world = submit(busy("8 8 8 8", "n0"), gang("wide", 4, gpu=8, run_s=10))
    view = world.view()
    before = decide(view, NOW, EASY)
    for remedy in remedies(view, NOW, EASY, "wide"):
        plan = decide(after(view, remedy.steps), remedy.at, EASY)
        assert any(isinstance(action, Start | Resume) and action.gang == "wide" for action in plan.actions)
    assert decide(view, NOW, EASY) == before


def test_a_gang_that_is_to_start_later_waits_for_its_time_and_for_nothing_else():
    world = submit(drawn("8 8"), gang("later", 2, gpu=8, run_s=10, begin=NOW + 60 * SECOND))
    plan = decide(world.view(), NOW, EASY)
    assert (plan.actions, plan.wake_at) == ((), NOW + 60 * SECOND)
    assert (plan.answers["later"].token, plan.answers["later"].retry_at) == (Token.HELD, NOW + 60 * SECOND)
    then = decide(world.view(), NOW + 60 * SECOND, EASY)
    assert [type(action) for action in then.actions] == [Start]
    then.at = NOW
    assert check(world.view(), then, EASY)
    assert [(remedy.short, remedy.who, remedy.expected) for remedy in found(world, "later")] == [
        ("begin = 0", Who.OWNER, NEVER),
        ("its time has come", Who.NOBODY, NOW + 60 * SECOND),
    ]
