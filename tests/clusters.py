"""Clusters drawn as pictures, gangs in one line, plans as one line: so that a test reads like a table.

`a: 8 8 | b: 8 4d` is two racks: a0 and a1 with eight cards each, b0 with eight, b1 with four and being drained.
`z/a: 8 | z/b: 8` adds a level above. Without a name (`8 8 4`) there are no levels, only nodes n0, n1, n2. A number
may carry `d` (draining), `q` (quarantined), `x` (lost), `-2` (two in use by others) and `+tag`.
"""

import re
from collections.abc import Iterable
from typing import Any

from tutti.engine import events as ev
from tutti.engine.model import (
    NEVER,
    SECOND,
    Estimate,
    Gang,
    Node,
    NodeState,
    Pool,
    Promise,
    Queue,
    Role,
    Seats,
    Shape,
    Source,
)
from tutti.engine.plan import (
    GIVES_SEATS,
    AnyAction,
    Await,
    Evict,
    Grow,
    Migrate,
    Plan,
    Repair,
    Reserve,
    Resume,
    Shrink,
    Start,
)
from tutti.engine.view import View
from tutti.engine.world import World

LEVELS = {0: (), 1: ("rack",), 2: ("zone", "rack"), 3: ("zone", "rack", "nvlink")}
STATES = {"": NodeState.READY, "d": NodeState.DRAINING, "q": NodeState.QUARANTINED, "x": NodeState.LOST}
NODE = re.compile(r"(\d+)([dqx]?)(?:-(\d+))?((?:\+\S+?)*)")


def drawn(picture: str, *queues: Queue, resource: str = "gpu", **also: int) -> World:
    """A world of drawn nodes and these queues (one named default when none is given)."""
    world = World()
    nodes = list(nodes_in(picture, resource, also))
    world.apply(ev.PoolSet(0, Pool("default", LEVELS[max(len(node.place) for node in nodes)])))
    for node in nodes:
        world.apply(ev.NodeSeen(0, node))
    for queue in queues or (Queue("default"),):
        world.apply(ev.QueueSet(0, queue))
    return world


def nodes_in(picture: str, resource: str, also: dict[str, int]) -> Iterable[Node]:
    """The nodes of a picture, in the order drawn; `also` is what every one of them has besides."""
    for part in picture.split("|"):
        name, _, numbers = part.rpartition(":")
        place = tuple(name.strip().split("/")) if name.strip() else ()
        for index, number in enumerate(numbers.split()):
            yield node_of(f"{place[-1] if place else 'n'}{index}", place, number, resource, also)


def node_of(name: str, place: tuple[str, ...], number: str, resource: str, also: dict[str, int]) -> Node:
    """One drawn node."""
    found = NODE.fullmatch(number)
    assert found, f"cannot read {number!r} as a node"
    amount, state, used, tags = found.groups()
    return Node(
        name,
        {resource: int(amount), **also},
        place=place,
        state=STATES[state],
        foreign={resource: int(used)} if used else {},
        tags=tuple(tags.split("+")[1:]),
    )


def gang(name: str, members: int = 1, gpu: int = 1, run_s: int = 0, **fields: Any) -> Gang:
    """A gang of one role: so many members of so many cards each, running so long (0: nobody knows).

    Fields of the role (`within`, `max`, `rule` ...) and of the gang (`queue`, `priority` ...) may be mixed.
    """
    role = {key: fields.pop(key) for key in tuple(fields) if key in Role.__struct_fields__ and key not in BOTH}
    role |= {key[5:]: fields.pop(key) for key in tuple(fields) if key.startswith("role_")}
    shapes = role.pop("shapes", (Shape({"gpu": gpu}),))
    if run_s:
        fields.setdefault("estimate", lasting(run_s))
    return Gang(name, roles=(Role(min=role.pop("min", members), shapes=shapes, **role),), **fields)


BOTH = {"name", "within", "near"}


def lasting(limit_s: int, p90_s: int = 0, p50_s: int = 0) -> Estimate:
    """A declared run time."""
    return Estimate(limit_s * SECOND, p50_s * SECOND, p90_s * SECOND, Source.DECLARED)


def submit(world: World, *gangs: Gang, at: int = 0) -> World:
    """Let these gangs wait."""
    for each in gangs:
        world.apply(ev.Submitted(at, each))
    return world


def seat(world: World, each: Gang, *where: str, at: int = 0, shape: int = 0) -> World:
    """Let a gang run on seats like `a0 a1*2` (two members on a1), one text for each role."""
    submit(world, each, at=at)
    touched = world.apply(ev.Starting(at, each.name, tuple(seats(world, text, shape) for text in where)))
    assert not touched.note, touched.note
    world.apply(ev.Running(at, each.name))
    return world


def seats(world: World | View, text: str, shape: int = 0) -> Seats:
    """Seats like `a0 a1*2`."""
    runs = [[*word.split("*"), "1"][:2] for word in text.split()]
    return Seats(tuple(world.node_index[name] for name, _ in runs), tuple(int(count) for _, count in runs), shape)


def brief(plan: Plan, view: View) -> str:
    """The plan in one line: `pair@a0,a1` starts, `pair>60@a0*2` is promised from second 60, `pair:NoCapacity` waits."""
    said = [_action(action, view) for action in plan.actions]
    promised = {action.gang for action in plan.actions if isinstance(action, Reserve) and action.promise}
    said += [f"{name}:{why.token.value}" for name, why in sorted(plan.answers.items()) if name not in promised]
    return " ".join(said)


SIGNS = {Start: "@", Resume: "@", Grow: "+@", Shrink: "-@", Repair: "~@", Migrate: "=@"}


def _action(action: AnyAction, view: View) -> str:
    sign = SIGNS.get(type(action))
    if sign:
        return f"{action.gang}{sign}{where(_given(action), view)}"
    if isinstance(action, Reserve):
        return f"{action.gang}>{_promise(action.promise, view)}"
    if isinstance(action, Await):
        return f"{action.gang}<{where(action.pledge.seats, view) if action.pledge else 'none'}"
    return f"{action.gang}!{action.how.value if isinstance(action, Evict) else type(action).__name__.lower()}"


def _given(action: AnyAction) -> tuple[Seats, ...]:
    return action.seats if isinstance(action, GIVES_SEATS) else ()


def _promise(promise: Promise | None, view: View) -> str:
    if promise is None:
        return "none"
    return f"{'?' if promise.start >= NEVER else promise.start // SECOND}@{where(promise.seats, view)}"


def where(given: tuple[Seats, ...], view: View) -> str:
    """Seats as text, roles split by `/`."""
    return "/".join(",".join(_run(view, n, c) for n, c in zip(s.nodes, s.counts, strict=True)) for s in given)


def _run(view: View, node: int, count: int) -> str:
    there = view.nodes[node]
    name = there.name if there else "?"
    return name if count == 1 else f"{name}*{count}"
