"""An array whose tasks end early is refilled until every task has had its turn."""

from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import Coupling, Gang, Node, Queue, Role, Seats, Shape
from tutti.engine.plan import Grow
from tutti.engine.policy import Policy
from tutti.engine.world import World


def test_tasks_that_are_done_are_not_counted_twice():
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.NodeSeen(0, Node("n0", {"gpu": 8})))
    role = Role("task", 1, 20, 20, (Shape({"gpu": 1}),), Coupling.LOOSE)
    world.apply(ev.Submitted(0, Gang("array", (role,))))
    world.apply(ev.Starting(0, "array", (Seats((0,), (8,)),)))
    world.apply(ev.Running(0, "array"))
    for round_number, running in enumerate((8, 4)):
        world.apply(ev.MembersDone(1, "array", 0, (0,), (8,)))
        (action,) = decide(world.view(), 2, Policy()).actions
        assert isinstance(action, Grow), round_number
        assert action.seats[0].members == running
        world.apply(ev.Resized(3, "array", action.seats))
