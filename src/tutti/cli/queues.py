"""`tutti queues`: who may use how much, and does."""

from collections.abc import Callable, Iterator
from typing import Any

import click

from tutti.cli.connected import also_kube, whom
from tutti.cli.output import empty_without_daemon, output_option, show


@click.command()
@output_option
@also_kube
def queues(output: str, kube: bool, **cluster: str | None) -> None:
    """List queues, their limits and their use.

    List queues with their limits, who waits and runs in each, how many devices each deserves, holds and borrows, and
    what they have used.
    """
    answer = empty_without_daemon(lambda: whom(kube, **cluster).get("/v1/queues"), {"queues": []})
    found = answer["queues"]

    def lines() -> list[str]:
        return _table(found) if found else ["no daemon runs here"]

    show(answer, output, lines, [row["name"] for row in found])


def _table(found: list[dict[str, Any]]) -> list[str]:
    """The queues, and below them what their users may have; a column that nobody needs is left out."""
    from tutti.views.table import table  # noqa: PLC0415 - not needed for --help

    columns = {name: cell for name, cell in COLUMNS.items() if name != "at once" or any(map(_is_bounded, found))}
    rows = [list(columns), *([cell(row) for cell in columns.values()] for row in found)]
    return [*table(rows), *(line for row in found for line in _bounds(row))]


def _is_bounded(row: dict[str, Any]) -> bool:
    return row.get("max_running") is not None


def _at_once(row: dict[str, Any]) -> str:
    return f"{row.get('counted') or 0} of {row['max_running']}" if _is_bounded(row) else "-"


def _bounds(row: dict[str, Any]) -> Iterator[str]:
    """What users and groups may have, a line for each bound."""
    every = {"users": ["*"], "limit": row["user_limit"]} if row.get("user_limit") else None
    for bound in (*(row.get("bounds") or ()), *([every] if every else [])):
        who = [*(_user(user) for user in bound.get("users") or ()), *(f"group {g}" for g in bound.get("groups") or ())]
        most = [f"at most {bound['max_running']} running"] if bound.get("max_running") is not None else []
        most += [f"at most {amounts(bound['limit'])}"] if bound.get("limit") else []
        yield f"{row['name']}: {', '.join(who) or 'nobody'}: {', '.join(most) or 'no bound'}"


def _user(name: str) -> str:
    return "every other user" if name == "*" else f"user {name}"


def _number(field: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: "-" if row.get(field) is None else str(row[field])


def amounts(said: dict[str, int]) -> str:
    """Amounts of resources in few words."""
    return " ".join(f"{name}={amount}" for name, amount in said.items()) or "-"


COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "queue": lambda row: row["name"] + (" (closed)" if row["closed"] else ""),
    "weight": _number("weight"),
    "guarantee": lambda row: amounts(row["guarantee"]),
    "limit": lambda row: amounts(row["limit"]),
    "running": _number("running"),
    "at once": _at_once,
    "waiting": _number("waiting"),
    "deserved": _number("deserved"),
    "devices": _number("devices"),
    "borrowed": _number("borrowed"),
    "used (device-h)": lambda row: f"{row['used_device_s'] / 3600:.2f}",
}
