"""What if? Changes of a view, as plain data: more nodes, fewer, another limit, a gang changed, added or gone.

A changed view is a view like any other: `decide` on it says what would happen. Nothing in the real world changes.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TypeAlias

import msgspec

from tutti.errors import Misused, NotFound, Refused

from . import events as ev
from .bounds import wrong
from .estimate import leading_role
from .model import NEVER, Bound, Data, Estimate, Gang, Node, NodeState, Queue, Role, Source, State
from .twin import world_of
from .validate import faults
from .view import View
from .world import World

SHORTHAND = re.compile(r"(\d{1,6})x(\d{1,9})(?::([\w.-]+))?")
DEVICE = "gpu"


Value: TypeAlias = int | bool | str | dict[str, int] | tuple[Bound, ...] | None
"""What a field of a queue can be."""


class Edit(Data, frozen=True, tag_field="edit"):
    """Base of all changes."""


class AddNodes(Edit, frozen=True, tag="add-nodes"):
    """More nodes, all alike."""

    count: int
    capacity: dict[str, int]
    pool: str = "default"
    place: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    prefix: str = "new-"


class RemoveNodes(Edit, frozen=True, tag="remove-nodes"):
    """Take nodes away: those named, those with a tag, those in a domain ('rack-3', or a path like 'zone-a/rack-3')."""

    names: tuple[str, ...] = ()
    tag: str = ""
    domain: str = ""


class TurnNodes(Edit, frozen=True, tag="turn-nodes"):
    """Drain, quarantine, lose or bring back nodes."""

    names: tuple[str, ...]
    state: NodeState


class SetQueue(Edit, frozen=True, tag="set-queue"):
    """Change some fields of a queue."""

    queue: str
    fields: dict[str, Value]


class Submit(Edit, frozen=True, tag="submit"):
    """One more gang."""

    gang: Gang


class ChangeGang(Edit, frozen=True, tag="change-gang"):
    """Change some of what a gang asks for. `workers` is the exact size of its leading role."""

    gang: str
    workers: int | None = None
    within: str | None = None
    priority: int | None = None
    queue: str | None = None
    time: int | None = None
    """The limit on its run time, in microseconds."""


class Cancel(Edit, frozen=True, tag="cancel"):
    """End a gang."""

    gang: str


class Hold(Edit, frozen=True, tag="hold"):
    """Put a waiting gang on hold."""

    gang: str


class Release(Edit, frozen=True, tag="release"):
    """End a hold."""

    gang: str


AnyEdit: TypeAlias = AddNodes | RemoveNodes | TurnNodes | SetQueue | Submit | ChangeGang | Cancel | Hold | Release


def edited(view: View, edits: Iterable[AnyEdit]) -> View:
    """The view as it would be. Raises an error that says what is wrong with an edit; the view given never changes."""
    world = world_of(view)
    for edit in edits:
        for event in _events(world, edit):
            touched = world.apply(event)
            if touched.note:
                raise Refused(f"cannot {_word(edit)}: {touched.note}")
    return world.view()


def nodes_like(view: View, shorthand: str) -> AddNodes:
    """More nodes in shorthand: '8x8' is eight nodes of eight devices, '8x8:h100' of that kind.

    They are like a node that is already there as far as one has as many devices of that kind; otherwise they have the
    other resources of the node with the most devices. They stand together in a domain of their own.
    """
    found = SHORTHAND.fullmatch(shorthand)
    if found is None:
        raise Misused(f"cannot read {shorthand!r} as nodes", hint="8x8 for eight nodes of eight devices, or 8x8:h100")
    count, devices, kind = int(found[1]), int(found[2]), found[3]
    wanted = (f"kind={kind}",) if kind else ()
    model = _model(view, devices, wanted)
    capacity = {**(model.capacity if model else {}), DEVICE: devices}
    place = (*model.place[:-1], _new_domain(view)) if model and model.place else ()
    tags = _shared_tags(model, devices) if model and set(wanted) <= set(model.tags) else wanted
    return AddNodes(count, capacity, model.pool if model else "default", place, tags, _new_prefix(view))


def _model(view: View, devices: int, wanted: tuple[str, ...]) -> Node | None:
    """The node that new ones are taken after."""
    there = [node for at in view.by_line.tolist() if (node := view.nodes[at]) is not None]

    def likeness(node: Node) -> tuple[bool, bool, int]:
        have = node.capacity.get(DEVICE, 0)
        return set(wanted) <= set(node.tags), have == devices, have

    return max(there, key=likeness, default=None)


def _shared_tags(model: Node, devices: int) -> tuple[str, ...]:
    if model.capacity.get(DEVICE, 0) != devices:
        return tuple(tag for tag in model.tags if tag.startswith("kind="))
    return tuple(tag for tag in model.tags if not tag.startswith("!") and model.name not in tag)


def _new_domain(view: View) -> str:
    taken = {domain for path in view.topology.paths for domain in path}
    return next(name for i in range(len(taken) + 1) if (name := f"new-{i + 1}") not in taken)


def _new_prefix(view: View) -> str:
    taken = tuple(view.node_index)
    rounds = (f"new{i + 1}-" for i in range(len(taken) + 1))
    return next(prefix for prefix in rounds if not any(name.startswith(prefix) for name in taken))


# -- what each edit means


def _events(world: World, edit: AnyEdit) -> Iterator[ev.Event]:
    at = world.at
    match edit:
        case AddNodes():
            yield from _added(world, edit)
        case RemoveNodes():
            yield from (ev.NodeGone(at, name) for name in _chosen(world, edit))
        case TurnNodes():
            yield from (ev.NodeTurned(at, _known_node(world, name), edit.state) for name in edit.names)
        case SetQueue():
            yield ev.QueueSet(at, _queue(world, edit))
        case Submit():
            yield ev.Submitted(at, _sound(world, edit.gang))
        case ChangeGang():
            yield ev.Changed(at, _sound(world, _changed(world, edit)))
        case Cancel():
            yield ev.Ended(at, _known_gang(world, edit.gang).name, State.CANCELLED)
        case Hold():
            yield ev.Held(at, _known_gang(world, edit.gang).name)
        case Release():
            yield ev.Released(at, _known_gang(world, edit.gang).name)


def _added(world: World, edit: AddNodes) -> Iterator[ev.NodeSeen]:
    if edit.count < 1 or not edit.capacity or any(amount < 0 for amount in edit.capacity.values()):
        raise Misused("new nodes need a number of at least one and amounts that are not negative")
    for i in range(edit.count):
        name = f"{edit.prefix}{i}"
        if name in world.node_index:
            raise Refused(f"cannot add nodes: there is a node named {name!r} already", hint="choose another prefix")
        yield ev.NodeSeen(world.at, Node(name, edit.capacity, edit.pool, edit.place, edit.tags))


def _chosen(world: World, edit: RemoveNodes) -> list[str]:
    named = [_known_node(world, name) for name in edit.names]
    matching = [
        node.name
        for node in world.nodes
        if node is not None and ((edit.tag and edit.tag in node.tags) or _is_in(node, edit.domain))
    ]
    chosen = list(dict.fromkeys([*named, *matching]))
    if not chosen:
        domains = [path[-1] for path in world.topology.paths]
        where = _meant(edit.domain, domains) if edit.domain else None
        raise NotFound(f"no node is {_described(edit)}", hint=where)
    return chosen


def _is_in(node: Node, domain: str) -> bool:
    """Whether the domain, a name or the end of a path, is one the node stands in."""
    if not domain:
        return False
    wanted = tuple(domain.split("/"))
    path = (node.pool, *node.place)
    return any(path[i : i + len(wanted)] == wanted for i in range(len(path)))


def _described(edit: RemoveNodes) -> str:
    said = [f"tagged {edit.tag!r}"] if edit.tag else []
    said += [f"in {edit.domain!r}"] if edit.domain else []
    return " or ".join(said) or "named at all"


def _known_node(world: World, name: str) -> str:
    if name not in world.node_index:
        raise NotFound(f"no node named {name!r}", hint=_meant(name, world.node_index))
    return name


def _known_gang(world: World, name: str) -> Gang:
    if name not in world.slots:
        raise NotFound(f"no gang named {name!r}", hint=_meant(name, world.slots))
    return world.job_in(world.slots[name]).gang


def _queue(world: World, edit: SetQueue) -> Queue:
    queue = world.queues.get(edit.queue)
    if queue is None:
        raise NotFound(f"no queue named {edit.queue!r}", hint=_meant(edit.queue, world.queues))
    known = Queue.__struct_fields__
    for field in edit.fields:
        if field not in known or field == "name":
            raise Misused(f"a queue has no {field!r} to change", hint=_meant(field, known))
    parent = edit.fields.get("parent")
    if parent and parent not in world.queues:
        raise NotFound(f"no queue named {parent!r}", hint=_meant(str(parent), world.queues))
    try:
        changed = msgspec.convert({**msgspec.structs.asdict(queue), **edit.fields}, Queue)
    except msgspec.ValidationError as failure:
        raise Misused(f"cannot change queue {edit.queue!r}: {failure}") from None
    if problem := wrong(changed):
        raise Misused(f"cannot change queue {edit.queue!r}: {problem}")
    return changed


def _changed(world: World, edit: ChangeGang) -> Gang:
    gang = _known_gang(world, edit.gang)
    changes: dict[str, object] = {}
    if edit.workers is not None:
        changes["roles"] = _sized(gang, edit.workers)
    if edit.within is not None:
        changes["within"] = edit.within
        roles = changes.get("roles", gang.roles)
        assert isinstance(roles, tuple)
        changes["roles"] = tuple(msgspec.structs.replace(role, within="") for role in roles)
    if edit.priority is not None:
        changes["priority"] = edit.priority
    if edit.queue is not None:
        if edit.queue not in world.queues:
            raise NotFound(f"no queue named {edit.queue!r}", hint=_meant(edit.queue, world.queues))
        changes["queue"] = edit.queue
    if edit.time is not None:
        changes["estimate"] = _limited(gang.estimate, edit.time)
    return msgspec.structs.replace(gang, **changes)


def _sized(gang: Gang, workers: int) -> tuple[Role, ...]:
    """The roles, with the leading one at exactly this size on every shape."""
    at = leading_role(gang)
    role = gang.roles[at]
    shapes = tuple(msgspec.structs.replace(shape, min=0, want=0, max=0) for shape in role.shapes)
    sized = msgspec.structs.replace(role, min=workers, want=workers, max=workers, shapes=shapes)
    return (*gang.roles[:at], sized, *gang.roles[at + 1 :])


def _limited(told: Estimate, limit: int) -> Estimate:
    if not 0 < limit < NEVER:
        raise Misused("a time limit is more than nothing")
    source = Source.DECLARED if told.source in {Source.NONE, Source.DEFAULT} else told.source
    return Estimate(limit, min(told.p50, limit), min(told.p90, limit), source)


def _sound(world: World, gang: Gang) -> Gang:
    found = faults(gang, world.view())
    if found:
        raise Refused(f"{gang.name!r} would not be a sound gang: {found[0]}")
    return gang


def _word(edit: AnyEdit) -> str:
    return str(type(edit).__struct_config__.tag).replace("-", " ")


def _meant(word: str, known: Iterable[str]) -> str | None:
    close = get_close_matches(word, list(known), n=1)
    return f"{close[0]!r}" if close else None
