"""From a command line to what is sent: a job file, a script with `#tutti:` lines, or options and words."""

import os
from pathlib import Path
from typing import Any

import click
import msgspec

from tutti.api.client import Client
from tutti.api.context import context
from tutti.cli.interrupt import Interrupt
from tutti.engine.model import Gang
from tutti.errors import Misused
from tutti.jobs.file import has_directives, read_job_file
from tutti.jobs.job import Job
from tutti.jobs.options import data_from, job_from
from tutti.jobs.recognise import must_be_read

JOB_FILES = (".toml", ".yaml", ".yml")
MOST_SCRIPT = 1 << 20


def submission(options: dict[str, Any], words: tuple[str, ...], only_look: bool = False) -> dict[str, Any]:
    """One job with the place it is submitted from; `only_look` where nothing will be started."""
    job, gangs = written(options, words, only_look)
    said = msgspec.to_builtins(job)
    captured = context(said)
    if job.framework == "slurm":
        from tutti.api.home import home  # noqa: PLC0415 - only for scripts of that kind
        from tutti.cli.sbatch import with_srun  # noqa: PLC0415

        captured = with_srun(home().path, captured)
    return {"job": said, "context": captured} | ({"gangs": msgspec.to_builtins(gangs)} if gangs else {})


def written(options: dict[str, Any], words: tuple[str, ...], only_look: bool = False) -> tuple[Job, tuple[Gang, ...]]:
    """The job that a command line describes; of a manifest that one only looks at, its gangs."""
    first = words[0] if words else ""
    if first.endswith(JOB_FILES) and len(words) > 1:
        raise Misused(f"there are words after the file {first}", hint="our options come before it: --name x job.toml")
    if must_be_read(words) or first.endswith(JOB_FILES):
        return brought(options, words, only_look)
    if first and _is_script(Path(first)):
        base = read_job_file(first)
        program = _program(Path(first).absolute())
        return job_from(options, (*program, *words[1:]), msgspec.structs.replace(base, command=program)), ()
    return job_from(options, words), ()


def brought(options: dict[str, Any], words: tuple[str, ...], only_look: bool = False) -> tuple[Job, tuple[Gang, ...]]:
    """A job that somebody had before: what was understood of it is said on standard error."""
    from tutti.jobs.bring import bring  # noqa: PLC0415 - a plain command does not pay for it

    found = bring(words, data_from(options), only_look)
    for line in found.lines:
        click.echo(f"tutti: {line}", err=True)
    return found.job, found.gangs


def _is_script(path: Path) -> bool:
    """Whether it is a file of our directives; programs found on the PATH are never looked at."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_SCRIPT:
            return False
        return has_directives(path.read_text(errors="replace"))
    except OSError:
        return False


def _program(script: Path) -> tuple[str, ...]:
    """How to run a script: it needs no permission to be executed, as with other batch systems."""
    if os.access(script, os.X_OK):
        return (str(script),)
    with script.open(errors="replace") as file:
        first = file.readline()
    interpreter = first[2:].split(None, 1) if first.startswith("#!") else []
    return (*(word.strip() for word in interpreter or ["/bin/sh"]), str(script))


def submitted(
    client: Client, options: dict[str, Any], words: tuple[str, ...], devices: str, interrupt: Interrupt
) -> dict[str, Any]:
    """Send it; the daemon is started where there is none. Ctrl-C is held from then on: the caller lets it go."""
    sent = submission(options, words)
    start(client, devices)
    interrupt.hold()
    try:
        answer = client.post("/v1/jobs", {"jobs": [sent]})
    except BaseException:
        interrupt.forget()
        raise
    for note in answer["notes"]:
        click.echo(f"tutti: {note}", err=True)
    row: dict[str, Any] = answer["jobs"][0]
    return row


def start(client: Client, devices: str) -> None:
    """A daemon with these devices, or an error where one runs with others."""
    was_up = client.is_up()
    client.start(devices)
    if devices and was_up:
        from tutti.errors import Refused  # noqa: PLC0415

        status = client.get("/v1/status")
        if devices not in {str(status["devices"]), status.get("spec", "")}:
            raise Refused(
                f"a daemon runs already, with {status['devices']} {status['source']} devices",
                hint="leave --devices out, or `tutti stop` first",
            )
