"""A gang as a Slurm batch script."""

import shlex

from tutti.engine.model import NEVER, SECOND, Coupling, Role
from tutti.jobs.durations import DATE, duration, in_zone
from tutti.jobs.finish import bounds
from tutti.jobs.job import CPU, MEMORY
from tutti.jobs.understood import Understood

DEPENDENCY = {"any": "afterany", "failed": "afternotok"}


def sbatch(found: Understood) -> str:
    """Directives, and the command as it was. A script has one kind of node: the first role."""
    gang = found.gang
    role = gang.roles[0]
    lines = ["#!/bin/bash", f"#SBATCH --job-name={gang.name.partition('@')[0].replace('/', '.')}", *_size(found, role)]
    if gang.estimate.limit < NEVER:
        seconds = gang.estimate.limit // SECOND
        lines.append(f"#SBATCH --time={seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}")
    if gang.queue != "default":
        lines.append(f"#SBATCH --partition={gang.queue}")
    if gang.priority:
        lines.append(f"#SBATCH --nice={-gang.priority}")
    lines += [f"#SBATCH --begin={_moment(found.job.begin)}"] if gang.begin else []
    lines += [f"#SBATCH --deadline={_moment(found.job.deadline)}"] if gang.deadline < NEVER else []
    if gang.after:
        lines.append(f"#SBATCH --dependency={','.join(map(_dependency, gang.after))}")
    if found.job.signal:
        name, _, before = found.job.signal.partition("@")
        lines.append(f"#SBATCH --signal=B:{name}@{before.rstrip('s') or 60}")
    return "\n".join([*lines, "", _command(found), ""])


def _size(found: Understood, role: Role) -> list[str]:
    low, _, high = bounds(role)
    asked = role.shapes[0].ask if role.shapes else {}
    gpus = sum(n for name, n in asked.items() if name == "gpu" or name.endswith("/gpu"))
    cores = -(-asked.get(CPU, 1000) // 1000)
    if found.job.array != "":
        lines = [f"#SBATCH --array={found.job.array if '-' in str(found.job.array) else f'0-{high - 1}'}"]
        lines += [f"#SBATCH --gpus={gpus}"] if gpus else []
    else:
        low = max(low, 1)
        lines = [f"#SBATCH --nodes={low if low == high or role.coupling is Coupling.LOOSE else f'{low}-{high}'}"]
        lines += [f"#SBATCH --gpus-per-node={gpus}"] if gpus else []
    lines.append(f"#SBATCH --cpus-per-task={cores}")
    if asked.get(MEMORY):
        lines.append(f"#SBATCH --mem={-(-asked[MEMORY] // (1 << 20))}M")
    kinds = [tag.removeprefix("kind=") for tags in (role.shapes[0].tags if role.shapes else ()) for tag in tags]
    return [*lines, f"#SBATCH --constraint={'|'.join(kinds)}"] if kinds and "=" not in kinds[0] else lines


def _moment(written: int | str) -> str:
    """A moment as Slurm takes it: so many seconds from now, or a date of this machine's zone."""
    text = str(written)
    if DATE.match(text):
        return in_zone(text).astimezone().strftime("%Y-%m-%dT%H:%M:%S")
    return f"now+{duration(text) // SECOND}"


def _dependency(entry: str) -> str:
    kind, colon, name = entry.partition(":")
    return f"{DEPENDENCY.get(kind, 'afterok')}:{name if colon else entry}"


def _command(found: Understood) -> str:
    command = found.job.command
    line = command if isinstance(command, str) else shlex.join(command)
    return line or "echo 'nothing to run was said'"
