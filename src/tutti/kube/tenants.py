"""Queues of the dialects: quotas, trees and weights, read and never written."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Any

from tutti.engine.model import Queue
from tutti.jobs.kube.declared import Reading
from tutti.jobs.kube.gang import Trait
from tutti.jobs.kube.objects import Thing
from tutti.jobs.kube.quantity import BadQuantity, amount
from tutti.jobs.kube.verdicts.all import TABLE, unread
from tutti.jobs.kube.written import decoded

from .kinds import DIALECT_OF
from .mirror import Mirror

KOORDINATOR = "scheduling.sigs.k8s.io/"
QUOTA = "quota.scheduling.koordinator.sh/"
YUNIKORN = "yunikorn.apache.org/"
NAMESPACES = "namespaces"
ROOTS = frozenset({"", "root", "koordinator-root-quota"})
"""What quotas without a parent name as theirs."""


def read_queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Enter a change of somebody's queue; what it says and is not read is told."""
    _enter(mirror, thing, gone)
    dialect = DIALECT_OF.get(thing.api_version.partition("/")[0], "yunikorn")
    if not gone:
        _tell(mirror, thing, unread(dialect, thing.kind, thing))


def _tell(mirror: Mirror, thing: Thing, said: Iterable[str]) -> None:
    mirror.misreads(thing, [f"{thing.kind} {thing.metadata.name}: {text}" for text in said])


def _enter(mirror: Mirror, thing: Thing, gone: bool) -> None:
    match thing.kind:
        case "Queue":
            _queue(mirror, thing, gone)
        case "ConfigMap":
            _of_yunikorn(mirror, thing, gone)
        case "Namespace":
            _of_namespace(mirror, thing, gone)
        case "LocalQueue":
            _local_queue(mirror, thing, gone)
        case "ElasticQuota" if thing.api_version.startswith(KOORDINATOR):
            _of_koordinator(mirror, thing, gone)
        case _:
            _named_queue(mirror, thing, gone)


def whose(thing: Thing) -> str:
    """Who declares a queue: the API group."""
    return thing.api_version.rpartition("/")[0]


def _queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name, spec = thing.metadata.name, thing.spec or {}
    if gone:
        mirror.queues.drop(whose(thing), name)
        return
    reading = Reading()
    if thing.api_version.startswith("scheduling.run.ai"):
        mirror.queues.put(whose(thing), _of_kai(name, spec, reading))
    else:
        state = str((thing.status or {}).get("state") or "")
        mirror.queues.put(whose(thing), _of_volcano(name, spec, state, reading), _volcano_trait(name, spec, reading))
    _tell(mirror, thing, reading.problems)


def _named_queue(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Queues whose names could be those of others say whose they are; quotas of a namespace have its name."""
    name, spec = thing.metadata.name, thing.spec or {}
    if thing.kind == "ElasticQuota":
        name = thing.metadata.namespace
    elif thing.kind == "Cohort":
        name = cohort(name)
    if gone:
        mirror.queues.drop(whose(thing), name)
    elif thing.kind == "ElasticQuota":
        quota = Queue(name, guarantee=_amounts(spec.get("min") or {}), limit=_amounts(spec.get("max") or {}))
        mirror.queues.put(whose(thing), quota)
    elif thing.kind == "Cohort":
        above = str(spec.get("parentName") or "")
        queue = Queue(name, parent=cohort(above) if above else "", guarantee=_kueue_sums(spec)[0])
        mirror.queues.put(whose(thing), queue)
    else:
        reading = Reading()
        mirror.queues.put(whose(thing), _of_kueue(name, spec, reading))
        _tell(mirror, thing, reading.problems)


def cohort(name: str) -> str:
    """A cohort as a queue."""
    return f"cohort {name}"


def _of_kueue(name: str, spec: dict[str, Any], reading: Reading) -> Queue:
    """What is nominal is guaranteed; in a cohort it may borrow, up to its limit. Kueue admits; we keep to its order."""
    above = str(spec.get("cohortName") or spec.get("cohort") or "")
    nominal, most = _kueue_sums(spec)
    closed = reading.one_of(spec.get("stopPolicy"), "spec.stopPolicy", ("None", "Hold", "HoldAndDrain")) != "None"
    order = reading.one_of(spec.get("queueingStrategy"), "spec.queueingStrategy", ("BestEffortFIFO", "StrictFIFO"))
    weight = _whole((spec.get("fairSharing") or {}).get("weight"), "spec.fairSharing.weight", reading)
    limit = most if above else nominal
    return Queue(
        name,
        parent=cohort(above) if above else "",
        guarantee=nominal,
        limit=limit,
        weight=weight,
        closed=closed,
        strict=order == "StrictFIFO",
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
        mirror.queues.local.pop(name, None)
    else:
        mirror.queues.local[name] = means
    mirror.dirty_gangs |= dict.fromkeys(mirror.gangs)


def _of_volcano(name: str, spec: dict[str, Any], state: str, reading: Reading) -> Queue:
    guarantee = (spec.get("guarantee") or {}).get("resource") or spec.get("deserved") or {}
    parent = str(spec.get("parent") or "")
    return Queue(
        name,
        parent="" if parent == "root" else parent,
        guarantee=_amounts(guarantee),
        limit=_amounts(spec.get("capability") or {}),
        weight=_whole(spec.get("weight"), "spec.weight", reading),
        closed=state in ("Closed", "Closing"),
        strict=reading.one_of(spec.get("dequeueStrategy"), "spec.dequeueStrategy", ("traverse", "fifo")) == "fifo",
    )


def _volcano_trait(name: str, spec: dict[str, Any], reading: Reading) -> Trait:
    """Whether others may take what its gangs have, and whether it is for some nodes only."""
    affinity = str(spec.get("affinity") or "")
    must = "required" in affinity
    if affinity and not must:
        reading.problems.append("spec.affinity is not read: groups of nodes are not known")
    refused = f"spec.affinity of the queue {name}" if must else ""
    return Trait(lasting=spec.get("reclaimable") is False, refused=refused)


def _of_kai(name: str, spec: dict[str, Any], reading: Reading) -> Queue:
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
        name,
        parent=str(spec.get("parentQueue") or ""),
        guarantee=guarantee,
        limit=limit,
        weight=max(weight, 1),
        min_run=max(
            reading.time(spec.get(field), f"spec.{field}") for field in ("preemptMinRuntime", "reclaimMinRuntime")
        ),
    )


def _of_koordinator(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """A quota by its own name, below the one it names; the one in a namespace is for whoever names none."""
    name, labels, spec = thing.metadata.name, thing.metadata.labels or {}, thing.spec or {}
    there = mirror.queues.quotas.setdefault(thing.metadata.namespace, {})
    if gone:
        there.pop(name, None)
        mirror.queues.drop(whose(thing), name)
    else:
        above = labels.get(f"{QUOTA}parent", "")
        there[name] = labels.get(f"{QUOTA}is-parent") != "true"
        guarantee, limit = _amounts(spec.get("min") or {}), _amounts(spec.get("max") or {})
        queue = Queue(name, parent="" if above in ROOTS else above, guarantee=guarantee, limit=limit)
        mirror.queues.put(whose(thing), queue)
    _mean_quota(mirror, thing.metadata.namespace)


def _mean_quota(mirror: Mirror, namespace: str) -> None:
    """Which quota is meant by pods of a namespace that name none: the one with its name, or the first by name."""
    names = [name for name, is_leaf in mirror.queues.quotas[namespace].items() if is_leaf]
    means = namespace if namespace in names else min(names, default="")
    if means == mirror.queues.local.get(f"{namespace}/", ""):
        return
    if means:
        mirror.queues.local[f"{namespace}/"] = means
    else:
        del mirror.queues.local[f"{namespace}/"]
    mirror.dirty_gangs |= dict.fromkeys(mirror.gangs)


def _of_yunikorn(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """The tree in the ConfigMap; one that cannot be read leaves things as they were."""
    import yaml  # noqa: PLC0415 - few have it

    try:
        written = {} if gone else yaml.safe_load((thing.data or {}).get("queues.yaml") or "{}")
        found = {
            queue.name: (queue, entry) for part in written.get("partitions") or [] for queue, entry in _tree(part, "")
        }
    except (yaml.YAMLError, AttributeError, TypeError, RecursionError):
        _tell(mirror, thing, ["queues.yaml cannot be read; the queues stay as they were"])
        return
    reading = Reading()
    traits = {name: _yunikorn_trait(name, entry, reading) for name, (_, entry) in found.items()}
    mirror.queues.replace(f"yunikorn {thing.metadata.namespace}", [queue for queue, _ in found.values()], traits)
    _tell(mirror, thing, reading.problems)


def _yunikorn_trait(name: str, entry: dict[str, Any], reading: Reading) -> Trait:
    """Properties of a queue that are about its gangs; those that are not read are told."""
    properties = {str(key): str(value) for key, value in (entry.get("properties") or {}).items()}
    for row in (row for row in TABLE["yunikorn"] if row.on == "queue"):
        if row.refuses(properties.get(row.name) if row.key != row.name else entry.get(row.name)):
            reading.problems.append(f"queue {name}: {row.key} is not read: {row.does}")
    known = {row.name for row in TABLE["yunikorn"] if row.on == "queue"}
    reading.problems += [f"queue {name}: property {key} is not known" for key in properties if key not in known]
    policy = reading.one_of(
        properties.get("preemption.policy"), f"queue {name}: preemption.policy", ("default", "fence", "disabled")
    )
    delay = reading.time(properties.get("preemption.delay"), f"queue {name}: preemption.delay")
    return Trait(lasting=policy == "disabled", polite=policy == "fence", preempts_after=delay)


def _tree(above: dict[str, Any], parent: str) -> Iterator[tuple[Queue, dict[str, Any]]]:
    """The queues below one, by their full names, as pods write them."""
    for entry in above.get("queues") or []:
        name = f"{parent}.{entry['name']}" if parent else str(entry["name"])
        resources = entry.get("resources") or {}
        guarantee, limit = (_amounts(_cores(resources.get(field) or {})) for field in ("guaranteed", "max"))
        yield Queue(name, parent=parent, guarantee=guarantee, limit=limit), entry
        yield from _tree(entry, name)


def _of_namespace(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """What YuniKorn has on a namespace: its quota, what it is guaranteed, and the queue it is below."""
    name, said = thing.metadata.name, thing.metadata.annotations or {}
    written = [said.get(f"{YUNIKORN}{field}") for field in ("namespace.guaranteed", "namespace.quota", "parentqueue")]
    if gone or not any(written):
        mirror.queues.drop(NAMESPACES, name)
        return
    guarantee, limit = (_amounts(_cores(decoded(text, dict[str, Any]))) if text else {} for text in written[:2])
    mirror.queues.put(NAMESPACES, Queue(name, parent=written[2] or "", guarantee=guarantee, limit=limit))


def _cores(written: dict[str, Any]) -> dict[str, Any]:
    """YuniKorn calls them vcore."""
    return {"cpu" if name == "vcore" else name: value for name, value in written.items()}


def _whole(written: object, what: str, reading: Reading) -> int:
    """A weight: 1 where it says nothing, at least 1, a part of one more as one."""
    if written is None:
        return 1
    try:
        weight = Fraction(str(written))
    except (ValueError, ZeroDivisionError):
        reading.problems.append(f"{what} is {str(written)[:40]!r}; write a whole number")
        return 1
    if weight < 1 or weight.denominator != 1:
        reading.problems.append(f"{what} is {str(written)[:40]!r}, which counts as {max(ceil(weight), 1)}")
    return max(ceil(weight), 1)


def _amounts(written: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in written.items():
        try:
            found[name] = amount(name, value)
        except BadQuantity:
            continue
    return found
