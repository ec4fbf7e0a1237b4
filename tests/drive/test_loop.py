"""The loop: events in, checked actions out."""

import pytest

from tests.clusters import drawn, gang, seats
from tests.drive.first_come import first_come
from tutti.drive.backend import Capabilities, Refused
from tutti.drive.estimates import History
from tutti.drive.loop import PATIENCE, REST, SETTLE, Driver
from tutti.drive.notice import Notice, Trouble
from tutti.engine import events as ev
from tutti.engine.check import Rule, Violation
from tutti.engine.decide import decide
from tutti.engine.model import (
    HOUR,
    MINUTE,
    NEVER,
    SECOND,
    NodeState,
    Pledge,
    Progress,
    Promise,
    Resizing,
    Seats,
    Source,
    State,
)
from tutti.engine.plan import Await, Evict, Fail, Grow, Migrate, Plan, Repair, Reserve, Restart, Shrink, Start
from tutti.engine.policy import Policy


def nothing_wrong(view, plan, policy, now=None):
    return []


def scripted(*plans):
    """A decision that plays back actions, one tuple for each call, and then has nothing to say."""
    left = list(plans)

    def decide(view, now, policy, cache=None):
        return Plan(view.number, now, left.pop(0) if left else ())

    return decide


class Box:
    """A driver over drawn nodes, and what it told."""

    def __init__(self, picture="4 4", decide=first_come, check=nothing_wrong, **parts):
        self.notices: list[Notice] = []
        self.driver = Driver(Policy(), drawn(picture), decide=decide, check=check, tell=self.notices.append, **parts)
        self.world = self.driver.world

    def step(self, *events, now=0):
        return self.driver.step(events, now)

    def life(self, name):
        return self.world.job_in(self.world.slots[name]).life

    def troubles(self):
        return [notice.trouble for notice in self.notices]

    def run(self, each, *where, now=0):
        """A gang that already runs when the test begins."""
        self.world.apply(ev.Submitted(now, each))
        assert not self.world.apply(ev.Starting(now, each.name, tuple(seats(self.world, w) for w in where))).note
        self.world.apply(ev.Running(now, each.name))


def test_a_submitted_gang_is_started_and_holds_its_seats_at_once():
    box = Box()
    [(key, action)] = box.step(ev.Submitted(5, gang("pair", 2, 4)), now=7)
    assert isinstance(action, Start)
    assert key.endswith("/pair/start")
    assert box.life("pair").state is State.STARTING
    assert box.life("pair").started == 7
    assert box.driver.answer("pair") is None


def test_events_of_one_step_are_looked_at_by_one_decision():
    calls = []

    def counting(view, now, policy, cache=None):
        calls.append(now)
        return first_come(view, now, policy)

    box = Box("8", decide=counting)
    out = box.step(*(ev.Submitted(0, gang(f"g{i}")) for i in range(8)))
    assert len(out) == 8
    assert calls == [0]


def test_a_gang_that_waits_has_an_answer_until_it_starts():
    box = Box("4")
    box.step(ev.Submitted(0, gang("a", 1, 4)), ev.Submitted(1, gang("b", 1, 4, submitted=1)), now=1)
    answer = box.driver.answer("b")
    assert answer is not None
    assert answer.token == "NoCapacity"
    assert box.driver.answer("a") is None
    [(_, action)] = box.step(ev.Ended(2, "a"), now=2)
    assert action.gang == "b"
    assert box.driver.answer("b") is None


@pytest.mark.parametrize(
    "flaw",
    [
        pytest.param({"unsupported": "spec.hostIPC"}, id="a field that cannot be honoured"),
        pytest.param({"domain_ask": {"no-such-level": {"gpu": 1}}}, id="a domain that is not there"),
    ],
)
def test_a_gang_whose_flaw_was_mended_starts(flaw):
    box = Box("4", decide=decide)
    assert not box.step(ev.Submitted(0, gang("g", 1, 4, **flaw)))
    [(_, action)] = box.step(ev.Changed(SECOND, gang("g", 1, 4)), now=SECOND)
    assert isinstance(action, Start)


def test_nobody_is_asked_to_decide_when_nobody_waits():
    calls = []

    def counting(view, now, policy, cache=None):
        calls.append(now)
        return first_come(view, now, policy)

    box = Box("8", decide=counting)
    box.step(ev.Submitted(0, gang("a")), ev.Submitted(0, gang("b")))
    calls.clear()
    box.step(ev.Running(1, "a"), ev.Running(1, "b"), now=1)
    box.step(ev.Reported(2, "a", Progress(5, 100)), now=2)
    box.step(ev.Ended(3, "a"), now=3)
    assert calls == []
    box.step(ev.NodeTurned(4, "n0", NodeState.LOST), now=4)
    assert calls == [4]


def test_news_that_only_refines_estimates_is_looked_at_together_after_a_while():
    box = Box("4")
    box.step(ev.Submitted(0, gang("a", 1, 4)), ev.Submitted(0, gang("b", 1, 4)))
    before = box.driver.plan
    box.step(ev.Running(1, "a"), now=1)
    assert box.driver.plan is before
    assert box.driver.wake_at == SETTLE
    box.step(now=SETTLE)
    assert box.driver.plan is not before


def test_who_looks_in_vain_again_and_again_rests_in_between_until_something_happens():
    looks = []

    def impatient(view, now, policy, cache=None):
        looks.append(now)
        return Plan(view.number, now, wake_at=now + 1)

    box = Box("4", decide=impatient)
    box.driver.step([ev.Submitted(0, gang("a", 1))], 0)
    while box.driver.wake_at <= SECOND:
        box.driver.step([], box.driver.wake_at)
    assert len(looks) == PATIENCE + SECOND // REST
    box.driver.step([ev.Submitted(SECOND, gang("b", 1))], SECOND)
    assert box.driver.wake_at == SECOND + 1


def test_an_action_that_breaks_a_promise_is_stopped_told_and_nothing_falls_over():
    def check(view, plan, policy, now=None):
        return [Violation(Rule.ROOM, a.gang, "too little", i) for i, a in enumerate(plan.actions) if a.gang == "bad"]

    box = Box("8", check=check)
    out = box.step(ev.Submitted(0, gang("bad")), ev.Submitted(0, gang("good")))
    assert [action.gang for _, action in out] == ["good"]
    assert box.life("bad").state is State.WAITING
    [notice] = box.notices
    assert (notice.trouble, notice.gang, notice.rule) == (Trouble.VIOLATION, "bad", Rule.ROOM.value)


def test_what_follows_a_stopped_action_is_stopped_with_it():
    box = Box("8")
    box.run(gang("low", 4), "n0*4")
    box.run(gang("other", 2), "n0*2")
    box.world.apply(ev.Submitted(0, gang("high", 4)))
    plan = (Evict("low"), Start("high", after=(0,), seats=(seats(box.world, "n0*4"),)), Evict("other"))
    box.driver._decide = scripted(plan)
    box.driver._check = lambda view, plan, policy, now=None: [Violation(Rule.RECLAIM, "low", "no cause", 0)]
    assert [action.gang for _, action in box.step()] == ["other"]


def test_a_decision_that_fails_is_told_and_tried_again_later():
    def broken(view, now, policy, cache=None):
        raise ZeroDivisionError("by zero")

    box = Box(decide=broken)
    assert box.step(ev.Submitted(0, gang("a"))) == []
    assert box.troubles() == [Trouble.CRASHED]
    assert "ZeroDivisionError" in box.notices[0].sentence
    assert 0 < box.driver.wake_at < NEVER


def test_without_a_working_checker_nothing_is_carried_out():
    def broken(view, plan, policy, now=None):
        raise RuntimeError("no idea")

    box = Box(check=broken)
    assert box.step(ev.Submitted(0, gang("a"))) == []
    assert box.life("a").state is State.WAITING


def test_a_stale_event_changes_nothing_and_is_told():
    box = Box()
    assert box.step(ev.Ended(0, "nobody"), ev.Running(0, "nobody")) == []
    assert box.troubles() == [Trouble.STALE_EVENT] * 2


OUTCOMES = [
    pytest.param(Evict("a", room_for="b", by=9), State.DRAINING, id="evict: it is on its way out"),
    pytest.param(Restart("a"), State.DRAINING, id="restart: it is on its way out"),
    pytest.param(Fail("a"), State.DRAINING, id="fail: it is on its way out"),
]


@pytest.mark.parametrize(("action", "state"), OUTCOMES)
def test_a_gang_told_to_go_leaves_but_keeps_its_seats(action, state):
    box = Box("4", decide=scripted((action,)))
    box.run(gang("a", 2), "n0*2")
    assert len(box.step()) == 1
    assert box.life("a").state is state
    assert box.life("a").seats[0].members == 2


def test_promises_and_pledges_are_entered_at_once_and_withdrawn():
    where = (Seats((0,), (1,)),)
    promise = Promise(50, 90, where, given=0)
    pledge = Pledge(where, ("v",), 0, 60)
    box = Box(
        "4", decide=scripted((Reserve("a", promise=promise), Await("a", pledge=pledge)), (Reserve("a"), Await("a")))
    )
    box.step(ev.Submitted(0, gang("a")))
    assert (box.life("a").promise, box.life("a").pledge) == (promise, pledge)
    box.step(ev.Submitted(1, gang("b")), now=1)
    assert (box.life("a").promise, box.life("a").pledge) == (None, None)


RESIZED = [
    pytest.param(Grow, "n0*4", id="grow"),
    pytest.param(Shrink, "n0*1", id="shrink"),
    pytest.param(Migrate, "n1*2", id="migrate"),
]


@pytest.mark.parametrize(("ask", "where"), RESIZED)
def test_a_gang_asked_to_change_its_seats_has_them_as_target_until_the_backend_answers(ask, where):
    box = Box("4 4")
    box.run(gang("a", 1, want=2, max=4, resizing=Resizing.LIVE), "n0*2")
    wanted = (seats(box.world, where),)
    box.driver._decide = scripted((ask("a", seats=wanted),))
    assert len(box.step()) == 1
    assert (box.life("a").target, box.life("a").seats[0].members) == (wanted, 2)
    assert box.life("a").target_by > 0
    box.step(ev.Resized(3, "a", wanted), now=3)
    assert (box.life("a").target, box.life("a").seats) == ((), wanted)


def test_a_gang_that_must_be_smaller_by_a_moment_has_until_then():
    box = Box("4 4")
    box.run(gang("a", 1, want=2, max=4, resizing=Resizing.LIVE), "n0*2")
    box.driver._decide = scripted((Shrink("a", seats=(seats(box.world, "n0"),), by=77 * SECOND),))
    box.step()
    assert box.life("a").target_by == 77 * SECOND


def test_a_question_that_is_never_answered_may_be_asked_again():
    box = Box("4 4")
    box.run(gang("a", 1, max=4, want=4, resizing=Resizing.LIVE), "n0*4")
    ask = (Shrink("a", seats=(seats(box.world, "n0*2"),)),)
    box.driver._decide = scripted(ask, ask)
    [(first, _)] = box.step()
    late = 20 * MINUTE
    [(second, _)] = box.step(ev.Submitted(late, gang("b")), now=late)
    assert first != second
    assert box.troubles() == [Trouble.OVERDUE]


def test_a_waiting_gang_that_cannot_go_on_ends_at_once_and_is_remembered():
    box = Box("4", decide=scripted((), (Fail("a"), Restart("b"))))
    box.step(ev.Submitted(0, gang("a")), ev.Submitted(0, gang("b")))
    [(_, action)] = box.step(ev.Submitted(1, gang("c", after=("any:a",))), now=1)
    assert action.gang == "a"
    assert box.driver.intake.outcomes.ended == {"a": State.FAILED}
    assert box.troubles() == [Trouble.NOT_ENTERED]


def test_a_start_the_backend_refuses_waits_twice_as_long_each_time():
    box = Box("4")
    [(key, action)] = box.step(ev.Submitted(0, gang("a")))
    now, waits = 0, []
    for _ in range(12):
        assert box.driver.refused(key, action, Refused("node is gone"), now) == []
        waits.append(box.life("a").attempt.not_before - now)
        now = box.driver.wake_at
        [(key, action)] = box.step(now=now)
    assert waits[:3] == [10 * SECOND, 20 * SECOND, 40 * SECOND]
    assert waits[-1] == HOUR
    assert box.troubles() == [Trouble.REFUSED] * 12


@pytest.mark.parametrize("ask", [Grow, Repair])
def test_a_refused_change_is_taken_back_and_not_asked_again_before_its_time(ask):
    box = Box("4 4")
    box.run(gang("a", 2, max=4, resizing=Resizing.LIVE), "n0 n1")
    if ask is Repair:
        box.world.apply(ev.MemberLost(0, "a", 0, (1,), (1,)))
    before = box.life("a").seats
    box.driver._decide = scripted((ask("a", seats=(seats(box.world, "n0*2"),)),))
    [(key, action)] = box.step()
    assert box.driver.refused(key, action, Refused("not now"), 1) == []
    life = box.life("a")
    assert (life.seats, life.target, life.target_by) == (before, before, 1 + 10 * SECOND)
    assert bool(life.lost) == (ask is Repair)


def test_a_refused_eviction_is_sent_again_under_its_key_until_the_gang_is_gone():
    box = Box("4", decide=scripted((Evict("a"),)))
    box.run(gang("a"), "n0")
    [(key, action)] = box.step()
    box.driver.refused(key, action, Refused("cannot reach it"), 1)
    again = box.driver.wake_at
    assert box.step(now=again) == [(key, action)]
    box.driver.refused(key, action, Refused("cannot reach it"), again)
    box.step(ev.Evicted(again + 1, "a"), now=again + 1)
    assert box.step(now=again + HOUR) == []


@pytest.mark.parametrize("order", [Evict("a", room_for="b"), Restart("a"), Fail("a")])
def test_a_gang_that_never_leaves_runs_on(order):
    box = Box("4", decide=scripted((order,)))
    box.run(gang("a"), "n0")
    [(key, action)] = box.step()
    assert box.life("a").state is State.DRAINING
    box.driver.refused(key, action, Refused("nobody would make it again", NEVER), 1)
    life = box.life("a")
    assert (life.state, life.leaving_for, life.leave_by) == (State.RUNNING, "", NEVER)
    assert life.seats
    assert box.step(now=HOUR) == []


def test_who_waits_for_a_gang_that_never_leaves_waits_no_longer():
    box = Box("4", decide=scripted((Evict("a", room_for="b"),)))
    box.run(gang("a"), "n0")
    box.driver.world.apply(ev.Submitted(0, gang("b", 4)))
    box.driver.world.apply(ev.Pledged(0, "b", Pledge((seats(box.driver.world, "n0*4"),), ("a",), 0, HOUR)))
    [(key, action)] = box.step()
    assert box.life("b").pledge is not None
    box.driver.refused(key, action, Refused("nobody would make it again", NEVER), 1)
    assert box.life("b").pledge is None


def test_a_broken_gang_that_never_leaves_is_still_broken():
    box = Box("4", decide=scripted((Restart("a"),)))
    box.run(gang("a", 2), "n0")
    box.driver.world.apply(ev.MemberLost(0, "a", 0, (0,), (1,)))
    [(key, action)] = box.step()
    box.driver.refused(key, action, Refused("nobody would make it again", NEVER), 1)
    assert box.life("a").state is State.DEGRADED
    assert box.life("a").since == 1


def test_keys_are_never_used_twice():
    box = Box("2", epoch="e7/")
    keys = []
    for at in range(20):
        keys += [key for key, _ in box.step(ev.Submitted(at, gang("a", 2)), now=at)]
        box.step(ev.Ended(at, "a"), now=at)
    assert len(keys) == len(set(keys)) == 20
    assert all(key.startswith("e7/") for key in keys)


def test_of_an_older_plan_only_what_still_holds_is_carried_out():
    box = Box("4 4")
    box.world.apply(ev.Submitted(0, gang("a")))
    box.world.apply(ev.Submitted(0, gang("b")))
    box.world.apply(ev.Submitted(0, gang("c")))
    view = box.world.view()
    plan = Plan(
        view.number,
        0,
        (
            Start("a", view.number, seats=(seats(view, "n0"),)),
            Start("b", view.number, seats=(seats(view, "n1"),)),
            Start("c", view.number, seats=(seats(view, "n1"),)),
        ),
    )
    box.world.apply(ev.NodeTurned(1, "n0", NodeState.READY, fault=True))
    box.world.apply(ev.Held(1, "c"))
    assert [action.gang for _, action in box.driver.carry_out(plan, 2)] == ["b"]
    assert box.troubles() == [Trouble.STALE_ACTION] * 2


def test_what_was_decided_for_an_end_is_carried_out_with_it_if_it_is_possible():
    box = Box("1")
    box.world.apply(ev.Submitted(0, gang("a")))
    view = box.world.view()
    box.world.apply(ev.Starting(0, "a", (seats(view, "n0"),), view.number))
    box.world.apply(ev.Submitted(0, gang("b")))
    there = (seats(view, "n0"),)
    assert box.driver.follow(ev.Ended(1, "a"), Start("b", seats=there), 1)
    assert box.world.job_in(box.world.slots["b"]).life.state is State.STARTING
    assert box.driver.wake_at <= 1, "what else the end means is still to be looked at"
    assert not box.driver.follow(ev.Ended(2, "b"), Start("a", seats=there), 2), "it is over"


AFTER = [
    pytest.param("a", State.FINISHED, (), id="it succeeded: nothing to wait for"),
    pytest.param("a", State.FAILED, ("never:a",), id="it failed: can never run"),
    pytest.param("any:a", State.FAILED, (), id="it ended somehow"),
    pytest.param("failed:a", State.FAILED, (), id="it failed, as asked"),
    pytest.param("failed:a", State.FINISHED, ("never:a",), id="it did not fail"),
    pytest.param("z", State.FINISHED, ("z",), id="nobody ever heard of it"),
]


@pytest.mark.parametrize(("entry", "outcome", "left"), AFTER)
def test_dependencies_on_gangs_that_are_over_are_settled_at_submission(entry, outcome, left):
    box = Box("4")
    box.step(ev.Submitted(0, gang("a")))
    box.step(ev.Ended(1, "a", outcome), now=1)
    box.step(ev.Submitted(2, gang("b", after=(entry,))), now=2)
    assert box.world.job_in(box.world.slots["b"]).gang.after == left


def test_only_so_many_outcomes_are_remembered():
    box = Box("4")
    box.driver.intake.outcomes.most = 2
    for name in "abc":
        box.step(ev.Submitted(0, gang(name)), ev.Ended(0, name))
    assert list(box.driver.intake.outcomes.ended) == ["b", "c"]


def test_a_gang_is_never_asked_for_what_the_backend_cannot_do():
    box = Box("4", can=Capabilities(live_resize=False, park=False))
    box.step(ev.Submitted(0, gang("a", resizing=Resizing.LIVE, parkable=True)))
    known = box.world.job_in(box.world.slots["a"]).gang
    assert (known.resizing, known.parkable) == (Resizing.RESTART, False)


def test_gangs_that_wait_get_an_estimate_when_one_like_them_ends():
    box = Box("1", history=History())
    box.step(*(ev.Submitted(0, gang(f"sweep-{i}", user="ann")) for i in range(3)))
    box.step(ev.Running(0, "sweep-0"))
    box.step(ev.Ended(600 * SECOND, "sweep-0"), now=600 * SECOND)
    estimate = box.world.job_in(box.world.slots["sweep-2"]).gang.estimate
    assert (estimate.p50, estimate.source) == (600 * SECOND, Source.HISTORY)


def test_a_plan_that_wants_to_be_asked_again_at_once_waits_a_moment():
    def restless(view, now, policy, cache=None):
        return Plan(view.number, now, wake_at=now)

    box = Box(decide=restless)
    box.step(ev.Submitted(0, gang("a")))
    assert box.driver.wake_at == 1


def test_watchers_see_every_event_in_order():
    seen = []
    box = Box("4", watch=[lambda event, touched: seen.append(type(event).__name__)])
    box.step(ev.Submitted(0, gang("a")))
    assert seen == ["Submitted", "Starting"]


def test_a_full_listing_replaces_the_world_and_keeps_what_only_we_knew():
    box = Box("4 4")
    box.run(gang("a", 4), "n0*4")
    box.world.apply(ev.Submitted(0, gang("b", 8)))
    box.world.apply(ev.Promised(0, "b", Promise(50, 90, (seats(box.world, "n0*4 n1*4"),), given=0)))
    listing = box.world.listing()
    bare = [job for job in listing.jobs if job.gang.name == "a"]
    told = [type(job)(job.gang) for job in listing.jobs if job.gang.name == "b"]
    nodes = tuple(reversed(listing.nodes))
    moved = [type(job)(job.gang, job.life) for job in bare]
    box.driver.resync(type(listing)(at=1, nodes=nodes, queues=listing.queues, jobs=(*moved, *told)), 1)
    world = box.driver.world
    promise = world.job_in(world.slots["b"]).life.promise
    assert promise is not None
    assert promise.seats[0].nodes == (1, 0)
    assert world.version > box.world.version
