"""Objects for tests, races and the tutorial: nodes, pods and groups as plain data, and a client that posts them."""

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tutti.kube.api import Api, ApiError
from tutti.kube.credentials import from_file
from tutti.kube.placement import crd

NATIVE = "scheduling.k8s.io/v1beta1"
GPU = "nvidia.com/gpu"
CORE = {"Node": "nodes", "Pod": "pods", "Namespace": "namespaces", "ConfigMap": "configmaps"}
CLUSTER = {"Node", "Namespace", "PriorityClass", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
CLUSTER |= {"HyperNode", "Topology", "ClusterNetworkTopology", "PersistentVolume", "Queue"}
CLUSTER |= {"CSINode", "CSIDriver", "VolumeAttachment"}
CLUSTER |= {"ClusterQueue", "Cohort", "Reservation", "ResourceFlavor", "ClusterTrainingRuntime"}
CLUSTER |= {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "WorkloadPriorityClass"}


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **more: str) -> dict[str, Any]:
    """A node that is ready, with room for 96 cores, 1 TiB and 110 pods."""
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(gpus), **more}
    ready = {"type": "Ready", "status": "True", "reason": "Fake", "message": "made up"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def pod(name: str, group: str = "", gpus: int = 8, namespace: str = "default", **more: Any) -> dict[str, Any]:
    """A pod of one container, in a native group; `labels`, `annotations`, `owner` and fields of the spec may follow."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    for field in ("labels", "annotations"):
        if more.get(field):
            meta[field] = more.pop(field)
    if owner := more.pop("owner", ""):
        meta["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}
        ]
    amounts = {"cpu": more.pop("cpu", "1"), "memory": more.pop("memory", "1Gi")} | ({GPU: str(gpus)} if gpus else {})
    spec: dict[str, Any] = {
        "schedulerName": more.pop("scheduler", "tutti"),
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}],
        **more,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def group(name: str, least: int, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A native group; `annotations` may be among the fields."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if "annotations" in spec:
        meta["annotations"] = spec.pop("annotations")
    body = {"schedulingPolicy": {"gang": {"minCount": least}}, **spec}
    return {"apiVersion": NATIVE, "kind": "PodGroup", "metadata": meta, "spec": body}


class Stage:
    """A client that makes and removes things, as an administrator."""

    def __init__(self, kubeconfig: Path, most: int = 24) -> None:
        self.api = Api(from_file(kubeconfig), most, agent="rig")
        self.touched: dict[str, None] = {}
        """Kinds of which something was made: where all of them are."""

    async def make(self, *things: dict[str, Any], read: bool = True) -> list[dict[str, Any]]:
        """Post them, many at a time; what comes back may be left unread where there are very many."""
        return list(await asyncio.gather(*(self.make_one(thing, read) for thing in things)))

    async def make_one(self, thing: dict[str, Any], read: bool = True) -> dict[str, Any]:
        """Post one."""
        self.touched[list_path(thing)] = None
        answer = await self._posted(thing)
        return msgspec.json.decode(answer, type=dict[str, Any]) if read else {}

    async def _posted(self, thing: dict[str, Any]) -> bytes:
        """The server learns of a priority class a moment after it was made; until then it refuses who names it."""
        for _ in range(100):
            try:
                return await self.api.insist("POST", path_of(thing), thing)
            except ApiError as refused:
                if "no PriorityClass with name" not in str(refused):
                    raise
            await asyncio.sleep(0.05)
        return await self.api.insist("POST", path_of(thing), thing)

    async def install(self) -> None:
        """Our own kind, ready to be used."""
        with contextlib.suppress(ApiError):
            await self.make_one(crd())
        await self.until_served("/apis/tutti.dev/v1alpha1/placements")

    async def priorities(self, **values: int) -> None:
        """Priority classes by name."""
        for name, value in values.items():
            body = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            with contextlib.suppress(ApiError):
                await self.make_one(body)

    async def until_served(self, path: str) -> None:
        """Return when a new kind is served."""
        for _ in range(200):
            with contextlib.suppress(ApiError):
                await self.api.write("GET", path)
                return
            await asyncio.sleep(0.05)
        raise TimeoutError(f"{path} is not served")

    async def get(self, path: str) -> dict[str, Any]:
        """Read one object or a list."""
        return await self.api.get(path, dict[str, Any])

    async def items(self, path: str) -> list[dict[str, Any]]:
        """Every object of a list."""
        return list((await self.get(path)).get("items") or [])

    async def patch(self, path: str, change: dict[str, Any]) -> None:
        """Merge a change into an object."""
        await self.api.insist("PATCH", path, change, "application/merge-patch+json")

    async def pods(self, namespace: str = "default") -> dict[str, dict[str, Any]]:
        """Pods by name."""
        found = await self.items(f"/api/v1/namespaces/{namespace}/pods")
        return {pod["metadata"]["name"]: pod for pod in found}

    async def nodes_of(self, namespace: str = "default") -> dict[str, str]:
        """Where each pod is; empty for those that wait."""
        return {name: pod["spec"].get("nodeName", "") for name, pod in (await self.pods(namespace)).items()}

    async def remove(self, path: str) -> None:
        """Delete something at once, finalizers included; it may be gone already."""
        with contextlib.suppress(ApiError):
            await self.api.insist("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        with contextlib.suppress(ApiError):
            left = await self.get(path)
            if left["metadata"].get("finalizers"):
                await self.api.write("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")

    async def clear(self, *paths: str) -> None:
        """Remove everything of these kinds, in all namespaces."""
        for path in paths:
            with contextlib.suppress(ApiError):
                found = await self.items(path)
                await asyncio.gather(*(self.remove(place(path, thing)) for thing in found))

    def close(self) -> None:
        """Let go of the connections."""
        self.api.close()


def place(path: str, thing: dict[str, Any]) -> str:
    """Where an object of a list is."""
    meta = thing["metadata"]
    base, _, plural = path.rpartition("/")
    return (
        f"{base}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
        if meta.get("namespace")
        else f"{path}/{meta['name']}"
    )


def path_of(thing: dict[str, Any]) -> str:
    """Where things of its kind are posted."""
    kind, version = thing["kind"], thing["apiVersion"]
    plural = CORE.get(kind) or plural_of(kind)
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    if kind in CLUSTER:
        return f"{base}/{plural}"
    return f"{base}/namespaces/{thing['metadata'].get('namespace', 'default')}/{plural}"


def list_path(thing: dict[str, Any]) -> str:
    """Where all things of its kind are, in every namespace."""
    version = thing["apiVersion"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return f"{base}/{CORE.get(thing['kind']) or plural_of(thing['kind'])}"


def plural_of(kind: str) -> str:
    """podgroups, priorityclasses, topologies."""
    name = kind.lower()
    if name.endswith(("s", "x")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def gang(name: str, pods: int, gpus: int = 8, least: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """A native group and its pods."""
    spec: dict[str, Any] = {
        key: more.pop(key) for key in ("annotations", "schedulingConstraints", "disruptionMode") if key in more
    }
    spec |= {key: more[key] for key in ("priorityClassName", "namespace") if key in more}
    return [group(name, least or pods, **spec), *(pod(f"{name}-{i}", name, gpus, **dict(more)) for i in range(pods))]


def many(things: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Groups first, then pods."""
    flat = [thing for some in things for thing in some]
    return sorted(flat, key=lambda thing: thing["kind"] == "Pod")
