"""`tutti show`: everything about one job."""

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import job_argument
from tutti.cli.output import output_option, show


@click.command(name="show")
@job_argument
@click.option("--ranks", is_flag=True, help="Only which rank sits where, all of them.")
@click.option("--speed", is_flag=True, help="Only how fast it was at each size.")
@output_option
def show_job(name: str, ranks: bool, speed: bool, output: str) -> None:
    """Show everything about a job.

    Everything about a job: state, size, ranks, devices, where its output is.
    """
    from tutti.views.job import job_lines, rank_lines, speed_lines  # noqa: PLC0415 - not needed for --help

    answer = Client().get(job_path(name))
    lines = [*(rank_lines(answer) if ranks else []), *(speed_lines(answer) if speed else [])]
    show(answer, output, lambda: lines or job_lines(answer, output == "wide"), [name])
