import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.train.deal import check_batch, deal_fast, deal_ordered, in_step, step_window
from tutti.train.errors import DataChanged


@given(st.integers(0, 100), st.integers(1, 300), st.integers(1, 9), st.integers(0, 40))
def test_the_pieces_of_a_step_are_its_samples_once_each(start, size, world, most):
    deal = deal_fast(start, start + size, world, most)
    seen = [position for pieces in deal.pieces for piece in pieces for position in range(piece.start, piece.stop)]
    assert seen == list(range(start, start + size))
    shares = [deal.share(rank) for rank in range(world)]
    assert max(shares) - min(shares) <= 1
    assert all(piece.size <= most for pieces in deal.pieces for piece in pieces if most)


@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 9), st.integers(1, 32))
def test_logical_ranks_are_cut_the_same_way_for_every_world(size, world, other, logical):
    def pieces(count):
        return [piece for pieces in deal_ordered(0, size, count, logical).pieces for piece in pieces]

    assert pieces(world) == pieces(other)


@given(st.integers(1, 500), st.integers(1, 64))
def test_the_windows_of_an_epoch_cover_it(length, batch):
    cursor, seen = 0, list[int]()
    while cursor < length:
        start, stop = step_window(cursor, length, batch)
        seen += range(start, stop)
        cursor = stop
    assert seen == list(range(length))


@pytest.mark.parametrize(
    ("batch", "length", "world", "says"),
    [
        pytest.param(0, 10, 1, "at least one sample", id="no batch"),
        pytest.param(4, 0, 1, "empty", id="no data"),
        pytest.param(4, 10, 5, "legal sizes are 1 to 4", id="more members than samples"),
    ],
)
def test_what_cannot_be_dealt_is_refused(batch, length, world, says):
    with pytest.raises(DataChanged, match=says):
        check_batch(batch, length, world)


@given(st.integers(0, 100), st.integers(1, 60), st.integers(1, 9), st.integers(0, 7))
def test_ranks_that_compute_together_make_as_many_passes_and_count_each_sample_once(start, size, world, most):
    deal = in_step(deal_fast(start, start + size, world, most))
    assert len({len(pieces) for pieces in deal.pieces}) == 1
    assert all(piece.size for pieces in deal.pieces for piece in pieces), "nobody passes over nothing"
    own = [piece for pieces in deal.pieces for piece in pieces if not piece.is_echo]
    assert [at for piece in own for at in range(piece.start, piece.stop)] == list(range(start, start + size))
    assert sum(deal.share(rank) for rank in range(world)) == size
