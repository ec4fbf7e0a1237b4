"""`tutti story`: what happened to a job, from its submission on."""

import click

from tutti.api.client import job_path
from tutti.cli.connected import also_kube, whom
from tutti.cli.names import job_argument
from tutti.cli.output import output_option, show


@click.command()
@job_argument
@output_option
@also_kube
def story(name: str, output: str, kube: bool, **cluster: str | None) -> None:
    """Tell what happened to a job.

    One timeline of a job: what it waited for, when it ran, what it lost.
    """
    answer = whom(kube, **cluster).get(job_path(name, "story"))
    show(answer, output, lambda: answer["lines"], [name])
