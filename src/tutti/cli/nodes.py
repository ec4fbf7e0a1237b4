"""`tutti nodes`, `drain`, `undrain`: the box and its devices."""

import click

from tutti.api.client import Client
from tutti.cli.connected import also_kube, whom
from tutti.cli.output import empty_without_daemon, hint, is_coloured, output_option, show


@click.command()
@output_option
@also_kube
def nodes(output: str, kube: bool, **cluster: str | None) -> None:
    """Show nodes and devices.

    Show nodes with a cell for each device, and the widest gang that would start now.
    """
    from tutti.views.nodes import node_lines  # noqa: PLC0415 - not needed for --help

    answer = empty_without_daemon(
        lambda: whom(kube, **cluster).get("/v1/nodes"),
        {"nodes": [], "levels": [], "largest": 0, "source": "", "notes": []},
    )
    names = [node["name"] for node in answer["nodes"]]
    show(answer, output, lambda: node_lines(answer, is_coloured(), output == "wide"), names)


@click.command()
@click.argument("devices", nargs=-1, required=True, metavar="DEVICE|NODE...")
@click.option("--by", type=float, default=None, metavar="SECONDS", help="Gangs must have left by then (may finish).")
@click.option("--why", default="", help="What people are told.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
def drain(devices: tuple[str, ...], by: float | None, why: str, dry_run: bool) -> None:
    """Give devices nothing new.

    Give devices, or all of a node, nothing new; what runs there may finish.
    """
    client = Client()
    for device in devices:
        asked = {"why": why, "dry_run": dry_run, **({"by_s": by} if by is not None else {})}
        hint(client.post(f"/v1/devices/{device}/drain", asked)["said"])


@click.command()
@click.argument("devices", nargs=-1, required=True, metavar="DEVICE|NODE...")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
def undrain(devices: tuple[str, ...], dry_run: bool) -> None:
    """Use devices again."""
    client = Client()
    for device in devices:
        hint(client.post(f"/v1/devices/{device}/undrain", {"dry_run": dry_run})["said"])
