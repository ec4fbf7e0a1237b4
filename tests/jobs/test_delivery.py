"""What a member finds in its environment."""

import json
import subprocess

import pytest

from tutti.jobs.batch_variables import named, nodelist, pbs_nodefile
from tutti.jobs.delivery import BASE, DELIVERIES, delivered, variables
from tutti.jobs.output_files import OutputFiles
from tutti.jobs.place import Place
from tutti.jobs.step import inside

PLACE = Place(
    job="llama",
    job_id=42,
    rank=5,
    size=8,
    local_rank=1,
    local_size=4,
    node_rank=1,
    nodes=("n1", "n2"),
    per_node=(4, 4),
    gpus=2,
    devices=(2, 3),
    cpus=6,
    cwd="/data",
)


@pytest.mark.parametrize("framework", ["", *DELIVERIES])
def test_the_base_variables_are_always_there(framework):
    assert set(BASE) <= set(variables(PLACE, framework))


def test_base_values():
    found = variables(PLACE)
    assert found["RANK"] == "5"
    assert found["WORLD_SIZE"] == "8"
    assert found["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert found["OMP_NUM_THREADS"] == "6"


def test_slurm_tasks_know_their_nodes():
    found = variables(PLACE, manager="slurm")
    assert found["SLURM_PROCID"] == "5"
    assert found["SLURM_JOB_NODELIST"] == "n[1-2]"
    assert found["SLURM_TASKS_PER_NODE"] == "4(x2)"
    assert found["SLURMD_NODENAME"] == "n2"
    assert found["SLURM_GPUS_ON_NODE"] == "8"
    assert "SLURM_ARRAY_TASK_ID" not in found


def test_array_tasks_know_their_number():
    place = Place(job="sweep", job_id=7, index=4, indices=(0, 4, 8))
    assert variables(place, manager="slurm")["SLURM_ARRAY_TASK_ID"] == "4"
    assert variables(place, manager="slurm")["SLURM_ARRAY_TASK_STEP"] == "4"
    assert variables(place, manager="pbs")["PBS_ARRAY_INDEX"] == "4"
    assert variables(place, manager="lsf")["LSB_JOBINDEX"] == "4"


@pytest.mark.parametrize("framework", DELIVERIES)
@pytest.mark.parametrize("manager", ["pbs", "lsf", "flux"])
def test_never_the_variables_of_two_cluster_managers(framework, manager):
    prefixes = {name.split("_")[0] for name in variables(PLACE, framework, manager)}
    assert len(prefixes & {"SLURM", "SLURMD", "PBS", "LSB", "FLUX"}) == 1


def test_tf_config_names_the_cluster_and_the_task():
    addresses = (("chief", "a:1"), ("worker", "b:1"), ("worker", "b:2"), ("ps", "c:1"), ("evaluator", "c:2"))
    place = Place(job="tf", role="worker", role_rank=1, addresses=addresses)
    told = json.loads(variables(place, "tensorflow")["TF_CONFIG"])
    assert told["cluster"] == {"chief": ["a:1"], "worker": ["b:1", "b:2"], "ps": ["c:1"]}
    assert told["task"] == {"type": "worker", "index": 1}


def test_jax_finds_coordinator_count_and_number():
    found = variables(PLACE, "jax")
    assert found["JAX_COORDINATOR_ADDRESS"] == "127.0.0.1:29500"
    assert found["SLURM_NTASKS"] == "8"
    assert found["SLURM_PROCID"] == "5"


def test_lists_of_nodes_are_short():
    assert nodelist(("n1", "n2", "n3", "n7")) == "n[1-3,7]"
    assert nodelist(("gpu01", "gpu02", "login")) == "gpu[01-02],login"
    assert nodelist(("localhost",)) == "localhost"
    assert nodelist(("n0", "n1", "n2")) == "n[0-2]"
    assert pbs_nodefile(PLACE) == "n1\n" * 4 + "n2\n" * 4


@pytest.mark.parametrize(
    "nodes", [(), ("box",), ("n0", "n1", "n2"), ("x9", "x10", "x11", "login"), ("gpu-1-3", "gpu-1-4"), ("a01", "a02")]
)
def test_a_list_of_machines_is_read_as_it_was_written(nodes):
    assert named(nodelist(nodes)) == nodes


def test_each_task_of_a_step_is_told_its_own_node():
    plan = inside(["-n", "4", "./x"], {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[0-1]"})
    assert [plan.variables(task)["SLURMD_NODENAME"] for task in range(4)] == ["n0", "n0", "n1", "n1"]
    alone = inside(["-n", "2", "./x"], {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "box"})
    assert "SLURMD_NODENAME" not in alone.variables(1)


def test_what_would_be_delivered_can_be_listed():
    assert "PET_NNODES" in delivered("torchrun")
    assert "SLURM_ARRAY_TASK_ID" in delivered("", "slurm", is_array=True)


@pytest.mark.parametrize(
    ("manager", "written", "name"),
    [
        ("slurm", "it's $HOME `x` %x %% %5j.out", "it's $HOME `x` night % 7.out"),
        ("slurm", '"%A_%a"', '"7_0"'),
        ("pbs", "host:./", "./night.o7"),
        ("pbs", "out.^array_index^", "out.0"),
        ("lsf", "a;b %J %I", "a;b 7 0"),
    ],
)
def test_names_of_output_files_are_put_together_by_the_shell_and_mean_nothing_else(manager, written, name, tmp_path):
    env = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "night",
        "PBS_JOBNAME": "night",
        "PBS_JOBID": "7.box",
        "LSB_JOBID": "7",
    }
    command = OutputFiles(manager, written).wrapped(("/bin/echo", "a b", "$X"))
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (tmp_path / name).read_text() == "a b $X\n"
    assert done.stdout == f"output: {name}\n"
