"""`tutti shell`: a shell with devices of its own."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from tutti.api.client import Client, job_path
from tutti.cli.interrupt import Interrupt
from tutti.errors import Refused
from tutti.jobs.options import SETTINGS, job_options

HOLD = "trap 'exit 0' TERM INT HUP; while kill -0 {} 2>/dev/null; do sleep 5 & wait $!; done"
"""Holds the devices while the person works; the end of the shell ends it too, and so does the end of this command."""


@click.command(context_settings=SETTINGS)
@job_options
@click.option("--devices", metavar="N", default="", help="Made-up devices, when this starts the daemon.")
@click.argument("words", nargs=-1, metavar="[--] [COMMAND...]")
def shell(words: tuple[str, ...], devices: str, **options: Any) -> None:
    """Open a shell with devices of its own.

    Open a shell with devices of its own, or run a command there that needs a terminal.
    """
    from tutti.cli.submission import submitted  # noqa: PLC0415 - not needed for --help
    from tutti.cli.terminal import attached  # noqa: PLC0415

    client = Client()
    options = {**options, "name": options.get("name") or f"shell-{int(time.time()) % 100_000}"}
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    interrupt = Interrupt()
    row = submitted(client, options, ("/bin/sh", "-c", HOLD.format(os.getpid())), devices, interrupt)
    try:
        interrupt.let()
        folder = _up(client, row["name"])
        code = attached(folder, 0, list(words))
    finally:
        _end(client, row["name"])
    sys.exit(code)


def _leave(number: int, _frame: object) -> None:
    """A terminal that is closed, for one: the devices are given back all the same."""
    sys.exit(128 + number)


def _up(client: Client, name: str) -> Path:
    """Wait until the devices are ours."""
    from tutti.cli.follow import StatusLine  # noqa: PLC0415

    status = StatusLine(client, name)
    while True:
        page = client.get(job_path(name))
        if page["job"]["state"] == "running" and page["variables"].get("TUTTI_CHANNEL"):
            status.clear()
            return Path(page["variables"]["TUTTI_CHANNEL"].removeprefix("unix:")).parent
        if page["job"].get("ended_us"):
            status.clear()
            raise Refused(f"the shell did not come up: {page['job']['why']}", hint=f"tutti story {name}")
        status.refresh()
        time.sleep(0.02)


def _end(client: Client, name: str) -> None:
    row = client.get(job_path(name))["job"]
    if row.get("ended_us"):
        return
    if row["state"] == "running":
        client.post(job_path(name, "signal"), {"number": int(signal.SIGTERM)})
    else:
        client.post(job_path(name, "cancel"), {})
