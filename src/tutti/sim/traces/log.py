"""A trace as read: one flat row per job, what the machine was, and what had to be left out."""

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from tutti.engine.model import NEVER, Data, Speed, State
from tutti.errors import Misused


class Row(msgspec.Struct, frozen=True, gc=False):
    """One job. Times are microseconds; `limit` is the run time its user declared, 0 where there is none."""

    name: str
    at: int
    run: int
    width: int
    limit: int = 0
    user: str = ""
    queue: str = "default"
    command: str = ""
    outcome: State = State.FINISHED
    kinds: tuple[str, ...] = ()
    """Device kinds that will do; empty means any."""
    speed: Speed | None = None
    """How much faster it is when it has more; None where the trace does not say."""
    most: int = 0
    """The widest it can use; 0 means its width."""
    patience: int = NEVER
    """Its owner gives up so long after submission."""


class Bad(Data, frozen=True):
    """One entry that cannot be used: where it is, and why."""

    line: int
    what: str

    def __str__(self) -> str:
        """The finding as one line of text."""
        return f"line {self.line}: {self.what}" if self.line else self.what


class Machine(Data, frozen=True):
    """What a trace says of the machine it comes from. `each` devices on each of `nodes` nodes; 0 means not said."""

    nodes: int = 0
    each: int = 1


class Log(msgspec.Struct):
    """A trace. Rows stand in the order of submission, ties in the order of the file."""

    kind: str
    source: str
    rows: list[Row]
    resource: str = "gpu"
    machine: Machine = Machine()
    left_out: list[Bad] = []
    notes: list[str] = []


Line: TypeAlias = tuple[int, str]
LARGEST = 1e11
"""No number of a trace is larger: seconds in 3,000 years, and still far from what microseconds can hold."""
OF_LINES = frozenset({"swf", "philly", "tiresias", "openb", "workload", "gavel", "shockwave"})
"""Kinds of traces that hold a job on a line; its number begins the job's name."""


def line_of(log: Log, row: Row) -> int:
    """The line that a job comes from; 0 where it comes from none."""
    return int(split_name(log, row.name)[0] or 0)


def split_name(log: Log, name: str) -> tuple[str, str]:
    """The line a job comes from ('' where from none), and what it is called: its line where it has no name."""
    line, _, called = name.partition("-") if log.kind in OF_LINES else ("", "", name)
    return line.lstrip("0"), called or line


class Entries:
    """Rows being read: a bad entry ends the reading, or with `skip_bad` is listed and left out."""

    def __init__(self, source: str, skip_bad: bool) -> None:
        self.source = source
        self.skip_bad = skip_bad
        self.rows: list[Row] = []
        self.bad: list[Bad] = []
        self.notes: list[str] = []

    def read(self, lines: Iterable[Line], parse: Callable[[str, int], Row | None]) -> None:
        """Parse every line; None is a line that holds no job."""
        for number, text in lines:
            try:
                row = parse(text, number)
            except (ValueError, IndexError, KeyError, OverflowError) as problem:
                self._refuse(Bad(number, str(problem) if isinstance(problem, ValueError) else "too few columns"))
                continue
            if row is not None:
                self._note_order(row, number)
                self.rows.append(row)

    def _note_order(self, row: Row, number: int) -> None:
        if self.rows and row.at < self.rows[-1].at and not self.notes:
            self.notes.append(f"entries are not in the order of submission, first at line {number}; they were sorted")

    def _refuse(self, bad: Bad) -> None:
        if not self.skip_bad:
            raise Misused(
                f"cannot use an entry of the trace: {bad.what}.",
                where=f"{self.source}, line {bad.line}",
                hint="--skip-bad leaves such entries out and lists them",
            )
        self.bad.append(bad)

    def sorted_rows(self) -> list[Row]:
        """The rows in the order of submission."""
        return sorted(self.rows, key=lambda row: row.at)


def number(text: str, what: str) -> float:
    """A number, or an error that says which field is not one."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{what} is {text.strip()[:40]!r}, not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{what} is {text.strip()[:40]!r}, not a finite number")
    if abs(value) > LARGEST:
        raise ValueError(f"{what} is {text.strip()[:40]!r}, and nothing is that large")
    return value


def whole(value: float, what: str) -> int:
    """The value as a whole number, or an error that says that it is none."""
    if value != int(value):
        raise ValueError(f"{what} is {value:g}, and must be a whole number")
    return int(value)


def at_least(value: float, least: float, what: str) -> float:
    """The value, or an error that says that it is too small."""
    if value < least:
        raise ValueError(f"{what} is {value:g}, and must be at least {least:g}")
    return value
