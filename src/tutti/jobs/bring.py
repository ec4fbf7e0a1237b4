"""A job somebody has, made ready for this machine: what was understood, as a job that the local runtime can run."""

import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tutti.engine.model import Data
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

ON_ONE_HOST = {"mpi", "horovod", "spark"}
"""Launchers that reach other hosts by themselves: on one machine they are started once, with everything."""


HIDES = ("TF_CONFIG=", "CUDA_VISIBLE_DEVICES=")
NODEFILE = (
    "PBS_NODEFILE=$(mktemp) || exit 1; export PBS_NODEFILE; n=0; "
    'while [ "$n" -lt "$0" ]; do uname -n; n=$((n + 1)); done > "$PBS_NODEFILE"; '
    '"$@"; code=$?; rm -f "$PBS_NODEFILE"; exit $code'
)
"""PBS lists the hosts of a job in a file, a line for each slot."""


class Brought(Data, frozen=True):
    """The job, and in a few lines what was understood of what was given."""

    job: Job
    lines: tuple[str, ...] = ()


def bring(words: Sequence[str], options: Mapping[str, Any], only_look: bool = False) -> Brought:
    """What a launch line, a batch script or a manifest means here. Raises Misused with what only its author can say.

    A manifest is refused, unless it is to be run as processes, or one only looks whether it would fit.
    """
    options = dict(options)
    as_processes = options.pop("as_processes", False)
    first, rest = _script(words)
    found = understand(first, options, None, known_variables(os.environ))
    if not found.job.command and "roles" in found.sources and (as_processes or only_look) and not found.manager:
        return Brought(_as_processes(found, only_look), summary(found))
    return Brought(_into_files(ready(found, rest), found), summary(found))


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
    nodes = bounds(found.gang.roles[0])[0] if job.array == "" and not job.roles else 1
    tasks = found.ranks_per_member
    job = replace(_whole(replace(job, roles={})), framework=found.manager)
    if found.manager == "pbs":
        slots = max(nodes * tasks, 1)
        return replace(job, command=("/bin/sh", "-c", NODEFILE, str(slots), *_words(job)))
    if found.manager != "slurm":
        return job
    cores = found.gang.roles[0].shapes[0].ask.get("cpu", 1000) // 1000
    told = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS": nodes * tasks,
        "SLURM_NPROCS": nodes * tasks,
        "SLURM_NTASKS_PER_NODE": tasks,
        "SLURM_TASKS_PER_NODE": f"{tasks}(x{nodes})" if nodes > 1 else tasks,
        "SLURM_CPUS_PER_TASK": max(cores // tasks, 1),
    }
    words = [f"{name}={value}" for name, value in told.items()]
    return replace(job, command=("/usr/bin/env", *words, *_words(job)))


def _words(job: Job) -> tuple[str, ...]:
    return tuple(shlex.split(job.command)) if isinstance(job.command, str) else job.command
