"""Nodes that carry the same are one class, and the columns say what the loads say, whatever starts and ends."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine import classes as partition
from tutti.engine import holdings
from tutti.engine.classes import Classes, Trait
from tutti.engine.late import Late
from tutti.engine.model import Node

ROOM = (64, 1000)
ASKS = ((1, 0), (2, 30), (0, 7))
NODES = 8

seatings = st.dictionaries(st.integers(0, NODES - 1), st.integers(1, 3), min_size=1)
stories = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), seatings), max_size=25)
"""Who starts in a role on which nodes; whoever is there already ends instead."""


def empty():
    classes = Classes()
    for _ in ROOM:
        classes.add_resource()
    for node in range(NODES):
        kind = node // 6
        classes.place(node, Trait(kind, Node(f"n{node}", {})), (), ROOM)
    return classes


def told(classes, story):
    """Play the story; what the gangs hold at its end."""
    seated: dict[tuple[int, int], dict[int, int]] = {}
    for slot, role, counts in story:
        ask = ASKS[(slot + role) % len(ASKS)]
        before = seated.pop((slot, role), None)
        given_to, sign = (before, -1) if before else (counts, 1)
        classes.shift(tuple(given_to), tuple(given_to.values()), slot, role, sign, ask)
        if not before:
            seated[slot, role] = counts
    return seated


def expected(seated, node):
    """What a node has left, and what each gang holds there."""
    held: dict[int, tuple[int, ...]] = {}
    for (slot, role), counts in seated.items():
        if node in counts:
            ask = ASKS[(slot + role) % len(ASKS)]
            before = held.get(slot, (0, 0))
            held[slot] = tuple(had + counts[node] * amount for had, amount in zip(before, ask, strict=True))
    return [room - sum(amounts[r] for amounts in held.values()) for r, room in enumerate(ROOM)], held


def entries(columns, number):
    """The pairs of a class."""
    rows = (columns.owner == number).nonzero()[0]
    assert len(set(columns.slot[rows].tolist())) == len(rows), "every pair once"
    return {int(columns.slot[row]): tuple(columns.amount[:, row].tolist()) for row in rows}


def check(classes, seated):
    for node in range(NODES):
        number = int(classes.of[node])
        free, held = expected(seated, node)
        load = [(slot, role, counts[node]) for (slot, role), counts in seated.items() if node in counts]
        assert classes.load(node) == tuple(sorted(load))
        assert classes.free[:, number].tolist() == free
        assert entries(classes.holdings, number) == held
    sizes = Counter(classes.of[:NODES].tolist())
    assert {number: int(classes.weight[number]) for number in sizes} == sizes
    assert set(classes.holdings.owner.tolist()) <= {*sizes, holdings.NOBODY}, "nobody holds anything where no node is"
    alike = {(node // 6, classes.load(node)) for node in range(NODES)}
    assert len(sizes) == len(alike), "nodes that are alike are in one class"


@given(stories)
def test_columns_say_what_the_loads_say(story):
    classes = empty()

    check(classes, told(classes, story))


@pytest.mark.parametrize(
    ("where", "limit", "at"),
    [
        pytest.param(partition, "FEW", 1, id="many nodes at once are entered like few"),
        pytest.param(holdings, "MANY", 0, id="closing up rows of nobody loses nothing"),
    ],
)
@given(story=stories)
def test_limits_change_only_the_way(where, limit, at, story):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, limit, at)
        classes = empty()

        check(classes, told(classes, story))


def test_a_node_that_is_named_twice_gets_both():
    classes = empty()

    classes.shift((3, 3, 4), (1, 1, 1), 0, 0, 1, ASKS[0])

    assert [classes.load(node) for node in (3, 4)] == [((0, 0, 2),), ((0, 0, 1),)]


@given(stories)
def test_what_is_entered_late_is_what_would_have_been_entered_at_once(story):
    late, at_once = Late(empty()), empty()
    late.open(0)
    seated: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for slot, role, counts in story:
        ask = ASKS[(slot + role) % len(ASKS)]
        before = seated.pop((slot, role), None)
        nodes, members = before or (tuple(counts), tuple(counts.values()))
        if before and slot % 2:
            # Not the very record it was given with, as after a restart.
            nodes = (*nodes,)
        for each in (late, at_once):
            each.shift(nodes, members, slot, role, -1 if before else 1, ask)
        if not before:
            seated[slot, role] = nodes, members

    assert [late.open(resource) for resource in range(len(ROOM))] == at_once.open()
    settled = late.settled()
    assert [settled.load(node) for node in range(NODES)] == [at_once.load(node) for node in range(NODES)]
    assert settled.free[:, settled.of[:NODES]].tolist() == at_once.free[:, at_once.of[:NODES]].tolist()


def test_what_came_and_went_leaves_no_trace():
    late = Late(empty())
    nodes, members = (1, 2), (1, 1)
    before = late.settled().of.tolist()
    late.shift(nodes, members, 0, 0, 1, ASKS[0])
    late.shift(nodes, members, 0, 0, -1, ASKS[0])
    assert late.settled().of.tolist() == before


def test_where_more_is_taken_than_there_is_what_is_free_is_not_counted_ahead():
    late = Late(empty())
    for slot in range(2):
        late.shift((0,), (40,), slot, 0, 1, (1, 0))
    everywhere = (NODES - 1) * ROOM[0]
    assert late.open(0) == everywhere, "a node that has less than nothing counts as one that has nothing"
    late.shift((0,), (40,), 1, 0, -1, (1, 0))
    assert late.open(0) == everywhere + ROOM[0] - 40
