"""Promise 3. A gang never computes below its minimum nor at an illegal size; it may hold while it is repaired."""

from hypothesis import given
from hypothesis import strategies as st

from tests.promises.outcomes import carry_out, lived
from tests.worlds import scenes
from tutti.engine.check_seats import legal
from tutti.engine.decide import decide
from tutti.engine.estimate import sizes
from tutti.engine.model import Coupling, State
from tutti.engine.plan import GIVES_SEATS


@given(st.one_of(scenes(), lived()))
def test_every_size_a_plan_gives_is_legal(scene):
    view = scene.view()

    for action in decide(view, scene.now, scene.policy).actions:
        if isinstance(action, GIVES_SEATS):
            job = view.job(action.gang)
            for role, held in zip(job.gang.roles, action.seats, strict=True):
                low, _, high = sizes(role, held.shape)
                if role.coupling is Coupling.GANG and not role.spare_for:
                    assert low <= held.members <= high
                    assert legal(role.rule, held.members)


@given(lived())
def test_a_gang_that_lost_members_does_not_run_until_it_is_mended(scene):
    world = scene.world()

    carry_out(world, decide(world.view(), scene.now, scene.policy), scene.now, settle=True)

    for job in filter(None, world.jobs):
        assert not (job.life.state is State.RUNNING and job.life.lost)
