"""One leader after another: what the first has begun, what it wrote last, and what it could not write any more."""

import asyncio
import contextlib
import signal
from collections import Counter

import pytest

from tests.kube.proxy import Proxy, behind
from tests.kube.test_faults import LEASE, check, process
from tools.control_plane.stage import gang, node, pod
from tutti.kube.placement import Written
from tutti.kube.scheduler import Scheduler


@pytest.fixture
def brief(tmp_path):
    """Settings with a lease that is soon over."""
    file = tmp_path / "config.toml"
    file.write_text("lease_seconds = 3\n")
    return str(file)


async def taken(play, name, gpus=8):
    """Somebody else's pod on a node."""
    await play.stage.make_one(pod(f"other-{name}", gpus=gpus, scheduler="other", nodeName=name))


def test_a_seat_that_another_has_taken_meanwhile_is_not_given_again(play):
    async def scene(play):
        await play.nodes(3)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 2, owner="job"))
            bound = await play.until_bound("a-")
            await play.settle(scheduler)
        await play.stage.remove("/api/v1/namespaces/default/pods/a-1")
        await taken(play, bound["a-1"])
        await play.stage.make_one(pod("a-2", "a", owner="job"))
        async with play.scheduler() as scheduler:
            after = await play.until_bound("a-")
            assert after == {"a-0": bound["a-0"], "a-2": ({"n0", "n1", "n2"} - set(bound.values())).pop()}
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


@pytest.mark.parametrize("first", ["a-1", "a-2"])
def test_a_seat_that_another_has_taken_is_not_given_to_who_comes_back_last(play, first):
    """Of two members that are lost only one is made again before the next leader comes."""

    async def scene(play):
        await play.nodes(4)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 3, owner="job"))
            bound = await play.until_bound("a-")
            await play.settle(scheduler)
        for name in ("a-1", "a-2"):
            await play.stage.remove(f"/api/v1/namespaces/default/pods/{name}")
        await taken(play, bound[first])
        await play.stage.make_one(pod("a-3", "a", owner="job"))
        async with play.scheduler() as scheduler:
            await play.settle(scheduler)
            await play.stage.make_one(pod("a-4", "a", owner="job"))
            after = await play.until_bound("a-")
            assert sorted(after.values()) == sorted({"n0", "n1", "n2", "n3"} - {bound[first]})
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


@pytest.mark.parametrize("what", ["cordoned", "smaller", "gone"])
def test_a_node_that_has_changed_meanwhile_is_not_used_again(play, what):
    async def scene(play):
        await play.nodes(3)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 2, owner="job"))
            bound = await play.until_bound("a-")
            await play.settle(scheduler)
        lost = bound["a-1"]
        await play.stage.remove("/api/v1/namespaces/default/pods/a-1")
        if what == "cordoned":
            await play.stage.patch(f"/api/v1/nodes/{lost}", {"spec": {"unschedulable": True}})
        else:
            await play.stage.remove(f"/api/v1/nodes/{lost}")
        if what == "smaller":
            await play.stage.make_one(node(lost, gpus=4))
        await play.stage.make_one(pod("a-2", "a", owner="job"))
        async with play.scheduler() as scheduler:
            after = await play.until_bound("a-")
            assert lost not in after.values()
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


def test_a_gang_that_was_mended_elsewhere_stays_there(play):
    async def scene(play):
        await play.nodes(3)
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 2, owner="job"))
            first = await play.until_bound("a-")
            await play.stage.remove(f"/api/v1/nodes/{first['a-1']}")
            await play.stage.remove("/api/v1/namespaces/default/pods/a-1")
            await play.stage.make_one(pod("a-2", "a", owner="job"))
            second = await play.until_bound("a-2")
            await play.settle(scheduler)
        # The record names the first node, which is back and taken; one more member is lost and made again.
        await play.stage.make_one(node(first["a-1"]))
        await taken(play, first["a-1"])
        await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
        await play.stage.make_one(pod("a-3", "a", owner="job"))
        async with play.scheduler() as scheduler:
            after = await play.until_bound("a-")
            assert after == {"a-2": second["a-2"], "a-3": first["a-0"]}
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


def late(name):
    """A pod that is unlike the members of its gang, and of a lower rank."""
    return pod(name, "a", gpus=4, owner="job")


@pytest.mark.parametrize("joined", [0, 1, 2])
def test_who_came_late_to_a_gang_is_not_missed_by_the_next_leader_and_joins_when_there_is_room(play, joined):
    """The leader that comes next knows nothing of who came first; those who have a place are the ones that count."""

    async def scene(play):
        await play.nodes(2)
        if joined:
            await play.stage.make_one(node("n2", gpus=4 * joined))
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 2, owner="job"))
            first = await play.until_bound("a-", count=2)
            await play.stage.make(late("0-0"), late("0-1"))
            if joined:
                await play.until_bound("0-", count=joined)
            await play.settle(scheduler)
        async with play.scheduler() as scheduler:
            await play.settle(scheduler)
            (job,) = scheduler.jobs()
            assert job.life.state == "running"
            assert not job.life.lost
            assert len(await play.bound("0-")) == joined
            await play.stage.make_one(node("n3"))
            await play.until_bound("0-", count=2)
            assert await play.bound("a-") == first
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    play(scene)


def test_what_was_written_down_of_a_gang_is_told_by_the_names_of_its_roles():
    worker = Written([[("n0", 2)]], (1,), names=("worker",))
    both = Written([[("n0", 2)], [("n1", 1)]], (1, 0), names=("worker", "master"))

    assert worker.of(["master", "worker"]) == Written([[], [("n0", 2)]], (0, 1), names=("master", "worker"))
    assert both.of(["master", "worker"]) == Written([[("n1", 1)], [("n0", 2)]], (0, 1), names=("master", "worker"))
    assert both.of(["worker"]) is None


def test_a_leader_that_slept_past_its_lease_leaves_the_rest_to_the_next(play, brief):
    """Nobody else was there to take the lease; still, what it could not write then is not forgotten.

    There are more pods than it writes at a time, so that some binds are due when it wakes, before the lease is renewed.
    """

    async def scene(play):
        await play.nodes(8)
        async with Proxy(play.rig) as proxy:
            paused = asyncio.Event()
            async with process(play, proxy, "--config", brief) as old:

                def pause(request):
                    if request.number == 3 and not paused.is_set():
                        old.send_signal(signal.SIGSTOP)
                        paused.set()

                proxy.after = pause
                await play.stage.make(*gang("a", 64, gpus=1))
                await asyncio.wait_for(paused.wait(), 60)
                await asyncio.sleep(2.5)
                old.send_signal(signal.SIGCONT)
                assert await asyncio.wait_for(old.wait(), 60) == 4
            proxy.after = None
            async with process(play, proxy, "--config", brief):
                bound = await play.until_bound("a-")
                assert set(Counter(bound.values()).values()) == {8}
        await play.stage.remove(LEASE)

    play(scene)


def test_a_leader_that_is_told_to_stop_lets_the_next_one_in_after_its_last_answer(play, brief):
    async def scene(play):
        await play.nodes(4)
        order: list[str] = []
        async with Proxy(play.rig) as proxy, process(play, proxy, "--config", brief) as old:

            async def slow(request):
                if request.number == 3 and not order:
                    order.append("told to stop")
                    old.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.5)
                    order.append("written")
                elif order and request.method == "PUT" and "/leases/" in request.path:
                    order.append("let go")  # or renewed, as long as it has not been told the answer

            proxy.before = slow
            await play.stage.make(*gang("a", 4))
            assert await asyncio.wait_for(old.wait(), 60) == 0
        assert "written" in order[:-1], order
        assert order[-1] == "let go", order
        async with play.scheduler():
            await play.until_bound("a-")
            await check(play, {"a": 4})
        await play.stage.remove(LEASE)

    play(scene)


def test_who_becomes_the_leader_hears_first_what_it_has_missed(play):
    async def scene(play):
        await play.nodes(2)
        async with behind(play) as (proxy, first):
            second = Scheduler(first.api, first.config)
            listens, go, caught_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

            async def work():
                async with asyncio.TaskGroup() as group:
                    await second.listen(group)
                    listens.set()
                    await go.wait()
                    await second.catch_up(group)
                    caught_up.set()

            async def deaf(request):
                return (503, "Busy") if "watch=1" in request.path else None

            task = asyncio.create_task(work())
            await asyncio.wait_for(listens.wait(), 60)
            proxy.before = deaf
            proxy.cut()
            await play.stage.make(*gang("a", 1))
            await taken(play, "n1")
            go.set()
            await asyncio.wait_for(caught_up.wait(), 60)
            assert {seen.name for seen in second.mirror.pods.values()} == {"a-0", "other-n1"}
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    play(scene)
