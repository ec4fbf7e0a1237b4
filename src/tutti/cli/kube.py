"""`tutti kube`: the scheduler for a Kubernetes cluster, and what can be asked of it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tutti.cli.connected import only_kube, whom
from tutti.cli.nodes import nodes
from tutti.cli.queue import queue
from tutti.cli.queues import queues
from tutti.cli.story import story
from tutti.cli.what_if import what_if
from tutti.cli.why import why

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
@click.option("--host", metavar="ADDRESS", help="Address of that port (in a pod all of them, elsewhere 127.0.0.1).")
def run(
    kubeconfig: str | None,
    context: str | None,
    scheduler_name: str | None,
    file: str | None,
    no_lease: bool,
    port: int,
    host: str | None,
) -> None:
    """Run the scheduler until it is told to stop."""
    import asyncio  # noqa: PLC0415 - not needed for --help

    import msgspec  # noqa: PLC0415

    from tutti.kube import config, credentials  # noqa: PLC0415
    from tutti.kube import run as running  # noqa: PLC0415
    from tutti.kube.plain import plainly  # noqa: PLC0415

    settings = config.read(file)
    if scheduler_name is not None:
        settings = config.checked(msgspec.structs.replace(settings, scheduler_name=scheduler_name), "--scheduler-name")
    with plainly():
        asyncio.run(running.run(credentials.find(kubeconfig, context), settings, not no_lease, port, file, host))


@kube.command()
@connected
@click.option("--config", "file", metavar="FILE", help="Settings in TOML.")
def doctor(kubeconfig: str | None, context: str | None, file: str | None) -> None:
    """Say what is missing for the scheduler to work here."""
    import asyncio  # noqa: PLC0415

    from tutti.errors import Refused  # noqa: PLC0415
    from tutti.kube import config, credentials  # noqa: PLC0415
    from tutti.kube.api import Api  # noqa: PLC0415
    from tutti.kube.ask import settings  # noqa: PLC0415
    from tutti.kube.doctor import examine  # noqa: PLC0415
    from tutti.kube.plain import plainly  # noqa: PLC0415

    async def ask() -> list[Any]:
        api = Api(credentials.find(kubeconfig, context))
        try:
            return list(await examine(api, config.read(file) if file else await settings(api)))
        finally:
            api.close()

    with plainly():
        found = asyncio.run(ask())
    for finding in found:
        click.echo(f"{'ok     ' if finding.ok else 'MISSING'}  {finding.what}")
        if finding.hint:
            click.echo(f"           try: {finding.hint}")
    if not all(finding.ok for finding in found):
        raise Refused("something is missing.", hint="see above")


for shared in (queue, queues, why, story, nodes, what_if):
    kube.add_command(only_kube(shared))


@kube.command()
@click.argument("file", type=click.File("r"))
@connected
@click.option("-n", "--namespace", metavar="NAME", help="For objects that name none.")
def apply(file: Any, kubeconfig: str | None, context: str | None, namespace: str | None) -> None:
    """Make the objects of a manifest, as `kubectl create -f` does."""
    import asyncio  # noqa: PLC0415

    from tutti.errors import Refused  # noqa: PLC0415
    from tutti.kube import apply as applying  # noqa: PLC0415
    from tutti.kube import credentials  # noqa: PLC0415
    from tutti.kube.api import Api, ApiError  # noqa: PLC0415
    from tutti.kube.plain import plainly  # noqa: PLC0415

    who = credentials.find(kubeconfig, context)

    async def make() -> list[str]:
        api = Api(who)
        try:
            return await applying.apply(api, file.read(), file.name, namespace or who.namespace)
        except ApiError as no:
            raise Refused(no.message, where=file.name) from None
        finally:
            api.close()

    with plainly():
        made = asyncio.run(make())
    for name in made:
        click.echo(f"made {name}")


@kube.command()
@click.argument("target", metavar="FILE")
@connected
@click.option("--config", "file", metavar="FILE", help="Settings in TOML.")
def snapshot(target: str, kubeconfig: str | None, context: str | None, file: str | None) -> None:
    """Save the cluster as a view: for `tutti why`, `tutti what-if` and `tutti replay --view`."""
    from pathlib import Path  # noqa: PLC0415

    data = whom(True, kubeconfig, context, file).call("GET", "/v1/snapshot")
    Path(target).write_bytes(data)
    click.echo(f"{len(data)} bytes are in {target}", err=True)


@kube.command()
@click.option("--out", "folder", metavar="FOLDER", help="Write one file each there; otherwise all is printed.")
@click.option("--namespace", default="tutti-system", metavar="NAME", help="Where the scheduler lives.")
@click.option("--image", default="tutti:latest", metavar="IMAGE", help="What the scheduler runs from.")
def manifests(folder: str | None, namespace: str, image: str) -> None:
    """Print everything that has to be applied to install the scheduler."""
    from pathlib import Path  # noqa: PLC0415

    from tutti.errors import Misused  # noqa: PLC0415
    from tutti.kube.config import named  # noqa: PLC0415
    from tutti.kube.manifests import manifests as made  # noqa: PLC0415
    from tutti.kube.manifests import text  # noqa: PLC0415

    for name, objects in made(named(namespace, "--namespace"), image).items():
        if folder is None:
            click.echo(text(objects) + "---")
            continue
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text(objects))
        except OSError as problem:
            raise Misused(f"cannot write to {folder!r}: {problem.strerror}", hint="--out FOLDER") from None


def plugin() -> None:
    """`kubectl tutti ...` is `tutti kube ...`."""
    import sys  # noqa: PLC0415

    from tutti.cli.main import run as run_command  # noqa: PLC0415

    sys.exit(run_command(["kube", *sys.argv[1:]]))
