"""The commands that fingers know from Slurm, against a real daemon."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from tests.local.stage import box, until
from tutti.cli.main import run
from tutti.errors import TuttiError
from tutti.jobs.batch_submission import read_sbatch
from tutti.jobs.step import inside


@pytest.fixture(scope="module")
def lab():
    with box("4") as made:
        yield made


@pytest.fixture
def tutti(lab, tmp_path, monkeypatch, capsys):
    """Runs a command line and gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_HOME", str(lab.path))
    monkeypatch.delenv("TUTTI_JOB", raising=False)

    def command(*words):
        try:
            code: object = run(list(words))
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return code, out, err

    yield command
    for row in lab.client.jobs():
        with contextlib.suppress(TuttiError):
            lab.client.post(f"/v1/jobs/{row['name']}/cancel", {"grace_s": 0})
    until(lambda: not lab.client.jobs(), "the end of all jobs")


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}")
    return str(path)


def test_variables_of_export_are_set_and_nodes_and_times_look_as_in_slurm(tutti, tmp_path, lab):
    code, _, err = tutti("sbatch", "--wait", "--export=ALL,FOO=bar", "-o", "out", "--wrap", "echo $FOO")
    assert (code, err, (tmp_path / "out").read_text()) == (0, "", "bar\n")
    assert "ignored --export NONE" in tutti("sbatch", "--test-only", "--export=NONE", "--wrap", "true")[2]
    number = tutti("sbatch", "--wrap", "sleep 600")[1].split()[-1]
    until(lambda: tutti("squeue", "-h", "-j", number, "-o", "%t")[1] == "R\n", "its start")
    node = lab.client.get("/v1/nodes")["nodes"][0]["name"]
    listed, started = tutti("squeue", "-h", "-j", number, "-o", "%N %S")[1].split()
    assert (listed, len(started), started[10]) == (node, 19, "T")


def test_a_job_that_is_to_begin_later_says_so_and_starts_when_it_may(tutti, lab):
    _, out, _ = tutti("sbatch", "--begin=now+1hour", "-J", "later", "--wrap", "true")
    number = out.split()[-1]
    until(lambda: tutti("squeue", "-h", "-j", number, "-o", "%t %R")[1] == "PD (BeginTime)\n", "a reason")
    assert any("before its time" in line for line in lab.client.get("/v1/jobs/later/why")["lines"])
    lab.client.post("/v1/jobs/later/update", {"set": {"begin": 0}})
    assert lab.client.job("later").wait() == 0


def test_sbatch_says_the_number_and_squeue_lists_it(tutti, tmp_path):
    name = script(tmp_path / "a.sbatch", "#SBATCH -J night -t 5 -G 1\nexec sleep 600\n")
    code, out, _ = tutti("sbatch", name)
    number = out.split()[-1]
    assert (code, out) == (0, f"Submitted batch job {number}\n")
    until(lambda: tutti("squeue", "-h", "-j", number, "-o", "%t")[1] == "R\n", "its start")
    _, out, _ = tutti("squeue", "-j", number)
    heading, row = out.splitlines()
    assert heading.split() == ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"]
    assert row.split()[:3] == [number, "default", "night"]
    assert tutti("squeue", "-h", "-n", "night", "-o", "%i|%j|%T|%l|%D")[1] == f"{number}|night|RUNNING|5:00|1\n"
    assert tutti("scancel", number)[0] == 0
    until(lambda: not tutti("squeue", "-h")[1], "its end")
    until(lambda: tutti("squeue", "-h", "-t", "CA", "-j", number, "-o", "%T")[1] == "CANCELLED\n", "its last state")


def test_options_win_over_directives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = script(tmp_path / "b.sbatch", "#SBATCH --nodes=2 --gpus-per-node=2 --time=10\nsrun ./x\n")
    job = read_sbatch(["--nodes", "1", "-t", "20", "-J", "mine", name, "left", "right"]).job
    assert (job["gpus"], job["time"], job["name"]) == (2, 1200, "mine")
    assert list(job["command"][-3:]) == [name, "left", "right"]
    assert "SLURM_NNODES=1" in job["command"]


def test_names_may_repeat_and_wrap_needs_no_script(tutti):
    first = tutti("sbatch", "--parsable", "-J", "same", "--wrap", "exec sleep 600")[1].strip()
    second = tutti("sbatch", "--parsable", "-J", "same", "--wrap", "exec sleep 600")[1].strip()
    assert int(second) == int(first) + 1
    assert tutti("scancel", "-n", "same", "--me")[0] == 0


def test_dependencies_are_by_number(tutti, lab):
    first = tutti("sbatch", "--parsable", "--wrap", "exec sleep 600")[1].strip()
    code, _, err = tutti("sbatch", "-J", "later", "-d", f"afterok:{first}", "--wrap", "true")
    assert code == 0, err
    row = next(row for row in lab.client.jobs() if row["name"] == "later")
    until(lambda: tutti("squeue", "-h", "-n", "later", "-o", "%R")[1] == "(Dependency)\n", "the reason")
    assert row["state"] == "waiting"
    assert tutti("sbatch", "-d", "afterok:99999", "--wrap", "true")[0] == 3


def test_wait_ends_with_the_exit_code(tutti):
    assert tutti("sbatch", "--quiet", "--wait", "--wrap", "exit 7")[0] == 7


def test_what_changes_nothing_is_named(tutti):
    code, _, err = tutti("sbatch", "--account=physics", "--mail-type=END", "--wrap", "true")
    assert code == 0
    assert "--account physics" in err
    assert "--mail-type END" in err


@pytest.mark.parametrize(
    "words",
    [
        ("sbatch", "--nodse=2", "--wrap", "true"),
        ("sbatch",),
        ("sbatch", "nowhere.sbatch"),
        ("sbatch", "--time=soon", "--wrap", "true"),
        ("squeue", "--iterate", "5"),
        ("squeue", "-o", "%Z"),
        ("squeue", "-t", "SLEEPY"),
        ("squeue", "-S", "z"),
        ("squeue", "-w", "n1"),
        ("scancel",),
        ("scancel", "1_2"),
        ("sinfo", "--federation"),
    ],
    ids=" ".join,
)
def test_what_is_not_supported_is_named(tutti, words):
    code, _, err = tutti(*words)
    assert code == 2
    assert err.startswith("error: ")


def test_scancel_of_a_job_that_is_not_there(tutti):
    assert tutti("scancel", "424242")[0] == 3


def test_scancel_sends_signals(tutti, tmp_path, lab):
    script(tmp_path / "t.sh", "trap 'echo got it; exit 0' USR1\necho ready\nwhile :; do sleep 0.05; done\n")
    number = tutti("sbatch", "--parsable", "-J", "patient", "t.sh")[1].strip()
    until(lambda: lab.state("patient") == "running" and "ready" in lab.log("patient"), "its start")
    assert tutti("scancel", "-s", "USR1", number)[0] == 0
    until(lambda: lab.state("patient") == "finished", "its end")
    assert "got it" in lab.log("patient")


def test_sinfo_shows_what_is_taken(tutti, lab):
    until(lambda: tutti("sinfo", "-h", "-o", "%t")[1] == "idle\n", "the devices of earlier jobs")
    _, out, _ = tutti("sinfo")
    assert out.splitlines()[0].split() == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    assert out.splitlines()[1].split()[:5] == ["default*", "up", "infinite", "1", "idle"]
    tutti("sbatch", "--quiet", "-J", "half", "-G", "2", "--wrap", "exec sleep 600")
    until(lambda: tutti("sinfo", "-h", "-o", "%t %G")[1] == "mix gpu:4\n", "half of it taken")
    assert json.loads(tutti("sinfo", "--json")[1])["schema"] == "tutti/v1"


def test_what_is_known_and_changes_nothing_is_named(tutti):
    assert "--long" in tutti("sinfo", "--long")[2]
    assert "-r" in tutti("squeue", "-r")[2]
    assert "--hurry" in tutti("scancel", "--hurry", "-n", "nobody")[2]
    plan = inside(["--mpi=pmix", "-c", "2", "-n", "2", "./x"], {})
    assert plan.ignored == (
        "ignored --mpi pmix: srun starts no MPI here; let mpirun start the ranks",
        "ignored -c 2: tasks share the cores of the job",
    )


def test_squeue_sorts_and_sinfo_sums(tutti):
    for name in ("b", "a"):
        tutti("sbatch", "--quiet", "-J", name, "-G", "1", "--wrap", "exec sleep 600")
    assert tutti("squeue", "-h", "-S", "j", "-o", "%j")[1].split() == ["a", "b"]
    assert tutti("squeue", "-h", "-S", "-i", "-o", "%j")[1].split() == ["a", "b"]
    assert tutti("squeue", "-h", "-S", "i", "-o", "%j")[1].split() == ["b", "a"]
    until(lambda: "1/0/0/1" in tutti("sinfo", "-s")[1], "both of them on the node")


def test_srun_outside_runs_a_gang_and_follows_it(lab, tmp_path):
    command = [sys.executable, "-m", "tutti", "srun", "-n", "3", "sh", "-c", "echo task $SLURM_PROCID of $SLURM_NTASKS"]
    env = {**os.environ, "TUTTI_HOME": str(lab.path)}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(line.split("] ")[1] for line in done.stdout.splitlines()) == [f"task {n} of 3" for n in range(3)]


def test_steps_share_what_the_job_has():
    env = {"SLURM_NNODES": "2", "SLURM_NTASKS": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    plan = inside(["-l", "./x", "-n"], env)
    assert (plan.tasks, plan.nodes, plan.command, plan.label) == (4, 2, ("./x", "-n"), True)
    assert plan.variables(3)["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert plan.variables(3)["SLURM_NODEID"] == "1"
    one_each = inside(["-n", "2", "--gpus-per-task=1", "./x"], env)
    assert [one_each.variables(task)["CUDA_VISIBLE_DEVICES"] for task in range(2)] == ["0", "1"]


def test_without_a_daemon_the_lists_are_empty(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "none"))
    assert run(["squeue", "-h"]) == 0
    assert run(["sinfo", "-h"]) == 0
    assert capsys.readouterr().out == ""
