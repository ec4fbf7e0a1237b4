"""What-if: a changed view is a view, and the one it was made of stays as it is."""

import pytest

from tests.clusters import brief, drawn, gang, seat, submit
from tutti.engine.decide import decide
from tutti.engine.edit import (
    AddNodes,
    Cancel,
    ChangeGang,
    Hold,
    Release,
    RemoveNodes,
    SetQueue,
    Submit,
    TurnNodes,
    edited,
    nodes_like,
)
from tutti.engine.model import HOUR, NodeState, Queue, Source, State
from tutti.engine.policy import Policy
from tutti.engine.record import recorded
from tutti.errors import Misused, NotFound, Refused, TuttiError


def a_view(picture="a: 8 8 | b: 8 8", **parts):
    world = drawn(picture, Queue("default"), Queue("team", limit={"gpu": 8}), **parts)
    seat(world, gang("runs", 2, 8), "a0 a1")
    return submit(world, gang("waits", 3, 8), gang("small", 1, 8, queue="team")).view()


def told(view):
    return brief(decide(view, 0, Policy()), view)


def test_more_nodes_let_a_gang_start_and_the_view_itself_stays_as_it_is():
    view = a_view()
    before = recorded(view)
    assert "waits:" in told(view)
    more = edited(view, [nodes_like(view, "2x8")])
    assert "waits@" in told(more)
    assert recorded(view) == before


def test_nodes_in_shorthand_are_like_those_already_there():
    view = a_view("z/a: 8+kind=h100 8 | z/b: 8 8", cpu=96)
    new = nodes_like(view, "4x8:h100")
    assert (new.count, new.capacity) == (4, {"gpu": 8, "cpu": 96})
    assert new.tags == ("kind=h100",)
    assert new.place == ("z", "new-1")
    odd = nodes_like(view, "2x4:l40")
    assert (odd.capacity, odd.tags) == ({"gpu": 4, "cpu": 96}, ("kind=l40",))


def test_nodes_can_be_added_twice():
    view = a_view()
    once = edited(view, [nodes_like(view, "2x8")])
    twice = edited(once, [nodes_like(once, "2x8")])
    assert len(twice.node_index) == 8


REMOVALS = [
    pytest.param(RemoveNodes(names=("b0",)), {"a0", "a1", "b1"}, id="by name"),
    pytest.param(RemoveNodes(domain="b"), {"a0", "a1"}, id="by domain"),
    pytest.param(RemoveNodes(domain="default/b"), {"a0", "a1"}, id="by path"),
    pytest.param(RemoveNodes(tag="old"), {"a0", "a1", "b0"}, id="by tag"),
    pytest.param(RemoveNodes(names=("a0",), tag="old"), {"a1", "b0"}, id="by name and by tag"),
]


@pytest.mark.parametrize(("edit", "left"), REMOVALS)
def test_nodes_can_be_taken_away(edit, left):
    view = edited(a_view("a: 8 8 | b: 8 8+old"), [edit])
    assert set(view.node_index) == left


def test_gangs_on_nodes_taken_away_lose_their_members():
    job = edited(a_view(), [RemoveNodes(domain="a")]).job("runs")
    assert job is not None
    assert job.life.state is State.DEGRADED


def test_a_drained_node_takes_nobody():
    view = edited(a_view(), [TurnNodes(("b0", "b1"), NodeState.DRAINING), Cancel("waits")])
    assert "small:" in told(view)


def test_a_queue_can_be_changed():
    view = edited(a_view(), [SetQueue("team", {"limit": {"gpu": 4}, "weight": 5})])
    assert view.queues["team"] == Queue("team", limit={"gpu": 4}, weight=5)
    assert "small:QuotaReached" in told(view)


def test_a_gang_can_be_changed_in_every_way_people_ask_about():
    change = ChangeGang("waits", workers=2, within="rack", priority=7, queue="team", time=HOUR)
    job = edited(a_view(), [change]).job("waits")
    assert job is not None
    asked = job.gang
    assert (asked.roles[0].min, asked.within, asked.priority, asked.queue) == (2, "rack", 7, "team")
    assert (asked.estimate.limit, asked.estimate.source) == (HOUR, Source.DECLARED)


def test_a_smaller_gang_starts():
    assert "waits@b0,b1" in told(edited(a_view(), [Cancel("small"), ChangeGang("waits", workers=2)]))


def test_gangs_can_be_submitted_cancelled_held_and_released():
    view = edited(a_view(), [Submit(gang("new", 1, 8)), Cancel("runs"), Hold("small"), Hold("waits"), Release("waits")])
    states = {job.gang.name: job.life.state.value for job in view.jobs if job is not None}
    assert states == {"new": "waiting", "small": "held", "waits": "waiting"}


WRONG = [
    pytest.param(RemoveNodes(names=("b7",)), NotFound, "no node named 'b7'", id="unknown node"),
    pytest.param(RemoveNodes(domain="c"), NotFound, "no node is in 'c'", id="unknown domain"),
    pytest.param(RemoveNodes(), NotFound, "no node is named at all", id="nothing said"),
    pytest.param(SetQueue("taem", {}), NotFound, "(?s)no queue named 'taem'.*'team'", id="misspelt queue"),
    pytest.param(SetQueue("team", {"wieght": 2}), Misused, "(?s)no 'wieght'.*'weight'", id="misspelt field"),
    pytest.param(SetQueue("team", {"weight": "big"}), Misused, "weight", id="a word for a number"),
    pytest.param(SetQueue("team", {"parent": "x"}), NotFound, "no queue named 'x'", id="unknown parent"),
    pytest.param(ChangeGang("wait", workers=1), NotFound, "(?s)'wait'.*'waits'", id="misspelt gang"),
    pytest.param(ChangeGang("waits", workers=0), Refused, "sound", id="no workers"),
    pytest.param(ChangeGang("waits", within="rakc"), Refused, "rakc", id="unknown level"),
    pytest.param(ChangeGang("waits", queue="nope"), NotFound, "'nope'", id="unknown queue"),
    pytest.param(ChangeGang("waits", time=0), Misused, "time limit", id="no time"),
    pytest.param(Submit(gang("runs")), Refused, "already", id="a name that is taken"),
    pytest.param(Hold("runs"), Refused, "cannot hold", id="a gang that runs"),
    pytest.param(AddNodes(0, {"gpu": 8}), Misused, "at least one", id="no nodes"),
    pytest.param(AddNodes(1, {"gpu": 8}, prefix="a"), Refused, "'a0' already", id="a node that is there"),
]


@pytest.mark.parametrize(("edit", "error", "said"), WRONG)
def test_a_bad_edit_says_what_is_wrong_with_it(edit, error, said):
    with pytest.raises(error, match=said) as caught:
        edited(a_view(), [edit])
    assert isinstance(caught.value, TuttiError)


@pytest.mark.parametrize("text", ["", "8", "8x", "x8", "8x8x8", "-1x8", "8x8:"])
def test_a_bad_shorthand_says_how_to_write_it(text):
    with pytest.raises(Misused, match="8x8"):
        nodes_like(a_view(), text)
