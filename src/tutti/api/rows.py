"""What every world shows of its gangs and queues in the same words."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from tutti.engine.bounds import Caps, Tally
from tutti.engine.model import QUEUED, Coupling, Gang, Job, Resizing
from tutti.engine.policy import Policy
from tutti.engine.quota import Shares
from tutti.engine.view import View
from tutti.engine.world import World

from . import types as t

MOST_NODES = 4


def sizes(gang: Gang) -> tuple[int, int]:
    """Least and most members."""
    return sum(role.min for role in gang.roles), sum(max(role.max, role.want, role.min) for role in gang.roles)


def elastic(gang: Gang) -> str:
    """How the gang's size can change: 'live', 'restart', 'loose', or '' for a rigid one."""
    low, high = sizes(gang)
    if high > low and any(role.coupling is Coupling.LOOSE for role in gang.roles):
        return Coupling.LOOSE.value
    return gang.resizing.value if gang.resizing is not Resizing.NONE and high > low else ""


def devices_held(job: Job, device: str) -> int:
    """Devices of its seats."""
    pairs = zip(job.gang.roles, job.life.seats, strict=False)
    return sum(role.shapes[held.shape].ask.get(device, 0) * held.members for role, held in pairs)


def placed(world: World, job: Job) -> str:
    """Where it sits: nodes, with the members on each."""
    members: Counter[int] = Counter()
    for held in job.life.seats:
        members.update(dict(zip(held.nodes, held.counts, strict=True)))
    names = [f"{count} on {_node(world, node)}" for node, count in members.items()]
    return ", ".join(names[:MOST_NODES]) + (f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else "")


def _node(world: World, node: int) -> str:
    there = world.nodes[node] if 0 <= node < len(world.nodes) else None
    return there.name if there else "?"


def deserved_devices(view: View, now: int, policy: Policy, device: str) -> dict[str, int]:
    """How many devices are the part of each queue, given what the others want now."""
    shares, resource = Shares(view, now, policy), view.resources.get(device)
    return {name: shares.claim(name)[resource] for name in view.queues} if resource is not None else {}


def queue_rows(
    world: World, device: str, used: Mapping[str, float], deserved: Mapping[str, int] | None = None
) -> list[t.QueueRow]:
    """Queues with who waits and runs in each; `used` is device-seconds by queue."""
    part = deserved or {}
    tally = Tally(world.view(), Caps(world.queues))
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    for job in filter(None, world.jobs):
        if job.life.state in QUEUED:
            waiting[job.gang.queue] += 1
        else:
            running[job.gang.queue] += 1
            devices[job.gang.queue] += devices_held(job, device)
    return [
        t.QueueRow(
            name=queue.name, parent=queue.parent, weight=queue.weight, closed=queue.closed,
            guarantee=queue.guarantee, limit=queue.limit, waiting=waiting[queue.name], running=running[queue.name],
            devices=devices[queue.name], used_device_s=used.get(queue.name, 0.0), deserved=part.get(queue.name),
            borrowed=max(devices[queue.name] - part[queue.name], 0) if queue.name in part else None,
            max_running=queue.max_running, counted=tally.counted(queue.name) if queue.max_running is not None else None,
            user_limit=queue.user_limit, bounds=[msgspec.to_builtins(bound) for bound in queue.bounds],
        )
        for queue in world.queues.values()
    ]  # fmt: skip
