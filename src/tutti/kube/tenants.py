"""Queues of the dialects: quotas, trees and weights, read and never written."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from tutti.engine.model import Bound, Queue
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
ENTRY = frozenset({"name", "parent", "queues", "resources", "properties", "maxapplications", "limits"}) | {
    row.name for row in TABLE["yunikorn"] if row.on == "queue"
}
"""What may be said of a queue of YuniKorn."""
LIMIT = frozenset({"limit", "users", "groups", "maxapplications", "maxresources"})
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

    reading = Reading()
    try:
        written = {} if gone else yaml.safe_load((thing.data or {}).get("queues.yaml") or "{}")
        partitions = written.get("partitions") or []
        found = {entry.name: entry for part in partitions for entry in _tree(part, "", reading)}
        for part in (part for part in partitions if part.get("limits")):
            reading.problems.append(f"partition {part.get('name')}: limits are not read; write them on its queue root")
    except (yaml.YAMLError, AttributeError, TypeError, RecursionError):
        _tell(mirror, thing, ["queues.yaml cannot be read; the queues stay as they were"])
        return
    queues, traits = [entry.queue for entry in found.values()], {name: entry.trait for name, entry in found.items()}
    mirror.queues.replace(f"yunikorn {thing.metadata.namespace}", queues, traits)
    _tell(mirror, thing, reading.problems)


def _yunikorn_trait(name: str, entry: dict[str, Any], bounds: tuple[Bound, ...], reading: Reading) -> Trait:
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
    by_user = any(bound.users or bound.groups for bound in bounds)
    return Trait(policy == "disabled", policy == "fence", delay, by_user=by_user, applications=True)


class Entry(NamedTuple):
    """A queue of YuniKorn's tree."""

    queue: Queue
    trait: Trait

    @property
    def name(self) -> str:
        """Its full name, as pods write it."""
        return self.queue.name


def _tree(above: dict[str, Any], parent: str, reading: Reading) -> Iterator[Entry]:
    """The queues below one."""
    for entry in above.get("queues") or []:
        name = f"{parent}.{entry['name']}" if parent else str(entry["name"])
        resources = entry.get("resources") or {}
        guarantee, limit = (_amounts(_cores(resources.get(field) or {})) for field in ("guaranteed", "max"))
        most = _most(entry.get("maxapplications"), f"queue {name}: maxapplications", reading)
        bounds = tuple(_bounds(entry.get("limits") or [], f"queue {name}: limits", reading))
        reading.problems += [f"queue {name}: {key} is not known and not read" for key in entry if key not in ENTRY]
        queue = Queue(name, parent=parent, guarantee=guarantee, limit=limit, max_running=most, bounds=bounds)
        yield Entry(queue, _yunikorn_trait(name, entry, bounds, reading))
        yield from _tree(entry, name, reading)


def _most(written: object, what: str, reading: Reading) -> int | None:
    """So many at once; none, and what makes no sense, is any number."""
    return reading.count(written, what) or None


def _bounds(written: Any, what: str, reading: Reading) -> Iterator[Bound]:
    """What users and groups may have, limit by limit."""
    for at, limit in enumerate(written if isinstance(written, list) else [written]):
        here = f"{what}[{at}]"
        if not isinstance(limit, dict):
            reading.problems.append(f"{here} is not a mapping with users or groups")
            continue
        users, groups = (_names(limit.get(field), f"{here}.{field}", reading) for field in ("users", "groups"))
        amounts = _amounts(_cores(reading.mapping(limit.get("maxresources"), f"{here}.maxresources")))
        most = _most(limit.get("maxapplications"), f"{here}.maxapplications", reading)
        unknown = sorted(str(key) for key in limit.keys() - LIMIT)
        reading.problems += [f"{here}.{key} is not known and not read" for key in unknown]
        if not (users or groups):
            reading.problems.append(f"{here} is about nobody; write users or groups")
        elif not amounts and most is None:
            reading.problems.append(f"{here} limits nothing; write maxapplications or maxresources")
        else:
            yield Bound(users, groups, most, amounts)


def _names(written: object, what: str, reading: Reading) -> tuple[str, ...]:
    if written is None or (isinstance(written, list) and all(isinstance(name, str) for name in written)):
        return tuple(written or ())
    reading.problems.append(f"{what} is not a list of names")
    return ()


def _of_namespace(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """What YuniKorn has on a namespace: its quota, what it is guaranteed, and the queue it is below."""
    name, said = thing.metadata.name, thing.metadata.annotations or {}
    fields = ("namespace.guaranteed", "namespace.quota", "parentqueue", "namespace.maxApps")
    written = [said.get(f"{YUNIKORN}{field}") for field in fields]
    if gone or not any(written):
        mirror.queues.drop(NAMESPACES, name)
        return
    guarantee, limit = (_amounts(_cores(decoded(text, dict[str, Any]))) if text else {} for text in written[:2])
    reading = Reading()
    most = _most(written[3], f"annotation {YUNIKORN}namespace.maxApps", reading)
    queue = Queue(name, parent=written[2] or "", guarantee=guarantee, limit=limit, max_running=most)
    mirror.queues.put(NAMESPACES, queue, Trait(applications=True))
    _tell(mirror, thing, reading.problems)


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
