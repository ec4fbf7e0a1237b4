"""From a job to the gang the scheduler sees, or to everything that is wrong with the job."""

from collections.abc import Callable
from typing import TypeVar

from tutti.engine.model import (
    NEVER,
    Cap,
    Coupling,
    Estimate,
    Gang,
    Resizing,
    Role,
    Segment,
    Shape,
    SizeRule,
    Source,
    Speed,
)

from .amounts import count, cpu, memory, workers
from .arrays import Array, array
from .durations import duration, moment
from .job import CPU, DEVICE, HOOK_EVENTS, MEMORY, Job, Part
from .lazy import pattern
from .problems import BadJob, Misread, Problem, nearest
from .size_rule import size_rule

T = TypeVar("T")
POOL, NODE = "pool", "node"
AFTER = ("ok", "any", "failed")
NAME = pattern(r"[A-Za-z0-9][\w.@+-]{0,199}")
GROUP = pattern(r"([0-9]{1,7})@([\w./-]{1,60})")
SIGNAL = pattern(r"(?:SIG)?([A-Z][A-Z0-9+]{1,9}|[0-9]{1,2})(?:@(.+))?")
A_NAME = "write letters, digits and . _ - @ +, beginning with a letter or digit"


def to_gang(job: Job, now: int = 0, user: str = "", device: str = DEVICE) -> Gang:
    """The gang of a job submitted now (microseconds). Raises BadJob with everything that is wrong."""
    reading = _Reading()
    gang = reading.gang(job, now, user, device)
    if reading.problems:
        raise BadJob(reading.problems, f"job {job.name!r}" if job.name else "the job")
    return gang


def problems_of(job: Job) -> tuple[Problem, ...]:
    """Everything that is wrong with a job; the text of each problem is the field it is about."""
    reading = _Reading()
    reading.gang(job, 0, "", DEVICE)
    return tuple(reading.problems)


def array_of(job: Job) -> Array | None:
    """The tasks of the job, if it is an array."""
    return array(job.array) if job.array != "" else None


def notice_of(job: Job) -> tuple[str, int] | None:
    """The signal to send before the end of the time limit, and how long before (microseconds)."""
    return _signal(job.signal) if job.signal else None


class _Reading:
    """One job being read; problems are collected so that a person sees all of them at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def gang(self, job: Job, now: int, user: str, device: str) -> Gang:
        roles = self._roles(job, device)
        elastic = any(role.coupling is Coupling.GANG and role.max > role.min for role in roles)
        self._sanity(job)
        return Gang(
            name=job.name or "job",
            roles=roles,
            queue=job.queue,
            user=user,
            priority=job.priority,
            submitted=now,
            estimate=self._estimate(job),
            begin=self._read("begin", lambda: moment(job.begin, now), 0) if job.begin != "" else 0,
            deadline=self._read("deadline", lambda: moment(job.deadline, now), NEVER) if job.deadline else NEVER,
            max_wait=self._time("max_wait", job.max_wait),
            downtime_cost=job.downtime_cost,
            after=tuple(self._read("after", lambda entry=entry: _after(entry), "") for entry in job.after),  # type: ignore[misc]  # a default binds the loop's entry
            within=job.within if job.roles else "",
            near=job.near if job.roles else "",
            domain_ask=job.domain_ask,
            preemptible=job.preemptible,
            parkable=job.parkable,
            resizing=job.resize if job.resize and elastic else Resizing.NONE,
            speed=self._read("speed", lambda: _speed(job.speed), Speed()),
            on_loss=job.on_loss,
            hold_up_to=self._time("hold_up_to", job.hold_up_to),
            min_run=self._time("min_run", job.min_run),
            interruptions_per_day=job.interruptions_per_day,
            restart_limit=job.retries,
        )

    def _roles(self, job: Job, device: str) -> tuple[Role, ...]:
        if job.array != "":
            return (self._tasks(job, device),)
        if job.roles:
            return tuple(self._role(name, part, device, f"roles.{name}.") for name, part in job.roles.items())
        return (self._role("worker", job, device, ""),)

    def _tasks(self, job: Job, device: str) -> Role:
        """An array is one loose part: its tasks start as there is room."""
        if job.roles:
            self._problem("array", "an array has one kind of task, so it cannot have roles", "drop one of the two")
        tasks = self._read("array", lambda: array(job.array), Array((0,)))
        number = len(tasks.indices)
        caps = (Cap(POOL, tasks.at_once),) if tasks.at_once else ()
        shapes = (self._shape(job, device, ""),)
        return Role("task", 1, number, number, shapes, Coupling.LOOSE, caps=caps, arrange=job.arrange)

    def _role(self, name: str, part: Part, device: str, at: str) -> Role:
        low, high = self._read(f"{at}workers", lambda: workers(part.workers), (1, 1))
        want = part.want or high
        if not low <= want <= high:
            self._problem(f"{at}want", f"{want} is not between {low} and {high} workers", f"write {low} to {high}")
        loose = part.coupling is Coupling.LOOSE
        return Role(
            name=name,
            min=1 if loose and low == high else low,
            want=want,
            max=high,
            shapes=(self._shape(part, device, at),),
            coupling=part.coupling,
            rule=self._read(f"{at}size_rule", lambda: size_rule(part.size_rule), SizeRule()),
            within=part.within,
            near=part.near,
            segment=self._read(f"{at}group", lambda: _group(part.group), None),
            caps=(Cap(NODE, part.per_node),) if part.per_node else (),
            arrange=part.arrange,
            spare_for=part.spare_for,
        )

    def _shape(self, part: Part, device: str, at: str) -> Shape:
        gpus = 1 if part.gpus is None else part.gpus
        ask = {device: self._read(f"{at}gpus", lambda: count(gpus, "number of devices"), 0)}
        if part.cpus is not None:
            ask[CPU] = self._read(f"{at}cpus", lambda: cpu(part.cpus or 0), 0)
        if part.mem is not None:
            ask[MEMORY] = self._read(f"{at}mem", lambda: memory(part.mem or 0), 0)
        asked = {name: amount for name, amount in ask.items() if amount}
        kinds = (tuple(f"kind={kind}" for kind in part.kind),) if part.kind else ()
        return Shape(asked or {CPU: 1000}, tags=kinds)

    def _estimate(self, job: Job) -> Estimate:
        limit, expect = self._time("time", job.time), self._time("expect", job.expect)
        if not limit and not expect:
            return Estimate()
        if limit and expect > limit:
            self._problem("expect", f"{job.expect} is longer than the limit of {job.time}", "raise the limit")
        return Estimate(limit=limit or NEVER, p50=expect, source=Source.DECLARED)

    def _sanity(self, job: Job) -> None:
        if job.name and not NAME.fullmatch(job.name):
            self._problem("name", f"{job.name!r} is no name for a job", A_NAME)
        for name in job.roles:
            if not NAME.fullmatch(name):
                self._problem("roles", f"{name!r} is no name for a role", A_NAME)
        for event in job.hooks:
            if event not in HOOK_EVENTS:
                self._problem("hooks", f"there is no moment {event!r} to hook to", nearest(event, HOOK_EVENTS))
        if job.retries < 0:
            self._problem("retries", f"{job.retries} is no number of retries", "write 0 or more")
        self._time("grace", job.grace)
        self._time("hang", job.hang)
        if job.signal:
            self._read("signal", lambda: _signal(job.signal), None)

    def _time(self, field: str, written: float | str) -> int:
        return self._read(field, lambda: duration(written), 0) if written != "" else 0

    def _read(self, field: str, parse: Callable[[], T], otherwise: T) -> T:
        try:
            return parse()
        except Misread as wrong:
            self._problem(field, wrong.what, wrong.hint)
            return otherwise

    def _problem(self, field: str, what: str, hint: str) -> None:
        self.problems.append(Problem(f"{field}: {what}", field, hint))


def _after(entry: str) -> str:
    word, colon, name = entry.strip().partition(":")
    if not colon:
        word, name = "ok", word
    if word not in AFTER:
        raise Misread(f"{entry!r} names no way to end", nearest(word, AFTER, "write ok:NAME, any:NAME or failed:NAME"))
    if not name:
        raise Misread(f"{entry!r} names no job", "write ok:NAME, any:NAME or failed:NAME")
    return name if word == "ok" else f"{word}:{name}"


def _group(written: str) -> Segment | None:
    if not written:
        return None
    found = GROUP.fullmatch(written.strip())
    if not found or not int(found[1]):
        raise Misread(f"{written!r} is no group", "write members@level: 8@nvlink")
    return Segment(found[2], int(found[1]))


def _signal(written: str) -> tuple[str, int]:
    name, _, before = written.strip().partition("@")
    plain = name.upper().removeprefix("SIG")
    if not SIGNAL.fullmatch(name.upper()) or not _is_signal(plain):
        raise Misread(f"{written!r} is no signal", "write USR1@120s")
    return plain, duration(before) if before else 60_000_000


def _is_signal(plain: str) -> bool:
    import signal  # noqa: PLC0415 - few jobs ask for one

    return 0 < int(plain) < signal.NSIG if plain.isdigit() else f"SIG{plain}" in signal.Signals.__members__


def _speed(written: dict[str, float]) -> Speed:
    points = []
    for size, rate in written.items():
        if rate < 0 or rate > 1e9:
            raise Misread(f"{rate} is no speed", "write it in units of one worker: 4 = 3.4")
        points.append((count(size, "size", 1), round(rate * 1000)))
    return Speed(tuple(sorted(points)))
