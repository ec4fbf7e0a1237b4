"""A log in the Standard Workload Format as the studies read it: raw numbers, and the size of the machine."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tutti.errors import Misused
from tutti.sim.traces import swf
from tutti.sim.traces.log import Bad, Entries, Row, number
from tutti.sim.traces.read import LOOK, read_lines


class Raw(NamedTuple):
    """One line of the log, as far as the studies use it. -1 means unknown."""

    number: int
    submit: int
    run: int
    granted: int
    asked: int
    limit: int
    user: str
    line: int = 0


class RawLog(NamedTuple):
    """All lines in the order of the file, and the machine as the header says (0 where it does not)."""

    source: str
    jobs: list[Raw]
    processors: int
    nodes: int
    left_out: list[Bad]


def read_raw(path: Path, skip_bad: bool = False) -> RawLog:
    """The log in a file, compressed or not."""
    damage: list[Bad] = []
    lines = read_lines(path, skip_bad, damage)
    if not swf.looks_like([text for _, text in lines[:LOOK]]):
        raise Misused(
            f"{path.name} is not a log in the Standard Workload Format, and this protocol is about such logs.",
            where=f"{path}, line 1",
            hint="leave --protocol out to simulate other traces",
        )
    found: list[Raw] = []
    entries = Entries(path.name, skip_bad)
    entries.read(lines, lambda text, line: _parse(text, line, found))
    nodes, processors = (swf.size_in(lines, name) for name in ("MaxNodes", "MaxProcs"))
    return RawLog(path.name, found, processors or nodes, nodes or processors, [*entries.bad, *damage])


def _parse(text: str, line: int, found: list[Raw]) -> Row | None:
    text = text.strip()
    if text and not text.startswith(";"):
        words = text.split()
        if len(words) < swf.COLUMNS:
            raise ValueError(f"{len(words)} columns where there should be {swf.COLUMNS}")
        job, submit, run, granted, asked, limit = (int(number(words[at], f"column {at + 1}")) for at in COLUMNS)
        found.append(Raw(job, submit, run, granted, asked, limit, words[swf.USER], line))
    return None


def usable(
    log: RawLog, size: "Size", width: Callable[[Raw], int], why_not: Callable[[Raw], str], skip_bad: bool
) -> tuple[list[Raw], list[Bad]]:
    """Jobs that the protocol plays, and those it leaves out with the reason; one too wide ends it unless skipped."""
    kept, bad = list[Raw](), list(log.left_out)
    for job in log.jobs:
        reason = why_not(job)
        if not reason and width(job) > size.processors:
            reason = f"job {job.number} is {width(job)} wide, and the machine has {size.processors}"
            if not skip_bad:
                where, hint = f"{log.source}, line {job.line}", "--cluster Nx1 with a larger N, or --skip-bad"
                raise Misused(f"{reason}.", where=where, hint=hint)
        if reason:
            bad.append(Bad(job.line, reason))
        else:
            kept.append(job)
    return kept, sorted(bad, key=lambda each: each.line)


COLUMNS = (swf.NUMBER, swf.SUBMIT, swf.RUN, swf.GRANTED, swf.REQUESTED, swf.LIMIT)


class Size(NamedTuple):
    """A machine: so many nodes with so many processors in all."""

    nodes: int
    processors: int


def machine_size(log: RawLog, given: Size | None) -> Size:
    """The machine: what the user says, else what the header says."""
    size = given or Size(log.nodes, log.processors)
    if size.processors < 1:
        raise Misused(f"{log.source} does not say how large its machine was", hint="--cluster 256x1")
    return size
