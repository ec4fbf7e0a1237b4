"""A promise that loses its time is told once, and keeps what is free."""

import msgspec

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import MINUTE, NEVER, NodeState, Promise, Seats
from tutti.engine.plan import Reserve
from tutti.engine.presets import PRESETS

CONSERVATIVE = PRESETS["conservative"].policy
POLICY = msgspec.structs.replace(
    CONSERVATIVE, reserve=msgspec.structs.replace(CONSERVATIVE.reserve, max_wait=MINUTE, quantile=50)
)


def test_a_promise_that_falls_due_on_a_drained_node_is_moved_to_no_time_once():
    world = seat(drawn("2 2 4"), gang("runs", 1, gpu=2), "n1")
    submit(world, gang("first", 3, gpu=2), gang("second", 1, gpu=4))
    due = 10 * MINUTE
    world.apply(ev.Promised(1, "first", Promise(due, NEVER, (Seats((0, 2), (1, 2)),), 1)))
    world.apply(ev.Promised(1, "second", Promise(NEVER, NEVER, (Seats(),), 1)))
    world.apply(ev.NodeTurned(2, "n0", NodeState.DRAINING))
    view = world.view()
    plan = decide(view, due, POLICY)
    told = [action.promise for action in plan.actions if isinstance(action, Reserve) and action.gang == "first"]
    assert [promise.start for promise in told if promise] == [NEVER]
    assert check(view, plan, POLICY) == []
