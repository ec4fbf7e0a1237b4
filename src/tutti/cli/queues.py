"""`tutti queues`: who may use how much, and does."""

import click

from tutti.api.client import Client
from tutti.cli.output import empty_without_daemon, output_option, show


@click.command()
@output_option
def queues(output: str) -> None:
    """List queues, their limits and their use.

    List queues with their limits, who waits and runs in each, and what they have used.
    """
    from tutti.views.table import table  # noqa: PLC0415 - not needed for --help

    answer = empty_without_daemon(lambda: Client().get("/v1/queues"), {"queues": []})
    found = answer["queues"]

    def lines() -> list[str]:
        rows = [["queue", "weight", "guarantee", "limit", "running", "waiting", "devices", "used (device-h)"]]
        rows += [
            [
                row["name"] + (" (closed)" if row["closed"] else ""), str(row["weight"]), amounts(row["guarantee"]),
                amounts(row["limit"]), str(row["running"]), str(row["waiting"]), str(row["devices"]),
                f"{row['used_device_s'] / 3600:.2f}",
            ]
            for row in found
        ]  # fmt: skip
        return table(rows) if found else ["no daemon runs here"]

    show(answer, output, lines, [row["name"] for row in found])


def amounts(said: dict[str, int]) -> str:
    """Amounts of resources in few words."""
    return " ".join(f"{name}={amount}" for name, amount in said.items()) or "-"
