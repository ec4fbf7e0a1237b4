"""Sets of nodes, and which of them a gang is given, beside doing it node by node."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tutti.engine.bits import first, gathered, named
from tutti.engine.floor import Floor, Held, beside, chosen, held, lift, promised, room_beside, seats_in
from tutti.engine.horizon import earliest
from tutti.engine.model import Seats

EACH = 8
amounts = st.integers(1, EACH)
members = st.integers(1, 40)
machines = st.lists(st.integers(0, EACH), min_size=1, max_size=30)
"""What is free on each node."""
pairs = st.lists(st.tuples(st.integers(0, EACH), st.integers(0, EACH)), min_size=1, max_size=30)
"""The same now and later."""


def levels(free):
    """By how much is free, the nodes where it is that much."""
    found: dict[int, int] = {}
    for node, amount in enumerate(free):
        found[amount] = found.get(amount, 0) | 1 << node
    return found


def spread(found, nodes):
    """What is free on each node."""
    return [next(free for free, here in found.items() if here >> node & 1) for node in range(nodes)]


def node_by_node(room, free, now, many, amount):
    """Seats by the rule, one node after the other: members on each node."""
    nodes = range(len(room))
    whole = [node for node in nodes if room[node] >= many * amount]
    if whole:
        return {min(whole, key=lambda node: (min(now[node] // amount, many), free[node], node)): many}
    per = [each // amount for each in room]
    ranked = sorted(
        (node for node in nodes if per[node]),
        key=lambda node: (-per[node], min(now[node] // amount, per[node]), free[node] - per[node] * amount, node),
    )
    given_to, rest = {}, many
    for node in ranked:
        if per[node] > rest:
            break
        given_to[node] = per[node]
        rest -= per[node]
    if rest:
        left = [node for node in nodes if node not in given_to and per[node] >= rest]
        given_to[min(left, key=lambda node: (min(now[node] // amount, rest), free[node], node))] = rest
    return given_to


def seated(parts):
    """Members on each node."""
    seats = seats_in(parts)
    assert list(seats.nodes) == sorted(seats.nodes)
    return dict(zip(seats.nodes, seats.counts, strict=True))


@given(machines, members, amounts)
def test_seats_on_a_floor_are_those_of_the_rule(free, many, amount):
    floor = Floor(levels(free), sum(free))
    assert floor.room(amount) == sum(each // amount for each in free)
    assume(floor.room(amount) >= many)

    assert seated(floor.choose(many, amount)) == node_by_node(free, free, [0] * len(free), many, amount)


@given(pairs, members, amounts)
def test_seats_for_later_are_where_less_is_free_now(machine, many, amount):
    now, then = [free for free, _ in machine], [free for _, free in machine]
    assume(sum(each // amount for each in then) >= many)

    found = promised(levels(then), levels(now), many, amount)

    assert seated(found) == node_by_node(then, then, now, many, amount)


@given(pairs, members, amounts)
def test_seats_beside_a_promise_are_free_now_and_then(machine, many, amount):
    now, then = [free for free, _ in machine], [free for _, free in machine]
    both = [min(pair) for pair in machine]
    room = sum(each // amount for each in both)
    assert room_beside(levels(now), levels(then), amount) == room
    assume(room >= many)

    found = chosen(beside(levels(now), levels(then), amount), many, amount)

    assert seated(found) == node_by_node(both, now, [0] * len(both), many, amount)


@given(machines, st.data())
def test_what_is_taken_and_given_back_is_what_is_free(free, data):
    found = levels(free)
    nodes = data.draw(st.sets(st.integers(0, len(free) - 1), min_size=1))
    change = data.draw(st.integers(-EACH, EACH))

    before = lift(found, gathered(sorted(nodes)), change)

    assert spread(found, len(free)) == [each + change * (node in nodes) for node, each in enumerate(free)]
    assert sorted(node for _, some in before for node in named(some)) == sorted(nodes)
    assert all(found.values()), "no level without nodes is kept"


@given(st.sets(st.integers(0, 700), min_size=1), st.data())
def test_nodes_are_named_along_the_line(nodes, data):
    line = tuple(sorted(nodes))
    many = data.draw(st.integers(1, len(line)))

    assert named(gathered(line)) == line
    assert named(first(gathered(line), many)) == line[:many]


@given(machines, st.lists(st.tuples(st.integers(1, 5), st.integers(0, 29)), max_size=12), members, amounts)
def test_the_earliest_start_is_the_first_moment_with_room(free, ends, many, amount):
    gone = sorted(held(at, Seats((node % len(free),), (1,)), 1) for at, node in ends)
    floor = Floor(levels(free), sum(free))
    assume(floor.room(amount) < many)

    found = earliest(gone, floor, many, amount)

    def then(moment):
        return [
            each + sum(one.parts[0][1] >> node & 1 for one in gone if one.end <= moment)
            for node, each in enumerate(free)
        ]

    room = {moment: sum(each // amount for each in then(moment)) for moment in range(1, 6)}
    first_moment = next((moment for moment, most in room.items() if most >= many), None)
    assert (found and found.moment) == first_moment
    if found:
        assert (spread(found.then, len(free)), found.units) == (then(found.moment), sum(then(found.moment)))
    assert spread(floor.levels, len(free)) == free, "the floor itself stays as it is"


def test_what_uneven_seats_take_is_held_by_amount():
    assert held(7, Seats((4, 5, 9), (2, 1, 2)), 3) == Held(7, ((6, 1 << 4 | 1 << 9), (3, 1 << 5)), 15, 3)
