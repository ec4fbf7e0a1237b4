"""A job somebody has, made ready for this machine: what was understood, as a job that the local runtime can run."""

import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tutti.engine.model import Data, Gang
from tutti.errors import Misused, Refused

from .amounts import cpu, memory, workers
from .convert.job_file import job_file
from .delivery import DELIVERIES
from .explain import role_row
from .file import from_data
from .finish import bounds
from .job import Job
from .recognise import is_batch_script
from .surroundings import known_variables
from .understand import understand
from .understood import Understood

MOST_COPIES = 1000
ON_ONE_HOST = {"mpi", "horovod", "spark"}
"""Launchers that reach other hosts by themselves: on one machine they are started once, with everything."""


HIDES = ("TF_CONFIG=", "CUDA_VISIBLE_DEVICES=")
NODEFILE = (
    "PBS_NODEFILE=$(mktemp) || exit 1; export PBS_NODEFILE; n=0; "
    'while [ "$n" -lt "$0" ]; do uname -n; n=$((n + 1)); done > "$PBS_NODEFILE"; '
    '"$@"; code=$?; rm -f "$PBS_NODEFILE"; exit $code'
)
"""PBS lists the hosts of a job in a file, a line for each slot."""
HOSTS = (
    'h=$(uname -n); LSB_HOSTS=$h; n=1; while [ "$n" -lt "$0" ]; do LSB_HOSTS="$LSB_HOSTS $h"; n=$((n + 1)); done; '
    'LSB_MCPU_HOSTS="$h $0"; export LSB_HOSTS LSB_MCPU_HOSTS; exec "$@"'
)
"""LSF lists them in variables."""
LISTED = {"pbs": NODEFILE, "lsf": HOSTS}


class Brought(Data, frozen=True):
    """The job, and in a few lines what was understood of what was given."""

    job: Job
    lines: tuple[str, ...] = ()
    gangs: tuple[Gang, ...] = ()
    """Of a manifest that one only looks at: a job file could not say them whole."""


def bring(words: Sequence[str], options: Mapping[str, Any], only_look: bool = False) -> Brought:
    """What a launch line, a batch script or a manifest means here. Raises Misused with what only its author can say.

    A manifest is refused, unless it is to be run as processes, or one only looks whether it would fit.
    """
    options = dict(options)
    as_processes = options.pop("as_processes", False)
    first, rest = _script(words)
    found = understand(first, options, None, known_variables(os.environ))
    if not found.job.command and "roles" in found.sources and (as_processes or only_look) and not found.manager:
        every = (found, *found.others)
        lines = tuple(line for one in every for line in summary(one))
        if not as_processes:
            return Brought(Job(name=found.job.name), lines, tuple(gang for one in every for gang in _copies(one)))
        if found.others:
            names = ", ".join(one.gang.name for one in every)
            raise Refused(f"there are {len(every)} gangs in it ({names}); one is run at a time", hint="a file for each")
        return Brought(_as_processes(found, only_look), lines)
    return Brought(_into_files(ready(found, rest), found), summary(found))


def _copies(found: Understood) -> list[Gang]:
    """Each of the gangs alike that a manifest makes."""
    if found.copies <= 1:
        return [found.gang] * found.copies
    return [replace(found.gang, name=f"{found.gang.name}-{number}") for number in range(min(found.copies, MOST_COPIES))]


def _into_files(job: Job, found: Understood) -> Job:
    """With its output where the script wants it."""
    return replace(job, command=found.output.wrapped(_words(job))) if found.output is not None else job


def ready(found: Understood, arguments: Sequence[str] = ()) -> Job:
    """The job of what was understood, as it runs on one machine."""
    if found.asks:
        raise Misused("\n  ".join(["something has to be said first", *found.asks]))
    job = found.job
    if found.what != "a job file" and not job.command and not any(part.command for part in job.roles.values()):
        hint = "--as-processes runs the commands of its containers; tutti explain-job shows what was understood"
        raise Refused(f"{found.what} needs containers, which one machine does not start", hint=hint)
    if arguments and not isinstance(job.command, str):
        job = replace(job, command=(*job.command, *arguments))
    if found.sources.get("name", "").startswith("default"):
        # A name that nobody gave is made up when the job is taken in, so that a script can be submitted twice.
        job = replace(job, name="")
    job = _runnable(_unsaid(job))
    if found.manager:
        return _batch(found, job)
    if _starts_once(found, job):
        return _whole(job)
    return job


def _starts_once(found: Understood, job: Job) -> bool:
    """Whether the line itself reaches all its nodes; deepspeed does, unless it is told to stay where it is."""
    stays = {"--no_ssh", "--no-ssh"} & set(_words(job))
    return not job.roles and (found.launcher in ON_ONE_HOST or (found.launcher == "deepspeed" and not stays))


def _as_processes(found: Understood, only_look: bool) -> Job:
    """A manifest as a job: its roles, with what their first containers run."""
    table = tomllib.loads(job_file(found))
    silent = [role.name for role in found.gang.roles if role.name not in found.commands]
    if silent and not only_look:
        what = f"role {silent[0]} says no command: its image does, and images are not started here"
        raise Refused(what, hint="give the container a command")
    if "roles" in table:
        for name, part in table["roles"].items():
            part["command"] = list(found.commands.get(name, ("true",)))
    else:
        table["command"] = list(found.commands.get(found.gang.roles[0].name, ("true",)))
    table["framework"] = found.framework if found.framework in DELIVERIES else ""
    return from_data(table, found.what)


def summary(found: Understood) -> tuple[str, ...]:
    """What was understood, in a line or two."""
    rows = [role_row(role) for role in found.gang.roles]
    members = ", ".join(f"{size} x {ask}" if size != "1" else ask for _, size, ask, _ in rows)
    if found.job.array != "":
        members = f"{bounds(found.gang.roles[0])[2]} tasks of {rows[0][2]}"
    said = {
        source
        for field in ("workers", "gpus", "roles")
        if "default" not in (source := found.sources.get(field, "default"))
    }
    source = f" ({'; '.join(sorted(said))})" if said else ""
    plain = not found.launcher and not found.manager and (not said or found.what == "a job file")
    return (*(() if plain else (f"{found.what}: {members}, {found.elastic_class}{source}",)), *remarks(found))


def remarks(found: Understood) -> tuple[str, ...]:
    """What was ignored, and what to know."""
    ignored = (f"ignored {entry.text}: {entry.why}" for entry in found.ignored)
    return (*ignored, *(f"note: {warning}" for warning in found.warnings))


def _unsaid(job: Job) -> Job:
    """A line that sets TF_CONFIG or chooses its devices itself would hide what is delivered."""
    if isinstance(job.command, str) or not any(word.startswith(HIDES) for word in job.command):
        return job
    words = tuple(word for word in job.command if not word.startswith(HIDES))
    return replace(job, command=words)


def _runnable(job: Job) -> Job:
    """Variables in front of a line are the shell's to set; without one, `env` does it."""
    if isinstance(job.command, str) or not job.command or "=" not in job.command[0].split("/")[0]:
        return job
    return replace(job, command=("/usr/bin/env", *job.command))


def _script(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A script that is read is one word; its arguments come after."""
    if len(words) > 1 and is_batch_script(words[0]):
        return (words[0],), tuple(words[1:])
    return tuple(words), ()


def _whole(job: Job) -> Job:
    """All members as one, with what all of them ask for."""
    members = workers(job.workers)[0]
    if members == 1:
        return job
    return replace(
        job,
        workers=1,
        want=0,
        gpus=members * (1 if job.gpus is None else job.gpus),
        cpus=None if job.cpus is None else f"{members * cpu(job.cpus)}m",
        mem=None if job.mem is None else members * memory(job.mem),
        size_rule="",
        group="",
        per_node=0,
        resize=None,
    )


def _batch(found: Understood, job: Job) -> Job:
    """A batch script is run once, as batch systems do; it starts its tasks itself."""
    nodes = found.nodes or (bounds(found.gang.roles[0])[0] if job.array == "" and not job.roles else 1)
    if job.roles:
        nodes = sum(workers(part.workers)[0] for part in job.roles.values())
    tasks = found.ranks_per_member
    shared = max(found.nodes, 1) if job.array != "" else 1
    cores = found.gang.roles[0].shapes[0].ask.get("cpu", 1000) // 1000 // shared
    job = replace(_summed(job) if job.roles else _whole(job), framework=found.manager)
    told = TOLD[found.manager](nodes, tasks, max(cores, 1))
    if found.manager == "slurm" and found.job.roles:
        told["SLURM_HET_SIZE"] = len(found.job.roles)
    words = ("/usr/bin/env", *(f"{name}={value}" for name, value in told.items()))
    script = ("/bin/sh", "-c", LISTED[found.manager], str(nodes * tasks)) if found.manager in LISTED else ()
    return replace(job, command=(*words, *script, *_words(job)))


def _summed(job: Job) -> Job:
    """All roles as one member, with what all of them ask for."""
    parts = [(workers(part.workers)[0], part) for part in job.roles.values()]
    return replace(
        job,
        roles={},
        workers=1,
        gpus=sum(count * (1 if part.gpus is None else part.gpus) for count, part in parts),
        cpus=f"{sum(count * cpu(part.cpus) for count, part in parts if part.cpus is not None)}m",
        mem=sum(count * memory(part.mem) for count, part in parts if part.mem is not None) or None,
    )


def _slurm(nodes: int, tasks: int, cores: int) -> dict[str, object]:
    return {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS": nodes * tasks,
        "SLURM_NPROCS": nodes * tasks,
        "SLURM_NTASKS_PER_NODE": tasks,
        "SLURM_TASKS_PER_NODE": f"{tasks}(x{nodes})" if nodes > 1 else tasks,
        "SLURM_CPUS_PER_TASK": max(cores // tasks, 1),
    }


def _pbs(nodes: int, tasks: int, cores: int) -> dict[str, object]:
    slots = max(cores, tasks)
    return {"PBS_NUM_NODES": nodes, "PBS_NUM_PPN": slots, "PBS_NP": nodes * slots, "NCPUS": cores}


def _lsf(nodes: int, tasks: int, _: int) -> dict[str, object]:
    return {"LSB_DJOB_NUMPROC": nodes * tasks, "LSB_MAX_NUM_PROCESSORS": nodes * tasks}


def _flux(nodes: int, tasks: int, _: int) -> dict[str, object]:
    return {"FLUX_JOB_NNODES": nodes, "FLUX_JOB_SIZE": nodes * tasks}


TOLD: dict[str, Callable[[int, int, int], dict[str, object]]] = {
    "slurm": _slurm, "pbs": _pbs, "lsf": _lsf, "flux": _flux,
}  # fmt: skip
"""What a script is told of its nodes, tasks on each and cores of each: here it is one member."""


def _words(job: Job) -> tuple[str, ...]:
    return tuple(shlex.split(job.command)) if isinstance(job.command, str) else job.command
