"""Others on the same nodes: kube-scheduler fills them while we bind, and controllers make pods again."""

import asyncio
import contextlib

import pytest

from tests.kube.proxy import behind
from tools.control_plane.kubelet import Kubelet
from tools.control_plane.stage import GPU, group, pod
from tutti.kube.api import Api
from tutti.kube.credentials import from_file

NODES = 4
ROUNDS = 8
STRANGERS = 6


def job(name, members, run_for):
    """A native group, and a Job of Kubernetes whose pods are in it."""
    body = pod("x", name, 8)
    template = {"metadata": {"annotations": {"rig/run-for": str(run_for)}}, "spec": body["spec"]}
    template["spec"]["restartPolicy"] = "Never"
    spec = {"completions": members, "parallelism": members, "completionMode": "Indexed", "backoffLimit": 1000}
    meta = {"name": name, "namespace": "default"}
    yield group(name, members)
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec | {"template": template}}


def stranger(number):
    """A pod of kube-scheduler's that takes one device for a moment."""
    return pod(f"web-{number}", gpus=1, scheduler="default-scheduler", annotations={"rig/run-for": "0.3"})


@contextlib.asynccontextmanager
async def admitting(play):
    """A kubelet that refuses pods for which its node has no room left."""
    kubelet = Kubelet(Api(from_file(play.rig.kubeconfig()), 6), room={GPU: 8})
    task = asyncio.create_task(kubelet.run())
    try:
        yield kubelet
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        kubelet.api.close()


@contextlib.asynccontextmanager
async def beaten(play):
    """A scheduler of ours; the node of the first member it binds is taken by somebody else in that very moment."""
    taken: list[str] = []

    async def take(request):
        if request.path.endswith("/binding") and not taken:
            taken.append(next(iter(gangs["default/g0"].seats.values())).node)
            await play.stage.make_one(pod("rival", gpus=8, scheduler="default-scheduler", nodeName=taken[0]))

    async with admitting(play) as kubelet, behind(play, take) as (_, scheduler):
        gangs = scheduler.mirror.gangs
        yield kubelet


def running(play, name, count):
    """A condition: so many pods of a Job run."""

    async def check():
        pods = await play.stage.items(f"/api/v1/namespaces/default/pods?labelSelector=job-name={name}")
        return sum(p["status"]["phase"] == "Running" for p in pods) == count

    return check


@pytest.fixture
def controllers(control_plane):
    """Who makes pods of Jobs again."""
    control_plane.start_controllers()
    yield
    control_plane.end("kube-controller-manager")


@pytest.mark.usefixtures("controllers")
def test_a_member_whose_place_was_taken_meanwhile_gets_another(play):
    async def scene(play):
        await play.nodes(4)
        async with beaten(play) as kubelet:
            await play.stage.make(*job("g0", 3, 300))
            await play.until(running(play, "g0", 3), "it runs whole")
            assert kubelet.refused == 1

    play(scene, kubelet=False)


@pytest.mark.usefixtures("controllers")
def test_a_gang_whose_place_was_taken_and_that_finds_no_other_holds_nothing(play):
    async def scene(play):
        await play.nodes(3)
        async with beaten(play) as kubelet:
            await play.stage.make(*job("g0", 3, 300))

            async def refused():
                return kubelet.refused

            await play.until(refused, "a member is refused")
            await play.stage.make(*job("small", 2, 300))
            await play.until(running(play, "small", 2), "the other one runs")
            assert await running(play, "g0", 0)()
            assert kubelet.refused == 1

    play(scene, kubelet=False)


@pytest.mark.usefixtures("controllers")
def test_another_scheduler_fills_the_nodes_while_we_bind(play, control_plane):
    async def scene(play):
        await play.nodes(NODES)
        async with admitting(play) as kubelet, play.scheduler() as scheduler:
            for number in range(ROUNDS):
                strangers = [stranger(number * STRANGERS + i) for i in range(STRANGERS)]
                await play.stage.make(*job(f"g{number}", 3, 0.3), *strangers)

            async def done():
                jobs = await play.stage.items("/apis/batch/v1/namespaces/default/jobs")
                return all(j.get("status", {}).get("succeeded") == 3 for j in jobs)

            await play.until(done, "every gang has run")
            print(f"refused {kubelet.refused}")
            pods = await play.stage.items("/api/v1/namespaces/default/pods")
            assert all("nodeName" in p["spec"] for p in pods if p["metadata"]["name"].startswith("web-"))
            await play.settle(scheduler)
            assert scheduler.compare() == 0

    control_plane.start_scheduler()
    try:
        play(scene, kubelet=False)
    finally:
        control_plane.end("kube-scheduler")
