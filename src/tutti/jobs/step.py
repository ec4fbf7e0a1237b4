"""Tasks of `srun`: how many, what each is told, and which devices it sees. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tutti.engine.model import Data
from tutti.errors import Misused

from .batch import slurm
from .batch_variables import named
from .draft import Draft
from .files import NoFiles
from .flags import Flag, Given, given
from .problems import BadJob, Misread
from .readers import srun
from .shell import Word

HEEDED_INSIDE = frozenset(
    [
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "gpus-per-task",
        "chdir",
        "label",
        "kill-on-bad-exit",
        "unbuffered",
        "quiet",
        "verbose",
    ]
)
NOT_INSIDE = {
    "output": "tasks write to the job's own output",
    "error": "tasks write to the job's own output",
    "mpi": "srun starts no MPI here; let mpirun start the ranks",
    "cpus-per-task": "tasks share the cores of the job",
    "mem": "tasks share the memory of the job",
    "gpus": "say --gpus-per-task to share devices out",
    "gres": "say --gpus-per-task to share devices out",
    "exclusive": "steps of a job share what it has",
    "exact": "steps of a job share what it has",
    "overlap": "steps of a job always may overlap",
    "time": "the time limit of the job holds",
    "job-name": "a step has no name",
}


class Plan(Data, frozen=True):
    """A step of a job: so many tasks on so many nodes, all of which are this machine."""

    command: tuple[str, ...]
    tasks: int
    nodes: int
    devices: tuple[str, ...]
    """Devices of the job, as the first task would see them all."""
    per_task: int
    """Devices of each task; 0 shows them all to every task."""
    cwd: str = ""
    label: bool = False
    kill_on_bad_exit: bool = False
    names: tuple[str, ...] = ()
    """What the nodes of the job are called, where there are several."""
    ignored: tuple[str, ...] = ()
    """Options that change nothing, each with the reason."""

    def variables(self, task: int) -> dict[str, str]:
        """What one task is told."""
        on_node = -(-self.tasks // self.nodes)
        found = {
            "SLURM_PROCID": task,
            "SLURM_LOCALID": task % on_node,
            "SLURM_NODEID": task // on_node,
            "SLURM_NTASKS": self.tasks,
            "SLURM_NPROCS": self.tasks,
            "SLURM_STEP_NUM_TASKS": self.tasks,
            "SLURM_STEP_NUM_NODES": self.nodes,
            "RANK": task,
            "WORLD_SIZE": self.tasks,
            "LOCAL_RANK": task % on_node,
            "LOCAL_WORLD_SIZE": on_node,
        }
        told = {name: str(value) for name, value in found.items()}
        if task // on_node < len(self.names):
            told["SLURMD_NODENAME"] = self.names[task // on_node]
        mine = self._devices(task)
        return told | ({} if mine is None else {"CUDA_VISIBLE_DEVICES": ",".join(mine)})

    def _devices(self, task: int) -> tuple[str, ...] | None:
        """A share for each task, or a node's share for the tasks of a node."""
        if not self.devices:
            return None
        if self.per_task:
            return self.devices[task * self.per_task : (task + 1) * self.per_task]
        on_node = -(-len(self.devices) // self.nodes)
        node = task // -(-self.tasks // self.nodes)
        return self.devices[node * on_node : (node + 1) * on_node]


def inside(words: Sequence[str], env: Mapping[str, str]) -> Plan:
    """A step inside a job: what is left out comes from the job."""
    found = _options(words)
    flags = found.flags
    nodes = _number(flags.get("nodes")) or _whole(env, "SLURM_NNODES")
    per_node = _number(flags.get("ntasks-per-node"))
    tasks = _number(flags.get("ntasks")) or (nodes * per_node if per_node else _whole(env, "SLURM_NTASKS"))
    nodes = min(nodes, tasks)
    devices = tuple(filter(None, env.get("TUTTI_DEVICES_GIVEN", env.get("CUDA_VISIBLE_DEVICES", "")).split(",")))
    return Plan(
        command=tuple(word.text for word in found.rest),
        tasks=tasks,
        nodes=nodes,
        devices=devices,
        per_task=_number(flags.get("gpus-per-task")) or 0,
        cwd=flags["chdir"].text if "chdir" in flags else "",
        label="label" in flags,
        kill_on_bad_exit="kill-on-bad-exit" in flags,
        names=named(env.get("SLURM_JOB_NODELIST", "")),
        ignored=tuple(_ignored(found)),
    )


def _ignored(found: Given) -> Iterator[str]:
    """What a step does not heed."""
    for name, flag in found.flags.items():
        if name not in HEEDED_INSIDE:
            why = NOT_INSIDE.get(name) or slurm.NOT_HERE.get(name, "it changes nothing here")
            yield f"ignored {flag.spelling} {flag.text}".strip() + f": {why}"


def outside(words: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """Options of a job, its command, and what was ignored, for a line of srun that is no part of a script."""
    found = _options(words)
    if not found.rest:
        raise Misused("srun: no command is named", hint="tutti srun -n 4 ./program")
    draft = Draft(NoFiles())
    rest = srun.read(tuple(Word(word) for word in words), draft)
    if draft.problems:
        raise BadJob(draft.problems, "srun")
    said = {
        field: tuple(value) if isinstance(value, list) else value
        for field, value in draft.said.items()
        if field not in {"framework", "arrange"}
    }
    if draft.output is not None:
        draft.ignore(draft.output.says, "it is followed here, and kept; see `tutti logs`")
    if "arrange" in draft.said:
        draft.ignore("--spread-job", "say `arrange` in a job file")
    lines = tuple(f"ignored {entry.text}: {entry.why}" for entry in draft.ignored)
    return said | {"framework": "slurm"}, tuple(word.text for word in rest), lines


def _options(words: Sequence[str]) -> Given:
    table = slurm.TABLE._replace(program="srun", strict=True)
    takes = {**table.takes, "kill-on-bad-exit": 0, "label": 0, "unbuffered": 0}
    try:
        return given([Word(word) for word in words], table._replace(takes=takes))
    except Misread as wrong:
        raise Misused(wrong.what, hint=wrong.hint or None) from None


def _number(flag: Flag | None) -> int:
    if flag is None:
        return 0
    text = flag.text.split("-")[0].rpartition(":")[2]
    if not text.isdigit() or not int(text):
        raise Misused(f"srun: {flag.spelling}: {flag.text!r} is no number", hint="write a whole number from 1")
    return int(text)


def _whole(env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "1")
    return max(int(text), 1) if text.isdigit() and len(text) < 9 else 1
