"""Several policies side by side, with the bound beside them."""

import math

from tutti.views.table import count, factor, part, table, time_s

from .bounds import Bounds
from .experiment import Outcome
from .metrics import Metrics
from .seeds import FIGURES, Interval, intervals

LABELS = (
    "jobs",
    "wait mean",
    "wait p50",
    "wait p99",
    "slowdown mean",
    "slowdown p50",
    "slowdown p99",
    "completion mean",
    "completion p50",
    "completion p99",
    "utilisation",
    "goodput",
    "interruptions",
    "fairness",
    "promise error",
    "part of its lead",
    "promises late",
    "makespan",
    "jobs simulated/s",
)


def side_by_side(found: list[Outcome], best: Bounds | None) -> list[str]:
    """One column for each policy, one row for each figure."""
    columns = [column_of(outcome.metrics) for outcome in found]
    heads = [outcome.called for outcome in found]
    if best is not None:
        columns.append(bound_column(best))
        heads.append("bound")
    rows = [("", *heads), *((label, *(column[at] for column in columns)) for at, label in enumerate(LABELS))]
    return table(rows)


def with_intervals(draws: list[list[Outcome]]) -> list[str]:
    """The means over all seeds, each with the half width of its interval; a policy that was cut off has fewer."""
    heads = [outcome.metrics.policy for outcome in draws[0]]
    sheets = [intervals([draw[at] for draw in draws if len(draw) > at]) for at in range(len(heads))]
    rows = [(name, *(_sure(name, sheet[name]) for sheet in sheets)) for name in FIGURES]
    return table([("", *heads), *rows])


def _sure(name: str, found: Interval) -> str:
    kind = name.partition(" ")[0]
    shown = {"wait": time_s, "completion": time_s, "slowdown": factor, "interruptions": factor}.get(kind, part)
    return f"{shown(found.mean)} ± {shown(found.half)}" if math.isfinite(found.half) else shown(found.mean)


def column_of(metrics: Metrics) -> list[str]:
    """The figures of one policy, in the order of the labels."""
    wait, slow, flow = metrics.wait_s, metrics.slowdown, metrics.completion_s
    return [
        count(metrics.jobs) if not metrics.stuck else f"{count(metrics.jobs)} ({metrics.stuck} not over)",
        *(time_s(value) for value in (wait.mean, wait.p50, wait.p99)),
        *(factor(value) for value in (slow.mean, slow.p50, slow.p99)),
        *(time_s(value) for value in (flow.mean, flow.p50, flow.p99)),
        part(metrics.utilization),
        part(metrics.goodput),
        count(metrics.interruptions),
        f"{metrics.fairness:.2f}",
        time_s(metrics.promise_error_s) if metrics.promised else "-",
        part(metrics.promise_error_part) if metrics.promised else "-",
        part(metrics.promises_late) if metrics.promised else "-",
        time_s(metrics.makespan_s),
        count(metrics.jobs_per_s),
    ]


def bound_column(best: Bounds) -> list[str]:
    """The bounds, in the order of the labels."""
    known = {
        "wait mean": time_s(best.avg_wait_s),
        "slowdown mean": factor(best.avg_bounded_slowdown),
        "completion mean": time_s(best.avg_flow_s),
        "makespan": time_s(best.makespan_s),
    }
    return [known.get(label, "") for label in LABELS]
