"""Queues of the dialects: quotas, trees and weights, read and never written."""

from collections.abc import Iterator
from typing import Any

from tutti.engine.model import Queue
from tutti.jobs.kube.objects import Thing
from tutti.jobs.kube.quantity import BadQuantity, amount

from .mirror import Mirror

KOORDINATOR = "scheduling.sigs.k8s.io/"
QUOTA = "quota.scheduling.koordinator.sh/"
ROOTS = frozenset({"", "root", "koordinator-root-quota"})
"""What quotas without a parent name as theirs."""


def read_queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Enter a change of somebody's queue."""
    match thing.kind:
        case "Queue":
            _queue(mirror, thing, gone)
        case "ConfigMap":
            _of_yunikorn(mirror, thing, gone)
        case "LocalQueue":
            _local_queue(mirror, thing, gone)
        case "ElasticQuota" if thing.api_version.startswith(KOORDINATOR):
            _of_koordinator(mirror, thing, gone)
        case _:
            _named_queue(mirror, thing, gone)


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
    mirror.dirty_gangs |= dict.fromkeys(mirror.gangs)


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


def _of_koordinator(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """A quota by its own name, below the one it names; the one in a namespace is for whoever names none."""
    name, labels, spec = thing.metadata.name, thing.metadata.labels or {}, thing.spec or {}
    own = f"{thing.metadata.namespace}/"
    if gone:
        mirror.queues.pop(name, None)
        if mirror.local_queues.get(own) == name:
            del mirror.local_queues[own]
        return
    above = labels.get(f"{QUOTA}parent", "")
    parent = "" if above in ROOTS else above
    if parent:
        mirror.queues.setdefault(parent, Queue(parent))
    mirror.queues[name] = Queue(
        name, parent=parent, guarantee=_amounts(spec.get("min") or {}), limit=_amounts(spec.get("max") or {})
    )
    if labels.get(f"{QUOTA}is-parent") != "true" and (
        own not in mirror.local_queues or name == thing.metadata.namespace
    ):
        mirror.local_queues[own] = name


def _of_yunikorn(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """The tree in the ConfigMap; one that cannot be read leaves things as they were."""
    import yaml  # noqa: PLC0415 - few have it

    try:
        written = {} if gone else yaml.safe_load((thing.data or {}).get("queues.yaml") or "{}")
        found = {queue.name: queue for part in written.get("partitions") or [] for queue in _tree(part, "")}
    except (yaml.YAMLError, AttributeError, TypeError):
        return
    source = f"{thing.metadata.namespace}/{thing.metadata.name}"
    for name in mirror.trees.get(source, set()) - set(found):
        mirror.queues.pop(name, None)
    mirror.trees[source] = set(found)
    mirror.queues |= found


def _tree(above: dict[str, Any], parent: str) -> Iterator[Queue]:
    """The queues below one, by their full names, as pods write them."""
    for entry in above.get("queues") or []:
        name = f"{parent}.{entry['name']}" if parent else str(entry["name"])
        resources = entry.get("resources") or {}
        guarantee, limit = (_amounts(_cores(resources.get(field) or {})) for field in ("guaranteed", "max"))
        yield Queue(name, parent=parent, guarantee=guarantee, limit=limit)
        yield from _tree(entry, name)


def _cores(written: dict[str, Any]) -> dict[str, Any]:
    """YuniKorn calls them vcore."""
    return {"cpu" if name == "vcore" else name: value for name, value in written.items()}


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
