"""What a person says of a job becomes a gang, or everything that is wrong with it."""

import json
import subprocess
import sys
from datetime import datetime

import pytest

from tutti.cli.main import run
from tutti.engine.model import HOUR, MINUTE, NEVER, SECOND, Coupling, Resizing, Segment, SizeRule, Source
from tutti.engine.validate import faults
from tutti.jobs.batch import moments
from tutti.jobs.file import read_job, read_job_file
from tutti.jobs.gang import array_of, notice_of, to_gang
from tutti.jobs.job import Job, Part
from tutti.jobs.options import from_words, job_from
from tutti.jobs.problems import BadJob, Misread
from tutti.jobs.understand import understand

FULL = """
name = "llama"
command = ["python", "train.py"]
workers = "2:8"
want = 4
gpus = 4
cpus = 8
mem = "64GiB"
time = "2h30m"
priority = 3
deadline = "6h"
queue = "research"
after = ["prep", "any:clean"]
on_loss = "repair"
size_rule = "multiple:2"
group = "2@nvlink"
env = { OMP_NUM_THREADS = 4, MODE = "fast" }
signal = "USR1@120s"
"""


def test_a_full_job_file_is_a_gang():
    job = read_job(FULL)
    gang = to_gang(job, now=HOUR, user="ada")
    role = gang.roles[0]
    assert (role.min, role.want, role.max) == (2, 4, 8)
    assert role.shapes[0].ask == {"gpu": 4, "cpu": 8000, "memory": 64 << 30}
    assert role.rule == SizeRule(multiple=2)
    assert role.segment == Segment("nvlink", 2)
    assert gang.deadline == 7 * HOUR
    assert gang.estimate.limit == 150 * MINUTE
    assert gang.estimate.source is Source.DECLARED
    assert gang.after == ("prep", "any:clean")
    assert job.env == {"OMP_NUM_THREADS": "4", "MODE": "fast"}
    assert notice_of(job) == ("USR1", 120 * SECOND)
    assert faults(gang) == ()


def test_the_least_a_person_can_say():
    gang = to_gang(Job(command=("true",)))
    assert gang.roles[0].shapes[0].ask == {"gpu": 1}
    assert gang.estimate.source is Source.NONE
    assert gang.deadline == NEVER
    assert faults(gang) == ()


def test_a_job_is_rigid_until_it_says_otherwise():
    assert to_gang(Job(workers="2:8")).resizing is Resizing.NONE
    assert to_gang(Job(workers="2:8", resize=Resizing.LIVE)).resizing is Resizing.LIVE
    assert to_gang(Job(workers=4, resize=Resizing.LIVE)).resizing is Resizing.NONE


def test_an_array_is_loose_and_may_be_limited():
    job = Job(command=("true",), array="0-99%10")
    role = to_gang(job).roles[0]
    assert role.coupling is Coupling.LOOSE
    assert (role.min, role.max) == (1, 100)
    assert role.caps[0].members == 10
    tasks = array_of(job)
    assert tasks is not None
    assert tasks.indices == tuple(range(100))
    assert faults(to_gang(job)) == ()


def test_parameter_servers_are_rigid_and_their_workers_loose():
    roles = {"ps": Part(workers=2, gpus=0), "worker": Part(workers=8, coupling=Coupling.LOOSE)}
    ps, worker = to_gang(Job(roles=roles)).roles
    assert (ps.min, ps.coupling, ps.shapes[0].ask) == (2, Coupling.GANG, {"cpu": 1000})
    assert (worker.min, worker.want, worker.coupling) == (1, 8, Coupling.LOOSE)


def test_yaml_and_toml_say_the_same():
    assert read_job("workers: 4\ngpus: 2\ncommand: [python, train.py]\n", "job.yaml") == read_job(
        'workers = 4\ngpus = 2\ncommand = ["python", "train.py"]\n', "job.toml"
    )


def test_everything_wrong_is_said_at_once_with_its_line():
    with pytest.raises(BadJob) as caught:
        read_job("nmae = 'x'\nworkers = 4\n\n[roles.ps]\ngpu = 1\n", "job.toml")
    lines = str(caught.value)
    assert "job.toml:1: unknown key 'nmae'; did you mean 'name'?" in lines
    assert "job.toml:5: unknown key 'roles.ps.gpu'; did you mean 'gpus'?" in lines
    assert caught.value.exit_code == 2


def test_wrong_values_have_their_line_too():
    with pytest.raises(BadJob) as caught:
        read_job("workers = '8:2'\ntime = 'soon'\nmem = '80X'\non_loss = 'cry'\n")
    assert "job.toml:4: on_loss" in str(caught.value)
    with pytest.raises(BadJob) as caught:
        read_job("workers = '8:2'\ntime = 'soon'\nmem = '80X'\n")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3]
    assert "write 2:8" in str(caught.value)


def test_directives_in_a_script(tmp_path):
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/bash\n#tutti: gpus = 4\n#tutti: time = 2h\n#tutti: --workers 2:4 --env A=b\npython train.py\n"
    )
    job = read_job_file(script)
    assert (job.gpus, job.time, job.workers, job.env) == (4, "2h", "2:4", {"A": "b"})
    assert job.command == (str(script),)


def test_a_directive_that_is_wrong_names_its_line(tmp_path):
    with pytest.raises(BadJob, match=r"run.sh:2: .*--gpsu"):
        read_job("#!/bin/sh\n#tutti: --gpsu 4\n", "run.sh")
    with pytest.raises(BadJob, match=r"run.sh:1: it is neither"):
        read_job("#tutti: please run fast\n", "run.sh")


def test_options_make_a_job():
    job = job_from(
        {"workers": "4", "gpus": 2, "env": ("A=1",), "spread": True, "name": None, "after": ()}, ("python", "t.py")
    )
    assert (job.workers, job.gpus, job.env, job.arrange, job.command) == (
        "4",
        2,
        {"A": "1"},
        "spread",
        ("python", "t.py"),
    )
    with pytest.raises(BadJob, match="--env"):
        job_from({"env": ("oops",)})
    assert from_words("--hold --no-preempt") == {"held": True, "preemptible": False}


def test_options_win_over_the_file():
    base = read_job(FULL)
    job = job_from({"gpus": 1}, base=base)
    assert (job.gpus, job.workers) == (1, "2:8")


def test_the_client_does_not_need_numpy():
    code = "import sys, tutti.jobs.file, tutti.jobs.options; sys.exit('numpy' in sys.modules or 'yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_program_is_a_command_and_a_broken_file_is_not(tmp_path):
    program = tmp_path / "hello"
    program.write_bytes(b"\x7fELF\x02\xff\xfe")
    with pytest.raises(BadJob, match="it is not text"):
        understand(["hello"], folder=tmp_path)
    program.chmod(0o755)
    assert understand(["hello"], folder=tmp_path).what == "a command"


def test_lines_of_another_system_are_read_too(tmp_path):
    script = tmp_path / "dos.sbatch"
    script.write_bytes(b"#!/bin/bash\r\n#SBATCH --nodes=2\r\n#SBATCH --gpus-per-node=4\r\nsrun python t.py\r\n")
    role = understand(["dos.sbatch"], folder=tmp_path).gang.roles[0]
    assert (role.min, role.shapes[0].ask["gpu"]) == (2, 4)


SCRIPT = "#!/bin/bash\n#SBATCH -N $NODES\ntorchrun --nnodes ${SLURM_NNODES} --nproc-per-node ${CARDS:-8} train.py\n"


@pytest.mark.parametrize(("cards", "ranks"), [(None, 8), ("4", 4)])
def test_variables_of_the_submission_are_known_and_those_of_a_job_around_it_are_not(
    cards, ranks, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_NNODES", "7")
    if cards is not None:
        monkeypatch.setenv("CARDS", cards)
    (tmp_path / "job.sbatch").write_text(SCRIPT.replace("$NODES", "2"))
    assert run(["explain-job", "-o", "json", "job.sbatch"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["gang"]["roles"][0]["max"], said["gang"]["ranks_per_member"]) == (2, ranks)


NOON = datetime(2030, 5, 1, 12, 0)  # noqa: DTZ001 - a clock on the wall
MOMENTS = {
    (moments.slurm, "now+90"): "90s",
    (moments.slurm, "now + 2 hours"): "7200s",
    (moments.slurm, "16:30"): "2030-05-01T16:30:00",
    (moments.slurm, "11:00"): "2030-05-02T11:00:00",
    (moments.slurm, "4:15pm"): "2030-05-01T16:15:00",
    (moments.slurm, "teatime"): "2030-05-01T16:00:00",
    (moments.slurm, "tomorrow"): "2030-05-02T00:00:00",
    (moments.slurm, "2031-01-20T12:34"): "2031-01-20T12:34:00",
    (moments.slurm, "01/20/31"): "2031-01-20T00:00:00",
    (moments.pbs, "1330"): "2030-05-01T13:30:00",
    (moments.pbs, "0900"): "2030-05-02T09:00:00",
    (moments.pbs, "010900"): "2030-06-01T09:00:00",
    (moments.pbs, "04010900"): "2031-04-01T09:00:00",
    (moments.pbs, "203112312359.30"): "2031-12-31T23:59:30",
    (moments.lsf, "20:00"): "2030-05-01T20:00:00",
    (moments.lsf, "3:08:00"): "2030-05-03T08:00:00",
    (moments.lsf, "2031:1:2:03:04"): "2031-01-02T03:04:00",
}


@pytest.mark.parametrize(("read", "text"), MOMENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_moments_of_batch_systems(read, text):
    assert read(text, NOON).startswith(MOMENTS[read, text])


@pytest.mark.parametrize("read", [moments.slurm, moments.pbs, moments.lsf, moments.flux])
@pytest.mark.parametrize("text", ["", "soon", "25:61", "now+3moons", "99999999", "1:2:3:4:5:6", "+x"])
def test_what_is_no_moment_is_refused(read, text):
    with pytest.raises(Misread, match=r"no moment|not a duration"):
        read(text)


def test_a_job_may_say_before_when_it_is_not_to_start():
    assert to_gang(read_job('command = "x"\nbegin = "2h"\n'), now=HOUR).begin == 3 * HOUR
    assert to_gang(read_job('command = "x"\nbegin = "1970-01-02"\n')).begin == 24 * HOUR
    with pytest.raises(BadJob, match="begin: 'later' is not a moment"):
        read_job('command = "x"\nbegin = "later"\n')


def test_a_list_of_roles_is_told_how_roles_are_written():
    with pytest.raises(BadJob, match=r"roles: expected a table, got a list; write \[roles.ps\], a table for each role"):
        read_job('command = ["true"]\n[[roles]]\nname = "ps"\nworkers = 2\n', "job.toml")
