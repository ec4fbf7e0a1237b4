"""`tutti sbatch`: hand over a Slurm script, or one for PBS, LSF or Flux, as it is."""

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tutti.api.client import Client
from tutti.cli.slurm_words import SETTINGS
from tutti.errors import NotFound, Refused

if TYPE_CHECKING:
    from tutti.jobs.batch_submission import Batch

MOST_NAMES = 1000


@click.command(context_settings={**SETTINGS, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SBATCH] SCRIPT [ARGUMENTS...]")
def sbatch(words: tuple[str, ...]) -> None:
    """Submit a batch script as Slurm's sbatch does.

    Options win over the directives of the script. What changes nothing here is named on standard error; an option that
    does not exist is an error.
    """
    from tutti.jobs.batch_submission import read_sbatch  # noqa: PLC0415 - not needed for --help

    read = read_sbatch(words)
    for line in read.lines:
        click.echo(f"sbatch: {line}", err=True)
    if "test-only" in read.flags:
        click.echo("sbatch: understood; nothing was submitted", err=True)
        return
    with closing(Client()) as client:
        code = handed_over(client, read)
    sys.exit(code)


def handed_over(client: Client, read: "Batch") -> int:
    """Submit it and say its number; the exit code is the job's where it is waited for."""
    client.start()
    job = read.job | (
        {"after": [by_name(client, entry) for entry in read.job["after"]]} if read.job.get("after") else {}
    )
    row = _submit(client, job)
    if "parsable" in read.flags:
        click.echo(str(row["id"]))
    elif "quiet" not in read.flags:
        click.echo(f"Submitted batch job {row['id']}")
    return client.job(row["name"]).wait() if "wait" in read.flags else 0


def _submit(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """Names need not be unique in Slurm; here a number is added where one is taken."""
    from tutti.api.context import context  # noqa: PLC0415

    base = job["name"]
    sent = {"context": with_srun(client.home.path, context(job))}
    for number in range(1, MOST_NAMES):
        name = base if number == 1 else f"{base}-{number}"
        try:
            row: dict[str, Any] = client.post("/v1/jobs", {"jobs": [sent | {"job": job | {"name": name}}]})["jobs"][0]
        except Refused as problem:
            if "already here" not in problem.what:
                raise
        else:
            return row
    raise Refused(f"there are {MOST_NAMES} jobs named {base!r}", hint="another --job-name")


def with_srun(home: Path, captured: dict[str, Any]) -> dict[str, Any]:
    """An environment in which a batch script finds an `srun`: ours, which starts tasks inside the job."""
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "srun"
    text = f'#!/bin/sh\nexec "{sys.executable}" -m tutti srun "$@"\n'
    if not path.exists() or path.read_text() != text:
        fresh = path.with_name("srun.new")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(path)
    before = captured["env"].get("PATH", os.defpath)
    return captured | {"env": captured["env"] | {"PATH": f"{folder}:{before}"}}


def by_name(client: Client, entry: str) -> str:
    """Dependencies name jobs by number; here they have names."""
    how, colon, job = entry.partition(":")
    if not colon:
        how, job = "ok", entry
    if not job.isdigit():
        return entry
    rows = client.get("/v1/jobs", which="all", limit=10_000)["jobs"]
    name = next((row["name"] for row in rows if str(row["id"]) == job), None)
    if name is None:
        raise NotFound(f"sbatch: there is no job {job} to wait for", hint="tutti squeue -t all")
    return f"{how}:{name}"
