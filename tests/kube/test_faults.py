"""Whatever breaks, and whenever: afterwards every gang is whole or empty, and nothing is double-booked."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from datetime import datetime, timedelta

import pytest

from tests.kube.proxy import Proxy, behind
from tools.control_plane.stage import GPU, gang, group, many, node, pod
from tutti.kube.config import Config
from tutti.kube.placement import Written, age

LEASE = "/apis/coordination.k8s.io/v1/namespaces/tutti-system/leases/tutti"
WRITES = 5
"""One placement and four binds."""
PREEMPTION = 7
"""Three evictions, a record that goes and one that comes, two binds; and what is told meanwhile."""


@contextlib.asynccontextmanager
async def process(play, proxy, *options):
    """Our scheduler in a process of its own, behind the proxy."""
    command = [sys.executable, "-m", "tutti", "kube", "run", "--port", "0", "--kubeconfig"]
    file = play.rig.kubeconfig(play.rig.tutti, proxy.url)
    with (play.rig.folder / "tutti.log").open("ab") as log:
        running = await asyncio.create_subprocess_exec(*command, str(file), *options, stdout=log, stderr=log)
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        await running.wait()


async def check(play, sizes):
    """Whole or empty, and no node with more than it has."""
    bound = await play.bound("")
    used = Counter(bound.values())
    assert all(count <= 1 for count in used.values()), bound
    for name, size in sizes.items():
        assert sum(pod.startswith(f"{name}-") for pod in bound) in (0, size), bound


async def killed_after(play, last):
    """Our scheduler, killed when so many of its writes were answered; none of the others reaches the server."""
    async with Proxy(play.rig) as proxy:
        killed = asyncio.Event()
        async with process(play, proxy, "--no-lease") as running:

            def kill(request):
                if request.number == last:
                    running.kill()
                    killed.set()

            async def hold(request):
                return (503, "Gone") if killed.is_set() or request.number > last else None

            proxy.after, proxy.before = kill, hold
            await asyncio.wait_for(killed.wait(), 60)


@pytest.mark.parametrize("last", range(1, WRITES + 1))
def test_killed_after_every_write(play, last):
    async def scene(play):
        await play.nodes(4)
        await play.stage.make(*many([gang("a", 4), gang("b", 4)]))
        await killed_after(play, last)
        async with play.scheduler():
            bound = await play.until_bound("a-", "b-", count=4)
            assert len({name[0] for name in bound}) == 1, bound
            assert len(set(bound.values())) == len(bound) == 4, bound

    play(scene)


@pytest.mark.parametrize("last", range(1, PREEMPTION + 1))
@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "broken"])
def test_killed_after_every_write_of_a_preemption(play, last, is_broken):
    async def scene(play):
        await play.nodes(3)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("low", 3))
            await play.until_bound("low-")
            await play.settle(scheduler)
        if is_broken:
            await play.stage.remove("/api/v1/namespaces/default/pods/low-0")
        await play.stage.make(*gang("high", 2, priorityClassName="high"))
        await killed_after(play, last)
        async with play.scheduler() as scheduler:
            bound = await play.until_bound("high-")
            await play.until_gone("low-")
            assert len(set(bound.values())) == 2, bound
            await play.settle(scheduler)
            assert scheduler.compare() == 0
            records = await play.stage.items("/apis/tutti.dev/v1alpha1/placements")
            assert [record["spec"]["gang"] for record in records] == ["default/high"]

    play(scene)


@pytest.mark.parametrize("last", range(1, WRITES + 1))
def test_killed_after_every_write_of_a_tree(play, last):
    async def scene(play):
        await play.nodes(4)
        await play.stage.make(*tree("t", left=2, right=2))
        await killed_after(play, last)
        async with play.scheduler() as scheduler:
            bound = await play.until_bound("left-", "right-", count=4)
            assert len(set(bound.values())) == 4, bound
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


def tree(name, **groups):
    """A composite group, its groups and their pods."""
    api, more = "scheduling.k8s.io/v1alpha3", {"namespace": "default"}
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": len(groups)}}}
    spec["workloadRef"] = {"workloadName": name, "templateName": name}
    yield {"apiVersion": api, "kind": "CompositePodGroup", "metadata": {"name": name, **more}, "spec": spec}
    for part, count in groups.items():
        body = group(part, count, parentCompositePodGroupName=name)
        body["spec"]["workloadRef"] = {"workloadName": name, "templateName": part}
        yield body | {"apiVersion": api}
        yield from (pod(f"{part}-{at}", part) for at in range(count))


@pytest.mark.parametrize("refused", [2, 4])
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(play, refused, status):
    async def scene(play):
        await play.nodes(4)

        async def refuse(request):
            return (status, "Busy") if request.number == refused else None

        async with behind(play, refuse) as (_, scheduler):
            await play.stage.make(*gang("a", 4))
            assert len(set((await play.until_bound("a-")).values())) == 4
            assert scheduler.metrics.values.get(("tutti_kube_undone_total", ""), 0) == 0

    play(scene)


def test_a_bind_that_is_refused_for_good_undoes_the_gang(play):
    async def scene(play):
        await play.nodes(4)

        async def refuse(request):
            return (422, "Invalid") if "a-2/binding" in request.path else None

        async with behind(play, refuse) as (_, scheduler):
            await play.stage.make(*gang("a", 4, owner="job"))

            async def undone():
                return not await play.bound("a-") and scheduler.metrics.values.get(("tutti_kube_undone_total", ""), 0)

            assert await play.until(undone, "undone") == 1

            async def told():
                return sum(scheduler.metrics.buckets.get("tutti_kube_exposure_seconds", ()))

            assert await play.until(told, "how long it was bound in part") == 1

    play(scene)


def test_how_long_a_gang_was_bound_in_part_counts_from_before_a_crash(play):
    async def scene(play):
        await play.nodes(4)
        await play.stage.make(*gang("a", 4))
        await killed_after(play, 3)
        (record,) = await play.stage.items("/apis/tutti.dev/v1alpha1/placements")
        earlier = datetime.fromisoformat(record["spec"]["deadline"]) - timedelta(hours=1)
        place = f"/apis/tutti.dev/v1alpha1/namespaces/default/placements/{record['metadata']['name']}"
        await play.stage.patch(place, {"spec": {"deadline": earlier.isoformat(timespec="seconds")}})
        async with play.scheduler() as scheduler:
            await play.until_bound("a-", count=4)
            await play.settle(scheduler)
            assert scheduler.metrics.sums["tutti_kube_exposure_seconds"] >= 3600

    play(scene)


def test_a_record_without_a_time_is_as_old_as_we_are():
    assert age(Written([], deadline="soon"), 120, 0.0) == 0
    assert age(Written([], deadline="1970-01-01T00:03:00+00:00"), 120, 100.0) == 40


def test_bare_pods_are_held_and_told(play):
    async def scene(play):
        await play.nodes(4)

        async def refuse(request):
            return (422, "Invalid") if "a-2/binding" in request.path else None

        async with behind(play, refuse):
            await play.stage.make(*gang("a", 4))

            async def told():
                events = await play.stage.items("/apis/events.k8s.io/v1/events")
                return any(event["reason"] == "HeldPartial" for event in events)

            await play.until(told, "held")
            assert len(await play.bound("a-")) == 3

    play(scene)


def test_watches_are_cut_while_a_gang_starts(play):
    async def scene(play):
        await play.nodes(8)
        async with behind(play) as (proxy, scheduler):
            proxy.after = lambda request: proxy.cut() if request.number % 2 else None
            await play.stage.make(*many([gang("a", 4), gang("b", 4)]))
            assert len(set((await play.until_bound("a-", "b-")).values())) == 8
            await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
            proxy.cut()

            async def seen():
                names = {pod.name for pod in scheduler.mirror.pods.values()}
                return names if len(names) < 8 else None

            assert "a-0" not in await play.until(seen, "the loss is seen")

    play(scene)


async def led_by_another(play, holder):
    return (await play.stage.get(LEASE))["spec"]["holderIdentity"] not in ("", holder)


@pytest.mark.parametrize("last", [1, 3, 5])
def test_a_paused_leader_writes_nothing_when_it_comes_back(play, tmp_path, last):
    settings = tmp_path / "config.toml"
    settings.write_text("lease_seconds = 3\n")

    async def scene(play):
        await play.nodes(8)
        async with Proxy(play.rig) as first, Proxy(play.rig) as second:
            paused = asyncio.Event()
            async with process(play, first, "--config", str(settings)) as old:

                def pause(request):
                    if request.number == last and not paused.is_set():
                        old.send_signal(signal.SIGSTOP)
                        paused.set()

                first.after = pause
                await play.stage.make(*many([gang("a", 4), gang("b", 4)]))
                await asyncio.wait_for(paused.wait(), 60)
                holder = (await play.stage.get(LEASE))["spec"]["holderIdentity"]
                async with process(play, second, "--config", str(settings)):
                    await play.until_bound("a-", "b-")
                    await play.until(lambda: led_by_another(play, holder), "the lease is taken over")
                    before = first.writes
                    os.kill(old.pid, signal.SIGCONT)
                    await asyncio.wait_for(old.wait(), 60)
                    assert first.writes == before
                    await check(play, {"a": 4, "b": 4})
        await play.stage.remove(LEASE)

    play(scene)


def test_a_failed_admission_is_repaired(play):
    async def scene(play):
        await play.nodes(3)
        async with play.scheduler():
            things = gang("a", 2)
            things[2]["metadata"]["annotations"] = {"rig/fails": "OutOfcpu"}
            await play.stage.make(*things)
            await play.until_bound("a-")
            await play.stage.make_one(pod("a-9", "a"))
            await play.until_bound("a-9")
            nodes = await play.bound("a-0", "a-9")
            assert len(set(nodes.values())) == 2

    play(scene)


def test_members_that_never_run_are_taken_off(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler(Config(up_within=1)) as scheduler:
            things = gang("a", 2, owner="job")
            things[2]["metadata"]["annotations"] = {"rig/never": ""}
            await play.stage.make(*things)
            await play.until_gone("a-")
            assert scheduler.metrics.values["tutti_kube_undone_total", ""] == 1

    play(scene)


def test_a_disruption_budget_is_waited_for(play):
    async def scene(play):
        await play.nodes(2)
        budget = await play.budget("low", 2)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("low", 2, labels={"app": "low"}))
            await play.until_bound("low-")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))

            async def blocked():
                return scheduler.metrics.values.get(("tutti_kube_evictions_blocked_total", ""), 0) > 0

            await play.until(blocked, "blocked")
            assert len(await play.bound("low-")) == 2
            await play.stage.remove(budget)
            await play.until_bound("high-")

    play(scene)


def test_nobody_steals_what_was_freed(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler():
            things = gang("low", 2)
            for thing in things[1:]:
                thing["metadata"]["annotations"] = {"rig/grace": "1"}
                thing["spec"]["terminationGracePeriodSeconds"] = 5
            await play.stage.make(*things)
            await play.until_bound("low-")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))
            await play.stage.make(*many([gang(f"thief{i}", 1) for i in range(4)]))
            await play.until_bound("high-")
            assert not await play.bound("thief")

    play(scene)


def test_a_device_is_never_booked_twice(play):
    async def scene(play):
        await play.stage.make(*(node(f"n{i}", gpus=4) for i in range(3)))
        async with play.scheduler() as scheduler:
            await play.stage.make(*many([gang(f"g{i}", 2, gpus=3) for i in range(5)]))
            await play.until_bound("g", count=2)
            await play.settle(scheduler)
            used: Counter[str] = Counter()
            for found in (await play.stage.pods()).values():
                where = found["spec"].get("nodeName")
                used[where] += int(found["spec"]["containers"][0]["resources"]["requests"][GPU]) if where else 0
            assert max(used.values()) <= 4

    play(scene)
