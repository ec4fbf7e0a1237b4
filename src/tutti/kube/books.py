"""Objects that are neither nodes nor pods: groups, topologies, priorities, queues, volumes; entered in the mirror."""

from typing import Any

import msgspec

from tutti.engine.model import Queue
from tutti.jobs.kube.declared import Reading
from tutti.jobs.kube.objects import NodeSelector, NodeTerm, Thing
from tutti.jobs.kube.quantity import BadQuantity, amount
from tutti.jobs.kube.wants import Reach

from .mirror import Mirror


def read_thing(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Enter a change of any object."""
    match thing.kind:
        case "PriorityClass":
            _priority(mirror, thing, gone)
        case "Queue":
            _queue(mirror, thing, gone)
        case "ClusterQueue" | "Cohort" | "ElasticQuota":
            _named_queue(mirror, thing, gone)
        case "LocalQueue":
            _local_queue(mirror, thing, gone)
        case "Job":
            _job(mirror, thing, gone)
        case "PersistentVolumeClaim":
            _claim(mirror, thing, gone)
        case "PersistentVolume":
            _volume(mirror, thing, gone)
        case "CSINode":
            _attachable(mirror, thing, gone)
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


def _named_queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Queues whose names could be those of others say whose they are; quotas of a namespace have its name."""
    name, spec = thing.metadata.name, thing.spec or {}
    if thing.kind == "ElasticQuota":
        name = thing.metadata.namespace
    elif thing.kind == "Cohort":
        name = cohort(name)
    if gone:
        mirror.queues.pop(name, None)
    elif thing.kind == "ElasticQuota":
        mirror.queues[name] = Queue(
            name, guarantee=_amounts(spec.get("min") or {}), limit=_amounts(spec.get("max") or {})
        )
    elif thing.kind == "Cohort":
        above = str(spec.get("parentName") or "")
        mirror.queues[name] = Queue(name, parent=cohort(above) if above else "", guarantee=_kueue_sums(spec)[0])
    else:
        mirror.queues[name] = _of_kueue(name, spec, mirror)


def cohort(name: str) -> str:
    """A cohort as a queue."""
    return f"cohort {name}"


def _of_kueue(name: str, spec: dict[str, Any], mirror: Mirror) -> Queue:
    """What is nominal is guaranteed; in a cohort it may borrow, up to its limit. Kueue admits; we keep to its order."""
    above = str(spec.get("cohortName") or spec.get("cohort") or "")
    nominal, most = _kueue_sums(spec)
    if above:
        mirror.queues.setdefault(cohort(above), Queue(cohort(above)))
    closed = str(spec.get("stopPolicy") or "None") != "None"
    weight = _whole((spec.get("fairSharing") or {}).get("weight"), 1)
    limit = most if above else nominal
    return Queue(
        name,
        parent=cohort(above) if above else "",
        guarantee=nominal,
        limit=limit,
        weight=max(weight, 1),
        closed=closed,
    )


def _kueue_sums(spec: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Over all flavours: what is nominal, and the most that may be used where borrowing has an end."""
    nominal: dict[str, int] = {}
    most: dict[str, int] = {}
    endless: set[str] = set()
    flavours = [f for group in spec.get("resourceGroups") or [] for f in group.get("flavors") or []]
    for entry in (entry for flavour in flavours for entry in flavour.get("resources") or []):
        name = str(entry.get("name"))
        own = _amounts({name: entry.get("nominalQuota") or 0}).get(name, 0)
        nominal[name] = nominal.get(name, 0) + own
        most[name] = most.get(name, 0) + own
        if entry.get("borrowingLimit") is None:
            endless.add(name)
        else:
            most[name] += _amounts({name: entry["borrowingLimit"]}).get(name, 0)
    return nominal, {name: value for name, value in most.items() if name not in endless}


def _local_queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name = f"{thing.metadata.namespace}/{thing.metadata.name}"
    means = str((thing.spec or {}).get("clusterQueue") or "")
    if gone or not means:
        mirror.local_queues.pop(name, None)
    else:
        mirror.local_queues[name] = means
    mirror.dirty_gangs |= dict.fromkeys(key for key, g in mirror.groups.items() if g.local_queue == name)


def _job(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Volcano's jobs say how long they run; nobody else reads it."""
    written = (thing.spec or {}).get("runningEstimate")
    reading = Reading()
    length = 0 if gone else reading.time(written, "spec.runningEstimate")
    if mirror.estimates.get(thing.metadata.uid, 0) == length:
        return
    mirror.estimates[thing.metadata.uid] = length
    if not length:
        del mirror.estimates[thing.metadata.uid]
    mirror.dirty_gangs |= dict.fromkeys(key for key, g in mirror.groups.items() if g.owner == thing.metadata.uid)


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
        alone = "ReadWriteOncePod" in ((thing.spec or {}).get("accessModes") or [])
        mirror.bind_claim(name, volume if bound else None, alone=alone)


def _volume(mirror: Mirror, thing: Thing, gone: bool) -> None:
    spec = thing.spec or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    terms: tuple[NodeTerm, ...] = ()
    if required:
        terms = tuple(msgspec.convert(required, NodeSelector).node_selector_terms)
    driver = str((spec.get("csi") or {}).get("driver") or "")
    mirror.put_volume(thing.metadata.name, None if gone else Reach(terms, driver))


def _attachable(mirror: Mirror, thing: Thing, gone: bool) -> None:
    drivers = [] if gone else (thing.spec or {}).get("drivers") or []
    counts = {str(one.get("name")): (one.get("allocatable") or {}).get("count") for one in drivers}
    mirror.put_attachable(thing.metadata.name, {name: most for name, most in counts.items() if isinstance(most, int)})
