"""What every world shows of its gangs in the same words."""

import pytest

from tests.clusters import gang
from tutti.api.rows import elastic
from tutti.engine.model import Coupling, Resizing


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, ""),
        ({"max": 4}, ""),
        ({"resizing": Resizing.LIVE}, ""),
        ({"max": 4, "resizing": Resizing.LIVE}, "live"),
        ({"max": 4, "resizing": Resizing.RESTART}, "restart"),
        ({"max": 4, "coupling": Coupling.LOOSE}, "loose"),
    ],
)
def test_how_the_size_can_change_is_one_word(fields, word):
    assert elastic(gang("g", 2, **fields)) == word
