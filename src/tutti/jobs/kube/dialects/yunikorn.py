"""YuniKorn: task groups in an annotation of the first pod; no object. We need no placeholders."""

from typing import Any

import msgspec

from tutti.jobs.kube.declared import TIME, Declared, Member, Part, Reading
from tutti.jobs.kube.objects import Pod

from .native import completion_index

NAME = "yunikorn"
GROUP = ""
KINDS: set[str] = set()
APP, QUEUE = "yunikorn.apache.org/app-id", "yunikorn.apache.org/queue"
TASK_GROUPS, TASK_GROUP = "yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name"


def of_pod(pod: Pod) -> Member | None:
    """By application; pods outside any task group are scheduled one by one."""
    both = {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}
    part = both.get(TASK_GROUP, "")
    name = both.get(APP) or both.get("applicationId") or both.get("spark-app-selector")
    return Member(NAME, name, part, completion_index(pod)) if name and part else None


def from_pod(pod: Pod, name: str) -> Declared | None:
    """The task groups, from the pod that carries them."""
    both = {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}
    written = both.get(TASK_GROUPS)
    if written is None:
        return None
    reading = Reading()
    parts = {}
    for group in _groups(written, reading):
        part = str(group.get("name", ""))
        parts[part] = Part(reading.least(group.get("minMember"), f"task group {part!r}: minMember"))
    return Declared(
        NAME,
        pod.metadata.namespace,
        name,
        min=sum(part.min for part in parts.values()) or 1,
        parts=parts,
        queue=both.get(QUEUE) or both.get("queue") or "",
        time=reading.time(both.get(TIME), f"annotation {TIME}"),
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )


def _groups(written: str, reading: Reading) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(written, type=list[dict[str, Any]])
    except msgspec.MsgspecError:
        reading.problems.append(f"annotation {TASK_GROUPS} is not a JSON list of task groups")
        return []
