"""The planner decides as the obvious way does: same starts, same promises, on worlds small enough to see through."""

from hypothesis import given

from tests.clusters import brief
from tests.promises.outcomes import lived
from tests.worlds import PLAIN, scenes
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.plan import Plan, Reserve, Resume, Start
from tutti.engine.slow import decide_slow
from tutti.engine.view import View


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


def due(view: View, plan: Plan) -> dict[str, object]:
    """When each waiting gang starts once the plan is carried out: now, at a promised moment, or nobody knows."""
    jobs = [view.held(slot) for slot in view.queued]
    found: dict[str, object] = {job.gang.name: job.life.promise.start for job in jobs if job.life.promise}
    for action in plan.actions:
        if isinstance(action, Start | Resume):
            found[action.gang] = "now"
        elif isinstance(action, Reserve):
            found[action.gang] = action.promise.start if action.promise else None
    return found


@given(lived(PLAIN))
def test_who_starts_when_is_as_in_the_obvious_way_also_where_promises_stand(scene):
    view = scene.view()

    fast, slow = decide(view, scene.now, scene.policy), decide_slow(view, scene.now, scene.policy)

    assert due(view, fast) == due(view, slow), f"{brief(fast, view)} / {brief(slow, view)}"


@given(scenes(PLAIN))
def test_the_obvious_way_passes_the_check(scene):
    view = scene.view()

    assert check(view, decide_slow(view, scene.now, scene.policy), scene.policy) == []
