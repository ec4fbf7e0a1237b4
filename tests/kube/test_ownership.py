"""Where a controller owns an object we do not fight it: no field is written by two in turn."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.kube.dialects import GROUPS, group, mark
from tools.control_plane.stage import node, pod
from tutti.kube.api import MERGE, Api
from tutti.kube.config import Config
from tutti.kube.credentials import from_file
from tutti.kube.watch import Listener

PODS = "/api/v1/namespaces/default/pods"
GATE = "kueue.x-k8s.io/admission"
OURS = "tutti"


class Meta(msgspec.Struct, rename="camel"):
    """Who has written what."""

    name: str
    uid: str
    resource_version: str
    managed_fields: list[dict[str, Any]] = []


class Written(msgspec.Struct):
    """Of any object."""

    metadata: Meta


def leaves(tree: dict[str, Any], above: str = "") -> Iterator[str]:
    """Fields, as paths."""
    for key, below in tree.items():
        if below:
            yield from leaves(below, f"{above}/{key}")
        elif key != ".":
            yield f"{above}/{key}"


class Ledger:
    """Who has owned each field, one after the other."""

    def __init__(self) -> None:
        self.owners: dict[tuple[str, str], list[frozenset[str]]] = {}

    def put(self, thing: Written) -> None:
        """An object as it is now."""
        now: dict[str, set[str]] = {}
        for entry in thing.metadata.managed_fields:
            for path in leaves(entry.get("fieldsV1", {})):
                now.setdefault(path, set()).add(entry["manager"])
        for path, who in now.items():
            history = self.owners.setdefault((thing.metadata.name, path), [])
            if not history or history[-1] != who:
                history.append(frozenset(who))

    def quarrels(self) -> list[tuple[tuple[str, str], list[frozenset[str]]]]:
        """Fields that somebody got back after another had them."""
        return [(field, told) for field, told in self.owners.items() if any(_returns(told, who) for who in _all(told))]

    def fields_of(self, manager: str) -> set[str]:
        """Every field somebody has ever owned."""
        return {path for (_, path), told in self.owners.items() if manager in _all(told)}


def _all(told: list[frozenset[str]]) -> set[str]:
    return {who for owners in told for who in owners}


def _returns(told: list[frozenset[str]], who: str) -> bool:
    had = [who in owners for owners in told]
    last = len(had) - had[::-1].index(True)
    return not all(had[had.index(True) : last])


@contextlib.asynccontextmanager
async def kept(play, *paths):
    """A ledger of everything that happens to these kinds."""
    api, ledger = Api(from_file(play.rig.kubeconfig()), 6), Ledger()
    listeners = [Listener(api, path, Written, ledger.put, ledger.put, lambda: None) for path in paths]
    tasks = [asyncio.create_task(listener.follow()) for listener in listeners]
    try:
        yield ledger
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        api.close()


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
        async with kept(play, groups) as ledger, play.scheduler(Config(dialects=(dialect,))) as scheduler:
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
        async with kept(play, PODS) as ledger, play.scheduler(Config(dialects=("kueue",))):
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


def test_a_quarrel_would_be_noticed():
    told = [frozenset({who}) for who in ("a", "b", "a")]
    ledger = Ledger()
    ledger.owners = {("x", "/f:status"): told, ("y", "/f:status"): told[:2]}
    assert ledger.quarrels() == [(("x", "/f:status"), told)]
