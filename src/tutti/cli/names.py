"""Live names for shell completion: jobs, queues, nodes and devices."""

from collections.abc import Callable
from typing import Any

import click


def complete_jobs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs that are there now."""
    return [name for name in _names("/v1/jobs", "jobs", which="all", limit=200) if name.startswith(incomplete)]


def complete_queues(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of queues."""
    return [name for name in _names("/v1/queues", "queues") if name.startswith(incomplete)]


def complete_devices(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of nodes and devices."""
    nodes = _asked("/v1/nodes", "nodes")
    found = [node["name"] for node in nodes] + [device["id"] for node in nodes for device in node["devices"]]
    return [name for name in found if name.startswith(incomplete)]


def complete_others(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs to wait for, with the way they must end."""
    how, colon, name = incomplete.rpartition(":")
    return [f"{how}{colon}{one}" for one in _names("/v1/jobs", "jobs", limit=200) if one.startswith(name)]


OPTIONS = {"queue": complete_queues, "in_queue": complete_queues, "after": complete_others}
"""Options of jobs are described where nobody can be asked; a shell that completes them asks here."""


def complete_options(command: click.Command) -> click.Command:
    """The same command, with live names behind its options."""
    for param in command.params:
        if isinstance(param, click.Option) and param.name in OPTIONS:
            _complete(param, OPTIONS[param.name])
    return command


def _complete(param: click.Option, names: Callable[..., list[str]]) -> None:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells that complete need it

    def items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names(ctx, param, incomplete)]

    param.shell_complete = items  # type: ignore[method-assign]


def _names(path: str, key: str, **query: object) -> list[str]:
    return list(dict.fromkeys(row["name"] for row in _asked(path, key, **query)))


def _asked(path: str, key: str, **query: object) -> list[dict[str, Any]]:
    from tutti.api.client import Client  # noqa: PLC0415
    from tutti.errors import TuttiError  # noqa: PLC0415

    try:
        return list(Client().get(path, **query)[key])
    except TuttiError:
        return []


job_argument: Callable[[Any], Any] = click.argument("name", shell_complete=complete_jobs)
jobs_argument: Callable[[Any], Any] = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobs
)
devices_argument: Callable[[Any], Any] = click.argument(
    "devices", nargs=-1, required=True, metavar="DEVICE|NODE...", shell_complete=complete_devices
)
