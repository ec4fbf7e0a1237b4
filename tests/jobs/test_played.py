"""A job straight into the simulator: the same gang that is explained and scheduled, on a cluster that is made up."""

import json

import pytest
from click.testing import CliRunner

from tests.jobs.golden_files import HERE
from tutti.cli.simulate import simulate
from tutti.errors import Misused, TuttiError
from tutti.jobs.counted import counted
from tutti.jobs.understand import understand
from tutti.sim.brought import is_job, scene_of
from tutti.sim.scenes import SceneTasks


def played(path, *options):
    done = CliRunner().invoke(simulate, [str(HERE / path), *options], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("path", sorted((HERE / "manifests").glob("*.yaml")), ids=lambda path: path.name)
def test_what_is_played_is_what_was_understood(path):
    try:
        found = understand([str(path)])
    except TuttiError as wrong:
        with pytest.raises(type(wrong)):
            scene_of(path, "", ("balanced",))
        return
    gangs = [task.gang for task in SceneTasks(scene_of(path, "", ("balanced",)))]
    assert {gang.name: gang.roles for gang in gangs} == {
        one.gang.name: counted(one.gang, ("gpu",)).roles for one in (found, *found.others)
    }


@pytest.mark.parametrize("path", ["manifests/pytorchjob.yaml", "scripts/nodes.sbatch", "jobs/ps.toml"])
def test_it_starts_at_once_where_there_is_room(path):
    (result,) = json.loads(played(path, "--cluster", "8x8", "-o", "json"))["results"]
    assert result["finished"] == 1
    assert "waited 0 min" in played(path, "--cluster", "8x8")


def test_where_there_is_none_it_says_why():
    said = played("manifests/pytorchjob.yaml", "--cluster", "2x8")
    assert "ml/pytorchjob is waiting: NeverFits" in said
    assert "at most 2 of 3 members would fit" in said


def test_policies_can_be_compared():
    said = played("manifests/several.yaml", "--cluster", "1x2", "--policy", "fcfs", "--policy", "balanced")
    assert "fcfs: on a cluster" in said
    assert "balanced: on a cluster" in said


def test_scenes_and_traces_are_no_jobs(tmp_path):
    (tmp_path / "a.toml").write_text('title = "a"\nstory = "b"\n')
    (tmp_path / "b.toml").write_text("[generate]\njobs = 5\n")
    (tmp_path / "c.toml").write_text("= nonsense")
    (tmp_path / "d.sh").write_text("#!/bin/sh\necho\n")
    assert [is_job(tmp_path / name) for name in ("a.toml", "b.toml", "c.toml", "d.sh", "e.yaml")] == [False] * 5
    assert is_job(HERE / "scripts" / "nodes.sbatch")


def test_a_cluster_of_two_pools_is_refused():
    with pytest.raises(Misused, match="one pool"):
        scene_of(HERE / "jobs" / "ps.toml", "2x4,4x8", ("balanced",))
