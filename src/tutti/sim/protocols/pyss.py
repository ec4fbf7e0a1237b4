"""The protocol of the study by Gaussier and others (SC15), as their simulator pyss plays it, through the real engine.

Width is what was requested, run time is cut at the request, every happening is decided on alone with submissions
before ends of the same second, and averages are over all jobs.
"""

import time
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from tutti.drive.notice import Notice
from tutti.engine.model import SECOND
from tutti.engine.policy import Policy
from tutti.errors import Misused, TuttiError
from tutti.sim.cluster import plain
from tutti.sim.intake import Cut, Estimates, EstimateSource, Tasks
from tutti.sim.policies import by_devices
from tutti.sim.predict import Predictor
from tutti.sim.record import Record
from tutti.sim.run import Progress, Simulation
from tutti.sim.traces.log import Bad, Log, Row

from .log import Raw, Size, machine_size, read_raw, usable
from .result import THRESHOLD_S, Result


class Study(msgspec.Struct):
    """A log prepared for the protocol."""

    log: Log
    size: Size
    left_out: list[Bad] = []

    def result(self, policy: Policy, predictor: Predictor | None = None, progress: Progress | None = None) -> Result:
        """One policy over the whole log."""
        processors = self.size.processors
        tasks = Tasks(self.log, Cut("slot", processors), Estimates(EstimateSource.DECLARED))
        # Their machine is a number of processors: which of them a job was promised must not matter.
        cluster = plain(1, processors, "slot")
        begun = time.process_time()
        troubles: list[Notice] = []
        simulation = Simulation(
            tasks,
            cluster,
            to_the_second(policy),
            "slot",
            one_by_one=True,
            predictor=predictor,
            checked=False,
            tell=troubles.append,
        )
        record = simulation.run(progress)
        if simulation.stuck:
            why = f" ({troubles[0].sentence})" if troubles else ""
            raise TuttiError(f"{len(simulation.stuck)} jobs never ended under {policy.name}{why}")
        took = max(time.process_time() - begun, 1e-9)
        return averages(record, policy.name, processors, took)


def to_the_second(policy: Policy) -> Policy:
    """The same with widths in processors, and waiting times as they are when something happens."""
    counted = by_devices(policy, "slot")
    return replace(counted, order=replace(counted.order, refresh=SECOND))


def prepare(path: Path, given: Size | None = None, exact: bool = False, skip_bad: bool = False) -> Study:
    """Read a log for this protocol."""
    raw = read_raw(path, skip_bad)
    size = machine_size(raw, given)
    jobs, left_out = usable(raw, size, _width, _why_not, skip_bad)
    digits = len(str(len(jobs)))
    rows = [_row(job, at, digits, exact) for at, job in enumerate(jobs)]
    if not rows:
        raise Misused(f"{path.name} holds no job that can be used", hint="is the file complete?")
    rows.sort(key=lambda row: row.at)
    return Study(Log("swf", path.name, rows, "slot"), size, left_out)


def _why_not(job: Raw) -> str:
    """Jobs that asked for nothing, or of which nobody knows how long they ran, were never part of such a study."""
    if job.run < 0 or job.submit < 0:
        return f"the {'run time' if job.run < 0 else 'submission time'} is not known"
    return "" if _width(job) > 0 else "the number of processors is not known"


def _width(job: Raw) -> int:
    return job.asked if job.asked > 0 else job.granted


def _row(job: Raw, at: int, digits: int, exact: bool) -> Row:
    request = job.limit if job.limit > 0 else max(job.run, 1)
    run = min(job.run, request)
    estimate = max(run, 1) if exact else request
    return Row(
        name=f"{at:0{digits}d}",
        at=job.submit * SECOND,
        run=run * SECOND,
        width=_width(job),
        limit=estimate * SECOND,
        user=job.user,
    )


def averages(record: Record, policy: str, devices: int, took: float) -> Result:
    """The usual averages over all jobs that have ended."""
    submitted, started, ended = (record.column(name) for name in ("submitted", "started", "ended"))
    over = ended >= 0
    wait = (started - submitted)[over] / SECOND
    flow = (ended - submitted)[over] / SECOND
    run = record.column("work")[over] / SECOND
    area = float((record.column("work") * record.column("width"))[over].sum()) / SECOND
    span = float(ended.max() - submitted.min()) / SECOND if over.any() else 0.0
    slowdown = np.maximum(flow / np.maximum(run, THRESHOLD_S), 1.0)
    return Result(
        policy,
        len(record),
        float(wait.mean()),
        float(flow.mean()),
        float(slowdown.mean()),
        area / (devices * span) if span else 0.0,
        span,
        len(record) / took,
    )
