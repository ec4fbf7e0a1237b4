"""A fresh control plane with nodes, a scheduler under test in a process of its own, and a watcher of the pods."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tools.control_plane import rig as control_plane
from tools.control_plane.rig import Rig
from tools.control_plane.stage import Stage, node
from tutti.jobs.kube.objects import Pod
from tutti.kube.http import Http, Target
from tutti.kube.watch import Listener

TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parents[1]


class Course:
    """One race: the cluster, the driver's client and the times at which pods were seen bound."""

    def __init__(self, rig: Rig, stage: Stage) -> None:
        self.rig = rig
        self.stage = stage
        self.bound: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.nodes: dict[str, str] = {}
        self.listener = Listener(stage.api, "/api/v1/pods", Pod, self._put, lambda _: None, lambda: None)
        self.also: Callable[[Pod], None] = lambda _: None
        """Who else wants to see the pods."""
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._watching: asyncio.Task[Any] | None = None

    async def ask(self, path: str) -> dict[str, Any]:
        """What our scheduler answers on its own port."""
        http = Http(Target("127.0.0.1", self.port), lambda: f"Authorization: Bearer {self.rig.admin}\r\n", 1)
        try:
            return dict(msgspec.json.decode((await http.request("GET", path)).body))
        finally:
            http.close()

    def _put(self, pod: Pod) -> None:
        now = time.monotonic()
        name = pod.metadata.name
        if pod.spec.node_name and name not in self.bound:
            self.bound[name] = now
            self.nodes[name] = pod.spec.node_name
        if name not in self.told and any(c.type == "PodScheduled" for c in pod.status.conditions or []):
            self.told[name] = now
        self.also(pod)

    async def tidy(self) -> None:
        """Have the API server collect the rubbish of setting the scene, so that no race has to, whoever runs it."""
        await self.stage.api.write("GET", "/debug/pprof/heap?gc=1")

    async def watch(self) -> None:
        """See from now on which pods are bound."""
        await self.listener.list()
        self._watching = asyncio.create_task(self.listener.follow())

    async def look_away(self) -> None:
        """No longer."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    def start_tutti(self) -> None:
        """Our scheduler, as users start it."""
        self.port = self.port or control_plane.free_port()
        kubeconfig = str(self.rig.kubeconfig())
        self._start("tutti", "kube", "run", "--no-lease", "--port", str(self.port), "--kubeconfig", kubeconfig)

    def start_binder(self, pods: int) -> None:
        """Somebody who binds without deciding anything."""
        self._start("bench.kube_binder", str(self.rig.kubeconfig()), str(pods))

    def _start(self, module: str, *words: str) -> None:
        with (self.rig.folder / "tutti.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                preexec_fn=control_plane.die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    def start_native(self) -> None:
        """kube-scheduler with its own gangs."""
        self.rig.start_scheduler()
        self.process = self.rig.processes["kube-scheduler"]

    async def until_bound(self, count: int, patience: float = 60.0, still: float = 10.0) -> bool:
        """Wait until so many pods are bound, or until nothing has happened for a while."""
        end = time.monotonic() + patience
        while len(self.bound) < count and time.monotonic() < end:
            await asyncio.sleep(0.02)
            last = max(self.bound.values(), default=time.monotonic())
            if self.bound and time.monotonic() - last > still:
                break
        return len(self.bound) >= count

    async def until(self, true: Callable[[], bool], patience: float) -> None:
        """Wait for something, but not for ever."""
        end = time.monotonic() + patience
        for _ in range(int(patience / 0.02)):
            if true() or time.monotonic() > end:
                return
            await asyncio.sleep(0.02)

    def cpu(self) -> float:
        """Processor seconds of the scheduler so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_mb(self) -> float:
        """The most memory the scheduler has had."""
        return self._status_mb("VmHWM")

    def memory_mb(self) -> float:
        """What it has now."""
        return self._status_mb("VmRSS")

    def _status_mb(self, field: str) -> float:
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next((line for line in lines if line.startswith(field)), "- 0").split()[1]) / 1024

    def end(self) -> None:
        """End the scheduler."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


@asynccontextmanager
async def course(nodes: int = 1000, watching: bool = True) -> AsyncIterator[Course]:
    """A fresh cluster of nodes with eight devices each, in racks of 32; everything ends with it."""
    rig = control_plane.started(loose=True)
    stage = Stage(rig.kubeconfig(), 24)
    made = Course(rig, stage)
    try:
        await stage.install()
        await stage.priorities(high=1000)
        await stage.make_one({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tutti-system"}})
        await stage.make(*(node(f"n{i:04}", labels={"rack": f"r{i // 32}"}) for i in range(nodes)))
        await warm(stage)
        if watching:
            await made.watch()
        yield made
    finally:
        await made.look_away()
        made.end()
        stage.close()
        rig.close()


async def warm(stage: Stage) -> None:
    """The first object of a new kind takes the API server a second; that is not what is measured."""
    body = {
        "apiVersion": "tutti.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": "warm", "namespace": "default"},
        "spec": {"gang": "none", "roles": []},
    }
    await stage.make_one(body)
    await stage.remove("/apis/tutti.dev/v1alpha1/namespaces/default/placements/warm")
