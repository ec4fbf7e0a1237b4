"""The protocol of the RLScheduler study (SC20): ten sequences of 1,024 jobs, and a simulator with habits of its own.

What it does differently from a batch system, and why the engine is not used: the job chosen to go next stays chosen
until it starts, even when the policy would by now prefer another; backfill goes in the order of arrival, needs an end
strictly before the moment the chosen job could start, knows no spare processors, and computes that moment once; a
job's waiting time, while it waits, is counted from a start of -1; utilisation ends with the last start. Where the
header names fewer nodes than processors, a job takes whole nodes.
"""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from tutti.errors import Misused
from tutti.sim.traces.log import Bad

from .log import Raw, Size, machine_size, read_raw, usable
from .result import THRESHOLD_S, Result

LENGTH = 1024
STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
"""Where the ten sequences begin, as the authors' generator drew them."""
CONSIDERED = 10_000
UNKNOWN_RUN_S = 10
Score = Callable[["Entry"], tuple[float, ...]]


class Entry(msgspec.Struct, eq=False):
    """A job of the sequence."""

    submit: int
    run: int
    width: int
    estimate: int
    nodes: int
    started: int = -1


def _wfp3(job: Entry) -> tuple[float, ...]:
    waited = job.started - job.submit
    return (-((waited / max(job.estimate, 1)) ** 3) * job.width,)


def _uni(job: Entry) -> tuple[float, ...]:
    waited = job.started - job.submit
    return (-(waited + 1e-15) / (math.log2(job.width + 1e-15) * max(job.estimate, 1)),)


def _f1(job: Entry) -> tuple[float, ...]:
    length, submit = (max(value, 0) or 0.1 for value in (job.estimate, job.submit))
    return (math.log10(length) * job.width + 870 * math.log10(submit),)


SCORES: dict[str, Score] = {
    "fcfs": lambda job: (job.submit,),
    "wfp3": _wfp3,
    "uni": _uni,
    "sjf": lambda job: (job.estimate, job.submit),
    "f1": _f1,
}


def _end(job: Entry) -> int:
    return job.started + job.run


EASY = "easy"
"""What elsewhere is called so is here first come, first served, with backfill."""


class Sequence:
    """One sequence on an empty machine."""

    def __init__(self, jobs: list[Entry], size: Size, score: Score, backfill: bool) -> None:
        self.jobs = jobs
        self.free = size.nodes
        self.processors = size.processors
        self.score = score
        self.backfill = backfill
        self.now = jobs[0].submit
        self.waiting = [jobs[0]]
        self.arrived = 1
        self.running: list[Entry] = []
        """Their list is sorted in place, now by one key, now by another: of equal ends, the order before decides."""

    def play(self) -> None:
        """Start every job."""
        while self.waiting:
            self.waiting.sort(key=self.score)
            chosen = self.waiting[0]
            shadow = self._shadow(chosen) if self.backfill and chosen.nodes > self.free else 0
            while chosen.nodes > self.free:
                if self.backfill:
                    self._fill(shadow)
                self._advance()
            self._start(chosen)
            self.waiting.remove(chosen)
            while not self.waiting and self.arrived < len(self.jobs):
                self._advance()

    def _shadow(self, chosen: Entry) -> int:
        """When the chosen job could start, by the estimates of those that run."""
        free, moment = self.free, self.now
        self.running.sort(key=lambda job: job.started + job.estimate)
        for job in self.running:
            free += job.nodes
            moment = job.started + job.estimate
            if free >= chosen.nodes:
                break
        return moment

    def _fill(self, shadow: int) -> None:
        self.waiting.sort(key=SCORES["fcfs"])
        for job in list(self.waiting):
            if job.nodes <= self.free and self.now + job.estimate < shadow:
                self._start(job)
                self.waiting.remove(job)

    def _start(self, job: Entry) -> None:
        job.started = self.now
        self.free -= job.nodes
        self.running.append(job)

    def _advance(self) -> None:
        """One arrival or one end, the arrival first when both are due."""
        self.running.sort(key=_end)
        ends = _end(self.running[0]) if self.running else math.inf
        if self.arrived < len(self.jobs) and self.jobs[self.arrived].submit <= ends:
            job = self.jobs[self.arrived]
            self.now = max(self.now, job.submit)
            self.waiting.append(job)
            self.arrived += 1
        else:
            job = self.running.pop(0)
            self.now = max(self.now, _end(job))
            self.free += job.nodes

    @property
    def utilization(self) -> float:
        """Work over the machine's time until the last start."""
        span = max(self.now - self.jobs[0].submit, 1)
        return sum(job.run * job.width for job in self.jobs) / (self.processors * span)


def entries(jobs: list[Raw], size: Size, exact: bool) -> list[Entry]:
    """The log as the study reads it: by job number, unknown runs taken as ten seconds."""
    return [_entry(job, size, exact) for job in sorted(jobs, key=lambda job: job.number)]


def _entry(job: Raw, size: Size, exact: bool) -> Entry:
    run = UNKNOWN_RUN_S if job.run < 0 else job.run
    estimate = run if exact or job.limit < 0 else job.limit
    width = _width(job)
    return Entry(job.submit, run, width, estimate, -(-width * size.nodes // size.processors))


def starts_in(length: int) -> list[int]:
    """Where sequences begin in a log of so many jobs; a log too short for any is one sequence from its beginning."""
    found = [at for at in STARTS if at + LENGTH <= length]
    return found or [0]


class Study(msgspec.Struct):
    """A log prepared for the protocol."""

    jobs: list[Entry]
    size: Size
    starts: list[int]
    left_out: list[Bad] = []

    @property
    def notes(self) -> list[str]:
        """That a log was too short for all of the sequences."""
        if len(self.starts) == len(STARTS):
            return []
        if len(self.jobs) < min(STARTS) + LENGTH:
            played = f"its first {min(len(self.jobs), LENGTH):,} jobs were played instead"
        else:
            played = f"{len(self.starts)} of them were played"
        return [f"the log has {len(self.jobs):,} jobs, too few for the {len(STARTS)} sequences of the study: {played}"]

    def result(self, policy: str, backfill: bool) -> Result:
        """The average over the sequences."""
        if policy not in {*SCORES, EASY}:
            others = (
                "; --protocol pyss has easy-sjbf and conservative" if policy in {"easy-sjbf", "conservative"} else ""
            )
            raise Misused(f"this protocol has no policy {policy!r}", hint=f"one of {', '.join(SCORES)}, {EASY}{others}")
        begun = time.process_time()
        score, backfill = (SCORES["fcfs"], True) if policy == EASY else (SCORES[policy], backfill)
        played = [self._played(at, score, backfill) for at in self.starts]
        took = max(time.process_time() - begun, 1e-9)
        count = sum(len(sequence.jobs) for sequence in played)
        return Result(
            policy,
            count,
            _mean(_average(s, lambda j: j.started - j.submit) for s in played),
            _mean(_average(s, lambda j: j.started - j.submit + j.run) for s in played),
            _mean(_average(s, _slowdown) for s in played),
            _mean(s.utilization for s in played),
            _mean(max(j.started + j.run for j in s.jobs) - s.jobs[0].submit for s in played),
            count / took,
        )

    def _played(self, at: int, score: Score, backfill: bool) -> Sequence:
        jobs = [msgspec.structs.replace(job) for job in self.jobs[at : at + LENGTH]]
        sequence = Sequence(jobs, self.size, score, backfill)
        sequence.play()
        return sequence


def prepare(path: Path, given: Size | None = None, exact: bool = False, skip_bad: bool = False) -> Study:
    """Read a log for this protocol."""
    log = read_raw(path, skip_bad)
    size = machine_size(log, given)
    kept, left_out = usable(log, size, _width, _why_not, skip_bad)
    jobs = entries(kept, size, exact)[:CONSIDERED]
    if not jobs:
        raise Misused(f"{path.name} holds no job that ran", hint="is the file complete?")
    return Study(jobs, size, starts_in(len(jobs)), left_out)


def _width(job: Raw) -> int:
    return max(job.granted, job.asked)


def _why_not(job: Raw) -> str:
    """Runs of no length are left out by the study; of the others at least width and submission must be known."""
    if job.run == 0:
        return "it ran for no time"
    if job.submit < 0:
        return "the submission time is not known"
    return "" if _width(job) > 0 else "the number of processors is not known"


def _slowdown(job: Entry) -> float:
    return max(1.0, (job.started - job.submit + job.run) / max(job.run, THRESHOLD_S))


def _average(sequence: Sequence, value: Callable[[Entry], float]) -> float:
    return math.fsum(map(value, sequence.jobs)) / len(sequence.jobs)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)
