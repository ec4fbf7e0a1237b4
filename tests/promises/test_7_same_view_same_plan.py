"""Promise 7. Same view, same plan; cold cache equals warm; with no events the next plan is empty until `wake_at`."""

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.promises.outcomes import carry_out, lived
from tests.worlds import MEDIUM, scenes
from tutti.engine.cache import Cache
from tutti.engine.decide import decide
from tutti.engine.model import NEVER, SECOND
from tutti.engine.plan import Plan
from tutti.engine.world import World

ROOT = Path(__file__).resolve().parents[2]


@given(st.one_of(scenes(), lived()))
def test_the_same_view_gives_the_same_plan(scene):
    assert decide(scene.view(), scene.now, scene.policy) == decide(scene.view(), scene.now, scene.policy)


@given(st.one_of(scenes(), scenes(MEDIUM)), st.lists(st.integers(0, 8), max_size=3))
def test_a_warm_cache_changes_nothing(scene, cuts):
    """A cache that has seen earlier moments of the same world, and other plans, gives the plan a new one gives."""
    cache, world = Cache(), World()
    for index, event in enumerate(scene.events):
        world.apply(event)
        if len(scene.events) - index in cuts:
            decide(world.view(), scene.now, scene.policy, cache)
    view = world.view()
    first = decide(view, scene.now, scene.policy, cache)

    assert first == decide(view, scene.now, scene.policy)
    assert decide(view, scene.now, scene.policy, cache) == first


@given(lived())
def test_a_cache_kept_while_plans_are_carried_out_changes_nothing(scene):
    cache, world = Cache(), scene.world()
    plan = decide(world.view(), scene.now, scene.policy, cache)
    carry_out(world, plan, scene.now, settle=True)
    now = scene.now + SECOND

    assert decide(world.view(), now, scene.policy, cache) == decide(world.view(), now, scene.policy)


def named(plan: Plan, world: World) -> object:
    """The plan with nodes in canonical numbers, so that plans of two worlds compare."""
    number = {old: new for new, old in enumerate(world.line()[1].tolist())}
    moved = []
    for action in plan.actions:
        text = {name: getattr(action, name) for name in action.__struct_fields__ if name != "expects"}
        for name, value in text.items():
            if name == "seats":
                text[name] = canonical(value, number)
            elif name in ("promise", "pledge") and value is not None:
                text[name] = (value, canonical(value.seats, number))[1]
        moved.append((type(action).__name__, text))
    return moved, {name: plan.answers[name].token for name in sorted(plan.answers)}, plan.wake_at


def canonical(seats: object, number: dict[int, int]) -> object:
    """Seats with nodes in canonical numbers."""
    return [([number[node] for node in held.nodes], held.counts, held.shape) for held in seats]  # type: ignore[attr-defined]


@given(st.one_of(scenes(), lived()))
def test_a_listed_world_gets_the_plan_of_the_one_reached_through_events(scene):
    world = scene.world()
    again = World.load(world.listing())

    one = decide(world.view(), scene.now, scene.policy)
    other = decide(again.view(), scene.now, scene.policy)

    assert named(one, world) == named(other, again)


@given(st.one_of(scenes(), lived()), st.booleans())
def test_with_no_events_the_next_plan_is_empty_until_it_wakes(scene, settle):
    world = scene.world()
    now = scene.now
    plan = decide(world.view(), now, scene.policy)
    for _ in range(6):
        if not plan.actions:
            break
        carry_out(world, plan, now, settle)
        plan = decide(world.view(), now, scene.policy)
    assert plan.actions == (), "decisions follow each other without end"

    wake = plan.wake_at
    assert wake > now
    for moment in {now + 1, (now + min(wake, now + 10**12)) // 2, min(wake, NEVER) - 1} - {now}:
        if now < moment < wake:
            assert decide(world.view(), moment, scene.policy).actions == (), f"at {moment}, to be woken at {wake}"


RECORDED = """
import json, sys
from tests.promises.recorded import plans
json.dump(plans(), sys.stdout)
"""


def test_the_hash_seed_changes_nothing():
    told = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", RECORDED], env=env, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))

    assert told[0] == told[1]
    assert any(told[0])
