"""Writes the boards for Grafana: one for a box, one for a cluster. Each panel is a line of a table.

`python -m tools.boards` writes them; a test fails when they are not up to date, or name a metric that does not exist.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "monitoring"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDE = 24


class Panel(NamedTuple):
    """One picture: what it is called, what is drawn and under which name, in which unit, how wide (of 24)."""

    title: str
    expr: str
    legend: str
    unit: str
    says: str
    width: int = 12
    kind: str = "timeseries"
    stacked: bool = False


BOX = (
    Panel(
        "Goodput",
        'sum(rate(tutti_device_seconds_total{spent="useful-kept"}[10m])) / sum(rate(tutti_device_seconds_total[10m]))',
        "useful",
        "percentunit",
        "Useful device time over all device time.",
        6,
        "stat",
    ),
    Panel("Devices", "tutti_devices", "{{state}}", "short", "Busy, free, out of use.", 6, "stat"),
    Panel("Jobs", "sum by (state) (tutti_jobs)", "{{state}}", "short", "Jobs that have not ended.", 6, "stat"),
    Panel(
        "Broken promises",
        'tutti_trouble_total{trouble="violation"}',
        "violations",
        "short",
        "What the checker stopped; must stay 0.",
        6,
        "stat",
    ),
    Panel(
        "Where device time goes",
        "sum by (spent) (rate(tutti_device_seconds_total[10m]))",
        "{{spent}}",
        "short",
        "The goodput ledger, in devices; the areas add up to all devices.",
        WIDE,
        stacked=True,
    ),
    Panel("Why jobs wait", "tutti_waiting_jobs", "{{reason}}", "short", "By the token of the reason.", stacked=True),
    Panel("Jobs by queue", "sum by (queue) (tutti_jobs)", "{{queue}}", "short", "Running and waiting.", stacked=True),
    Panel(
        "Jobs ended an hour",
        "sum by (state) (increase(tutti_ended_jobs_total[1h]))",
        "{{state}}",
        "short",
        "By how they ended.",
    ),
    Panel(
        "Time of a decision",
        "rate(tutti_decision_seconds_total[10m]) / rate(tutti_decisions_total[10m])",
        "mean",
        "s",
        "How long the engine thinks.",
    ),
)

KUBERNETES = (
    Panel("Gangs", "max by (state) (tutti_kube_gangs)", "{{state}}", "short", "Known gangs, by state.", 6, "stat"),
    Panel("Leader", "sum(tutti_kube_leader)", "leaders", "short", "Exactly one replica leads.", 6, "stat"),
    Panel(
        "Bound in part",
        "max(tutti_kube_held_partial)",
        "gangs",
        "short",
        "Gangs that can be neither finished nor undone; must be 0.",
        6,
        "stat",
    ),
    Panel("Nodes", "max(tutti_kube_nodes)", "nodes", "short", "Nodes known.", 6, "stat"),
    Panel(
        "Why gangs wait",
        "max by (reason) (tutti_kube_waiting)",
        "{{reason}}",
        "short",
        "By the token of the reason.",
        WIDE,
        stacked=True,
    ),
    Panel("Binds", "sum(rate(tutti_kube_binds_total[5m]))", "binds a second", "short", "Pods bound."),
    Panel(
        "Binds refused",
        "sum by (status) (rate(tutti_kube_bind_failures_total[5m]))",
        "{{status}}",
        "short",
        "By the answer of the API server.",
    ),
    Panel(
        "Exposure",
        "histogram_quantile(0.99, sum by (le) (rate(tutti_kube_exposure_seconds_bucket[15m])))",
        "99 of 100",
        "s",
        "How long a gang was bound in part.",
    ),
    Panel(
        "Skew of starts",
        "histogram_quantile(0.99, sum by (le) (rate(tutti_kube_start_skew_seconds_bucket[15m])))",
        "99 of 100",
        "s",
        "Between the first and the last bind of a gang.",
    ),
    Panel(
        "Time of a decision",
        "histogram_quantile(0.99, sum by (le) (rate(tutti_kube_decision_seconds_bucket[15m])))",
        "99 of 100",
        "s",
        "How long the engine thinks.",
    ),
    Panel(
        "Evictions",
        "sum(rate(tutti_kube_evictions_total[15m]))",
        "evictions a second",
        "short",
        "Pods that made room.",
    ),
    Panel(
        "Talk with the API server",
        "sum(rate(tutti_kube_requests_total[5m]))",
        "requests a second",
        "short",
        "Everything that is asked and written.",
    ),
    Panel(
        "Trouble", "sum by (trouble) (increase(tutti_kube_trouble_total[1h]))", "{{trouble}}", "short", "In an hour."
    ),
)
BOARDS = {"box": ("Tutti: one box", BOX), "kubernetes": ("Tutti: Kubernetes", KUBERNETES)}


def board(uid: str, title: str, panels: tuple[Panel, ...]) -> dict[str, Any]:
    """A board as Grafana imports it."""
    chooser = {"name": "source", "label": "Data", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"tutti-{uid}",
        "title": title,
        "tags": ["tutti"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [chooser]},
        "panels": list(_laid_out(panels)),
    }


def _laid_out(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Panels from left to right, a new row where the last one is full."""
    across = down = tall = 0
    found = []
    for number, panel in enumerate(panels, 1):
        if across + panel.width > WIDE:
            across, down = 0, down + tall
        tall = 4 if panel.kind == "stat" else 8
        found.append(_panel(number, panel) | {"gridPos": {"x": across, "y": down, "w": panel.width, "h": tall}})
        across += panel.width
    return found


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    drawn = {"fillOpacity": 40, "stacking": {"mode": "normal"}} if panel.stacked else {}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": panel.expr, "legendFormat": panel.legend}],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": drawn}, "overrides": []},
    }


def text(name: str) -> str:
    """The file of one board."""
    return json.dumps(board(name, *BOARDS[name]), indent=1) + "\n"


def main() -> None:
    """Write them all."""
    for name in BOARDS:
        (FOLDER / f"{name}.json").write_text(text(name))


if __name__ == "__main__":
    main()
