"""`tutti update`, `resize`, `move`: change a job that waits or runs."""

import tomllib
from typing import Any

import click

from tutti.api.client import Client, job_path
from tutti.cli.names import complete_queues, job_argument
from tutti.cli.output import output_option, said
from tutti.errors import Misused

LISTS = frozenset({"after"})
"""Keys that can be given several times, as at submission."""
dry = click.option("--dry-run", is_flag=True, help="Only say what would happen.")


def _change(name: str, keys: dict[str, Any], dry_run: bool, output: str) -> None:
    said([Client().post(job_path(name, "update"), {"set": keys, "dry_run": dry_run})], output)


@click.command(context_settings={"ignore_unknown_options": True})
@job_argument
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...", type=click.UNPROCESSED)
@dry
@output_option
def update(name: str, changes: tuple[str, ...], dry_run: bool, output: str) -> None:
    """Change time, priority ... of a job.

    Change keys of a job: time=3h priority=10 deadline=6h, or --time 3h as at submission. While it runs, only what can
    change then.
    """
    _change(name, _keys(changes), dry_run, output)


def _keys(changes: tuple[str, ...]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    words = iter(changes)
    for change in words:
        key, equals, value = change.removeprefix("--").partition("=")
        if not equals and change.startswith("--"):
            equals, value = "=", next(words, "")
        if not equals or not key or not value:
            raise Misused(f"{change!r} is no change", hint="time=3h priority=10")
        key, found = key.replace("-", "_"), _value(value)
        if key in LISTS and not isinstance(found, list):
            found = [*keys.get(key, ()), str(found)]
        keys[key] = found
    return keys


def _value(text: str) -> Any:
    """A value as people write it; in brackets, as in a job file."""
    if text.startswith(("[", "{")):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as wrong:
            raise Misused(f"{text!r} is no list or table: {wrong}", hint="after=[] or after='[\"NAME\"]'") from None
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if text.removeprefix("-").isdigit() else text


@click.command()
@job_argument
@click.argument("workers", metavar="N|MIN:MAX")
@dry
@output_option
def resize(name: str, workers: str, dry_run: bool, output: str) -> None:
    """Give a waiting or elastic job another size.

    Another size for a waiting job, or other bounds for an elastic one, which shrinks or grows into them while it runs.
    """
    _change(name, {"workers": workers, "want": 0}, dry_run, output)


@click.command()
@job_argument
@click.argument("queue", shell_complete=complete_queues)
@dry
@output_option
def move(name: str, queue: str, dry_run: bool, output: str) -> None:
    """Put a waiting job into another queue."""
    _change(name, {"queue": queue}, dry_run, output)
