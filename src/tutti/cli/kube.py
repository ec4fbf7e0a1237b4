"""`tutti kube`: the scheduler for a Kubernetes cluster, and what can be asked of it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

CONNECTED = (
    click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; a pod knows by itself."),
    click.option("--context", metavar="NAME", help="A context of that file."),
)


def connected(command: F) -> F:
    """A command that talks to a cluster."""
    for option in reversed(CONNECTED):
        command = option(command)
    return command


@click.group()
def kube() -> None:
    """Schedule whole gangs on a Kubernetes cluster."""


@kube.command()
@connected
@click.option("--scheduler-name", metavar="NAME", help="Pods with this schedulerName are ours (tutti).")
@click.option("--config", "file", metavar="FILE", help="Settings in TOML: policy, queues, topology levels.")
@click.option("--no-lease", is_flag=True, help="Lead at once, without waiting for a lease. For one replica only.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, help="Port of the probes and metrics (8080).")
def run(
    kubeconfig: str | None, context: str | None, scheduler_name: str | None, file: str | None, no_lease: bool, port: int
) -> None:
    """Run the scheduler until it is told to stop."""
    import asyncio  # noqa: PLC0415 - not needed for --help

    import msgspec  # noqa: PLC0415

    from tutti.kube import config, credentials  # noqa: PLC0415
    from tutti.kube import run as running  # noqa: PLC0415

    settings = config.read(file)
    if scheduler_name:
        settings = msgspec.structs.replace(settings, scheduler_name=scheduler_name)
    asyncio.run(running.run(credentials.find(kubeconfig, context), settings, not no_lease, port))
