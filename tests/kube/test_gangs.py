"""Whole gangs on a real API server: started together, or waiting together with a reason."""

import copy

import pytest

from tests.kube.dialects import mark
from tools.control_plane.stage import GPU, gang, group, node, pod
from tutti.api.types import Which
from tutti.engine.model import Bound, Queue, State
from tutti.kube.ask import looked
from tutti.kube.config import Config
from tutti.kube.credentials import from_file
from tutti.kube.status import News


async def placements(play, count):
    return len(await play.stage.items("/apis/tutti.dev/v1alpha1/placements")) == count


async def end(play, name, count):
    for at in range(count):
        await play.stage.remove(f"/api/v1/namespaces/default/pods/{name}-{at}")


def test_two_gangs_one_place(play):
    async def scene(play):
        await play.nodes(4)
        for name in "ab":
            await play.stage.make(*gang(name, 4))
        async with play.scheduler():
            nodes = await play.until_bound("a-")
            told = await play.until_told("b", "False")
            await play.until_told("a", "True")
            assert sorted(nodes.values()) == ["n0", "n1", "n2", "n3"]
            assert told["reason"] == "Unschedulable"
            assert not await play.bound("b-")
            pods = await play.stage.pods()
            said = [c for c in pods["b-0"]["status"]["conditions"] if c["type"] == "PodScheduled"]
            assert said[0]["reason"] == "Unschedulable"
            assert "NoCapacity" in said[0]["message"]
            placements = await play.stage.items("/apis/tutti.dev/v1alpha1/placements")
            assert [p["spec"]["gang"] for p in placements] == ["default/a"]

    play(scene)


def test_the_second_starts_when_the_first_has_ended(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler():
            await play.stage.make(*gang("a", 2, annotations={"rig/x": ""}))
            await play.until_bound("a-")
            await play.stage.make(*gang("b", 2))
            await play.until_told("b", "False")
            await end(play, "a", 2)
            assert len(await play.until_bound("b-")) == 2

    play(scene)


def test_pods_before_their_group(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler() as scheduler:
            await play.stage.make(pod("a-0", "a"), pod("a-1", "a"))
            await play.settle(scheduler)
            assert not await play.bound("a-")
            await play.stage.make(group("a", 2))
            await play.until_bound("a-")

    play(scene)


def test_a_group_before_its_pods_says_who_is_missing(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler():
            await play.stage.make(group("a", 2), pod("a-0", "a"))

            async def counted():
                return "1 of 2" in (await play.until_told("a", "False"))["message"]

            await play.until(counted, "who is missing")
            assert not await play.bound("a-")
            await play.stage.make(pod("a-1", "a"))
            await play.until_bound("a-")

    play(scene)


def test_single_pods_and_pods_of_others(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        await play.stage.make(pod("theirs", scheduler="other", gpus=8, nodeName="n0"))
        async with play.scheduler() as scheduler:
            await play.stage.make(pod("mine", gpus=8))
            assert (await play.until_bound("mine"))["mine"] == "n1"
            await play.stage.make(pod("next", gpus=1))
            await play.settle(scheduler)
            assert not await play.bound("next")
            await play.stage.remove("/api/v1/namespaces/default/pods/theirs")
            assert (await play.until_bound("next"))["next"] == "n0"

    play(scene)


def test_a_gated_member_keeps_the_gang_waiting(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        gate = [{"name": "kueue.x-k8s.io/admission"}]
        await play.stage.make(group("a", 2), pod("a-0", "a"), pod("a-1", "a", schedulingGates=gate))
        async with play.scheduler():
            await play.until_told("a", "False")
            assert not await play.bound("a-")
            path = "/api/v1/namespaces/default/pods/a-1"
            await play.stage.api.write(
                "PATCH", path, {"spec": {"schedulingGates": None}}, "application/merge-patch+json"
            )
            await play.until_bound("a-")

    play(scene)


def test_minimum_first_then_the_rest(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        await play.stage.make(*gang("a", 3, least=2))
        async with play.scheduler():
            assert len(await play.until_bound("a-", count=2)) == 2
            await play.stage.make(node("n2"))
            assert len(await play.until_bound("a-", count=3)) == 3

    play(scene)


def test_a_higher_priority_takes_the_whole_gang(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        async with play.scheduler():
            await play.stage.make(*gang("low", 2))
            await play.until_bound("low-")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))
            assert len(await play.until_bound("high-")) == 2
            assert await play.until_gone("low-")

    play(scene)


def test_a_new_leader_does_not_miss_members_that_need_not_be_there(play):
    async def scene(play):
        await play.nodes(2)
        basic = group("a", 1) | {"spec": {"schedulingPolicy": {"basic": {}}}}
        async with play.scheduler():
            await play.stage.make(basic, *(pod(f"a-{i}", "a") for i in range(3)))
            await play.until_bound("a-", count=2)
        async with play.scheduler() as second:
            await play.settle(second)
            assert {job.life.state for job in second.jobs()} <= {State.STARTING, State.RUNNING}
            await play.stage.make(node("n2"))
            await play.until_bound("a-")

    play(scene)


def test_a_gang_that_has_ended_misses_nobody(play):
    async def scene(play):
        await play.stage.make(node("n0"))
        async with play.scheduler() as scheduler:
            things = gang("a", 1)
            things[1]["metadata"]["annotations"] = {"rig/run-for": "0.1"}
            await play.stage.make(*things)

            async def over():
                gang = scheduler.mirror.gangs.get("default/a")
                return gang is not None and not gang.is_entered and any(pod.is_over for pod in gang.pods.values())

            await play.until(over, "it has ended")
            assert scheduler.teller._unknown(scheduler.mirror.gangs["default/a"]) == News(
                "over", "", "all members succeeded"
            )

    play(scene)


def test_what_was_written_down_goes_with_the_gang(play):
    """Even where there is no group to go with; and where it ended while nobody looked."""

    async def scene(play):
        await play.nodes(4)
        async with play.scheduler(Config(dialects=("yunikorn",))):
            for name in "ab":
                said = mark("yunikorn", name, 2, 2, {})
                await play.stage.make(*(pod(f"{name}-{i}", **copy.deepcopy(said)) for i in range(2)))
            await play.until_bound("a-", "b-")
            await end(play, "a", 2)
            assert await play.until(lambda: placements(play, 1), "the first is gone")
        await end(play, "b", 2)
        async with play.scheduler(Config(dialects=("yunikorn",))):
            assert await play.until(lambda: placements(play, 0), "the second is gone")

    play(scene)


def test_a_new_leader_does_not_say_it_again(play):
    async def scene(play):
        await play.nodes(2)
        await play.stage.make(*gang("a", 3), group("b", 2))
        async with play.scheduler() as first:
            before = await play.until_told("a", "False"), await play.until_told("b", "False")
            await told_so_far(play, first)
        async with play.scheduler() as second:
            await told_so_far(play, second)
            assert (await play.until_told("a", "False"), await play.until_told("b", "False")) == before
            events = await play.stage.items("/apis/events.k8s.io/v1/events")
            assert sorted(event["regarding"]["name"] for event in events) == ["a", "b"]

    play(scene)


async def told_so_far(play, scheduler):
    """Both groups and all pods have been told, and nothing is left to tell."""

    async def quiet():
        gangs = scheduler.mirror.gangs.values()
        told = all("news" in gang.told for gang in gangs) and not scheduler.teller._look.is_set()
        return told and not scheduler.teller._events

    await play.until(quiet, "everything is told")
    await play.settle(scheduler)


def test_a_quota_that_yunikorn_has_on_a_namespace(play):
    place, quota = "/api/v1/namespaces/default", "yunikorn.apache.org/namespace.quota"

    async def scene(play):
        async def write(text):
            await play.stage.patch(place, {"metadata": {"annotations": {quota: text}}})

        await play.nodes(2)
        await write('{"nvidia.com/gpu": "8", "vcore": "64"}')
        try:
            async with play.scheduler(Config(dialects=("native", "yunikorn"))) as scheduler:
                await play.stage.make(*gang("a", 1))
                await play.until_bound("a-")
                await play.stage.make(*gang("b", 1))
                told = await play.until_told("b", "False")
                assert "nvidia.com/gpu of queue default" in told["message"]
                await write("eight")
                await play.settle(scheduler)
                assert not await play.bound("b-")
                await write('{"nvidia.com/gpu": "16"}')
                await play.until_bound("b-")
        finally:
            await write(None)

    play(scene)


def test_a_bound_on_applications_that_yunikorn_has_on_a_namespace(play):
    place, most = "/api/v1/namespaces/default", "yunikorn.apache.org/namespace.maxApps"

    async def scene(play):
        async def write(text):
            await play.stage.patch(place, {"metadata": {"annotations": {most: text}}})

        await play.nodes(2)
        await write("1")
        try:
            async with play.scheduler(Config(dialects=("native", "yunikorn"))) as scheduler:
                await play.stage.make(*gang("a", 1))
                await play.until_bound("a-")
                await play.stage.make(*gang("b", 1))
                told = await play.until_told("b", "False")
                assert "queue default runs 1 gang of at most 1" in told["message"]
                await write("several")
                await play.until_bound("b-")
                await play.until(lambda: _said(play, "namespace.maxApps is 'several'; write a whole number"))
                await play.settle(scheduler)
        finally:
            await write(None)

    play(scene)


def _of(name, user):
    said = {"yunikorn.apache.org/user.info": f'{{"user": "{user}", "groups": ["ml"]}}'}
    return pod(name, annotations=said)


@pytest.mark.parametrize(
    ("bounds", "bound"),
    [
        pytest.param({"user_limit": {GPU: 8}}, 1, id="a namespace is one user whatever its pods say"),
        pytest.param({"bounds": (Bound(users=("*",), limit={GPU: 8}),)}, 2, id="a queue that names users"),
        pytest.param({"bounds": (Bound(groups=("ml",), limit={GPU: 8}),)}, 1, id="a queue that names groups"),
    ],
)
def test_whose_pods_are(play, bounds, bound):
    async def scene(play):
        await play.nodes(3)
        queues = (Queue("default", **bounds),)
        async with play.scheduler(Config(queues=queues)) as scheduler:
            await play.stage.make(_of("x-0", "ann"), _of("x-1", "bob"), _of("x-2", "ann"))
            await play.until_bound("x-", count=bound)
            await play.settle(scheduler)
            assert sum(bool(node) for node in (await play.stage.nodes_of()).values()) == bound

    play(scene)


async def _said(play, text):
    events = await play.stage.items("/apis/events.k8s.io/v1/events")
    return any(text in str(event.get("note")) for event in events)


def test_a_gang_that_had_to_leave_waits_until_its_pods_are_made_again(play):
    """In the books, for whoever asks, and for the next leader; until its group is gone or its pods are there."""

    async def scene(play):
        async def shown():
            scheduler = await looked(from_file(play.rig.kubeconfig(play.rig.tutti)), Config(dialects=("native",)))
            try:
                return {row.name: row.reason for row in (await scheduler.service.jobs("all", Which(), 0, 99)).jobs}
            finally:
                scheduler.api.close()

        async def is_shown():
            return (await shown()).get("default/a") == "WaitingForMembers"

        await play.nodes(2)
        async with play.scheduler() as first:
            for name in "ax":
                await play.stage.make(*gang(name, 1, owner=name, priorityClassName="low"))
            await play.until_bound("a-", "x-", count=2)
            await play.until(lambda: running(first, 2), "both run")
            await play.stage.make(*gang("b", 2, priorityClassName="high"))
            await play.until_bound("b-", count=2)
            assert [job.life.awaiting for job in first.jobs() if job.gang.name == "default/a"] == [1]
            await play.until(is_shown, "it is shown to who asks")
        async with play.scheduler() as second:
            assert {job.gang.name for job in second.jobs()} == {"default/a", "default/b", "default/x"}
            await play.stage.remove("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/x")
            await play.stage.make(pod("a-0", "a", owner="a", priorityClassName="low"))
            await end(play, "b", 2)
            await play.until_bound("a-")
            await play.settle(second)
            assert {job.gang.name for job in second.jobs()} == {"default/a"}

    play(scene)


async def running(scheduler, count):
    return sum(job.life.state is State.RUNNING for job in scheduler.jobs()) == count
