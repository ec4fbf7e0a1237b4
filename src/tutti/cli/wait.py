"""`tutti wait`: until jobs have ended."""

import sys

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import jobs_argument


@click.command()
@jobs_argument
@click.option("--timeout", type=float, default=0.0, metavar="SECONDS", help="Give up after so long (never).")
def wait(names: tuple[str, ...], timeout: float) -> None:
    """Wait until jobs have ended.

    Wait until the jobs have ended; ends with the first exit code that is not 0.
    """
    import time  # noqa: PLC0415

    from tutti.errors import TuttiError  # noqa: PLC0415

    client = Client()
    limit = time.monotonic() + timeout if timeout else None
    worst = 0
    for name in names:
        while True:
            left = 60.0 if limit is None else max(limit - time.monotonic(), 0.0)
            answer = client.get(job_path(name, "wait"), **{"for": int(min(left, 60.0))})
            if answer["ended"]:
                break
            if limit is not None and time.monotonic() >= limit:
                raise TuttiError(f"{name} has not ended within {timeout:g} s; it is {answer['job']['state']}")
        code = int(answer["job"]["code"] or 0)
        if code:
            click.echo(f"{name} {answer['job']['state']}: {answer['job']['why']}", err=True)
        worst = worst or code
    sys.exit(worst)
