"""Every metric there is, in one table: the endpoint and the reference page are made from it."""

from collections.abc import Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """A figure: its kind, its labels (bounded: never a job, a user or a device), and what it says."""

    kind: str
    labels: tuple[str, ...]
    says: str


METRICS: dict[str, Metric] = {
    "tutti_jobs": Metric("gauge", ("queue", "state"), "Jobs that have not ended."),
    "tutti_waiting_jobs": Metric("gauge", ("reason",), "Jobs that wait, by the token of the reason."),
    "tutti_ended_jobs_total": Metric("counter", ("state",), "Jobs that have ended, as far as history is kept."),
    "tutti_devices": Metric("gauge", ("state",), "Devices: busy, free, or out of use."),
    "tutti_device_seconds_total": Metric(
        "counter", ("spent",), "The goodput ledger: device time by what it was spent on."
    ),
    "tutti_decisions_total": Metric("counter", (), "Decisions made by the engine."),
    "tutti_decision_seconds_total": Metric("counter", (), "Time spent on them."),
    "tutti_trouble_total": Metric("counter", ("trouble",), "What went wrong in the loop; `violation` must stay 0."),
}

Figures = Mapping[str, Mapping[tuple[str, ...], float]]


def exposition(figures: Figures) -> str:
    """The figures in the text format that Prometheus reads."""
    lines = []
    for name, metric in METRICS.items():
        lines += [f"# HELP {name} {metric.says}", f"# TYPE {name} {metric.kind}"]
        for labels, value in figures.get(name, {}).items():
            pairs = ",".join(f'{key}="{_escaped(label)}"' for key, label in zip(metric.labels, labels, strict=True))
            lines.append(f"{name}{{{pairs}}} {value:.10g}" if pairs else f"{name} {value:.10g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
