"""Half an hour of random load, evictions, node losses and scheduler kills on a real API server, with the checker on.

    python bench/kube_soak.py [SECONDS] [SEED]

Fails when a gang stays bound in part, a node holds more than it has, or memory grows without end. Prints JSON.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.kube_rig import Course, course
from tools.control_plane.kubelet import Kubelet
from tools.control_plane.stage import GPU, gang, node
from tutti.kube.api import Api
from tutti.kube.credentials import from_file

NODES = 24
PATIENCE = 60.0
"""Seconds in which a gang that is bound in part must become whole or empty."""
MAY_GROW = 10.0
"""Megabytes that one scheduler may grow by from the third quarter of the time to the last."""


class Soak:
    """What is going on, and what went wrong."""

    def __init__(self, race: Course, seed: int, seconds: float) -> None:
        self.race = race
        self.spare_after = time.monotonic() + seconds / 2
        """From then on the scheduler is not killed any more, so that its memory can be seen to stay."""
        self.draw = random.Random(seed)
        self.count: Counter[str] = Counter()
        self.sizes: dict[str, int] = {}
        self.seen: set[str] = set()
        """Gangs of which pods were there once; when there are none any more, their groups go too."""
        self.partial: dict[str, float] = {}
        self.memory: list[float] = []
        self.wrong: list[str] = []

    async def load(self) -> None:
        """New gangs, now and then more important than the others; old ones end by themselves."""
        while True:
            await asyncio.sleep(self.draw.expovariate(2.0))
            name, pods = f"g{self.count['gangs']}", self.draw.choice([1, 1, 2, 3, 4, 8])
            self.count["gangs"] += 1
            run_for = self.draw.uniform(1, 8)
            more: dict[str, Any] = {"priorityClassName": "high"} if self.draw.random() < 0.1 else {}
            more |= {"annotations": {"tutti.dev/time": "10s"}} if self.draw.random() < 0.7 else {}
            things = gang(name, pods, self.draw.choice([1, 2, 8]), owner=name, **more)
            for thing in things[1:]:
                thing["metadata"]["annotations"] = {"rig/run-for": f"{run_for:.1f}"}
            self.sizes[name] = pods
            await self.race.stage.make(*things)

    async def trouble(self) -> None:
        """Nodes vanish and come back; pods are deleted; the scheduler is killed and started again."""
        while True:
            await asyncio.sleep(self.draw.uniform(2, 6))
            spared = time.monotonic() > self.spare_after
            what = self.draw.choice(["node", "pod", "cordon"] if spared else ["node", "pod", "cordon", "kill"])
            self.count[what] += 1
            if what == "kill":
                self.race.process.kill()  # type: ignore[union-attr]
                self.race.process.wait()  # type: ignore[union-attr]
                self.race.start_tutti()
            elif what == "pod":
                names = [name for name, where in (await self.race.stage.nodes_of()).items() if where]
                if names:
                    await self.race.stage.remove(f"/api/v1/namespaces/default/pods/{self.draw.choice(names)}")
            else:
                await self._shake(f"n{self.draw.randrange(NODES):04}", what)

    async def _shake(self, name: str, what: str) -> None:
        path = f"/api/v1/nodes/{name}"
        if what == "cordon":
            await self.race.stage.patch(path, {"spec": {"unschedulable": True}})
            await asyncio.sleep(1)
            await self.race.stage.patch(path, {"spec": {"unschedulable": None}})
            return
        await self.race.stage.remove(path)
        for pod, where in (await self.race.stage.nodes_of()).items():
            if where == name:
                await self.race.stage.remove(f"/api/v1/namespaces/default/pods/{pod}")
        await self.race.stage.make_one(node(name))

    async def check(self) -> None:
        """Every second: nothing overbooked, nobody in part for long, memory."""
        while True:
            await asyncio.sleep(1)
            pods = await self.race.stage.pods()
            used: Counter[str] = Counter()
            bound: Counter[str] = Counter()
            live: Counter[str] = Counter()
            for name, found in pods.items():
                own, where = name.rsplit("-", 1)[0], found["spec"].get("nodeName")
                if found.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                    continue
                live[own] += 1
                if where:
                    bound[own] += 1
                    used[where] += int(found["spec"]["containers"][0]["resources"]["requests"].get(GPU, 0))
            self.wrong += [f"{name} holds {count} of 8" for name, count in used.items() if count > 8]
            self._partial(bound, live)
            if self.race.process is not None and self.race.process.poll() is None:
                self.memory.append(self.race.memory_mb())
            await self._sweep(pods)

    def _partial(self, bound: Counter[str], live: Counter[str]) -> None:
        now = time.monotonic()
        for name, size in self.sizes.items():
            # A gang that lost a pod for good (nobody makes it again here) is not our doing.
            in_part = live[name] == size and 0 < bound[name] < size
            if not in_part:
                self.partial.pop(name, None)
            elif now - self.partial.setdefault(name, now) > PATIENCE:
                self.wrong.append(f"{name} is bound in part: {bound[name]} of {size}")

    async def _sweep(self, pods: dict[str, Any]) -> None:
        """Ended pods go, as a controller would see to it."""
        over = [name for name, pod in pods.items() if pod.get("status", {}).get("phase") in ("Succeeded", "Failed")]
        await asyncio.gather(*(self.race.stage.remove(f"/api/v1/namespaces/default/pods/{name}") for name in over))
        left = {name.rsplit("-", 1)[0] for name in pods}
        empty = [name for name in self.sizes if name not in left and name in self.seen]
        self.seen |= left
        for name in empty:
            del self.sizes[name]
            await self.race.stage.remove(f"/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/{name}")


async def soak(seconds: float, seed: int) -> dict[str, Any]:
    """All of it at once, for so long."""
    async with course(NODES) as race:
        api = Api(from_file(race.rig.kubeconfig()), 8)
        race.start_tutti()
        running = Soak(race, seed, seconds)
        work = [Kubelet(api).run(), running.load(), running.trouble(), running.check()]
        tasks = [asyncio.create_task(part) for part in work]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        api.close()
        failures = [repr(task.exception()) for task in done if not task.cancelled()]
        grown = growth(running.memory)
        failures += [f"memory grew by {grown:.1f} MB"] if grown > MAY_GROW else []
        return {
            "seed": seed,
            "events": dict(running.count),
            "bound": len(race.bound),
            "peak_mb": round(max(running.memory, default=0.0), 1),
            "grown_mb": round(grown, 1),
            "wrong": running.wrong + failures,
        }


def growth(memory: list[float]) -> float:
    """From the third quarter to the last, in both of which one scheduler has run all the time."""
    quarter = len(memory) // 4
    third, last = memory[2 * quarter : 3 * quarter], memory[3 * quarter :]
    return statistics.median(last) - statistics.median(third) if third and last else 0.0


def main() -> None:
    """Run and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1800.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    report = asyncio.run(soak(seconds, seed))
    print(json.dumps(report))
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
