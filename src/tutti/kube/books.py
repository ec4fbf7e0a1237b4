"""Objects that are neither nodes nor pods: groups, topologies, priorities, volumes; entered in the mirror."""

from collections.abc import Callable

import msgspec

from tutti.jobs.kube.declared import Reading
from tutti.jobs.kube.objects import (
    Container,
    Meta,
    NodeSelector,
    NodeTerm,
    Pod,
    PodSpec,
    PodStatus,
    Requirement,
    Resources,
    Thing,
)
from tutti.jobs.kube.resources import read
from tutti.jobs.kube.wants import TAKEN_OVER, Reach

from .mirror import Mirror
from .tenants import read_queue
from .volumes import Attachment

ZONES = {
    f"{prefix}/{level}": f"topology.kubernetes.io/{level}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for level in ("region", "zone")
}
"""Labels of volumes, and those of the nodes that they mean."""
LASTING = "yunikorn.apache.org/allow-preemption"
JUNK = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
"""What comes of reading something that nobody could have meant."""


def read_thing(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Enter a change of any object; one that makes no sense is left out, told, and hides no other."""
    try:
        _read(mirror, thing, gone)
    except msgspec.DecodeError as problem:
        _misread(mirror, thing, gone, str(problem))
    except JUNK:
        _misread(mirror, thing, gone, "a field of its spec is not what the definition of its kind says")


def _misread(mirror: Mirror, thing: Thing, gone: bool, why: str) -> None:
    if not gone:
        mirror.misreads(thing, [f"{thing.kind} {thing.metadata.name} is not read: {why}"])


def _read(mirror: Mirror, thing: Thing, gone: bool) -> None:
    match thing.kind:
        case "PriorityClass":
            _priority(mirror, thing, gone)
        case "Queue" | "ClusterQueue" | "Cohort" | "ElasticQuota" | "LocalQueue" | "ConfigMap" | "Namespace":
            read_queue(mirror, thing, gone)
        case "Job":
            _job(mirror, thing, gone)
        case "Reservation":
            _reservation(mirror, thing, gone)
        case kind if kind in STORAGE:
            STORAGE[kind](mirror, thing, gone)
        case _ if gone:
            mirror.drop_thing(thing)
        case _:
            mirror.put_thing(thing)


def _priority(mirror: Mirror, thing: Thing, gone: bool) -> None:
    before, name = _ranks(mirror), thing.metadata.name
    mirror.priorities.drop(name)
    if not gone:
        mirror.priorities.put(name, thing.value, bool(thing.global_default))
        said, reading = (thing.metadata.annotations or {}).get(LASTING), Reading()
        if reading.one_of(said, f"annotation {LASTING}", ("true", "false")) == "false":
            mirror.priorities.lasting.add(name)
        if thing.preemption_policy == "Never":
            mirror.priorities.polite.add(name)
        mirror.misreads(thing, [f"PriorityClass {name}: {problem}" for problem in reading.problems])
    if before != _ranks(mirror):
        mirror.dirty_gangs |= dict.fromkeys(mirror.gangs)
    mirror.soil(key for key, group in mirror.groups.items() if group.priority_class == thing.metadata.name)


def _ranks(mirror: Mirror) -> tuple[int, frozenset[str], frozenset[str]]:
    """What priority classes say about gangs whose pods name them."""
    priorities = mirror.priorities
    return priorities.default, frozenset(priorities.lasting), frozenset(priorities.polite)


def _job(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Volcano's jobs say who schedules them, and how long they run, which nobody else reads."""
    spec, uid = thing.spec or {}, thing.metadata.uid
    length = 0 if gone else Reading().time(spec.get("runningEstimate"), "spec.runningEstimate")
    foreign = not gone and spec.get("schedulerName") not in (None, "", mirror.scheduler)
    if (mirror.estimates.get(uid, 0), uid in mirror.foreign_jobs) == (length, foreign):
        return
    mirror.estimates.pop(uid, None)
    if length:
        mirror.estimates[uid] = length
    (mirror.foreign_jobs.add if foreign else mirror.foreign_jobs.discard)(uid)
    mirror.soil(key for key, group in mirror.groups.items() if group.owner == uid)


def _reservation(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """What Koordinator has set aside on a node and nobody uses yet is taken, as by a pod of another scheduler."""
    status, uid = thing.status or {}, thing.metadata.uid
    mirror.drop_pod(uid)
    node = str(status.get("nodeName") or "")
    if gone or not node or status.get("phase") != "Available":
        return
    held, used = (read(status.get(field) or {}) for field in ("allocatable", "allocated"))
    left = {name: max(value - used.get(name, 0), 0) for name, value in held.items() if name != "pods"}
    asked: dict[str, str | int | float] = {n: f"{value}m" if n == "cpu" else value for n, value in left.items()}
    mirror.put_pod(
        Pod(
            Meta(name=f"reservation {thing.metadata.name}", uid=uid),
            PodSpec(node_name=node, containers=[Container(Resources(requests=asked))]),
            PodStatus(phase="Running"),
        )
    )


# -- volumes


def _claim(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name = f"{thing.metadata.namespace}/{thing.metadata.name}"
    bound = (thing.status or {}).get("phase") == "Bound"
    volume = str((thing.spec or {}).get("volumeName") or "")
    if gone:
        mirror.unbind_claim(name)
    else:
        alone = "ReadWriteOncePod" in ((thing.spec or {}).get("accessModes") or [])
        mirror.bind_claim(name, volume if bound else None, alone)


def _volume(mirror: Mirror, thing: Thing, gone: bool) -> None:
    spec = thing.spec or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    terms: tuple[NodeTerm, ...] = ()
    if required:
        terms = tuple(msgspec.convert(required, NodeSelector).node_selector_terms)
    zones = [Requirement(ZONES[key], "In", said.split("__")) for key, said in _zones(thing.metadata.labels or {})]
    if zones:
        terms = tuple(_within(term, zones) for term in terms or (NodeTerm(),))
    old = next((kind for kind in TAKEN_OVER if spec.get(kind) is not None), "")
    driver = TAKEN_OVER.get(old) or str((spec.get("csi") or {}).get("driver") or "")
    mirror.put_volume(thing.metadata.name, None if gone else Reach(terms, driver, old=old))


def _zones(labels: dict[str, str]) -> list[tuple[str, str]]:
    """Labels by which a volume says where it can be used; several zones are written a__b."""
    return sorted((key, said) for key, said in labels.items() if key in ZONES)


def _within(term: NodeTerm, zones: list[Requirement]) -> NodeTerm:
    return NodeTerm([*(term.match_expressions or []), *zones], term.match_fields)


def _registered(mirror: Mirror, thing: Thing, gone: bool) -> None:
    drivers = [] if gone else (thing.spec or {}).get("drivers") or []
    counts = {str(one.get("name")): (one.get("allocatable") or {}).get("count") for one in drivers}
    most = {name: count if isinstance(count, int) else None for name, count in counts.items()}
    mirror.put_registered(thing.metadata.name, most)


def _driver(mirror: Mirror, thing: Thing, gone: bool) -> None:
    demands = (thing.spec or {}).get("preventPodSchedulingIfMissing") is True
    mirror.put_driver(thing.metadata.name, demands and not gone)


def _attachment(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Whether it has been attached yet, and is being detached, does not matter: its place is taken."""
    spec = thing.spec or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName")
    said = Attachment(str(spec.get("nodeName") or ""), str(spec.get("attacher") or ""), str(volume or ""))
    mirror.put_attachment(thing.metadata.name, said if volume and not gone else None)


STORAGE: dict[str, Callable[[Mirror, Thing, bool], None]] = {
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "CSINode": _registered,
    "CSIDriver": _driver,
    "VolumeAttachment": _attachment,
}
