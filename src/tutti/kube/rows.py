"""Gangs, nodes and queues of a cluster as the API shows them: the same documents that one box gives."""

from collections import Counter
from collections.abc import Mapping

from tutti.api import types as t
from tutti.api.rows import devices_held, elastic, placed, sizes
from tutti.engine.model import NEVER, QUEUED, SECOND, Job, Node, NodeState, State, Token
from tutti.engine.plan import Reason
from tutti.engine.world import World
from tutti.views.moments import clock_text

from .gangs import GangSeen, Seen
from .mirror import Mirror


def device_of(world: World) -> str:
    """The resource that counts as a device here: the extended one most nodes have; processors where there is none."""
    found: Counter[str] = Counter()
    for node in filter(None, world.nodes):
        found.update(name for name in node.capacity if "/" in name)
    return max(found, key=lambda name: (found[name], name)) if found else "cpu"


def active_row(world: World, job: Job, reason: Reason | None, now: int, device: str, wanted: int) -> t.JobRow:
    """A gang that has not ended; `wanted` members must be there before it starts."""
    life, gang = job.life, job.gang
    waits = life.state in QUEUED
    promise = life.promise
    slot = world.slots[gang.name]
    eta = (promise.start if promise is not None else NEVER) if waits else int(world.ends[slot][0])
    low, high = sizes(gang)
    return t.JobRow(
        name=gang.name,
        id=slot + 1,
        user=gang.user,
        queue=gang.queue,
        state=life.state.value,
        members=max(sum(max(role.want, role.min) for role in gang.roles), low)
        if waits
        else sum(held.members for held in life.seats),
        min=max(low, wanted) if life.awaiting else low,
        max=high,
        devices=_devices(job, device, waits),
        priority=gang.priority,
        placed="" if waits else placed(world, job),
        reason=Token.HELD.value if life.state is State.HELD else reason.token.value if reason and waits else "",
        detail=reason.detail if reason and waits else "",
        eta_us=eta if eta < NEVER else 0,
        eta=clock_text(eta, now) if 0 < eta < NEVER else "",
        submitted_us=gang.submitted,
        started_us=life.first_started,
        waited_s=max((life.first_started or now) - gang.submitted, 0) / SECOND,
        ran_s=0.0 if waits else max(now - life.started, 0) / SECOND,
        limit_s=gang.estimate.limit / SECOND if gang.estimate.limit < NEVER else 0.0,
        elastic=elastic(gang),
        restarts=life.restarts,
    )


def ended_row(key: str, gang: GangSeen, number: int) -> t.JobRow:
    """A gang whose pods are all over, as long as they are there."""
    failed = any(pod.phase == "Failed" for pod in gang.pods.values())
    begun = min((pod.created for pod in gang.pods.values()), default=0)
    return t.JobRow(
        name=key,
        id=number,
        user=key.partition("/")[0],
        queue=gang.declared.queue if gang.declared is not None and gang.declared.queue else "default",
        state=(State.FAILED if failed else State.FINISHED).value,
        members=len(gang.pods),
        min=gang.declared.min if gang.declared is not None else 1,
        max=len(gang.pods),
        devices=0,
        submitted_us=begun,
        why=next((pod.reason for pod in gang.pods.values() if pod.reason), ""),
    )


def _devices(job: Job, device: str, waits: bool) -> int:
    if waits:
        return sum(role.shapes[0].ask.get(device, 0) * max(role.want, role.min) for role in job.gang.roles)
    return devices_held(job, device)


def ranks(gang: GangSeen) -> list[t.Rank]:
    """The pods of a gang, by rank."""
    pods = sorted(gang.pods.values(), key=Seen.order)
    return [t.Rank(rank=at, role=pod.part or "member", node=pod.node) for at, pod in enumerate(pods)]


def node_rows(world: World, mirror: Mirror, device: str) -> list[t.NodeRow]:
    """Nodes with a cell for each device: whose gang has it, or that a pod of somebody else has."""
    holders = _holders(world, device)
    rows = []
    for _, at in sorted(world.node_index.items()):
        node = world.nodes[at]
        if node is not None:
            rows.append(_node_row(node, holders.get(at, {}), mirror, device))
    return rows


def _holders(world: World, device: str) -> dict[int, dict[str, tuple[int, bool]]]:
    """On each node: gangs, how many devices they have, and whether they are still starting."""
    found: dict[int, dict[str, tuple[int, bool]]] = {}
    for job in filter(None, world.jobs):
        for role, held in zip(job.gang.roles, job.life.seats, strict=False):
            each = role.shapes[held.shape].ask.get(device, 0)
            for at, count in zip(held.nodes, held.counts, strict=True):
                there = found.setdefault(at, {})
                before = there.get(job.gang.name, (0, False))[0]
                there[job.gang.name] = (before + each * count, job.life.state is State.STARTING)
    return found


def _node_row(node: Node, holders: Mapping[str, tuple[int, bool]], mirror: Mirror, device: str) -> t.NodeRow:
    unit = 1000 if device == "cpu" else 1
    total, foreign = node.capacity.get(device, 0) // unit, -(-node.foreign.get(device, 0) // unit)
    cells: list[tuple[str, str]] = []
    for name, (count, starting) in holders.items():
        cells += [("starting" if starting else "busy", name)] * (-(-count // unit))
    cells += [("foreign", "")] * foreign
    idle = "free" if node.state is NodeState.READY and not _is_closed(mirror, node.name) else "drained"
    cells += [(idle, "")] * max(total - len(cells), 0)
    devices = [
        t.Device(id=f"{node.name}:{at}", index=at, kind=device, state=state, job=job)
        for at, (state, job) in enumerate(cells[:total])
    ]
    return t.NodeRow(
        name=node.name,
        state=node.state.name.lower(),
        place=[part for part in node.place if not part.startswith("~")],
        kind=device,
        devices=devices,
        free=sum(cell.state == "free" for cell in devices),
        cpus=node.capacity.get("cpu", 0) / 1000,
        memory_bytes=node.capacity.get("memory", 0),
    )


def _is_closed(mirror: Mirror, name: str) -> bool:
    """Whether it was cordoned."""
    ground = mirror.grounds.get(name)
    return ground is not None and any(t.key == "node.kubernetes.io/unschedulable" for t in ground.taints)


def used(world: World, device: str) -> dict[str, float]:
    """Device-seconds of late, by queue."""
    at = world.resources.get(device, -1)
    return {name: float(use.past[at]) for name, use in world.use.items() if 0 <= at < len(use.past)}
