"""Loose members beside a head that stays: one that is lost is started again alone, and the head never notices."""

import contextlib
import os
import signal
import sqlite3
import sys

import pytest

from tests.local.stage import box, until

HEAD = "import pathlib, time\nwhile not pathlib.Path('enough').exists(): time.sleep(0.02)\nprint('head done')"
WORKER = (
    "import os, pathlib, time\n"
    "me = f\"worker-{os.environ['TUTTI_ROLE_RANK']}\"\n"
    "print(me, os.environ['RANK'], flush=True)\n"
    "time.sleep(600)"
)


@pytest.fixture
def lab():
    with box("4") as made:
        yield made


def cluster(lab, worker, **job):
    """A job with one head and three loose workers, all of them running."""
    roles = {
        "head": {"command": [sys.executable, "-c", HEAD], "gpus": 0, "cpus": "1"},
        "worker": {"command": [sys.executable, "-c", worker], "gpus": 1, "workers": 3, "coupling": "loose"},
    }
    sent = {
        "job": {"name": "cluster", "roles": roles, **job},
        "context": {"cwd": str(lab.path), "env": dict(os.environ)},
    }
    lab.client.post("/v1/jobs", {"jobs": [sent]})
    lab.becomes("cluster", "running")


def workers(lab):
    """Process ids of the workers that run, by their number."""
    ranks = lab.client.get("/v1/jobs/cluster")["ranks"]
    here = [rank for rank in ranks if rank["role"] == "worker" and rank["pid"] and rank["code"] is None]
    return {rank["rank"] - 1: rank["pid"] for rank in here}


def story(lab):
    return " / ".join(entry["text"] for entry in lab.client.get("/v1/jobs/cluster/story")["events"])


def test_a_worker_that_is_killed_comes_back_alone(lab):
    cluster(lab, WORKER)
    before = until(lambda: (found := workers(lab)) and len(found) == 3 and found, "three workers")
    os.kill(before[1], signal.SIGKILL)
    after = until(
        lambda: (found := workers(lab)) and found.get(1) not in {None, before[1]} and found, "another worker 1"
    )
    assert {number: pid for number, pid in after.items() if number != 1} == {0: before[0], 2: before[2]}
    assert lab.state("cluster") == "running"
    (lab.path / "enough").touch()
    row = lab.becomes("cluster", "finished", "failed")
    assert (row["state"], lab.log("cluster")) == ("finished", "head done\n")
    assert "worker 1 was killed by SIGKILL; it is started again and the others go on" in story(lab)
    assert lab.row("cluster")["restarts"] == 0


def test_a_worker_that_fails_again_and_again_is_given_up_and_the_head_goes_on(lab):
    cluster(
        lab, "import os, sys, time\nif os.environ['TUTTI_ROLE_RANK'] == '2': sys.exit(3)\ntime.sleep(600)", retries=1
    )
    until(lambda: "given up after 2 tries" in story(lab), "a worker that is given up")
    assert lab.state("cluster") == "running"
    (lab.path / "enough").touch()
    assert lab.becomes("cluster", "finished", "failed")["code"] == 0


def test_a_head_that_is_killed_takes_its_workers_along(lab):
    cluster(lab, WORKER, retries=0)
    until(lambda: len(workers(lab)) == 3, "three workers")
    head = next(rank["pid"] for rank in lab.client.get("/v1/jobs/cluster")["ranks"] if rank["role"] == "head")
    os.kill(head, signal.SIGKILL)
    assert lab.becomes("cluster", "finished", "failed")["state"] == "failed"
    assert not workers(lab)


def test_a_worker_lost_while_no_daemon_runs_comes_back_with_the_daemon(lab):
    cluster(lab, WORKER)
    before = until(lambda: (found := workers(lab)) and len(found) == 3 and found, "three workers")
    lab.kill()
    os.kill(before[0], signal.SIGKILL)
    lab.start()
    until(lambda: workers(lab).get(0) not in {None, before[0]}, "another worker 0")
    assert {workers(lab)[1], workers(lab)[2]} == {before[1], before[2]}


def test_a_run_that_was_up_is_running_after_a_power_cut_that_took_its_latest_state(lab):
    """That the members are up reaches the disk before the job's own state does; nobody says it a second time."""
    cluster(lab, WORKER)
    until(lambda: len(workers(lab)) == 3, "three workers")
    until(lambda: rows(lab, "SELECT 1 FROM runs WHERE phase = 'up'"), "the run on the disk")
    lab.kill()
    (life,) = rows(lab, "SELECT life FROM jobs WHERE name = 'cluster'")[0]
    rows(lab, "UPDATE jobs SET life = ?, state = 'starting'", life.replace(b'"running"', b'"starting"'))
    lab.start()
    lab.becomes("cluster", "running")
    assert len(workers(lab)) == 3


def rows(lab, question, *values):
    """What the journal on the disk answers."""
    with contextlib.closing(sqlite3.connect(lab.home.journal)) as disk, disk:
        return disk.execute(question, values).fetchall()
