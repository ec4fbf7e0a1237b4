"""Names for jobs that were given none: what they run, and a number."""

import re
from collections.abc import Callable
from pathlib import Path

from tutti.jobs.job import Job

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")
SAYS_LITTLE = {"python", "python3", "bash", "sh", "env", "torchrun", "accelerate", "mpirun", "tutti", "srun", "uv"}
LONGEST = 30


def made_up(job: Job, taken: Callable[[str], bool]) -> str:
    """A name that says what runs, with the first number that is free."""
    stem = stem_of(job)
    number = 1
    while taken(f"{stem}-{number}"):
        number += 1
    return f"{stem}-{number}"


def stem_of(job: Job) -> str:
    """What a job runs, in a word: its script, its module, or its program."""
    command = job.command or next((part.command for part in job.roles.values() if part.command), ())
    # Of a line for the shell only the first word says something.
    given = [command] if isinstance(command, str) else list(command)
    words = [word.split()[0] for word in given if word.split()]
    telling = [word for word in words if word.endswith((".py", ".sh"))]
    telling += [word for word in words if not word.startswith("-") and Path(word).name not in SAYS_LITTLE]
    stem = NOT_IN_NAMES.sub("-", Path(telling[0]).stem if telling else "job").strip("-").lower()
    return (stem[:LONGEST].strip("-") or "job") if not stem.isdigit() else f"job-{stem}"
