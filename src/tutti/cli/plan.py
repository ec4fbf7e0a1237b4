"""`tutti plan`: what the scheduler is about to do, or what it would do with a job."""

import sys
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.output import empty_without_daemon, output_option, show
from tutti.jobs.options import SETTINGS, job_options

WOULD_WAIT = 1


@click.command(context_settings=SETTINGS)
@job_options
@output_option
@click.argument("words", nargs=-1, metavar="[--] [COMMAND...]")
def plan(words: tuple[str, ...], output: str, **options: Any) -> None:
    """Show the plan, or what would happen to a job.

    Without a job: the plan as it stands. With one: a dry run; ends with 0 if it would start now, else with 1.
    """
    client = Client()
    if not words:
        answer = empty_without_daemon(lambda: client.get("/v1/plan"), {"lines": ["nothing to do"], "actions": []})
        show(answer, output, lambda: answer["lines"])
        return
    sys.exit(planned(client, options, words, "", output))


def planned(client: Client, options: dict[str, Any], words: tuple[str, ...], devices: str, output: str) -> int:
    """A dry run of one job: 0 if it would start now."""
    from tutti.cli.submission import start, submission  # noqa: PLC0415 - not needed for --help

    sent = submission(options, words, only_look=True)
    start(client, devices)
    answer = client.post("/v1/plan", sent)
    show(answer, output, lambda: dry_lines(answer), [answer["job"]])
    return 0 if answer["fits"] else WOULD_WAIT


def dry_lines(answer: dict[str, Any]) -> list[str]:
    """What would happen, in words."""
    head = f"{answer['job']} would start now" if answer["fits"] else f"{answer['job']} would wait"
    return [head, *(f"  {line}" for line in answer["lines"])]
