"""How often to snapshot: as rarely as failures allow, and never dearer than the overhead that was agreed."""

from __future__ import annotations

import math

OVERHEAD = 0.02


def best_interval_s(cost_s: float, failures_per_s: float) -> float:
    """Young's interval: the square root of twice the cost over the failure rate."""
    return math.sqrt(2 * cost_s / failures_per_s) if failures_per_s > 0 else math.inf


def every_steps(cost_s: float, step_s: float, failures_per_s: float, overhead: float = OVERHEAD) -> int:
    """Steps between snapshots: Young's interval, but at least so many that the stall stays under `overhead`."""
    if cost_s <= 0 or step_s <= 0:
        return 1
    affordable = cost_s / (overhead * step_s)
    wanted = best_interval_s(cost_s, failures_per_s) / step_s
    # A minute bounds what the rarest failure can cost, whatever the measured rate says.
    longest = max(affordable, 60.0 / step_s)
    return max(1, math.ceil(max(affordable, min(wanted, longest))))


def failure_rate(failures: int, lived_s: float, prior_s: float = 6 * 3600.0) -> float:
    """Failures per second, with one imagined failure per `prior_s` so that luck is not mistaken for safety."""
    return (failures + 1) / (lived_s + prior_s)
