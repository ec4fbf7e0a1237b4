"""`tutti attach`: a shell beside a rank of a running job."""

import sys
from pathlib import Path

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import job_argument
from tutti.errors import Misused, Refused


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-r", "--rank", type=click.IntRange(0), default=0, help="Beside which rank (0).")
@job_argument
@click.argument("words", nargs=-1, metavar="[--] [COMMAND...]")
def attach(name: str, rank: int, words: tuple[str, ...]) -> None:
    """Open a shell beside a rank of a running job.

    Open a shell beside a rank of a running job, with its variables, devices and folder.
    """
    from tutti.cli.terminal import attached  # noqa: PLC0415 - not needed for --help

    rank, words = _behind_the_name(rank, words)
    words = words[1:] if words[:1] == ("--",) else words
    page = Client().get(job_path(name))
    channel = page["variables"].get("TUTTI_CHANNEL", "")
    if not channel and page["ranks"] and not page["job"]["ended_us"]:
        raise Refused(f"{name} belongs to {page['job']['user']}", hint="only its owner has a shell beside it")
    if not channel:
        raise Refused(f"{name} is {page['job']['state']}, and not running")
    sys.exit(attached(Path(channel.removeprefix("unix:")).parent, rank, list(words)))


def _behind_the_name(rank: int, words: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """`attach NAME --rank 3` is the same as `attach --rank 3 NAME`; what follows belongs to the command."""
    first, equals, value = words[0].partition("=") if words else ("", "", "")
    if first not in {"-r", "--rank"}:
        return rank, words
    value, rest = (value, words[1:]) if equals else ("".join(words[1:2]), words[2:])
    if not value.isdecimal():
        raise Misused(f"--rank: {value!r} is no rank", hint="tutti attach NAME --rank 0")
    return int(value), rest
