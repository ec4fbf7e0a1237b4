"""`tutti squeue`: the queue, in the columns that fingers and scripts know from Slurm."""

import json
import os
from contextlib import closing
from functools import partial
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.output import empty_without_daemon
from tutti.cli.slurm_words import SETTINGS, options, without_effect
from tutti.errors import Misused

MOST = 10_000
HEEDED = {
    "user",
    "users",
    "jobs",
    "job",
    "partition",
    "states",
    "state",
    "name",
    "format",
    "sort",
    "noheader",
    "long",
    "me",
    "all",
    "start",
    "json",
}


@click.command(context_settings=SETTINGS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SQUEUE]")
def squeue(words: tuple[str, ...]) -> None:
    """List jobs as Slurm's squeue does.

    Known are -u, -j, -p, -t, -n, -o, -S, -h, -l, --me, --start, --json. An option that is not supported is named.
    """
    from tutti.jobs.batch import slurm_words as slurm  # noqa: PLC0415 - not needed for --help

    found = options(words, slurm.SQUEUE)
    flags = {name: flag.text for name, flag in found.flags.items()}
    without_effect(found, HEEDED)
    with closing(Client()) as client:
        rows = chosen(all_jobs(client, ended="states" in flags or "jobs" in flags), flags)
    if "sort" in flags:
        rows = in_order(rows, flags["sort"])
    if "json" in flags:
        click.echo(json.dumps({"schema": "tutti/v1", "jobs": rows}))
        return
    form = slurm.START_FORMAT if "start" in flags else slurm.LONG_FORMAT if "long" in flags else slurm.QUEUE_FORMAT
    try:
        lines = slurm.table(rows, slurm.JOB_COLUMNS, flags.get("format", form), "noheader" not in flags)
    except KeyError as letter:
        known = " ".join(f"%{name}" for name in slurm.JOB_COLUMNS)
        raise Misused(f"squeue: there is no column %{letter.args[0]}", hint=f"one of {known}") from None
    for line in lines:
        click.echo(line)


def all_jobs(client: Client, ended: bool = False) -> list[dict[str, Any]]:
    """Jobs as rows, by number."""
    which = "all" if ended else "active"
    answer = empty_without_daemon(lambda: client.get("/v1/jobs", which=which, limit=MOST), {"jobs": [], "total": 0})
    rows: list[dict[str, Any]] = answer["jobs"]
    return sorted(rows, key=lambda row: int(row["id"]))


def chosen(rows: list[dict[str, Any]], flags: dict[str, str]) -> list[dict[str, Any]]:
    """The rows that the options leave."""
    from tutti.cli.queue import own_name  # noqa: PLC0415
    from tutti.jobs.batch import slurm_words as slurm  # noqa: PLC0415

    users = _listed(flags, "user", "users") | ({own_name()} if "me" in flags else set())
    ids, names = _listed(flags, "jobs", "job"), _listed(flags, "name", "jobname")
    queues = _listed(flags, "partition")
    text = flags.get("states") or flags.get("state") or ("" if not ids else "all")
    try:
        states = slurm.of_states(text) if text else set()
    except KeyError as word:
        raise Misused(f"there is no state {word.args[0]!r}", hint="PENDING, RUNNING, COMPLETED, FAILED ...") from None
    return [
        row
        for row in rows
        if (not users or row["user"] in users or str(os.getuid()) in users)
        and (not ids or str(row["id"]) in ids)
        and (not names or row["name"] in names)
        and (not queues or row["queue"] in queues)
        and (not states or slurm.state(row)[0] in states)
    ]


def in_order(rows: list[dict[str, Any]], keys: str) -> list[dict[str, Any]]:
    """Rows by the columns that `-S` names, the first one first; a minus sign turns one around."""
    from tutti.jobs.batch import slurm_words as slurm  # noqa: PLC0415

    for key in reversed([part.strip() for part in keys.split(",") if part.strip()]):
        letter = key.lstrip("+-")
        if letter not in slurm.JOB_COLUMNS:
            known = " ".join(slurm.JOB_COLUMNS)
            raise Misused(f"squeue: there is no column {letter!r} to sort by", hint=f"one of {known}, perhaps with a -")
        rows = sorted(rows, key=partial(slurm.sorting, letter=letter), reverse=key.startswith("-"))
    return rows


def _listed(flags: dict[str, str], *names: str) -> set[str]:
    return {part.strip() for name in names for part in flags.get(name, "").split(",") if part.strip()}
