"""docs/reference/policy.md, made from the types of a policy. `python -m tests.engine.policy_page` writes it anew."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from tutti.engine import policy
from tutti.engine.model import Data
from tutti.engine.policy import ALL, DEPTH, DURATION, Break, Policy, Term
from tutti.engine.presets import DEFAULT, PRESETS
from tutti.engine.read_policy import spelled

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "policy.md"

HEAD = """# Policy files

A policy says in which order gangs start, how far ahead room is kept, and what may be taken back from whom. It is a
TOML file that names a preset and what differs from it; an empty file is the preset `{default}`.

```toml
preset = "easy"

[order]
terms = ["priority", "age"]
half_life = "14d"

[reserve]
depth = "all"
max_wait = "12h"
```

Durations are whole seconds (`90`) or texts such as `"90s"`, `"30m"`, `"2h30m"`, `"7d"`. A key that does not exist, a
value of the wrong kind or out of range is an error; all errors of a file are reported together, each with its line and
what to write instead. How the order and the shares are computed is explained in
[order and quota](../explanation/order-and-quota.md).

This page is made from the types (`python -m tests.engine.policy_page`), and a test fails when it is not up to date.

## Presets

| preset | the trade-off |
|---|---|
"""

TERMS = {
    Term.PRIORITY: "higher first",
    Term.PROMISED: "gangs that hold a promise first, by the start they were promised",
    Term.SLACK: "less time to spare first: deadline - now - estimated run time; gangs without a deadline last",
    Term.AGE: "earlier submitted first",
    Term.DOWNTIME: "higher cost of waiting so far first: the gang's cost per hour x time waited",
    Term.STRETCH: "fair wait over first: submitted + 2 x estimated run; over six hours counts as six, unknown as one",
    Term.SHORTEST: "shorter estimated run time first; gangs without an estimate last",
    Term.SMALLEST: "smaller first: the measured resource, or the largest part of the cluster over all resources",
    Term.LARGEST: "the opposite of `smallest`",
    Term.LEAST_ATTAINED: "less service so far first, in levels: members x run time kept, in steps that double",
    Term.WFP3: "(waited / run time)^3 x processors, larger first",
    Term.UNI: "waited / (log2(processors) x run time), larger first",
    Term.F1: "log10(run time) x processors + 870 x log10(submitted), in seconds, smaller first",
}
WORDS: dict[type, str] = {Term: "[term](#terms-of-an-order)", Break: "reason"}


def page() -> str:
    """The whole page."""
    presets = [f"| `{name}` | {preset.about} |" for name, preset in PRESETS.items()]
    tables = [(field.name, field.default) for field in msgspec.structs.fields(Policy)]
    sections = [section(name, record) for name, record in tables if isinstance(record, Data)]
    terms = [f"| `{term}` | {TERMS[term]} |" for term in Term]
    tail = ["", "## Terms of an order", "", "| term | who goes first |", "|---|---|", *terms]
    return HEAD.format(default=DEFAULT) + "\n".join([*presets, *sections, *tail]) + "\n"


def section(name: str, record: Data) -> str:
    """The keys of one table, with kind, default and meaning."""
    said = docstrings(type(record))
    rows = [
        f"| `{field.name}` | {kind(info.type)} | {default(info.type, field.default)} | {said[field.name]} |"
        for field, info in zip(msgspec.structs.fields(type(record)), fields_of(type(record)), strict=True)
    ]
    title = (type(record).__doc__ or "").partition("\n")[0]
    head = ["", f"## [{name}]", "", title, "", "| key | kind | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def fields_of(record: type) -> tuple[msgspec.inspect.Field, ...]:
    known = msgspec.inspect.type_info(record)
    assert isinstance(known, msgspec.inspect.StructType)
    return known.fields


def docstrings(record: type) -> dict[str, str]:
    """What stands below each field in the source."""
    body = ast.parse(inspect.getsource(policy)).body
    found = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == record.__name__)
    return dict(_pairs(found.body))


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            yield field.target.id, str(ast.literal_eval(text.value))


def kind(info: msgspec.inspect.Type) -> str:
    """What may be written, in words."""
    extra = info.extra if isinstance(info, msgspec.inspect.Metadata) else None
    match info.type if isinstance(info, msgspec.inspect.Metadata) else info:
        case msgspec.inspect.IntType(ge=least, le=most):
            if extra == DEPTH:
                return f'`"all"`, or 0 to {most}'
            return f"duration, at least {spelled(int(least or 0))}" if extra == DURATION else f"{least} to {most}"
        case msgspec.inspect.BoolType():
            return "`true` or `false`"
        case msgspec.inspect.EnumType(cls=words):
            return WORDS[words]
        case msgspec.inspect.VarTupleType(item_type=msgspec.inspect.EnumType(cls=words)):
            return f"list of {WORDS[words]}s"
        case _:
            return "text"


def default(info: msgspec.inspect.Type, value: object) -> str:
    """The value as a file would write it."""
    extra = info.extra if isinstance(info, msgspec.inspect.Metadata) else None
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int):
        return f'`"{spelled(value)}"`' if extra == DURATION else '`"all"`' if value == ALL and extra else f"`{value}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
    return f'`"{value}"`'


if __name__ == "__main__":
    PAGE.write_text(page())
