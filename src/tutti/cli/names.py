"""Live names for shell completion: jobs, queues."""

from collections.abc import Callable
from typing import Any

import click


def complete_jobs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs that are there now."""
    return [name for name in _names("/v1/jobs", "jobs", which="all", limit=200) if name.startswith(incomplete)]


def complete_queues(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of queues."""
    return [name for name in _names("/v1/queues", "queues") if name.startswith(incomplete)]


def _names(path: str, key: str, **query: object) -> list[str]:
    from tutti.api.client import Client  # noqa: PLC0415
    from tutti.errors import TuttiError  # noqa: PLC0415

    try:
        return list(dict.fromkeys(row["name"] for row in Client().get(path, **query)[key]))
    except TuttiError:
        return []


job_argument: Callable[[Any], Any] = click.argument("name", shell_complete=complete_jobs)
jobs_argument: Callable[[Any], Any] = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobs
)
