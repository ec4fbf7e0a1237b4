"""How a gang is declared in each dialect, and the smallest definitions of their kinds that a test cluster needs."""

import json
from typing import Any

from tools.control_plane.stage import group as native_group

GROUPS = {
    "coscheduling": ("scheduling.x-k8s.io", "v1alpha1"),
    "koordinator": ("scheduling.sigs.k8s.io", "v1alpha1"),
    "volcano": ("scheduling.volcano.sh", "v1beta1"),
    "kai": ("scheduling.run.ai", "v2alpha2"),
    "kube-batch": ("scheduling.incubator.k8s.io", "v1alpha1"),
}
NAMES = ("coscheduling", "koordinator", "volcano", "kai", "kueue", "yunikorn")
CLUSTER_KINDS = (
    ("scheduling.volcano.sh", "v1beta1", "Queue", "queues"),
    ("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes"),
    ("scheduling.incubator.k8s.io", "v1alpha1", "Queue", "queues"),
    ("scheduling.koordinator.sh", "v1alpha1", "Reservation", "reservations"),
    ("scheduling.run.ai", "v2", "Queue", "queues"),
    ("kai.scheduler", "v1alpha1", "Topology", "topologies"),
    ("scheduling.koordinator.sh", "v1alpha1", "ClusterNetworkTopology", "clusternetworktopologies"),
    ("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues"),
    ("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts"),
)
SPACED_KINDS = (
    ("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
    ("kueue.x-k8s.io", "v1beta2", "Workload", "workloads"),
    ("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
    ("scheduling.x-k8s.io", "v1alpha1", "ElasticQuota", "elasticquotas"),
    ("scheduling.sigs.k8s.io", "v1alpha1", "ElasticQuota", "elasticquotas"),
)


def definitions() -> list[dict[str, Any]]:
    """Definitions that let everything through."""
    made = [definition(g, v, "PodGroup", "podgroups", "Namespaced") for g, v in GROUPS.values()]
    # Volcano's definition keeps the status in the object itself; others have it as a part that is written by itself.
    next(m for m in made if m["spec"]["group"] == GROUPS["volcano"][0])["spec"]["versions"][0]["subresources"] = {}
    made += [definition(g, v, kind, plural, "Cluster") for g, v, kind, plural in CLUSTER_KINDS]
    return made + [definition(g, v, kind, plural, "Namespaced") for g, v, kind, plural in SPACED_KINDS]


def definition(group: str, version: str, kind: str, plural: str, scope: str) -> dict[str, Any]:
    """A kind with a status and no rules."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    said = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": loose, "status": loose}}}
    meta: dict[str, Any] = {"name": f"{plural}.{group}"}
    if group.endswith("k8s.io"):
        meta["annotations"] = {"api-approved.kubernetes.io": "unapproved, tests only"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [said | {"schema": schema}],
        },
    }


def group(dialect: str, name: str, least: int, said: dict[str, str]) -> dict[str, Any] | None:
    """The group object; None where the dialect has none."""
    annotations = {"tutti.dev/time": said["time"]} if "time" in said else {}
    annotations |= dict([said["note"].split(":", 1)]) if "note" in said else {}
    if dialect == "native":
        annotations |= {"tutti.dev/queue": said["queue"]} if "queue" in said else {}
        spec: dict[str, Any] = {"annotations": annotations} if annotations else {}
        if "topology" in said:
            spec["schedulingConstraints"] = {"topology": [{"key": said["topology"]}]}
        if "priority" in said:
            spec["priorityClassName"] = said["priority"]
        if "polite" in said:
            spec["preemptionPolicy"] = "Never"
        return native_group(name, least, **spec)
    if dialect not in GROUPS:
        return None
    api, version = GROUPS[dialect]
    spec = {"minMember": least} | _spec(dialect, said)
    annotations |= _annotations(dialect, said)
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": f"{api}/{version}", "kind": "PodGroup", "metadata": meta, "spec": spec}


def _spec(dialect: str, said: dict[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if dialect in ("volcano", "kai", "kube-batch"):
        spec |= {"queue": said["queue"]} if "queue" in said else {"queue": "default"}
        spec |= {"priorityClassName": said["priority"]} if "priority" in said else {}
    if dialect == "volcano" and "tier" in said:
        spec["networkTopology"] = {"mode": said.get("mode", "hard"), "highestTierAllowed": int(said["tier"])}
    if dialect == "volcano" and "tasks" in said:
        spec["minTaskMember"] = {k: int(v) for k, v in (pair.split(":") for pair in said["tasks"].split(","))}
    if dialect == "kai" and ("topology" in said or "near" in said):
        levels = {"requiredTopologyLevel": said.get("topology"), "preferredTopologyLevel": said.get("near")}
        spec["topologyConstraint"] = {key: level for key, level in levels.items() if level}
    if dialect == "kai" and "subgroups" in said:
        pairs = [pair.split(":") for pair in said["subgroups"].split(",")]
        spec["subGroups"] = [
            {"name": n, "minMember": int(m)}
            | ({"topologyConstraint": {"requiredTopologyLevel": said["each"]}} if "each" in said else {})
            for n, m in pairs
        ]
    if dialect == "kai" and "preemptible" in said:
        spec["preemptibility"] = "non-preemptible"
    return spec


def _annotations(dialect: str, said: dict[str, str]) -> dict[str, str]:
    prefix = "gang.scheduling.koordinator.sh"
    found = {}
    if dialect == "koordinator" and "partners" in said:
        found[f"{prefix}/groups"] = json.dumps([f"default/{name}" for name in said["partners"].split(",")])
    if dialect == "koordinator" and "layer" in said:
        strategy = {"layer": said["layer"], "strategy": said.get("strategy", "MustGather")}
        found[f"{prefix}/network-topology-spec"] = json.dumps({"gatherStrategy": [strategy]})
    return found


def mark(  # noqa: PLR0911 - one way of saying it per dialect
    dialect: str, name: str, least: int, total: int, said: dict[str, str]
) -> dict[str, Any]:
    """What its pods carry: labels and annotations."""
    part = said.get("part", "")
    match dialect:
        case "coscheduling":
            return {"labels": {"scheduling.x-k8s.io/pod-group": name}}
        case "koordinator":
            quota = {"quota.scheduling.koordinator.sh/name": said["queue"]} if "queue" in said else {}
            return {"labels": {"pod-group.scheduling.sigs.k8s.io": name, **quota}}
        case "koordinator-annotations":
            prefix = "gang.scheduling.koordinator.sh"
            return {"annotations": {f"{prefix}/name": name, f"{prefix}/min-available": str(least)}}
        case "volcano" | "kube-batch":
            task = {"volcano.sh/task-spec": part} if part else {}
            return {"annotations": {"scheduling.k8s.io/group-name": name, **task}}
        case "kai":
            return {"annotations": {"pod-group-name": name}, "labels": {"kai.scheduler/subgroup-name": part}}
        case "yunikorn":
            groups = json.dumps([{"name": "tg", "minMember": least}])
            return {
                "labels": {"applicationId": name}
                | ({"yunikorn.apache.org/queue": said["queue"]} if "queue" in said else {}),
                "annotations": {
                    "yunikorn.apache.org/task-group-name": "tg",
                    "yunikorn.apache.org/task-groups": groups,
                },
            }
        case "kueue" if "workload" in said:
            podset = {"kueue.x-k8s.io/podset": said.get("podset", "main")}
            return {"annotations": {"kueue.x-k8s.io/workload": said["workload"]}, "labels": podset}
        case "kueue":
            annotations = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
            if "topology" in said:
                annotations["kueue.x-k8s.io/podset-required-topology"] = said["topology"]
            queue = {"kueue.x-k8s.io/queue-name": said["queue"]} if "queue" in said else {}
            return {"labels": {"kueue.x-k8s.io/pod-group-name": name, **queue}, "annotations": annotations}
    return {}
