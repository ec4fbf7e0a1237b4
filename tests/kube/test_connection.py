"""Between us and the API server: gaps, expired tokens, replicas that take over, floods, huge objects."""

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from tests.kube import dialects
from tests.kube.proxy import Proxy
from tests.kube.test_faults import process
from tools.control_plane.stage import gang, group, many, node, pod
from tutti.errors import Misused, NotFound, TuttiError
from tutti.jobs.kube.objects import Meta, Node, Pod, Thing
from tutti.kube.api import Api, _readable
from tutti.kube.config import Config
from tutti.kube.credentials import find, from_file, from_plugin
from tutti.kube.http import Broken
from tutti.kube.kinds import ALWAYS, OF_YUNIKORN, served
from tutti.kube.resync import verify
from tutti.kube.scheduler import LONGEST_SETTLE
from tutti.kube.sight import Sight
from tutti.kube.watch import Listener, Stamp, Stamped


def test_what_vanished_in_a_gap_is_seen(play):
    async def scene(play):
        await play.stage.make(*(node(f"n{i}") for i in range(3)))
        async with Proxy(play.rig) as proxy:
            gone = asyncio.Event()

            async def too_old(request):
                if not ("watch=1" in request.path and "/pods?" in request.path and gone.is_set()):
                    return None
                gone.clear()
                return 410, "Expired"

            proxy.before = too_old
            async with play.scheduler(kubeconfig=play.rig.kubeconfig(play.rig.tutti, proxy.url)) as scheduler:
                await play.stage.make(*gang("a", 2))
                await play.until_bound("a-")
                gone.set()
                proxy.cut()
                await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
                await play.stage.make(*gang("b", 1))
                await play.until_bound("b-")
                assert len(scheduler.mirror.pods) == 2
                assert scheduler.listeners["/api/v1/pods"].lists == 2

    play(scene)


class Gap:
    """An API server that lists something else each time."""

    def __init__(self, *lists):
        self.lists = list(lists)

    async def list(self, path, item, **query):
        return self.lists.pop(0), "9", 0


def test_what_a_stream_has_kept_from_us_is_found_by_a_listing(play):
    async def scene(play):
        await play.stage.make(node("n0"))
        async with play.scheduler() as scheduler, asyncio.TaskGroup() as group:
            await play.stage.make(*gang("a", 1, 4), pod("other", gpus=4, scheduler="other", nodeName="n0"))
            await play.until_bound("a-")
            await play.settle(scheduler)
            assert await verify(scheduler, "/api/v1/pods", group) == 0
            listener, mirror = scheduler.listeners["/api/v1/pods"], scheduler.mirror
            other = next(uid for uid, seen in mirror.pods.items() if seen.name == "other")
            del listener.known[other]
            mirror.drop_pod(other)
            ghost = Pod(metadata=Meta(name="ghost", uid="ghost"))
            listener.known["ghost"] = "1", ghost
            mirror.put_pod(ghost)
            task = asyncio.create_task(verify(scheduler, "/api/v1/pods", group))
            for at in range(60):
                if not task.done():
                    # News of somebody else say how far the stream has come; without any, a bookmark does, in a minute.
                    change = {"metadata": {"annotations": {"at": str(at)}}}
                    await play.stage.patch("/api/v1/namespaces/default/pods/a-0", change)
                    await asyncio.wait({task}, timeout=0.5)
            assert await task == 2
            await play.settle(scheduler)
            assert {seen.name for seen in mirror.pods.values()} == {"a-0", "other"}
            assert (await verify(scheduler, "/api/v1/pods", group), scheduler.compare()) == (0, 0)
            scheduler._following["/api/v1/pods"].cancel()

    play(scene)


def test_nothing_is_decided_while_nodes_are_out_of_sight(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1", 1))
        async with Proxy(play.rig) as proxy:
            blind = asyncio.Event()

            async def refuse(request):
                return (503, "Unavailable") if blind.is_set() and "/nodes?" in request.path else None

            proxy.before = refuse
            async with play.scheduler(kubeconfig=play.rig.kubeconfig(play.rig.tutti, proxy.url)) as scheduler:
                await play.stage.make(*gang("a", 1))
                await play.until_bound("a-")
                blind.set()
                proxy.cut()

                async def is_lost():
                    return "503" in scheduler.listeners["/api/v1/nodes"].trouble

                await play.until(is_lost, "an attempt that is refused")
                await play.stage.remove("/api/v1/namespaces/default/pods/a-0")
                await play.stage.remove("/api/v1/nodes/n0")
                await play.stage.make(*gang("b", 1))

                async def is_known():
                    return any(seen.name == "b-0" for seen in scheduler.mirror.pods.values())

                await play.until(is_known, "the new pod")
                # As long as news are gathered at most before something is decided.
                await asyncio.sleep(LONGEST_SETTLE)
                blind.clear()
                await play.until_told("b", "False")
                assert not await play.bound("b-")
                await play.stage.make(node("n2"))
                assert (await play.until_bound("b-"))["b-0"] == "n2"

    play(scene)


def idle(path: str, item: type[Any], api: Any = None) -> Listener[object]:
    """One whose changes nobody hears of; without an API it lists nothing."""
    source: Any = api or Gap()
    return Listener(source, path, item, lambda _: None, lambda _: None, lambda: None)


def test_what_is_out_of_sight_for_long_is_said_once_and_so_is_its_return():
    nodes, groups = idle("/nodes", Node), idle("/podgroups", Thing)
    said: list[str] = []
    sight = Sight({each.path: each for each in (nodes, groups)}, said.append)
    groups.trouble = "403 Forbidden: no"
    for now in (1, 2, 8, 9):
        sight.tell(now)
    assert (said, sight.is_lost) == (["out of sight: podgroups (403 Forbidden: no)"], False)
    groups.trouble = ""
    sight.tell(10)
    assert said[1:] == ["everything is in sight again"]
    nodes.trouble = "cut"
    sight.tell(11)
    sight.tell(17)
    assert said[2:] == ["out of sight: nodes (cut); nothing is decided until they are seen again"]


def test_what_happens_while_a_listing_is_compared_is_no_difference():
    there = [Stamped(Stamp(uid, version)) for uid, version in (("kept", "5"), ("changed", "6"), ("gone", "7"))]

    class Meanwhile(Gap):
        async def list(self, path, item, **query):
            listener._drop(Thing(metadata=Meta(uid="gone")))
            return await super().list(path, item, **query)

    listener = idle("/nodes", Thing, Meanwhile(there))
    listener.version = "12"
    listener.known = {uid: (at, Thing()) for uid, at in (("kept", "5"), ("changed", "11"), ("new", "12"))}
    assert asyncio.run(listener.missed()) == 0


@pytest.mark.parametrize("missed", ["made", "changed", "deleted"])
def test_a_difference_between_a_listing_and_what_is_known(missed):
    there = [Stamped(Stamp(uid, version)) for uid, version in (("a", "5"), ("b", "6"))]
    listener = idle("/nodes", Thing, Gap(there, there))
    known = {"made": {"a": "5"}, "changed": {"a": "5", "b": "4"}, "deleted": {"a": "5", "b": "6", "c": "3"}}[missed]
    listener.version, listener.known = "9", {uid: (at, Thing()) for uid, at in known.items()}
    assert asyncio.run(listener.missed()) == 1


def test_what_cannot_be_read_is_no_difference():
    listener = idle("/nodes", Thing)
    listener.api = Gap([Stamped(Stamp("unreadable", "5"))], [])  # type: ignore[assignment]
    listener.version = "9"
    assert asyncio.run(listener.missed()) == 0


@pytest.mark.parametrize("line", [b'{"type":"ADDED","object":{"metada', b"<html>"])
def test_a_line_that_is_cut_off_makes_us_read_anew(line, monkeypatch):
    class Cut(Gap):
        async def watch(self, path, version, **query):
            yield [line]

    async def at_once(seconds):
        """No need to wait here."""

    monkeypatch.setattr("tutti.kube.watch.asyncio.sleep", at_once)
    listener = idle("/nodes", Thing, Cut([], []))
    with pytest.raises(IndexError):
        asyncio.run(listener.follow())
    assert listener.lists == 2


def test_a_name_that_was_given_again_in_a_gap():
    there = {}
    one, other = (Thing(metadata=Meta(name="n", uid=uid, resource_version=uid)) for uid in "12")
    put = lambda thing: there.update({thing.metadata.name: thing.metadata.uid})  # noqa: E731
    listener = Listener(Gap([one], [other]), "/nodes", Thing, put, lambda t: there.pop(t.metadata.name), lambda: None)  # type: ignore[arg-type]
    for uid in "12":
        asyncio.run(listener.list())
        assert there == {"n": uid}


def test_an_object_that_cannot_be_read_hides_no_other():
    body = b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":3}}]}'
    page, unreadable = _readable(body, Thing)
    assert [item.metadata.name for item in page.items] == ["a"]
    assert unreadable == 1


def test_an_expired_token_is_read_again(play, tmp_path):
    async def scene(play):
        token = tmp_path / "token"
        token.write_text("expired")
        credentials = from_file(play.rig.kubeconfig())
        credentials._token = token.read_text
        api = Api(credentials)
        credentials.headers()
        token.write_text(play.rig.admin)
        assert await api.get("/version", dict)
        api.close()

    play(scene, kubelet=False)


def test_connections_are_opened_before_they_are_needed_and_then_used(play):
    async def scene(play):
        api = Api(from_file(play.rig.kubeconfig()), 4)
        await api.http.warm(3)
        opened = set(api.http._open)
        assert len(opened) == 3
        await asyncio.gather(*(api.get("/version", dict) for _ in range(3)))
        assert api.http._open == opened
        await api.http.warm(9)
        assert len(api.http._open) == api.http.most
        api.close()

    play(scene, kubelet=False)


def test_the_next_replica_takes_over_when_the_leader_is_asked_to_go(play, tmp_path):
    settings = tmp_path / "config.toml"
    settings.write_text("lease_seconds = 30\ndialects = ['native']\n")

    async def scene(play):
        await play.stage.make(*(node(f"n{i}") for i in range(2)))
        options = ("--config", str(settings))
        async with Proxy(play.rig) as one, Proxy(play.rig) as two, process(play, one, *options) as old:
            await play.stage.make(*gang("a", 1))
            await play.until_bound("a-")
            async with process(play, two, *options):
                old.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(old.wait(), 60) == 0
                await play.stage.make(*gang("b", 1))
                await play.until_bound("b-")
        await play.stage.remove("/apis/coordination.k8s.io/v1/namespaces/tutti-system/leases/tutti")

    play(scene)


def test_a_flood_of_groups_disturbs_nobody(play):
    async def scene(play):
        await play.stage.make(*(node(f"n{i}") for i in range(2)))
        async with play.scheduler():
            flood = [f"f{i}" for i in range(300)]
            await play.stage.make(*(group(name, 3) for name in flood))
            await play.stage.make(*gang("a", 2))
            path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
            await asyncio.gather(*(play.stage.remove(f"{path}/{name}") for name in flood))
            assert len(await play.until_bound("a-")) == 2

    play(scene)


def test_a_pod_of_a_megabyte(play):
    async def scene(play):
        await play.stage.make(node("n0"))
        async with play.scheduler():
            huge = pod("a-0", gpus=1)
            huge["spec"]["containers"][0]["env"] = [{"name": f"V{i}", "value": "x" * 1000} for i in range(900)]
            await play.stage.make_one(huge)
            assert await play.until_bound("a-") == {"a-0": "n0"}

    play(scene)


def test_a_group_of_a_megabyte(play):
    async def scene(play):
        await play.stage.make(node("n0"), node("n1"))
        async with play.scheduler(Config(dialects=("volcano",))):
            huge = dialects.group("volcano", "a", 1, {}) or {}
            huge["spec"]["junk"] = "x" * 1_000_000
            await play.stage.make_one(huge)
            await play.stage.make(pod("a-0", **dialects.mark("volcano", "a", 1, 1, {})), *gang("b", 1))
            assert len(set((await play.until_bound("a-", "b-")).values())) == 2

    play(scene)


def test_a_scheduler_of_another_name_leaves_our_records_alone(play):
    async def scene(play):
        await play.nodes(2)
        async with play.scheduler() as ours:
            await play.stage.make(*gang("a", 2))
            assert len(await play.until_bound("a-")) == 2
            await play.settle(ours)
        before = await play.stage.items("/apis/tutti.dev/v1alpha1/placements")
        assert [found["spec"]["scheduler"] for found in before] == ["tutti"]
        async with play.scheduler(Config(scheduler_name="other", dialects=("native",))) as other:
            await play.stage.make(pod("b-0", gpus=0, scheduler="other"))
            assert len(await play.until_bound("b-")) == 1
            await play.settle(other)
            assert not other.placements
        assert await play.stage.items("/apis/tutti.dev/v1alpha1/placements") == before

    play(scene)


class Elsewhere:
    """A cluster that serves only versions nobody has heard of yet."""

    async def get(self, path, kind):
        if path == "/apis":
            groups = ["scheduling.k8s.io", "scheduling.volcano.sh", "kueue.x-k8s.io"]
            return kind([{"name": name, "versions": [{"version": "v9"}]} for name in groups])
        return kind([{"name": "podgroups"}])


def test_versions_that_are_not_known_are_not_read():
    found = asyncio.run(served(Elsewhere()))  # type: ignore[arg-type]
    assert {kind.kind for kind in found} == {*ALWAYS, *OF_YUNIKORN}


def test_a_start_is_foretold_and_the_promise_outlives_a_restart(play):
    async def scene(play):
        await play.stage.make(*(node(f"n{i}") for i in range(2)))
        async with play.scheduler() as scheduler:
            await play.stage.make(*gang("a", 1, annotations={"tutti.dev/time": "1h"}))
            await play.until_bound("a-")
            await play.stage.make(*gang("big", 2, annotations={"tutti.dev/time": "1h"}))

            async def written():
                world = scheduler.driver.world
                slot = world.slots.get("default/big", -1)
                promise = world.job_in(slot).life.promise if slot >= 0 else None
                maps = await play.stage.items("/api/v1/namespaces/tutti-system/configmaps")
                kept = any("default/big" in (m.get("data") or {}).get("gangs", "") for m in maps)
                return promise if promise is not None and kept else None

            promise = await play.until(written, "the promise")
        async with play.scheduler() as scheduler:
            world = scheduler.driver.world
            again = world.job_in(world.slots["default/big"]).life.promise
            assert again is not None
            assert again.given == promise.given
            assert again.start <= promise.start
            await play.stage.make(*gang("long", 1, annotations={"tutti.dev/time": "3h"}))
            await play.stage.make(*gang("short", 1, annotations={"tutti.dev/time": "30m"}))
            await play.until_bound("short-")
            assert not await play.bound("long-")

    play(scene)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "is not a kubeconfig"),
        ("current-context: x", "no context is called 'x'"),
        ("{", "cannot read"),
    ],
)
def test_a_bad_kubeconfig_is_one_clear_error(tmp_path, text, says):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Misused, match=says):
        find(str(path))


@pytest.mark.parametrize(
    ("cluster", "user", "says"),
    [
        ({"certificate-authority-data": "bm90IGEgY2VydA=="}, {}, "certificates of context"),
        ({"certificate-authority-data": "%"}, {}, "certificates of context"),
        ({}, {"client-certificate": "none.crt", "client-key": "none.key"}, "none.crt"),
        ({"server": "https://a:b"}, {}, "names no server"),
        ({"server": "ftp"}, {}, "names no server"),
        ({"proxy-url": "http://there:3128"}, {}, r"asks for a proxy \(proxy-url\), which is not understood"),
    ],
)
def test_certificates_and_servers_that_make_no_sense(tmp_path, cluster, user, says):
    file = tmp_path / "config"
    written = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"} | cluster}],
        "users": ["nonsense", {"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(written))
    with pytest.raises(Misused, match=says):
        from_file(file)


def test_a_missing_kubeconfig(tmp_path):
    with pytest.raises(NotFound, match="there is no file"):
        find(str(tmp_path / "none"))


def kubeconfig(file, context="", *, cluster="", token_file=""):
    """A file with a context, or with a part of what one needs, beside a file with the token that it names."""
    written = {"current-context": context} if context else {}
    if context:
        written["contexts"] = [{"name": context, "context": {"cluster": "c", "user": "u", "namespace": context}}]
    if cluster:
        written["clusters"] = [{"name": "c", "cluster": {"server": cluster}}]
    if token_file:
        written["users"] = [{"name": "u", "user": {"tokenFile": token_file}}]
        (file.parent / token_file).write_text(f"token of {file.parent.name}")
    file.write_text(json.dumps(written))
    return str(file)


def test_several_kubeconfigs_are_one(tmp_path, monkeypatch):
    """As kubectl has it: an earlier file counts, those that are not there are skipped, paths are the file's."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    first = kubeconfig(one / "config", "first", token_file="t")
    second = kubeconfig(two / "config", "second", cluster="http://there:81", token_file="t")
    listed = ["", str(tmp_path / "none"), first, second]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(listed))
    found = find()

    assert (found.name, found.namespace, found.target.host, found.target.port) == ("first", "first", "there", 81)
    assert "token of one" in found.headers()
    assert find(context="second").namespace == "second"
    with pytest.raises(Misused, match="no cluster is called 'c'"):
        find(first)
    with pytest.raises(Misused, match="no context is called 'third'; known: first, second"):
        find(context="third")


def test_no_kubeconfig_of_several_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "none"), str(tmp_path / "neither")]))
    with pytest.raises(NotFound, match=r"there is no file .*none"):
        find()


def test_a_credential_plug_in_beside_the_kubeconfig(tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text('#!/bin/sh\necho \'{"status": {"token": "fresh"}}\'\n')
    plugin.chmod(0o755)
    file = tmp_path / "config"
    kubeconfig(file, "x", cluster="http://there")
    written = json.loads(file.read_text()) | {"users": [{"name": "u", "user": {"exec": {"command": "./plugin"}}}]}
    file.write_text(json.dumps(written))

    assert "Bearer fresh" in from_file(file).headers()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('echo \'{"status": {"clientCertificateData": "x"}}\'', "gave no token"),
        ("echo log in first >&2; exit 3", "failed: log in first"),
        ("echo hello", "failed: JSON"),
    ],
)
def test_a_credential_plug_in_that_gives_nothing(tmp_path, script, says):
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    with pytest.raises(TuttiError, match=says):
        from_plugin({"command": str(plugin)})


def test_a_server_that_is_reached_by_another_name_than_its_certificate_has(control_plane, tmp_path):
    written = json.loads(control_plane.kubeconfig().read_text())
    cluster = written["clusters"][0]["cluster"]
    file = tmp_path / "config"

    async def version():
        file.write_text(json.dumps(written))
        api = Api(from_file(file))
        try:
            return await api.write("GET", "/version")
        finally:
            api.close()

    cluster["tls-server-name"] = "another.example"
    with pytest.raises(Broken, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(version())
    cluster["tls-server-name"] = "kubernetes"
    assert b"gitVersion" in asyncio.run(version())


def test_several_gangs_at_once_are_all_whole(play):
    async def scene(play):
        await play.stage.make(*(node(f"n{i}") for i in range(6)))
        async with play.scheduler() as scheduler:
            await play.stage.make(*many([gang(f"g{i}", 2) for i in range(5)]))
            await play.until_bound("g", count=6)
            await play.settle(scheduler)
            bound = await play.bound("g")
            assert all(sum(name.startswith(f"g{i}-") for name in bound) in (0, 2) for i in range(5))

    play(scene)
