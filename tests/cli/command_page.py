"""docs/reference/command.md, made from the commands themselves: `python -m tests.local.pages` writes it."""

import inspect
from collections.abc import Iterator

import click

from tutti.cli.commands import COMMANDS
from tutti.cli.main import make_group
from tutti.jobs.options import job_options

HEAD = """# The command

```text
tutti [--debug] COMMAND [ARGS]...
```

| option | meaning |
|---|---|
| `-h`, `--help` | help, for `tutti` and for every command |
| `--version` | the version, one line |
| `--debug` | show the traceback when something goes wrong; before the command |

| variable | meaning |
|---|---|
| `TUTTI_HOME` | the folder of one scheduler: socket, journal, configuration, logs (`~/.local/state/tutti`) |
| `TUTTI_DEVICES` | made-up devices for the daemon that is started: `8`, `4x8`, `2x4x8:h100` |
| `TUTTI_LOCKS` | where real devices and ports are locked against other schedulers (`/run/lock/tutti`) |
| `NO_COLOR` | no colours |
| `TUTTI_DEBUG` | anything but empty or `0`: the same as `--debug` |

This page is made from the commands (`python -m tests.local.pages`).

## The options of a job

`run`, `submit`, `shell`, `plan` and `explain-job` share them; each has a key in a [job file](job-file.md). They end at
the first word that is no option: everything from there on is the job's own.
"""

TAIL = """
## What `-o json` prints

One object with `schema: "tutti/v1"`, as the type of this name in the [schema](api.schema.json) says. Fields are only
ever added; one that is missing is not known.

| command | type |
|---|---|
TYPES

## Errors

Errors go to stderr and say what is wrong, where (if there is a where) and what to try:

```text
error: there is no command 'vresion'.
  try: tutti version
```

With `-o json` or `-o yaml` the same is data on stdout, as `Problem` in the [schema](api.schema.json) says; where orders
were given about several things, each has an entry of its own.

A mistake never shows a traceback unless asked for. An error that begins with *this is a bug in Tutti* is one;
[report it](../how-to/report-a-problem.md).

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | the command or its input is not well formed |
| 3 | the thing named does not exist |
| 4 | understood, and refused |
| 5 | no daemon is running |
| 130 | interrupted from the keyboard |

Commands that wait for a job (OWN) end with the job's own exit code instead, a signal being
128 and its number, and with 125 when it was Tutti that failed.
"""

PRINTED = {
    "Jobs": ("queue", "submit", "wait"),
    "JobPage": ("show",),
    "Why": ("why NAME",),
    "Reasons": ("why",),
    "Story": ("story",),
    "LogsOf": ("logs",),
    "Nodes": ("nodes",),
    "Queues": ("queues",),
    "Report": ("report", "report --users"),
    "Forecasts": ("report --forecasts",),
    "Throughput": ("report --since",),
    "ReportHistory": ("report --history",),
    "PlanAnswer": ("plan", "submit --dry-run"),
    "Outlook": ("what-if",),
    "Audit": ("audit",),
    "Config": ("config", "config --path"),
    "Findings": ("doctor",),
    "Done": ("backup",),
    "Results": ("cancel", "hold", "release", "retry", "update", "resize", "move", "drain", "undrain", "stop",
                "config --check", "config --reload"),
}  # fmt: skip
"""Which type of the schema each command prints."""

MORE = {
    "replay": "`-` reads standard input; files may be compressed with gzip. If the file holds the plan that was made "
    "then, as a second line, the two are compared to the byte, and a difference ends with exit code 4 and the names of "
    "the gangs it is about.",
    "simulate": "[The simulator](simulate.md) has a page of its own.",
    "sbatch": "A script with `#SBATCH` lines (or `#PBS`, `#BSUB`, `# flux:`), or `--wrap COMMAND`. It runs once, with "
    "everything the job asked for, and finds the variables it expects and an `srun` that starts tasks inside the job. "
    "[From Slurm](../how-to/from-slurm.md).",
    "squeue": "`-o` takes `%i %j %u %P %t %T %M %l %L %D %C %R %N %r %S %p %o %b`.",
    "sinfo": "Nodes by partition (a queue) and state: `idle`, `mix`, `alloc`, `drain` or `down`.",
    "srun": "Each task has its number and its share of the devices.",
    "train": "Ends with the exit code of the loop; `tutti train --help` lists the options of [the library](train.md).",
    "kube": "`queue`, `queues`, `why`, `story`, `nodes` and `what-if` are the commands above with `--kube`; "
    "`kubectl tutti` is "
    "`tutti kube`. See [Kubernetes](kubernetes.md).",
    "serve": "[How to use the page](../how-to/use-the-page.md)",
    "setup": "[Share a box](../how-to/share-a-box.md)",
}
"""What a command's own help leaves to the documentation."""


def command_page() -> str:
    """The whole page."""
    group = make_group(COMMANDS)
    context = click.Context(group, info_name="tutti")
    parts = [HEAD, *_table(_shared()), "", "## Commands"]
    for name, entry in COMMANDS.items():
        command = group.get_command(context, name)
        assert command is not None
        parts += ["", *_section(name, entry.says, command, context)]
    types = "\n".join(f"| {', '.join(f'`{name}`' for name in names)} | `{kind}` |" for kind, names in PRINTED.items())
    own = ", ".join(f"`{name}`" for name, entry in COMMANDS.items() if entry.own_failure is not None)
    return "\n".join([*parts, TAIL.replace("OWN", own).replace("TYPES", types)])


def _section(name: str, says: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"### `tutti {name}`", "", "```text", f"tutti {name} {usage}", "```", "", says)
    rest = inspect.cleandoc(command.help or "").partition("\n")[2].strip()
    for text in filter(None, (rest.replace("\b\n", ""), MORE.get(name, ""))):
        yield from ("", text)
    if isinstance(command, click.Group):
        yield from ("", "| command | meaning |", "|---|---|")
        for word, one in sorted(command.commands.items()):
            yield f"| `tutti {name} {word}` | {_cell(one.get_short_help_str(200))} |"
    shared = {param.name for param in _shared()}
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    own = [option for option in options if option.name not in shared or len(options) < len(shared)]
    if len(own) < len(options):
        yield from ("", "It takes [the options of a job](#the-options-of-a-job).")
    if own:
        yield from ("", *_table(own))


def _shared() -> list[click.Option]:
    """The options of a job."""

    @click.command()
    @job_options
    def some(**_options: object) -> None: ...

    return [param for param in some.params if isinstance(param, click.Option)]


def _table(options: list[click.Option]) -> list[str]:
    return ["| option | meaning |", "|---|---|", *(_row(option) for option in options)]


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return f"| {names}{'' if option.is_flag else ' ' + _cell(_takes(option))} | {_cell(option.help or '')} |"


def _takes(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(option.type.choices)
    return {"integer": "N", "integer range": "N", "float": "NUMBER", "path": "PATH"}.get(option.type.name, "TEXT")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
