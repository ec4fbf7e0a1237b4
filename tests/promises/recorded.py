"""A fixed set of worlds, with plenty of ties in them, and what is decided about them."""

from tests.clusters import brief, drawn, gang, lasting, seat, submit
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, Gang, Queue, Role, Shape
from tutti.engine.policy import Policy, Reservation
from tutti.engine.world import World

PICTURES = (
    "8 8 8 8",
    "a: 8 8 | b: 8 8 | c: 4 4+fast",
    "x/a: 8 8 | x/b: 8 8-2 | y/a: 8d 8 | y/b: 8x 8q",
    "4 8 2 1 8 4 2 1",
)
QUEUES = (Queue("qa", weight=2, guarantee={"gpu": 8}), Queue("qb"), Queue("qc", parent="qb", limit={"gpu": 6}))


def worlds() -> list[World]:
    """The worlds, each with gangs that run and gangs that wait."""
    return [crowded(drawn(picture, *QUEUES, cpu=16), turn) for picture in PICTURES for turn in range(3)]


def crowded(world: World, turn: int) -> World:
    """Alike gangs in all queues, so that only names and positions tell them apart."""
    first = next(node.name for node in world.nodes if node is not None)
    seat(world, gang("old", gpu=1, run_s=60, queue="qa", priority=turn), first)
    for index in range(12):
        name, queue = f"g{(index * 7 + turn) % 12}", ("qa", "qb", "qc")[index % 3]
        members, cards = 1 + index % 4, (1, 2, 4)[(index + turn) % 3]
        submit(world, gang(name, members, gpu=cards, run_s=30 * (index % 3), queue=queue, priority=index % 2))
    pair = (Role("a", min=2, shapes=(Shape({"gpu": 2, "cpu": 1}),)), Role("b", min=2, shapes=(Shape({"cpu": 3}),)))
    return submit(world, Gang("two", pair, "qb", estimate=lasting(90)))


def plans() -> list[str]:
    """What is decided about each world, under three policies."""
    told = []
    for world in worlds():
        for depth in (0, 1, -1):
            view = world.view()
            plan = decide(view, 10 * SECOND, Policy(reserve=Reservation(depth=depth)))
            told.append(f"{brief(plan, view)} {plan.wake_at}")
    return told
