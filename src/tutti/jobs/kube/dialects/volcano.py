"""Volcano, and kube-batch before it: a PodGroup with tasks, sub-groups, a queue and network tiers."""

from typing import Any

import msgspec

from tutti.jobs.kube.declared import Declared, Member, Part, Reading, Segmented, Sorting
from tutti.jobs.kube.objects import LabelSelector, Pod, Thing

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
    parts, in_groups, sorting = _parts(spec, reading)
    return [
        Declared(
            NAME,
            thing.metadata.namespace,
            thing.metadata.name,
            uid=thing.metadata.uid,
            min=max(least, in_groups),
            parts=parts,
            sorting=sorting,
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
            time=reading.run_time(annotations),
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


def _parts(spec: dict[str, Any], reading: Reading) -> tuple[dict[str, Part], int, Sorting | None]:
    """Tasks with their minimums, sub-groups with their domains, how many members they need, and who is in them."""
    tasks = reading.mapping(spec.get("minTaskMember"), "spec.minTaskMember")
    if not tasks and spec.get("minTaskMember"):
        reading.refused = "spec.minTaskMember"
    parts = {str(name): Part(reading.least(n, f"minTaskMember.{name}", 0, 0)) for name, n in tasks.items()}
    policies = spec.get("subGroupPolicy") or []
    if len(policies) == 1 and isinstance(policies[0], dict):
        return _subgroups(policies[0], parts, reading)
    if policies:
        reading.problems.append("spec.subGroupPolicy has several entries; one is supported")
        reading.refused = reading.refused or "spec.subGroupPolicy with several entries"
    return parts, 0, None


def _subgroups(
    policy: dict[str, Any], parts: dict[str, Part], reading: Reading
) -> tuple[dict[str, Part], int, Sorting | None]:
    """Sub-groups in a domain each: so many members in order of rank, or those whose labels are the same."""
    size = reading.count(policy.get("subGroupSize"), "subGroupPolicy.subGroupSize", 1, 1)
    least = reading.count(policy.get("minSubGroups"), "subGroupPolicy.minSubGroups", 0) * size
    within, near = _topology(policy.get("networkTopology"), reading)
    if near:
        reading.refused = reading.refused or "spec.subGroupPolicy.networkTopology.mode: soft"
    sorting = _sorting(policy, reading)
    if not within:
        return parts, least, None
    if sorting is None:
        segment = Segmented(within, size)
        return {name: Part(part.min, segment=segment) for name, part in {"": Part(), **parts}.items()}, least, None
    # Such a group starts whole, or it is refused; then every task has its minimum.
    inside = Part(within=within) if sorting.keys else Part(segment=Segmented(within, size))
    return {sorting.name: inside}, least, sorting


def _sorting(policy: dict[str, Any], reading: Reading) -> Sorting | None:
    """How labels say which pods are in sub-groups, and which are in one together."""
    keys, chosen = policy.get("matchLabelKeys") or [], policy.get("labelSelector")
    if not keys and not chosen:
        return None
    name = f"sub-group {policy.get('name') or ''}".strip()
    try:
        picked = msgspec.convert(chosen, LabelSelector) if chosen else None
        return Sorting(name, picked, msgspec.convert(keys, tuple[str, ...]))
    except msgspec.ValidationError as problem:
        reading.problems.append(f"spec.subGroupPolicy: {problem}")
        reading.refused = reading.refused or "spec.subGroupPolicy"
        return None
