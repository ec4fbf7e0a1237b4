"""The scheduler's own pages, and who may read them; the lease and its fence."""

import asyncio
import contextlib
import socket
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tools.control_plane.stage import gang, node
from tutti.api.http import Request
from tutti.errors import Refused
from tutti.kube.api import Api, Fenced
from tutti.kube.config import Config
from tutti.kube.credentials import IN_A_POD, from_file
from tutti.kube.http import Answer
from tutti.kube.lease import Lease
from tutti.kube.metrics import METRICS
from tutti.kube.scheduler import Scheduler
from tutti.kube.serve import Pages, opened


async def asked(pages, path, token="", method="GET", body=b""):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    headers |= {"host": "tutti.tutti-system:8080"}
    return await pages.handle(Request(method=method, path=path, headers=headers, body=body))


def test_pages_are_for_those_who_may(play):
    async def scene(play):
        await play.stage.make(node("n0"))
        await play.stage.make(*gang("a", 2))
        async with play.scheduler() as scheduler:
            await play.until_told("a", "False")
            pages = Pages(scheduler, None, scheduler.api)
            for path in ("/v1/jobs", "/page/hello", "/plain", "/v1/events"):
                assert (await asked(pages, path)).status == 401
                assert (await asked(pages, path, "nonsense")).status == 401
            assert (await asked(pages, "/v1/jobs", play.rig.nobody)).status == 403
            assert (await asked(pages, "/v1/jobs", play.rig.admin, "POST")).status == 403
            assert (await asked(pages, "/metrics")).status == 200
            text = (await asked(pages, "/metrics")).body.decode()
            assert all(f"# TYPE {metric.name} " in text for metric in METRICS)
            assert (await asked(pages, "/readyz")).status == 200

    play(scene)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_probes_come_by_either_kind_of_address(host):
    """Both are on loopback here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if family == socket.AF_INET6 and not _is_there(host):
        return
    with opened(0, host) as server, socket.socket(family) as probe:
        probe.connect((host, server.getsockname()[1]))
        assert probe.getpeername()[0] == host


def test_only_this_machine_can_ask_a_scheduler_that_is_in_no_pod(monkeypatch):
    monkeypatch.delenv(IN_A_POD, raising=False)
    with opened(0) as server:
        assert server.getsockname()[0] == "127.0.0.1"


def _is_there(host):
    """Whether this machine has such an address at all."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def test_a_port_that_is_taken_is_one_clear_error():
    with opened(0, "127.0.0.1") as taken, pytest.raises(Refused, match="cannot be opened"):
        opened(taken.getsockname()[1], "127.0.0.1")


def test_what_limits_a_token_is_passed_on_to_whoever_decides():
    told: list[Any] = []

    class Server:
        """Knows every token, and takes down what it is asked."""

        async def request(self, method, path, body):
            told.append(msgspec.json.decode(body)["spec"])
            user = {"username": "ann", "uid": "7", "groups": ["ml"], "extra": {"scopes": ["read"]}}
            status = {"authenticated": True, "user": user, "allowed": False}
            return Answer(201, b"", msgspec.json.encode({"status": status}))

    api: Any = SimpleNamespace(http=Server())
    scheduler: Any = None
    answer = asyncio.run(asked(Pages(scheduler, None, api), "/v1/jobs", "limited"))
    assert answer.status == 403
    assert told[1]["extra"] == {"scopes": ["read"]}
    assert (told[1]["user"], told[1]["uid"], told[1]["groups"]) == ("ann", "7", ["ml"])


def test_the_page_of_one_box_shows_a_cluster(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 1))
            await play.until_bound("a-")
            await play.stage.make(*gang("b", 2, annotations={"tutti.dev/time": "1h"}))
            await play.until_told("b", "False")
            pages = Pages(scheduler, None, scheduler.api)

            async def read(path):
                answer = await asked(pages, path, play.rig.admin)
                assert answer.status == 200, (path, answer.body)
                return msgspec.json.decode(answer.body)

            jobs = {row["name"]: row for row in (await read("/v1/jobs"))["jobs"]}
            assert jobs["default/a"]["placed"] in ("1 on n0", "1 on n1")
            assert jobs["default/b"]["reason"] == "NoCapacity"
            why = await read("/v1/jobs/default%2Fb/why")
            assert why["lines"][0].startswith("default/b is waiting: NoCapacity")
            story = await read("/v1/jobs/a/story")
            assert any("got a node" in line for line in story["lines"])
            cells = [cell["state"] for row in (await read("/v1/nodes"))["nodes"] for cell in row["devices"]]
            assert cells.count("free") == cells.count("busy") + cells.count("starting") == 8
            assert (await read("/v1/queues"))["queues"][0]["waiting"] == 1
            assert (await read("/v1/report"))["resource"] == "nvidia.com/gpu"
            assert {bar["job"] for bar in (await read("/v1/timeline"))["bars"]} >= {"default/a"}
            assert (await read("/page/hello"))["may_change"] is False
            for path in ("/v1/status", "/v1/why", "/v1/plan", "/v1/config", "/v1/audit", "/v1/report/forecasts"):
                assert (await read(path))["schema"] == "tutti/v1"
            assert b"<html" in (await asked(pages, "/")).body
            assert b"default/a" in (await asked(pages, "/plain", play.rig.admin)).body
            assert b"got a node" in (await asked(pages, "/plain/default%2Fa", play.rig.admin)).body
            assert (await asked(pages, "/v1/jobs/none", play.rig.admin)).status == 404
            if_so = await asked(pages, "/v1/what-if", play.rig.admin, "POST", b'{"add_nodes": ["1x8"]}')
            assert [row["gang"] for row in msgspec.json.decode(if_so.body)["starts"]] == ["default/b"]
            assert (await asked(pages, "/v1/what-if", play.rig.nobody, "POST", b"{}")).status == 403

    play(scene)


def test_a_replica_that_stands_by_knows_what_the_leader_does(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        api = Api(from_file(play.rig.kubeconfig(play.rig.tutti)), 4)
        spare = Scheduler(api, Config(dialects=("native",)))

        async def listening():
            async with asyncio.TaskGroup() as group:
                await spare.listen(group)

        async with play.scheduler() as leader:
            task = asyncio.create_task(listening())
            await play.stage.make(*gang("a", 2), *gang("b", 2))
            bound = await play.until_bound("a-", "b-", count=2)
            first, other = sorted("ab", key=lambda name: f"{name}-0" not in bound)
            await play.settle(leader)
            pages = Pages(spare, None, api)

            async def alike():
                spare._glanced = 0.0
                told = msgspec.json.decode((await asked(pages, "/v1/jobs", play.rig.admin)).body)["jobs"]
                return {row["name"]: row for row in told} if len(told) == 2 else None

            rows = await play.until(alike, "both are known")
            assert rows[f"default/{first}"]["placed"] == "1 on n0, 1 on n1"
            assert rows[f"default/{other}"]["reason"] == "NoCapacity"
            for name in ("a", "b"):
                await play.stage.remove(f"/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/{name}")
                for at in range(2):
                    await play.stage.remove(f"/api/v1/namespaces/default/pods/{name}-{at}")

            async def empty():
                spare._glanced = 0.0
                await spare.glance()
                return not (spare.mirror.gangs or spare.mirror.dirty_gangs or spare.jobs())

            assert await play.until(empty, "nothing is kept of what is gone")
            assert not spare.metrics.values.get(("tutti_kube_drift_total", ""), 0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        api.close()

    play(scene)


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def lease(control_plane):
    clock = Clock()
    made = Lease(Api(from_file(control_plane.kubeconfig())), "default", "test", "me", 15.0, clock)
    made.held_until = clock.now + 10
    yield made, clock
    made.api.close()


def test_nothing_is_written_once_the_lease_could_be_taken(lease):
    held, clock = lease
    held.fence()
    clock.now += 10.1
    with pytest.raises(Fenced):
        held.fence()


def test_a_leader_that_could_not_write_gives_up_even_if_the_lease_is_still_its_own(lease):
    held, clock = lease
    held.duration = 0.4

    async def renewed():
        return True

    held._try = renewed
    clock.now += 10.1
    with pytest.raises(Fenced):
        held.fence()
    asyncio.run(asyncio.wait_for(held.keep(), 30))
    assert held.has_missed


def test_a_candidate_trusts_only_its_own_clock(lease):
    held, clock = lease
    # The holder's clock is a day behind; what counts is how long we ourselves have seen it unchanged.
    said = {"holderIdentity": "other", "renewTime": "2020-01-01T00:00:00Z", "leaseDurationSeconds": 15}
    assert not held._is_free(said)
    clock.now += 14
    assert not held._is_free(said)
    clock.now += 2
    assert held._is_free(said)
    assert not held._is_free(said | {"renewTime": "2020-01-01T00:00:02Z"})
