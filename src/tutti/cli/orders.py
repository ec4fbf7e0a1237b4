"""`tutti cancel`, `hold`, `release`, `retry`: orders about jobs by name."""

from collections.abc import Callable
from typing import Any

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import jobs_argument
from tutti.cli.output import hint

dry = click.option("--dry-run", is_flag=True, help="Only say what would happen.")


def _each(names: tuple[str, ...], verb: str, **asked: Any) -> None:
    """One order for each name; those that can be carried out are, the first problem is told at the end."""
    client = Client()
    problem: Exception | None = None
    for name in names:
        try:
            answer = client.post(
                job_path(name, verb), {key: value for key, value in asked.items() if value is not None}
            )
        except Exception as failed:  # noqa: BLE001 - the others must still be seen to
            problem = problem or failed
        else:
            hint(answer["said"])
    if problem is not None:
        raise problem


@click.command()
@jobs_argument
@click.option("--grace", type=float, default=None, metavar="SECONDS", help="Time to end by itself (the job's own).")
@click.option("--why", default="", help="What to write into its story.")
@click.option("--wait", is_flag=True, help="Stay until it has ended.")
@dry
def cancel(names: tuple[str, ...], grace: float | None, why: str, wait: bool, dry_run: bool) -> None:
    """End jobs.

    End jobs, wherever they are.
    """
    _each(names, "cancel", grace_s=grace, why=why, dry_run=dry_run)
    if wait and not dry_run:
        for name in names:
            Client().job(name).wait()


def _simple(verb: str, says: str) -> Callable[..., None]:
    @click.command(name=verb, help=says)
    @jobs_argument
    @dry
    def order(names: tuple[str, ...], dry_run: bool) -> None:
        _each(names, verb, dry_run=dry_run)

    return order


hold = _simple("hold", "Keep waiting jobs from starting.")
release = _simple("release", "Let jobs on hold start again.")
retry = _simple("retry", "Submit jobs that are over once more.")
