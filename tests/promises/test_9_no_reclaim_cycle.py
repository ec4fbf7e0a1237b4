"""Promise 9. What was taken for a gang is not given back to its victim and taken again."""

from hypothesis import given

from tests.promises.outcomes import carry_out
from tests.worlds import Reach, scenes
from tutti.engine.decide import decide
from tutti.engine.plan import Evict, Shrink
from tutti.engine.view import View

CROWDED = Reach(nodes=3, running=5, waiting=6)


def is_lent(view: View, gang: str) -> bool:
    """Whether a gang leaves because its room was lent: whoever it leaves for starts when it was promised to."""
    return any(view.held(slot).life.lent for slot in view.seated if view.held(slot).gang.name == gang)


@given(scenes(CROWDED))
def test_taking_back_comes_to_an_end(scene):
    """With nobody arriving and nobody ending, a gang is interrupted for each other gang at most once."""
    world = scene.world()
    taken: set[tuple[str, str]] = set()
    for _ in range(10):
        plan = decide(world.view(), scene.now, scene.policy)
        if not plan.actions:
            return
        for action in plan.actions:
            if isinstance(action, Evict | Shrink) and action.room_for:
                assert (action.gang, action.room_for) not in taken, "taken twice for the same gang"
                assert (action.room_for, action.gang) not in taken, "taken back from whom it was taken for"
                taken.add((action.gang, action.room_for))
        carry_out(world, plan, scene.now, settle=True)
    raise AssertionError("decisions follow each other without end")


@given(scenes(CROWDED))
def test_whoever_room_was_made_for_gets_it(scene):
    """When all victims are gone at once, the gang they left for starts."""
    world = scene.world()
    plan = decide(world.view(), scene.now, scene.policy)
    view = world.view()
    waiting = {
        action.room_for
        for action in plan.actions
        if isinstance(action, Evict | Shrink) and action.room_for and not is_lent(view, action.gang)
    }

    carry_out(world, plan, scene.now, settle=True)
    after = decide(world.view(), scene.now, scene.policy)

    started = {action.gang for action in after.actions if hasattr(action, "seats")}
    assert waiting <= started, (waiting, dict(after.answers))
