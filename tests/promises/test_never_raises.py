"""Nothing that anybody submits or reports makes a decision raise, or changes what others get."""

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.clusters import brief, drawn, gang, lasting, submit
from tests.engine.test_world import stories
from tests.worlds import NONSENSE, nonsense, scenes
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import Gang, Queue, Role, Shape, Token
from tutti.engine.policy import Policy, Reservation


@given(scenes(NONSENSE))
def test_gangs_that_make_no_sense_are_answered(scene):
    view = scene.view()

    plan = decide(view, scene.now, scene.policy)

    assert check(view, plan, scene.policy) == []
    assert all(dict(plan.answers).values())


@given(stories)
def test_worlds_after_any_events_are_decided(scene):
    view = scene.view()

    plan = decide(view, scene.now, scene.policy)

    assert set(plan.answers) <= {view.held(slot).gang.name for slot in view.queued}


@given(st.lists(nonsense, min_size=1, max_size=3))
def test_nonsense_changes_nobody_elses_plan(bad):
    """What can never run is put before a good gang, and the good one starts where it would have started."""
    world = drawn("8 8", Queue("qa"))
    for index, each in enumerate(bad):
        world.apply(ev.Submitted(0, msgspec.structs.replace(each, name=f"bad{index}", priority=9)))
    hopeless = decide(world.view(), 0, Policy())
    assume(not hopeless.actions)
    submit(world, gang("good", 2, gpu=8, run_s=60, queue="qa"))

    plan = decide(world.view(), 0, Policy())

    waiting = {plan.answers[name].token for name in plan.answers}
    assert brief(plan, world.view()).startswith("good@n0,n1") or waiting & {Token.NO_CAPACITY, Token.BEHIND_OTHERS}


def test_roles_that_fit_alone_but_not_together_cost_no_endless_search():
    """Each trial marks the moment it would end; those moments are no new chances."""
    roles = (Role("a", min=4, shapes=(Shape({"gpu": 4}),)), Role("b", min=3, shapes=(Shape({"gpu": 4}),)))
    world = submit(drawn("8 2 8"), Gang("both", roles, estimate=lasting(30)))

    plan = decide(world.view(), 0, Policy(reserve=Reservation(depth=-1)))

    assert plan.actions == ()
    assert plan.spent == ()
