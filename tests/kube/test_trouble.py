"""Trouble at the worst moment, with somebody who makes lost pods again: gangs end whole, and nothing is shared."""

import asyncio
import contextlib
import itertools

import pytest

from tests.kube.proxy import Proxy, behind
from tests.kube.test_faults import process
from tools.control_plane.stage import gang, node, pod
from tutti.kube.config import Config

PODS = "/api/v1/namespaces/default/pods"


@contextlib.asynccontextmanager
async def controller(play, name, size, same_names=False):
    """Makes pods of a gang again as long as there are too few, and removes those on nodes that are gone."""
    fresh = (f"{name}-{at}" for at in itertools.count(size))

    async def look():
        pods, nodes = await play.stage.pods(), await play.stage.items("/api/v1/nodes")
        there = {each["metadata"]["name"] for each in nodes}
        mine = {key: found for key, found in pods.items() if key.startswith(f"{name}-")}
        for key, found in mine.items():
            if found["spec"].get("nodeName") and found["spec"]["nodeName"] not in there:
                await play.stage.remove(f"{PODS}/{key}")
                return
        missing = [f"{name}-{at}" for at in range(size) if f"{name}-{at}" not in mine]
        for at in range(size - len(mine)):
            await play.stage.make_one(pod(missing[at] if same_names else next(fresh), name, owner="job"))

    async def work():
        while True:
            await look()
            await asyncio.sleep(0.1)

    task = asyncio.create_task(work())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until_whole(play, name, size):
    """Until so many pods are bound, each to a node of its own that is there; for good, as far as one can see."""

    async def check():
        there = {each["metadata"]["name"] for each in await play.stage.items("/api/v1/nodes")}
        found = await play.stage.pods()
        where = [p["spec"].get("nodeName") for key, p in found.items() if key.startswith(f"{name}-")]
        running = [p for key, p in found.items() if key.startswith(f"{name}-") and p["status"]["phase"] == "Running"]
        return len(where) == len(running) == len(set(where) & there) == size

    await play.until(check, f"{name} is whole")


@pytest.mark.parametrize("last", [6, 7, 8, 9])
def test_killed_while_a_start_is_undone(play, last):
    """One record, four binds of which one is refused, one mark, three evictions."""

    async def scene(play):
        await play.nodes(4)
        async with Proxy(play.rig) as proxy:
            killed = asyncio.Event()
            async with process(play, proxy, "--no-lease") as running:

                def kill(request):
                    if request.number == last:
                        running.kill()
                        killed.set()

                async def refuse(request):
                    if "a-2/binding" in request.path:
                        return 422, "Invalid"
                    return (503, "Gone") if killed.is_set() or request.number > last else None

                proxy.after, proxy.before = kill, refuse
                await play.stage.make(*gang("a", 4, owner="job"))
                await asyncio.wait_for(killed.wait(), 60)
        async with play.scheduler() as scheduler, controller(play, "a", 4):
            await until_whole(play, "a", 4)
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


@pytest.mark.parametrize("when", [1, 2, 4, 5])
def test_a_node_that_goes_while_a_gang_is_bound_to_it(play, when):
    async def scene(play):
        await play.nodes(6)
        async with behind(play) as (proxy, scheduler):
            tasks = []

            def lose(request):
                if request.number == when:
                    used = scheduler.mirror.gangs["default/a"].desired[0]
                    tasks.append(asyncio.create_task(play.stage.remove(f"/api/v1/nodes/{used[-1][0]}")))

            proxy.after = lose
            await play.stage.make(*gang("a", 4, owner="job"))
            async with controller(play, "a", 4):
                await until_whole(play, "a", 4)
                assert tasks
                await play.settle(scheduler)
                assert scheduler.compare() == 0

    play(scene)


def test_pods_that_come_back_under_the_same_name(play):
    async def scene(play):
        await play.nodes(3)
        await play.stage.make(*gang("a", 3, owner="job"))
        async with play.scheduler() as scheduler, controller(play, "a", 3, same_names=True):
            await until_whole(play, "a", 3)
            for name in ("a-1", "a-0", "a-2", "a-1"):
                before = (await play.stage.pods())[name]["metadata"]["uid"]
                await play.stage.remove(f"{PODS}/{name}")

                async def another(name=name, before=before):
                    found = (await play.stage.pods()).get(name)
                    return found is not None and found["metadata"]["uid"] != before

                await play.until(another, f"another {name}")
            await until_whole(play, "a", 3)
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


def test_a_node_that_goes_while_a_lost_member_comes_back(play):
    """The place of the second that is lost comes only later: it is not forgotten that somebody is missing."""

    async def scene(play):
        await play.nodes(3)
        async with behind(play) as (proxy, scheduler):
            await play.stage.make(*gang("a", 3, owner="job"))
            await until_whole(play, "a", 3)
            held, goes_on = asyncio.Event(), asyncio.Event()

            async def hold(request):
                if "a-3/binding" in request.path:
                    held.set()
                    await goes_on.wait()

            proxy.before = hold
            await play.stage.remove(f"{PODS}/a-1")
            async with controller(play, "a", 3):
                await asyncio.wait_for(held.wait(), 60)
                gone = (await play.stage.pods())["a-0"]["spec"]["nodeName"]
                await play.stage.remove(f"/api/v1/nodes/{gone}")
                await play.until(lambda: _is_short(scheduler, 2))
                goes_on.set()
                await play.until(lambda: _is_bound(play, "a-3"))
                await play.settle(scheduler)
                await play.stage.make_one(node("spare"))
                await until_whole(play, "a", 3)
                await play.settle(scheduler)
                assert scheduler.compare() == 0

    play(scene)


async def _is_short(scheduler, members):
    return sum(count for where in scheduler.mirror.gangs["default/a"].desired for _, count in where) == members


async def _is_bound(play, name):
    return (await play.stage.nodes_of()).get(name)


def test_a_budget_that_never_lets_an_undone_start_go(play):
    """One member never comes up, and the others may not be disturbed: that is told, and it becomes whole instead."""

    async def scene(play):
        await play.nodes(3)
        await play.budget("a", 3)
        things = gang("a", 3, owner="job", labels={"app": "a"})
        things[3]["metadata"]["annotations"] = {"rig/never": ""}
        await play.stage.make(*things)
        async with play.scheduler(Config(up_within=1, evict_within=2)) as scheduler, controller(play, "a", 3):
            await play.until(lambda: _heard(play, "EvictionBlocked"), "it is told")
            await play.until(lambda: _heard(play, "Spared"), "it is told")
            await until_whole(play, "a", 3)
            await play.settle(scheduler)
            state = {job.gang.name: job.life.state for job in scheduler.jobs()}
            assert state["default/a"] == "running"
            assert {"a-0", "a-1"} < set(await play.stage.pods())
            assert scheduler.compare() == 0

    play(scene)


def test_a_budget_that_lets_only_a_part_of_a_gang_go(play):
    """One of three has left when nobody else may: it is made again, and the gang whole where it was."""

    async def scene(play):
        await play.nodes(3)
        await play.budget("a", 2)
        things = gang("a", 3, owner="job")
        for thing in things[1:3]:
            thing["metadata"]["labels"] = {"app": "a"}
        await play.stage.make(*things)
        async with play.scheduler(Config(evict_within=2)) as scheduler, controller(play, "a", 3):
            await until_whole(play, "a", 3)
            await play.stage.make(*gang("high", 3, priorityClassName="high"))
            await play.until(lambda: _heard(play, "Spared"), "it is told")
            await until_whole(play, "a", 3)
            await play.settle(scheduler)
            assert {"a-0", "a-1"} < set(await play.stage.pods())
            assert "a-2" not in await play.stage.pods()
            assert not await play.bound("high-")
            assert scheduler.compare() == 0

    play(scene)


async def _heard(play, reason):
    events = await play.stage.items("/apis/events.k8s.io/v1/events")
    return [event["note"] for event in events if event.get("reason") == reason]


def test_another_member_that_goes_while_a_lost_one_comes_back(play):
    """The place of the one that comes back is its own, whether it sits there yet or not."""

    async def scene(play):
        await play.nodes(5)
        async with behind(play) as (proxy, scheduler):
            await play.stage.make(*gang("a", 3, owner="job"))
            await until_whole(play, "a", 3)
            held, goes_on = asyncio.Event(), asyncio.Event()

            async def hold(request):
                if "a-3/binding" in request.path:
                    held.set()
                    await goes_on.wait()

            proxy.before = hold
            await play.stage.remove(f"{PODS}/a-1")
            async with controller(play, "a", 3):
                await asyncio.wait_for(held.wait(), 60)
                await play.stage.remove(f"{PODS}/a-0")
                await play.until(lambda: _is_bound(play, "a-4"))
                goes_on.set()
                await until_whole(play, "a", 3)
                await play.settle(scheduler)
                assert not scheduler.notices
                assert scheduler.compare() == 0

    play(scene)


def test_a_pod_that_is_kept_by_a_finalizer_keeps_its_place(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler() as scheduler:
            things = gang("low", 2)
            things[1]["metadata"]["finalizers"] = ["example.com/slow"]
            await play.stage.make(*things)
            await play.until_bound("low-")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))

            async def alone():
                return set(await play.stage.pods()) == {"low-0", "high-0", "high-1"}

            await play.until(alone, "the other one has gone")

            async def waits():
                reason = scheduler.driver.answers().get("default/high")
                return reason is not None and reason.token == "WaitingForEviction"

            await play.until(waits, "it waits for the eviction")
            assert not await play.bound("high-")
            await play.stage.patch(f"{PODS}/low-0", {"metadata": {"finalizers": None}})
            await play.until_bound("high-")
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


def test_a_node_that_shrinks_under_a_gang_is_given_to_nobody_else(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 2))
            bound = await play.until_bound("a-")
            smaller = node(bound["a-0"], gpus=4)["status"]
            await play.stage.patch(f"/api/v1/nodes/{bound['a-0']}/status", {"status": smaller})
            await play.stage.make(*gang("b", 1, gpus=2))

            async def waits():
                reason = scheduler.driver.answers().get("default/b")
                return reason is not None and reason.token

            assert await play.until(waits, "it waits") == "NoCapacity"
            await play.settle(scheduler)
            assert scheduler.compare() == 0
            await play.stage.remove(f"{PODS}/a-0")
            await play.stage.remove(f"{PODS}/a-1")
            await play.until_bound("b-")

    play(scene)


async def _is_off_its_seat(scheduler, name):
    return name in scheduler.mirror.gangs and not scheduler.mirror.gangs[name].seats


def test_a_node_that_comes_back_while_a_bind_to_it_is_on_the_way_is_given_to_nobody_else(play):
    async def scene(play):
        await play.nodes(1)
        held, goes_on = asyncio.Event(), asyncio.Event()

        async def hold(request):
            if "a-0/binding" in request.path and not held.is_set():
                held.set()
                await goes_on.wait()

        async with behind(play, hold) as (_, scheduler):
            await play.stage.make(*gang("a", 1))
            await asyncio.wait_for(held.wait(), 60)
            await play.stage.remove("/api/v1/nodes/n0")
            await play.until(lambda: _is_off_its_seat(scheduler, "default/a"))
            await play.stage.make(*gang("b", 1, priorityClassName="high"))
            await play.stage.make_one(node("n0"))

            async def knows():
                return "default/b" in scheduler.driver.world.slots and "n0" in scheduler.driver.world.node_index

            await play.until(knows)
            goes_on.set()
            await play.until_bound("b-")
            await play.settle(scheduler)
            assert len(await play.bound("a-", "b-")) == 1

    play(scene)


def test_a_pod_that_somebody_else_has_bound_meanwhile_keeps_its_place(play):
    async def scene(play):
        await play.nodes(3)
        held, goes_on = asyncio.Event(), asyncio.Event()

        async def hold(request):
            if "a-0/binding" in request.path:
                held.set()
                await goes_on.wait()

        async with behind(play, hold) as (_, scheduler):
            await play.stage.make(*gang("a", 2))
            await asyncio.wait_for(held.wait(), 60)
            seen = scheduler.mirror.gangs["default/a"]
            taken = {where for where, _ in seen.desired[0]}
            left = next(name for name in ("n0", "n1", "n2") if name not in taken)
            target = {"apiVersion": "v1", "kind": "Node", "name": left}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a-0"}, "target": target}
            await play.stage.api.write("POST", f"{PODS}/a-0/binding", body)

            async def runs():
                return any(pod.node == left and pod.phase == "Running" for pod in seen.pods.values())

            await play.until(runs)
            goes_on.set()
            await play.settle(scheduler)
            await play.stage.make(*gang("b", 1))
            await play.until_told("b", "False")
            assert not await play.bound("b-")

    play(scene)
