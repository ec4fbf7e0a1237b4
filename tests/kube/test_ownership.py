"""Where a controller owns an object we do not fight it: no field is written by two in turn."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.kube.dialects import GROUPS, group, mark
from tools.control_plane.ledger import Ledger, Meta, Written, kept
from tools.control_plane.stage import node, pod
from tutti.kube.api import MERGE
from tutti.kube.config import Config

PODS = "/api/v1/namespaces/default/pods"
GATE = "kueue.x-k8s.io/admission"
OURS = "tutti"


async def controller(play, path, name):
    """One that keeps the phase of a group as it sees fit, whatever others write there; the word is its own."""
    while True:
        found = await play.stage.get(path)
        phases = [p["status"]["phase"] for p in await play.stage.items(PODS)]
        phase = "Pending" if "Running" not in phases else "Running" if set(phases) == {"Running"} else "Scheduling"
        if found.get("status", {}).get("phase") != phase:
            body = {"status": {"phase": phase, "running": phases.count("Running")}}
            await play.stage.api.insist("PATCH", f"{path}/status", body, MERGE, fieldManager=name)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("dialect", ["coscheduling", "koordinator"])
def test_a_controller_that_writes_the_phase_is_left_alone(play, dialect):
    api, version = GROUPS[dialect]
    groups = f"/apis/{api}/{version}/namespaces/default/podgroups"

    async def scene(play):
        async with (
            kept(play.rig.kubeconfig(), groups) as ledger,
            play.scheduler(Config(dialects=(dialect,))) as scheduler,
        ):
            await play.stage.make_one(group(dialect, "a", 2, {}))
            work = asyncio.create_task(controller(play, f"{groups}/a", "its-controller"))
            try:
                await play.stage.make(*(pod(f"a-{i}", **mark(dialect, "a", 2, 2, {})) for i in range(2)))
                await play.nodes(2)
                await play.until_bound("a-", count=2)

                async def runs():
                    return (await play.stage.get(f"{groups}/a")).get("status", {}).get("phase") == "Running"

                await play.until(runs, "it runs")
                await play.stage.remove(f"{PODS}/a-0")
                await play.stage.make_one(pod("a-2", **mark(dialect, "a", 2, 2, {})))
                await play.until_bound("a-2")
                await play.settle(scheduler)
                await play.until(runs, "it runs again")
            finally:
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
            assert "/f:status/f:phase" in ledger.fields_of("its-controller")
            assert ledger.quarrels() == []

    play(scene)


def test_pods_that_kueue_admits(play):
    async def scene(play):
        await play.nodes(2)
        async with kept(play.rig.kubeconfig(), PODS) as ledger, play.scheduler(Config(dialects=("kueue",))):
            more = mark("kueue", "a", 3, 3, {}) | {"schedulingGates": [{"name": GATE}]}
            await play.stage.make(*(pod(f"a-{i}", **more) for i in range(3)))
            for number in range(3):
                change = {"spec": {"schedulingGates": None}, "metadata": {"annotations": {"kueue.x-k8s.io/x": "y"}}}
                await play.stage.api.insist("PATCH", f"{PODS}/a-{number}", change, MERGE, fieldManager="kueue")

            async def told():
                return ledger.fields_of(OURS)

            await play.until(told, "they are told why they wait")
            await play.stage.make_one(node("n2"))
            await play.until_bound("a-", count=3)
            assert not any(path.startswith("/f:metadata") for path in ledger.fields_of(OURS))
            assert ledger.quarrels() == []

    play(scene)


def written(name, *managers):
    """An object as its managers left it, one after the other; all wrote the same field."""
    fields: dict[str, Any] = {"f:status": {"f:phase": {}}}
    for version, manager in enumerate(managers):
        entry = {"manager": manager, "fieldsV1": fields, "time": str(version)}
        yield Written(Meta(name, f"uid-{name}", str(version), [entry]))


def test_a_quarrel_would_be_noticed():
    ledger = Ledger()
    for thing in (*written("x", "a", "b", "a"), *written("y", "a", "b")):
        ledger.put(thing)
    assert [(found.name, found.path, found.between("a"), found.between("c")) for found in ledger.quarrels()] == [
        ("x", "/f:status/f:phase", True, False)
    ]


def test_a_quarrel_is_remembered_when_the_object_is_gone():
    ledger = Ledger()
    first, second, third = written("x", "a", "b", "a")
    ledger.put(first)
    ledger.put(second)
    ledger.drop(third)
    assert [found.name for found in ledger.quarrels()] == ["x"]
    assert not ledger.owners
