"""`tutti run`: submit a job, follow it, and end with its exit code."""

import sys
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.interrupt import Interrupt
from tutti.jobs.options import SETTINGS, job_options


@click.command(context_settings=SETTINGS)
@job_options
@click.option("--devices", metavar="N", default="", help="Made-up devices, when this starts the daemon.")
@click.option("--all-ranks", is_flag=True, help="Show the output of every rank, each line with its number.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen; the same as `tutti plan`.")
@click.argument("words", nargs=-1, metavar="[--] COMMAND...")
def run(words: tuple[str, ...], devices: str, all_ranks: bool, dry_run: bool, **options: Any) -> None:
    """Run a command as a gang and follow it.

    Run a command as a gang: every rank starts at once, or the job waits and says why.

    The command is a program with its arguments, a job file (.toml, .yaml), or a script with `#tutti:` lines.
    """
    from tutti.cli.follow import follow  # noqa: PLC0415 - not needed for --help
    from tutti.cli.submission import submitted  # noqa: PLC0415

    client = Client()
    if dry_run:
        from tutti.cli.plan import planned  # noqa: PLC0415

        sys.exit(planned(client, options, words, devices, "table"))
    interrupt = Interrupt()
    row = submitted(client, options, words, devices, interrupt)
    if sys.stderr.isatty():
        click.echo(f"{row['name']} submitted", err=True)
    ranks = list(range(row["max"])) if all_ranks else [0]
    if row.get("tasks"):
        ranks = ranks if all_ranks else []
    code = follow(client, row, ranks, interrupt)
    if row.get("tasks") and not ranks and not code:
        click.echo(f"all tasks are done; tutti logs {row['name']} --rank N shows what one wrote", err=True)
    sys.exit(code)
