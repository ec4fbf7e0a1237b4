"""Rough weather: a slow server, events told twice, tokens that expire, clocks that differ, stubborn budgets."""

import asyncio
import copy
import re
from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.kube.proxy import Proxy, behind
from tests.kube.test_faults import check
from tools.control_plane.stage import gang, group, many, pod
from tutti.drive.estimates import History
from tutti.engine.model import Bound, Coupling, Gang, Role, Shape
from tutti.errors import Misused
from tutti.kube import memory, reload
from tutti.kube import scheduler as scheduling
from tutti.kube.api import Api
from tutti.kube.config import Config, parse
from tutti.kube.credentials import from_file


@pytest.mark.parametrize("late", [1, 3, 5])
def test_one_write_that_takes_long(play, late):
    async def scene(play):
        await play.nodes(8)

        async def delay(request):
            if request.number == late:
                await asyncio.sleep(1.0)

        async with behind(play, delay) as (_, scheduler):
            await play.stage.make(*many([gang("a", 4), gang("b", 4)]))
            await play.until_bound("a-", "b-")
            await play.settle(scheduler)
            assert scheduler.compare() == 0
            await check(play, {"a": 4, "b": 4})

    play(scene)


def test_a_server_that_is_slow_in_everything(play):
    async def scene(play):
        await play.nodes(6)

        async def delay(request):
            await asyncio.sleep(0.1)

        async with behind(play, delay):
            await play.stage.make(*many([gang(f"g{i}", 2) for i in range(4)]))
            bound = await play.until_bound("g", count=6)
            assert len(set(bound.values())) == 6
            assert list(Counter(name.partition("-")[0] for name in bound).values()) == [2, 2, 2]

    play(scene)


def test_every_event_twice_and_out_of_order(play):
    async def scene(play):
        await play.nodes(4)
        async with behind(play, twice=True) as (_, scheduler):
            await play.stage.make(*many([gang("a", 2), gang("b", 2), gang("c", 2)]))
            bound = await play.until_bound("a-", "b-", "c-", count=4)
            first, second = sorted({name[0] for name in bound})
            for at in range(2):
                await play.stage.remove(f"/api/v1/namespaces/default/pods/{first}-{at}")
            third = ({"a", "b", "c"} - {first, second}).pop()
            await play.until_bound(f"{third}-")
            await play.settle(scheduler)
            bound = await play.bound("")
            assert sorted(bound) == sorted(f"{name}-{at}" for name in (second, third) for at in range(2))
            assert len(set(bound.values())) == 4

    play(scene)


def test_a_token_that_expires_while_a_gang_starts(play):
    async def scene(play):
        await play.nodes(4)
        async with Proxy(play.rig) as proxy:
            refused: list[str] = []

            async def expired(request):
                if request.number == 3 or (request.number > 3 and len(refused) < 4):
                    refused.append(request.path)
                    return 401, "Unauthorized"
                return None

            proxy.before = expired
            credentials = from_file(play.rig.kubeconfig(play.rig.tutti, proxy.url))
            asked: list[str] = []
            token = credentials._token

            def noted() -> str:
                asked.append(token())
                return asked[-1]

            credentials._token = noted
            async with play.scheduler(api=Api(credentials, 4)):
                await play.stage.make(*gang("a", 4))
                await play.until_bound("a-")
                assert len(refused) == 4
                assert len(asked) > 1

    play(scene)


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_hours_off(play, monkeypatch, hours):
    right = scheduling.moment

    async def scene(play):
        monkeypatch.setattr(scheduling, "moment", lambda: right() + hours * 3_600_000_000)
        await play.nodes(2)
        async with play.scheduler():
            await play.stage.make(*gang("a", 1, annotations={"tutti.dev/time": "1h"}))
            await play.until_bound("a-")
            await play.stage.make(*gang("big", 2, annotations={"tutti.dev/time": "1h"}))
            await play.until_told("big", "False")
            await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
            assert len(await play.until_bound("big-")) == 2

    play(scene)


def test_a_budget_that_never_lets_go(play):
    async def scene(play):
        await play.nodes(2)
        budget = await play.budget("low", 2)
        async with play.scheduler(Config(evict_within=1)) as scheduler:
            await play.stage.make(*gang("low", 2, labels={"app": "low"}))
            await play.until_bound("low-")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))

            async def spared():
                told = scheduler.metrics.values.get(("tutti_kube_spared_total", ""), 0)
                state = {job.gang.name: job.life.state for job in scheduler.jobs()}
                return told and state["default/low"] == "running"

            await play.until(spared, "it runs on")
            assert len(await play.bound("low-")) == 2
            assert not await play.bound("high-")
            await play.stage.remove(budget)
            await play.until_bound("high-")

    play(scene)


def test_a_budget_that_never_lets_the_rest_of_a_broken_gang_go(play):
    async def scene(play):
        await play.nodes(3)
        budget = await play.budget("low", 2)
        async with play.scheduler(Config(evict_within=1)) as scheduler:
            await play.stage.make(*gang("low", 3, labels={"app": "low"}))
            await play.until_bound("low-")
            await play.stage.remove("/api/v1/namespaces/default/pods/low-0")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))

            async def spared():
                told = scheduler.metrics.values.get(("tutti_kube_spared_total", ""), 0)
                state = {job.gang.name: job.life.state for job in scheduler.jobs()}
                return told and state["default/low"] == "repairing"

            await play.until(spared, "it is mended again")
            assert len(await play.bound("low-")) == 2
            assert not await play.bound("high-")
            await play.stage.remove(budget)
            await play.until_bound("high-")
            await play.until_gone("low-")

    play(scene)


def test_settings_are_read_again(play, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("")

    async def scene(play):
        await play.nodes(2)
        async with play.scheduler() as scheduler:
            task = asyncio.create_task(reload.follow(scheduler, str(file), 0.05))
            try:
                await asyncio.sleep(0)
                file.write_text("nonsense = 1")

                async def refused():
                    return scheduler.metrics.values.get(("tutti_kube_trouble_total", "config"), 0)

                await play.until(refused, "the mistake is told")
                file.write_text('[queues.default]\nlimit = {"nvidia.com/gpu" = 8}\n')

                async def taken():
                    return scheduler.config.queues

                await play.until(taken, "the queue is there")
                await play.stage.make(*many([gang("a", 1), gang("b", 1)]))
                assert len(await play.until_bound("a-", "b-", count=1)) == 1
                file.write_text("")
                assert len(await play.until_bound("a-", "b-")) == 2
            finally:
                task.cancel()

    play(scene)


def test_times_of_a_queue_are_written_as_everywhere():
    (queue,) = parse('[queues.a]\ndefault_estimate = "2h30m"\nmax_wait = 90\n', "x").queues
    assert (queue.default_estimate, queue.max_wait) == (9_000_000_000, 90_000_000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[queues.a]\nmin_run = "soon"', "queue 'a': 'soon' is not a duration"),
        ("resync = 0", "resync is 0"),
        ("resync = -1", "a whole number from 1 to 2592000"),
        ("connections = 0", "connections is 0"),
        ("lease_seconds = 999999", "from 1 to 3600"),
        ("start_within = -5", "start_within is -5"),
        ('namespace = "Bad Name"', "namespace is 'Bad Name'"),
        ('scheduler_name = ""', "scheduler_name is ''"),
        ('dialects = ["volcanoo"]', "there is no dialect 'volcanoo'"),
        ('levels = ["example.com/rack", ""]', "'' is no key of a label"),
    ],
)
def test_settings_that_make_no_sense(text, says):
    with pytest.raises(Misused, match=re.escape(says)):
        parse(text, "x")


def test_what_needs_a_restart_is_said():
    assert reload.kept(Config(), parse('scheduler_name = "other"\nup_within = 5\n', "x")) == ["scheduler_name"]


def test_bounds_of_our_own_queues():
    text = '[queues.a]\nmax_running = 2\n[[queues.a.bounds]]\nusers = ["team"]\nlimit = { cpu = "2" }\n'
    (queue,) = parse(text, "x").queues
    assert (queue.max_running, queue.bounds) == (2, (Bound(users=("team",), limit={"cpu": 2000}),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[queues.a]\nmax_running = -1", "queue 'a': max_running is -1; write 0 or more"),
        ("[[queues.a.bounds]]\nmax_running = 1", "queue 'a': bounds[0] is about nobody"),
        ("[[queues.a.bounds]]\nusers = 'ann'", "queue 'a'"),
        ("[queues.a]\nbounds = 3", "queue 'a'"),
    ],
)
def test_bounds_that_make_no_sense(text, says):
    with pytest.raises(Misused, match=re.escape(says)):
        parse(text, "x")


def test_what_is_remembered_fits_into_an_object():
    history = History()
    for number in range(3000):
        name = f"user{number}/job-{'x' * 60}{number}"
        role = Role(min=1, want=1, max=1, shapes=(Shape({"cpu": 1}),), coupling=Coupling.GANG)
        history.learn(Gang(name, (role,), user=f"user{number}"), 1_000_000 + number)
    whole, cut = history.dump(), memory.latest(history, 100_000)
    assert len(whole) > 100_000 >= len(cut)
    assert b"user2999" in cut
    assert b'"user0"' not in cut
    gangs = {f"default/gang-{number}": memory.Kept(start=number) for number in range(2000)}
    kept = memory.fitting(gangs, 10_000)
    assert len(kept) <= 10_000
    assert b"default/gang-0" in kept


def test_pods_of_a_group_that_disagree(play):
    """Another size, another priority, another scheduler: each is a member as it is, and nobody else suffers."""

    async def scene(play):
        await play.nodes(3)
        async with play.scheduler():
            await play.stage.make(*gang("a", 0, least=2))
            await play.stage.make(pod("a-0", "a", gpus=8), pod("a-1", "a", gpus=2, cpu="4"))
            assert set(await play.until_bound("a-")) == {"a-0", "a-1"}
            await play.stage.make(*gang("b", 1))
            assert set(await play.until_bound("b-")) == {"b-0"}

    play(scene)


def test_a_scheduler_that_dies_while_a_gang_moves(play):
    async def scene(play):
        await play.nodes(2)
        policy = Config().policy
        place = msgspec.structs.replace(policy.place, migrate=True)
        config = Config(policy=msgspec.structs.replace(policy, place=place))
        may_move: dict[str, Any] = {"owner": "a", "annotations": {"tutti.dev/movable": "true"}}
        fillers = [pod(f"f{at}", gpus=4, scheduler="other", nodeName=f"n{at}") for at in range(2)]
        await play.stage.make(*fillers)

        async with play.scheduler(config) as scheduler:
            await play.stage.make(
                group("a", 2), *(pod(f"a-{at}", "a", 4, **copy.deepcopy(may_move)) for at in range(2))
            )
            await play.until_bound("a-")

            async def runs():
                return any(job.life.state == "running" for job in scheduler.jobs())

            await play.until(runs, "it runs")
            for filler in fillers:
                await play.stage.remove(f"/api/v1/namespaces/default/pods/{filler['metadata']['name']}")
            await play.stage.make(*gang("b", 1, 8))

            async def left():
                return len(await play.bound("a-")) == 1

            await play.until(left, "one has gone")
            await play.settle(scheduler)
            assert not await play.bound("b-")
        async with play.scheduler(config):
            await play.stage.make(pod("a-9", "a", 4, **copy.deepcopy(may_move)))
            await play.until_bound("a-", "b-")
            nodes = await play.bound("a-", "b-")
            assert len({nodes[name] for name in nodes if name.startswith("a-")}) == 1
            assert len(nodes) == 3

    play(scene)


def test_a_gang_that_is_older_than_a_start_may_take_is_mended_too(play):
    async def scene(play):
        await play.nodes(3)
        async with play.scheduler(Config(start_within=3)) as scheduler:
            await play.stage.make(*gang("a", 3, owner="job"))
            await play.until_bound("a-")
            await play.until(lambda: runs(scheduler), "it runs")
            await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
            await asyncio.sleep(4.5 * scheduling.TICK)
            await play.stage.make_one(pod("a-3", "a", owner="job"))
            await play.until_bound("a-3")
            assert set(await play.bound("a-")) == {"a-1", "a-2", "a-3"}

    async def runs(scheduler):
        return scheduler.mirror.gangs["default/a"].up

    play(scene)


def test_members_that_nobody_makes_again_are_told_once(play, monkeypatch):
    monkeypatch.setattr("tutti.jobs.kube.gang.MINUTE", 500_000)

    async def scene(play):
        await play.nodes(3)
        async with play.scheduler():
            await play.stage.make(*gang("a", 3))
            await play.until_bound("a-")
            await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
            await play.until(lambda: held(play), "it is told")
            await asyncio.sleep(3 * scheduling.TICK)
            assert await held(play) == 1
            assert len(await play.bound("a-")) == 2

    async def held(play):
        events = await play.stage.items("/apis/events.k8s.io/v1/events")
        return sum(event["reason"] == "HeldPartial" for event in events)

    play(scene)


def test_nothing_is_nested_so_deeply_that_it_ends_the_scheduler(play):
    """In an annotation of a group, in one of a pod, and in a field, as deeply as the API server takes it."""
    levels = "[" * 60_000
    topology = "gang.scheduling.koordinator.sh/network-topology-spec"
    odd: dict[str, Any] = {
        "name": "odd",
        "namespace": "default",
        "annotations": {topology: f'{{"gatherStrategy":{levels}'},
    }
    nested: Any = []
    for _ in range(3000):
        nested = [nested]

    async def scene(play):
        await play.nodes(1)
        kinds = ("native", "koordinator", "volcano")
        async with play.scheduler(Config(dialects=kinds)) as scheduler:
            body = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": odd}
            await play.stage.make_one(body | {"spec": {"minMember": 1}})
            body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "deep"}}
            await play.stage.make_one(body | {"spec": {"capability": nested}})
            named = {
                f"gang.scheduling.koordinator.sh/{key}": said for key, said in (("name", "x"), ("min-available", "1"))
            }
            named[topology] = levels
            await play.stage.make_one(pod("odd-0", gpus=8, annotations=named))
            await play.stage.make(*gang("a", 1))
            assert len(await play.until_bound("a-")) == 1

            async def told():
                events = await play.stage.items("/apis/events.k8s.io/v1/events")
                said = [(e["regarding"]["name"], e["note"]) for e in events if e["reason"] == "Misdeclared"]
                return sorted(name for name, _ in said) == ["deep", "odd-0"]

            await play.until(told, "one event each")
        async with play.scheduler(Config(dialects=kinds)) as scheduler:
            assert len(scheduler.mirror.pods) == 2

    play(scene)
