"""Who goes first: every term in a table, queues in turn, and lines kept between decisions equal to new ones."""

from decimal import Decimal, localcontext
from math import log2 as log2_float

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, seat, submit
from tests.worlds import NONSENSE, scenes
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import (
    DAY,
    HOUR,
    MINUTE,
    NEVER,
    SECOND,
    Estimate,
    Gang,
    Job,
    Life,
    Listing,
    Promise,
    Queue,
    Role,
    Seats,
    Shape,
    Source,
    State,
)
from tutti.engine.order import FRACTION, LOG10_2, PER_LN2, Standing, Turns, in_line, log2, position, steady_until
from tutti.engine.plan import Reserve, Start
from tutti.engine.policy import Order, Policy, Reservation, Term
from tutti.engine.quota import Shares
from tutti.engine.world import World

NOW = 10 * DAY


def by(*terms, fair_share=False, **order):
    return Policy(order=Order(terms=terms, fair_share=fair_share, **order))


def turns(view, policy, now=NOW, standing=None):
    """The names of the waiting gangs in the order of their turns."""
    slots = Turns(view, now, policy, Shares(view, now, policy), standing)
    return [view.held(slot).gang.name for slot in slots]


def promised(start):
    return Life(promise=Promise(start, start + HOUR, (), 0))


@pytest.mark.parametrize(
    ("term", "first", "second"),
    [
        pytest.param(Term.PRIORITY, gang("z", priority=2), gang("a", priority=1), id="the higher priority"),
        pytest.param(Term.AGE, gang("z", submitted=1), gang("a", submitted=2), id="who came first"),
        pytest.param(Term.SLACK, gang("z", deadline=12 * DAY), gang("a", deadline=13 * DAY), id="the nearer deadline"),
        pytest.param(
            Term.SLACK,
            gang("z", deadline=13 * DAY, run_s=3 * 86400),
            gang("a", deadline=12 * DAY, run_s=60),
            id="the later deadline, when its run leaves less time to wait",
        ),
        pytest.param(Term.SLACK, gang("z", deadline=99 * DAY), gang("a"), id="any deadline before none"),
        pytest.param(Term.SLACK, gang("z", deadline=DAY), gang("a", deadline=2 * DAY), id="a deadline missed by more"),
        pytest.param(
            Term.DOWNTIME,
            gang("z", downtime_cost=5, submitted=9 * DAY),
            gang("a", downtime_cost=1, submitted=6 * DAY),
            id="a day at five units an hour costs more than four days at one",
        ),
        pytest.param(
            Term.STRETCH,
            gang("z", run_s=3600, submitted=3 * HOUR),
            gang("a", run_s=3 * 3600),
            id="an hour's run passes one of three hours that came less than four hours before it",
        ),
        pytest.param(
            Term.STRETCH,
            gang("z", run_s=3 * 3600),
            gang("a", run_s=3600, submitted=5 * HOUR),
            id="and does not pass it later: nobody starves",
        ),
        pytest.param(
            Term.STRETCH, gang("z"), gang("a", run_s=60, submitted=2 * HOUR), id="no estimate counts as an hour"
        ),
        pytest.param(
            Term.STRETCH, gang("z", run_s=10**7), gang("a", run_s=60, submitted=DAY // 2), id="a long run counts as six"
        ),
        pytest.param(Term.SHORTEST, gang("z", run_s=60), gang("a", run_s=61), id="the shorter run"),
        pytest.param(Term.SHORTEST, gang("z", run_s=10**6), gang("a"), id="any estimate before none"),
        pytest.param(Term.SMALLEST, gang("z", 2, gpu=2), gang("a", 5, gpu=1), id="fewer cards in all"),
        pytest.param(Term.LARGEST, gang("z", 5, gpu=1), gang("a", 2, gpu=2), id="more cards in all"),
        pytest.param(
            Term.SMALLEST,
            gang("z", 2, gpu=1),
            gang("a", 1, shapes=(Shape({"cpu": 60}),)),
            id="a smaller part of the cluster in whatever it asks most of",
        ),
        pytest.param(
            Term.WFP3,
            gang("z", submitted=9 * DAY, run_s=3600),
            gang("a", submitted=8 * DAY, run_s=3 * 3600),
            id="more waiting for each hour of running",
        ),
        pytest.param(
            Term.WFP3,
            gang("z", 9, submitted=9 * DAY, run_s=7200),
            gang("a", 1, submitted=9 * DAY, run_s=3600),
            id="nine times as wide beats half as long: two cubed is eight",
        ),
        pytest.param(
            Term.UNI,
            gang("z", 4, submitted=9 * DAY, run_s=3600),
            gang("a", 8, submitted=9 * DAY, run_s=3600),
            id="the narrower one",
        ),
        pytest.param(
            Term.UNI,
            gang("z", 1, submitted=9 * DAY, run_s=36000),
            gang("a", 2, submitted=1 * DAY, run_s=60),
            id="one processor before all others",
        ),
        pytest.param(Term.F1, gang("z", 1, run_s=60), gang("a", 1, run_s=600), id="the shorter run, all else equal"),
        pytest.param(
            Term.F1,
            gang("z", 10, run_s=1000, submitted=1000 * SECOND),
            gang("a", 1, run_s=1000, submitted=2000 * SECOND),
            id="30 + 870 x 3 against 3 + 870 x 3.3",
        ),
    ],
)
def test_a_term_prefers(term, first, second):
    view = submit(drawn("8 8", cpu=64), second, first).view()
    assert turns(view, by(term)) == [first.name, second.name]


@pytest.mark.parametrize(
    ("term", "first", "second"),
    [
        pytest.param(Term.PROMISED, promised(5), promised(6), id="the promise for the earlier start"),
        pytest.param(Term.PROMISED, promised(NEVER), Life(), id="a promise without a time before none"),
        pytest.param(Term.LEAST_ATTAINED, Life(ran=HOUR - 1), Life(ran=HOUR), id="less than a step before one"),
        pytest.param(Term.LEAST_ATTAINED, Life(ran=3 * HOUR), Life(ran=4 * HOUR), id="steps double: 1, 2, 4 hours"),
        pytest.param(Term.SHORTEST, Life(ran=MINUTE), Life(), id="what was done already need not be run again"),
    ],
)
def test_a_term_looks_at_what_happened_before(term, first, second):
    world = World.load(
        Listing(
            queues=(Queue("default"),),
            jobs=(Job(gang("a", run_s=86400), second), Job(gang("z", run_s=86400), first)),
        )
    )
    assert turns(world.view(), by(term)) == ["z", "a"]


def test_inside_a_step_of_attained_service_the_next_term_decides():
    jobs = (Job(gang("a"), Life(ran=2 * HOUR)), Job(gang("b", submitted=1), Life(ran=3 * HOUR)))
    view = World.load(Listing(queues=(Queue("default"),), jobs=jobs)).view()
    assert turns(view, by(Term.LEAST_ATTAINED, Term.AGE)) == ["a", "b"]


def test_sizes_are_counted_in_the_resource_the_policy_names():
    view = submit(drawn("8", cpu=64), gang("a", 4, gpu=1), gang("z", 1, gpu=3)).view()
    assert turns(view, by(Term.SMALLEST, measure="gpu")) == ["z", "a"]
    assert turns(view, by(Term.SMALLEST, Term.AGE, measure="cpu")) == ["a", "z"], "neither asks for any"


def test_terms_decide_one_after_the_other_and_the_name_last():
    gangs = [
        gang("c", priority=1, submitted=5),
        gang("b", priority=1, submitted=5),
        gang("a", priority=1, submitted=9),
        gang("z", priority=2, submitted=99),
    ]
    view = submit(drawn("8"), *gangs).view()
    assert turns(view, by(Term.PRIORITY, Term.AGE)) == ["z", "b", "c", "a"]


def test_gangs_on_hold_are_left_out():
    world = submit(drawn("8"), gang("a"), gang("b"))
    world.apply(ev.Held(1, "a"))
    assert turns(world.view(), by(Term.AGE)) == ["b"]
    assert position(world.view(), NOW, by(Term.AGE), "a") == (0, 0)


# -- queues in turn


def test_queues_take_turns_as_what_was_taken_changes_their_shares():
    world = drawn("6", Queue("a", weight=2), Queue("b"))
    view = submit(world, *(gang(f"{q}{i}", queue=q) for q in "ab" for i in range(4))).view()
    policy = by(Term.AGE, fair_share=True)
    shares = Shares(view, NOW, policy)
    order = []
    for slot in Turns(view, NOW, policy, shares):
        each = view.held(slot).gang
        order.append(each.name)
        shares.take(each.queue, each.user, [1], [1])
    assert order == ["a0", "b0", "a1", "a2", "b1", "a3", "b2", "b3"]


def test_while_nothing_is_taken_it_stays_the_turn_of_the_same_queue():
    view = submit(
        drawn("8", Queue("a"), Queue("b")), *(gang(f"{q}{i}", queue=q) for q in "ba" for i in range(2))
    ).view()
    assert turns(view, by(Term.AGE, fair_share=True)) == ["a0", "a1", "b0", "b1"]


def test_without_fair_share_all_stand_in_one_line():
    world = drawn("8", Queue("a"), Queue("b"))
    view = submit(world, *(gang(f"{q}{i}", queue=q, submitted=i) for q in "ab" for i in range(2))).view()
    assert turns(view, by(Term.AGE)) == ["a0", "b0", "a1", "b1"]


@pytest.mark.parametrize("fair_share", [True, False])
def test_every_waiting_gang_comes_even_from_a_queue_that_does_not_exist(fair_share):
    view = submit(drawn("8", Queue("z")), gang("lost", queue="nowhere"), gang("a", queue="z", submitted=5)).view()
    found = turns(view, by(Term.AGE, fair_share=fair_share))
    assert found == (["a", "lost"] if fair_share else ["lost", "a"])


def test_a_gang_knows_its_place_in_its_queue():
    world = drawn("8", Queue("a"), Queue("b"))
    view = submit(world, *(gang(f"{q}{i}", queue=q, submitted=i) for q in "ab" for i in range(3))).view()
    assert position(view, NOW, by(Term.AGE, fair_share=True), "b1") == (2, 3)
    assert position(view, NOW, by(Term.AGE), "b1") == (4, 6)
    assert position(view, NOW, by(Term.AGE), "nobody") == (0, 0)


def test_any_gangs_can_be_put_in_line():
    view = submit(drawn("8"), gang("a", run_s=9), gang("b", run_s=5), gang("c", run_s=7)).view()
    found = in_line(view, [2, 0], NOW, by(Term.SHORTEST))
    assert [view.held(slot).gang.name for slot in found] == ["c", "a"]


# -- behind the promises


def started(world, policy):
    return [action.gang for action in decide(world.view(), SECOND, policy).actions if isinstance(action, Start)]


def behind(*gangs, queues=()):
    """A gang that fills the node until 100 s but for two devices, one that is promised all of it, and others."""
    world = drawn("8", *queues)
    seat(world, gang("runs", gpu=6, run_s=100, priority=9), "n0")
    return submit(world, gang("head", gpu=8, run_s=50, submitted=1, priority=9), *gangs)


def test_behind_the_promises_the_shortest_goes_first_unless_another_is_more_urgent():
    ask = {"gpu": 2, "submitted": 2}
    world = behind(gang("long", run_s=80, **ask), gang("short", run_s=20, **ask))
    assert started(world, Policy()) == ["short"]
    world = behind(gang("long", run_s=80, priority=1, **ask), gang("short", run_s=20, **ask))
    assert started(world, Policy()) == ["long"]


def test_behind_the_promises_queues_take_turns_as_ever():
    queues = Queue("default"), Queue("rich"), Queue("poor")
    ask = {"gpu": 1, "submitted": 2}
    short = [gang(f"short{i}", run_s=20 + i, queue="rich", **ask) for i in range(3)]
    world = behind(*short, gang("long", run_s=80, queue="poor", **ask), queues=queues)
    assert sorted(started(world, Policy())) == ["long", "short0"]


def test_where_several_have_a_promise_these_go_to_the_first_in_line():
    ask = {"gpu": 8, "submitted": 2}
    world = behind(gang("long", run_s=80, **ask), gang("short", run_s=20, submitted=3, gpu=8))
    policy = Policy(order=Order(terms=(Term.AGE,)), reserve=Reservation(depth=2))
    given = [action.gang for action in decide(world.view(), SECOND, policy).actions if isinstance(action, Reserve)]
    assert given == ["head", "long"]


# -- time alone


@pytest.mark.parametrize(
    ("policy", "queues", "expected"),
    [
        pytest.param(by(Term.PRIORITY, Term.SLACK, Term.AGE), "aa", NEVER, id="terms that never change"),
        pytest.param(by(Term.DOWNTIME), "aa", NOW + MINUTE, id="a term that changes with waiting"),
        pytest.param(by(Term.DOWNTIME), "a", NEVER, id="nobody to pass"),
        pytest.param(by(Term.AGE, fair_share=True), "aa", NEVER, id="one queue"),
        pytest.param(by(Term.AGE, fair_share=True, half_life=1024 * HOUR), "ab", NOW + HOUR, id="two queues"),
        pytest.param(by(Term.AGE, half_life=1024 * HOUR), "ab", NEVER, id="two queues in one line"),
    ],
)
def test_the_order_stays_until(policy, queues, expected):
    world = drawn("8", Queue("a"), Queue("b"))
    view = submit(world, *(gang(f"g{i}", queue=queue) for i, queue in enumerate(queues))).view()
    standing = Standing()
    standing.update(view, NOW, policy)
    assert steady_until(view, NOW, policy, standing.lines) == expected


def test_between_two_refreshes_waiting_changes_nothing():
    view = submit(drawn("8"), gang("a", downtime_cost=1), gang("b", downtime_cost=2, submitted=MINUTE)).view()
    policy = by(Term.DOWNTIME)
    assert turns(view, policy, 3 * MINUTE - 1) == ["a", "b"] == turns(view, policy, 2 * MINUTE)
    assert turns(view, policy, 3 * MINUTE) == ["b", "a"]


# -- lines kept between decisions

drawn_gangs = st.builds(
    lambda number, queue, priority, age, run_s, members, cost, deadline: Gang(
        f"g{number}",
        (Role(min=members, shapes=(Shape({"gpu": 1}),)),),
        queue=queue,
        priority=priority,
        submitted=age * MINUTE,
        estimate=Estimate(run_s * SECOND, source=Source.DECLARED) if run_s else Estimate(),
        downtime_cost=cost,
        deadline=deadline * HOUR if deadline else NEVER,
    ),
    st.integers(0, 9),
    st.sampled_from(["a", "b", "nowhere"]),
    st.integers(0, 2),
    st.integers(0, 3),
    st.sampled_from([0, 60, 61, 7200]),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(0, 2),
)
names = st.integers(0, 9).map(lambda number: f"g{number}")
happenings = st.one_of(
    drawn_gangs.map(lambda each: ev.Submitted(0, each)),
    drawn_gangs.map(lambda each: ev.Changed(0, each)),
    names.map(lambda name: ev.Held(0, name)),
    names.map(lambda name: ev.Released(0, name)),
    names.map(lambda name: ev.Ended(0, name)),
    st.builds(
        lambda name, start: ev.Promised(0, name, Promise(start, start + 1, (Seats(),), 0) if start else None),
        names,
        st.integers(0, 3),
    ),
    st.builds(lambda default: ev.QueueSet(0, Queue("a", default_estimate=default * SECOND)), st.integers(0, 9)),
    st.just(ev.QueueGone(0, "a")),
)
term_lists = st.lists(st.sampled_from(Term), min_size=1, max_size=3, unique=True)


@given(term_lists, st.booleans(), st.lists(st.lists(happenings, max_size=6), max_size=6), st.data())
def test_a_line_kept_between_decisions_equals_a_new_one(terms, fair_share, batches, data):
    world = drawn("8 8", Queue("a"), Queue("b", weight=2))
    policy = by(*terms, fair_share=fair_share)
    standing = Standing()
    now = 0
    for batch in batches:
        for event in batch:
            world.apply(event)
        now += data.draw(st.sampled_from([0, SECOND, MINUTE, HOUR]))
        view = world.view()
        assert turns(view, policy, now, standing) == turns(view, policy, now)
        assert standing.lines == _new(view, now, policy).lines


def _new(view, now, policy):
    standing = Standing()
    standing.update(view, now, policy)
    return standing


@given(st.lists(drawn_gangs, unique_by=lambda each: each.name), term_lists, st.booleans(), st.randoms())
def test_the_order_of_arrival_of_the_news_does_not_matter(gangs, terms, fair_share, shuffle):
    policy = by(*terms, fair_share=fair_share)
    orders = []
    for _ in range(2):
        orders.append(turns(submit(drawn("8", Queue("a"), Queue("b")), *gangs).view(), policy))
        shuffle.shuffle(gangs)
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(each.name for each in gangs)


def test_a_standing_serves_another_world_or_policy_as_well_as_a_new_one():
    standing = Standing()
    first = submit(drawn("8"), gang("a", priority=1), gang("b")).view()
    second = submit(drawn("8"), gang("b", priority=1), gang("c", submitted=3), gang("a", submitted=2)).view()
    for view in (first, second, first):
        for policy in (by(Term.PRIORITY), by(Term.AGE)):
            assert turns(view, policy, standing=standing) == turns(view, policy)


def test_a_gang_that_started_and_came_back_stands_in_line_again():
    standing = Standing()
    world = submit(drawn("8"), gang("a", submitted=1), gang("b", submitted=2))
    policy = by(Term.AGE)
    assert turns(world.view(), policy, standing=standing) == ["a", "b"]
    seat(world, gang("c"), "n0")
    assert turns(world.view(), policy, standing=standing) == ["a", "b"]
    world.apply(ev.Evicted(5, "c"))
    assert turns(world.view(), policy, standing=standing) == ["c", "a", "b"]
    slot = world.slots["b"]
    assert standing.place(slot) == (3, 3)


@given(scenes(NONSENSE), term_lists, st.booleans())
def test_every_gang_gets_its_turn_however_little_sense_it_makes(scene, terms, fair_share):
    view = scene.view()
    waiting = {view.held(slot).gang.name for slot in view.queued if view.held(slot).life.state is not State.HELD}
    assert sorted(turns(view, by(*terms, fair_share=fair_share), scene.now)) == sorted(waiting)


# -- arithmetic that is the same on every machine


@given(st.integers(1, 1 << 62))
def test_logarithms_in_whole_numbers(number):
    assert abs(log2(number) / (1 << FRACTION) - log2_float(number)) < 1e-12


@given(st.integers(1, 1 << 40))
def test_logarithms_grow(number):
    assert log2(number) <= log2(number + 1)


def test_constants_of_logarithms():
    with localcontext() as context:
        context.prec = 50
        assert int(Decimal(2).log10() * (1 << FRACTION)) == LOG10_2
        assert int((1 << FRACTION) / Decimal(2).ln()) == PER_LN2
