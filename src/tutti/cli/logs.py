"""`tutti logs`: what a rank has written."""

import sys

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import job_argument
from tutti.cli.output import hint


@click.command()
@job_argument
@click.option("-r", "--rank", type=click.IntRange(0), default=None, help="Which rank (the first that failed, else 0).")
@click.option("-f", "--follow", "follows", is_flag=True, help="Stay and show what comes.")
@click.option("-n", "--lines", type=click.IntRange(1), default=None, help="Only the last so many lines.")
@click.option("--all-ranks", is_flag=True, help="Every rank, each line with its number.")
def logs(name: str, rank: int | None, follows: bool, lines: int | None, all_ranks: bool) -> None:
    """Show the output of a job.

    Show the output of a job: of the first rank that failed, else of rank 0.
    """
    client = Client()
    page = client.get(job_path(name))
    known = sorted(one["rank"] for one in page["ranks"])
    if follows and not page["job"].get("ended_us"):
        from tutti.cli.follow import follow  # noqa: PLC0415 - only for those who stay

        ranks = (known or list(range(page["job"]["max"]))) if all_ranks else [rank if rank is not None else 0]
        sys.exit(follow(client, page["job"], ranks, cancels=False))
    if not page["ranks"] and not page["job"].get("ended_us"):
        hint(f"{name} is {page['job']['state']} and has written nothing yet; `tutti why {name}` says why")
    for one in known if all_ranks else [-1 if rank is None else rank]:
        _print(client, name, one, lines, f"[{one}] " if all_ranks else "")


def _print(client: Client, name: str, rank: int, lines: int | None, prefix: str) -> None:
    text = client.get(job_path(name, "logs"), rank=rank, tail=4 << 20)["text"]
    found = text.splitlines()
    for line in found[-lines:] if lines else found:
        click.echo(f"{prefix}{line}")
