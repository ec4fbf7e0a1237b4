"""`tutti scancel`: end jobs by number, as with Slurm."""

import signal as signals
from contextlib import closing
from typing import Any

import click

from tutti.api.client import Client, job_path
from tutti.cli.slurm_words import SETTINGS, operands, options, without_effect
from tutti.cli.squeue import all_jobs, chosen
from tutti.errors import Misused, NotFound

FILTERS = {"user", "name", "jobname", "state", "partition", "me"}


@click.command(context_settings=SETTINGS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] JOBID...")
def scancel(words: tuple[str, ...]) -> None:
    """End jobs, or send them a signal, as Slurm's scancel does.

    Jobs by number or name; -u, -n, -t, -p and --me choose among all of them; -s sends a signal.
    """
    from tutti.jobs.batch import slurm_words as slurm  # noqa: PLC0415 - not needed for --help

    found = options(words, slurm.SCANCEL)
    flags = {name: flag.text for name, flag in found.flags.items()}
    named = operands(words, found, slurm.SCANCEL)
    without_effect(found, {"quiet", "verbose", *FILTERS, "signal"})
    filters = FILTERS & set(flags)
    if not named and not filters:
        raise Misused("scancel: no job is named", hint="tutti scancel JOBID, or -u USER")
    with closing(Client()) as client:
        rows = all_jobs(client)
        targets = [row for name in named for row in _of(name, rows)] or rows
        for row in chosen(targets, flags):
            _end(client, row, flags.get("signal", ""))


def _of(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if "_" in name and name.partition("_")[0].isdigit():
        raise Misused(
            f"scancel: {name}: single tasks of an array are not ended; end the array", hint=name.partition("_")[0]
        )
    found = [row for row in rows if name in {str(row["id"]), row["name"]}]
    if not found:
        raise NotFound(f"scancel: Invalid job id {name}", hint="tutti squeue")
    return found


def _end(client: Client, row: dict[str, Any], signal: str) -> None:
    if not signal or signal.upper() in {"KILL", "SIGKILL", "9"}:
        client.post(job_path(row["name"], "cancel"), {"grace_s": 0.0} if signal else {})
        return
    client.post(job_path(row["name"], "signal"), {"number": _number(signal)})


def _number(signal: str) -> int:
    if signal.isdigit():
        return int(signal)
    name = f"SIG{signal.upper().removeprefix('SIG')}"
    try:
        return int(signals.Signals[name])
    except KeyError:
        raise Misused(f"scancel: there is no signal {signal!r}", hint="USR1, TERM, INT ...") from None
