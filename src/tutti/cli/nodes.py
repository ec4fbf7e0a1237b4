"""`tutti nodes`, `drain`, `undrain`: the box and its devices."""

from urllib.parse import quote

import click

from tutti.api.client import Client
from tutti.cli.connected import also_kube, whom
from tutti.cli.names import devices_argument
from tutti.cli.output import empty_without_daemon, is_coloured, output_option, said, show

NOTHING = {"nodes": [], "levels": [], "largest": 0, "source": "", "notes": []}
"""What there is without a daemon."""


@click.command()
@click.option("--topology", is_flag=True, help="Racks and the like, with what is free in each.")
@output_option
@also_kube
def nodes(topology: bool, output: str, kube: bool, **cluster: str | None) -> None:
    """Show nodes and devices.

    Show nodes with a cell for each device, and the widest gang that would start now.
    """
    from tutti.views.nodes import node_lines, topology_lines  # noqa: PLC0415 - not needed for --help

    answer = empty_without_daemon(
        lambda: whom(kube, **cluster).get("/v1/nodes"),
        NOTHING,
    )
    names = [node["name"] for node in answer["nodes"]]
    wide = output == "wide"
    show(answer, output, lambda: topology_lines(answer) if topology else node_lines(answer, is_coloured(), wide), names)


@click.command()
@devices_argument
@click.option("--within", "--by", metavar="TIME", help="Gangs must have left by then: 120s (may finish).")
@click.option("--why", default="", help="What people are told.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@output_option
def drain(devices: tuple[str, ...], within: str | None, why: str, dry_run: bool, output: str) -> None:
    """Give devices nothing new.

    Give devices, or all of a node, nothing new; what runs there may finish.
    """
    asked: dict[str, object] = {"why": why, "dry_run": dry_run}
    if within is not None:
        from tutti.jobs.durations import duration  # noqa: PLC0415 - only for this option

        asked["by_s"] = duration(within) / 1_000_000
    _each(devices, "drain", asked, output)


@click.command()
@devices_argument
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@output_option
def undrain(devices: tuple[str, ...], dry_run: bool, output: str) -> None:
    """Use devices again."""
    _each(devices, "undrain", {"dry_run": dry_run}, output)


def _each(devices: tuple[str, ...], verb: str, asked: dict[str, object], output: str) -> None:
    client = Client()
    paths = [f"/v1/devices/{quote(device, safe='')}/{verb}" for device in devices]
    said([client.post(path, asked) for path in paths], output)
