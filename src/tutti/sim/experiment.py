"""One trace on one cluster under several policies: prepare it, play it, measure it."""

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import msgspec

from tutti.drive.account import Counting, Spent
from tutti.drive.estimates import History
from tutti.drive.ledger import Ledger, Report
from tutti.drive.notice import Notice
from tutti.engine.model import NEVER, SECOND, Data, Gang, Listing, Queue
from tutti.engine.policy import Policy
from tutti.errors import Misused
from tutti.views.table import time_s

from . import bounds as limits
from .agenda import Rank
from .cluster import devices, node_sizes, plain, read_cluster, read_costs
from .faults import Fault, put_on, read_faults, rest_of
from .intake import Cut, Estimates, EstimateSource, Tasks
from .metrics import Metrics, Window, measure, steady
from .pods import POD_FIFO, PodByPod
from .policies import by_devices
from .record import Record
from .run import Simulation
from .task import PLAIN, Habits, Workload
from .traces.log import Bad, Log, Row, line_of, split_name

DEFAULT_EACH = 8
DEFAULT_LOAD = 0.8
SAMPLES = 240
Samples = list[tuple[int, dict[str, int]]]
"""Moments, and the ledger's totals then."""
Told = Callable[[str, int, int], None]
"""Told now and then: the policy, tasks that have ended, tasks in all."""


class Options(Data, frozen=True):
    """What may be chosen beside the trace and the policies."""

    cluster: str = ""
    load: float = 0.0
    estimates: Estimates | None = None
    faults: str = ""
    seed: int = 0
    skip_bad: bool = False
    keep_nodes: bool = False
    habits: Habits = PLAIN
    jobs: int = 0
    """Only the first so many jobs; 0 means all."""
    warm_up: float = 0.0
    """The part of the jobs, from the first on, that is played but not measured."""


class OwnRuns(History):
    """On one box only runs of the same name and size tell anything."""

    def _best(self, gang: Gang) -> tuple[int, ...]:
        return self._runs.get(self.keys(gang)[0], ())


class Case(msgspec.Struct):
    """A trace made ready: rows that fit, on a cluster, with a source of estimates."""

    log: Log
    cluster: Listing
    estimates: Estimates
    devices: int
    offered: float
    """Device-seconds asked for over device-seconds there are, until the last submission."""
    faults: list[Fault]
    habits: Habits
    keep_nodes: bool
    checked: bool = False
    """Whether the independent checker looks at every plan."""
    since: int = 0
    """Jobs submitted before this moment warm the cluster up and are not measured."""
    costs_from: str = ""
    """Where the costs come from; empty where nobody says."""

    @property
    def node_sizes(self) -> list[int]:
        """Devices of each node, in the order of their numbers."""
        return [node.capacity.get(self.log.resource, 0) for node in self.cluster.nodes]

    @property
    def fidelity(self) -> "Fidelity":
        """How much of a real cluster is played."""
        if self.log.kind == "journal":
            return MEASURED
        if self.habits == PLAIN:
            return SCHEDULE_ONLY
        said = f" ({self.costs_from})" if self.costs_from else "; they are assumed, not measured"
        return Fidelity(2, f"with costs: jobs take time to start, to save and to leave{said}")

    def tasks(self, elastic: bool) -> Tasks:
        """The rows as tasks; where sizes never change, every job has the size it was tuned for."""
        resource = self.log.resource
        sizes = partial(node_sizes, self.cluster, resource)
        cut = Cut(resource, 1, whole_nodes=resource == "gpu", sizes=sizes)
        return Tasks(self.log, cut, self.estimates, self.habits, elastic)

    def history(self) -> History:
        """What is learnt on the way: by user and size, and from a journal as on the box that wrote it."""
        return OwnRuns() if self.log.kind == "journal" else History(lambda _gang: "")

    def bounds(self) -> limits.Bounds:
        """What no policy can beat on this case, for the jobs that are measured: the others only make it worse."""
        return limits.bounds([_job(row) for row in self.log.rows if row.at >= self.since], self.devices)


class Fidelity(Data, frozen=True):
    """How near to a real cluster a run is: a level, and what that means."""

    level: int
    says: str

    def __str__(self) -> str:
        """As every report says it."""
        return f"fidelity {self.level} of {LEVELS}, {self.says}"


LEVELS = 3
SCHEDULE_ONLY = Fidelity(
    1, "schedule only: jobs start, stop and change size at once, and nothing but faults goes wrong"
)
MEASURED = Fidelity(
    3, "as measured: run times are those of the box that wrote the journal, with what starting cost there"
)


class Outcome(msgspec.Struct):
    """One policy after it was played."""

    policy: Policy
    metrics: Metrics
    record: Record
    report: Report
    interrupted: bool
    """Whether it was stopped before its end."""
    samples: Samples = []
    """The ledger's totals now and then, where a report was asked for."""
    troubles: list[Notice] = []
    """What the loop had to say about itself; in a sound run, nothing."""

    @property
    def called(self) -> str:
        """The policy's name, and that its figures are of a part of the run where they are."""
        return f"{self.metrics.policy}, interrupted" if self.interrupted else self.metrics.policy

    @property
    def is_whole(self) -> bool:
        """Whether everybody came to an end, so that its figures can be set beside others."""
        return not self.interrupted and not self.metrics.stuck


def prepare(log: Log, options: Options) -> Case:
    """Fit a trace to a cluster; raises an error that names the first job that cannot run on it."""
    if options.jobs:
        log = msgspec.structs.replace(log, rows=log.rows[: options.jobs])
    cluster = _cluster(log, options)
    size = devices(cluster, log.resource)
    log = _fitting(log, cluster, options.skip_bad)
    cluster = _with_queues(cluster, log)
    log, offered = _loaded(log, size, options.load)
    estimates = options.estimates or _known_estimates(log)
    costs = read_costs(options.cluster)
    habits = costs.habits() if options.habits == PLAIN else options.habits
    end = log.rows[-1].at + max(row.run for row in log.rows)
    first = log.rows[0].at
    faults = _faults(log, cluster, options, end) if options.faults else []
    cluster = msgspec.structs.replace(cluster, at=first)
    begin = log.rows[min(int(options.warm_up * len(log.rows)), len(log.rows) - 1)].at if options.warm_up else first
    if begin > first:
        log.notes.append(f"the first {options.warm_up:.0%} of the jobs warm the cluster up and are not measured")
    return Case(
        log,
        cluster,
        estimates,
        size,
        offered,
        faults,
        PLAIN if habits == PLAIN else habits,
        options.keep_nodes,
        since=begin,
        costs_from=costs.source,
    )


def _faults(log: Log, cluster: Listing, options: Options, end: int) -> list[Fault]:
    """What breaks while the log is played; a fault that began before keeps what is left of it."""
    first = log.rows[0].at
    every = read_faults(Path(options.faults), cluster, end, options.seed, first)
    played = [rest_of(fault, first) for fault in every if fault.at <= end and fault.until > first]
    outside = f", of {len(every):,}: the others lie before or after it" if len(played) < len(every) else ""
    log.notes.append(
        f"faults: {len(played):,} between {time_s(first / SECOND)} and {time_s(end / SECOND)} of the trace{outside}"
    )
    return played


def play(case: Case, policy: Policy, told: Told | None = None) -> Outcome:
    """Play the case under one policy. Interrupted from the keyboard, it returns what there is so far."""
    resource = case.log.resource
    workload: Workload = case.tasks(elastic=policy.grow.on)
    if policy.name == POD_FIFO.name:
        workload = PodByPod(workload)
    history = case.history() if case.estimates.source is EstimateSource.HISTORY else None
    ledger = Ledger(resource, counting=Counting.RUN_TIME)
    troubles: list[Notice] = []
    simulation = Simulation(
        workload,
        case.cluster,
        by_devices(policy, resource),
        resource,
        ledger=ledger,
        history=history,
        keep_nodes=case.keep_nodes,
        checked=case.checked,
        tell=troubles.append,
    )
    put_on(simulation.agenda, simulation.cluster, simulation.driver.world.node_index, case.faults)
    samples: Samples = []
    rows = case.log.rows
    window = Window(case.since or rows[0].at, rows[-1].at)
    ends: Samples = []
    for moment in (window.since, window.until):
        look_at(simulation, ledger, ends, moment)
    if case.keep_nodes:
        sample(simulation, ledger, samples, rows[0].at, max((rows[-1].at - rows[0].at) // SAMPLES, SECOND))
    begun = time.process_time()
    interrupted = False
    try:
        simulation.run((lambda done, total: told(policy.name, done, total)) if told else None)
    except KeyboardInterrupt:
        interrupted = True
    took = time.process_time() - begun
    report = ledger.report(simulation.driver.world, max(simulation.now, 1))
    goodput = _goodput(simulation.record, report, ends, window, case.devices)
    metrics = measure(simulation.record, policy.name, case.devices, goodput, took, case.since)
    samples.append((report.at, report.total))
    return Outcome(policy, metrics, simulation.record, report, interrupted, samples, troubles)


def look_at(simulation: Simulation, ledger: Ledger, samples: Samples, moment: int) -> None:
    """Look at the ledger once."""

    def look(at: int) -> None:
        simulation.settle()
        samples.append((at, ledger.report(simulation.driver.world, at).total))

    simulation.agenda.add(moment, Rank.NODES, lambda _: simulation.look(look))


def _goodput(record: Record, report: Report, ends: Samples, window: Window, devices: int) -> float:
    """Useful time over all there was while jobs came; to the end where there is work for much longer than they come."""
    chosen = steady(window, record, devices, report.at)
    whole = chosen is not window
    if len(ends) < (1 if whole else 2) or chosen.until <= chosen.since:
        return report.goodput_ppm / 1e6
    before, after = (total.get(Spent.USEFUL, 0) for total in (ends[0][1], report.total if whole else ends[1][1]))
    return (after - before) / (devices * (chosen.until - chosen.since))


def sample(simulation: Simulation, ledger: Ledger, samples: Samples, first: int, step: int) -> None:
    """Look at the ledger at even distances, for as long as something happens in between."""

    def look(at: int) -> None:
        simulation.settle()
        samples.append((at, ledger.report(simulation.driver.world, at).total))
        if simulation.has_more:
            simulation.agenda.add(at + step, Rank.NODES, lambda _: simulation.look(look))

    simulation.agenda.add(first, Rank.NODES, lambda _: simulation.look(look))


def _cluster(log: Log, options: Options) -> Listing:
    if options.cluster:
        return read_cluster(options.cluster, log.resource)
    if log.machine.nodes:
        return plain(log.machine.nodes, log.machine.each, log.resource)
    if log.resource == "slot":
        widest = max(row.width for row in log.rows)
        log.notes.append(f"the header names no size; the widest job, {widest}, was taken for it (--cluster)")
        return plain(widest, 1, log.resource)
    nodes, why = _nodes_for(log.rows)
    log.notes.append(f"the trace names no cluster; {nodes}x{DEFAULT_EACH} {why} (--cluster)")
    return plain(nodes, DEFAULT_EACH, log.resource)


def _nodes_for(rows: list[Row]) -> tuple[int, str]:
    """Nodes of eight devices that the trace keeps busy and that hold its widest job, and why so many."""
    span = rows[-1].at - rows[0].at
    lasts = span or max(SECOND, *(row.run for row in rows))
    wanted = sum(row.width * row.run for row in rows) / lasts / DEFAULT_LOAD
    busy, widest = (-(-many // DEFAULT_EACH) for many in (round(wanted), max(row.width for row in rows)))
    if widest > busy:
        return widest, "just holds the widest job"
    if span:
        return max(busy, 1), f"keeps the offered load at about {DEFAULT_LOAD} or below"
    return max(busy, 1), "could be done in little more than the longest run"


def _fitting(log: Log, cluster: Listing, skip_bad: bool) -> Log:
    """The log without jobs for which there are too few devices of their kind; unless skipped, they are an error."""

    @cache
    def room(kinds: tuple[str, ...]) -> int:
        return sum(size * many for size, many in node_sizes(cluster, log.resource, kinds).items())

    def has_room(row: Row) -> bool:
        return row.width <= room(row.kinds)

    wide = [row for row in log.rows if not has_room(row)]
    if not wide:
        return log
    if not skip_bad:
        raise Misused(
            f"{_too_wide(log, wide[0], room(wide[0].kinds))}.",
            where=f"{log.source}{_at_line(log, wide[0])}: {len(wide)} of {len(log.rows)} jobs have too few devices",
            hint="a larger --cluster, or --skip-bad to leave them out",
        )
    too_wide = (Bad(line_of(log, row), _too_wide(log, row, room(row.kinds))) for row in wide)
    rows = [row for row in log.rows if has_room(row)]
    if not rows:
        raise Misused(
            f"no job of {log.source} fits on {devices(cluster, log.resource)} devices", hint="a larger --cluster"
        )
    return msgspec.structs.replace(log, rows=rows, left_out=[*log.left_out, *too_wide])


def _too_wide(log: Log, row: Row, room: int) -> str:
    of = f" of {' or '.join(row.kinds)}" if row.kinds else ""
    return f"job {_called(log, row)} is {row.width} wide, and the cluster has {room} devices{of}"


def _called(log: Log, row: Row) -> str:
    return split_name(log, row.name)[1]


def _at_line(log: Log, row: Row) -> str:
    line = line_of(log, row)
    return f", line {line}" if line else ""


def _with_queues(cluster: Listing, log: Log) -> Listing:
    """The cluster with every queue that the trace names."""
    known = {queue.name for queue in cluster.queues}
    more = tuple(Queue(name) for name in sorted({row.queue for row in log.rows} - known))
    return msgspec.structs.replace(cluster, queues=(*cluster.queues, *more)) if more else cluster


def offered_load(rows: list[Row], size: int) -> float:
    """Device-seconds asked for over those there are between the first and the last submission."""
    span = rows[-1].at - rows[0].at
    return sum(row.width * row.run for row in rows) / (size * span) if span else 0.0


def _loaded(log: Log, size: int, load: float) -> tuple[Log, float]:
    """The log with its arrivals moved together or apart so that the offered load is as asked."""
    offered = offered_load(log.rows, size)
    if not load or not offered:
        return log, offered
    first, stretch = log.rows[0].at, offered / load
    rows = [msgspec.structs.replace(row, at=round((row.at - first) * stretch)) for row in log.rows]
    if f"{offered:.2f}" != f"{load:.2f}":
        log.notes.append(f"arrivals were moved so that the offered load is {load:g} instead of {offered:.2f}")
    return msgspec.structs.replace(log, rows=rows), load


def _known_estimates(log: Log) -> Estimates:
    if any(row.limit for row in log.rows):
        return Estimates(EstimateSource.DECLARED)
    log.notes.append("the trace declares no run times; estimates are exact (--estimates)")
    return Estimates(EstimateSource.EXACT)


def _job(row: Row) -> limits.Job:
    if row.patience < NEVER:
        # Who gives up may never hold a device; what is certain is only how soon it can be over.
        return limits.Job(row.at / SECOND, 0, min(row.run, row.patience) / SECOND)
    if row.speed is None or row.most <= row.width:
        return limits.Job(row.at / SECOND, row.width, row.run / SECOND)
    return elastic_job(row)


def elastic_job(row: Row) -> limits.Job:
    """A job that may change its size: its least device-time, and its run time at the best size."""
    assert row.speed is not None
    speeds = dict(row.speed.points)
    here = speeds.get(row.width) or speeds[min(speeds, key=lambda size: abs(size - row.width))]
    times = {size: row.run * here / max(rate, 1) for size, rate in speeds.items() if size <= row.most}
    shortest = min(times.values())
    area = min(size * length for size, length in times.items())
    return limits.Job(row.at / SECOND, max(round(area / shortest), 1), shortest / SECOND)
