"""scheduler-plugins' coscheduling: a PodGroup with minMember, or two labels from before there was one."""

from tutti.jobs.kube.declared import Declared, Member, Reading
from tutti.jobs.kube.objects import Pod, Thing

from .native import completion_index

NAME = "coscheduling"
GROUP = "scheduling.x-k8s.io"
KINDS = {"PodGroup"}
LABEL = "scheduling.x-k8s.io/pod-group"
OLD_NAME = "pod-group.scheduling.sigs.k8s.io/name"
OLD_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"


def of_pod(pod: Pod) -> Member | None:
    """By label."""
    labels = pod.metadata.labels or {}
    name = labels.get(LABEL) or (labels.get(OLD_NAME) if OLD_MIN in labels else None)
    return Member(NAME, name, rank=completion_index(pod)) if name else None


def declared(thing: Thing) -> list[Declared]:
    """A PodGroup."""
    spec, reading = thing.spec or {}, Reading()
    return [
        Declared(
            NAME,
            thing.metadata.namespace,
            thing.metadata.name,
            uid=thing.metadata.uid,
            min=reading.least(spec.get("minMember"), "spec.minMember"),
            min_ask={str(k): str(v) for k, v in reading.mapping(spec.get("minResources"), "spec.minResources").items()},
            time=reading.run_time(thing.metadata.annotations),
            problems=tuple(reading.problems),
            unsupported=reading.refused,
            created=thing.metadata.creation_timestamp or "",
        )
    ]


def from_pod(pod: Pod, name: str) -> Declared | None:
    """The old labels need no object."""
    least = (pod.metadata.labels or {}).get(OLD_MIN)
    if least is None:
        return None
    reading = Reading()
    return Declared(
        NAME,
        pod.metadata.namespace,
        name,
        min=reading.least(least, f"label {OLD_MIN}"),
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )
