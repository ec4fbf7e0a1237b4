"""`tutti top`: the queue and the devices, redrawn when something changes."""

import contextlib
import sys
import time

import click

from tutti.api.client import Client
from tutti.cli.nodes import NOTHING
from tutti.cli.output import empty_without_daemon, is_coloured
from tutti.errors import NoDaemon

PAUSE_S, AWAY_S = 0.2, 1.0
"""Between two pictures, and until somebody asks again who is away."""


@click.command()
@click.option("--once", is_flag=True, help="Draw once and end; so it does where there is no terminal.")
def top(once: bool) -> None:
    """Watch the queue and the devices."""
    client = Client()
    if once or not sys.stdout.isatty():
        _draw(client, clears=False)
        return
    while True:
        _draw(client, clears=True)
        with contextlib.suppress(NoDaemon):
            for _ in client.events():
                time.sleep(PAUSE_S)
                _draw(client, clears=True)
        time.sleep(AWAY_S)


def _draw(client: Client, clears: bool) -> None:
    from tutti.views.nodes import node_lines  # noqa: PLC0415 - not needed for --help
    from tutti.views.queue import queue_lines  # noqa: PLC0415

    jobs = empty_without_daemon(lambda: client.get("/v1/jobs", limit=40), {"jobs": [], "total": 0})
    nodes = empty_without_daemon(lambda: client.get("/v1/nodes"), NOTHING)
    size = click.get_current_context().max_content_width or 120
    import shutil  # noqa: PLC0415

    columns, rows = shutil.get_terminal_size((size, 40))
    lines = [*node_lines(nodes, is_coloured()), "", *queue_lines(jobs["jobs"], columns, wide=False)]
    if jobs["total"] > len(jobs["jobs"]):
        lines.append(f"and {jobs['total'] - len(jobs['jobs'])} more")
    text = "\n".join(lines[: rows - 1] if clears else lines)
    sys.stdout.write(f"\x1b[H\x1b[2J{text}\n" if clears else f"{text}\n")
    sys.stdout.flush()
