"""What a protocol reports for one policy: the same fields for every protocol."""

from tutti.engine.model import Data
from tutti.sim.traces.log import Bad


class Result(Data, frozen=True):
    """Averages over the jobs of one run. Times are seconds."""

    policy: str
    jobs: int
    avg_wait_s: float
    avg_flow_s: float
    avg_bounded_slowdown: float
    utilization: float
    makespan_s: float
    jobs_per_s: float


class Played(Data, frozen=True):
    """One result for each policy, and the entries of the log that were not played."""

    results: list[Result]
    left_out: list[Bad]
    interrupted: bool = False
    """Whether somebody stopped it before every policy had been played."""
    notes: list[str] = []
    """What a reader of the figures has to know about how they came about."""


THRESHOLD_S = 10
"""Runs shorter than this count as this long in a slowdown, so that trifles do not rule the average."""
