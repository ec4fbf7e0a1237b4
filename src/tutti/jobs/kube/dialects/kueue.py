"""Kueue's Workloads and its groups of plain pods. Kueue admits; then we place. We write nothing of its."""

from typing import Any

from tutti.engine.model import SECOND
from tutti.jobs.kube.declared import Declared, Member, Part, Reading, Segmented
from tutti.jobs.kube.objects import Pod, Thing

from .native import completion_index

NAME = "kueue"
GROUP = "kueue.x-k8s.io"
KINDS = {"Workload"}
PREFIX = f"{GROUP}/"
WORKLOAD, PODSET = f"{PREFIX}workload", f"{PREFIX}podset"
"""What Kueue writes on the pods of a job that it let in: the Workload it was let in as, and which of its sets it is."""
MAIN = "main"
"""The only set of a Workload that has one."""
GROUPED = f"{PREFIX}is-group-workload"
"""Annotation of a Workload for a group of plain pods, who say themselves how many they are."""
SLICE, REPLACES = f"{PREFIX}workload-slice-name", f"{PREFIX}workload-slice-replacement-for"
"""Annotations of jobs that grow by one Workload after the other; their pods are placed one by one."""
AT_ONCE = frozenset({"PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"})
"""Jobs that make the pods of all their sets at once; those of others may come one set after the other."""
LABEL, TOTAL = f"{PREFIX}pod-group-name", f"{PREFIX}pod-group-total-count"
MAX_TIME = f"{PREFIX}max-exec-time-seconds"
INDEX, INDEX_LABEL = f"{PREFIX}pod-group-pod-index", f"{PREFIX}pod-group-pod-index-label"
QUEUE, ADMITTED = f"{PREFIX}queue-name", f"{PREFIX}local-queue-name"
"""Where a user put the pod, and what Kueue writes on the pods of a Job that it let in: those say nothing else."""
ROLE = f"{PREFIX}role-hash"
SLICES = (f"{PREFIX}podset-slice-size", f"{PREFIX}podset-slice-required-topology")


def of_pod(pod: Pod) -> Member | None:
    """By the label of a group of plain pods, or by the Workload that a job was let in as."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    name = labels.get(LABEL)
    if not name and annotations.get(WORKLOAD) and SLICE not in annotations:
        return Member(NAME, _set_name(annotations[WORKLOAD], labels.get(PODSET, "")), rank=completion_index(pod))
    index = labels.get(annotations.get(INDEX_LABEL) or INDEX, "")
    return Member(NAME, name, annotations.get(ROLE, ""), int(index) if index.isdigit() else -1) if name else None


def _set_name(workload: str, name: str) -> str:
    return workload if name in ("", MAIN) else f"{workload}/{name}"


def declared(thing: Thing) -> list[Declared]:
    """A Workload: of each of its sets as many as were let in start together."""
    meta, spec, reading = thing.metadata, thing.spec or {}, Reading()
    annotations = meta.annotations or {}
    if annotations.get(GROUPED) == "true" or REPLACES in annotations:
        return []
    let_in, sizes = _let_in(thing.status or {}), {}
    for one in spec.get("podSets") or []:
        name = str(one.get("name") or MAIN)
        size = reading.least(let_in.get(name, one.get("count")), f"spec.podSets[{name}].count", lowest=0)
        sizes.update({_set_name(meta.name, name): size} if size else {})
    together = any(owner.kind in AT_ONCE for owner in meta.owner_references or []) and len(sizes) > 1
    partners = tuple(sorted(f"{meta.namespace}/{name}" for name in sizes)) if together else ()
    limit = reading.count(spec.get("maximumExecutionTimeSeconds"), "spec.maximumExecutionTimeSeconds")
    queue = str(spec.get("queueName") or "")
    return [
        Declared(
            NAME,
            meta.namespace,
            name,
            uid=meta.uid,
            min=size,
            partners=partners,
            local_queue=f"{meta.namespace}/{queue}" if queue else "",
            limit=limit * SECOND,
            over=_is_over(thing.status or {}),
            problems=tuple(reading.problems),
            unsupported=reading.refused,
            created=meta.creation_timestamp or "",
        )
        for name, size in sizes.items()
    ]


def _let_in(status: dict[str, Any]) -> dict[str, Any]:
    """How many of each set Kueue let in; they may be fewer than were asked for."""
    admission = status.get("admission") or {}
    return {str(one.get("name")): one.get("count") for one in admission.get("podSetAssignments") or []}


def _is_over(status: dict[str, Any]) -> bool:
    said = status.get("conditions") or []
    return any(one.get("type") == "Finished" and one.get("status") == "True" for one in said)


def local_queue(pod: Pod) -> str:
    """The queue a pod was put into, as its namespace calls it."""
    labels = pod.metadata.labels or {}
    name = labels.get(QUEUE) or labels.get(ADMITTED, "")
    return f"{pod.metadata.namespace}/{name}" if name else ""


def from_pod(pod: Pod, name: str) -> Declared | None:
    """The count and the topology, from annotations that every pod of the group carries."""
    annotations, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
    if TOTAL not in annotations:
        return None
    reading = Reading()
    size = reading.count(annotations.get(SLICES[0]), f"annotation {SLICES[0]}")
    level = annotations.get(SLICES[1], "")
    if bool(size) != bool(level):
        has, lacks = SLICES if size else SLICES[::-1]
        reading.problems.append(f"annotation {has} says nothing without {lacks}")
        reading.refused = f"annotation {has} without {lacks}"
    total = reading.least(annotations[TOTAL], f"annotation {TOTAL}")
    limit = reading.count(labels.get(MAX_TIME), f"label {MAX_TIME}")
    return Declared(
        NAME,
        pod.metadata.namespace,
        name,
        min=total,
        total=total,
        within=annotations.get(f"{PREFIX}podset-required-topology", ""),
        near=annotations.get(f"{PREFIX}podset-preferred-topology", ""),
        local_queue=local_queue(pod),
        parts={"": Part(segment=Segmented(level, size))} if size and level else {},
        time=reading.run_time(annotations) or limit * 1_000_000,
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )
