"""How answers are printed: a table for people, JSON and YAML for machines, names for pipes."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tutti.errors import TuttiError

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])
Answer = dict[str, Any]
FORMATS = ("table", "wide", "json", "yaml", "name")


def output_option(command: F) -> F:
    """The option -o that every command has which prints something."""
    return click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="How to print it (table).")(
        command
    )


printed = False
"""Whether data has been printed: it is one value, whatever goes wrong afterwards."""


def show(answer: Answer, output: str, lines: Callable[[], Sequence[str]], names: Sequence[str] = ()) -> None:
    """Print an answer in the form that was asked for."""
    global printed  # noqa: PLW0603 - a process is one command
    printed = True
    match output:
        case "json":
            click.echo(json.dumps(answer))
        case "yaml":
            import yaml  # noqa: PLC0415 - only those who ask for it wait for it

            # Written out twice rather than named once and referred to: not every reader follows references.
            yaml.SafeDumper.ignore_aliases = lambda _dumper, _data: True  # type: ignore[method-assign, assignment]
            click.echo(yaml.safe_dump(answer, sort_keys=False), nl=False)
        case "name":
            _all(names)
        case _:
            _all(lines())


def _all(lines: Sequence[str]) -> None:
    """All of them at once: each call writes through to the terminal."""
    if lines:
        click.echo("\n".join(lines))


def show_problem(problem: TuttiError, code: int, output: str) -> None:
    """An error for machines, where there is no data; people read the message."""
    if not printed and output in {"json", "yaml"}:
        show({"schema": "tutti/v1", **described(problem), "code": code}, output, list)


def described(problem: TuttiError) -> Answer:
    """An error as data."""
    told = {"error": problem.what, "where": problem.where, "hint": problem.hint, "code": problem.exit_code}
    return {key: value for key, value in told.items() if value}


def asked_for(arguments: Sequence[str]) -> str:
    """Which form a command line asks for, as far as one can tell without its command."""
    ours = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    for at, word in enumerate(ours):
        if word in {"-o", "--output"}:
            return ours[at + 1] if at + 1 < len(ours) else ""
        if word.startswith(("-o", "--output=")):
            return word.removeprefix("--output=").removeprefix("-o")
    return ""


def said(results: Sequence[Answer], output: str) -> None:
    """What became of orders: sentences for people, on standard error; data for machines."""
    if output in {"table", "wide"}:
        for one in results:
            if "error" not in one:
                hint(one["said"])
        return
    names = [name for one in results if "error" not in one for name in one.get("names", ())]
    show({"schema": "tutti/v1", "results": list(results)}, output, list, names)


def hint(text: str) -> None:
    """Something for people, beside the data."""
    click.echo(text, err=True)


def width() -> int:
    """Columns of the terminal; unlimited where nobody looks."""
    import shutil  # noqa: PLC0415 - it brings every way to compress a file

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000


def is_coloured() -> bool:
    """Whether colours are welcome."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _unfinished(journal: "Path") -> int:
    """Jobs that a daemon left behind when it was stopped."""
    import sqlite3  # noqa: PLC0415 - only where no daemon can be asked
    from contextlib import closing  # noqa: PLC0415

    try:
        with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as base:
            return int(base.execute("SELECT count(*) FROM jobs WHERE ended = 0").fetchone()[0])
    except sqlite3.Error:
        return 0


def empty_without_daemon(ask: Callable[[], Answer], empty: Answer) -> Answer:
    """Commands that only read answer 'nothing' where no daemon runs; of a service that is down nobody knows."""
    from tutti.api.home import home  # noqa: PLC0415
    from tutti.errors import Died, NoDaemon  # noqa: PLC0415

    try:
        return ask()
    except NoDaemon as gone:
        if home().is_shared or isinstance(gone, Died):
            raise
        if left := _unfinished(home().journal):
            number = "1 job has" if left == 1 else f"{left} jobs have"
            what = f"no daemon is running here, and {number} not ended"
            raise NoDaemon(what, gone.where, "tutti serve, or the next tutti run, starts one") from None
        return {"schema": "tutti/v1", **empty}
