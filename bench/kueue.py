"""Kueue beside us, both at work: it admits and preempts, we place. Does each leave the other's fields alone?

    python bench/kueue.py [SECONDS]

Random Jobs and groups of plain pods in two queues that lend to each other, some of them more important than others.
When the time is over no more are submitted, and what is there must end. Fails when a field of a pod, a group, a Job or
a Workload is written by us and another in turn, when we write anything on a Job or a Workload, when a gang stays bound
in part, when a node holds more than it has, or when a job never ends. The last line is JSON.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.operators_rig import OURS, PODS, Scene, kept, quarrels, scene
from tools.control_plane.build import Impossible
from tools.control_plane.ledger import Ledger
from tools.control_plane.stage import GPU, pod
from tools.operators.build import PROGRAMS, version

Manifest = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
PLUGINS = "scheduling.x-k8s.io/v1alpha1"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = f"/apis/{KUEUE}/namespaces/default/workloads"
GROUPS = f"/apis/{PLUGINS}/namespaces/default/podgroups"
NODES, DEVICES = 6, 8
PATIENCE = 60.0
"""Seconds in which a gang that is bound in part must become whole or empty."""
DRAINED_IN = 240.0
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
GROUP, QUEUE = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/queue-name"
OVER = ("Succeeded", "Failed")


def queues() -> list[Manifest]:
    """Two queues in one cohort that lend, and take back by preempting; together they have more than there is.

    So that not all that is admitted finds room, and we have to choose as well.
    """
    flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "any"}}
    made: list[Manifest] = [flavor]
    each = {"cpu": 300, "memory": "3Ti", GPU: NODES * DEVICES * 3 // 4}
    quota = [{"name": name, "nominalQuota": amount} for name, amount in each.items()]
    for name in ("a", "b"):
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": list(each), "flavors": [{"name": "any", "resources": quota}]}],
        }
        made.append({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        meta = {"name": f"team-{name}", "namespace": "default"}
        made.append({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": name}})
    return made


def job(name: str, queue: str, members: int, gpus: int, run_for: float, grouped: bool, **more: Any) -> list[Manifest]:
    """A Job that Kueue holds back until its queue has room; grouped, its pods start together."""
    body = pod("x", gpus=gpus, **more)["spec"] | {"restartPolicy": "Never"}
    meta: Manifest = {"annotations": {"rig/run-for": f"{run_for:.1f}"}}
    made: list[Manifest] = []
    if grouped:
        meta["labels"] = {"scheduling.x-k8s.io/pod-group": name}
        named = {"name": name, "namespace": "default"}
        made.append({"apiVersion": PLUGINS, "kind": "PodGroup", "metadata": named, "spec": {"minMember": members}})
    spec = {
        "parallelism": members,
        "completions": members,
        "completionMode": "Indexed",
        "backoffLimit": 1000,
        "suspend": True,
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        "template": {"metadata": meta, "spec": body},
    }
    labels = {QUEUE: queue}
    meta = {"name": name, "namespace": "default", "labels": labels}
    return [*made, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}]


def plain(name: str, queue: str, members: int, gpus: int, run_for: float, **more: Any) -> list[Manifest]:
    """A group of plain pods, which Kueue gates until its queue has room for all of them."""
    said = {"rig/run-for": f"{run_for:.1f}", TOTAL: str(members)}
    labels = {QUEUE: queue, GROUP: name}
    return [
        pod(f"{name}-{i}", gpus=gpus, labels=dict(labels), annotations=dict(said), restartPolicy="Never", **more)
        for i in range(members)
    ]


class Soak:
    """What is going on, and what went wrong."""

    def __init__(self, here: Scene, seed: int) -> None:
        self.here = here
        self.draw = random.Random(seed)
        self.count: Counter[str] = Counter()
        self.sizes: dict[str, int] = {}
        """Gangs that are not over, and how large they are."""
        self.whole: set[str] = set()
        """Those of which everything has been made."""
        self.partial: dict[str, float] = {}
        self.evicted: set[tuple[str, str]] = set()
        self.wrong: list[str] = []

    async def load(self) -> None:
        """New jobs for ever; old ones end by themselves."""
        while True:
            await asyncio.sleep(self.draw.expovariate(1.0))
            kind = self.draw.choice(["job", "gang", "plain"])
            name, members = f"{kind}-{self.count[kind]}", self.draw.choice([1, 2, 3, 4])
            self.count[kind] += 1
            queue, gpus = f"team-{self.draw.choice('aab')}", self.draw.choice([2, 4, 8])
            run_for = self.draw.uniform(2, 8)
            more: Manifest = {"priorityClassName": "high"} if self.draw.random() < 0.15 else {}
            self.sizes[name] = members
            if kind == "plain":
                made = plain(name, queue, members, gpus, run_for, **more)
            else:
                made = job(name, queue, members, gpus, run_for, kind == "gang", **more)
            await self.here.stage.make(*made)
            self.whole.add(name)

    async def check(self) -> None:
        """Every second: nothing overbooked, nobody in part for long; what has ended goes."""
        while True:
            await asyncio.sleep(1)
            pods = await self.here.stage.pods()
            used: Counter[str] = Counter()
            bound: Counter[str] = Counter()
            live: Counter[str] = Counter()
            for name, found in pods.items():
                if found["status"].get("phase") in OVER:
                    continue
                own = owner(name, found)
                live[own] += 1
                if where := found["spec"].get("nodeName"):
                    bound[own] += 1
                    used[where] += int(found["spec"]["containers"][0]["resources"]["requests"].get(GPU, 0))
            self.wrong += [f"{name} holds {count} of {DEVICES}" for name, count in used.items() if count > DEVICES]
            self._partial(bound, live)
            await self._sweep(pods)
            await self._evictions()

    def _partial(self, bound: Counter[str], live: Counter[str]) -> None:
        now = time.monotonic()
        for name, size in self.sizes.items():
            if not (live[name] == size and 0 < bound[name] < size):
                self.partial.pop(name, None)
            elif now - self.partial.setdefault(name, now) > PATIENCE:
                self.wrong.append(f"{name} is bound in part: {bound[name]} of {size}")
                self.partial[name] = now

    async def _sweep(self, pods: dict[str, Any]) -> None:
        """Jobs and groups that are over go, as their users would see to it."""
        for found in await self.here.stage.items(JOBS):
            name = found["metadata"]["name"]
            said = {c["type"] for c in found.get("status", {}).get("conditions", []) if c["status"] == "True"}
            if "Complete" in said and "deletionTimestamp" not in found["metadata"]:
                self._over(name)
                await self.here.stage.api.insist("DELETE", f"{JOBS}/{name}", {"propagationPolicy": "Background"})
                if name.startswith("gang"):
                    await self.here.stage.remove(f"{GROUPS}/{name}")
            elif "Failed" in said and name in self.sizes:
                self.wrong.append(f"{name} failed: {found['status']['conditions']}")
                self._over(name)
        await self._sweep_plain(pods)

    async def _sweep_plain(self, pods: dict[str, Any]) -> None:
        """Groups of plain pods that are over, or that Kueue took back: it deletes them, and nobody makes them again."""
        groups: dict[str, dict[str, str]] = {name: {} for name in self.sizes if name.startswith("plain")}
        for name, found in pods.items():
            if (own := owner(name, found)) in groups and "deletionTimestamp" not in found["metadata"]:
                groups[own][name] = str(found["status"].get("phase"))
        for name, members in groups.items():
            size = self.sizes[name]
            ended = list(members.values()).count("Succeeded") == size
            if ended or (name in self.whole and len(members) < size):
                self._over(name, "ended" if ended else "taken")
                await asyncio.gather(*(self.here.stage.remove(f"{PODS}/{name}-{i}") for i in range(size)))

    def _over(self, name: str, how: str = "ended") -> None:
        if self.sizes.pop(name, 0):
            self.count[how] += 1

    async def _evictions(self) -> None:
        """How often Kueue took somebody's room back."""
        for found in await self.here.stage.items(WORKLOADS):
            for said in found.get("status", {}).get("conditions", []):
                if said["type"] == "Evicted" and said["status"] == "True":
                    self.evicted.add((found["metadata"]["uid"], said["lastTransitionTime"]))


def owner(name: str, found: Manifest) -> str:
    """The job or the group that a pod is of."""
    labels = found["metadata"].get("labels") or {}
    return str(labels.get(GROUP) or labels.get("job-name") or name)


async def soak(seconds: float, seed: int) -> dict[str, Any]:
    """All of it at once, for so long, and then until nothing is left."""
    async with scene(NODES) as here:
        await here.beside.groups()
        frameworks = {"frameworks": ["batch/job", "pod"]}
        await here.beside.start("kueue", integrations=frameworks)
        await here.stage.make(*queues()[:1])
        for thing in queues()[1:]:
            await here.stage.make_one(thing)
        here.start_tutti()
        running = Soak(here, seed)
        config = here.rig.kubeconfig()
        async with kept(config, PODS, GROUPS) as shared, kept(config, JOBS, WORKLOADS) as theirs:
            await at_work(running, seconds)
        return report(running, shared, theirs) | {"seed": seed}


async def at_work(running: Soak, seconds: float) -> None:
    """Load for so long, then none, until everything has ended."""
    load, check = asyncio.create_task(running.load()), asyncio.create_task(running.check())
    await asyncio.wait([load, check], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    load.cancel()
    # The last one may have been cut short before it was made.
    running.sizes = {name: size for name, size in running.sizes.items() if name in running.whole}
    end = time.monotonic() + DRAINED_IN
    while running.sizes and time.monotonic() < end and not check.done():  # noqa: ASYNC110 - it is looked at anyway
        await asyncio.sleep(0.5)
    check.cancel()
    for done in await asyncio.gather(load, check, return_exceptions=True):
        if not isinstance(done, asyncio.CancelledError):
            running.wrong.append(repr(done))
    if running.sizes:
        running.wrong.append(f"never ended: {running.sizes}; {await running.here.told()}")
    running.wrong += [f"{name} ended by itself" for name in running.here.failed()]


def report(running: Soak, shared: Ledger, theirs: Ledger) -> dict[str, Any]:
    """What was seen."""
    wrong = [*running.wrong, *(f"in turn: {found}" for found in quarrels(shared) + quarrels(theirs))]
    if ours := theirs.fields_of(OURS):
        wrong.append(f"we wrote on Jobs or Workloads: {sorted(ours)}")
    others = [q for ledger in (shared, theirs) for q in ledger.quarrels() if not q.between(OURS)]
    return {
        "kueue": version(PROGRAMS["kueue"].module),
        "count": dict(running.count),
        "evicted_by_kueue": len(running.evicted),
        "writes": dict(shared.versions + theirs.versions),
        "ours": sorted(shared.fields_of(OURS)),
        "quarrels_of_others": sorted({q.path for q in others}),
        "wrong": wrong,
    }


def main() -> None:
    """Run and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300.0
    try:
        found = asyncio.run(soak(seconds, int(time.time())))
    except Impossible as problem:
        sys.exit(f"error: {problem}")
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
