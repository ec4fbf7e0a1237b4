"""Which dialect is it? Pods and groups of every kind, read into the one model, with a fixed order of precedence."""

from typing import NamedTuple, Protocol

import msgspec

from tutti.engine.model import SECOND

from .declared import LONGEST, MOVABLE, QUEUE, TIME, Declared, Member, Reading
from .dialects import coscheduling, kai, koordinator, kueue, native, volcano, yunikorn
from .gang import NO_QUEUE, POD, Asked
from .objects import Meta, Pod, PodSpec, Thing
from .verdicts.all import ON_GROUPS, ON_PODS, refused_by, strange, unknown_fields
from .wants import unmerged

PRECEDENCE = (native, coscheduling, koordinator, volcano, kai, yunikorn, kueue)
"""A pod that speaks two dialects belongs to the group of the first; Kueue's comes last, because it only admits."""
SPOKEN = frozenset(
    {
        *(coscheduling.LABEL, coscheduling.OLD_NAME),
        *(*koordinator.LABELS, f"{koordinator.PREFIX}name"),
        *(*volcano.ANNOTATIONS, kai.ANNOTATION, *kai.GROUPING),
        *(yunikorn.TASK_GROUP, kueue.LABEL, kueue.WORKLOAD),
    }
)
"""Labels and annotations without which a pod speaks no dialect but the native one."""
ENDED = frozenset({"Completed", "Finished", "Failed"})
"""Phases of groups that have ended."""
CONDITIONS = frozenset({*native.CONDITIONS, "Scheduled", "Unschedulable"})
"""Conditions of groups by which schedulers say whether they have started."""
STARTED = frozenset({"Scheduled", "Running", "Unknown", *ENDED})
"""Phases of groups that were started once."""
BY_GROUP = {
    native.GROUP: native,
    coscheduling.GROUP: coscheduling,
    koordinator.GROUP: koordinator,
    kai.GROUP: kai,
    kueue.GROUP: kueue,
    **dict.fromkeys(volcano.GROUPS, volcano),
}
OURS = POD
LONGEST_NAME = 253
QUEUES = (koordinator.QUOTA, yunikorn.QUEUE, kai.QUEUE, volcano.QUEUE, volcano.QUEUE_LABEL)
"""Labels and annotations of pods by which dialects name a queue."""
LASTS = {
    volcano.PREEMPTABLE: "false",
    **dict.fromkeys(volcano.BUDGETS, ""),
    koordinator.PREEMPTIBLE: "false",
    kai.PREEMPTIBILITY: "non-preemptible",
}
"""Labels and annotations of pods by which nobody may take their place, with the value that says so; nothing: any."""
NAMED = frozenset({QUEUE, kueue.QUEUE, kueue.ADMITTED, *QUEUES, kai.PROJECT})


class FromPod(Protocol):
    """A dialect whose groups need no object."""

    def __call__(self, pod: Pod, name: str) -> Declared | None:
        """What the pod itself declares for its group."""


FROM_POD: dict[str, FromPod] = {
    module.NAME: module.from_pod for module in (coscheduling, koordinator, volcano, kai, yunikorn, kueue)
}


class Aside(NamedTuple):
    """What a pod says of its whole gang, beside its spec and whatever its group says."""

    lasting: bool = False
    """Nobody may take its place."""
    polite: bool = False
    """Nobody is asked to make room for it."""
    min_run: int = 0
    max_wait: int = 0
    problems: tuple[str, ...] = ()
    user: str = ""
    """Whose it is, where it says so."""
    groups: tuple[str, ...] = ()
    application: str = ""
    """What it is a part of: pods of one application are counted once."""


NO_ASIDE = Aside()
ASIDES = frozenset(
    {
        *(*LASTS, koordinator.CAN_PREEMPT, volcano.COOLDOWN, *volcano.SLA),
        *(yunikorn.USER, yunikorn.APP, "applicationId", "spark-app-selector"),
    }
)


def member(pod: Pod) -> tuple[Member, tuple[str, ...]]:
    """Which gang a pod belongs to, and the other dialects it speaks as well."""
    meta = pod.metadata
    mute = SPOKEN.isdisjoint(meta.labels or ()) and SPOKEN.isdisjoint(meta.annotations or ())
    found = [said for module in (PRECEDENCE[:1] if mute else PRECEDENCE) if (said := module.of_pod(pod)) is not None]
    if not found:
        return Member(OURS, pod.metadata.name), ()
    others = tuple(said.dialect for said in found[1:] if said.dialect != kueue.NAME and not _same(found[0], said))
    return found[0], others


def _same(one: Member, other: Member) -> bool:
    """Koordinator reads coscheduling's old labels, so that those are no contradiction."""
    return one.group == other.group and {one.dialect, other.dialect} == {coscheduling.NAME, koordinator.NAME}


def declared(thing: Thing) -> list[Declared]:
    """What a group object declares; nothing for kinds and API groups that are not known."""
    group, _, _ = thing.api_version.partition("/")
    module = BY_GROUP.get(group)
    if module is None or thing.kind not in module.KINDS:
        return []
    return [_with_ours(one, thing, refused_by(thing.metadata, ON_GROUPS)) for one in module.declared(thing)]


def _with_ours(found: Declared, thing: Thing, refused: str) -> Declared:
    """Our own annotations, and whether it was ever started, whatever the dialect."""
    queue, reading = _written(thing.metadata, QUEUE), Reading()
    movable = reading.truth(_written(thing.metadata, MOVABLE), f"annotation {MOVABLE}")
    phase = str((thing.status or {}).get("phase"))
    return msgspec.structs.replace(
        found,
        api=thing.api_version,
        kind=thing.kind,
        queue=queue or found.queue,
        movable=movable,
        problems=(*found.problems, *reading.problems, *_unknown(found, thing)),
        unsupported=found.unsupported or refused,
        scheduled=phase in STARTED or found.scheduled,
        over=found.over or phase in ENDED,
        told=_told(thing),
    )


def _unknown(found: Declared, thing: Thing) -> list[str]:
    """Keys that nobody knows; what Kueue writes into its own record is its business."""
    if found.dialect == kueue.NAME:
        return []
    return [*strange(thing.metadata), *unknown_fields(found.dialect, thing)]


def _told(thing: Thing) -> tuple[str, str, str]:
    """The condition of a group that schedulers write."""
    conditions = (thing.status or {}).get("conditions")
    for said in conditions if isinstance(conditions, list) else ():
        if isinstance(said, dict) and said.get("type") in CONDITIONS:
            return f"{said['type']}={said.get('status')}", str(said.get("message")), str(said.get("lastTransitionTime"))
    return "", "", ""


def is_movable(pod: Pod) -> tuple[bool, tuple[str, ...]]:
    """Whether a pod says that it may be started anew elsewhere, and what is wrong with how it says it."""
    reading = Reading()
    return reading.truth(_written(pod.metadata, MOVABLE), f"annotation {MOVABLE}"), tuple(reading.problems)


def asked_queue(pod: Pod) -> Asked:
    """The queue a pod names by a label or an annotation."""
    if NAMED.isdisjoint(pod.metadata.annotations or ()) and NAMED.isdisjoint(pod.metadata.labels or ()):
        return NO_QUEUE
    project = (kai.PROJECT,) if kai.of_pod(pod) is not None else ()
    theirs = (_written(pod.metadata, key) for key in (*QUEUES, *project))
    found = Asked(_written(pod.metadata, QUEUE), next((name for name in theirs if name), ""), kueue.local_queue(pod))
    return found if any(found) else NO_QUEUE


def _written(meta: Meta, key: str) -> str:
    """What an annotation or a label says; one that is longer than any name is cut, and is no name then either."""
    said = (meta.annotations or {}).get(key) or (meta.labels or {}).get(key) or ""
    return said if len(said) <= LONGEST_NAME else f"{said[:LONGEST]}..."


def from_pod(pod: Pod, said: Member) -> Declared | None:
    """What a pod declares for its group by itself, where its dialect allows that."""
    if said.dialect == OURS:
        return alone(pod)
    reader = FROM_POD.get(said.dialect)
    return reader(pod, said.group) if reader is not None else None


def for_others(pod: Pod) -> Declared | None:
    """What a pod declares for a group it is not in itself."""
    annotations = pod.metadata.annotations
    return yunikorn.for_others(pod) if annotations and yunikorn.TASK_GROUPS in annotations else None


def alone(pod: Pod) -> Declared:
    """A pod without a group: a gang of one."""
    meta = pod.metadata
    return Declared(OURS, meta.namespace, meta.name, uid=meta.uid, min=1, total=1)


def refused(pod: Pod) -> str:
    """What a pod asks for by label or annotation that cannot be had; nothing where there is no such thing."""
    if not pod.metadata.annotations:
        return unmerged(pod)
    return unmerged(pod) or refused_by(pod.metadata, ON_PODS) or yunikorn.nameless(pod) or kai.ownerless(pod)


def aside(pod: Pod) -> Aside:
    """What a pod says of its whole gang by labels and annotations that are of no group."""
    both = {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}
    if ASIDES.isdisjoint(both):
        return NO_ASIDE
    reading = Reading()
    for key in (volcano.PREEMPTABLE, koordinator.PREEMPTIBLE, koordinator.CAN_PREEMPT):
        reading.truth(both.get(key), key)
    reading.one_of(both.get(kai.PREEMPTIBILITY), kai.PREEMPTIBILITY, kai.WORDS)
    user, groups = yunikorn.user(both, reading)
    return Aside(
        any(key in both and value in ("", both[key]) for key, value in LASTS.items()),
        both.get(koordinator.CAN_PREEMPT) == "false",
        reading.time(both.get(volcano.COOLDOWN), f"annotation {volcano.COOLDOWN}"),
        max(reading.time(both.get(key), f"annotation {key}") for key in volcano.SLA),
        tuple(reading.problems),
        user,
        groups,
        yunikorn.counted(pod),
    )


def placed(pod: Pod) -> PodSpec:
    """The spec of a pod with what a label of it says about its nodes."""
    pool = (pod.metadata.labels or {}).get(kai.POOL)
    if not pool:
        return pod.spec
    return msgspec.structs.replace(pod.spec, node_selector=(pod.spec.node_selector or {}) | {kai.POOL: pool})


def is_gated(pod: Pod) -> bool:
    """Somebody (Kueue, an autoscaler, ourselves) does not want the pod to be placed yet."""
    return bool(pod.spec.scheduling_gates)


def run_time(pod: Pod) -> tuple[int, tuple[str, ...]]:
    """How long the pod says it runs, in microseconds (0 where it does not), and what is wrong with how it says it."""
    reading = Reading()
    if TIME in (pod.metadata.annotations or {}):
        return reading.run_time(pod.metadata.annotations), tuple(reading.problems)
    if pod.spec.active_deadline_seconds:
        return pod.spec.active_deadline_seconds * SECOND, ()
    limit = (pod.metadata.labels or {}).get(kueue.MAX_TIME)
    return reading.count(limit, f"label {kueue.MAX_TIME}") * SECOND, tuple(reading.problems)
