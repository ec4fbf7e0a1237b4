"""`tutti cancel`, `hold`, `release`, `retry`: orders about jobs by name."""

from collections.abc import Callable
from typing import Any

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import jobs_argument
from tutti.cli.output import described, output_option, said
from tutti.errors import TuttiError

dry = click.option("--dry-run", is_flag=True, help="Only say what would happen.")


def _each(names: tuple[str, ...], verb: str, output: str, **asked: Any) -> None:
    """One order for each name; those that can be carried out are, and every problem is told at the end."""
    client = Client()
    problems: list[TuttiError] = []
    done: list[dict[str, Any]] = []
    for name in names:
        try:
            sent = {key: value for key, value in asked.items() if value is not None}
            done.append(client.post(job_path(name, verb), sent))
        except TuttiError as failed:
            # The others must still be seen to.
            problems.append(failed)
            done.append({"done": False, "said": failed.what, "names": [name], **described(failed)})
    said(done, output)
    for problem in problems[1:]:
        click.echo(str(problem), err=True)
    if problems:
        raise problems[0]


@click.command()
@jobs_argument
@click.option("--grace", type=float, default=None, metavar="SECONDS", help="Time to end by itself (the job's own).")
@click.option("--why", default="", help="What to write into its story.")
@click.option("--wait", is_flag=True, help="Stay until it has ended.")
@dry
@output_option
def cancel(names: tuple[str, ...], grace: float | None, why: str, wait: bool, dry_run: bool, output: str) -> None:
    """End jobs.

    End jobs, wherever they are.
    """
    _each(names, "cancel", output, grace_s=grace, why=why, dry_run=dry_run)
    if wait and not dry_run:
        for name in names:
            Client().job(name).wait()


def _simple(verb: str, says: str) -> Callable[..., None]:
    @click.command(name=verb, help=says)
    @jobs_argument
    @dry
    @output_option
    def order(names: tuple[str, ...], dry_run: bool, output: str) -> None:
        _each(names, verb, output, dry_run=dry_run)

    return order


hold = _simple("hold", "Keep waiting jobs from starting.")
release = _simple("release", "Let jobs on hold start again.")
retry = _simple("retry", "Submit jobs that are over once more.")
