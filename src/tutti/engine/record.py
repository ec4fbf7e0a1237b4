"""A view as a file, and a file as a view: what a decision was made on can be saved, read and replayed elsewhere.

A replayed view has the same numbers as the recorded one (nodes, gangs, versions), so that `decide` gives the same plan
to the byte.
"""

from collections.abc import Iterator

import msgspec

from tutti.errors import Misused

from . import events as ev
from .books import HALF_LIFE
from .gang_events import admit
from .model import Data, Domain, Job, Node, Pool, Queue, Seats, Usage, Window
from .plan import Plan
from .policy import Policy
from .view import View
from .world import World

SCHEMA = "tutti/v1"


class Recording(Data, frozen=True):
    """Everything a view knows, in plain data. Places in `nodes` and `jobs` are the numbers used elsewhere."""

    number: int = 0
    at: int = 0
    resources: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node | None, ...] = ()
    versions: tuple[int, ...] = ()
    domains: tuple[Domain, ...] = ()
    queues: tuple[Queue, ...] = ()
    windows: tuple[Window, ...] = ()
    jobs: tuple[Job | None, ...] = ()
    ends: tuple[tuple[int, int, int] | None, ...] = ()
    """Expected ends of the gangs that have seats, by place in `jobs`."""
    queued: tuple[int, ...] = ()
    seated: tuple[int, ...] = ()
    usage: dict[str, Usage] = {}


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded view with the moment and the policy of the decision."""

    schema: str
    kind: str
    now: int
    policy: Policy
    view: Recording


class RecordedPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan as it is stored."""

    schema: str
    kind: str
    plan: dict[str, object]


class Header(msgspec.Struct, frozen=True):
    """The part that says whether the rest can be read."""

    schema: str = ""
    kind: str = ""


class BadRecording(Misused):
    """The data is not a snapshot this version can read."""


def record(view: View, now: int, policy: Policy) -> bytes:
    """The view, the moment and the policy as canonical JSON: equal views give equal bytes."""
    snapshot = Snapshot(SCHEMA, "snapshot", now, policy, recorded(view))
    return msgspec.json.encode(snapshot, order="sorted") + b"\n"


def replay(data: bytes) -> tuple[View, int, Policy]:
    """What `record` was given. Raises BadRecording, with what is wrong, for anything else."""
    _check_header(data)
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.MsgspecError as failure:
        raise BadRecording(f"the snapshot is damaged: {failure}") from None
    return rebuilt(snapshot.view, snapshot.policy.order.half_life).view(), snapshot.now, snapshot.policy


def encode_plan(plan: Plan) -> bytes:
    """The plan as canonical JSON: equal plans give equal bytes."""
    return msgspec.json.encode(RecordedPlan(SCHEMA, "plan", _plain(plan)), order="sorted") + b"\n"


def recorded(view: View) -> Recording:
    """The view as plain data."""
    names = list(view.resources)
    return Recording(
        number=view.number,
        at=view.at,
        resources=tuple(names),
        pools=tuple(pool for _, pool in sorted(view.topology.pools.items())),
        nodes=tuple(view.nodes),
        versions=tuple(view.versions),
        domains=tuple(sorted(view.domains.values(), key=lambda domain: (domain.pool, domain.path))),
        queues=tuple(queue for _, queue in sorted(view.queues.items())),
        windows=tuple(window for _, window in sorted(view.windows.items())),
        jobs=tuple(view.jobs),
        ends=tuple(_ends(view, slot) for slot in range(len(view.jobs))),
        queued=tuple(view.queued),
        seated=tuple(view.seated),
        usage={
            queue: Usage(use.at, {name: past for name, past in zip(names, use.past, strict=True) if past})
            for queue, use in sorted(view.use.items())
        },
    )


def rebuilt(recording: Recording, half_life: int = HALF_LIFE) -> World:
    """The world a recording was made of. Raises BadRecording where it contradicts itself."""
    world = World(half_life)
    for resource in recording.resources:
        world.resource(resource)
    for event in _surroundings(recording):
        world.apply(event)
    _add_nodes(world, recording)
    for domain in recording.domains:
        world.apply(ev.DomainSet(recording.at, domain))
    world.at = recording.at
    _add_jobs(world, recording)
    _set_columns(world, recording)
    return world


def _check_header(data: bytes) -> None:
    try:
        header = msgspec.json.decode(data, type=Header)
    except msgspec.MsgspecError as failure:
        raise BadRecording(f"this is not a snapshot, or only a part of one: {failure}") from None
    if header.schema != SCHEMA and header.schema.startswith("tutti/"):
        raise BadRecording(
            f"the snapshot is written in {header.schema!r}, and this version reads {SCHEMA!r}",
            hint="read it with the version of tutti that wrote it, or a newer one",
        )
    if header.schema != SCHEMA or header.kind != "snapshot":
        raise BadRecording(f"this is not a snapshot: its schema is {header.schema!r} and its kind {header.kind!r}")


def _ends(view: View, slot: int) -> tuple[int, int, int] | None:
    if slot not in view.seated:
        return None
    p50, p90, last = view.ends[slot].tolist()
    return p50, p90, last


def _surroundings(recording: Recording) -> Iterator[ev.Event]:
    yield from (ev.PoolSet(recording.at, pool) for pool in recording.pools)
    yield from (ev.QueueSet(recording.at, queue) for queue in recording.queues)
    yield from (ev.WindowSet(recording.at, window) for window in recording.windows)


def _add_nodes(world: World, recording: Recording) -> None:
    world.classes.make_room(max(len(recording.nodes), 16))
    names = [node.name for node in recording.nodes if node is not None]
    if len(set(names)) < len(names):
        raise BadRecording("the snapshot is damaged: two nodes have the same name")
    for node in recording.nodes:
        if node is None:
            # A node that is gone: its number stays taken, so that the others keep theirs.
            world.nodes.append(None)
            world.versions.append(0)
        else:
            world.apply(ev.NodeSeen(recording.at, node))


def _add_jobs(world: World, recording: Recording) -> None:
    spare: list[int] = []
    for slot, job in enumerate(recording.jobs):
        if job is None:
            spare.append(world.new_slot())
            continue
        if fault := _fault(world, job):
            raise BadRecording(f"the snapshot is damaged: gang {job.gang.name!r} in place {slot}: {fault}")
        admit(world, job)
    world.spare_slots = spare


def _fault(world: World, job: Job) -> str:
    if job.gang.name in world.slots:
        return "its name is there twice"
    if job.life.seats and (fault := world.bad_seats(job.gang, job.life.seats)):
        return fault
    promised = [given.seats for given in (job.life.promise, job.life.pledge) if given is not None]
    return next((fault for seats in (*promised, job.life.target) if (fault := _off_the_map(world, seats))), "")


def _off_the_map(world: World, seats: tuple[Seats, ...]) -> str:
    if any(not 0 <= node < len(world.nodes) for held in seats for node in held.nodes):
        return "it was promised a node that never was"
    return ""


def _set_columns(world: World, recording: Recording) -> None:
    """Numbers that depend on how the world came about, and not only on what it is."""
    for name, usage in recording.usage.items():
        use = world.use_of(name)
        use.at = usage.at
        for resource, amount in usage.amounts.items():
            use.past[world.resource(resource)] = amount
    if len(recording.versions) == len(recording.nodes):
        world.versions = list(recording.versions)
    for slot, ends in enumerate(recording.ends[: len(world.jobs)]):
        if ends is not None:
            world.ends[slot] = ends
    if set(recording.queued) == set(world.queued):
        world.queued = dict.fromkeys(recording.queued)
    if set(recording.seated) == set(world.seated):
        world.seated = dict.fromkeys(recording.seated)
    world.version = recording.number


def _plain(plan: Plan) -> dict[str, object]:
    answers = {name: plan.answers[name] for name in sorted(plan.answers)}
    parts = {"view": plan.view, "at": plan.at, "actions": plan.actions, "answers": answers}
    return {**parts, "wake_at": plan.wake_at, "spent": plan.spent}
