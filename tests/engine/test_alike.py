"""Which gangs are alike? Only those for which the same is true, or what is remembered of one is wrong for another."""

from tests.clusters import drawn, gang
from tutti.engine.cache import Cache
from tutti.engine.model import Coupling


def test_members_that_come_one_by_one_are_not_like_those_of_a_gang():
    """A gang that sits down leaves so many seats less, which cannot be said of who may come with fewer."""
    view, cache = drawn("8").view(), Cache()
    one_by_one, whole = gang("loose", coupling=Coupling.LOOSE), gang("whole")

    assert cache.kin(view, one_by_one).alike != cache.kin(view, whole).alike
    assert cache.kin(view, gang("other")).alike == cache.kin(view, whole).alike
