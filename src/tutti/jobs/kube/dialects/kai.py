"""KAI: a PodGroup with a tree of sub-groups, each with its own minimum and its own place in the topology."""

from typing import Any

from tutti.jobs.kube.declared import Declared, Member, Part, Reading, Segmented
from tutti.jobs.kube.objects import Pod, Thing

from .native import completion_index

NAME = "kai"
GROUP = "scheduling.run.ai"
KINDS = {"PodGroup"}
ANNOTATION, SUBGROUP = "pod-group-name", "kai.scheduler/subgroup-name"
PREFIX = "kai.scheduler/"
QUEUE, PROJECT = f"{PREFIX}queue", "project"
POOL = f"{PREFIX}node-pool"
MIN, SEGMENT = f"{PREFIX}batch-min-member", f"{PREFIX}segment-size"
REQUIRED, PREFERRED = f"{PREFIX}topology-required-placement", f"{PREFIX}topology-preferred-placement"
SEGMENT_REQUIRED = f"{PREFIX}segment-topology-required-placement"
PREEMPTIBILITY, DELAY, GRACE = f"{PREFIX}preemptibility", f"{PREFIX}preemption-delay", f"{PREFIX}staleness-grace-period"
CLASS = "priorityClassName"
SKIP = f"{PREFIX}skip-podgrouper"
GROUPING = (MIN, REQUIRED, PREFERRED, SEGMENT)
"""Annotations that say something of all pods of one owner; KAI's podgrouper would make a group of them."""
WORDS = ("", "preemptible", "non-preemptible")
LASTS = 100
"""Groups of this priority and above are not preempted, unless they say that they may be."""


def of_pod(pod: Pod) -> Member | None:
    """By annotation; a label names the sub-group."""
    name = (pod.metadata.annotations or {}).get(ANNOTATION) or _of_owner(pod)
    part = (pod.metadata.labels or {}).get(SUBGROUP, "")
    return Member(NAME, name, part, completion_index(pod)) if name else None


def _of_owner(pod: Pod) -> str:
    """The group that the podgrouper would make for pods of one owner, where they ask for something together."""
    annotations = pod.metadata.annotations or {}
    if not any(key in annotations for key in GROUPING) or SKIP in {**annotations, **(pod.metadata.labels or {})}:
        return ""
    owner = next((one for one in pod.metadata.owner_references or [] if one.controller), None)
    return "-".join(filter(None, ("pg", owner.name, owner.uid))) if owner is not None else ""


def ownerless(pod: Pod) -> str:
    """What is wrong with a pod that is to start with others of an owner it does not have."""
    annotations = pod.metadata.annotations or {}
    if MIN not in annotations or of_pod(pod) is not None or SKIP in {**annotations, **(pod.metadata.labels or {})}:
        return ""
    return f"annotation {MIN} without a controller or {ANNOTATION}" if annotations[MIN] not in ("", "0", "1") else ""


def from_pod(pod: Pod, name: str) -> Declared | None:
    """What the podgrouper would write into the group, from the pods, where there is no podgrouper."""
    annotations, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
    if not any(key in annotations for key in GROUPING):
        return None
    reading = Reading()
    segment = _segment(annotations, reading)
    said = reading.one_of(labels.get(PREEMPTIBILITY), f"label {PREEMPTIBILITY}", WORDS)
    return Declared(
        NAME,
        pod.metadata.namespace,
        name,
        min=reading.least(annotations.get(MIN), f"annotation {MIN}"),
        within=annotations.get(REQUIRED, ""),
        near=annotations.get(PREFERRED, ""),
        parts={"": Part(segment=segment)} if segment else {},
        queue=labels.get(QUEUE) or labels.get(PROJECT) or "",
        priority_class=labels.get(CLASS, ""),
        preemptible=said != "non-preemptible",
        preemptible_below=LASTS if not said else None,
        time=reading.run_time(annotations),
        preempts_after=reading.time(annotations.get(DELAY), f"annotation {DELAY}"),
        **_grace(annotations.get(GRACE), f"annotation {GRACE}", reading),
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )


def _segment(annotations: dict[str, str], reading: Reading) -> Segmented | None:
    """So many members in a domain each; both annotations are needed."""
    size, level = annotations.get(SEGMENT), annotations.get(SEGMENT_REQUIRED, "")
    if size is None and not level:
        return None
    count = reading.count(size, f"annotation {SEGMENT}", 1)
    if count and level:
        return Segmented(level, count)
    reading.refused = reading.refused or f"annotations {SEGMENT} and {SEGMENT_REQUIRED}, which need each other"
    return None


def _grace(written: object, what: str, reading: Reading) -> dict[str, Any]:
    """How long a group may stay below its minimum; below zero: for ever."""
    grace = str(written or "")
    if grace.startswith("-"):
        return {"never_stale": True}
    return {"hold_up_to": reading.time(grace, what) if grace else -1}


def declared(thing: Thing) -> list[Declared]:
    """A PodGroup."""
    spec, reading = thing.spec or {}, Reading()
    within, near = _topology(spec.get("topologyConstraint"), reading)
    parts, unsupported = _subgroups(spec, reading)
    labels = thing.metadata.labels or {}
    said = reading.one_of(spec.get("preemptibility") or labels.get(PREEMPTIBILITY), "spec.preemptibility", WORDS)
    if spec.get("minMember") is not None and spec.get("minSubGroup") is not None:
        reading.problems.append("spec has minMember and minSubGroup; write one of them")
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
            preempts_after=reading.time(spec.get("preemptionDelay"), "spec.preemptionDelay"),
            pool=labels.get(POOL, ""),
            **_grace(spec.get("stalenessGracePeriod"), "spec.stalenessGracePeriod", reading),
            time=reading.run_time(thing.metadata.annotations),
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
