"""A cluster to play scenes in: an administrator's client, a made-up kubelet, and schedulers of ours."""

import asyncio
import contextlib
import time
from contextlib import asynccontextmanager

import msgspec

from tests.kube.dialects import definitions
from tools.control_plane.kubelet import Kubelet
from tools.control_plane.rig import Rig
from tools.control_plane.stage import Stage, node
from tutti.kube.api import Api
from tutti.kube.config import Config
from tutti.kube.credentials import from_file
from tutti.kube.manifests import manifests
from tutti.kube.scheduler import Scheduler

LEFT_BY_US = ("/apis/tutti.dev/v1alpha1/placements", "/apis/events.k8s.io/v1/events")
PATIENCE = 80.0
STILL = 2
"""Looks in a row at which nothing was going on."""


class Play:
    """One scene: what there is to act with."""

    def __init__(self, rig: Rig, stage: Stage, kubelet: Kubelet) -> None:
        self.rig = rig
        self.stage = stage
        self.kubelet = kubelet
        self.schedulers: list[Scheduler] = []

    @classmethod
    async def prepare(cls, rig: Rig) -> None:
        """What has to be there before anything else."""
        stage = Stage(rig.kubeconfig())
        for objects in list(manifests().values())[:2]:
            for thing in objects:
                await stage.make_one(thing)
        await stage.until_served("/apis/tutti.dev/v1alpha1/placements")
        await stage.priorities(high=1000, middle=500, low=10)
        made = definitions()
        await stage.make(*made)
        for body in made:
            said = body["spec"]
            await stage.until_served(f"/apis/{said['group']}/{said['versions'][0]['name']}/{said['names']['plural']}")
        stage.close()

    @classmethod
    async def perform(cls, rig: Rig, scene, kubelet: bool = True, within: float = 110) -> None:
        """Play a scene, then clear the stage."""
        stage = Stage(rig.kubeconfig(), 6)
        hand = Kubelet(Api(from_file(rig.kubeconfig()), 3, agent="kubelet"))
        play = cls(rig, stage, hand)
        task = asyncio.create_task(hand.run()) if kubelet else None
        try:
            await asyncio.wait_for(scene(play), within)
        finally:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            for scheduler in play.schedulers:
                scheduler.api.close()
            await stage.remove("/api/v1/namespaces/tutti-system/configmaps/tutti-history")
            kept = "/priorityclasses", "/customresourcedefinitions", "/namespaces"
            await stage.clear(*(p for p in (*stage.touched, *LEFT_BY_US) if not p.endswith(kept)))
            hand.api.close()
            stage.close()

    async def nodes(self, count: int) -> None:
        """Nodes of eight devices."""
        await self.stage.make(*(node(f"n{i}") for i in range(count)))

    async def budget(self, app: str, least: int) -> str:
        """A disruption budget for pods with a label; answers with where it is."""
        meta = {"name": app, "namespace": "default"}
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        await self.stage.make_one(kind | {"metadata": meta, "spec": spec})
        return f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{app}"

    @asynccontextmanager
    async def scheduler(self, config: Config | None = None, kubeconfig=None, api: Api | None = None):
        """A scheduler of ours, at work; it ends as if it were killed."""
        api = api or Api(from_file(kubeconfig or self.rig.kubeconfig(self.rig.tutti)), 4)
        scheduler = Scheduler(
            api,
            msgspec.structs.replace(
                config or Config(), connections=4, dialects=(config.dialects if config else ()) or ("native",)
            ),
        )
        self.schedulers.append(scheduler)

        async def work():
            async with asyncio.TaskGroup() as group:
                await scheduler.listen(group)
                group.create_task(scheduler.lead())

        task = asyncio.create_task(work())
        try:
            ready = asyncio.create_task(scheduler.ready.wait())
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield scheduler
            if task.done():
                task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
                await task
            api.close()

    async def until(self, condition, what: str = "it"):
        """Wait for a condition on the pods' nodes (by name), or for any awaitable truth; answers with what it gave."""
        end = time.monotonic() + PATIENCE
        while True:
            found = await condition()
            if found:
                return found
            if time.monotonic() > end:
                told = [(s.notices[-3:], s.driver.answers()) for s in self.schedulers]
                raise AssertionError(f"{what} never came: {await self.stage.nodes_of()} {told}")
            await asyncio.sleep(0.05)

    async def until_bound(self, *prefixes: str, count: int | None = None, namespace: str = "default"):
        """Wait until all pods (or so many) whose names begin so are bound; answers with their nodes."""

        async def check():
            nodes = await self.stage.nodes_of(namespace)
            mine = {name: node for name, node in nodes.items() if name.startswith(prefixes)}
            bound = {name: node for name, node in mine.items() if node}
            return bound if mine and len(bound) >= (count or len(mine)) else None

        return await self.until(check, f"{prefixes} bound")

    async def until_told(self, group: str, status: str, tree: bool = False):
        """Wait until the condition of a native group, or of a tree of them, says so; answers with the condition."""
        kind = f"{'Composite' if tree else ''}PodGroupInitiallyScheduled"
        place = "v1alpha3/namespaces/default/compositepodgroups" if tree else "v1beta1/namespaces/default/podgroups"

        async def check():
            found = await self.stage.get(f"/apis/scheduling.k8s.io/{place}/{group}")
            conditions = found.get("status", {}).get("conditions", [])
            return next((c for c in conditions if c["type"] == kind and c["status"] == status), None)

        return await self.until(check, f"{group} {status}")

    async def until_gone(self, *prefixes: str):
        """Wait until no pod has a name that begins so."""

        async def check():
            return not [name for name in await self.stage.nodes_of() if name.startswith(prefixes)]

        return await self.until(check, f"{prefixes} gone")

    async def bound(self, *prefixes: str) -> dict[str, str]:
        """Pods whose names begin so and that have a node."""
        nodes = await self.stage.nodes_of()
        return {name: node for name, node in nodes.items() if node and name.startswith(prefixes)}

    async def settle(self, scheduler: Scheduler) -> None:
        """Until the scheduler knows every pod and node there is, and has nothing to do."""
        calm, mirror = 0, scheduler.mirror
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            await asyncio.sleep(0.03)
            if not scheduler.hands.is_idle:
                calm = 0
                continue
            pods, nodes = await self.stage.items("/api/v1/pods"), await self.stage.items("/api/v1/nodes")
            known = {name for name, ground in mirror.grounds.items() if ground.capacity}
            seen = {uid for uid, seen in mirror.pods.items() if not seen.name.startswith("reservation ")}
            same = {p["metadata"]["uid"] for p in pods} == seen
            same = same and known == {n["metadata"]["name"] for n in nodes}
            idle = not (mirror.dirty_gangs or mirror.moved_gangs or mirror.filling or mirror.dirty_nodes)
            calm = calm + 1 if same and idle else 0
            if calm >= STILL:
                return
        raise AssertionError("the scheduler does not come to rest")
