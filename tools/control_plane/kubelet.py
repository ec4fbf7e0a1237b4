"""A made-up kubelet for every node at once: pods that are bound run, end after a while, and go when they are told to.

Annotations on a pod say otherwise: `rig/run-for: "2.5"` (seconds, then it succeeds), `rig/fails: OutOfcpu` (refused on
admission), `rig/never` (its image is never there), `rig/grace: "1"` (seconds it takes to go).

With `room`, what a node has of each resource, pods that find too little left are refused on admission as well. With
`ready`, pods say too that they are ready, as operators want to hear.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tutti.jobs.kube.objects import Pod
from tutti.kube.api import STRATEGIC, Api, ApiError
from tutti.kube.http import Broken
from tutti.kube.watch import Listener


class Kubelet:
    """Watches all pods and patches their status."""

    def __init__(
        self, api: Api, delay: float = 0.0, room: Mapping[str, int] | None = None, ready: bool = False
    ) -> None:
        self.api = api
        self.ready = ready
        self.delay = delay
        self.room = room or {}
        self.refused = 0
        self._used: dict[str, Counter[str]] = {}
        """By node: what the pods on it have of each resource."""
        self._holds: dict[str, tuple[str, dict[str, int]]] = {}
        self.started: set[str] = set()
        self.going: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Go on until cancelled."""
        listener = Listener(self.api, "/api/v1/pods", Pod, self._put, self._drop, lambda: None)
        try:
            await listener.follow()
        finally:
            for task in list(self.tasks):
                task.cancel()

    def _put(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if not pod.spec.node_name:
            return
        if pod.metadata.deletion_timestamp is not None and uid not in self.going:
            self.going.add(uid)
            self._later(self._go(pod))
        elif (
            pod.status.phase in ("", "Pending") and uid not in self.started and pod.metadata.deletion_timestamp is None
        ):
            self.started.add(uid)
            self._later(self._start(pod))

    def _drop(self, pod: Pod) -> None:
        self.started.discard(pod.metadata.uid)
        self.going.discard(pod.metadata.uid)
        self._release(pod)

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _start(self, pod: Pod) -> None:
        said = pod.metadata.annotations or {}
        if "rig/never" in said:
            return
        if "rig/fails" in said:
            await self._say(pod, {"phase": "Failed", "reason": said["rig/fails"], "message": "refused on admission"})
            return
        if lacking := self._admit(pod):
            self.refused += 1
            await self._say(pod, {"phase": "Failed", "reason": f"OutOf{lacking}", "message": "the node has no room"})
            return
        await asyncio.sleep(self.delay)
        await self._say(pod, {"phase": "Running"} | (is_ready("True") if self.ready else {}))
        if "rig/run-for" in said:
            await asyncio.sleep(float(said["rig/run-for"]))
            await self.end(pod)

    async def end(self, pod: Pod) -> None:
        """A pod is done."""
        await self._say(pod, {"phase": "Succeeded"} | (is_ready("False") if self.ready else {}))
        self._release(pod)

    def _admit(self, pod: Pod) -> str:
        """Take what a pod asks for; a resource of which too little is left, or nothing."""
        used = self._used.setdefault(pod.spec.node_name, Counter())
        asks = requests(pod, self.room)
        lacking = next((name for name, amount in asks.items() if used[name] + amount > self.room[name]), "")
        if not lacking:
            used.update(asks)
            self._holds[pod.metadata.uid] = (pod.spec.node_name, asks)
        return lacking

    def _release(self, pod: Pod) -> None:
        node, asks = self._holds.pop(pod.metadata.uid, ("", {}))
        if node:
            self._used[node].subtract(asks)

    async def _go(self, pod: Pod) -> None:
        await asyncio.sleep(float((pod.metadata.annotations or {}).get("rig/grace", "0")))
        with contextlib.suppress(ApiError, Broken):
            await self.api.write("DELETE", path_of(pod), {"gracePeriodSeconds": 0})

    async def _say(self, pod: Pod, status: dict[str, Any]) -> None:
        with contextlib.suppress(ApiError, Broken):
            await self.api.insist("PATCH", f"{path_of(pod)}/status", {"status": status}, STRATEGIC)


def is_ready(status: str) -> dict[str, Any]:
    """The condition that says whether a pod can be talked to."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": now}]}


def requests(pod: Pod, names: Mapping[str, int]) -> dict[str, int]:
    """What a pod asks for of some resources, in whole numbers."""
    asks = [(container.resources.requests if container.resources else None) or {} for container in pod.spec.containers]
    return {name: sum(int(str(each.get(name, 0))) for each in asks) for name in names}


def path_of(pod: Pod) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
