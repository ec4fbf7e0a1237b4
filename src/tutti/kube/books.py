"""Objects that are neither nodes nor pods: groups, topologies, priorities, volumes; entered in the mirror."""

import msgspec

from tutti.jobs.kube.declared import Reading
from tutti.jobs.kube.objects import NodeSelector, NodeTerm, Thing
from tutti.jobs.kube.wants import Reach

from .mirror import Mirror
from .tenants import read_queue


def read_thing(mirror: Mirror, thing: Thing, gone: bool) -> None:
    """Enter a change of any object."""
    match thing.kind:
        case "PriorityClass":
            _priority(mirror, thing, gone)
        case "Queue" | "ClusterQueue" | "Cohort" | "ElasticQuota" | "LocalQueue" | "ConfigMap":
            read_queue(mirror, thing, gone)
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


# -- volumes


def _claim(mirror: Mirror, thing: Thing, gone: bool) -> None:
    name = f"{thing.metadata.namespace}/{thing.metadata.name}"
    bound = (thing.status or {}).get("phase") == "Bound"
    volume = str((thing.spec or {}).get("volumeName") or "")
    if gone:
        mirror.volumes.unbind(name)
    else:
        alone = "ReadWriteOncePod" in ((thing.spec or {}).get("accessModes") or [])
        mirror.bind_claim(name, volume if bound else None, alone)


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
