"""Why a gang waits, as people and machines read it."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.clusters import drawn, gang, seat, submit
from tests.worlds import NONSENSE, scenes
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.delays import with_delays
from tutti.engine.explain import explain
from tutti.engine.model import MINUTE, SECOND, Gang, Queue, Role, Shape, Token
from tutti.engine.policy import Order, Policy, Reclaim, Reservation
from tutti.engine.remedy import remedies
from tutti.views.plan import plan_lines, reason_lines
from tutti.views.why import SENTENCES, ordinal, sentence, why_json, why_lines

NOW = 2600 * SECOND


def racks():
    """Four racks: one with most room, one with some, one draining, one full; and two gangs that wait."""
    world = drawn("a: 8 8 8 | b: 8 8 8 8 | c: 8d 8d | d: 8 8", Queue("research"))
    seat(world, gang("vision", 2, gpu=8, run_s=5000, queue="research"), "a0 a1")
    seat(world, gang("speech", 1, gpu=8, run_s=9000, queue="research"), "b0")
    seat(world, gang("whole-d", 2, gpu=8, run_s=20000, queue="research"), "d0 d1")
    submit(world, gang("bert", 6, gpu=8, queue="research", submitted=100 * SECOND, run_s=60))
    return submit(world, gang("llama", 4, gpu=8, queue="research", within="rack", submitted=140 * SECOND, run_s=60))


BALANCED = Policy()
FAR = Policy(reserve=Reservation(depth=4))


def said(world, name, policy=BALANCED, **more):
    view = world.view()
    found = explain(view, NOW, policy, name)
    return "\n".join(why_lines(found, remedies(view, NOW, policy, name), **more))


def test_the_whole_page():
    assert said(racks(), "llama") == (
        "llama is waiting: NoDomain                            queue research, 2nd of 2, 41.0 min\n"
        "  4 members are needed in one rack; at most 3 fit (rack b).\n"
        "  racks         b 3 fit   a 1 fit   c unwell   d full   (4 needed)\n"
        "  nodes         11 in all: 5 busy (gpu), 3 with room, 2 draining, 1 with room, but outside (rack)\n"
        "  ahead         bert (6 members) does not hold it up\n"
        "  held by       vision (ends in 40.0 min), speech (ends in 1.8 h), whole-d (ends in 4.8 h)\n"
        "  order         priority 0, no deadline, fair wait over for 39.0 min, age 41.0 min\n"
        "  start         when speech has ended (expected in 1.8 h), if nothing else changes\n"
        '  to start now  workers = 3   or   within = "any"\n'
        "  nothing is wrong with the job; waiting is fine"
    )


def test_a_promise_is_told():
    assert "  promise       it starts in 1.8 h at the latest, if others end as estimated" in said(racks(), "llama", FAR)


def test_a_gang_ahead_says_by_how_much_it_puts_off_the_promise():
    """It holds nothing up now, for nothing is free; but without it the start would be sooner."""
    world = seat(drawn("8"), gang("runs", 1, gpu=8, run_s=5000), "n0")
    submit(world, gang("before", 1, gpu=8, run_s=1200, submitted=100 * SECOND))
    submit(world, gang("after", 1, gpu=8, run_s=1300, submitted=140 * SECOND))
    view = world.view()
    found = explain(view, NOW, FAR, "after")
    assert not found.ahead[0].holds_up
    found = with_delays(view, NOW, FAR, found)
    assert "  ahead         before (1 member) puts its start off by 20.0 min" in why_lines(found)
    assert why_json(found)["ahead"] == [{"gang": "before", "members": 1, "holds_up": False, "puts_off_s": 1200.0}]


def test_a_gang_ahead_that_alone_is_promised_a_time_says_so():
    world = seat(drawn("8"), gang("runs", 1, gpu=8, run_s=5000), "n0")
    submit(world, gang("before", 1, gpu=8, run_s=1200, submitted=100 * SECOND))
    submit(world, gang("after", 1, gpu=8, run_s=1300, submitted=140 * SECOND))
    view, policy = world.view(), Policy(reserve=Reservation(depth=1))
    found = with_delays(view, NOW, policy, explain(view, NOW, policy, "after"))
    assert "  ahead         before (1 member) keeps it from being promised a time" in why_lines(found)


def test_a_gang_ahead_that_changes_nothing_is_said_to_change_nothing():
    view = racks().view()
    found = with_delays(view, NOW, FAR, explain(view, NOW, FAR, "llama"))
    assert "  ahead         bert (6 members) does not hold it up" in why_lines(found)


def test_a_gang_that_is_due_says_since_when():
    world = seat(drawn("8"), gang("runs", 1, gpu=8, run_s=50000), "n0")
    submit(world, gang("short", 1, gpu=8, run_s=60, submitted=NOW - 10 * MINUTE))
    assert "no deadline, fair wait over for 8.0 min, age 10.0 min" in said(world, "short")


def test_the_page_on_reading_it_shows_what_is_printed():
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "read-why.md").read_text()
    view = racks().view()
    assert said(racks(), "llama") in page
    assert "\n".join(reason_lines(decide(view, NOW, BALANCED))) in page


def test_a_forecast_takes_the_place_of_the_start():
    assert "  start         between 14:20 and 15:05 in 9 of 10" in said(
        racks(), "llama", forecast="between 14:20 and 15:05 in 9 of 10"
    )


def test_a_clock_calls_moments_by_their_name():
    assert "vision (ends at 5000)" in said(racks(), "llama", clock=lambda moment: f"at {moment // SECOND}")


def test_a_running_gang_takes_one_line():
    assert said(racks(), "vision") == "vision is running: it runs with 2 members, all it asked for"


def test_limits_are_told_with_their_numbers():
    world = seat(drawn("8 8", Queue("q", limit={"gpu": 10})), gang("runs", 1, gpu=6, run_s=9000, queue="q"), "n0")
    text = said(submit(world, gang("more", 1, gpu=6, queue="q")), "more")
    assert "It would go over a limit: gpu of queue q." in text
    assert "  limit         asks 6, and 6 of 10 are used" in text
    assert "  ask for       q: limit = {gpu = 12}" in text
    assert text.endswith("somebody can be asked")


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (("a", "failed:b", "any:c"), "It comes after a, b (if that fails), c (however that ends)."),
        (("a", "never:b"), "It comes after b, which ended otherwise than it waits for: it can never start."),
    ],
)
def test_what_a_gang_comes_after(after, says):
    assert says in said(submit(drawn("8"), gang("next", 1, gpu=8, after=after)), "next")


def test_roles_are_told_apart():
    roles = (Role("ps", 1, shapes=(Shape({"gpu": 8}),)), Role("worker", 3, shapes=(Shape({"gpu": 8}),)))
    world = submit(seat(drawn("8 8 8 8"), gang("g", 1, gpu=8, run_s=9000), "n0"), Gang("wide", roles))
    assert "  roles         ps 1 of 1, worker 2 of 3" in said(world, "wide")


def test_every_token_has_a_sentence():
    assert set(SENTENCES) == set(Token) - {Token.STARTING}


def test_a_gang_that_waits_for_others_to_leave_names_them():
    world = seat(drawn("8"), gang("low", 1, gpu=8, run_s=50000), "n0")
    submit(world, gang("high", 1, gpu=8, run_s=10, priority=5))
    text = said(world, "high", Policy(reclaim=Reclaim(min_run=0)))
    assert "Room is being made for it: low." in text
    assert "when low has made room" in text


@pytest.mark.parametrize(
    ("number", "word"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (112, "112th")],
)
def test_ordinals(number, word):
    assert ordinal(number) == word


def test_json_says_the_same():
    view = racks().view()
    found = explain(view, NOW, FAR, "llama")
    whole = json.loads(json.dumps(why_json(found, remedies(view, NOW, FAR, "llama"))))
    assert whole["schema"] == "tutti/v1"
    assert (whole["reason"], whole["class"], whole["asked"], whole["placeable"]) == ("NoDomain", "wait", 4, 3)
    assert whole["domains"][0] == {"name": "b", "room": 3, "needed": 4, "nodes": 4, "unwell": 0}
    assert whole["blockers"][0] == {"gang": "vision", "how": "runs", "members": 2, "ends_in_s": 2400.0}
    assert whole["promise"] == {"start_in_s": 6400.0, "broken": 0}
    assert [remedy["short"] for remedy in whole["remedies"]] == ["workers = 3", 'within = "any"', "speech ends"]
    assert sum(count["nodes"] for count in whole["counts"]) == whole["nodes"] == 11
    assert "retry_in_s" not in whole


@settings(max_examples=100)
@given(scenes(NONSENSE))
def test_everything_can_be_told(scene):
    view = scene.view()
    plan = decide(view, scene.now, scene.policy)
    assert plan_lines(view, plan)
    assert reason_lines(plan)
    for name in plan.answers:
        found = explain(view, scene.now, scene.policy, name)
        assert sentence(found)
        assert all(why_lines(found))
        assert json.dumps(why_json(found))


def test_a_plan_is_a_table():
    world = racks()
    world.apply(ev.Held(0, "bert"))
    submit(world, gang("small", 1, gpu=8, run_s=10, queue="research"))
    view = world.view()
    assert plan_lines(view, decide(view, NOW, Policy())) == [
        "start    small  1 member    a2",
        "reserve  llama  in 1.8 h    b0, b1, b2, b3",
        "wait     bert   Held",
        "wait     llama  NoCapacity",
    ]


def test_an_empty_plan_says_so():
    view = drawn("8").view()
    plan = decide(view, NOW, Policy())
    assert plan_lines(view, plan) == ["nothing to do, and nobody waits"]
    assert reason_lines(plan) == ["nobody waits"]


def test_reasons_are_summed():
    view = racks().view()
    policy = Policy(order=Order(strict=True), reserve=Reservation(depth=0))
    assert reason_lines(decide(view, NOW, policy)) == [
        "reason        gangs  first",
        "BehindOthers  1      llama",
        "NodesLost     1      bert",
    ]
