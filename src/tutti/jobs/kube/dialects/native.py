"""Kubernetes' own groups, in three generations: Workload (1.35), PodGroup (1.36), PodGroup and trees of them (1.37)."""

from typing import Any

from tutti.jobs.kube.declared import Declared, Member, Part, Reading
from tutti.jobs.kube.objects import Pod, Thing

NAME = "native"
KINDS = {"PodGroup", "Workload", "CompositePodGroup"}
GROUP = "scheduling.k8s.io"
CONDITIONS = ("PodGroupInitiallyScheduled", "PodGroupScheduled", "CompositePodGroupInitiallyScheduled")
POLICIES = ("PreemptLowerPriority", "Never")
RANKS = (
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
)
"""Labels by which Indexed Jobs, stateful sets and Kubeflow number their pods."""


def of_pod(pod: Pod) -> Member | None:
    """By field: schedulingGroup, or in 1.35 workloadRef."""
    if pod.spec.scheduling_group is not None and pod.spec.scheduling_group.pod_group_name:
        return Member(NAME, pod.spec.scheduling_group.pod_group_name, rank=completion_index(pod))
    ref = pod.spec.workload_ref
    if ref is not None and ref.name:
        names = [ref.name, ref.pod_group, ref.pod_group_replica_key]
        return Member(NAME, "/".join(name for name in names if name), rank=completion_index(pod))
    return None


def completion_index(pod: Pod) -> int:
    """The rank that whoever made a pod has written on it."""
    labels = {**(pod.metadata.annotations or {}), **(pod.metadata.labels or {})}
    for key in RANKS:
        if labels.get(key, "").isdigit():
            return int(labels[key])
    return -1


def declared(thing: Thing) -> list[Declared]:
    """One group per PodGroup; several per Workload of the first generation."""
    if thing.kind == "Workload":
        return _first_generation(thing) if thing.api_version.endswith("v1alpha1") else []
    return [_group(thing, thing.metadata.name, thing.spec or {}, "schedulingPolicy")]


def _first_generation(thing: Thing) -> list[Declared]:
    groups = (thing.spec or {}).get("podGroups") or []
    return [_group(thing, f"{thing.metadata.name}/{group.get('name', '')}", group, "policy") for group in groups]


def _group(thing: Thing, name: str, spec: dict[str, Any], policy_key: str) -> Declared:
    reading = Reading()
    policy = reading.mapping(spec.get(policy_key), policy_key)
    gang = policy.get("gang")
    count = gang.get("minCount", gang.get("minGroupCount")) if isinstance(gang, dict) else None
    return Declared(
        NAME,
        thing.metadata.namespace,
        name,
        uid=thing.metadata.uid,
        min=reading.least(count, f"{policy_key}.gang.minCount") if gang is not None else 0,
        within=_topology(spec, reading),
        priority=spec.get("priority") if isinstance(spec.get("priority"), int) else None,
        priority_class=str(spec.get("priorityClassName") or ""),
        may_preempt=reading.one_of(spec.get("preemptionPolicy"), "preemptionPolicy", POLICIES) != "Never",
        whole=_is_whole(spec.get("disruptionMode"), reading),
        loose=gang is None,
        time=reading.run_time(thing.metadata.annotations),
        parent=str(spec.get("parentCompositePodGroupName") or ""),
        is_tree=thing.kind == "CompositePodGroup",
        problems=tuple(reading.problems),
        unsupported=reading.refused or ("spec.resourceClaims" if spec.get("resourceClaims") else ""),
        created=thing.metadata.creation_timestamp or "",
        scheduled=_was_scheduled(thing),
    )


def _is_whole(written: Any, reading: Reading) -> bool:
    """Whether it is disrupted whole or not at all: a word in 1.36, an object with one key since."""
    said = next(iter(written), "") if isinstance(written, dict) and len(written) == 1 else written
    return reading.one_of(said, "disruptionMode", ("single", "Pod", "all", "PodGroup")) in ("all", "PodGroup")


def _was_scheduled(thing: Thing) -> bool:
    conditions = (thing.status or {}).get("conditions") or []
    return any(c.get("type") in CONDITIONS and c.get("status") == "True" for c in conditions if isinstance(c, dict))


def _topology(spec: dict[str, Any], reading: Reading) -> str:
    constraints = reading.mapping(spec.get("schedulingConstraints"), "schedulingConstraints")
    topology = constraints.get("topology")
    first = topology[0] if isinstance(topology, list) and topology else {}
    if isinstance(topology, list) and len(topology) > 1:
        reading.refused = reading.refused or "schedulingConstraints.topology with several entries"
    return str(first.get("key") or "") if isinstance(first, dict) else ""


def merged(root: Declared, inside: list[Declared]) -> Declared:
    """A tree of groups as one gang: every group without others below it is a part, with its own minimum and domain."""
    trees = [root, *(group for group in inside if group.is_tree)]
    children = sorted((group for group in inside if not group.is_tree), key=lambda group: group.name)
    parts = {child.name: Part(child.min, child.within) for child in children}
    unsupported = next((group.unsupported for group in (root, *inside) if group.unsupported), "")
    unsupported = unsupported or next((why for tree in trees if (why := _beyond(tree, root, inside))), "")
    if any(child.loose for child in children):
        unsupported = unsupported or "schedulingPolicy.basic inside a CompositePodGroup"
    priority = max((child.priority for child in children if child.priority is not None), default=None)
    changes = {
        "min": sum(child.min for child in children),
        "parts": parts,
        "loose": False,
        "whole": any(group.whole for group in (root, *inside)),
        "may_preempt": all(group.may_preempt for group in (root, *inside)),
        "unsupported": unsupported,
        "problems": tuple(problem for declared in (root, *inside) for problem in declared.problems),
        "priority": root.priority if root.priority is not None or root.priority_class else priority,
        "priority_class": root.priority_class or next((c.priority_class for c in children if c.priority_class), ""),
    }
    return Declared(**({name: getattr(root, name) for name in Declared.__struct_fields__} | changes))


def _beyond(tree: Declared, root: Declared, inside: list[Declared]) -> str:
    """What a composite asks for that cannot be had; nothing where all of it can."""
    below = [group for group in inside if group.parent == tree.name]
    if 0 < tree.min < len(below):
        return f"minGroupCount {tree.min} of {len(below)} groups in a tree of trees"
    if tree is not root and tree.within and len(below) > 1:
        return f"schedulingConstraints.topology of the inner CompositePodGroup {tree.name}"
    return ""
