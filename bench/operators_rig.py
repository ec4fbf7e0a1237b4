"""A control plane with real controllers and real operators, a made-up kubelet, our scheduler as users start it, and a
ledger of who writes what."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from tools.control_plane import rig as control_plane
from tools.control_plane.kubelet import Kubelet
from tools.control_plane.ledger import Ledger, kept
from tools.control_plane.rig import Rig
from tools.control_plane.stage import Stage, node
from tools.operators.install import Beside
from tutti.jobs.kube.objects import Pod
from tutti.kube.api import Api, ApiError
from tutti.kube.credentials import from_file
from tutti.kube.manifests import manifests

T = TypeVar("T")
PATIENCE = 120.0
OURS = "tutti"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLERS = "job-controller,garbage-collector-controller,podgroup-protection-controller"


class Wrong(Exception):
    """Something did not hold, and what."""


class Scene:
    """What there is to act with."""

    def __init__(self, rig: Rig, stage: Stage, kubelet: Kubelet) -> None:
        self.rig = rig
        self.stage = stage
        self.kubelet = kubelet
        self.beside = Beside(rig, stage)
        self.started = time.monotonic()

    def start_tutti(self, name: str = OURS) -> None:
        """Our scheduler, with the rights that its manifests give it, under a name."""
        kubeconfig = self.rig.kubeconfig(self.rig.tutti)
        command = [
            sys.executable,
            "-m",
            "tutti",
            "kube",
            "run",
            "--kubeconfig",
            str(kubeconfig),
            "--port",
            "0",
            "--scheduler-name",
            name,
        ]
        with (self.rig.folder / "tutti.log").open("ab") as log:
            self.rig.processes["tutti"] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                preexec_fn=control_plane.die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    async def until(self, true: Callable[[], Awaitable[T]], what: str) -> T:
        """Wait for something; says what was there instead when it never comes."""
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(ApiError):
                if found := await true():
                    return found
            if time.monotonic() > end:
                raise Wrong(f"{what}: never; {await self.told()}")
            await asyncio.sleep(0.1)

    async def told(self) -> str:
        """Where the pods are and what the latest events say."""
        pods = [
            f"{name} {pod['status'].get('phase')} on {pod['spec'].get('nodeName', 'no node')}"
            for name, pod in (await self.stage.pods()).items()
        ]
        events = await self.stage.items("/apis/events.k8s.io/v1/events")
        said = [f"{e['reason']}: {e.get('note', '')[:160]}" for e in events[-6:]]
        return f"pods {pods}; events {said}"

    async def live(self) -> dict[str, dict[str, Any]]:
        """Pods that have not ended and are not about to go."""
        over = ("Succeeded", "Failed")
        return {
            name: pod
            for name, pod in (await self.stage.pods()).items()
            if pod["status"].get("phase") not in over and "deletionTimestamp" not in pod["metadata"]
        }

    async def all_wait(self, count: int) -> bool:
        """So many pods are there, each was told why it waits, and none has a node."""
        pods = list((await self.live()).values())
        if bound := [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName")]:
            raise Wrong(f"bound in part: {bound} of {count}")
        told = [p for p in pods if any(c["type"] == "PodScheduled" for c in p["status"].get("conditions", []))]
        return len(told) == len(pods) == count

    async def all_run(self, count: int) -> bool:
        """So many pods are there, and all of them run."""
        pods = list((await self.live()).values())
        return len(pods) == count and all(p["status"].get("phase") == "Running" for p in pods)

    async def finish(self) -> None:
        """Every pod that runs succeeds."""
        for pod in (await self.live()).values():
            await self.kubelet.end(msgspec.convert(pod, Pod))

    async def condition(self, path: str, kind: str, status: str = "True") -> bool:
        """Whether an object says something of itself."""
        said = (await self.stage.get(path)).get("status", {}).get("conditions", [])
        return any(c["type"] == kind and c["status"] == status for c in said)

    def failed(self) -> list[str]:
        """Processes that have ended by themselves."""
        return [name for name, process in self.rig.processes.items() if process.poll() is not None]


def quarrels(ledger: Ledger) -> list[str]:
    """Fields that we and another took from each other in turn."""
    found = [quarrel for quarrel in ledger.quarrels() if quarrel.between(OURS)]
    return [f"{one.name} {one.path}: {[sorted(who) for who in one.told]}" for one in found]


@asynccontextmanager
async def scene(nodes: int) -> AsyncIterator[Scene]:
    """A cluster with some nodes of eight devices, and everything that is not an operator; it all ends with it."""
    rig = control_plane.started()
    stage, hand = Stage(rig.kubeconfig(), 12), Api(from_file(rig.kubeconfig()), 8, agent="kubelet")
    made = Scene(rig, stage, Kubelet(hand, ready=True))
    task: asyncio.Task[None] | None = None
    try:
        for objects in list(manifests().values())[:2]:
            for thing in objects:
                await stage.make_one(thing)
        await stage.until_served("/apis/tutti.dev/v1alpha1/placements")
        await stage.priorities(high=1000, low=10)
        await stage.make(*(node(f"n{i}") for i in range(nodes)))
        rig.start_controllers(CONTROLLERS)
        task = asyncio.create_task(made.kubelet.run())
        yield made
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await made.beside.close()
        hand.close()
        stage.close()
        rig.close()


__all__ = ["OURS", "PODS", "Scene", "Wrong", "kept", "quarrels", "scene"]
