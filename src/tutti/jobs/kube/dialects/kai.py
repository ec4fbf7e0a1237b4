"""KAI: a PodGroup with a tree of sub-groups, each with its own minimum and its own place in the topology."""

from typing import Any

from tutti.jobs.kube.declared import TIME, Declared, Member, Part, Reading
from tutti.jobs.kube.objects import Pod, Thing

from .native import completion_index

NAME = "kai"
GROUP = "scheduling.run.ai"
KINDS = {"PodGroup"}
ANNOTATION, SUBGROUP = "pod-group-name", "kai.scheduler/subgroup-name"
QUEUE = "kai.scheduler/queue"
LASTS = 100
"""Groups of this priority and above are not preempted, unless they say that they may be."""


def of_pod(pod: Pod) -> Member | None:
    """By annotation; a label names the sub-group."""
    name = (pod.metadata.annotations or {}).get(ANNOTATION)
    part = (pod.metadata.labels or {}).get(SUBGROUP, "")
    return Member(NAME, name, part, completion_index(pod)) if name else None


def declared(thing: Thing) -> list[Declared]:
    """A PodGroup."""
    spec, reading = thing.spec or {}, Reading()
    within, near = _topology(spec.get("topologyConstraint"), reading)
    parts, unsupported = _subgroups(spec, reading)
    grace = str(spec.get("stalenessGracePeriod") or "")
    labels = thing.metadata.labels or {}
    said = spec.get("preemptibility") or labels.get("kai.scheduler/preemptibility")
    return [
        Declared(
            NAME,
            thing.metadata.namespace,
            thing.metadata.name,
            uid=thing.metadata.uid,
            min=sum(p.min for p in parts.values()) or reading.least(spec.get("minMember"), "spec.minMember"),
            parts=parts,
            within=within,
            near=near,
            queue=str(spec.get("queue") or labels.get(QUEUE) or ""),
            priority_class=str(spec.get("priorityClassName") or ""),
            preemptible=said != "non-preemptible",
            preemptible_below=LASTS if not said else None,
            never_stale=grace.startswith("-"),
            hold_up_to=reading.time(grace, "spec.stalenessGracePeriod") if grace and not grace.startswith("-") else -1,
            time=reading.time((thing.metadata.annotations or {}).get(TIME), f"annotation {TIME}"),
            problems=tuple(reading.problems),
            unsupported=reading.refused or unsupported,
            created=thing.metadata.creation_timestamp or "",
        )
    ]


def _topology(written: Any, reading: Reading) -> tuple[str, str]:
    topology = reading.mapping(written, "topologyConstraint")
    return str(topology.get("requiredTopologyLevel") or ""), str(topology.get("preferredTopologyLevel") or "")


def _subgroups(spec: dict[str, Any], reading: Reading) -> tuple[dict[str, Part], str]:
    """The leaves of the tree; a domain asked for by an inner node is supported only where it has one child."""
    groups = [dict(entry) for entry in spec.get("subGroups") or [] if isinstance(entry, dict)]
    names = {str(group.get("name")) for group in groups}
    parents = {str(group.get("parent")) for group in groups if group.get("parent")}
    if unknown := sorted(parents - names):
        reading.problems.append(f"spec.subGroups: no sub-group is called {unknown[0]!r}")
    parts: dict[str, Part] = {}
    for group in groups:
        name = str(group.get("name"))
        within, near = _topology(group.get("topologyConstraint"), reading)
        if name not in parents:
            parts[name] = Part(reading.least(group.get("minMember"), f"subGroups.{name}.minMember"), within, near)
        elif within and sum(str(other.get("parent")) == name for other in groups) > 1:
            return parts, f"spec.subGroups.{name}.topologyConstraint of an inner sub-group"
    return parts, next((why for above in ({}, *groups) if (why := _partial(above or spec, above, groups))), "")


def _partial(holder: dict[str, Any], above: dict[str, Any], groups: list[dict[str, Any]]) -> str:
    """A minimum of sub-groups below the number there are of them, of the whole group or of one inside."""
    below = [group for group in groups if str(group.get("parent") or "") == str(above.get("name") or "")]
    least, place = holder.get("minSubGroup"), f"subGroups.{above.get('name')}." if above else ""
    lacks = isinstance(least, int) and 0 < least < len(below)
    return f"spec.{place}minSubGroup {least} of {len(below)}" if lacks else ""
