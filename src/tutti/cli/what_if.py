"""`tutti what-if`: what starts when, before and after a change of a recorded cluster."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tutti.cli.connected import also_kube, whom
from tutti.cli.output import hint, output_option, show
from tutti.errors import NoDaemon

if TYPE_CHECKING:
    from tutti.sim.what_if import Answer

NOBODY = "nobody waits, before or after"


@click.command(name="what-if")
@click.argument("snapshot", type=click.Path(path_type=Path), required=False)
@click.option("--add-nodes", multiple=True, metavar="NxG[:KIND]", help="More nodes: 8x8, or 8x8:h100.")
@click.option("--remove", multiple=True, metavar="KEY=VALUE", help="Fewer nodes: node=n3, rack=b, kind=a100.")
@click.option("--queue", multiple=True, metavar="QUEUE.FIELD=VALUE", help="Another weight, limit or guarantee.")
@click.option("--submit", multiple=True, metavar="FILE", help="One more gang, from a TOML file.")
@output_option
@also_kube
def what_if(
    snapshot: Path | None,
    output: str,
    kube: bool,
    kubeconfig: str | None,
    context: str | None,
    settings: str | None,
    **changes: tuple[str, ...],
) -> None:
    """Say what would start when if the cluster were different.

    Without a snapshot: this box, or the cluster, as it is now.
    """
    if snapshot is None:
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
            now = Path(folder) / "now.json"
            try:
                now.write_bytes(whom(kube, kubeconfig, context, settings).call("GET", "/v1/snapshot"))
            except NoDaemon:
                show({"schema": "tutti/v1", "starts": [], "cut": False}, output, lambda: [NOBODY])
                return
            _answered(now, output, changes)
        return
    _answered(snapshot, output, changes)


def _answered(snapshot: Path, output: str, changes: dict[str, tuple[str, ...]]) -> None:
    from tutti.sim.what_if import Changes, ask  # noqa: PLC0415 - numpy and the engine are not needed for --help

    answer = ask(snapshot, Changes(**changes))
    show(as_json(answer), output, lambda: lines_of(answer), [start.gang for start in answer.starts])
    if output not in {"table", "wide"}:
        return
    hint(f"assumes: {answer.assumes}")
    if answer.cut:
        hint("cut short: the budget ended before every gang had started")


def lines_of(answer: "Answer") -> list[str]:
    """The starts as a table."""
    from tutti.views.table import table  # noqa: PLC0415

    if not answer.starts:
        return [NOBODY]
    rows = [(s.gang, "not there" if s.is_new else _when(s.before), _when(s.after)) for s in answer.starts]
    return table([("gang", "before", "after"), *rows])


def _when(start: int | None) -> str:
    from tutti.sim.what_if import HORIZON  # noqa: PLC0415
    from tutti.views.table import time_s  # noqa: PLC0415

    if start is None:
        return f"not within {time_s(HORIZON / 1e6)}"
    return "now" if start == 0 else f"in {time_s(start / 1e6)}"


def as_json(answer: "Answer") -> dict[str, object]:
    """The answer for machines."""
    starts = [{"gang": s.gang, "before_s": _seconds(s.before), "after_s": _seconds(s.after)} for s in answer.starts]
    return {"schema": "tutti/v1", "starts": starts, "assumes": answer.assumes, "cut": answer.cut}


def _seconds(start: int | None) -> float | None:
    return None if start is None else start / 1e6
