"""The entry point: finds the command, runs it, and turns what went wrong into a message and an exit code."""

import gc
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

import click

import tutti
from tutti.cli.commands import COMMANDS, Entry
from tutti.cli.interrupt import INTERRUPTED
from tutti.errors import Died, Misused, TuttiError

COMPLETING = "_TUTTI_COMPLETE"


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def __init__(self, *, table: Mapping[str, Entry], **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # click types its keywords one by one
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, function = entry.target.partition(":")
        command: click.Command = getattr(import_module(module), function)
        return _completing(command) if COMPLETING in os.environ else command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            raise unknown_command(name, self.table)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.says) for name, entry in self.table.items()])


def _completing(command: click.Command) -> click.Command:
    from tutti.cli.names import complete_options  # noqa: PLC0415 - only shells that complete need it

    return complete_options(command)


def unknown_command(name: str, table: Mapping[str, Entry]) -> Misused:
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    close = get_close_matches(name, table, n=1, cutoff=0.5)
    return Misused(f"there is no command '{name}'.", hint=f"tutti {close[0]}" if close else "tutti --help")


def make_group(table: Mapping[str, Entry]) -> LazyGroup:
    return LazyGroup(
        name="tutti",
        table=table,
        help="Start distributed jobs whole, and say why they wait.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        params=[
            click.Option(
                ["--debug"], is_flag=True, expose_value=False, help="Show the traceback when something goes wrong."
            ),
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=print_version,
                help="Print the version.",
            ),
        ],
        no_args_is_help=True,
    )


def print_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"tutti {tutti.__version__}")
        ctx.exit()


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Who ends has no use for a last look through its memory, and whoever waits for the prompt has none either.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str], table: Mapping[str, Entry] = COMMANDS) -> int:
    """Run one command line and return its exit code; nothing is raised."""
    debug = wants_debug(arguments)
    try:
        try:
            return _run(arguments, table)
        except Died:
            _start_again()
            return _run(arguments, table)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message(), err=True)
        return Misused.exit_code
    except BrokenPipeError:
        # The reader went away (`tutti queue | head`); keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as problem:  # noqa: BLE001  # the last resort: everything becomes a message
        error = in_words(problem)
        code = exit_code(error, arguments, table)
        _for_machines(error, code, arguments)
        click.echo(_traceback() if debug else str(error), err=True)
        return code


def _for_machines(error: TuttiError, code: int, arguments: list[str]) -> None:
    """Who asked for JSON gets the error as JSON, too."""
    from tutti.cli.output import asked_for, show_problem  # noqa: PLC0415 - only where something is wrong

    with suppress(Exception):  # whatever it is, the message is printed
        show_problem(error, code, asked_for(arguments))


def _run(arguments: list[str], table: Mapping[str, Entry]) -> int:
    return make_group(table).main(arguments, prog_name="tutti", standalone_mode=False) or 0


def _start_again() -> None:
    """Nobody shall hear that there is nothing where gangs run on, or jobs wait for a daemon that was killed."""
    from tutti.api.client import Client  # noqa: PLC0415 - a daemon rarely dies

    Client().start()
    click.echo("tutti: the daemon had died, and was started again", err=True)


def _traceback() -> str:
    import traceback  # noqa: PLC0415 - it costs more than all the rest of this module, and is rarely wanted

    return traceback.format_exc()


def wants_debug(arguments: list[str]) -> bool:
    ours = arguments[: next((i for i, word in enumerate(arguments) if not word.startswith("-")), len(arguments))]
    return "--debug" in ours or os.environ.get("TUTTI_DEBUG", "") not in {"", "0"}


def in_words(problem: Exception) -> TuttiError:
    """Any exception as one of ours: a click complaint is a misuse, the unexpected is a bug and says so."""
    match problem:
        case TuttiError():
            return problem
        case click.UsageError():
            path = problem.ctx.command_path if problem.ctx else "tutti"
            return Misused(problem.format_message(), hint=f"{path} --help")
        case click.ClickException():
            return TuttiError(problem.format_message())
        case _ if (said := _misread(problem)) is not None:
            return said
        case _:
            bug = f"{type(problem).__name__}: {problem}"
            return TuttiError(f"this is a bug in Tutti. {bug}", hint="the same with `tutti --debug ...`, and report it")


def _misread(problem: Exception) -> TuttiError | None:
    """A value that somebody wrote and nobody can read."""
    from tutti.jobs.problems import Misread  # noqa: PLC0415 - only where something is wrong

    return Misused(problem.what, hint=problem.hint or None) if isinstance(problem, Misread) else None


def exit_code(error: TuttiError, arguments: list[str], table: Mapping[str, Entry]) -> int:
    command = next((word for word in arguments if not word.startswith("-")), "")
    own_failure = table[command].own_failure if command in table else None
    return error.exit_code if own_failure is None else own_failure
