"""An owner makes a running gang smaller: it gives members back at once, at a legal size, and is not nagged."""

import msgspec
import pytest

from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, Gang, Node, OnLoss, Queue, Resizing, Role, Seats, Shape, SizeRule
from tutti.engine.plan import Shrink, Start
from tutti.engine.policy import Policy
from tutti.engine.resize import ASK_AGAIN
from tutti.engine.world import World

EVEN = Role("worker", 2, 8, 8, (Shape({"gpu": 1}),), rule=SizeRule(multiple=2))
NOW = 60 * SECOND


def running(**about) -> World:
    """A gang of eight on two nodes, whose owner then wants at most five."""
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    for name in ("n0", "n1"):
        world.apply(ev.NodeSeen(0, Node(name, {"gpu": 4})))
    gang = Gang("elastic", (EVEN,), **about)
    world.apply(ev.Submitted(0, gang))
    world.apply(ev.Starting(0, "elastic", (Seats((0, 1), (4, 4)),)))
    world.apply(ev.Running(0, "elastic"))
    smaller = msgspec.structs.replace(EVEN, want=5, max=5)
    world.apply(ev.Changed(NOW, msgspec.structs.replace(gang, roles=(smaller,))))
    return world


def test_it_shrinks_to_the_largest_legal_size_that_is_left():
    view = running(resizing=Resizing.LIVE, sheds=True).view()
    plan = decide(view, NOW, Policy())
    assert check(view, plan, Policy()) == []
    (action,) = plan.actions
    assert isinstance(action, Shrink)
    assert action.seats == (Seats((0,), (4,)),)


def test_what_it_gives_back_is_used_by_the_next():
    world = running(resizing=Resizing.LIVE, sheds=True)
    world.apply(ev.Submitted(NOW, Gang("next", (Role(min=4, shapes=(Shape({"gpu": 1}),)),))))
    (action, *_) = decide(world.view(), NOW, Policy()).actions
    assert isinstance(action, Shrink)
    world.apply(ev.Resized(NOW, "elastic", action.seats))
    (start,) = decide(world.view(), NOW + 1, Policy()).actions
    assert isinstance(start, Start)
    assert (start.gang, start.seats) == ("next", (Seats((1,), (4,)),))


def test_after_a_refusal_it_is_asked_again_only_later():
    world = running(resizing=Resizing.LIVE, sheds=True)
    world.apply(ev.Resized(NOW, "elastic", (Seats((0, 1), (4, 4)),)))
    plan = decide(world.view(), NOW + 1, Policy())
    assert (plan.actions, plan.wake_at) == ((), NOW + ASK_AGAIN)
    (again,) = decide(world.view(), NOW + ASK_AGAIN, Policy()).actions
    assert isinstance(again, Shrink)


@pytest.mark.parametrize("about", [{"resizing": Resizing.LIVE}, {"resizing": Resizing.RESTART, "sheds": True}])
def test_who_was_not_made_smaller_by_its_owner_or_cannot_shrink_keeps_its_members(about):
    assert decide(running(**about).view(), NOW, Policy()).actions == ()


@pytest.mark.parametrize("on_loss", [OnLoss.SHRINK, OnLoss.REPAIR])
def test_who_was_lost_and_was_not_wanted_any_more_is_not_replaced(on_loss):
    world = running(resizing=Resizing.LIVE, sheds=True, on_loss=on_loss)
    world.apply(ev.MemberLost(NOW, "elastic", 0, (1,), (1,)))
    view = world.view()
    plan = decide(view, NOW, Policy())
    assert check(view, plan, Policy()) == []
    (action,) = plan.actions
    assert isinstance(action, Shrink)
    assert action.seats == (Seats((0,), (4,)),)
