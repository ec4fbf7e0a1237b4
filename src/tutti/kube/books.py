"""Objects that are neither nodes nor pods: groups, topologies, priorities, queues, volumes; entered in the mirror."""

from typing import Any

import msgspec

from tutti.engine.model import Queue
from tutti.jobs.kube.objects import NodeSelector, NodeTerm, Thing
from tutti.jobs.kube.quantity import BadQuantity, amount

from .mirror import Mirror


def read_thing(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Enter a change of any object."""
    match thing.kind:
        case "PriorityClass":
            _priority(mirror, thing, gone)
        case "Queue":
            _queue(mirror, thing, gone)
        case "PersistentVolumeClaim":
            _claim(mirror, thing, gone)
        case "PersistentVolume":
            _volume(mirror, thing, gone)
        case _ if gone:
            mirror.drop_thing(thing)
        case _:
            mirror.put_thing(thing)


def _priority(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name = thing.metadata.name
    if gone:
        mirror.priorities.pop(name, None)
        return
    mirror.priorities[name] = thing.value
    if thing.global_default:
        mirror.default_priority = thing.value
    mirror.dirty_gangs |= dict.fromkeys(key for key, g in mirror.groups.items() if g.priority_class == name)


# -- queues of the dialects, read only


def _queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name = thing.metadata.name
    if gone:
        mirror.queues.pop(name, None)
        return
    spec = thing.spec or {}
    mirror.queues[name] = (
        _of_kai(name, spec) if thing.api_version.startswith("scheduling.run.ai") else _of_volcano(name, spec)
    )


def _of_volcano(name: str, spec: dict[str, Any]) -> Queue:
    guarantee = (spec.get("guarantee") or {}).get("resource") or spec.get("deserved") or {}
    parent = str(spec.get("parent") or "")
    return Queue(
        name,
        parent="" if parent == "root" else parent,
        guarantee=_amounts(guarantee),
        limit=_amounts(spec.get("capability") or {}),
        weight=max(_whole(spec.get("weight"), 1), 1),
    )


def _of_kai(name: str, spec: dict[str, Any]) -> Queue:
    resources: dict[str, dict[str, Any]] = spec.get("resources") or {}
    names = {"gpu": ("nvidia.com/gpu", 1.0), "cpu": ("cpu", 1.0), "memory": ("memory", 1e6)}
    guarantee: dict[str, int] = {}
    limit: dict[str, int] = {}
    for short, (resource, unit) in names.items():
        said = resources.get(short) or {}
        for field, into in (("quota", guarantee), ("limit", limit)):
            value = said.get(field)
            if isinstance(value, int | float) and value >= 0:
                into[resource] = int(value * unit)
    weight = max((int(r.get("overQuotaWeight") or 1) for r in resources.values()), default=1)
    return Queue(
        name, parent=str(spec.get("parentQueue") or ""), guarantee=guarantee, limit=limit, weight=max(weight, 1)
    )


def _whole(written: object, default: int) -> int:
    return written if isinstance(written, int) else default


def _amounts(written: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in written.items():
        try:
            found[name] = amount(name, value)
        except BadQuantity:
            continue
    return found


# -- volumes


def _claim(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name = f"{thing.metadata.namespace}/{thing.metadata.name}"
    bound = (thing.status or {}).get("phase") == "Bound"
    volume = str((thing.spec or {}).get("volumeName") or "")
    if gone:
        mirror.bind_claim(name, None, gone=True)
    else:
        mirror.bind_claim(name, volume if bound else None)


def _volume(mirror: Mirror, thing: Thing, gone: bool) -> None:
    spec = thing.spec or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    terms: tuple[NodeTerm, ...] = ()
    if required:
        terms = tuple(msgspec.convert(required, NodeSelector).node_selector_terms)
    mirror.put_volume(thing.metadata.name, None if gone else terms)
