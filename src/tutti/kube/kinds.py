"""What is watched, and where it is in the API. Kinds of dialects are watched where the cluster serves them."""

from typing import Any, NamedTuple

import msgspec

from tutti.jobs.kube.objects import Node, Pod, Thing

from .api import Api


class Kind(NamedTuple):
    """A kind of object: its API group, versions we can read (best first) and plural."""

    name: str
    group: str
    versions: tuple[str, ...]
    plural: str
    item: type[Any] = Thing
    why: str = ""
    only: str = ""
    """The one name of interest; others are not read."""
    is_bulky: bool = False
    """Whether only the names of such objects are kept once they are read."""

    def path(self, version: str) -> str:
        """Where all of them are."""
        return f"/apis/{self.group}/{version}/{self.plural}" if self.group else f"/api/{version}/{self.plural}"


ALWAYS = (
    Kind("Node", "", ("v1",), "nodes", Node, "where pods can go"),
    Kind("Pod", "", ("v1",), "pods", Pod, "every pod on a node counts, whoever placed it"),
    Kind("PriorityClass", "scheduling.k8s.io", ("v1",), "priorityclasses", why="priorities of groups"),
    Kind("PersistentVolumeClaim", "", ("v1",), "persistentvolumeclaims", why="volumes that are bound"),
    Kind("PersistentVolume", "", ("v1",), "persistentvolumes", why="nodes a bound volume can be reached from"),
    Kind("CSINode", "storage.k8s.io", ("v1",), "csinodes", why="how many volumes a node can attach"),
    Kind("CSIDriver", "storage.k8s.io", ("v1",), "csidrivers", why="drivers that a node must have for their volumes"),
    Kind(
        "VolumeAttachment",
        "storage.k8s.io",
        ("v1",),
        "volumeattachments",
        why="volumes that a node has attached count, though no pod uses them",
    ),
)
OF_YUNIKORN = (
    Kind("ConfigMap", "", ("v1",), "configmaps", why="queues of YuniKorn, read only", only="yunikorn-configs"),
    Kind("Namespace", "", ("v1",), "namespaces", why="quotas that YuniKorn has on namespaces, read only"),
)
DIALECTS = (
    Kind("PodGroup", "scheduling.k8s.io", ("v1beta1", "v1alpha3", "v1alpha2"), "podgroups", why="native groups"),
    Kind("CompositePodGroup", "scheduling.k8s.io", ("v1alpha3",), "compositepodgroups", why="trees of native groups"),
    Kind("Workload", "scheduling.k8s.io", ("v1alpha1",), "workloads", why="native groups of 1.35"),
    Kind("PodGroup", "scheduling.x-k8s.io", ("v1alpha1",), "podgroups", why="groups of coscheduling"),
    Kind("PodGroup", "scheduling.sigs.k8s.io", ("v1alpha1",), "podgroups", why="groups of Koordinator"),
    Kind("PodGroup", "scheduling.volcano.sh", ("v1beta1",), "podgroups", why="groups of Volcano"),
    Kind("PodGroup", "scheduling.incubator.k8s.io", ("v1alpha1",), "podgroups", why="groups of kube-batch"),
    Kind("PodGroup", "scheduling.sigs.dev", ("v1alpha2",), "podgroups", why="groups of kube-batch"),
    Kind("PodGroup", "scheduling.run.ai", ("v2alpha2",), "podgroups", why="groups of KAI"),
    Kind("Queue", "scheduling.volcano.sh", ("v1beta1",), "queues", why="queues of Volcano, read only"),
    Kind("Queue", "scheduling.incubator.k8s.io", ("v1alpha1",), "queues", why="queues of kube-batch, read only"),
    Kind("Queue", "scheduling.sigs.dev", ("v1alpha2",), "queues", why="queues of kube-batch, read only"),
    Kind("Queue", "scheduling.run.ai", ("v2",), "queues", why="queues of KAI, read only"),
    Kind(
        "Workload",
        "kueue.x-k8s.io",
        ("v1beta2", "v1beta1"),
        "workloads",
        why="how many pods of a job Kueue let in, read only",
        is_bulky=True,
    ),
    Kind("ClusterQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "clusterqueues", why="queues of Kueue, read only"),
    Kind("LocalQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "localqueues", why="which queue a namespace means"),
    Kind("Cohort", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "cohorts", why="trees of Kueue's queues, read only"),
    Kind("ElasticQuota", "scheduling.x-k8s.io", ("v1alpha1",), "elasticquotas", why="quotas of namespaces, read only"),
    Kind("ElasticQuota", "scheduling.sigs.k8s.io", ("v1alpha1",), "elasticquotas", why="Koordinator's, read only"),
    Kind("Job", "batch.volcano.sh", ("v1alpha1",), "jobs", why="how long a job of Volcano runs"),
    Kind("HyperNode", "topology.volcano.sh", ("v1alpha1",), "hypernodes", why="topology of Volcano"),
    Kind("Topology", "kai.scheduler", ("v1alpha1",), "topologies", why="topology of KAI"),
    Kind("Topology", "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), "topologies", why="topology of Kueue"),
    Kind(
        "Reservation",
        "scheduling.koordinator.sh",
        ("v1alpha1",),
        "reservations",
        why="what Koordinator has set aside on nodes, read only",
    ),
    Kind(
        "ClusterNetworkTopology",
        "scheduling.koordinator.sh",
        ("v1alpha1",),
        "clusternetworktopologies",
        why="topology of Koordinator",
    ),
)
OWN = Kind("Placement", "tutti.dev", ("v1alpha1",), "placements", why="our record of starts")


DIALECT_OF = {
    "scheduling.x-k8s.io": "coscheduling",
    "scheduling.sigs.k8s.io": "koordinator",
    "scheduling.koordinator.sh": "koordinator",
    "scheduling.volcano.sh": "volcano",
    "topology.volcano.sh": "volcano",
    "batch.volcano.sh": "volcano",
    "scheduling.incubator.k8s.io": "volcano",
    "scheduling.sigs.dev": "volcano",
    "scheduling.run.ai": "kai",
    "kai.scheduler": "kai",
    "kueue.x-k8s.io": "kueue",
}
"""Whose an API group is; others are read always."""


class Served(NamedTuple):
    """A kind this cluster serves, and the version we read."""

    kind: Kind
    version: str
    has_status: bool = True
    """Whether its status is written by itself; Volcano's groups have it in the object."""

    @property
    def path(self) -> str:
        """Where all of them are."""
        return self.kind.path(self.version)

    @property
    def query(self) -> dict[str, object]:
        """What of it is asked for."""
        return {"fieldSelector": f"metadata.name={self.kind.only}"} if self.kind.only else {}

    @property
    def api_version(self) -> str:
        """As it is written in an object; lists leave it out of their items."""
        return f"{self.kind.group}/{self.version}" if self.kind.group else self.version


class Groups(msgspec.Struct):
    """The API groups of a cluster."""

    groups: list[dict[str, Any]] = []


class Resources(msgspec.Struct):
    """The kinds of one group and version."""

    resources: list[dict[str, Any]] = []


async def served(api: Api, dialects: tuple[str, ...] = ()) -> list[Served]:
    """Which of the kinds we know this cluster serves; with `dialects`, only theirs and what is always read."""
    listed = await api.get("/apis", Groups)
    versions = {g["name"]: [v["version"] for v in g["versions"]] for g in listed.groups}
    core = ALWAYS if dialects and "yunikorn" not in dialects else (*ALWAYS, *OF_YUNIKORN)
    found = [Served(kind, kind.versions[0]) for kind in core]
    seen: dict[str, set[str]] = {}
    for kind in (*DIALECTS, OWN):
        if dialects and DIALECT_OF.get(kind.group, dialects[0]) not in dialects:
            continue
        for version in kind.versions:
            if version not in versions.get(kind.group, []):
                continue
            place = f"/apis/{kind.group}/{version}"
            if place not in seen:
                seen[place] = {r["name"] for r in (await api.get(place, Resources)).resources}
            if kind.plural in seen[place]:
                found.append(Served(kind, version, f"{kind.plural}/status" in seen[place]))
                break
    return found
