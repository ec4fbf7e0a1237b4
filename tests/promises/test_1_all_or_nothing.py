"""Promise 1. A decision never places part of a gang, in any prefix of any plan."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import brief
from tests.promises.outcomes import carry_out, first, lived
from tests.worlds import MEDIUM, scenes
from tutti.engine.check import Rule, check
from tutti.engine.decide import decide
from tutti.engine.estimate import sizes
from tutti.engine.model import Coupling, State
from tutti.engine.policy import Placing


@given(st.one_of(scenes(), lived()))
def test_a_plan_passes_the_check(scene):
    view = scene.view()

    plan = decide(view, scene.now, scene.policy)

    assert check(view, plan, scene.policy) == [], brief(plan, view)


@given(st.one_of(scenes(), lived()))
def test_a_plan_that_may_move_gangs_passes_the_check(scene):
    view = scene.view()
    policy = msgspec.structs.replace(
        scene.policy, place=Placing(migrate=True), grow=msgspec.structs.replace(scene.policy.grow, cool_down=0)
    )

    plan = decide(view, scene.now, policy)

    assert check(view, plan, policy) == [], brief(plan, view)


@given(scenes(MEDIUM))
def test_a_plan_for_a_larger_world_passes_the_check(scene):
    view = scene.view()

    plan = decide(view, scene.now, scene.policy)

    assert check(view, plan, scene.policy) == [], brief(plan, view)


@given(scenes())
def test_wide_gangs_keep_apart_where_they_should(scene):
    view = scene.view()
    policy = msgspec.structs.replace(scene.policy, place=Placing(one_wide_gang_per_node=True))

    plan = decide(view, scene.now, policy)

    assert check(view, plan, policy) == [], brief(plan, view)


@given(scenes(), st.integers(0, 20))
def test_any_prefix_of_a_plan_is_safe(scene, length):
    view = scene.view()
    plan = decide(view, scene.now, scene.policy)

    prefix = first(plan, length)

    found = check(view, prefix, scene.policy)
    # Gangs that the rest of the plan starts have no answer, and nothing is kept yet for those that wait for room.
    assert [broken for broken in found if broken.rule is not Rule.ANSWER] == []


@given(st.one_of(scenes(), lived()))
def test_carried_out_as_far_as_anybody_likes_every_gang_is_whole_or_empty(scene):
    world = scene.world()
    plan = decide(world.view(), scene.now, scene.policy)

    for count in range(len(plan.actions) + 1):
        partial = scene.world()
        carry_out(partial, first(plan, count), scene.now, settle=True)
        for job in filter(None, partial.jobs):
            if job.life.state in (State.STARTING, State.RUNNING) and not job.life.lost:
                assert is_whole(job), (job, brief(plan, world.view()))


def is_whole(job):
    """Whether every role whose members need each other has at least its minimum; spares may have been used up."""
    tight = [
        (role, held)
        for role, held in zip(job.gang.roles, job.life.seats, strict=True)
        if role.coupling is Coupling.GANG and not role.spare_for
    ]
    return all(held.members >= sizes(role, held.shape)[0] for role, held in tight)
