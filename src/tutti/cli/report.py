"""`tutti report`: where every device-second went, and how true forecasts were."""

import click

from tutti.api.client import Client
from tutti.cli.output import output_option, show

POINTS = 24
MOST_RUNS = 10_000


@click.command()
@click.option("--forecasts", is_flag=True, help="How true the start times were that people were told.")
@click.option("--users", is_flag=True, help="Device-hours of each user, for charging.")
@click.option("--since", metavar="TIME", help="What was done in the last so long, and waits by width: 7d.")
@click.option("--history", metavar="TIME", help="The last so long, stretch by stretch: 2h, 7d.")
@click.option("--perfetto", type=click.Path(dir_okay=False), help="Write who held what when, for Perfetto.")
@output_option
def report(
    forecasts: bool, users: bool, since: str | None, history: str | None, perfetto: str | None, output: str
) -> None:
    """Say where every device-second went.

    The goodput ledger: its parts add up to what the box could have done.
    """
    from tutti.views import report as view  # noqa: PLC0415 - not needed for --help

    client = Client()
    if not client.is_up():
        empty = {"schema": "tutti/v1", "installed_s": 0.0, "total": {}, "users": {}, "forecasts": [], "stretches": []}
        show(empty, output, lambda: ["no daemon runs here, so nothing is spent"])
        return
    if forecasts:
        told = client.get("/v1/report/forecasts")
        show(told, output, lambda: view.forecast_lines(told))
        return
    if history:
        past = client.get("/v1/report/history", since=_ago(history), points=POINTS)
        show(past, output, lambda: view.history_lines(past))
        return
    if perfetto:
        _write_trace(client, perfetto, _ago(since or "1d"))
        return
    if since:
        done = client.get("/v1/report/throughput", since=_ago(since))
        show(done, output, lambda: view.throughput_lines(done))
        return
    answer = client.get("/v1/report")
    show(answer, output, lambda: view.user_lines(answer) if users else view.report_lines(answer), list(answer["users"]))


def _write_trace(client: Client, path: str, since: int) -> None:
    import json  # noqa: PLC0415 - only for this option
    from pathlib import Path  # noqa: PLC0415

    from tutti.cli.output import hint  # noqa: PLC0415
    from tutti.errors import Misused  # noqa: PLC0415
    from tutti.views.trace import trace  # noqa: PLC0415

    answer = client.get("/v1/timeline", since=since, limit=MOST_RUNS)
    try:
        Path(path).write_text(json.dumps(trace(answer)))
    except OSError as problem:
        raise Misused(f"{path} cannot be written: {problem.strerror}", hint="another file") from None
    hint(f"{path}: open it at ui.perfetto.dev" + ("; only the latest runs are in it" if answer["cut"] else ""))


def _ago(time_back: str) -> int:
    """The moment so long ago, in microseconds."""
    import time  # noqa: PLC0415 - only for this option

    from tutti.jobs.durations import duration  # noqa: PLC0415

    return time.time_ns() // 1000 - duration(time_back)
