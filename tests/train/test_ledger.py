import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.train.errors import DataChanged
from tutti.train.ledger import Ledger, from_record


@given(st.lists(st.integers(1, 20), min_size=1, max_size=20), st.randoms())
def test_ranges_in_any_order_become_one(sizes, random):
    edges = [sum(sizes[:at]) for at in range(len(sizes) + 1)]
    ranges = list(itertools.pairwise(edges))
    random.shuffle(ranges)
    ledger = Ledger()
    for start, stop in ranges:
        assert not ledger.is_whole(0, edges[-1])
        ledger.add(0, start, stop)
    assert ledger.is_whole(0, edges[-1])
    assert ledger.epochs == {0: [(0, edges[-1])]}
    assert from_record(ledger.to_record()) == ledger


@given(st.sets(st.integers(0, 60), max_size=60), st.integers(0, 60))
def test_what_is_missing_is_what_was_never_added(added, again):
    ledger = Ledger()
    for position in added:
        ledger.add(3, position, position + 1)
    missing = {at for start, stop in ledger.missing(3, 61) for at in range(start, stop)}
    assert missing == set(range(61)) - added
    assert ledger.count(3) == len(added)
    if again in added:
        with pytest.raises(DataChanged, match="committed twice"):
            ledger.add(3, again, again + 1)
