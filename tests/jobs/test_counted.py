"""A job somebody has, on a cluster that was recorded: the same translation, asking for what that cluster counts."""

import json

from tests.jobs.golden_files import HERE
from tutti.cli.main import run
from tutti.engine import events as ev
from tutti.engine.model import Gang, Node, Queue, Role, Shape
from tutti.engine.presets import PRESETS
from tutti.engine.record import record
from tutti.engine.world import World
from tutti.jobs.counted import counted


def asks(gang):
    return [role.shapes[0].ask for role in gang.roles]


def test_devices_are_devices_whatever_their_vendor():
    gang = Gang("g", (Role(shapes=(Shape({"nvidia.com/gpu": 4, "pods": 1, "cpu": 1000}),)),))
    assert asks(counted(gang, ["gpu"])) == [{"gpu": 4}]
    assert asks(counted(gang, ["nvidia.com/gpu", "cpu"])) == [{"nvidia.com/gpu": 4, "cpu": 1000}]
    back = Gang("g", (Role(shapes=(Shape({"gpu": 4}),)),))
    assert asks(counted(back, ["amd.com/gpu"])) == [{"amd.com/gpu": 4}]


def test_what_the_cluster_does_not_have_stays_named():
    gang = Gang("g", (Role(shapes=(Shape({"fpga": 1}),)),))
    assert asks(counted(gang, ["gpu"])) == [{"fpga": 1}]


def test_a_manifest_and_a_script_can_be_tried_on_a_recorded_cluster(tmp_path, capsys):
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    for number in range(5):
        world.apply(ev.NodeSeen(0, Node(f"n{number}", {"gpu": 8})))
    snapshot = tmp_path / "now.json"
    snapshot.write_bytes(record(world.view(), 0, PRESETS["easy"].policy))
    files = [HERE / "manifests" / "pytorchjob.yaml", HERE / "scripts" / "disagree.sbatch"]
    words = [word for file in files for word in ("--submit", str(file))]
    assert run(["what-if", str(snapshot), *words, "-o", "json"]) == 0
    starts = {start["gang"]: start["after_s"] for start in json.loads(capsys.readouterr().out)["starts"]}
    assert starts["ml/pytorchjob"] == 0.0
    assert starts["disagree"] == 0.0


def test_a_manifest_can_be_played_in_a_scene(tmp_path, capsys):
    (tmp_path / "job.yaml").write_text((HERE / "manifests" / "pytorchjob-elastic.yaml").read_text())
    (tmp_path / "night.sbatch").write_text((HERE / "scripts" / "disagree.sbatch").read_text())
    scene = tmp_path / "scene.toml"
    scene.write_text(
        'title = "Brought: two jobs"\nstory = "A manifest and a script."\nmoral = "They are gangs like others."\n'
        'cluster = {nodes = 4, each = 8}\n[variants.easy]\npolicy = "easy"\n'
        '[[gang]]\nname = "manifest"\nfile = "job.yaml"\nruns = "1h"\n'
        '[[gang]]\nname = "script"\nfile = "night.sbatch"\nruns = "30m"\n'
    )
    code = run(["simulate", str(scene), "-o", "json"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "easy" in out
