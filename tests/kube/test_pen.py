"""What people are told gets into the cluster, or it is said that it cannot."""

from tests.kube.proxy import behind
from tools.control_plane.stage import gang
from tutti.kube.pen import kind_of

BUSY_FOR = 8
"""Answers of a busy server: more than one write is patient for."""


def test_kinds_are_named_as_people_name_them():
    assert kind_of("/api/v1/namespaces/a/pods/b/status") == "status of pods"
    assert kind_of("/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups/b") == "podgroups.scheduling.volcano.sh"
    assert kind_of("/apis/events.k8s.io/v1/namespaces/a/events") == "events.events.k8s.io"


def test_what_a_busy_server_did_not_take_is_told_later(play):
    async def scene(play):
        await play.nodes(1)
        refused = {"podgroups": 0, "pods": 0, "events": 0}

        async def busy(request):
            what = next((name for name in refused if f"/{name}" in request.path and "binding" not in request.path), "")
            if not what or request.method == "GET" or refused[what] >= BUSY_FOR:
                return None
            refused[what] += 1
            return 503, "Busy"

        async with behind(play, busy):
            await play.stage.make(*gang("a", 2))
            await play.until_told("a", "False")

            async def all_told():
                found = (await play.stage.pods()).values()
                conditions = [c for p in found for c in p["status"].get("conditions", [])]
                return [c["reason"] for c in conditions if c["type"] == "PodScheduled"] == ["Unschedulable"] * 2

            async def reported():
                events = await play.stage.items("/apis/events.k8s.io/v1/events")
                return [event["reason"] for event in events] == ["FailedScheduling"]

            await play.until(all_told, "the pods are told")
            await play.until(reported, "one event")
            assert set(refused.values()) == {BUSY_FOR}

    play(scene)


def test_evictions_that_are_forbidden_are_said_once(play, capfd):
    async def scene(play):
        await play.nodes(2)
        refused: list[str] = []

        async def forbidden(request):
            if not request.path.endswith("/eviction") or len(refused) > 3:
                return None
            refused.append(request.path)
            return 403, "Forbidden"

        async with behind(play, forbidden):
            await play.stage.make(*gang("low", 2))
            await play.until_bound("low-")
            await play.stage.make(*gang("high", 2, priorityClassName="high"))
            await play.until_bound("high-")
            assert len(refused) == 4

    play(scene)
    said = [line for line in capfd.readouterr().err.splitlines() if "evicted" in line]
    assert said == ["pods cannot be evicted: 403 Forbidden: by the proxy"]


def test_a_status_that_may_not_be_written_is_said_elsewhere(play, capfd):
    async def scene(play):
        await play.nodes(1)

        async def forbidden(request):
            return (403, "Forbidden") if "podgroups/" in request.path and request.method == "PATCH" else None

        async with behind(play, forbidden) as (_, scheduler):
            await play.stage.make(*gang("a", 2))
            await play.stage.make(*gang("b", 1))
            await play.until_bound("b-")

            async def told():
                events = await play.stage.items("/apis/events.k8s.io/v1/events")
                return [e["note"] for e in events if e["reason"] == "StatusRefused" and e["regarding"]["name"] == "a"]

            (note,) = await play.until(told, "an event")
            assert "NeverFits" in note
            assert (await scheduler.service.status()).trouble[0].startswith("status of podgroups.scheduling.k8s.io")

    play(scene)
    said = [line for line in capfd.readouterr().err.splitlines() if "podgroups" in line]
    assert said == ["status of podgroups.scheduling.k8s.io cannot be written: 403 Forbidden: by the proxy"]
