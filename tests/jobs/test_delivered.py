"""Jobs as people have them, run for real on one box: each rank finds its number, the count and the address."""

import shutil
import sys

import msgspec
import pytest

from tests.jobs import programs
from tests.jobs.lab import Lab, lines
from tests.local.stage import box
from tutti.cli.submission import submission
from tutti.engine.model import Gang
from tutti.errors import Misused, Refused
from tutti.jobs.understand import understand

DEVICES = 16


@pytest.fixture(scope="module")
def lab():
    """One daemon for all of them."""
    with box(str(DEVICES)) as made:
        yield made


@pytest.fixture
def at(lab, tmp_path, monkeypatch):
    return Lab(lab, tmp_path, monkeypatch)


def has(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}")


def test_torchrun_on_two_members(at):
    pytest.importorskip("torch")
    at.write("train.py", programs.TORCH)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    found = lines(at.run(*torchrun, "train.py", env=("OMP_NUM_THREADS=1",), gpus=1))
    assert [line.split()[:2] for line in found if line[:1].isdigit()] == [["0", "2"], ["1", "2"]]


@has("mpirun.openmpi")
def test_open_mpi(at):
    say = "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"
    logs = at.run("mpirun.openmpi", "--allow-run-as-root", "-np", "4", "sh", "-c", say)
    assert lines(logs) == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]


@has("mpirun.openmpi")
def test_settings_of_open_mpi_in_the_environment_are_kept(at, monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "77")
    logs = at.run("mpirun.openmpi", "-np", "2", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK")
    assert lines(logs) == ["0", "1"]


@has("mpirun.mpich")
def test_mpich(at):
    logs = at.run("mpirun.mpich", "-n", "4", "sh", "-c", "echo $PMI_RANK of $PMI_SIZE")
    assert lines(logs) == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]


@has("mpirun.openmpi")
def test_open_mpi_inside_a_slurm_script(at):
    say = "sh -c 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'"
    at.write("mpi.sbatch", f"#!/bin/bash\n#SBATCH -n 4\nmpirun.openmpi --allow-run-as-root -np $SLURM_NTASKS {say}\n")
    assert lines(at.run("mpi.sbatch")) == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]


def test_tf_config_names_every_role(at):
    at.write("tf.py", programs.TF_CONFIG)
    config = '{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}, "task": {}}'
    found = lines(at.run("env", f"TF_CONFIG={config}", sys.executable, "tf.py"))
    assert [line.split(" {")[0] for line in found] == ["chief 0", "ps 0", "worker 0", "worker 1"]
    assert all('{"chief": 1, "ps": 1, "worker": 2}' in line for line in found)
    assert len({line.split()[-1] for line in found}) == 4


def test_a_launcher_with_a_hostfile_runs_once_on_each_host(at):
    at.write("deepspeed", programs.DEEPSPEED.format(python=sys.executable), 0o755)
    at.write("hostfile", "a slots=2\nb slots=2\n")
    at.write("train.py", programs.RANK)
    found = lines(at.run("./deepspeed", "--no_ssh", "--hostfile", "hostfile", "train.py"))
    assert [line.split()[:3] for line in found] == [["0", "4", "0"], ["1", "4", "1"], ["2", "4", "0"], ["3", "4", "1"]]
    assert all(len(line.split()[3].split(",")) == 2 for line in found)


def test_a_head_and_loose_workers_find_each_other(at):
    at.write("head.py", programs.HEAD)
    at.write("worker.py", programs.WORKER)
    at.write(
        "cluster.toml",
        f'framework = "dask"\n[roles.scheduler]\ngpus = 0\ncpus = 1\ncommand = ["{sys.executable}", "head.py"]\n'
        f'[roles.worker]\nworkers = 3\ncoupling = "loose"\ncommand = ["{sys.executable}", "worker.py"]\n',
    )
    assert "worker-0 worker-1 worker-2" in lines(at.run("cluster.toml"))


def test_a_slurm_script_with_steps(at):
    at.write(
        "job.sbatch",
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-node=2\n"
        "echo $SLURM_NNODES nodes, $SLURM_NTASKS tasks, $SLURM_SUBMIT_DIR\n"
        "srun sh -c 'echo $SLURM_PROCID on $SLURM_NODEID sees $CUDA_VISIBLE_DEVICES'\n",
    )
    found = lines(at.run("job.sbatch"))
    assert f"2 nodes, 4 tasks, {at.folder}" in found
    tasks = sorted(line for line in found if " on " in line)
    assert [line.split(" sees ")[0] for line in tasks] == ["0 on 0", "1 on 0", "2 on 1", "3 on 1"]
    assert len({line.split(" sees ")[1] for line in tasks}) == 2


def test_a_slurm_array(at):
    at.write(
        "array.sbatch", "#!/bin/bash\n#SBATCH -a 2-6:2 -G 1\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\n"
    )
    assert at.tasks("array.sbatch") == ["2 of 3", "4 of 3", "6 of 3"]


def test_a_pbs_script(at):
    at.write(
        "job.pbs",
        "#!/bin/bash\n#PBS -N probe\n#PBS -l select=2:ncpus=2:ngpus=1:mpiprocs=2\n#PBS -l walltime=00:05:00\n"
        "cd $PBS_O_WORKDIR\n"
        "echo $PBS_JOBNAME $PBS_ENVIRONMENT $(wc -l < $PBS_NODEFILE) ${SLURM_JOB_ID:-alone} $PWD\n"
        "echo $PBS_NUM_NODES $PBS_NP $NCPUS\n",
    )
    assert lines(at.run("job.pbs")) == ["2 4 2", f"probe PBS_BATCH 4 alone {at.folder}"]


def test_an_lsf_script(at):
    at.write(
        "job.bsub", '#!/bin/bash\n#BSUB -J "probe[5-6]"\n#BSUB -W 5\n#BSUB -n 1\necho $LSB_JOBNAME $LSB_JOBINDEX\n'
    )
    assert at.tasks("job.bsub") == ["probe[5] 5", "probe[6] 6"]
    slots = "echo $LSB_DJOB_NUMPROC $(echo $LSB_HOSTS | wc -w) ${LSB_MCPU_HOSTS##* }\n"
    at.write("slots.bsub", f"#!/bin/bash\n#BSUB -n 4\n#BSUB -R span[ptile=2]\n{slots}")
    assert lines(at.run("slots.bsub")) == ["4 4 4"]


def test_a_flux_script(at):
    at.write("job.flux", "#!/bin/bash\n# flux: -N2 -n4\necho $FLUX_JOB_NNODES $FLUX_JOB_SIZE ${SLURM_NNODES:-alone}\n")
    assert lines(at.run("job.flux")) == ["2 4 alone"]


def test_parts_of_a_heterogeneous_job_and_nodes_of_a_task_are_given_together(at):
    say = "echo $SLURM_NNODES $SLURM_HET_SIZE $(echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w)\n"
    parts = "#SBATCH -N1 --gres=gpu:1\n#SBATCH hetjob\n#SBATCH -N2 --gres=gpu:2\n"
    at.write("het.sbatch", f"#!/bin/bash\n{parts}{say}")
    at.write("array.sbatch", f"#!/bin/bash\n#SBATCH --array=1-2 -N2 --gres=gpu:2\n{say}")
    assert lines(at.run("het.sbatch")) == ["3 2 5"]
    assert at.tasks("array.sbatch") == ["2 4", "2 4"]


@pytest.mark.parametrize(
    ("name", "header", "files"),
    [
        (
            "a.sbatch",
            "#SBATCH -J night -o out-%x-%04j -e %x.err",
            {"out-night-{id}": "out", "night.err": "err"},
        ),
        ("b.sbatch", "#SBATCH -J night --output=all-%j", {"all-{id}": "out\nerr"}),
        ("c.pbs", "#PBS -N night\n#PBS -o here.out -j oe", {"here.out": "out\nerr"}),
        ("d.bsub", "#BSUB -J night\n#BSUB -oo lsf.%J", {"lsf.{id}": "out\nerr"}),
    ],
    ids=lambda value: value if isinstance(value, str) and "#" not in value else "",
)
def test_output_goes_where_the_script_wants_it(at, name, header, files):
    at.write(name, f"#!/bin/bash\n{header}\necho out\necho err >&2\n")
    log = at.run(name)[0]
    row = next(row for row in at.box.client.get("/v1/jobs", which="all")["jobs"] if row["name"].startswith("night"))
    found = {file.format(id=row["id"]): text for file, text in files.items()}
    assert {file: (at.folder / file).read_text().strip() for file in found} == found
    assert log == f"output: {' '.join(found)}\n"


def test_threads_follow_the_cores(at):
    assert lines(at.run("sh", "-c", "echo $OMP_NUM_THREADS", cpus="3")) == ["3"]


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pair, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - name: m
            command: [sh, -c]
            args: ["echo master $RANK of $WORLD_SIZE"]
            resources: {limits: {nvidia.com/gpu: 1}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: w, command: [sh, -c, "echo worker $RANK of $WORLD_SIZE"], resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_a_manifest_runs_as_processes_when_asked(at):
    at.write("job.yaml", MANIFEST)
    found = lines(at.run("job.yaml", as_processes=True))
    assert found == ["master 0 of 3", "worker 1 of 3", "worker 2 of 3"]


def test_a_manifest_is_refused_otherwise_and_can_be_planned(at):
    at.write("job.yaml", MANIFEST)
    with pytest.raises(Refused, match="needs containers"):
        submission({}, ("job.yaml",))
    answer = at.box.client.post("/v1/plan", submission({}, ("job.yaml",), only_look=True))
    assert (answer["fits"], answer["job"]) == (True, "ml/pair")


def test_every_gang_of_a_manifest_is_planned_and_nothing_of_it_is_lost(at):
    near = MANIFEST.replace(
        "spec:\n  pytorch", "spec:\n  runPolicy: {schedulingPolicy: {queue: nowhere}}\n  pytorch", 1
    )
    at.write("job.yaml", f"{MANIFEST}---{near.replace('pair', 'other')}")
    sent = submission({}, ("job.yaml",), only_look=True)
    every = understand(("job.yaml",))
    assert msgspec.convert(sent["gangs"], list[Gang]) == [every.gang, every.others[0].gang]
    answer = at.box.client.post("/v1/plan", sent)
    assert (answer["fits"], answer["job"]) == (False, "ml/pair, ml/other")
    assert any("QueueClosed" in line and "nowhere" in line for line in answer["lines"])
    sent["gangs"][0]["within"] = "continent"
    answer = at.box.client.post("/v1/plan", sent)
    assert (answer["fits"], "no topology level is called 'continent'" in answer["lines"][0]) == (False, True)
    with pytest.raises(Refused, match="2 gangs"):
        submission({"as_processes": True}, ("job.yaml",))


def test_options_after_a_file_are_a_mistake(at):
    at.write("job.toml", 'command = "true"\n')
    with pytest.raises(Misused, match="words after the file"):
        submission({}, ("job.toml", "--name", "x"))


def test_what_has_to_be_asked_is_not_submitted(at):
    with pytest.raises(Misused, match="say how many with --gpus"):
        submission({}, ("torchrun", "--nproc-per-node", "gpu", "train.py"))


def test_variables_in_front_of_a_line_are_set(at):
    assert lines(at.run("MODE=fast", "sh", "-c", "echo $MODE")) == ["fast"]


def test_plain_commands_say_nothing_more(at, capsys):
    at.run("env", "A=b", "true")
    at.run("true")
    assert capsys.readouterr().err == ""
