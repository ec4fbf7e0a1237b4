"""The types of `tutti/v1`: what goes over the wire, in both directions.

Additions only: a field is never renamed, removed or given another meaning within v1. Moments are microseconds since
1970 in `*_us` fields and ISO texts beside them where people read them; a key that is missing means: not known.
"""

from typing import Any

import msgspec

SCHEMA = "tutti/v1"


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all of them. Unknown keys are ignored when reading, so that old clients can read new answers."""


class Answer(Wire, frozen=True, kw_only=True):
    """Base of every answer: one object, with the version of its schema."""

    schema: str = SCHEMA


# -- what is sent


class Context(Wire, frozen=True, kw_only=True):
    """Where and as whom a job was submitted; captured by the client."""

    cwd: str
    env: dict[str, str] = {}
    umask: int = 0o022
    framework: str = ""
    """The framework recognised in the command, whose variables are delivered."""


class Submission(Wire, frozen=True, kw_only=True):
    """One job: what its author says (the keys of a job file), and where."""

    job: dict[str, Any]
    context: Context
    gangs: list[dict[str, Any]] = []
    """For a dry run: the gangs of a manifest, whole, in place of the job."""


class Submit(Wire, frozen=True, kw_only=True):
    """POST /v1/jobs."""

    jobs: list[Submission]
    dry_run: bool = False


class Change(Wire, frozen=True, kw_only=True):
    """POST /v1/jobs/NAME/update: what to change; keys of a job file."""

    set: dict[str, Any] = {}
    dry_run: bool = False


class Ask(Wire, frozen=True, kw_only=True):
    """POST /v1/jobs/NAME/cancel, hold, release, retry, signal; POST /v1/devices/ID/drain."""

    dry_run: bool = False
    why: str = ""
    grace_s: float | None = None
    by_s: float | None = None
    """For a drain: gangs must have left within so long; without it they may finish."""
    number: int = 0
    """For a signal."""
    ranks: list[int] | None = None


class Which(Wire, frozen=True, kw_only=True):
    """GET /v1/jobs: whose jobs; what is empty does not matter."""

    user: str = ""
    queue: str = ""
    match: str = ""
    """Part of a name, in large or small letters."""


class WhatIf(Wire, frozen=True, kw_only=True):
    """POST /v1/what-if: the options of `tutti what-if`."""

    add_nodes: list[str] = []
    remove: list[str] = []
    queue: list[str] = []
    submit: list[dict[str, Any]] = []


# -- what comes back


class JobRow(Wire, frozen=True, kw_only=True):
    """A job in a list."""

    name: str
    id: int
    user: str
    queue: str
    state: str
    members: int
    """Members it has now; where it waits, how many it wants."""
    min: int
    max: int
    devices: int
    """Devices it holds now; where it waits, how many it wants."""
    priority: int = 0
    placed: str = ""
    """Where it is: nodes with members on each."""
    reason: str = ""
    """Why it waits: a stable token; empty where it does not."""
    detail: str = ""
    position: int = 0
    """Its place in the queue, from 1."""
    eta_us: int = 0
    """When it is promised or foretold to start, or to end where it runs; 0 means not known."""
    eta: str = ""
    submitted_us: int = 0
    started_us: int = 0
    ended_us: int = 0
    waited_s: float = 0.0
    ran_s: float = 0.0
    limit_s: float = 0.0
    code: int | None = None
    """Exit code, once it has ended."""
    why: str = ""
    """How it ended, in words."""
    elastic: str = ""
    """How its size can change: 'live', 'restart', 'loose' (members come one by one), or empty for a rigid gang."""
    restarts: int = 0
    step: int = 0
    steps: int = 0
    rate: float = 0.0
    command: str = ""
    tasks_done: int = 0
    tasks: int = 0


class Jobs(Answer, frozen=True, kw_only=True):
    """GET /v1/jobs."""

    jobs: list[JobRow]
    total: int = 0
    """How many there are in all; the list may be cut."""
    next: int = 0
    """Where the next page begins (`offset`); 0 where this is the last."""


class Rank(Wire, frozen=True, kw_only=True):
    """One member of a running (or ended) gang."""

    rank: int
    role: str = "worker"
    node: str = ""
    devices: list[int] = []
    pid: int = 0
    code: int | None = None
    log_bytes: int = 0


class Bar(Wire, frozen=True, kw_only=True):
    """A stretch of time in which a job held devices (past) or is promised them (`promised`)."""

    job: str
    queue: str
    node: str
    devices: list[int]
    """Numbers of the devices on the node; empty for a promise, which only counts."""
    count: int
    begun_us: int
    ended_us: int
    """0 while it lasts."""
    promised: bool = False
    state: str = ""


class Timeline(Answer, frozen=True, kw_only=True):
    """GET /v1/timeline."""

    now_us: int
    bars: list[Bar]
    cut: bool = False


class Moment(Wire, frozen=True, kw_only=True):
    """One entry of a story."""

    at_us: int
    at: str
    kind: str
    text: str


class Story(Answer, frozen=True, kw_only=True):
    """GET /v1/jobs/NAME/story."""

    job: str
    state: str
    events: list[Moment]
    lines: list[str]
    """The story as text."""


class Speed(Wire, frozen=True, kw_only=True):
    """Best rate seen at one size, in steps per second, and how many reports it was found in."""

    members: int
    rate: float
    samples: int = 0


class JobPage(Answer, frozen=True, kw_only=True):
    """GET /v1/jobs/NAME."""

    job: JobRow
    written: dict[str, Any]
    """The job as its author wrote it."""
    cwd: str
    ranks: list[Rank]
    runs: int
    """How often it was started."""
    speed: list[Speed] = []
    sheet: dict[str, float] = {}
    """Its part of the ledger: device-seconds by category."""
    log_folder: str = ""
    variables: dict[str, str] = {}
    """What rank 0 was given."""


class Logs(Answer, frozen=True, kw_only=True):
    """GET /v1/jobs/NAME/logs."""

    job: str
    rank: int
    text: str
    begin: int
    """Where in the rank's log the text begins (byte)."""
    next: int
    size: int
    ended: bool


class Waited(Answer, frozen=True, kw_only=True):
    """GET /v1/jobs/NAME/wait: the job once it has ended, or as it is when the time is over."""

    job: JobRow
    ended: bool
    first: int = -1
    """The rank that failed first, if one did."""
    log_folder: str = ""
    trouble: str = ""
    """Why an end that has come is not told yet: the disk does not take it."""


class Device(Wire, frozen=True, kw_only=True):
    """One device: a cell of the map."""

    id: str
    index: int
    kind: str
    state: str
    """free, busy, starting, promised, draining, drained, foreign or broken."""
    job: str = ""
    rank: int = -1
    note: str = ""


class NodeRow(Wire, frozen=True, kw_only=True):
    """One node with its devices."""

    name: str
    state: str
    place: list[str]
    """Domains it lies in, outermost first."""
    kind: str
    devices: list[Device]
    free: int
    cpus: float
    memory_bytes: int


class Nodes(Answer, frozen=True, kw_only=True):
    """GET /v1/nodes."""

    nodes: list[NodeRow]
    levels: list[str]
    largest: int
    """The widest gang of one-device members that would fit now."""
    source: str
    """nvml, cpu or made-up."""
    notes: list[str] = []


class QueueRow(Wire, frozen=True, kw_only=True):
    """One queue."""

    name: str
    parent: str
    weight: int
    closed: bool
    guarantee: dict[str, int]
    limit: dict[str, int]
    waiting: int
    running: int
    devices: int
    """Devices its gangs hold now."""
    used_device_s: float
    """Decayed use, in device-seconds."""
    deserved: int | None = None
    """Devices that are its part of the box, however much it wants, given what the other queues want now."""
    borrowed: int | None = None
    """Devices it holds beyond that; they may be taken back."""
    max_running: int | None = None
    """The most gangs that run at once in it and below it; null where any number may."""
    counted: int | None = None
    """How many of those run, where there is such a bound; what belongs together counts once."""
    user_limit: dict[str, int] = {}
    bounds: list[dict[str, Any]] = []
    """What users and groups may have that the queue names."""


class Queues(Answer, frozen=True, kw_only=True):
    """GET /v1/queues."""

    queues: list[QueueRow]


class Why(Answer, frozen=True, kw_only=True):
    """GET /v1/jobs/NAME/why."""

    job: str
    state: str
    token: str
    lines: list[str]
    """The explanation as text."""
    explanation: dict[str, Any]
    forecast: dict[str, Any] = {}


class ReasonRow(Wire, frozen=True, kw_only=True):
    """How many wait for one reason."""

    reason: str
    jobs: int
    first: list[str]


class Reasons(Answer, frozen=True, kw_only=True):
    """GET /v1/why."""

    reasons: list[ReasonRow]


class Report(Answer, frozen=True, kw_only=True):
    """GET /v1/report: the ledger, in device-seconds."""

    resource: str
    since_us: int
    at_us: int
    installed_s: float
    total: dict[str, float]
    queues: dict[str, dict[str, float]]
    users: dict[str, float]
    """Device-hours of each user, for charging."""
    goodput: float
    goodput_known: float
    closes: bool
    """Whether the parts add up to what was installed, to the second."""


class Stretch(Wire, frozen=True, kw_only=True):
    """What device time was spent on from one moment to another."""

    begun_us: int
    ended_us: int
    spent: dict[str, float]
    """Device-seconds. Work that turned out to be lost is taken from `useful-kept` in the stretch in which it was."""
    goodput: float


class ReportHistory(Answer, frozen=True, kw_only=True):
    """GET /v1/report/history: the ledger over time."""

    stretches: list[Stretch]


class Width(Wire, frozen=True, kw_only=True):
    """Jobs of one range of devices: how long they waited, and how much longer they took for it."""

    devices: str
    """1, 2, 3-4, 5-8 ...; 0 for jobs that asked for none."""
    jobs: int
    wait_s: float
    wait_median_s: float
    wait_longest_s: float
    slowdown: float
    """Mean of (wait + run) / run; a run of less than ten seconds counts as ten."""


class Throughput(Answer, frozen=True, kw_only=True):
    """GET /v1/report/throughput: what was done since a moment."""

    since_us: int
    """When what is known begins, if that is later than what was asked for."""
    at_us: int
    jobs: int
    ended: dict[str, int]
    """Jobs by how they ended."""
    jobs_per_day: float
    device_hours: float
    """What the jobs that ended held, all of it."""
    useful_device_hours: float
    useful_device_hours_per_day: float
    utilization: float
    """Part of the time in which devices were held by jobs."""
    goodput: float
    spent: dict[str, float]
    """Device-seconds by what they were spent on."""
    widths: list[Width]


class ForecastRow(Wire, frozen=True, kw_only=True):
    """How true forecasts of one range were."""

    horizon: str
    forecasts: int
    covered: float
    median_error_s: float


class Forecasts(Answer, frozen=True, kw_only=True):
    """GET /v1/report/forecasts."""

    forecasts: list[ForecastRow]
    open: int


class PlanAnswer(Answer, frozen=True, kw_only=True):
    """GET /v1/plan, POST /v1/plan."""

    lines: list[str]
    actions: list[dict[str, Any]]
    fits: bool = True
    """Dry run: whether the job would start now."""
    job: str = ""


class Entry(Wire, frozen=True, kw_only=True):
    """One line of the audit."""

    at_us: int
    at: str
    who: str
    what: str
    target: str
    detail: str


class Audit(Answer, frozen=True, kw_only=True):
    """GET /v1/audit."""

    entries: list[Entry]


class Done(Answer, frozen=True, kw_only=True):
    """What became of a request that changes something."""

    done: bool = True
    said: str = ""
    names: list[str] = []


class Outcome(Done, frozen=True, kw_only=True):
    """What became of an order about one of several things; with an `error` where it could not be carried out."""

    error: str = ""
    where: str = ""
    hint: str = ""
    code: int = 0


class Results(Answer, frozen=True, kw_only=True):
    """What commands print that give orders: one entry for each name."""

    results: list[Outcome]


class LogsOf(Answer, frozen=True, kw_only=True):
    """What `tutti logs` prints: the output of one rank, or of each."""

    logs: list[Logs]


class Finding(Wire, frozen=True, kw_only=True):
    """One thing that `tutti doctor` looked at."""

    level: str
    """ok, note or wrong."""
    what: str
    said: str


class Findings(Answer, frozen=True, kw_only=True):
    """What `tutti doctor` prints."""

    findings: list[Finding]


class Outlook(Answer, frozen=True, kw_only=True):
    """What `tutti what-if` prints: who would start when, before and after the change."""

    starts: list[dict[str, Any]]
    assumes: str = ""
    cut: bool = False


class Served(Done, frozen=True, kw_only=True):
    """POST /v1/serve: the address of the page in `said`, and the token of whoever asked."""

    token: str = ""


class Submitted(Answer, frozen=True, kw_only=True):
    """POST /v1/jobs: each is on the disk."""

    jobs: list[JobRow]
    notes: list[str] = []
    """What their owner should know at once: a deadline that will be missed."""


class Status(Answer, frozen=True, kw_only=True):
    """GET /v1/status."""

    version: str
    pid: int
    home: str
    since_us: int
    devices: int
    source: str
    waiting: int
    running: int
    policy: str
    trouble: list[str]
    """What is wrong with the daemon itself; empty when nothing is."""
    page: str = ""
    """Address of the page, where it is served."""


class Config(Answer, frozen=True, kw_only=True):
    """GET /v1/config."""

    path: str
    text: str
    policy: dict[str, Any] = {}
    queues: list[str] = []


class Problem(Answer, frozen=True, kw_only=True):
    """Every error: what is wrong, where, what to try, and the exit code of a command."""

    error: str
    where: str = ""
    hint: str = ""
    code: int = 1


class News(Wire, frozen=True, kw_only=True):
    """One server-sent event on GET /v1/events."""

    id: int
    kind: str
    """job, nodes, queues or report."""
    job: str = ""
    state: str = ""
    at_us: int = 0
