"""JAX and Dask themselves, from an environment of their own, as somebody else's job would bring them."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.jobs import programs
from tests.jobs.lab import Lab, lines
from tests.local.stage import box, until

STAMP = Path(sys.prefix) / "layers.json"


@pytest.fixture(scope="module")
def python():
    """The interpreter of the frameworks, as `make venv` built it."""
    layers = json.loads(STAMP.read_text())["layers"] if STAMP.exists() else {}
    if "frameworks" not in layers:
        pytest.skip("needs the layer of frameworks (make venv)")
    return str(Path(layers["frameworks"]) / "bin" / "python")


@pytest.fixture(scope="module")
def lab():
    with box("4") as made:
        yield made


@pytest.fixture
def at(lab, tmp_path, monkeypatch):
    return Lab(lab, tmp_path, monkeypatch)


def test_jax_finds_its_peers_without_a_word_in_the_script(at, python):
    """`jax.distributed.initialize()` with nothing in its brackets, then a sum over both processes."""
    at.write("train.py", programs.JAX)
    found = lines(at.run(python, "train.py", workers="2", gpus=1, env=("JAX_PLATFORMS=cpu",)))
    said = [json.loads(line) for line in found if line.startswith("{")]
    assert [(one["rank"], one["size"], one["sum"]) for one in said] == [(0, 2, 3), (1, 2, 3)]
    assert len({one["coordinator"] for one in said}) == 1


def test_dask_computes_and_a_killed_worker_does_not_kill_the_scheduler(at, python):
    """Eight loose workers and a scheduler that stays: a worker that is killed comes back, and work goes on."""
    at.write("client.py", programs.DASK_CLIENT)
    at.write("cluster.toml", programs.DASK_CLUSTER.format(python=python))
    name = at.submit("cluster.toml")

    def ranks(role):
        found = at.box.client.get(f"/v1/jobs/{name}")["ranks"]
        return {one["rank"]: one["pid"] for one in found if one["role"] == role and one["pid"] and one["code"] is None}

    until(lambda: "8 workers computed 4950" in at.box.log(name, 9), "the first sum")
    (scheduler,), workers = ranks("scheduler").items(), ranks("worker")
    rank, pid = next(iter(workers.items()))
    os.kill(pid, signal.SIGKILL)
    until(lambda: ranks("worker").get(rank) not in {None, pid}, "another worker in its place")
    (at.folder / "killed").touch()
    assert at.wait(name) == 0
    assert "again 8 workers computed 4950" in at.box.log(name, 9)
    story = [event["text"] for event in at.box.client.get(f"/v1/jobs/{name}/story")["events"]]
    assert f"worker {rank - 1} was killed by SIGKILL; it is started again and the others go on" in story
    assert not any("begins again" in text for text in story), scheduler
