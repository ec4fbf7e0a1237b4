"""Koordinator: a PodGroup of another API group, or annotations alone; several gangs may have to start together."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tutti.jobs.kube.declared import Declared, Member, Part, Reading, Segmented
from tutti.jobs.kube.objects import Pod, Thing
from tutti.jobs.kube.written import decoded

from .native import completion_index

NAME = "koordinator"
GROUP = "scheduling.sigs.k8s.io"
KINDS = {"PodGroup"}
LABELS = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")
PREFIX = "gang.scheduling.koordinator.sh/"
QUOTA = "quota.scheduling.koordinator.sh/name"
PREEMPTIBLE, CAN_PREEMPT = "quota.scheduling.koordinator.sh/preemptible", "quota.scheduling.koordinator.sh/can-preempt"
TOPOLOGY = f"{PREFIX}network-topology-spec"
INDEX = f"{PREFIX}network-topology-index"
MATCH = (f"{PREFIX}match-policy", "pod-group.scheduling.sigs.k8s.io/match-policy")
MATCHES = ("once-satisfied", "waiting-and-running", "only-waiting")
"""Who counts towards a minimum after the start. Members that come again join those that run; that is the first two."""
GATHERS = ("MustGather", "PreferGather")


def of_pod(pod: Pod) -> Member | None:
    """By label, or by annotation."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    name = next((labels[key] for key in LABELS if labels.get(key)), None) or annotations.get(f"{PREFIX}name")
    if not name:
        return None
    index = annotations.get(INDEX, "")
    return Member(NAME, name, rank=int(index) if index.isdigit() else completion_index(pod))


def declared(thing: Thing) -> list[Declared]:
    """A PodGroup, with the annotations it may carry."""
    spec, reading = thing.spec or {}, Reading()
    least = reading.least(spec.get("minMember"), "spec.minMember")
    ask = {str(k): str(v) for k, v in reading.mapping(spec.get("minResources"), "spec.minResources").items()}
    annotations = thing.metadata.annotations or {}
    found = _annotated(thing.metadata.namespace, thing.metadata.name, annotations, reading, least)
    return [_with(found, uid=thing.metadata.uid, min_ask=ask, created=thing.metadata.creation_timestamp or "")]


def from_pod(pod: Pod, name: str) -> Declared | None:
    """A gang made of annotations alone."""
    annotations = pod.metadata.annotations or {}
    if f"{PREFIX}min-available" not in annotations:
        return None
    return _annotated(pod.metadata.namespace, name, annotations, Reading(), 0)


def _annotated(namespace: str, name: str, annotations: Mapping[str, str], reading: Reading, least: int) -> Declared:
    least = reading.least(annotations.get(f"{PREFIX}min-available"), "annotation min-available", 1, least or 1)
    within, near, segment = _gathered(annotations.get(TOPOLOGY), reading)
    reading.one_of(annotations.get(f"{PREFIX}mode"), f"annotation {PREFIX}mode", ("Strict", "NonStrict"))
    for key in MATCH:
        if reading.one_of(annotations.get(key), f"annotation {key}", MATCHES) == MATCHES[-1]:
            reading.refused = reading.refused or f"annotation {key}: {MATCHES[-1]}"
    return Declared(
        NAME,
        namespace,
        name,
        min=least,
        total=reading.count(annotations.get(f"{PREFIX}total-number"), "annotation total-number"),
        within=within,
        near=near,
        parts={"": Part(segment=segment)} if segment else {},
        partners=_partners(annotations.get(f"{PREFIX}groups"), f"{namespace}/{name}", reading),
        time=reading.run_time(annotations),
        problems=tuple(reading.problems),
        unsupported=reading.refused,
    )


def _partners(written: str | None, own: str, reading: Reading) -> tuple[str, ...]:
    if not written:
        return ()
    try:
        names = decoded(written, list[str])
    except msgspec.MsgspecError:
        reading.problems.append(f'annotation {PREFIX}groups is not a JSON list such as ["ns/a","ns/b"]')
        return ()
    for name in names:
        if name.count("/") != 1:
            reading.problems.append(f"annotation {PREFIX}groups names {name[:80]!r}; write namespace/name")
    return tuple(sorted({*(name for name in names if name.count("/") == 1), own}))


def _gathered(written: str | None, reading: Reading) -> tuple[str, str, Segmented | None]:
    """The required layer, the preferred one, and how many members go together."""
    if not written:
        return "", "", None
    try:
        spec: dict[str, Any] = decoded(written, dict[str, Any])
        entries = [dict(entry) for entry in spec.get("gatherStrategy") or []]
        counts = [int(entry.get("podCountMultiple") or 0) for entry in entries]
    except (msgspec.MsgspecError, TypeError, ValueError):
        reading.problems.append(f"annotation {TOPOLOGY} is not JSON with a gatherStrategy")
        reading.refused = reading.refused or f"annotation {TOPOLOGY}"
        return "", "", None
    for entry, count in zip(entries, counts, strict=True):
        if entry.get("strategy") not in (*GATHERS, *([None] if count > 1 else [])):
            wrong = f"annotation {TOPOLOGY}: strategy {str(entry.get('strategy'))[:40]!r}"
            reading.problems.append(f"{wrong}; write {' or '.join(GATHERS)}")
            reading.refused = reading.refused or wrong
    must = [f"layer:{e.get('layer')}" for e in entries if e.get("strategy") == "MustGather"]
    prefer = [f"layer:{e.get('layer')}" for e in entries if e.get("strategy") == "PreferGather"]
    multiple = [(entry.get("layer"), count) for entry, count in zip(entries, counts, strict=True) if count > 1]
    segment = Segmented(f"layer:{multiple[0][0]}", multiple[0][1]) if multiple else None
    return (must[-1] if must else ""), (prefer[-1] if prefer else ""), segment


def _with(declared: Declared, **changes: object) -> Declared:
    return msgspec.structs.replace(declared, **changes)


def _part(group: Declared) -> Part:
    return Part(group.min, group.within, group.near, group.parts.get("", Part()).segment)


def union(groups: list[Declared]) -> Declared:
    """Gangs that start only together, as one gang with a part for each."""
    first = groups[0]
    parts = {group.name: _part(group) for group in groups}
    return _with(
        first,
        min=sum(group.min for group in groups),
        parts=parts,
        within="",
        near="",
        problems=tuple(problem for group in groups for problem in group.problems),
        unsupported=next((group.unsupported for group in groups if group.unsupported), ""),
        time=max(group.time for group in groups),
    )
