"""Rings are as short as any order makes them, segments stay whole, and ranks survive losses."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.model import Listing, Node, Pool, Seats, Segment
from tutti.engine.ranks import cut, distance, grown, hops, lay_out, lose, numbered, refill
from tutti.engine.world import World

PICTURE = """
z1/r1: a b
z1/r2: c d
z2/r3: e f
"""


def drawn(picture, costs=(), levels=("zone", "rack")):
    """A view of the nodes in a picture, and their numbers by name."""
    nodes = [
        Node(name, {"gpu": 8}, place=tuple(place.split("/")))
        for place, names in (line.split(":") for line in picture.strip().splitlines())
        for name in names.split()
    ]
    view = World.load(Listing(pools=(Pool("default", levels, costs),), nodes=tuple(nodes))).view()
    return view, view.node_index


@st.composite
def small_trees(draw, most=7):
    """A view of a few nodes at random places of a random tree, in two pools, at different depths."""
    costs = draw(st.lists(st.integers(0, 9), max_size=4).map(tuple))
    places = draw(st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=1, max_size=most))
    depth = draw(st.sampled_from([1, 2, 3]))
    two_pools = draw(st.booleans())
    nodes = tuple(
        Node(f"n{i}", {"gpu": 8}, pool="p" if two_pools and i % 3 == 0 else "q", place=place[:depth])
        for i, place in enumerate(places)
    )
    pools = (Pool("p", ("zone", "rack", "leaf"), costs), Pool("q", ("zone", "rack", "leaf"), costs[::-1]))
    return World.load(Listing(pools=pools, nodes=nodes)).view()


def link_cost(view, one, other):
    """The distance of two nodes, link by link."""
    if one == other:
        return 0
    here, there = view.nodes[one], view.nodes[other]
    assert here is not None
    assert there is not None
    ends = [(node.pool, *node.place, node.name) for node in (here, there)]
    common = 0
    while ends[0][common] == ends[1][common]:
        common += 1
    return sum(
        1 if depth == 0 else view.topology.cost(path[0], depth - 1)
        for path in ends
        for depth in range(common, len(path))
    )


def shortest_ring(view, nodes):
    """The cost of the best order, by trying all of them."""
    cost = {(one, other): link_cost(view, one, other) for one in nodes for other in nodes}
    first, *rest = nodes
    return min(ring(cost, (first, *order)) for order in permutations(rest))


def ring(cost, nodes):
    return sum(cost[pair] for pair in zip(nodes, [*nodes[1:], nodes[0]], strict=True))


@given(small_trees(), st.randoms(use_true_random=False))
def test_no_order_makes_a_shorter_ring(view, random):
    nodes = list(range(len(view.nodes)))
    random.shuffle(nodes)

    seats = lay_out(view, nodes, [1 + n % 3 for n in nodes])

    assert hops(view, seats) * 100 <= shortest_ring(view, nodes) * 105
    assert sorted(zip(seats.nodes, seats.counts, strict=True)) == sorted((n, 1 + n % 3) for n in nodes)


@given(small_trees(), st.lists(st.integers(0, 6), max_size=12))
def test_the_cost_of_a_ring_is_the_sum_of_its_links(view, order):
    nodes = [node for node in order if node < len(view.nodes)]
    links = [link_cost(view, one, other) for one, other in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True)]

    assert hops(view, Seats(tuple(nodes), (1,) * len(nodes))) == sum(links)
    assert all(distance(view, nodes[0], other) == link_cost(view, nodes[0], other) for other in nodes)


@given(small_trees(), st.data())
def test_segments_stay_in_one_domain_wherever_the_nodes_allow_it(view, data):
    level = data.draw(st.sampled_from(["zone", "rack", "leaf", "node"]))
    size = data.draw(st.integers(1, 4))
    nodes = list(range(len(view.nodes)))
    counts = data.draw(st.lists(st.integers(1, 8), min_size=len(nodes), max_size=len(nodes)))
    column = view.topology.domains(level)
    domain = {n: n if level == "node" else int(column[view.class_kind[view.class_of[n]]]) for n in nodes}
    held = dict.fromkeys(domain.values(), 0)
    for node, count in zip(nodes, counts, strict=True):
        held[domain[node]] += count

    seats = lay_out(view, nodes, counts, Segment(level, size))

    ranks = [domain[node] for node, count in zip(seats.nodes, seats.counts, strict=True) for _ in range(count)]
    broken = [start for start in range(0, len(ranks), size) if len(set(ranks[start : start + size])) > 1]
    if sum(members % size > 0 for members in held.values()) <= 1:
        assert not broken
    assert hops(view, seats) == hops(view, lay_out(view, nodes, counts))


def test_a_hop_costs_every_link_up_to_the_common_domain_and_down():
    view, at = drawn(PICTURE, costs=(100, 10, 1))

    assert distance(view, at["a"], at["a"]) == 0
    assert distance(view, at["a"], at["b"]) == 2
    assert distance(view, at["a"], at["c"]) == 22
    assert distance(view, at["a"], at["e"]) == 222


def test_neighbours_in_the_tree_are_neighbours_in_the_ring():
    view, at = drawn(PICTURE)
    mixed = [at[name] for name in "ebcfad"]

    seats = lay_out(view, mixed, [2] * 6)

    assert seats == Seats(tuple(at[name] for name in "abcdef"), (2,) * 6)


def test_the_domain_with_half_a_segment_goes_last():
    view, at = drawn(PICTURE)

    seats = lay_out(view, [at[name] for name in "abcd"], [1, 2, 2, 2], Segment("rack", 4))

    assert seats.nodes == tuple(at[name] for name in "cdab")


def test_nobody_sits_nowhere():
    view, _ = drawn(PICTURE)

    assert lay_out(view, [], []) == Seats()
    assert hops(view, Seats()) == 0


def test_ten_thousand_nodes_are_laid_out_in_one_sort():
    nodes = tuple(Node(f"n{i}", {"gpu": 8}, place=(f"r{i % 250}",)) for i in range(10_000))
    view = World.load(Listing(pools=(Pool("default", ("rack",)),), nodes=nodes)).view()

    seats = lay_out(view, range(10_000), [8] * 10_000)

    assert hops(view, seats) == 2 * 10_000 + 2 * 250


def test_growing_keeps_old_ranks_and_shrinking_takes_the_last():
    view, at = drawn(PICTURE)
    old = Seats((at["c"], at["d"]), (2, 2), 1)

    more = grown(view, old, [at["b"], at["a"], at["d"]], [2, 2, 1])

    assert more == Seats((at["c"], at["d"], at["a"], at["b"], at["d"]), (2, 2, 2, 2, 1), 1)
    assert cut(more, 4) == old
    assert cut(more, 3) == Seats(old.nodes, (2, 1), 1)
    assert cut(more, 0) == Seats(shape=1)


# -- losses


def ranks_of(seats):
    return [node for node, count in zip(seats.nodes, seats.counts, strict=True) for _ in range(count)]


def test_a_lost_node_comes_back_under_its_old_ranks():
    seats = Seats((10, 11, 12, 13), (2, 2, 2, 2))

    kept, lost, ranks = lose(seats, Seats(), (), {11: 2})
    assert (kept.nodes, lost, ranks) == ((10, 12, 13), Seats((11,), (2,)), (2,))

    assert refill(kept, lost, ranks, [(20, 2)]) == Seats((10, 20, 12, 13), (2, 2, 2, 2))


def test_a_second_loss_does_not_move_the_ranks_of_the_first():
    seats = Seats((10, 11, 12, 13), (2, 2, 2, 2))
    first = lose(seats, Seats(), (), {10: 2})

    kept, lost, ranks = lose(*first, {12: 1})

    assert (lost, ranks) == (Seats((10, 12), (2, 1)), (0, 5))
    assert numbered(kept, lost, ranks) == [(2, 11, 2), (4, 12, 1), (6, 13, 2)]
    assert ranks_of(refill(kept, lost, ranks, [(12, 1), (20, 2)])) == [20, 20, 11, 11, 12, 12, 13, 13]


def test_the_backend_may_say_which_ranks_are_gone():
    kept, lost, ranks = lose(Seats((10, 11), (4, 4)), Seats(), (), {10: 2}, ranks=(0, 2))

    assert (kept, lost, ranks) == (Seats((10, 11), (2, 4)), Seats((10, 10), (1, 1)), (0, 2))
    assert ranks_of(refill(kept, lost, ranks, [(20, 2)])) == [20, 10, 20, 10, 11, 11, 11, 11]


def test_ranks_that_are_named_wrongly_do_not_save_anybody():
    kept, lost, ranks = lose(Seats((10, 11), (4, 4)), Seats(), (), {10: 2}, ranks=(1, 7))

    assert (kept, lost, ranks) == (Seats((10, 11), (2, 4)), Seats((10, 10), (1, 1)), (1, 3))


def test_what_sat_together_sits_together_again():
    kept, lost, ranks = lose(Seats((10, 11, 12), (2, 4, 2)), Seats(), (), {10: 2, 11: 4})

    assert refill(kept, lost, ranks, [(20, 4), (21, 2)]) == Seats((21, 20, 12), (2, 4, 2))


def test_a_new_node_goes_beside_its_neighbours():
    view, at = drawn("z1/r1: a b s\nz1/r2: c d\nz2/r3: e f t")
    old = lay_out(view, [at[name] for name in "abcdef"], [2] * 6)

    kept, lost, ranks = lose(old, Seats(), (), {at["b"]: 2, at["e"]: 2})
    seats = refill(kept, lost, ranks, [(at["t"], 2), (at["s"], 2)], view)

    assert seats.nodes == tuple(at[name] for name in "ascdtf")


def test_too_few_places_are_refused():
    kept, lost, ranks = lose(Seats((1, 2), (2, 2)), Seats(), (), {1: 2})

    with pytest.raises(AssertionError, match="every lost rank needs one place"):
        refill(kept, lost, ranks, [(3, 1)])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=8),
    st.lists(st.dictionaries(st.integers(0, 5), st.integers(1, 5), max_size=3), max_size=3),
    st.lists(st.integers(1, 4), min_size=40, max_size=40),
)
def test_after_any_losses_a_repair_puts_every_rank_back(runs, losses, pieces):
    old = Seats(tuple(node for node, _ in runs), tuple(count for _, count in runs))
    before = ranks_of(old)
    kept, lost, ranks = old, Seats(), tuple[int, ...]()
    for gone in losses:
        kept, lost, ranks = lose(kept, lost, ranks, gone)
        assert kept.members + lost.members == old.members
    alive = {run.rank + i: run.node for run in numbered(kept, lost, ranks) for i in range(run.members)}
    assert all(before[rank] == node for rank, node in alive.items())
    for rank, node, count in zip(ranks, lost.nodes, lost.counts, strict=True):
        assert before[rank : rank + count] == [node] * count

    new: list[tuple[int, int]] = []
    left = lost.members
    while left:
        new.append((100 + len(new), min(pieces[len(new)], left)))
        left -= new[-1][1]
    after = ranks_of(refill(kept, lost, ranks, new))

    assert len(after) == len(before)
    assert all(after[rank] == node for rank, node in alive.items())
    assert sorted(node for node in after if node >= 100) == sorted(node for node, count in new for _ in range(count))
