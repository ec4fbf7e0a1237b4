"""`tutti queue`: who runs, who waits and for what."""

import os
from typing import Any

import click

from tutti.cli.connected import also_kube, whom
from tutti.cli.output import empty_without_daemon, hint, output_option, show, width

SHOWN = 100


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Jobs that have ended, too.")
@click.option("-A", "--all-users", is_flag=True, help="Jobs of every user.")
@click.option("-u", "--user", metavar="USER", default="", help="Jobs of one user.")
@click.option("-q", "--queue", "in_queue", metavar="QUEUE", default="", help="Jobs of one queue.")
@click.option("-n", "--limit", type=click.IntRange(1), default=None, help=f"At most so many ({SHOWN}; JSON 1000).")
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out the first so many.")
@click.option(
    "--columns", metavar="A,B,...", default="", help="Which columns: name,state,why,eta ...; or a set of yours."
)
@output_option
@also_kube
def queue(  # noqa: PLR0913, PLR0917 - one for each option
    everything: bool,
    all_users: bool,
    user: str,
    in_queue: str,
    limit: int | None,
    offset: int,
    columns: str,
    output: str,
    kube: bool,
    **cluster: str | None,
) -> None:
    """List jobs: who runs, who waits and for what.

    List jobs: yours that have not ended. The last column is the reason, the start, or where it runs.
    """
    from tutti.views.queue import known_columns, queue_lines  # noqa: PLC0415 - not needed for --help

    chosen = known_columns(named(columns).split(",")) if columns else []
    client = whom(kube, **cluster)
    everybody = all_users or kube or any(cluster.values()) or os.getuid() == 0
    who = user or ("" if everybody else own_name())
    most = limit or (1000 if output in {"json", "yaml", "name"} else SHOWN)
    asked: dict[str, Any] = {"which": "all" if everything else "active", "user": who, "queue": in_queue}
    answer = empty_without_daemon(
        lambda: client.get("/v1/jobs", **asked, limit=most, offset=offset), {"jobs": [], "total": 0}
    )
    jobs = answer["jobs"]
    show(answer, output, lambda: queue_lines(jobs, width(), output == "wide", chosen), [job["name"] for job in jobs])
    if answer["total"] > offset + len(jobs) and output in {"table", "wide"}:
        hint(f"{answer['total'] - offset - len(jobs)} more: tutti queue --offset {offset + len(jobs)}")


def named(columns: str) -> str:
    """The columns of a set that the configuration has under this name, or what was given."""
    from tutti.views.queue import COLUMNS  # noqa: PLC0415

    if "," in columns or columns in COLUMNS:
        return columns
    from tutti.api.home import home  # noqa: PLC0415
    from tutti.local.settings import read_settings  # noqa: PLC0415 - only names need it

    return read_settings(home().config).columns.get(columns, columns)


def own_name() -> str:
    """Who asks."""
    import pwd  # noqa: PLC0415

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
