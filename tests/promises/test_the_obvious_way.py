"""The planner decides as the obvious way does: same starts, same promises, on worlds small enough to see through."""

from hypothesis import given

from tests.clusters import brief
from tests.worlds import PLAIN, scenes
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.plan import Plan, Reserve, Resume, Start
from tutti.engine.slow import decide_slow


def placed(plan: Plan) -> list[tuple[object, ...]]:
    """Who starts where, and who is promised what."""
    found: list[tuple[object, ...]] = []
    for action in plan.actions:
        if isinstance(action, Start | Resume):
            found.append((action.gang, action.seats))
        elif isinstance(action, Reserve):
            found.append((action.gang, action.promise))
    return found


@given(scenes(PLAIN))
def test_starts_and_promises_are_those_of_the_obvious_way(scene):
    view = scene.view()

    fast, slow = decide(view, scene.now, scene.policy), decide_slow(view, scene.now, scene.policy)

    assert placed(fast) == placed(slow), f"{brief(fast, view)} / {brief(slow, view)}"


@given(scenes(PLAIN))
def test_the_obvious_way_passes_the_check(scene):
    view = scene.view()

    assert check(view, decide_slow(view, scene.now, scene.policy), scene.policy) == []
