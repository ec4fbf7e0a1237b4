"""Standard Workload Format: the logs of the Parallel Workloads Archive, 18 columns, comments behind a semicolon."""

import re
from pathlib import Path

from tutti.engine.model import SECOND, State

from .log import Entries, Line, Log, Machine, Row, at_least, number, whole

HEADER = re.compile(r";\s*(\w+):\s*(\S+)")
NUMBER, SUBMIT, RUN, GRANTED, REQUESTED, LIMIT, STATUS = 0, 1, 3, 4, 7, 8, 10
USER, COMMAND, QUEUE = 11, 13, 14
STATES = {0: State.FAILED, 5: State.CANCELLED}
COLUMNS = 18
FIELDS = re.compile(
    r"Version|Computer|Installation|Acknowledge|Information|Conversion|Preemption|AllowOveruse|Note|UnixStartTime|"
    r"TimeZone(String)?|StartTime|EndTime|Max(Jobs|Records|Nodes|Procs|Runtime|Memory|Queues|Partitions)|"
    r"(Queue|Partition)s?"
)
"""What the comments at the top may be about."""


def looks_like(first: list[str]) -> bool:
    """Whether these are the first lines of such a log: by its comments, or by a job among what may be garbage."""
    return any(_is_comment(line.strip()) or _is_job(line.split()) for line in first)


def _is_comment(line: str) -> bool:
    found = HEADER.match(line)
    return found is not None and FIELDS.fullmatch(found[1]) is not None


def _is_job(words: list[str]) -> bool:
    return len(words) >= COLUMNS and all(_is_number(word) for word in words[:COLUMNS])


def _is_number(word: str) -> bool:
    return re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", word) is not None


def read(lines: list[Line], source: str, skip_bad: bool, path: Path | None = None) -> Log:  # noqa: ARG001
    """The log. Width is what was granted where that is known, else what was requested."""
    entries = Entries(source, skip_bad)
    digits = len(str(len(lines)))
    nodes = size_in(lines, "MaxProcs") or size_in(lines, "MaxNodes")
    entries.read(lines, lambda text, line: parse(text, line, digits))
    return Log("swf", source, entries.sorted_rows(), "slot", Machine(nodes), entries.bad, entries.notes)


def size_in(lines: list[Line], field: str) -> int:
    """A number that the comments at the top give; 0 where they do not, or say that it is not known."""
    said = [found[2] for _, text in lines if (found := HEADER.match(text.strip())) and found[1] == field]
    plain = said[-1].replace(",", "").partition(".")[0] if said else ""
    return int(plain) if plain.isdecimal() else 0


def parse(text: str, line: int, digits: int = 8) -> Row | None:
    """One line of the log as a row; None where it is a comment or empty."""
    text = text.strip()
    if not text or text.startswith(";"):
        return None
    words = text.split()
    if len(words) < COLUMNS:
        raise ValueError(f"{len(words)} column{'s' * (len(words) > 1)} where there should be {COLUMNS}")
    submit = at_least(number(words[SUBMIT], "the submission time"), 0, "the submission time")
    run = at_least(number(words[RUN], "the run time"), 0, "the run time")
    granted, asked = number(words[GRANTED], "granted processors"), number(words[REQUESTED], "requested processors")
    width = at_least(granted if granted > 0 else asked, 1, "the number of processors")
    limit = number(words[LIMIT], "the requested time")
    return Row(
        name=f"{line:0{digits}d}-{words[NUMBER]}",
        at=round(submit * SECOND),
        run=round(run * SECOND),
        width=whole(width, "the number of processors"),
        limit=max(round(limit * SECOND), 0),
        user=words[USER],
        command=words[COMMAND],
        outcome=STATES.get(int(number(words[STATUS], "the status")), State.FINISHED),
    )
