"""Whole gangs on a real API server: figures against their goals, and against kube-scheduler's own gangs.

    python bench/kube.py [figure ...]      all of them, or those whose names begin so

Everything runs on this machine: etcd, API server, scheduler and driver; etcd and the API server collect their rubbish
seldom (GOGC=300), and the API server once more before each race begins, for all schedulers alike. The last line is
JSON.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.kube_rig import Course, course
from tools.control_plane.kubelet import Kubelet
from tools.control_plane.stage import gang, group, many, pod
from tutti.jobs.kube.objects import Pod
from tutti.kube.api import Api
from tutti.kube.credentials import from_file

GOALS: dict[str, tuple[float, bool]] = {
    "bind_limit_per_s": (0, True),
    "drain_of_limit": (0.8, True),
    "drain_pods_per_s": (0, True),
    "live_limit_per_s": (0, True),
    "live_pods_per_s": (400, True),
    "gang512_s": (0.8, False),
    "gang512_exposed_s": (0.6, False),
    "mixed_used_percent": (99.5, True),
    "mixed_last_bind_s": (10, False),
    "mixed_partial": (0, False),
    "no_fit_s": (0.3, False),
    "drain_cpu_s": (2, False),
    "rss_mb": (150, False),
    "restart_to_first_bind_s": (15, False),
    "rss_mb_scale": (800, False),
    "ratio_native_drain": (4, True),
    "ratio_native_gang512": (3.5, True),
    "head_gang_late_s": (1, False),
}
"""What is wanted, and whether more is better. A goal of 0 where more is better is only a yardstick."""
NATIVE = "default-scheduler"
LONGEST = 400.0
"""Seconds one race may take."""
Figures = dict[str, float]


def ten_by_hundred(scheduler: str = "tutti") -> list[dict[str, Any]]:
    """100 gangs of ten pods of eight devices."""
    return many([gang(f"g{i:03}", 10, scheduler=scheduler) for i in range(100)])


def spread_of(bound: dict[str, float]) -> tuple[float, float]:
    """First and last bind."""
    return min(bound.values()), max(bound.values())


async def bind_limit() -> Figures:
    """Binds of pods that were decided beforehand, by our own client, from first to last."""
    async with course() as race:
        await race.stage.make(*(pod(f"p{i}", scheduler="nobody") for i in range(1000)))
        await race.tidy()
        race.start_binder(1000)
        await race.until_bound(1000, 60, 5)
        first, last = spread_of(race.bound)
        return {"bind_limit_per_s": len(race.bound) / (last - first)}


async def drained(native: bool) -> Figures:
    """1,000 pods wait, then the scheduler is started."""
    async with course() as race:
        await race.stage.make(*ten_by_hundred(NATIVE if native else "tutti"))
        await race.tidy()
        race.start_native() if native else race.start_tutti()
        await race.until_bound(1000, 60, 5)
        first, last = spread_of(race.bound)
        await asyncio.sleep(0.3)
        return {"pods_per_s": len(race.bound) / (last - first), "cpu": race.cpu(), "rss": race.peak_mb()}


async def drain() -> Figures:
    """Pods per second from first to last bind."""
    found = await drained(native=False)
    return {"drain_pods_per_s": found["pods_per_s"], "drain_cpu_s": found["cpu"], "rss_mb": found["rss"]}


async def native_drain() -> Figures:
    """The same for kube-scheduler."""
    return {"native_drain_pods_per_s": (await drained(native=True))["pods_per_s"]}


async def live() -> Figures:
    """The pods are created while the scheduler runs."""
    async with course() as race:
        race.start_tutti()
        await settled(race)
        return {"live_pods_per_s": await poured(race)}


async def live_limit() -> Figures:
    """The same where each pod is bound by the driver itself as soon as it is seen, wherever: nobody can be faster."""
    async with course() as race:
        api, nodes, binds = Api(from_file(race.rig.kubeconfig()), 24), iter(range(1000)), []
        seen: set[str] = set()

        def bind(pod: Pod) -> None:
            name = pod.metadata.name
            if name not in seen:
                seen.add(name)
                body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": f"n{next(nodes):04}"}}
                path = f"/api/v1/namespaces/default/pods/{name}/binding"
                binds.append(asyncio.create_task(api.write("POST", path, body)))

        race.also = bind
        await race.tidy()
        found = await poured(race)
        await asyncio.gather(*binds)
        api.close()
        return {"live_limit_per_s": found}


async def poured(race: Course) -> float:
    """Make the groups and the pods as fast as they are taken; pods per second from the first group to the last bind."""
    things, before = ten_by_hundred(), len(race.bound)
    began = time.monotonic()
    await race.stage.make(*(thing for thing in things if thing["kind"] != "Pod"))
    await race.stage.make(*(thing for thing in things if thing["kind"] == "Pod"), read=False)
    await race.until_bound(before + 1000, 60, 3)
    times = [at for name, at in race.bound.items() if name != "probe"]
    return len(times) / (max(times) - began)


async def settled(race: Course) -> None:
    """A first pod is bound: the scheduler is warm."""
    scheduler = NATIVE if "kube-scheduler" in race.rig.processes else "tutti"
    await race.stage.make_one(pod("probe", gpus=0, scheduler=scheduler))
    await race.until(lambda: "probe" in race.bound, 60)
    await race.tidy()


async def gang_of_512(native: bool) -> tuple[float, float]:
    """Last create to last bind, and how long it was bound in part."""
    async with course() as race:
        race.start_native() if native else race.start_tutti()
        await settled(race)
        things = gang("big", 512, scheduler=NATIVE if native else "tutti")
        await race.stage.make_one(things[0])
        await race.stage.make(*things[1:])
        created = time.monotonic()
        await race.until_bound(513, 120, 120)
        times = [at for name, at in race.bound.items() if name.startswith("big")]
        if len(times) < 512:
            # Not in two minutes; it is counted as two minutes.
            return 120.0, 120.0
        return max(times) - created, max(times) - min(times)


async def gang512() -> Figures:
    """One gang of 512 pods."""
    took, exposed = await gang_of_512(native=False)
    return {"gang512_s": took, "gang512_exposed_s": exposed}


async def native_gang512() -> Figures:
    """The same for kube-scheduler."""
    return {"native_gang512_s": (await gang_of_512(native=True))[0]}


def mixed_gangs(seed: int = 7) -> list[tuple[str, int, int]]:
    """400 gangs that together want one and a half times the cluster: name, pods, devices of each."""
    draw = random.Random(seed)
    found, wanted = [], 0
    sizes = [(1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (8, 2), (4, 4), (8, 4), (16, 4), (8, 8), (16, 8), (32, 8)]
    weights = [14, 12, 10, 8, 10, 8, 6, 8, 6, 5, 6, 4, 3]
    for i in range(400):
        pods, gpus = draw.choices(sizes, weights)[0]
        found.append((f"m{i:03}", pods, gpus))
        wanted += pods * gpus
    scale = 12_000 - wanted
    at = 0
    while scale > 0:
        name, pods, gpus = found[at % 400]
        found[at % 400] = (name, pods + 2, gpus)
        scale -= 2 * gpus
        at += 1
    return found


async def mixed() -> Figures:
    """400 mixed gangs that want 1.5 times the cluster."""
    async with course() as race:
        race.start_tutti()
        await settled(race)
        gangs = mixed_gangs()
        things = many([gang(name, pods, gpus) for name, pods, gpus in gangs])
        began = time.monotonic()
        await race.stage.make(*(thing for thing in things if thing["kind"] != "Pod"))
        await race.stage.make(*(thing for thing in things if thing["kind"] == "Pod"), read=False)
        await race.until_bound(100_000, 40, 4)
        times = [at for name, at in race.bound.items() if name != "probe"]
        placed = {name: sum(f"{name}-{i}" in race.bound for i in range(pods)) for name, pods, _ in gangs}
        used = sum(placed[name] * gpus for name, _, gpus in gangs)
        partial = sum(0 < placed[name] < pods for name, pods, _ in gangs)
        return {
            "mixed_used_percent": 100 * used / 8000,
            "mixed_last_bind_s": max(times) - began,
            "mixed_partial": float(partial),
        }


async def no_fit() -> Figures:
    """A gang of 100 pods where 50 nodes are free: until its group and all its pods are told."""
    async with course() as race:
        fill = [pod(f"f{i}", scheduler="nobody", nodeName=f"n{i:04}") for i in range(950)]
        await race.stage.make(*fill)
        race.start_tutti()
        await settled(race)
        await race.stage.make_one(group("big", 100))
        await race.stage.make(*(pod(f"big-{i}", "big") for i in range(100)))
        created = time.monotonic()
        path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/big"
        told = 0.0
        while time.monotonic() - created < 20 and not (told and sum(n.startswith("big") for n in race.told) == 100):
            await asyncio.sleep(0.01)
            if not told:
                said = (await race.stage.get(path)).get("status", {}).get("conditions", [])
                told = time.monotonic() if any("could sit" in c["message"] for c in said) else 0.0
        last = max([told, *(at for name, at in race.told.items() if name.startswith("big"))])
        return {"no_fit_s": last - created}


async def restart(nodes: int = 5000, pods: int = 50_000) -> Figures:
    """Start of the process to the first bind where there is a lot to read."""
    async with course(nodes, watching=False) as race:
        spread = [
            pod(f"o{i}", gpus=0, scheduler="nobody", nodeName=f"n{i % nodes:04}", cpu="100m") for i in range(pods)
        ]
        for at in range(0, pods, 2000):
            await race.stage.make(*spread[at : at + 2000], read=False)
        await race.stage.make(*gang("late", 8))
        await race.watch()
        race.bound.clear()
        began = time.monotonic()
        race.start_tutti()
        await race.until_bound(1, 120, 120)
        first = min((at for name, at in race.bound.items() if name.startswith("late")), default=began + 120)
        return {"restart_to_first_bind_s": first - began, "rss_mb_scale": race.peak_mb()}


async def head_gang() -> Figures:
    """An 8-node gang against an endless stream of 1-node gangs of four seconds on eight nodes.

    The scheduler's API says when the gang was promised to start, first and later; late is what comes after the first.
    """
    async with course(8) as race:
        api = Api(from_file(race.rig.kubeconfig()), 8)
        kubelet = asyncio.create_task(Kubelet(api).run())
        race.start_tutti()
        await settled(race)
        stream = asyncio.create_task(small_gangs(race))
        await asyncio.sleep(6)
        began, clock = time.monotonic(), time.time()
        await race.stage.make(*gang("head", 8, annotations={"tutti.dev/time": "10s"}))
        promise = 0.0
        while time.monotonic() - began < 60 and sum(name.startswith("head") for name in race.bound) < 8:
            await asyncio.sleep(0.05)
            if not promise:
                rows = (await race.ask("/v1/jobs?match=head"))["jobs"]
                promise = next((row["eta_us"] / 1e6 - clock for row in rows if row["eta_us"]), 0.0)
        last = max((at for name, at in race.bound.items() if name.startswith("head")), default=began + 60)
        for task in (stream, kubelet):
            task.cancel()
        api.close()
        late = max(last - began - promise, 0.0) if promise else 60.0
        return {"head_gang_start_s": last - began, "head_gang_promised_s": promise, "head_gang_late_s": late}


async def small_gangs(race: Course) -> None:
    """Two new ones a second; each runs four seconds and says five."""
    number = 0
    while True:
        for thing in gang(f"s{number}", 1, annotations={"tutti.dev/time": "5s"}):
            if thing["kind"] == "Pod":
                thing["metadata"]["annotations"] = {"rig/run-for": "4", "tutti.dev/time": "5s"}
            await race.stage.make_one(thing)
        number += 1
        await asyncio.sleep(0.4)


RACES: dict[str, Callable[[], Coroutine[Any, Any, Figures]]] = {
    "bind_limit": bind_limit,
    "drain": drain,
    "live_limit": live_limit,
    "live": live,
    "gang512": gang512,
    "mixed": mixed,
    "no_fit": no_fit,
    "native_drain": native_drain,
    "native_gang512": native_gang512,
    "head_gang": head_gang,
    "restart": restart,
}
REPEATED = {"bind_limit": 5, "drain": 5, "live_limit": 3, "live": 5, "gang512": 3, "no_fit": 3}


def run(name: str, race: Callable[[], Coroutine[Any, Any, Figures]]) -> Figures:
    """One race; one that fails is named and leaves the others alone."""
    try:
        return asyncio.run(asyncio.wait_for(race(), LONGEST))
    except Exception as problem:  # noqa: BLE001 - whatever it is, the other figures are wanted
        print(f"{name} failed: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        return {}


def figures(wanted: list[str]) -> Figures:
    """Run the races and take the median of those that are repeated."""
    found: dict[str, list[float]] = {}
    asked = [name for name in RACES if not wanted or any(name.startswith(word) for word in wanted)]
    # Round by round, so that what is compared was measured in the same weather.
    rounds = [name for at in range(max(REPEATED.values())) for name in asked if at < REPEATED.get(name, 1)]
    for name in rounds:
        new = run(name, RACES[name])
        for figure, value in new.items():
            found.setdefault(figure, []).append(value)
        print(f"{name}: {', '.join(f'{k} {v:.2f}' for k, v in new.items())}", file=sys.stderr, flush=True)
    return {name: statistics.median(values) for name, values in derived(found).items()}


def derived(found: dict[str, list[float]]) -> dict[str, list[float]]:
    """Ratios of what was measured in the same round; where one was measured once, all are compared with that."""
    for name, over, under in (
        ("drain_of_limit", "drain_pods_per_s", "bind_limit_per_s"),
        ("live_of_limit", "live_pods_per_s", "live_limit_per_s"),
        ("ratio_native_drain", "drain_pods_per_s", "native_drain_pods_per_s"),
        ("ratio_native_gang512", "native_gang512_s", "gang512_s"),
    ):
        if over in found and under in found:
            more = max(len(found[over]), len(found[under]))
            tops, bottoms = (found[which] * (more if len(found[which]) == 1 else 1) for which in (over, under))
            found[name] = [top / bottom for top, bottom in zip(tops, bottoms, strict=False)]
    return found


def main() -> None:
    """Print the table and the JSON line."""
    found = figures(sys.argv[1:])
    report: dict[str, dict[str, object]] = {}
    if not sys.argv[1:]:
        for name in sorted(set(GOALS) - set(found)):
            report[name] = {"value": None, "goal": GOALS[name][0] or None, "met": False}
            print(f"{name:26} {'-':>10} goal {GOALS[name][0]:>6} MISSED")
    for name, value in found.items():
        goal, more = GOALS.get(name, (0.0, True))
        met = value >= goal if more else value <= goal
        yardstick = more and not goal
        report[name] = {"value": round(value, 3), "goal": None if yardstick else goal, "met": met}
        print(f"{name:26} {value:>10.2f} goal {goal:>6} {'met' if met else 'MISSED'}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
