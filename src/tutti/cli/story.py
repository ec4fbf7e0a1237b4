"""`tutti story`: what happened to a job, from its submission on."""

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import job_argument
from tutti.cli.output import output_option, show


@click.command()
@job_argument
@output_option
def story(name: str, output: str) -> None:
    """Tell what happened to a job.

    One timeline of a job: what it waited for, when it ran, what it lost.
    """
    answer = Client().get(job_path(name, "story"))
    show(answer, output, lambda: answer["lines"], [name])
