"""How each Kubernetes dialect declares a gang: the group object, and what its pods carry."""

import json
from collections.abc import Callable
from typing import Any

from tutti.engine.model import MOST_MEMBERS, Coupling, Data, Gang, Resizing, Role
from tutti.jobs.finish import bounds
from tutti.jobs.kube.declared import TIME
from tutti.jobs.kube.dialects.kai import LASTS

Object = dict[str, Any]
KOORDINATOR = "gang.scheduling.koordinator.sh/"
KUEUE = "kueue.x-k8s.io/"
YUNIKORN = "yunikorn.apache.org/"


class Grouped(Data, frozen=True):
    """A declaration: objects that go before the pods, and what the pods of each role carry."""

    objects: tuple[Any, ...] = ()
    labels: Callable[[Role], dict[str, str]] = lambda _: {}
    annotations: Callable[[Role], dict[str, str]] = lambda _: {}
    fields: Callable[[Role], dict[str, Any]] = lambda _: {}


def least(gang: Gang) -> int:
    """Members that must start together."""
    return sum(bounds(role)[0] for role in gang.roles if role.coupling is Coupling.GANG)


def _levels(gang: Gang) -> tuple[str, str]:
    """The level all must share, and the one they would like to: of the gang, or of its only role."""
    only = gang.roles[0] if len(gang.roles) == 1 else Role()
    return plain(gang.within or only.within), plain(gang.near or only.near)


def plain(level: str) -> str:
    """A level without the word that a dialect puts before it."""
    return level.removeprefix("tier:").removeprefix("layer:")


def _object(api: str, kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _meta(name: str, namespace: str, annotations: dict[str, str], **rest: Any) -> Object:
    found: Object = {"name": name, "namespace": namespace}
    return found | ({"annotations": annotations} if annotations else {}) | rest


def _time(gang: Gang) -> dict[str, str]:
    """How long it runs: no dialect has a word for it, so it is an annotation of ours."""
    limit = gang.estimate.limit
    return {TIME: f"{limit // 1_000_000}s"} if limit < 1 << 61 else {}


def _rigid(gang: Gang) -> bool:
    return gang.resizing is Resizing.NONE


def _native(version: str, policy: str, whole: Any) -> Callable[[Gang, str, str], Grouped]:
    def write(gang: Gang, name: str, namespace: str) -> Grouped:
        within, _ = _levels(gang)
        spec: Object = {policy: {"gang": {"minCount": least(gang)}} if least(gang) else {"basic": {}}}
        spec |= {"schedulingConstraints": {"topology": [{"key": within}]}} if within else {}
        spec |= {"priority": gang.priority} if gang.priority else {}
        spec |= {"disruptionMode": whole} if _rigid(gang) else {}
        group = _object(f"scheduling.k8s.io/{version}", "PodGroup", _meta(name, namespace, _time(gang)), spec)
        return Grouped((group,), fields=lambda _: {"schedulingGroup": {"podGroupName": name}})

    return write


def native_first(gang: Gang, name: str, namespace: str) -> Grouped:
    """Kubernetes 1.35: groups inside a Workload."""
    policy: Object = {"gang": {"minCount": least(gang)}} if least(gang) else {"basic": {}}
    spec = {"podGroups": [{"name": "members", "policy": policy}]}
    group = _object("scheduling.k8s.io/v1alpha1", "Workload", _meta(name, namespace, _time(gang)), spec)
    return Grouped((group,), fields=lambda _: {"workloadRef": {"name": name, "podGroup": "members"}})


def coscheduling(gang: Gang, name: str, namespace: str) -> Grouped:
    """scheduler-plugins: a minimum, and nothing else."""
    group = _object(
        "scheduling.x-k8s.io/v1alpha1",
        "PodGroup",
        _meta(name, namespace, _time(gang)),
        {"minMember": max(least(gang), 1)},
    )
    return Grouped((group,), labels=lambda _: {"scheduling.x-k8s.io/pod-group": name})


def priority_class(gang: Gang, name: str) -> tuple[Object, ...]:
    """Dialects without numbers name a class."""
    if not gang.priority:
        return ()
    metadata = {"name": f"{name}-priority"}
    found = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": gang.priority,
    }
    return (found,)


def volcano(gang: Gang, name: str, namespace: str) -> Grouped:
    """Volcano: tasks with minimums, queue, tiers of the network."""
    within, near = _levels(gang)
    spec: Object = {"minMember": max(least(gang), 1), "queue": gang.queue}
    if len(gang.roles) > 1:
        spec["minTaskMember"] = {r.name: bounds(r)[0] if r.coupling is Coupling.GANG else 0 for r in gang.roles}
    if within or near:
        spec["networkTopology"] = {"mode": "hard" if within else "soft", "highestTierName": within or near}
    spec |= {"priorityClassName": f"{name}-priority"} if gang.priority else {}
    annotations = _time(gang) | ({} if gang.preemptible else {"volcano.sh/preemptable": "false"})
    group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", _meta(name, namespace, annotations), spec)
    return Grouped(
        (*priority_class(gang, name), group),
        annotations=lambda role: {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": role.name},
    )


def kube_batch(gang: Gang, name: str, namespace: str) -> Grouped:
    """Volcano's ancestor."""
    spec = {"minMember": max(least(gang), 1), "queue": gang.queue}
    group = _object("scheduling.incubator.k8s.io/v1alpha1", "PodGroup", _meta(name, namespace, _time(gang)), spec)
    return Grouped((group,), annotations=lambda _: {"scheduling.k8s.io/group-name": name})


def koordinator(gang: Gang, name: str, namespace: str) -> Grouped:
    """Koordinator: a minimum, and layers to gather in."""
    within, near = _levels(gang)
    segment = gang.roles[0].segment if len(gang.roles) == 1 else None
    gather: list[Object] = [{"layer": within, "strategy": "MustGather"}] if within else []
    gather += [{"layer": near, "strategy": "PreferGather"}] if near else []
    if segment:
        gather.append({"layer": plain(segment.level), "podCountMultiple": segment.members})
    annotations = _time(gang)
    if gather:
        annotations[f"{KOORDINATOR}network-topology-spec"] = json.dumps({"gatherStrategy": gather})
    group = _object(
        "scheduling.sigs.k8s.io/v1alpha1",
        "PodGroup",
        _meta(name, namespace, annotations),
        {"minMember": max(least(gang), 1)},
    )
    return Grouped((group,), labels=lambda _: {"pod-group.scheduling.sigs.k8s.io": name})


def kai(gang: Gang, name: str, namespace: str) -> Grouped:
    """KAI: sub-groups with minimums and places of their own."""
    within, near = _levels(gang)
    spec: Object = {"queue": gang.queue}
    if len(gang.roles) > 1:
        spec["subGroups"] = [_subgroup(role) for role in gang.roles if role.coupling is Coupling.GANG]
    else:
        spec["minMember"] = max(least(gang), 1)
    if topology := _constraint(within, near):
        spec["topologyConstraint"] = topology
    spec |= {"priorityClassName": f"{name}-priority"} if gang.priority else {}
    if not gang.preemptible or gang.priority >= LASTS:
        spec["preemptibility"] = "preemptible" if gang.preemptible else "non-preemptible"
    group = _object("scheduling.run.ai/v2alpha2", "PodGroup", _meta(name, namespace, _time(gang)), spec)
    labels = (lambda role: {"kai.scheduler/subgroup-name": role.name}) if len(gang.roles) > 1 else (lambda _: {})
    return Grouped((*priority_class(gang, name), group), labels=labels, annotations=lambda _: {"pod-group-name": name})


def _subgroup(role: Role) -> Object:
    found: Object = {"name": role.name, "minMember": bounds(role)[0]}
    topology = _constraint(plain(role.within), plain(role.near))
    return found | ({"topologyConstraint": topology} if topology else {})


def _constraint(within: str, near: str) -> Object:
    found: Object = {"topology": "default"} | ({"requiredTopologyLevel": within} if within else {})
    found |= {"preferredTopologyLevel": near} if near else {}
    return found if len(found) > 1 else {}


def yunikorn(gang: Gang, name: str, _: str) -> Grouped:
    """YuniKorn: task groups in an annotation, no object."""
    tasks = [{"name": role.name, "minMember": bounds(role)[0]} for role in gang.roles if role.coupling is Coupling.GANG]

    def annotations(role: Role) -> dict[str, str]:
        return {f"{YUNIKORN}task-group-name": role.name, f"{YUNIKORN}task-groups": json.dumps(tasks)} | _time(gang)

    return Grouped(
        labels=lambda _: {f"{YUNIKORN}app-id": name, f"{YUNIKORN}queue": gang.queue}, annotations=annotations
    )


def kueue(gang: Gang, name: str, _: str) -> Grouped:
    """Kueue: a group of plain pods, all of them needed."""
    within, near = _levels(gang)
    total = sum(bounds(role)[1] for role in gang.roles)
    found = {f"{KUEUE}pod-group-total-count": str(min(total, MOST_MEMBERS))} | _time(gang)
    found |= {f"{KUEUE}podset-required-topology": within} if within else {}
    found |= {f"{KUEUE}podset-preferred-topology": near} if near else {}
    segment = gang.roles[0].segment if len(gang.roles) == 1 else None
    if segment:
        found |= {
            f"{KUEUE}podset-slice-size": str(segment.members),
            f"{KUEUE}podset-slice-required-topology": plain(segment.level),
        }
    labels = {f"{KUEUE}pod-group-name": name, f"{KUEUE}queue-name": gang.queue}
    return Grouped(labels=lambda _: labels, annotations=lambda _: found)


DIALECTS: dict[str, Callable[[Gang, str, str], Grouped]] = {
    "native": _native("v1beta1", "schedulingPolicy", {"all": {}}),
    "native-1.36": _native("v1alpha2", "schedulingPolicy", "PodGroup"),
    "native-1.35": native_first,
    "coscheduling": coscheduling,
    "volcano": volcano,
    "koordinator": koordinator,
    "kai": kai,
    "yunikorn": yunikorn,
    "kueue": kueue,
    "kube-batch": kube_batch,
}
