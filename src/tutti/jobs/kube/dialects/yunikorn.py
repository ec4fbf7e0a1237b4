"""YuniKorn: task groups in an annotation of the first pod; no object. We need no placeholders."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tutti.jobs.kube.declared import Declared, Member, Part, Reading
from tutti.jobs.kube.objects import Pod
from tutti.jobs.kube.written import decoded

from .native import completion_index

NAME = "yunikorn"
GROUP = ""
KINDS: set[str] = set()
APP, QUEUE = "yunikorn.apache.org/app-id", "yunikorn.apache.org/queue"
POLICY = "yunikorn.apache.org/schedulingPolicyParameters"
USER = "yunikorn.apache.org/user.info"
UNIQUE = "-uniqueautogen"
"""How a name ends that YuniKorn's admission controller writes where each pod is to be an application."""
PARAMETERS = ("placeholderTimeoutInSeconds", "gangSchedulingStyle")
TASK_GROUPS, TASK_GROUP = "yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name"


class User(msgspec.Struct, frozen=True):
    """Somebody, as YuniKorn writes it on pods."""

    user: str = ""
    groups: tuple[str, ...] = ()


def of_pod(pod: Pod) -> Member | None:
    """By application; pods outside any task group, and who makes the others, are scheduled one by one."""
    both = _written(pod)
    part, name = both.get(TASK_GROUP, ""), application(both)
    if not name or not part or _makes_others(both):
        return None
    return Member(NAME, name, part, completion_index(pod))


def from_pod(pod: Pod, name: str) -> Declared | None:
    """The task groups, from the pod that carries them."""
    both = _written(pod)
    written = both.get(TASK_GROUPS)
    if written is None:
        return None
    reading = Reading()
    parts: dict[str, Part] = {}
    for group in _groups(written, reading):
        part = str(group.get("name") or "")
        if not part or part in parts:
            reading.problems.append(f"annotation {TASK_GROUPS}: task groups need names, one each ({part!r})")
        parts[part] = _part(part, group, reading)
    _read_policy(both.get(POLICY, ""), reading)
    return Declared(
        NAME,
        pod.metadata.namespace,
        name,
        min=sum(part.min for part in parts.values()) or 1,
        parts=parts,
        queue=both.get(QUEUE) or both.get("queue") or "",
        time=reading.run_time(both),
        problems=tuple(reading.problems),
        notes=tuple(reading.notes),
        unsupported=reading.refused,
    )


def _part(name: str, group: dict[str, Any], reading: Reading) -> Part:
    least = reading.least(group.get("minMember"), f"task group {name!r}: minMember")
    select = reading.mapping(group.get("nodeSelector"), f"task group {name!r}: nodeSelector")
    asks = tuple(field for field in ("affinity", "topologySpreadConstraints") if group.get(field))
    return Part(least, select={str(key): str(value) for key, value in select.items()}, asks=asks)


def _read_policy(written: str, reading: Reading) -> None:
    """Words of which none changes anything here; one that would is told."""
    for word in written.split():
        key, _, value = word.partition("=")
        if key not in PARAMETERS:
            reading.problems.append(
                f"annotation {POLICY}: {key[:40]!r} is not known; there are {', '.join(PARAMETERS)}"
            )
        elif key == PARAMETERS[0]:
            reading.count(value, f"annotation {POLICY}: {key}")
        elif reading.one_of(value, f"annotation {POLICY}: {key}", ("Hard", "Soft")) == "Soft":
            reading.notes.append(f"annotation {POLICY}: {word} is not read: an application never starts in part")


def for_others(pod: Pod) -> Declared | None:
    """Task groups that a pod declares and is not in itself: it starts alone, for it may be the one to make them."""
    both = _written(pod)
    name = application(both)
    if TASK_GROUPS not in both or not name or (TASK_GROUP in both and not _makes_others(both)):
        return None
    found = from_pod(pod, name)
    own = both.get(TASK_GROUP)
    if found is None or own not in found.parts:
        return found
    parts = {part: said for part, said in found.parts.items() if part != own or said.min > 1}
    if own in parts:
        parts[own] = Part(parts[own].min - 1)
    return msgspec.structs.replace(found, parts=parts, min=found.min - 1) if parts else None


def nameless(pod: Pod) -> str:
    """What is wrong with a pod of a task group that does not say of which application."""
    both = _written(pod)
    key = next((key for key in (TASK_GROUP, TASK_GROUPS) if key in both), "")
    return f"annotation {key} without a label applicationId" if key and not application(both) else ""


def application(both: Mapping[str, str]) -> str:
    """The application that labels and annotations of a pod name; nothing where they name none."""
    return both.get(APP) or both.get("applicationId") or both.get("spark-app-selector") or ""


def counted(pod: Pod) -> str:
    """The application that a pod is counted with: one of its own where YuniKorn was told to make one for each pod."""
    name = application(_written(pod))
    return f"{name} {pod.metadata.uid}" if name.endswith(UNIQUE) else name


def user(both: Mapping[str, str], reading: Reading) -> tuple[str, tuple[str, ...]]:
    """Whose a pod is, and the groups of that user; who names no group is in one of their own name."""
    if not both.get(USER):
        return "", ()
    try:
        said = decoded(both[USER], User)
    except msgspec.MsgspecError:
        reading.problems.append(f'annotation {USER} is not JSON like {{"user": "ann", "groups": ["ml"]}}')
        return "", ()
    return said.user, said.groups or ((said.user,) if said.user else ())


def _written(pod: Pod) -> dict[str, str]:
    return {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}


def _makes_others(both: dict[str, str]) -> bool:
    """Whether the other pods come only when this one runs."""
    return both.get("spark-role") == "driver"


def _groups(written: str, reading: Reading) -> list[dict[str, Any]]:
    try:
        return decoded(written, list[dict[str, Any]])
    except msgspec.MsgspecError:
        reading.problems.append(f"annotation {TASK_GROUPS} is not a JSON list of task groups")
        return []
