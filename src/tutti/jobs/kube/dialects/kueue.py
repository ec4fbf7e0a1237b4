"""Kueue's groups of plain pods. Kueue admits; when its gates are gone we place. We write nothing of its."""

from tutti.jobs.kube.declared import TIME, Declared, Member, Part, Reading, Segmented
from tutti.jobs.kube.objects import Pod

NAME = "kueue"
GROUP = ""
KINDS: set[str] = set()
PREFIX = "kueue.x-k8s.io/"
LABEL, TOTAL = f"{PREFIX}pod-group-name", f"{PREFIX}pod-group-total-count"
MAX_TIME = f"{PREFIX}max-exec-time-seconds"
INDEX, INDEX_LABEL = f"{PREFIX}pod-group-pod-index", f"{PREFIX}pod-group-pod-index-label"
QUEUE, ADMITTED = f"{PREFIX}queue-name", f"{PREFIX}local-queue-name"
"""Where a user put the pod, and what Kueue writes on the pods of a Job that it let in: those say nothing else."""
ROLE = f"{PREFIX}role-hash"
SLICES = (f"{PREFIX}podset-slice-size", f"{PREFIX}podset-slice-required-topology")


def of_pod(pod: Pod) -> Member | None:
    """By label."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    name = labels.get(LABEL)
    index = labels.get(annotations.get(INDEX_LABEL) or INDEX, "")
    return Member(NAME, name, annotations.get(ROLE, ""), int(index) if index.isdigit() else -1) if name else None


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
        time=reading.time(annotations.get(TIME), f"annotation {TIME}") or limit * 1_000_000,
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )
