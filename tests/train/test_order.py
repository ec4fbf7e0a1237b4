import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tutti.train.order import index_at, indices_at


@given(st.integers(1, 400), st.integers(0, 2**31), st.integers(0, 50))
def test_an_epoch_is_a_permutation(length, seed, epoch):
    assert sorted(index_at(i, length, seed, epoch) for i in range(length)) == list(range(length))


@given(st.integers(1, 10**12), st.integers(0, 2**31), st.integers(0, 50), st.data())
def test_many_positions_at_once_are_what_each_is_alone(length, seed, epoch, data):
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=20))
    together = indices_at(torch.tensor(positions), length, seed, epoch).tolist()
    assert together == [index_at(position, length, seed, epoch) for position in positions]


def test_seed_and_epoch_change_the_order():
    orders = {tuple(index_at(i, 100, seed, epoch) for i in range(100)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_every_index_is_about_equally_likely_at_every_position():
    length, draws = 12, 6000
    counts = [[0] * length for _ in range(length)]
    for seed in range(draws):
        for position in range(length):
            counts[position][index_at(position, length, seed, 0)] += 1
    expected = draws / length
    chi = sum((seen - expected) ** 2 / expected for row in counts for seen in row)
    # 121 degrees of freedom: 200 is passed by chance once in a hundred thousand.
    assert chi < 200


def test_neighbours_do_not_stay_neighbours():
    order = [index_at(i, 10_000, 0, 0) for i in range(10_000)]
    kept = sum(abs(a - b) == 1 for a, b in itertools.pairwise(order))
    assert kept < 20


def test_a_position_outside_the_epoch_is_refused():
    with pytest.raises(IndexError, match="outside an epoch of 10"):
        index_at(10, 10, 0, 0)
