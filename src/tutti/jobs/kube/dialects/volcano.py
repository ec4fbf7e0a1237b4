"""Volcano, and kube-batch before it: a PodGroup with tasks, sub-groups, a queue and network tiers."""

from typing import Any

from tutti.jobs.kube.declared import TIME, Declared, Member, Part, Reading, Segmented
from tutti.jobs.kube.objects import Pod, Thing

from .native import completion_index

NAME = "volcano"
GROUPS = ("scheduling.volcano.sh", "scheduling.incubator.k8s.io", "scheduling.sigs.dev")
GROUP = GROUPS[0]
KINDS = {"PodGroup"}
ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TASK, INDEX = "volcano.sh/task-spec", "volcano.sh/task-index"
PREEMPTABLE, COOLDOWN = "volcano.sh/preemptable", "volcano.sh/cooldown-time"
BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""How many of a gang must stay. As it leaves whole or not at all, one that says so is not taken for others."""
SLA = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
TRUTH = ("true", "false")
QUEUE_LABEL = "volcano.sh/queue-name"
MIN_MEMBER, QUEUE = "scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/queue-name"


def of_pod(pod: Pod) -> Member | None:
    """By annotation; the task says which part it is."""
    annotations = pod.metadata.annotations or {}
    name = next((annotations[key] for key in ANNOTATIONS if annotations.get(key)), None)
    if name is None:
        return None
    both = {**(pod.metadata.labels or {}), **annotations}
    index = both.get(INDEX, "")
    return Member(NAME, name, both.get(TASK, ""), int(index) if index.isdigit() else completion_index(pod))


def declared(thing: Thing) -> list[Declared]:
    """A PodGroup of Volcano or of kube-batch."""
    spec, reading = thing.spec or {}, Reading()
    annotations = thing.metadata.annotations or {}
    least = reading.least(spec.get("minMember"), "spec.minMember", 0, 0)
    within, near = _topology(spec.get("networkTopology"), reading)
    if least == 0 and "minMember" in spec and not reading.refused:
        least = 1
    parts, in_groups = _parts(spec, reading)
    return [
        Declared(
            NAME,
            thing.metadata.namespace,
            thing.metadata.name,
            uid=thing.metadata.uid,
            min=max(least, in_groups),
            parts=parts,
            within=within,
            near=near,
            queue=str(spec.get("queue") or ""),
            priority_class=str(spec.get("priorityClassName") or ""),
            preemptible=reading.one_of(annotations.get(PREEMPTABLE), f"annotation {PREEMPTABLE}", TRUTH) == "true"
            and not any(key in annotations for key in BUDGETS),
            min_run=reading.time(annotations.get(COOLDOWN), f"annotation {COOLDOWN}"),
            max_wait=next(
                (reading.time(annotations[key], f"annotation {key}") for key in SLA if key in annotations), 0
            ),
            min_ask={str(k): str(v) for k, v in reading.mapping(spec.get("minResources"), "spec.minResources").items()},
            time=reading.time(annotations.get(TIME), f"annotation {TIME}"),
            problems=tuple(reading.problems),
            unsupported=reading.refused,
            created=thing.metadata.creation_timestamp or "",
            owner=next((one.uid for one in thing.metadata.owner_references or [] if one.kind == "Job"), ""),
        )
    ]


def from_pod(pod: Pod, name: str) -> Declared | None:
    """Annotations that Volcano's own controller would turn into a PodGroup."""
    annotations = pod.metadata.annotations or {}
    if MIN_MEMBER not in annotations:
        return None
    reading = Reading()
    return Declared(
        NAME,
        pod.metadata.namespace,
        name,
        min=reading.least(annotations[MIN_MEMBER], f"annotation {MIN_MEMBER}"),
        queue=annotations.get(QUEUE, ""),
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )


def _topology(written: Any, reading: Reading) -> tuple[str, str]:
    """Required and preferred tier: hard is required, soft is preferred."""
    topology = reading.mapping(written, "networkTopology")
    if not topology:
        return "", ""
    tier = topology.get("highestTierName") or topology.get("highestTierAllowed")
    mode = reading.one_of(topology.get("mode"), "networkTopology.mode", ("hard", "soft"))
    level = f"tier:{tier}" if tier is not None else ""
    return (level, "") if mode == "hard" else ("", level or "tier:1")


def _parts(spec: dict[str, Any], reading: Reading) -> tuple[dict[str, Part], int]:
    """Tasks with their minimums, sub-groups with their domains, and how many members the sub-groups need."""
    tasks = reading.mapping(spec.get("minTaskMember"), "spec.minTaskMember")
    if not tasks and spec.get("minTaskMember"):
        reading.refused = "spec.minTaskMember"
    parts = {str(name): Part(reading.least(n, f"minTaskMember.{name}", 0, 0)) for name, n in tasks.items()}
    policies = spec.get("subGroupPolicy") or []
    if len(policies) == 1 and isinstance(policies[0], dict):
        policy = policies[0]
        size = reading.count(policy.get("subGroupSize"), "subGroupPolicy.subGroupSize", 1, 1)
        within, near = _topology(policy.get("networkTopology"), reading)
        if near:
            reading.refused = reading.refused or "spec.subGroupPolicy.networkTopology.mode: soft"
        for field in ("labelSelector", "matchLabelKeys"):
            if policy.get(field):
                reading.refused = reading.refused or f"spec.subGroupPolicy.{field}"
        least = reading.count(policy.get("minSubGroups"), "subGroupPolicy.minSubGroups", 0) * size
        if within:
            segment = Segmented(within, size)
            parts = {name: Part(part.min, segment=segment) for name, part in {"": Part(), **parts}.items()}
        return parts, least
    if policies:
        reading.problems.append("spec.subGroupPolicy has several entries; one is supported")
        reading.refused = reading.refused or "spec.subGroupPolicy with several entries"
    return parts, 0
