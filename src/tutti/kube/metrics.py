"""What the scheduler counts, as Prometheus reads it. The table in the documentation is made from METRICS."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from tutti.drive.notice import Trouble

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metric(NamedTuple):
    """One figure: its name, kind, labels and meaning."""

    name: str
    kind: str
    says: str
    label: str = ""


METRICS = (
    Metric("tutti_kube_binds_total", "counter", "Pods bound."),
    Metric("tutti_kube_bind_failures_total", "counter", "Binds that were refused, by answer.", "status"),
    Metric("tutti_kube_starts_total", "counter", "Gangs that were started whole."),
    Metric("tutti_kube_undone_total", "counter", "Starts that were undone."),
    Metric("tutti_kube_held_partial", "gauge", "Gangs bound in part that can be neither finished nor undone."),
    Metric("tutti_kube_evictions_total", "counter", "Pods evicted."),
    Metric("tutti_kube_evictions_blocked_total", "counter", "Evictions a disruption budget did not allow yet."),
    Metric("tutti_kube_spared_total", "counter", "Gangs that disruption budgets kept from leaving, and that run on."),
    Metric(
        "tutti_kube_exposure_seconds",
        "histogram",
        "How long a gang was bound in part, below its minimum, until it was whole or empty.",
    ),
    Metric("tutti_kube_decision_seconds", "histogram", "Time of one decision."),
    Metric("tutti_kube_start_skew_seconds", "histogram", "Between the first and the last bind of a gang."),
    Metric("tutti_kube_gangs", "gauge", "Gangs known, by state.", "state"),
    Metric("tutti_kube_waiting", "gauge", "Gangs that wait, by reason.", "reason"),
    Metric("tutti_kube_nodes", "gauge", "Nodes known."),
    Metric("tutti_kube_pods", "gauge", "Pods known."),
    Metric("tutti_kube_drift_total", "counter", "Differences that a full listing, or adding up all pods anew, found."),
    Metric("tutti_kube_relists_total", "counter", "Kinds that were listed again after a gap."),
    Metric(
        "tutti_kube_out_of_sight", "gauge", "Kinds whose stream is broken; without nodes or pods nothing is decided."
    ),
    Metric("tutti_kube_requests_total", "counter", "Requests sent to the API server."),
    Metric("tutti_kube_retries_total", "counter", "Requests that were sent again."),
    Metric("tutti_kube_trouble_total", "counter", "What went wrong in the loop, by kind.", "trouble"),
    Metric("tutti_kube_leader", "gauge", "1 while this replica is the leader."),
)


class Metrics:
    """The figures of one scheduler."""

    def __init__(self) -> None:
        # A counter that is not there before it counts has no first increase.
        self.values: dict[tuple[str, str], float] = {("tutti_kube_trouble_total", word.value): 0 for word in Trouble}
        self.buckets: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}
        self._known = {metric.name: metric for metric in METRICS}

    def add(self, name: str, amount: float = 1, label: str = "") -> None:
        """Count."""
        self.values[name, label] = self.values.get((name, label), 0) + amount

    def set(self, name: str, value: float, label: str = "") -> None:
        """A figure that goes up and down."""
        self.values[name, label] = value

    def replace(self, name: str, values: dict[str, int]) -> None:
        """All the labels of a gauge at once; those that are gone are 0."""
        for known in [label for found, label in self.values if found == name and label not in values]:
            self.values[name, known] = 0
        for label, value in values.items():
            self.values[name, label] = value

    def observe(self, name: str, seconds: float) -> None:
        """One more observation of a length of time."""
        buckets = self.buckets.setdefault(name, [0] * (len(SECONDS) + 1))
        buckets[bisect_left(SECONDS, seconds)] += 1
        self.sums[name] = self.sums.get(name, 0.0) + seconds

    def text(self) -> str:
        """All of it in the format Prometheus scrapes."""
        lines = [line for metric in METRICS for line in self._lines(metric)]
        return "\n".join(lines) + "\n"

    def _lines(self, metric: Metric) -> Iterable[str]:
        yield f"# HELP {metric.name} {metric.says}"
        yield f"# TYPE {metric.name} {metric.kind}"
        if metric.kind == "histogram":
            yield from self._histogram(metric.name)
            return
        found = {label: value for (name, label), value in self.values.items() if name == metric.name}
        for label, value in sorted(found.items() or [("", 0)]):
            name = f'{metric.name}{{{metric.label}="{label}"}}' if metric.label and label else metric.name
            yield f"{name} {value:g}"

    def _histogram(self, name: str) -> Iterable[str]:
        buckets, total = self.buckets.get(name, [0] * (len(SECONDS) + 1)), 0
        for bound, count in zip((*map(str, SECONDS), "+Inf"), buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self.sums.get(name, 0.0):g}"
        yield f"{name}_count {total}"
