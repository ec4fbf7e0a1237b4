"""Limits, guarantees, reclaim and shares, in drawn worlds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.decay import decayed, remembered, steps_between
from tutti.engine.model import DAY, HOUR, NEVER, Job, Queue, Shape
from tutti.engine.policy import Order, Policy
from tutti.engine.quota import IN_TURN, LEFTOVERS, NOWHERE, UNDER_GUARANTEE, Shares, slice_end
from tutti.engine.view import View

POLICY = Policy()


def named(view: View, name: str) -> Job:
    job = view.job(name)
    assert job is not None
    return job


# -- limits


def team(*queues):
    """Eight cards and a running gang of three in queue `a`, by ann."""
    world = drawn("8", *queues)
    return seat(world, gang("old", 3, queue="a", user="ann"), "n0*3")


@pytest.mark.parametrize(
    ("queues", "ask", "user", "expected"),
    [
        pytest.param([Queue("a")], 99, "ann", None, id="no limit"),
        pytest.param([Queue("a", limit={"gpu": 5})], 2, "ann", None, id="exactly at the limit"),
        pytest.param([Queue("a", limit={"gpu": 5})], 3, "ann", ("gpu", "queue a"), id="one beyond the limit"),
        pytest.param([Queue("a", limit={"gpu": 2})], 0, "ann", None, id="beyond it already, but asks for none of it"),
        pytest.param([Queue("a", limit={"tpu": 0})], 9, "ann", None, id="a limit on something else"),
        pytest.param(
            [Queue("a", user_limit={"gpu": 5})], 3, "ann", ("gpu", "user ann in queue a"), id="a user's limit"
        ),
        pytest.param([Queue("a", user_limit={"gpu": 5})], 3, "bob", None, id="another user has room"),
        pytest.param(
            [Queue("a", "top"), Queue("top", limit={"gpu": 4})], 2, "bob", ("gpu", "queue top"), id="the queue above"
        ),
        pytest.param(
            [Queue("a", "top"), Queue("top", user_limit={"gpu": 4})],
            2,
            "ann",
            ("gpu", "user ann in queue top"),
            id="a user below the queue above",
        ),
        pytest.param(
            [Queue("a", "b"), Queue("b", "a", limit={"gpu": 4})],
            2,
            "bob",
            None,
            id="queues in a circle hang from the root",
        ),
    ],
)
def test_a_limit_blocks(queues, ask, user, expected):
    view = submit(team(*queues), gang("new", ask or 1, queue="a", user=user)).view()
    job = named(view, "new")
    amounts = [ask if name == "gpu" else 0 for name in view.resources]
    assert Shares(view, 0, POLICY).blocked(job, amounts, amounts) == expected


def test_surplus_counts_against_a_limit_but_not_against_a_guarantee():
    world = drawn("8", Queue("a", guarantee={"gpu": 4}, limit={"gpu": 6}))
    seat(world, gang("wide", 2, max=5, queue="a"), "n0*5")
    view = submit(world, gang("new", 2, queue="a")).view()
    shares = Shares(view, 0, POLICY)
    assert shares.under_guarantee("a", [2]), "two of the five are its minimum"
    assert shares.blocked(named(view, "new"), [2], [2]) == ("gpu", "queue a"), "all five are in use"


def test_what_a_plan_takes_counts_at_once_and_can_be_given_back():
    view = submit(team(Queue("a", limit={"gpu": 5})), gang("new", 2, queue="a")).view()
    job = named(view, "new")
    shares = Shares(view, 0, POLICY)
    shares.take("a", "bob", [1], [1])
    assert shares.blocked(job, [2], [2]) == ("gpu", "queue a")
    shares.take("a", "bob", [1], [1], -1)
    assert shares.blocked(job, [2], [2]) is None
    shares.take("a", "bob", [1], [1])
    assert shares.blocked(job, [2], [2]) == ("gpu", "queue a")


@pytest.mark.parametrize(
    ("queues", "ask", "expected"),
    [
        pytest.param([Queue("a"), Queue("b")], 3, None, id="nothing is guaranteed to anybody"),
        pytest.param([Queue("a", guarantee={"gpu": 5})], 3, None, id="only its own queue has a guarantee"),
        pytest.param(
            [Queue("a", guarantee={"gpu": 5}), Queue("b", guarantee={"gpu": 1})], 2, None, id="inside its guarantee"
        ),
        pytest.param(
            [Queue("a", guarantee={"gpu": 5}), Queue("b", guarantee={"gpu": 1})],
            3,
            ("gpu", "the guarantee of queue a"),
            id="it would borrow",
        ),
        pytest.param(
            [Queue("a"), Queue("b", guarantee={"gpu": 1})],
            1,
            ("gpu", "the guarantee of queue a"),
            id="it has no guarantee at all",
        ),
    ],
)
def test_a_gang_that_may_not_be_interrupted_never_borrows(queues, ask, expected):
    view = submit(team(*queues), gang("new", ask, queue="a", preemptible=False)).view()
    assert Shares(view, 0, POLICY).blocked(named(view, "new"), [ask], [ask]) == expected


# -- guarantees and reclaim


@pytest.mark.parametrize(
    ("queues", "ask", "expected"),
    [
        pytest.param([Queue("a", guarantee={"gpu": 5})], 2, True, id="exactly at the guarantee"),
        pytest.param([Queue("a", guarantee={"gpu": 5})], 3, False, id="one beyond"),
        pytest.param([Queue("a")], 1, False, id="no guarantee"),
        pytest.param([Queue("a", guarantee={"tpu": 5})], 1, False, id="a guarantee of something else"),
        pytest.param(
            [Queue("a", "top"), Queue("top", guarantee={"gpu": 4})], 1, True, id="the guarantee of the queue above"
        ),
        pytest.param(
            [Queue("a", "top", guarantee={"gpu": 9}), Queue("top", guarantee={"gpu": 4})],
            2,
            False,
            id="beyond that of the queue above",
        ),
    ],
)
def test_a_gang_is_inside_the_guarantee(queues, ask, expected):
    view = team(*queues).view()
    amounts = [ask if name == "gpu" else 0 for name in view.resources]
    assert Shares(view, 0, POLICY).under_guarantee("a", amounts) is expected


def test_only_named_resources_count_in_a_guarantee():
    view = drawn("8", Queue("a", guarantee={"gpu": 5}), cpu=64).view()
    asked = {"gpu": 5, "cpu": 40}
    assert Shares(view, 0, POLICY).under_guarantee("a", [asked[name] for name in view.resources])


def borrowed():
    """Queue `a` runs on all eight cards; `b` wants four of them back."""
    world = drawn("8", Queue("a"), Queue("b", guarantee={"gpu": 4}))
    for i in range(4):
        seat(world, gang(f"old{i}", 2, queue="a"), "n0*2")
    return submit(world, gang("new", 4, queue="b"))


@pytest.mark.parametrize(
    ("minus", "expected"),
    [
        pytest.param([], True, id="it holds eight and deserves four"),
        pytest.param([2], True, id="six are still too many"),
        pytest.param([4], False, id="four are what it deserves"),
    ],
)
def test_a_queue_holds_more_than_it_deserves(minus, expected):
    assert Shares(borrowed().view(), 0, POLICY).over_deserved("a", minus) is expected


def test_a_queue_that_wants_nothing_leaves_its_guarantee_to_others():
    world = borrowed()
    world.apply(ev.Ended(1, "new"))
    assert not Shares(world.view(), 1, POLICY).over_deserved("a")


def test_only_what_the_claimant_wants_makes_a_queue_give_back():
    world = drawn("8", Queue("a"), Queue("b", guarantee={"gpu": 4}), cpu=8)
    seat(world, gang("old", 8, queue="a"), "n0*8")
    view = submit(world, gang("new", 4, queue="b")).view()
    shares = Shares(view, 0, POLICY)
    assert shares.over_deserved("a", wanted=[int(name == "gpu") for name in view.resources])
    assert not shares.over_deserved("a", wanted=[int(name == "cpu") for name in view.resources])


def test_a_branch_that_holds_too_little_is_not_asked_by_another_branch():
    world = drawn("12", Queue("x", guarantee={"gpu": 8}), Queue("a", "x"), Queue("b", "x"), Queue("y"))
    seat(world, gang("old", 6, queue="a"), "n0*6")
    submit(world, gang("sibling", 8, queue="b"), gang("other", 8, queue="y"))
    shares = Shares(world.view(), 0, POLICY)
    assert shares.deserved("a") == [5]
    assert shares.over_deserved("a", claimant="b"), "its sister may ask"
    assert not shares.over_deserved("a", claimant="y"), "together the sisters hold less than they deserve"


def test_what_a_removed_queue_still_holds_is_deserved_by_nobody_else_wanting_it():
    world = borrowed()
    world.apply(ev.QueueGone(1, "a"))
    submit(world, gang("more", 8, queue="b"))
    assert Shares(world.view(), 1, POLICY).over_deserved("a")


# -- shares


def in_turn(view, now=0, policy=POLICY):
    shares = Shares(view, now, policy)
    return sorted(view.queues, key=shares.share)


def test_the_share_is_use_over_claim_in_the_resource_where_that_is_most():
    world = drawn("8", Queue("a"), Queue("b"), cpu=80)
    seat(world, gang("old", 1, shapes=(Shape({"gpu": 1, "cpu": 30}),), queue="a"), "n0")
    view = submit(
        world, gang("x", 8, queue="a"), gang("y", 8, shapes=(Shape({"gpu": 1, "cpu": 10}),), queue="b")
    ).view()
    # Nobody but `a` and `b` is there: each may claim half of the cards; of the CPUs `b` leaves none beyond its half.
    assert Shares(view, 0, POLICY).share("a") == ((IN_TURN, 30 * 1_000_000 // 40, "a"),)


def test_past_use_counts_as_the_amount_it_is_on_average():
    half_life = POLICY.order.half_life
    world = seat(drawn("8", Queue("a"), Queue("b")), gang("old", 4, queue="a"), "n0*4")
    view = submit(world, gang("x", 8, queue="a"), gang("y", 8, queue="b")).view()
    ((_, share, _),) = Shares(view, 20 * half_life, POLICY).share("a")
    # Four cards held for long weigh as four more: twice the four that it may claim.
    assert abs(share - 2_000_000) < 2_000


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from([1024, 5000, 10**6]))
def test_time_is_forgotten_the_same_in_one_go_or_in_two(begin, middle, until, half_life):
    begin, middle, until = sorted((begin, middle, until))
    whole = remembered(begin, until, half_life)
    first = decayed(remembered(begin, middle, half_life), steps_between(middle, until, half_life))
    assert abs(whole - first - remembered(middle, until, half_life)) <= 3
    assert 0 <= whole <= until - begin


def test_who_used_less_goes_first_and_a_small_wish_is_no_drawback():
    world = drawn("40", Queue("a"), Queue("b"))
    seat(world, gang("small", 10, queue="a"), "n0*10")
    seat(world, gang("large", 20, queue="b"), "n0*20")
    for name in ("small", "large"):
        world.apply(ev.Ended(HOUR, name))
    view = submit(world, gang("one", 1, queue="a"), gang("many", 39, queue="b")).view()
    assert in_turn(view, HOUR) == ["a", "b"]


def test_a_weight_of_two_goes_first_until_it_has_used_twice_as_much():
    world = drawn("12", Queue("a", weight=2), Queue("b"))
    view = submit(world, *(gang(f"{q}{i}", queue=q) for q in "ab" for i in range(12))).view()
    shares = Shares(view, 0, POLICY)
    turns = []
    for _ in range(9):
        first = min("ab", key=shares.share)
        shares.take(first, "", [1], [1])
        turns.append(first)
    assert "".join(turns) == "abaabaaba"[:9]
    assert turns.count("a") == 6


@pytest.mark.parametrize(
    ("queue", "tier"),
    [
        pytest.param("kept", UNDER_GUARANTEE, id="it holds less than it is guaranteed and wants it"),
        pytest.param("calm", IN_TURN, id="it wants nothing of its guarantee"),
        pytest.param("plain", IN_TURN, id="it has no guarantee"),
        pytest.param("last", LEFTOVERS, id="it weighs nothing"),
        pytest.param("gone", NOWHERE, id="it does not exist"),
    ],
)
def test_tiers_of_a_share(queue, tier):
    queues = [
        Queue("kept", guarantee={"gpu": 2}),
        Queue("calm", guarantee={"gpu": 2}),
        Queue("plain"),
        Queue("last", weight=0),
    ]
    view = submit(drawn("8", *queues), gang("x", 2, queue="kept"), gang("y", 2, queue="last")).view()
    assert Shares(view, 0, POLICY).share(queue)[0][0] == tier


def test_shares_are_compared_from_the_top_of_the_tree():
    world = drawn("16", Queue("x"), Queue("y"), Queue("x1", "x"), Queue("x2", "x"), Queue("y1", "y"))
    seat(world, gang("old", 6, queue="x1"), "n0*6")
    seat(world, gang("older", 4, queue="y1"), "n0*4")
    view = submit(world, *(gang(f"w{q}", 8, queue=q) for q in ("x1", "x2", "y1"))).view()
    shares = Shares(view, 0, POLICY)
    assert sorted(["x1", "x2", "y1"], key=shares.share) == ["y1", "x2", "x1"], (
        "x2 holds nothing, but x holds more than y"
    )


def test_gangs_of_an_inner_queue_stand_beside_those_below_it():
    world = drawn("8", Queue("x"), Queue("a", "x"))
    seat(world, gang("own", 2, queue="x"), "n0*2")
    view = submit(world, gang("more", 8, queue="x"), gang("child", 8, queue="a")).view()
    shares = Shares(view, 0, POLICY)
    assert shares.deserved("x") == [8]
    assert shares.deserved("a") == [4]
    assert sorted(["x", "a"], key=shares.share) == ["a", "x"]


def test_a_share_stands_still_between_two_slices():
    world = drawn("8", Queue("a"), Queue("b"))
    seat(world, gang("old", 4, queue="a"), "n0*4")
    view = submit(world, gang("x", 8, queue="a"), gang("y", 8, queue="b")).view()
    now = 3 * DAY
    end = slice_end(now, POLICY.order.half_life)
    at = [Shares(view, moment, POLICY).share("a")[0][1] for moment in (now, end - 1, end)]
    assert at[0] == at[1] < at[2]


def test_without_memory_only_present_use_counts():
    policy = Policy(order=Order(half_life=0))
    world = seat(drawn("8", Queue("a"), Queue("b")), gang("old", 4, queue="a"), "n0*4")
    view = submit(world, gang("x", 8, queue="a"), gang("y", 8, queue="b")).view()
    assert Shares(view, 0, policy).share("a") == Shares(view, DAY, policy).share("a")
    assert slice_end(DAY, 0) == NEVER


held = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=4)
numbers = st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 2))
"""Guarantee, limit and weight of a queue."""


def busy(queues, running, waiting):
    """Twenty cards; queues `a`, `b` below `a`, and `c`; gangs that run and gangs that wait, of so many cards."""
    made = [
        Queue(name, parent, {"gpu": low} if low else {}, {"gpu": high} if high else {}, {}, weight)
        for (name, parent), (low, high, weight) in zip((("a", ""), ("b", "a"), ("c", "")), queues, strict=True)
    ]
    world = drawn("20", *made)
    for number, (queue, many) in enumerate(running):
        seat(world, gang(f"r{number}", many, queue=queue), f"n0*{many}")
    return submit(
        world, *(gang(f"w{number}", many, queue=queue) for number, (queue, many) in enumerate(waiting))
    ).view()


@given(st.tuples(numbers, numbers, numbers), held, held, held)
def test_taking_before_the_first_question_equals_taking_after_it(queues, running, waiting, takes):
    view = busy(queues, running, waiting)
    early, late = (Shares(view, HOUR, POLICY) for _ in range(2))
    names = sorted(view.queues)
    for name in names:
        late.share(name)
    for queue, many in takes:
        early.take(queue, "u", [many], [many])
        late.take(queue, "u", [many], [many])
    assert [early.share(name) for name in names] == [late.share(name) for name in names]
    assert [early.held(name) for name in names] == [late.held(name) for name in names]


@given(st.tuples(numbers, numbers, numbers), held, held)
def test_shares_have_a_definite_order_and_a_claim_is_never_less_than_what_is_deserved(queues, running, waiting):
    view = busy(queues, running, waiting)
    shares = Shares(view, HOUR, POLICY)
    ranked = sorted(shares.share(name) for name in view.queues)
    assert all(one < two for one, two in pairwise(ranked))
    for name in view.queues:
        assert shares.claim(name) >= shares.deserved(name)


@given(st.tuples(numbers, numbers, numbers), held, held)
def test_a_queue_that_wants_more_comes_no_later(queues, running, waiting):
    calm, eager = busy(queues, running, waiting), busy(queues, running, [*waiting, ("c", 15)])
    before, after = (Shares(view, HOUR, POLICY) for view in (calm, eager))
    assert after.claim("c") == before.claim("c")
    assert after.share("c") <= before.share("c"), "wanting more may only show that a guarantee is not met yet"
