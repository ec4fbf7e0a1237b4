"""Promise 5. A gang that can run and has waited `max_wait` gets a promise; limits and gates of queues are kept."""

from hypothesis import given
from hypothesis import strategies as st

from tests.promises.outcomes import lived
from tests.worlds import PLAIN, SMALL, Scene, scenes
from tutti.engine.decide import decide
from tutti.engine.model import Token
from tutti.engine.plan import Await, Plan, Reserve, Resume, Start

CANNOT_RUN = {
    Token.INVALID, Token.NEVER_FITS, Token.UNSUPPORTED, Token.HELD, Token.QUEUE_CLOSED, Token.DEPENDENCY_WAIT,
    Token.WAITING_FOR_MEMBERS, Token.QUOTA_REACHED, Token.BACKING_OFF, Token.BEHIND_OTHERS,
}  # fmt: skip


def waited_out(scene: Scene, view):
    """Names of gangs that have waited longer than they should."""
    for slot in view.queued:
        job = view.held(slot)
        queue = view.queue_of(job)
        most = job.gang.max_wait or (queue.max_wait if queue else 0) or scene.policy.reserve.max_wait
        if most and job.gang.submitted + most <= scene.now:
            yield job


def helped(plan: Plan) -> set[str]:
    """Gangs that a plan starts, promises something, or makes room for."""
    return {action.gang for action in plan.actions if isinstance(action, Start | Resume | Reserve | Await)}


@given(st.one_of(scenes(PLAIN), scenes(SMALL), lived()))
def test_whoever_has_waited_long_enough_has_a_promise(scene):
    view = scene.view()
    plan = decide(view, scene.now, scene.policy)
    done = helped(plan)

    for job in waited_out(scene, view):
        name = job.gang.name
        excused = name in plan.answers and plan.answers[name].token in CANNOT_RUN
        assert excused or name in done or job.life.promise or job.life.pledge, plan.answers[name]
