"""The options that `run`, `submit`, `plan` and `shell` share, and the job they make.

Our own options end at the first positional word: everything from there on is the command.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from .file import from_data
from .job import Job
from .problems import BadJob, Problem

F = TypeVar("F", bound=Callable[..., Any])
SETTINGS: dict[str, Any] = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""Give these to a command as `context_settings`: options after the first word belong to the job."""

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-n", "--name"), {"help": "What to call it."}),
    (("-w", "--workers"), {"metavar": "N|MIN:MAX", "help": "How many ranks; 2:8 is elastic."}),
    (("--want",), {"type": int, "metavar": "N", "help": "How many to aim for between the two."}),
    (("-g", "--gpus"), {"type": int, "metavar": "K", "help": "Devices each worker sees (1)."}),
    (("-c", "--cpus"), {"metavar": "CORES", "help": "Cores of each worker: 4, 0.5, 500m."}),
    (("-m", "--mem"), {"metavar": "AMOUNT", "help": "Memory of each worker: 80G, 64GiB."}),
    (("--kind",), {"multiple": True, "metavar": "KIND", "help": "Kind of node that will do; best first."}),
    (("-t", "--time"), {"metavar": "TIME", "help": "How long it may run: 2h30m."}),
    (("--expect",), {"metavar": "TIME", "help": "How long it will probably run."}),
    (("-q", "--queue"), {"metavar": "QUEUE", "help": "Which queue it waits in."}),
    (("-p", "--priority"), {"type": int, "metavar": "N", "help": "Higher goes first."}),
    (("--begin",), {"metavar": "WHEN", "help": "Not before: 6h, or a date."}),
    (("--deadline",), {"metavar": "WHEN", "help": "When it must be done: 6h, or a date."}),
    (("--max-wait",), {"metavar": "TIME", "help": "After this long it gets a promise."}),
    (("--after",), {"multiple": True, "metavar": "[ok:|any:|failed:]JOB", "help": "Start once that job has ended."}),
    (("--array",), {"metavar": "N|A-B[%K]", "help": "A loose array of tasks."}),
    (("--env",), {"multiple": True, "metavar": "NAME=VALUE", "help": "A variable for the job."}),
    (("--cwd", "--chdir"), {"metavar": "FOLDER", "help": "Where it runs (here)."}),
    (("--size-rule",), {"metavar": "RULE", "help": "Legal sizes: multiple:8, power-of-two, 4,8,16, batch:512."}),
    (("--within",), {"metavar": "LEVEL", "help": "All members in one domain: rack."}),
    (("--near",), {"metavar": "LEVEL", "help": "The same, as a wish."}),
    (("--group",), {"metavar": "N@LEVEL", "help": "Groups of members that share a domain: 8@nvlink."}),
    (("--spread",), {"is_flag": True, "default": None, "help": "On many nodes rather than few."}),
    (("--per-node",), {"type": int, "metavar": "N", "help": "At most so many members on one node."}),
    (("--loose",), {"is_flag": True, "default": None, "help": "Members need not start together."}),
    (("--on-loss",), {"type": click.Choice(["fail", "shrink", "repair", "restart"]), "help": "When a member is lost."}),
    (("--retries",), {"type": int, "metavar": "N", "help": "How often to start again after a loss (10)."}),
    (("--on-limit",), {"type": click.Choice(["stop", "requeue", "keep"]), "help": "When its time is over."}),
    (("--hang",), {"metavar": "TIME", "help": "No progress for so long means that it hangs: a loss."}),
    (("--grace",), {"metavar": "TIME", "help": "Between the polite signal and the hard one (30s)."}),
    (("--signal",), {"metavar": "SIG@TIME", "help": "A signal some time before the end: USR1@120s."}),
    (("--resize",), {"type": click.Choice(["none", "restart", "live"]), "help": "How its size may change."}),
    (("--min-run",), {"metavar": "TIME", "help": "Once started, not interrupted for so long."}),
    (("--parkable",), {"is_flag": True, "default": None, "help": "May be set aside and resumed."}),
    (("--no-preempt",), {"is_flag": True, "default": None, "help": "Never interrupted for another job."}),
    (("--hold",), {"is_flag": True, "default": None, "help": "Wait until released."}),
    (("--framework",), {"metavar": "NAME", "help": "Whose variables to deliver, if not the recognised one."}),
    (("--as-processes",), {"is_flag": True, "default": None, "help": "A manifest: run its containers' commands."}),
    (("--hook",), {"multiple": True, "metavar": "EVENT=COMMAND", "help": "Run it, or post to it, at that moment."}),
)
NAMES = tuple(name for names, _ in _OPTIONS for name in names if name.startswith("--"))
_FLAGS = {"spread": ("arrange", "spread"), "loose": ("coupling", "loose"), "no_preempt": ("preemptible", False)}
_RENAMED = {"hold": "held", "hook": "hooks", "chdir": "cwd"}


def job_options(command: F) -> F:
    """Give a click command the options of a job; it receives them as keywords, for `job_from`."""
    for names, settings in reversed(_OPTIONS):
        command = click.option(*names, **settings)(command)
    return command


def job_from(options: dict[str, Any], command: tuple[str, ...] = (), base: Job | None = None) -> Job:
    """The job that options and a command make, over what a file already said. Raises BadJob with all that is wrong."""
    said = {key: value for key, value in data_from(options).items() if key != "as_processes"}
    if base is not None:
        said = {**msgspec.to_builtins(base), **said}
    if command:
        said["command"] = command
    return from_data(said, "the command line")


def data_from(options: dict[str, Any]) -> dict[str, Any]:
    """Keys and values of a job from what click parsed; options nobody gave are left out."""
    known = {name.lstrip("-").replace("-", "_") for name in NAMES}
    said: dict[str, Any] = {}
    for option, value in options.items():
        if option not in known or value is None or value == ():
            continue
        if option in _FLAGS:
            key, meant = _FLAGS[option]
            said[key] = meant
        else:
            said[_RENAMED.get(option, option)] = _pairs(option, value) if option in {"env", "hook"} else value
    return said


def from_words(line: str) -> dict[str, Any]:
    """The same from one line of text, as a `#tutti:` line says it. Raises ValueError, with what is wrong."""
    import shlex  # noqa: PLC0415 - for lines in scripts only

    parser = click.Command("job", params=[click.Option(names, **settings) for names, settings in _OPTIONS])
    try:
        context = parser.make_context("job", shlex.split(line), resilient_parsing=False, help_option_names=[])
    except (click.ClickException, ValueError) as wrong:
        raise ValueError(wrong.format_message() if isinstance(wrong, click.ClickException) else str(wrong)) from None
    return data_from(context.params)


def _pairs(option: str, entries: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(entry.partition("=")[::2] for entry in entries)
    bad = [entry for entry in entries if "=" not in entry or entry.startswith("=")]
    if bad:
        hint = f"write --{option} {'NAME=VALUE' if option == 'env' else 'finished=COMMAND'}"
        raise BadJob(
            [Problem(f"--{option}: {entry!r} has no name and value", hint=hint) for entry in bad], "the command line"
        )
    return pairs
