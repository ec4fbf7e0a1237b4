"""`tutti queues`: who may use how much, and does."""

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
    from tutti.views.table import table  # noqa: PLC0415 - not needed for --help

    answer = empty_without_daemon(lambda: whom(kube, **cluster).get("/v1/queues"), {"queues": []})
    found = answer["queues"]

    def lines() -> list[str]:
        head = ["queue", "weight", "guarantee", "limit", "running", "waiting", "deserved", "devices", "borrowed"]
        return table([[*head, "used (device-h)"], *map(_cells, found)]) if found else ["no daemon runs here"]

    show(answer, output, lines, [row["name"] for row in found])


def _cells(row: dict[str, Any]) -> list[str]:
    name = row["name"] + (" (closed)" if row["closed"] else "")
    numbers = [row["running"], row["waiting"], row.get("deserved"), row["devices"], row.get("borrowed")]
    told = ["-" if number is None else str(number) for number in numbers]
    limits = [amounts(row["guarantee"]), amounts(row["limit"])]
    return [name, str(row["weight"]), *limits, *told, f"{row['used_device_s'] / 3600:.2f}"]


def amounts(said: dict[str, int]) -> str:
    """Amounts of resources in few words."""
    return " ".join(f"{name}={amount}" for name, amount in said.items()) or "-"
