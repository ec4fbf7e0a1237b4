"""The numbers behind a reason: they add up, and they are about the right things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, seat, submit
from tests.promises.outcomes import lived
from tests.worlds import NONSENSE, scenes
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.explain import explain
from tutti.engine.model import NEVER, SECOND, Coupling, Kind, Queue, Resizing, Shape, State, Token, Window
from tutti.engine.policy import Order, Policy, Reservation, Term
from tutti.errors import NotFound


def why(world, name, now=100, **policy):
    return explain(world.view(), now * SECOND, Policy(**policy), name)


def counted(found):
    return {(f"{count.cause} {count.what}").strip(): count.nodes for count in found.counts}


# -- every world


@given(st.one_of(scenes(), lived(), scenes(NONSENSE)))
def test_whoever_waits_is_explained_with_numbers_that_add_up_and_everybody_else_has_a_statement(scene):
    view = scene.view()
    answers = dict(decide(view, scene.now, scene.policy).answers)

    for job in view.jobs:
        if job is not None:
            found = explain(view, scene.now, scene.policy, job.gang.name)
            if job.gang.name in answers:
                adds_up(found, answers[job.gang.name], len(view.by_line))
            else:
                assert found.statement


def adds_up(found, reason, nodes):
    """Hold what is told of a gang that waits against the reason it was given."""
    assert found.token is reason.token
    assert (found.kind, found.wakes) == (reason.kind, reason.wakes)
    assert found.detail.startswith(reason.detail)
    assert sum(count.nodes for count in found.counts) == found.nodes == nodes
    assert 0 <= found.placeable <= found.asked
    assert found.position <= found.in_line
    assert len(found.ahead) == max(found.position - 1, 0)
    assert [b.until for b in found.blockers] == sorted(b.until for b in found.blockers) or found.blockers[0].how in {
        "first",
        "ahead",
    }


# -- single cases


@pytest.mark.parametrize(
    ("picture", "counts"),
    [
        pytest.param("8 8 4", {"room": 2, "small gpu": 1}, id="a node can be too small"),
        pytest.param("8 8d 8q 8x", {"room": 1, "draining": 1, "lost": 1, "quarantined": 1}, id="unwell in three ways"),
        pytest.param("8 8-1 8-8", {"room": 1, "foreign gpu": 2}, id="others use it"),
        pytest.param("8 8+!sick 8", {"room": 2, "taint": 1}, id="a taint nobody tolerates"),
    ],
)
def test_nodes_are_counted_by_what_rules_them_out(picture, counts):
    world = submit(drawn(picture), gang("wide", 4, gpu=8))
    assert counted(why(world, "wide")) == counts


def test_tags_come_before_everything_else():
    world = submit(drawn("8+fast 8d 8x"), gang("g", 2, shapes=(Shape({"gpu": 8}, tags=(("fast",),)),)))
    assert counted(why(world, "g")) == {"room": 1, "tags": 2}


def test_room_that_is_promised_names_the_gang_it_is_kept_for():
    world = seat(drawn("8 8"), gang("runs", 1, gpu=8, run_s=200), "n0")
    submit(world, gang("first", 2, gpu=8, run_s=50), at=1)
    submit(world, gang("late", 1, gpu=8, run_s=500), at=2)

    found = why(world, "late", reserve=Reservation(depth=1))

    assert found.token is Token.RESERVED_AHEAD
    assert counted(found) == {"busy gpu": 1, "promised first": 1}
    assert [(a.gang, a.holds_up) for a in found.ahead] == [("first", True)]
    assert [(b.gang, b.how, b.until // SECOND) for b in found.blockers] == [
        ("runs", "runs", 200),
        ("first", "promised", 250),
    ]
    assert (found.position, found.in_line) == (2, 2)


def test_domains_are_listed_with_their_room():
    world = submit(drawn("a: 8 8 | b: 8 8 8d | c: 8d 8d"), gang("rack", 3, gpu=8, within="rack", run_s=10))
    found = why(world, "rack")
    assert found.level == "rack"
    assert [(d.name, d.room, d.needed, d.nodes, d.unwell) for d in found.domains] == [
        ("a", 2, 3, 2, 0),
        ("b", 2, 3, 3, 1),
        ("c", 0, 3, 2, 2),
    ]
    assert (found.asked, found.placeable) == (3, 2)
    assert counted(found) == {"outside rack": 2, "draining": 3, "room": 2}


def test_a_limit_comes_with_its_numbers():
    world = seat(drawn("8 8", Queue("default", limit={"gpu": 10})), gang("runs", 1, gpu=6, run_s=200), "n0")
    submit(world, gang("more", 1, gpu=6))
    found = why(world, "more")
    quota = found.quota
    assert found.kind is Kind.ASK
    assert (quota.resource, quota.whose, quota.asked, quota.used, quota.limit) == ("gpu", "queue default", 6, 6, 10)


def test_the_score_shows_every_term_of_the_order():
    world = seat(drawn("8"), gang("runs", 1, gpu=8, run_s=2000), "n0")
    submit(world, gang("g", 1, gpu=8, priority=3, run_s=60, submitted=40 * SECOND, deadline=500 * SECOND))
    found = why(world, "g", order=Order(terms=(Term.PRIORITY, Term.SLACK, Term.AGE)))
    assert [(part.term, part.value) for part in found.score] == [
        (Term.PRIORITY, 3),
        (Term.SLACK, 340 * SECOND),
        (Term.AGE, 60 * SECOND),
    ]


def test_a_window_is_named():
    world = submit(drawn("8"), gang("g", 1, gpu=8, run_s=100))
    world.apply(ev.WindowSet(0, Window("upkeep", 150 * SECOND, 300 * SECOND, ("n0",))))
    assert counted(why(world, "g")) == {"window upkeep": 1}


def test_what_it_must_come_after_is_a_blocker():
    world = seat(drawn("8"), gang("runs", 1, run_s=200), "n0")
    submit(world, gang("next", 1, after=("runs",)))
    found = why(world, "next")
    assert found.token is Token.DEPENDENCY_WAIT
    assert [(b.gang, b.until // SECOND) for b in found.blockers] == [("runs", 200)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({}, "it runs with 2 members, all it asked for", id="as large as it gets"),
        pytest.param({"max": 4}, "it cannot change its size", id="rigid"),
        pytest.param({"max": 4, "resizing": Resizing.LIVE}, "it grows when there is room", id="elastic"),
        pytest.param({"max": 4, "coupling": Coupling.LOOSE}, "the others start one by one", id="loose"),
    ],
)
def test_a_running_gang_has_a_short_statement(fields, said):
    world = seat(drawn("2"), gang("g", 2, run_s=500, **fields), "n0*2")
    found = why(world, "g")
    assert said in found.statement
    assert found.token is None


def test_a_broken_gang_says_what_it_lost():
    world = seat(drawn("2 2"), gang("g", 2, gpu=2, run_s=500), "n0 n1")
    world.apply(ev.MemberLost(1, "g", 0, (1,), (1,)))
    assert why(world, "g").statement == "it runs with 1 member; 1 lost and to be replaced"


def test_a_gang_that_starts_says_so():
    found = why(submit(drawn("2"), gang("g", 2)), "g")
    assert (found.token, found.state) == (Token.STARTING, State.WAITING)
    assert found.promise is None
    assert found.retry_at == NEVER


def test_an_unknown_name_is_an_error_with_the_nearest_one():
    world = submit(drawn("2"), gang("llama-70b", 2))
    with pytest.raises(NotFound, match="lama-70b") as caught:
        why(world, "lama-70b")
    assert caught.value.hint == "llama-70b"


def test_a_queue_that_does_not_exist_is_answered_with_those_that_do():
    world = submit(drawn("8"), gang("lost", 1, 8, queue="taem"), at=0)
    for name in ("team", "a", "b", "c", "d"):
        world.apply(ev.QueueSet(0, Queue(name)))
    found = explain(world.view(), 0, Policy(), "lost")
    assert found.token is Token.QUEUE_CLOSED
    assert found.detail.startswith("there is no queue 'taem'; there are 'team', 'a', 'b', 'c' and ")
