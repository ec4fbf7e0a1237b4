"""What the simulator knows of a job and the scheduler does not: how much work it really is, what running it costs."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from tutti.engine.model import NEVER, Data, Gang, State


class Habits(Data, frozen=True):
    """What running costs beside the work itself, in microseconds."""

    start_up: int = 0
    restart: int = 0
    """Added to the start-up of every run but the first."""
    save_every: int = 0
    """Time between two snapshots; 0 means that nothing is ever saved."""
    save_cost: int = 0
    """How long the job stands still to save."""
    resize: int = 0
    """How long it stands still when its size changes."""
    leave: int = 0
    """How long it takes to leave when it is told to."""


PLAIN = Habits()


class Task(msgspec.Struct, frozen=True):
    """A job as it really is. Work is run time at the wanted size, in microseconds."""

    gang: Gang
    work: int
    habits: Habits = PLAIN
    outcome: State = State.FINISHED
    """How it ends when its work is done."""
    gives_up_after: int = NEVER
    """Its owner cancels it so long after submission, unless it is over by then."""
    part_of: str = ""
    """The gang this is only a member of, where members are placed one by one."""
    parts: int = 1
    """How many members that gang has; none of them computes before all are up."""


class Workload(Protocol):
    """Tasks in the order in which they are submitted. It can be gone through more than once."""

    def __len__(self) -> int:
        """How many there are."""

    def __iter__(self) -> Iterator[Task]:
        """Each of them, made when it is asked for."""
