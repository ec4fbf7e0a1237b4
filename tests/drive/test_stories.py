"""Short stories under policies of all kinds: no plan is unsafe, and what is remembered changes none."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang
from tests.drive.toy import Toy
from tests.worlds import policies
from tutti.drive.loop import Driver
from tutti.drive.notice import Notice, Trouble
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import HOUR, MINUTE, SECOND, Coupling, NodeState, Queue, Resizing, State

GANG = {
    "members": st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8]),
    "gpu": st.sampled_from([1, 1, 1, 2, 4]),
    "run_s": st.sampled_from([0, 3, 10, 30, 100, 600]),
    "submitted": st.sampled_from([0, 0, 1, 5, 20, 60]).map(lambda at: at * SECOND),
    "priority": st.sampled_from([0, 0, 1, 2]),
    "parkable": st.booleans(),
    "preemptible": st.sampled_from([True, True, True, False]),
    "coupling": st.sampled_from([Coupling.GANG, Coupling.GANG, Coupling.GANG, Coupling.LOOSE]),
    "queue": st.sampled_from(["qa", "qb"]),
}
submitted = st.lists(
    st.tuples(st.fixed_dictionaries(GANG), st.sampled_from([0, 0, 2]), st.integers(1, 120)), min_size=2, max_size=8
)
graces = st.sampled_from([0, 0, 1, 5, 30])
mishaps = st.lists(
    st.tuples(st.sampled_from(["cancel", "cancel", "lost", "draining"]), st.integers(0, 7), st.integers(1, 120)),
    max_size=3,
)
queues = st.builds(
    Queue,
    name=st.just("qa"),
    guarantee=st.sampled_from([{}, {}, {"gpu": 6}]),
    limit=st.sampled_from([{}, {}, {"gpu": 8}]),
    strict=st.sampled_from([False, False, False, True]),
    slice=st.sampled_from([0, 0, 20 * SECOND]),
)


@given(submitted, mishaps, queues, policies, graces)
def test_no_plan_is_unsafe_and_a_warm_cache_changes_none(gangs, mishaps, queue, policy, grace):
    notices: list[Notice] = []
    policy = msgspec.structs.replace(
        policy, reclaim=msgspec.structs.replace(policy.reclaim, min_run=0, grace=grace * SECOND)
    )

    def decided(view, now, policy, cache=None):
        plan = decide(view, now, policy, cache)
        cold = decide(view, now, policy)
        assert (plan.actions, plan.wake_at) == (cold.actions, cold.wake_at)
        return plan

    driver = Driver(policy, drawn("4 8 8 2", queue, Queue("qb")), decide=decided, tell=notices.append)
    toy = Toy(driver, {f"g{at}": run * SECOND for at, (_, _, run) in enumerate(gangs)}.__getitem__)
    for at, (fields, more, _) in enumerate(gangs):
        resizing = Resizing.LIVE if more else Resizing.NONE
        each = gang(f"g{at}", **fields, max=fields["members"] + more, resizing=resizing)
        toy.at(each.submitted, ev.Submitted(each.submitted, each))
    for what, which, at_s in mishaps:
        toy.at(at_s * SECOND, mishap(what, which, at_s * SECOND))
        if what != "cancel":
            toy.at(at_s * SECOND + MINUTE, ev.NodeTurned(at_s * SECOND + MINUTE, f"n{which % 4}", NodeState.READY))
    toy.play(HOUR // 6)

    assert [each for each in notices if each.trouble in {Trouble.VIOLATION, Trouble.CRASHED}] == []


def mishap(what: str, which: int, at: int) -> ev.AnyEvent:
    """A gang is cancelled, or a node is lost or is to be emptied."""
    if what == "cancel":
        return ev.Ended(at, f"g{which}", State.CANCELLED)
    return ev.NodeTurned(at, f"n{which % 4}", NodeState.LOST if what == "lost" else NodeState.DRAINING)
