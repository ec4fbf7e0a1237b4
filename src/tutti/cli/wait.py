"""`tutti wait`: until jobs have ended."""

import sys
import time
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.follow import outcome, tell_trouble
from tutti.cli.interrupt import INTERRUPTED
from tutti.cli.names import jobs_argument
from tutti.cli.output import hint, output_option, show
from tutti.errors import TuttiError


@click.command()
@jobs_argument
@click.option("--timeout", type=float, default=0.0, metavar="SECONDS", help="Give up after so long (never).")
@output_option
def wait(names: tuple[str, ...], timeout: float, output: str) -> None:
    """Wait until jobs have ended.

    Wait until the jobs have ended; ends with the first exit code that is not 0.
    """
    client = Client()
    limit = time.monotonic() + timeout if timeout else None
    try:
        rows = [_ended(client, name, limit, timeout) for name in names]
    except KeyboardInterrupt:
        hint("\nnobody waits any more; the jobs go on")
        sys.exit(INTERRUPTED)
    if output not in {"table", "wide"}:
        show({"schema": "tutti/v1", "jobs": rows, "total": len(rows), "next": 0}, output, list, list(names))
    failed = [row for row in rows if row["code"]]
    for row in failed:
        hint(outcome(row))
    sys.exit(int(failed[0]["code"]) if failed else 0)


def _ended(client: Client, name: str, limit: float | None, timeout: float) -> dict[str, Any]:
    """A job once it has ended."""
    told = ""
    while True:
        left = 60.0 if limit is None else max(limit - time.monotonic(), 0.0)
        answer = client.waited(name, min(left, 60.0))
        if answer["ended"]:
            return dict(answer["job"])
        told = tell_trouble(name, answer, told)
        if limit is not None and time.monotonic() >= limit:
            raise TuttiError(f"{name} has not ended within {timeout:g} s; it is {answer['job']['state']}")
