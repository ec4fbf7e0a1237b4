"""What is installed: the manifests are those the code makes, the role is exactly enough, and the doctor knows."""

import contextlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tools.control_plane.stage import gang, node, path_of
from tutti.cli.kube import kube
from tutti.errors import TuttiError
from tutti.kube import api
from tutti.kube.api import Api, ApiError
from tutti.kube.ask import Asking
from tutti.kube.config import Config, parse
from tutti.kube.credentials import from_file
from tutti.kube.doctor import _leader, examine
from tutti.kube.manifests import manifests, text
from tutti.kube.rights import INSIDE, rights

ROOT = Path(__file__).resolve().parents[2]


def test_the_files_are_those_the_code_makes():
    for name, objects in manifests().items():
        assert (ROOT / "deploy" / name).read_text() == text(objects), f"tutti kube manifests --out deploy ({name})"


def test_a_scheduler_that_lives_elsewhere_looks_there_for_its_lease():
    made = [thing for objects in manifests("elsewhere").values() for thing in objects]
    (settings,) = [thing["data"]["config.toml"] for thing in made if thing["kind"] == "ConfigMap"]
    assert parse(settings, "settings").namespace == "elsewhere"
    assert not [thing for thing in made if "tutti-system" in str(thing)]


def test_files_are_written_where_there_is_no_folder_yet(tmp_path):
    runner, folder = CliRunner(), tmp_path / "new" / "folder"
    assert runner.invoke(kube, ["manifests", "--out", str(folder)]).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(manifests())
    found = runner.invoke(kube, ["manifests", "--out", str(folder / "0-crds.yaml")])
    assert "cannot write to" in str(found.exception)


def test_no_wildcards_and_no_secrets():
    for right in (*rights(), *INSIDE):
        assert "*" not in (right.group, right.resource, *right.verbs)
        assert "secret" not in right.resource
        assert right.why


async def taken(play, thing):
    """What the server has, or would have, of an object."""
    with contextlib.suppress(ApiError):
        return await play.stage.get(f"{path_of(thing)}/{thing['metadata']['name']}")
    return msgspec.json.decode(await play.stage.api.write("POST", f"{path_of(thing)}?dryRun=All", thing))


def test_the_api_server_takes_every_manifest(play):
    async def scene(play):
        for objects in manifests().values():
            for thing in yaml.safe_load_all(text(objects)):
                found = await taken(play, thing)
                assert (found["kind"], found["metadata"]["name"]) == (thing["kind"], thing["metadata"]["name"])

    play(scene)


def test_the_doctor_finds_what_is_missing(play):
    async def scene(play):
        allowed = Api(from_file(play.rig.kubeconfig(play.rig.tutti)))
        found = await examine(allowed, Config(namespace="tutti-system", scheduler_name="nobody-yet"))
        allowed.close()
        wrong = [finding.what for finding in found if not finding.ok]
        assert wrong == ["no scheduler has ever led here (one with --no-lease leaves no trace)"]

    play(scene)


def test_the_doctor_asks_about_the_account_of_the_scheduler_and_not_about_whoever_asks(play):
    async def scene(play):
        api = Api(from_file(play.rig.kubeconfig()))
        meta = {"metadata": {"name": "elsewhere"}}
        await play.stage.make_one({"apiVersion": "v1", "kind": "Namespace", **meta})
        elsewhere = Config(namespace="elsewhere")
        alone = [finding.what for finding in await examine(api, elsewhere) if "every right" in finding.what]
        assert alone == ["admin (no account elsewhere/tutti is there) has every right"]
        account = {"metadata": {"name": "tutti", "namespace": "elsewhere"}}
        place = "/api/v1/namespaces/elsewhere/serviceaccounts"
        await play.stage.api.insist("POST", place, {"apiVersion": "v1", "kind": "ServiceAccount", **account})
        wrong = [finding.what for finding in await examine(api, elsewhere) if not finding.ok]
        assert "system:serviceaccount:elsewhere:tutti has no right to get/list/watch nodes" in wrong[0]
        right = [finding.what for finding in await examine(api, Config()) if "every right" in finding.what]
        assert right == ["system:serviceaccount:tutti-system:tutti has every right"]
        await play.stage.remove(f"{place}/tutti")
        api.close()

    play(scene)


def test_the_doctor_knows_a_leader_that_has_stopped():
    spec = {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    heard = 1_767_225_600.0
    assert _leader(spec, heard + 20).ok
    assert "it has stopped" in _leader(spec, heard + 60).what
    assert "nobody leads" in _leader(spec | {"holderIdentity": ""}, heard).what


def asked(play, *words, token="", server=""):
    """How a command of ours ends, and what it says."""
    file = str(play.rig.kubeconfig(token, server))
    return subprocess.run(
        [sys.executable, "-m", "tutti", *words, "--kubeconfig", file], capture_output=True, text=True, check=False
    )


def command(play, *words):
    """What a command of ours prints."""
    done = asked(play, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_the_cluster_refuses_is_said_plainly(play):
    async def scene(play):
        nobody = play.rig.nobody
        for words in (("queue", "--kube"), ("kube", "run", "--no-lease", "--port", "0")):
            done = asked(play, *words, token=nobody)
            assert done.returncode == 4
            assert "the API server says no" in done.stderr
            assert "is forbidden" in done.stderr
        doctor = asked(play, "kube", "doctor", token=nobody)
        assert doctor.returncode == 4
        assert "no right to get/list/watch nodes" in doctor.stdout

    play(scene)


def test_commands_go_by_the_settings_that_are_in_the_cluster(play, tmp_path):
    def settings(text):
        meta = {"name": "tutti", "namespace": "tutti-system"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.toml": text}}

    async def scene(play):
        await play.nodes(2)
        await play.stage.make(*gang("a", 1, annotations={"tutti.dev/queue": "team"}))
        assert "there is no queue 'team'" in command(play, "kube", "why", "a")
        await play.stage.make_one(settings("[queues.team]\nweight = 3\n"))
        place = "/api/v1/namespaces/tutti-system/configmaps/tutti"
        try:
            assert "starts now" in command(play, "kube", "why", "a")
            told = msgspec.json.decode(command(play, "kube", "queues", "-o", "json"))
            rows = {row["name"]: row for row in told["queues"]}
            assert (rows["team"]["weight"], rows["team"]["deserved"], rows["team"]["borrowed"]) == (3, 16, 0)
            empty = tmp_path / "empty.toml"
            empty.write_text("")
            assert "there is no queue" in command(play, "kube", "why", "a", "--config", str(empty))
            await play.stage.patch(place, {"data": {"config.toml": "nonsense = 1"}})
            for words in (("queue", "--kube"), ("kube", "doctor")):
                assert "configmap tutti-system/tutti" in asked(play, *words).stderr
        finally:
            await play.stage.remove(place)

    play(scene)


def test_a_cluster_that_is_not_there_is_not_an_empty_one(control_plane, monkeypatch):
    monkeypatch.setattr(api, "TRIES", 1)
    credentials = from_file(control_plane.kubeconfig(server="https://127.0.0.1:1"))
    with pytest.raises(TuttiError, match="cannot be reached"):
        Asking(credentials, Config()).get("/v1/jobs")


def plugin(play, *words):
    """The same as kubectl runs it."""
    code = "import sys; from tutti.cli.kube import plugin; plugin()"
    asked = [sys.executable, "-c", code, *words, "--kubeconfig", str(play.rig.kubeconfig())]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


def test_people_can_ask(play, tmp_path):
    async def scene(play):
        await play.stage.make(*(node(f"n{i}") for i in range(2)))
        async with play.scheduler():
            await play.stage.make(*gang("a", 2))
            await play.until_bound("a-")
        await play.stage.make(*gang("b", 2))
        said = command(play, "queue", "--kube")
        assert "default/a" in said
        assert "NoCapacity" in said
        assert "default/b is waiting: NoCapacity" in command(play, "kube", "why", "b")
        assert "NoCapacity" in command(play, "why", "--kube")
        assert "0 free of 8" in command(play, "nodes", "--kube")
        assert "2 pods got nodes" in command(play, "kube", "story", "default/a")
        assert "default/b" in command(play, "what-if", "--kube", "--add-nodes", "2x8")
        assert "deserved" in command(play, "queues", "--kube")
        assert plugin(play, "queue", "-o", "name").split() == ["default/a", "default/b"]
        assert plugin(play, "queue", "-n", "default", "-o", "name").split() == ["default/a", "default/b"]
        assert not plugin(play, "queue", "-n", "elsewhere", "-o", "name")
        assert "default/b is waiting" in plugin(play, "why", "b", "-n", "default")
        command(play, "kube", "snapshot", str(tmp_path / "view.json"))
        assert b"default/b" in (tmp_path / "view.json").read_bytes()

    play(scene)
