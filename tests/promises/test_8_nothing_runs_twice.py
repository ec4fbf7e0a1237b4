"""Promise 8, the engine's part. Nothing submitted is lost, and nothing runs twice, however plans and events cross."""

from hypothesis import given
from hypothesis import strategies as st

from tests.promises.outcomes import carry_out, lived
from tests.worlds import scenes
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.plan import Evict, Fail, Restart, Resume, Start


@given(st.one_of(scenes(), lived()))
def test_no_plan_makes_a_gang_disappear(scene):
    world = scene.world()
    before = set(world.slots)
    plan = decide(world.view(), scene.now, scene.policy)

    carry_out(world, plan, scene.now)

    gone = before - set(world.slots)
    assert gone <= {action.gang for action in plan.actions if isinstance(action, Fail | Evict | Restart)}


@given(st.one_of(scenes(), lived()))
def test_a_plan_entered_twice_is_entered_once(scene):
    world = scene.world()
    plan = decide(world.view(), scene.now, scene.policy)
    carry_out(world, plan, scene.now)
    listing = world.listing()

    for action in plan.actions:
        if isinstance(action, Start | Resume):
            assert world.apply(ev.Starting(scene.now, action.gang, action.seats, plan.view)).note

    assert world.listing() == listing


@given(st.one_of(scenes(), lived()))
def test_no_gang_is_acted_on_in_two_ways(scene):
    plan = decide(scene.view(), scene.now, scene.policy)

    decisive = [action.gang for action in plan.actions if isinstance(action, Start | Resume | Evict | Fail | Restart)]
    assert len(decisive) == len(set(decisive))
