"""`tutti serve`: the page."""

from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.output import hint
from tutti.errors import NoDaemon


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Which port (that of last time, or any).")
@click.option("--host", default="127.0.0.1", help="Which address to listen on (127.0.0.1: this machine alone).")
@click.option("--name", "names", multiple=True, metavar="HOST", help="Another name by which the page may be called.")
@click.option("--new-token", is_flag=True, help="Make a new token; the old one is worth nothing from then on.")
@click.option("--open", "browse", is_flag=True, help="Open it in a browser too.")
@click.option("--close", is_flag=True, help="Close the page.")
@click.option("--devices", metavar="N", default="", help="Made-up devices, when this starts the daemon.")
def serve(browse: bool, close: bool, devices: str, new_token: bool, **where: Any) -> None:
    """Open the page.

    Open the page on a port of this machine, and print its address. The part after `#` is the token: whoever has it may
    submit and cancel jobs as you. The daemon serves the page; this command returns at once.
    """
    client = Client()
    if close:
        _close(client)
        return
    client.start(devices)
    opened = client.post("/v1/serve", {**where, "fresh": new_token})
    full = f"{opened['said']}#token={opened['token']}"
    click.echo(full)
    _warn(where["host"])
    if browse:
        import webbrowser  # noqa: PLC0415 - slow to import

        webbrowser.open(full)


def _close(client: Client) -> None:
    try:
        client.post("/v1/serve", {"close": True})
    except NoDaemon:
        (client.home.path / "page.json").unlink(missing_ok=True)
    hint("the page is closed")


def _warn(host: str) -> None:
    """Said where others could listen in."""
    from tutti.web.peer import is_loopback  # noqa: PLC0415

    if not is_loopback(host):
        hint("the page can be reached from other machines, and nothing on the way is encrypted")
        hint("  safer: leave --host out, and on the other machine: ssh -L PORT:localhost:PORT THIS-MACHINE")
