"""Water-filling against handing out unit by unit: of one amount, and down a tree of queues."""

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, submit
from tutti.engine.divide import divide, parted
from tutti.engine.model import NEVER, Queue
from tutti.engine.policy import Policy
from tutti.engine.quota import Shares


@pytest.mark.parametrize(
    ("amount", "weights", "roofs", "expected"),
    [
        pytest.param(9, [1, 2], [9, 9], [3, 6], id="by weight"),
        pytest.param(10, [1, 1, 1], [9, 9, 9], [4, 3, 3], id="what cannot be divided goes to the first of equals"),
        pytest.param(10, [1, 3], [9, 9], [2, 8], id="the last unit goes where it is least per weight"),
        pytest.param(9, [1, 1, 1], [1, 9, 9], [1, 4, 4], id="what one cannot use goes to the others"),
        pytest.param(9, [5, 1], [2, 3], [2, 3], id="nobody gets more than the roof"),
        pytest.param(9, [0, 1, 0], [9, 4, 9], [3, 4, 2], id="weight 0 gets what is left"),
        pytest.param(0, [1, 1], [9, 9], [0, 0], id="nothing to hand out"),
        pytest.param(-5, [1, 1], [9, 9], [0, 0], id="less than nothing to hand out"),
        pytest.param(5, [], [], [], id="nobody there"),
        pytest.param(1 << 60, [1, 2], [NEVER, NEVER], [(1 << 60) // 3, (1 << 60) // 3 * 2 + 1], id="bytes"),
    ],
)
def test_an_amount_is_divided(amount, weights, roofs, expected):
    assert divide(amount, weights, roofs) == expected


def one_by_one(amount, weights, roofs):
    """The definition, taken literally."""
    given = [0] * len(weights)
    for level in (lambda weight: weight > 0, lambda weight: weight <= 0):
        while sum(given) < amount:
            open_to = [i for i, weight in enumerate(weights) if level(weight) and given[i] < roofs[i]]
            if not open_to:
                break
            given[min(open_to, key=lambda i: (Fraction(given[i] + 1, max(weights[i], 1)), i))] += 1
    return given


parties = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=5)


@given(st.integers(0, 40), parties)
def test_dividing_equals_handing_out_unit_by_unit(amount, parties):
    weights, roofs = [w for w, _ in parties], [r for _, r in parties]
    assert divide(amount, weights, roofs) == one_by_one(amount, weights, roofs)


# -- a tree of queues, with demand written down for each leaf

TREES = {
    "flat": {"a": "", "b": "", "c": ""},
    "two teams": {"x": "", "y": "", "a": "x", "b": "x", "c": "y"},
    "deep": {"x": "", "y": "x", "a": "y", "b": "y", "c": ""},
}
amounts = st.integers(0, 9)


@st.composite
def orchards(draw):
    """A tree of queues with all their numbers, what the leaves want, and how much there is."""
    shape = draw(st.sampled_from(sorted(TREES)))
    queues = {
        name: Queue(
            name,
            parent,
            guarantee={"gpu": draw(amounts)} if draw(st.booleans()) else {},
            limit={"gpu": draw(st.integers(0, 15))} if draw(st.booleans()) else {},
            weight=draw(st.integers(0, 4)),
        )
        for name, parent in TREES[shape].items()
    }
    demand = {name: draw(st.integers(0, 15)) for name in "abc"}
    return queues, demand, draw(st.integers(1, 30))


def deserved(orchard, shuffle=None):
    """What each queue deserves, by the engine."""
    queues, demand, room = orchard
    world = drawn(str(room), *_shuffled(queues.values(), shuffle))
    wishes = [gang(f"{name}{i}", queue=name) for name, most in demand.items() for i in range(most)]
    view = submit(world, *_shuffled(wishes, shuffle)).view()
    shares = Shares(view, 0, Policy())
    return {name: shares.deserved(name)[0] for name in queues}


def _shuffled(things, seed):
    things = list(things)
    if seed is not None:
        Random(seed).shuffle(things)
    return things


def by_hand(orchard):
    """What each queue deserves, by the definition: guarantees first, then the rest by weight, level by level."""
    queues, demand, room = orchard
    below = {name: sorted(q for q in queues if queues[q].parent == name) for name in ["", *queues]}

    def limit(name):
        return queues[name].limit.get("gpu", 10**6) if name else 10**6

    def wants(name):
        return min(sum(map(wants, below[name])) if below[name] else demand[name], limit(name))

    def needs(name):
        own = min(queues[name].guarantee.get("gpu", 0), wants(name))
        return min(max(own, sum(map(needs, below[name]))), wants(name))

    found = {}

    def share_out(name, amount):
        found[name] = amount
        children = below[name]
        sure = one_by_one(amount, list(map(needs, children)), list(map(needs, children)))
        roofs = [wants(child) - first for child, first in zip(children, sure, strict=True)]
        more = one_by_one(amount - sum(sure), [queues[child].weight for child in children], roofs)
        for child, first, second in zip(children, sure, more, strict=True):
            share_out(child, first + second)

    share_out("", room)
    del found[""]
    return found


@given(orchards())
def test_deserved_is_what_the_definition_says(orchard):
    assert deserved(orchard) == by_hand(orchard)


@given(orchards())
def test_nothing_is_handed_out_twice_and_nothing_is_left_while_somebody_can_use_it(orchard):
    queues, demand, room = orchard
    found = deserved(orchard)
    leaves = {name: found[name] for name in demand}
    assert sum(leaves.values()) <= room
    for name in queues:
        assert found[name] <= queues[name].limit.get("gpu", NEVER)
        children = [child for child in queues if queues[child].parent == name]
        assert found[name] == sum(found[child] for child in children) or not children
    if sum(leaves.values()) < room:
        for name, most in demand.items():
            path = [name]
            while queues[path[-1]].parent:
                path.append(queues[path[-1]].parent)
            assert found[name] == most or any(found[q] == queues[q].limit.get("gpu") for q in path)


@given(orchards(), st.sampled_from("abc"), st.sampled_from(["guarantee", "weight", "limit"]), st.integers(1, 5))
def test_more_quota_never_means_to_deserve_less(orchard, name, field, more):
    queues, demand, room = orchard
    queue = queues[name]
    changed = {
        "guarantee": Queue(
            name, queue.parent, {"gpu": queue.guarantee.get("gpu", 0) + more}, queue.limit, {}, queue.weight
        ),
        "weight": Queue(name, queue.parent, queue.guarantee, queue.limit, {}, queue.weight + more),
        "limit": Queue(
            name, queue.parent, queue.guarantee, {"gpu": queue.limit.get("gpu", 10**6) + more}, {}, queue.weight
        ),
    }[field]
    before = deserved(orchard)[name]
    assert deserved(({**queues, name: changed}, demand, room))[name] >= before


@given(orchards())
def test_more_room_never_means_to_deserve_less(orchard):
    queues, demand, room = orchard
    before, after = deserved(orchard), deserved((queues, demand, room + 1))
    assert all(after[name] >= before[name] for name in queues)


@given(orchards(), st.integers(0, 99))
def test_the_order_in_which_things_were_told_does_not_matter(orchard, seed):
    assert deserved(orchard) == deserved(orchard, seed)


def test_guarantees_beyond_what_there_is_are_scaled_down():
    assert parted(10, [12, 6, 2], [1, 1, 1], [20, 20, 20]) == [6, 3, 1]
