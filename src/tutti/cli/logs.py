"""`tutti logs`: what a rank has written."""

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import job_argument
from tutti.cli.output import hint, output_option, show
from tutti.errors import NotFound


@click.command()
@job_argument
@click.option("-r", "--rank", type=click.IntRange(0), default=None, help="Which rank (the first that failed, else 0).")
@click.option("-f", "--follow", "follows", is_flag=True, help="Stay and show what comes.")
@click.option("-n", "--lines", type=click.IntRange(1), default=None, help="Only the last so many lines.")
@click.option("--all-ranks", is_flag=True, help="Every rank, each line with its number.")
@output_option
def logs(name: str, rank: int | None, follows: bool, lines: int | None, all_ranks: bool, output: str) -> None:
    """Show the output of a job.

    Show the output of a job: of the first rank that failed, else of rank 0.
    """
    client = Client()
    page = client.get(job_path(name))
    known = sorted(one["rank"] for one in page["ranks"])
    if rank is not None and known and rank not in known:
        raise NotFound(f"{name} has no rank {rank}", hint=f"one from {known[0]} to {known[-1]}")
    if follows and not page["job"].get("ended_us"):
        from tutti.cli.follow import follow  # noqa: PLC0415 - only for those who stay

        ranks = (known or list(range(page["job"]["max"]))) if all_ranks else [rank if rank is not None else 0]
        follow(client, page["job"], ranks)
        return
    if not page["ranks"] and not page["job"].get("ended_us"):
        hint(f"{name} is {page['job']['state']} and has written nothing yet; `tutti why {name}` says why")
    ranks = known if all_ranks else [-1 if rank is None else rank]
    found = [client.get(job_path(name, "logs"), rank=one, tail=4 << 20) for one in ranks]

    def printed() -> list[str]:
        return [f"[{one['rank']}] {line}" if all_ranks else line for one in found for line in _last(one["text"], lines)]

    show({"schema": "tutti/v1", "logs": found}, output, printed, [name])


def _last(text: str, lines: int | None) -> list[str]:
    found = text.removesuffix("\n").split("\n") if text else []
    return found[-lines:] if lines else found
