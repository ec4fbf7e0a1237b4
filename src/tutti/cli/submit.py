"""`tutti submit`: hand a job over and return; it is on the disk when the name is printed."""

import sys
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.interrupt import INTERRUPTED, Interrupt
from tutti.cli.output import hint, output_option, show
from tutti.jobs.options import SETTINGS, job_options


@click.command(context_settings=SETTINGS)
@job_options
@click.option("--devices", metavar="N", default="", help="Made-up devices, when this starts the daemon.")
@click.option("--follow", is_flag=True, help="Stay and show its output.")
@click.option("--wait", is_flag=True, help="Stay until it has ended, and end with its exit code.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@output_option
@click.argument("words", nargs=-1, metavar="[--] COMMAND...")
def submit(
    words: tuple[str, ...], devices: str, follow: bool, wait: bool, dry_run: bool, output: str, **options: Any
) -> None:
    """Hand a job over and return.

    Submit a job (options as for `run`) and print its name.
    """
    from tutti.cli.submission import submitted  # noqa: PLC0415 - not needed for --help

    client = Client()
    if dry_run:
        from tutti.cli.plan import planned  # noqa: PLC0415

        sys.exit(planned(client, options, words, devices, output))
    interrupt = Interrupt()
    row = submitted(client, options, words, devices, interrupt)
    show({"schema": "tutti/v1", "jobs": [row], "total": 1, "next": 0}, output, lambda: [row["name"]], [row["name"]])
    try:
        interrupt.let()
        if follow:
            from tutti.cli.follow import follow as follow_it  # noqa: PLC0415

            sys.exit(follow_it(client, row, [0]))
        if wait:
            sys.exit(client.job(row["name"]).wait())
    except KeyboardInterrupt:
        hint(f"\n{row['name']} is submitted and goes on; `tutti cancel {row['name']}` ends it")
        sys.exit(INTERRUPTED)
