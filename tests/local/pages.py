"""The reference pages that are made from the code: commands, configuration, HTTP API, metrics, the schema of the API.

`python -m tests.local.pages` writes them; a test fails when they are not up to date.
"""

import inspect
import json
from pathlib import Path

import msgspec

from tests.cli.command_page import command_page
from tutti.api import types
from tutti.api.routes import ROUTES
from tutti.local import settings
from tutti.local.explained import TABLES, meanings
from tutti.views.metrics import METRICS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def configuration() -> str:
    """docs/reference/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "One TOML file, `config.toml` in `TUTTI_HOME`; an empty or missing file is the default everywhere.",
        "`tutti config` prints it, `tutti config --explain` a file with every key, its default and its meaning to",
        "begin with, `tutti config --check FILE` says what is wrong with one, `tutti config --reload`",
        "puts it in force while jobs run (devices excepted: those count when the daemon starts). A key that does not",
        "exist is an error.",
        "",
        "```toml",
        "[policy]",
        'preset = "balanced"',
        "",
        "[queues.research]",
        "weight = 2",
        "guarantee = { gpu = 4 }",
        "",
        "[logs]",
        'keep = "14d"',
        "```",
        "",
        "This page is made from the types (`python -m tests.local.pages`).",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
        "| `[policy]` | | The keys of a [policy file](policy.md): a preset and what differs from it. |",
        *_rows(settings.Settings, skip={"policy", "queues", "devices", "logs", "history"}),
    ]
    for name, kind in TABLES.items():
        lines += [
            "",
            f"## [{name}]",
            "",
            inspect.cleandoc(kind.__doc__ or ""),
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        lines += _rows(kind)
    return "\n".join([*lines, "", "Back to [the documentation](../README.md).", ""])


def _rows(kind: type, skip: frozenset[str] | set[str] = frozenset()) -> list[str]:
    said = docs_of(kind)
    found = []
    for field in msgspec.structs.fields(kind):
        if field.name not in skip:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            shown = json.dumps(msgspec.to_builtins(default))
            found.append(f"| `{field.name}` | `{shown}` | {said.get(field.name, '')} |")
    return found


def docs_of(kind: type) -> dict[str, str]:
    """The line below each field."""
    return {name: text.replace("|", "\\|") for name, text in meanings(kind).items()}


def http() -> str:
    """docs/reference/http.md."""
    lines = [
        "# The HTTP API",
        "",
        "The daemon speaks HTTP/1.1 and JSON on a Unix socket, `daemon.sock` in `TUTTI_HOME`; the command line and the",
        "page use nothing else. Who asks is known from the socket itself. `tutti serve` opens the same routes on a TCP",
        "port of this machine, where everything that changes something needs a token (`Authorization: Bearer ...`;",
        "that of the daemon's own user is in the file `token`), and so does reading for anybody but that user. Whose",
        "token it is decides what may be done:",
        "[who may do what](../how-to/use-the-page.md#who-may-do-what).",
        "",
        'Every answer is one object with `schema: "tutti/v1"`; lists are under a key. Fields are only ever added.',
        "The types are published as a [JSON Schema](api.schema.json). An error has the fields `error`, `where`, `hint`",
        "and `code`, the last being the exit code of a command; its status is 400 (not well formed), 404, 409",
        "(refused) or 503.",
        "",
        "```console",
        "$ curl --unix-socket ~/.local/state/tutti/daemon.sock http://tutti/v1/jobs",
        "```",
        "",
        "From Python:",
        "",
        "```python",
        "import tutti",
        "",
        "box = tutti.connect()",
        'print(box.plan(["python", "train.py"], workers=4, time="2h"))  # would it start now?',
        'job = box.submit(["python", "train.py"], workers=4, time="2h")',
        "print(job.why())",
        "code = job.wait()",
        "print(job.logs(rank=0))",
        "box.cluster()  # in a notebook: a cell for each device",
        "```",
        "",
        "This page is made from the table of routes (`python -m tests.local.pages`).",
        "",
        "| route | what it answers or does |",
        "|---|---|",
        *(f"| `{route.method} {route.path}` | {route.says} |" for route in ROUTES),
        "",
        "`GET /v1/events` is a stream of server-sent events: `job`, `nodes` or `queues`, with a number that a client",
        "may send back as `Last-Event-ID` to miss nothing. What has changed is fetched by the other routes.",
        "",
        "Back to [the documentation](../README.md).",
        "",
    ]
    return "\n".join(lines)


def metrics() -> str:
    """docs/reference/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "`GET /metrics`, in the text format of Prometheus. Labels are bounded: no job, user or device is ever one.",
        "",
        "This page is made from the table in the code (`python -m tests.local.pages`).",
        "",
        "| metric | kind | labels | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.says} |"
            for name, metric in METRICS.items()
        ),
        "",
        "Back to [the documentation](../README.md).",
        "",
    ]
    return "\n".join(lines)


def schema() -> str:
    """docs/reference/api.schema.json."""
    kinds = [
        kind
        for _, kind in inspect.getmembers(types, inspect.isclass)
        if issubclass(kind, types.Wire) and kind not in {types.Wire, types.Answer}
    ]
    _, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tutti/v1", "$defs": components}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


PAGES = {
    "api.schema.json": schema,
    "command.md": command_page,
    "configuration.md": configuration,
    "http.md": http,
    "metrics.md": metrics,
}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())


if __name__ == "__main__":
    main()
