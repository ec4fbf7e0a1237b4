"""A few seconds of everything at once; `python -m tests.local.soak 1800` for longer."""

import pytest

from tests.local.meeting import meetings
from tests.local.soak import soak


@pytest.mark.slow
def test_a_few_random_seconds_end_in_order():
    done = soak(6.0, seed=1)
    assert done.number > 5


def test_gangs_that_meet_at_once_meet_at_ports_of_their_own():
    (ports,) = meetings(1, gangs=8)
    assert len(set(ports)) == len(ports) == 8
