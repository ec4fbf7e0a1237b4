import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tutti.train.boxes import Box, Holding, plan, share_rows, subtract, whole
from tutti.train.errors import LostState


def rows(count, world):
    edges = [min(count, -(-count // world) * rank) for rank in range(world + 1)]
    return [(a, b) for a, b in itertools.pairwise(edges)]


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 8), st.integers(1, 8))
def test_any_sharding_by_rows_becomes_any_other(count, width, before, after):
    full = torch.arange(count * width).reshape(count, width)
    held = [Holding(f"m{rank}", "w", Box((a, 0), (b - a, width))) for rank, (a, b) in enumerate(rows(count, before))]
    for a, b in rows(count, after):
        want = Box((a, 0), (b - a, width))
        target = torch.full((b - a, width), -1)
        for copy in plan("w", want, held):
            shard = full[whole((count, width)).within(Box((0, 0), (0, 0)))][copy.held.within(whole((count, width)))]
            target[copy.part.within(want)] = shard[copy.part.within(copy.held)]
        assert torch.equal(target, full[a:b])


@given(st.data())
def test_a_box_less_a_part_of_it_is_the_rest_without_overlap(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    box = whole(sizes)
    low = tuple(data.draw(st.integers(0, size - 1)) for size in sizes)
    hole = Box(low, tuple(data.draw(st.integers(1, size - at)) for size, at in zip(sizes, low, strict=True)))
    seen = torch.zeros(sizes, dtype=torch.int)
    for part in [hole, *subtract(box, hole)]:
        seen[part.within(box)] += 1
    assert bool((seen == 1).all())


def test_a_part_that_nobody_has_is_named():
    with pytest.raises(LostState, match="6 elements of 'w'"):
        plan("w", whole((4, 3)), [Holding("m0", "w", Box((0, 0), (2, 3)))])


def test_what_is_at_home_is_not_fetched():
    held = [Holding(name, "w", whole((4,))) for name in ("m0", "m1")]
    assert {copy.source for copy in plan("w", whole((4,)), held, prefer=["m1"])} == {"m1"}


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=6), st.integers(1, 6))
def test_shares_cover_every_row_once(shapes, world):
    named = {f"t{at}": tuple(shape) for at, shape in enumerate(shapes)}
    sizes = {name: 4 * torch.empty(shape).numel() for name, shape in named.items()}
    seen = {name: torch.zeros(shape, dtype=torch.int) for name, shape in named.items()}
    for rank in range(world):
        for name, box in share_rows(named, sizes, rank, world).items():
            seen[name][box.within(whole(named[name]))] += 1
    assert all(bool((count == 1).all()) for count in seen.values())
