"""Promise 4. A promise is never delayed by what was backfilled after it, estimates being upper bounds."""

from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, seat, seats, submit
from tests.promises.outcomes import carry_out, lived
from tests.worlds import PLAIN, SMALL, scenes
from tutti.engine import events as ev
from tutti.engine.bounds import Caps
from tutti.engine.decide import decide
from tutti.engine.model import NEVER, SECOND, Estimate, Gang, Role, Shape, Source
from tutti.engine.plan import Plan, Reserve, Resume, Start
from tutti.engine.policy import Break, Policy
from tutti.engine.world import World


def promised(world: World) -> dict[str, int]:
    """When each waiting gang was promised to start."""
    jobs = [world.jobs[slot] for slot in world.queued]
    return {job.gang.name: job.life.promise.start for job in jobs if job and job.life.promise}


def moved_later(before: dict[str, int], plan: Plan) -> list[Reserve]:
    """Promises that a plan breaks."""
    return [
        action
        for action in plan.actions
        if isinstance(action, Reserve)
        and action.gang in before
        and (action.promise is None or action.promise.start > before[action.gang])
    ]


@given(st.one_of(scenes(PLAIN), scenes(SMALL)), st.integers(1, 30))
def test_nothing_moves_a_promise_while_nothing_unexpected_happens(scene, later_s):
    """Time passes, gangs end when they should, new gangs of no higher priority arrive: no promise moves later."""
    world = scene.world()
    carry_out(world, decide(world.view(), scene.now, scene.policy), scene.now, settle=True)
    before = promised(world)
    ends = [int(world.ends[slot, :].max()) for slot in world.seated]
    moment = min([scene.now + later_s * SECOND, *(t for t in before.values()), *(e for e in ends if e > scene.now)])

    for slot in tuple(world.seated):
        job = world.jobs[slot]
        if job and int(world.ends[slot].max()) <= moment:
            world.apply(ev.Ended(moment, job.gang.name))
    filler = Gang("filler", (Role(shapes=(Shape({"gpu": 1}),)),), "qa", priority=-1, submitted=moment)
    world.apply(ev.Submitted(moment, filler))
    world.apply(ev.Estimated(moment, "filler", Estimate(3600 * SECOND, source=Source.DECLARED)))
    plan = decide(world.view(), moment, scene.policy)

    assert [late for late in moved_later(before, plan) if late.why != Break.OVERRUN] == []


@given(lived())
def test_a_promise_that_is_broken_names_what_breaks_it_and_is_counted(scene):
    world = scene.world()
    view, before = world.view(), promised(world)

    # Nobody can keep what nodes that are gone, or gangs that stay longer than they said, have made impossible.
    allowed = {*scene.policy.reserve.breaks, Break.NODE_LOST, Break.OVERRUN}
    for late in moved_later(before, decide(view, scene.now, scene.policy)):
        assert late.why in allowed
        assert late.promise is None or late.promise.broken == view.job(late.gang).life.promise.broken + 1


@given(scenes(PLAIN))
def test_when_the_promised_moment_comes_the_gang_starts(scene):
    """Estimates being exact, and nobody else arriving."""
    world = scene.world()
    now = scene.now
    bounded = Caps(world.queues).limited
    carry_out(world, decide(world.view(), now, scene.policy), now, settle=True)
    for _ in range(12):
        due = min((start for start in promised(world).values() if start < NEVER), default=None)
        if due is None:
            return
        ends_by = {s: expected_end(world, s, scene.policy.reserve.quantile, now) for s in world.seated}
        now = min([due, *(end for end in ends_by.values() if end > now)])
        for slot, end in ends_by.items():
            if end <= now:
                world.apply(ev.Ended(now, world.jobs[slot].gang.name))
        waiting = promised(world)
        plan = decide(world.view(), now, scene.policy)
        started = {action.gang for action in plan.actions if isinstance(action, Start | Resume)}
        # Who had to wait for a turn in its queue may be of higher priority, which is a rule that breaks promises.
        passed = [late for late in moved_later(waiting, plan) if bounded and late.why == Break.HIGHER_PRIORITY]
        due_now = {gang for gang, start in waiting.items() if start <= now}
        assert due_now <= started | {late.gang for late in passed}
        assert moved_later(waiting, plan) == passed
        carry_out(world, plan, now, settle=True)


def test_a_start_that_is_missed_by_seconds_moves_by_seconds_and_nobody_profits():
    """Whoever stands ahead would start much earlier if the promise were forgotten for being seconds off."""
    world = seat(drawn("8 8"), gang("long", 1, 8, run_s=10_000), "n1")
    submit(world, gang("short", 1, 8, run_s=900))
    world.apply(ev.Starting(0, "short", (seats(world, "n0"),)))
    submit(world, gang("narrow", 1, 8, run_s=100_000, submitted=SECOND), at=SECOND)
    carry_out(world, decide(world.view(), SECOND, Policy()), SECOND)
    submit(world, gang("wide", 2, 8, run_s=60, submitted=0), at=2 * SECOND)
    carry_out(world, decide(world.view(), 2 * SECOND, Policy()), 2 * SECOND)
    assert promised(world) == {"narrow": 900 * SECOND, "wide": 100_900 * SECOND}

    world.apply(ev.Running(20 * SECOND, "short"))
    carry_out(world, decide(world.view(), 20 * SECOND, Policy()), 20 * SECOND)

    assert promised(world) == {"narrow": 920 * SECOND, "wide": 100_920 * SECOND}


def expected_end(world: World, slot: int, percent: int, now: int) -> int:
    """When a running gang is expected to end; one that is late has ended now."""
    job = world.jobs[slot]
    end = int(world.ends[slot, 0 if percent <= 50 else 1 if percent <= 90 else 2])
    return max(min(end, job.life.leave_by if job else NEVER), now)
