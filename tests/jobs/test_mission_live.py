"""Ranks, addresses and cores on one box: stable ranks, no port twice, each rank on what it was granted."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.jobs import programs
from tests.jobs.lab import Lab, lines
from tests.local.stage import box, until

GANGS = 50


@pytest.fixture(scope="module")
def wide():
    """Two racks of two nodes, with room for a hundred ranks."""
    with box("2x2x25") as made:
        yield made


@pytest.fixture
def at(wide, tmp_path, monkeypatch):
    return Lab(wide, tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def slots():
    """This machine's own cores, as slots."""
    with box("") as made:
        yield made


@pytest.fixture
def cores(slots, tmp_path, monkeypatch):
    if slots.client.get("/v1/status")["source"] != "cpu":
        pytest.skip("this machine has cards, and cores are not what is given out")
    return Lab(slots, tmp_path, monkeypatch)


def test_a_rank_keeps_its_number_and_its_neighbours_when_it_is_started_again(at, monkeypatch):
    """Tensor groups of eight on one node each; one rank is killed and comes back where it was."""
    at.write(
        "rank.py", "import os, time\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], flush=True)\ntime.sleep(600)"
    )
    name = at.submit(sys.executable, "rank.py", workers="16", group="8@node", on_loss="repair", name="ranked")

    def seats():
        ranks = at.box.client.get(f"/v1/jobs/{name}")["ranks"]
        return {one["rank"]: (one["node"], one["pid"]) for one in ranks if one["pid"] and one["code"] is None}

    before = until(lambda: (found := seats()) and len(found) == 16 and found, "sixteen ranks")
    assert [len({before[rank][0] for rank in group}) for group in (range(8), range(8, 16))] == [1, 1]
    until(lambda: "\n" in at.box.log(name, 5), "what rank 5 says")
    os.kill(before[5][1], signal.SIGKILL)
    after = until(
        lambda: (found := seats()) and found.get(5, ("", before[5][1]))[1] != before[5][1] and found, "rank 5"
    )
    assert {rank: node for rank, (node, _) in after.items()} == {rank: node for rank, (node, _) in before.items()}
    assert [rank for rank in after if after[rank][1] != before[rank][1]] == [5]
    until(lambda: at.box.log(name, 5).split() == ["5", "16"] * 2, "rank 5 with the same number and count")
    command = [sys.executable, "-m", "tutti", "show", name, "--ranks"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(shown) == 17
    assert shown[6].split()[:4] == ["5", "worker", after[5][0], "5"]
    at.box.client.post(f"/v1/jobs/{name}/cancel", {})
    at.box.becomes(name, "cancelled")


def test_fifty_gangs_of_two_start_together_and_no_address_is_taken_twice(at):
    """Each first rank listens where it was told and each second one finds it; a bind that fails ends the job."""
    at.write("pair.py", programs.PAIR)
    python = [sys.executable, "-I", "-S"]
    names = [at.submit(*python, "pair.py", workers="2", name=f"pair{number}") for number in range(GANGS)]
    assert [at.wait(name) for name in names] == [0] * GANGS
    met = [line for name in names for line in at.box.log(name, 0).splitlines()]
    assert len(met) == GANGS
    assert all(line.startswith("met 1 of 2 at 127.0.0.1:") for line in met)


def test_every_rank_is_bound_to_the_core_it_was_granted(cores):
    count = len(os.sched_getaffinity(0))
    name = cores.submit("sh", "-c", "taskset -pc $$; sleep 600", workers=str(count), name="bound")
    until(lambda: all("\n" in cores.box.log(name, rank) for rank in range(count)), "what every rank says")
    ranks = cores.box.client.get(f"/v1/jobs/{name}")["ranks"]
    masks = [re.findall(r"\d+", cores.box.log(name, rank).split(":")[-1]) for rank in range(count)]
    assert masks == [[str(device) for device in one["devices"]] for one in ranks]
    assert sorted(int(mask[0]) for mask in masks) == sorted(os.sched_getaffinity(0))
    cores.box.client.post(f"/v1/jobs/{name}/cancel", {})
    cores.box.becomes(name, "cancelled")


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpirun.mpich"])
def test_ranks_of_mpi_and_threads_of_openmp_stay_on_what_was_granted(cores, mpirun):
    """One slot is asked for: all eight ranks are on its core, and OpenMP is told to use one thread."""
    if shutil.which(mpirun) is None:
        pytest.skip(f"needs {mpirun}")
    root = ["--allow-run-as-root"] if mpirun.endswith("openmpi") else []
    say = 'echo "$OMP_NUM_THREADS thread on $(taskset -pc $$)"'
    logs = cores.run(mpirun, *root, "-np", "8", "sh", "-c", say, gpus=1, cpus="1", name="hello")
    (device,) = {re.sub(r"pid \d+", "pid", line) for line in lines(logs)}
    assert re.fullmatch(r"1 thread on pid's current affinity list: \d+", device)
    assert len(lines(logs)) == 8
