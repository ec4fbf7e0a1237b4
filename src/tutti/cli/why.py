"""`tutti why`: why a gang waits, when it will start, and what would start it now."""

from typing import TYPE_CHECKING

import click

from tutti.cli.connected import also_kube, whom
from tutti.cli.names import complete_jobs
from tutti.cli.output import empty_without_daemon, output_option, show

if TYPE_CHECKING:
    from tutti.api.client import Client
    from tutti.cli.recording import Recorded
    from tutti.kube.ask import Asking


@click.command()
@click.argument("name", required=False, shell_complete=complete_jobs)
@click.option("--view", "file", metavar="FILE", help="A recorded view; see `tutti replay`.")
@click.option(
    "--effort", type=click.IntRange(0, 10_000), default=60, metavar="N", help="Decisions to try remedies with."
)
@output_option
@also_kube
def why(name: str | None, file: str | None, effort: int, output: str, kube: bool, **cluster: str | None) -> None:
    """Say why a gang waits, and what would start it.

    Without a name: how many gangs wait for what.
    """
    if file is None:
        live(whom(kube, **cluster), name, effort, output)
        return
    from tutti.cli.recording import read  # noqa: PLC0415 - numpy and the engine are not needed for --help

    recorded = read(file)
    if name is None:
        summed(recorded, output)
    else:
        explained(recorded, name, effort, output)


def live(client: "Client | Asking", name: str | None, effort: int, output: str) -> None:
    """Ask the daemon, or a cluster."""
    from tutti.api.client import job_path  # noqa: PLC0415

    if name is not None:
        answer = client.get(job_path(name, "why"), effort=effort)
        told = {**answer["explanation"], **answer}
        show(told, output, lambda: answer["lines"], [name])
        return
    answer = empty_without_daemon(lambda: client.get("/v1/why"), {"reasons": []})
    rows = answer["reasons"]

    def lines() -> list[str]:
        from tutti.views.table import table  # noqa: PLC0415

        listed = [["reason", "jobs", "first"], *([r["reason"], str(r["jobs"]), ", ".join(r["first"])] for r in rows)]
        return table(listed, right=False) if rows else ["nobody waits"]

    show(answer, output, lines, [row["reason"] for row in rows])


def explained(recorded: "Recorded", name: str, effort: int, output: str) -> None:
    """Everything about one gang."""
    from tutti.engine.delays import MOST, with_delays  # noqa: PLC0415
    from tutti.engine.explain import explain  # noqa: PLC0415
    from tutti.engine.remedy import remedies  # noqa: PLC0415
    from tutti.views.why import why_json, why_lines  # noqa: PLC0415

    view, now, policy = recorded.view, recorded.now, recorded.policy
    found = with_delays(view, now, policy, explain(view, now, policy, name), min(effort, MOST))
    helps = remedies(view, now, policy, name, effort)
    show(why_json(found, helps), output, lambda: why_lines(found, helps), [name])


def summed(recorded: "Recorded", output: str) -> None:
    """How many wait for what."""
    from tutti.engine.decide import decide  # noqa: PLC0415
    from tutti.views.plan import reason_lines, waiting  # noqa: PLC0415

    plan = decide(recorded.view, recorded.now, recorded.policy)
    rows = [{"reason": str(token), "gangs": names} for token, names in waiting(plan)]
    whole = {"schema": "tutti/v1", "reasons": rows}
    show(whole, output, lambda: reason_lines(plan), [str(row["reason"]) for row in rows])
