"""Write everything into a folder: the page, the images, the table of jobs, the figures."""

import csv
import json
from pathlib import Path

from tutti.errors import Refused
from tutti.sim.experiment import Case, Outcome
from tutti.sim.record import Record
from tutti.sim.traces.log import Log, split_name

COLUMNS = ("submitted", "started", "ended", "work")


def write_report(case: Case, found: list[Outcome], folder: Path) -> list[Path]:
    """All files of the report. The table of jobs is written even where nothing can be drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [write_jobs(case.log, outcome, folder / f"jobs-{outcome.metrics.policy}.csv") for outcome in found]
    written.append(_figures(case, found, folder / "figures.json"))
    try:
        from .images import write_images  # noqa: PLC0415 - heavy, and an extra of its own
        from .page import write_page  # noqa: PLC0415
    except ImportError as missing:
        raise Refused(
            f"the pictures need {missing.name}, which is not installed; the table of jobs was written to {folder}.",
            hint="pip install 'tutti-scheduler[report]'",
        ) from None
    return [write_page(case, found, folder / "report.html"), *written, *write_images(case, found, folder)]


def write_jobs(log: Log, outcome: Outcome, path: Path) -> Path:
    """One row per job, times in seconds; empty where it never came to that. The line is that of the trace."""
    record = outcome.record
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        names = [f"{name}_s" for name in COLUMNS]
        out.writerow(
            [
                "job",
                "user",
                "queue",
                "devices",
                *names,
                "wait_s",
                "runs",
                "interruptions",
                "promised_s",
                "state",
                "line",
            ]
        )
        out.writerows(_row(log, record, row) for row in range(len(record)))
    return path


def _row(log: Log, record: Record, row: int) -> list[object]:
    state = record.state_of(row)
    times = [_time(getattr(record, name)[row]) for name in COLUMNS]
    line, called = split_name(log, record.names[row])
    return [
        called,
        record.users[row],
        record.queues[row],
        record.width[row],
        *times,
        _time(record.started[row] - record.submitted[row]) if record.started[row] >= 0 else "",
        record.runs[row],
        record.interruptions[row],
        _time(record.promised[row]),
        state.value if state else "open",
        line,
    ]


def _time(at: int) -> str:
    return f"{at / 1e6:.6f}".rstrip("0").rstrip(".") if at >= 0 else ""


def _figures(case: Case, found: list[Outcome], path: Path) -> Path:
    data = {
        "schema": "tutti/v1",
        "trace": case.log.source,
        "results": [outcome.metrics.as_json() for outcome in found],
        "ledger": {outcome.metrics.policy: outcome.report.total for outcome in found},
    }
    path.write_text(json.dumps(data, indent=1))
    return path
