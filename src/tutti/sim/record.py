"""What came of every task, in columns, so that a million of them fit into memory."""

from array import array

import numpy as np
from numpy.typing import NDArray

from tutti.engine.model import ENDED, State

from .task import Task

Column = NDArray[np.int64]
Where = tuple[tuple[int, int], ...]
"""Nodes, and devices held on each."""
NOT_YET = -1
ENDS = tuple(sorted(ENDED))
CODES = {state: code for code, state in enumerate(ENDS)}
OPEN = -1
"""The code of a task that never ended."""


class Spells:
    """Stretches of time in which a task held seats: who, from, until, how many devices. One per run and size."""

    def __init__(self) -> None:
        self.task, self.begun, self.up, self.ended, self.devices = (array("q") for _ in range(5))
        self.where: list[Where] | None = None

    def begin(self, task: int, at: int, devices: int, where: Where = ()) -> int:
        """A new stretch; its number closes it again."""
        self.task.append(task)
        self.begun.append(at)
        self.up.append(NOT_YET)
        self.ended.append(NOT_YET)
        self.devices.append(devices)
        if self.where is not None:
            self.where.append(where)
        return len(self.task) - 1

    def end(self, spell: int, at: int) -> None:
        """The stretch is over."""
        self.ended[spell] = at


class Record:
    """One row per task, in the order of arrival. Times are microseconds; -1 means that it never came to that."""

    FIELDS = ("submitted", "started", "ended", "work", "width", "runs", "interruptions", "lost", "promised", "told")

    def __init__(self, keep_nodes: bool = False) -> None:
        self.names: list[str] = []
        self.users: list[str] = []
        self.queues: list[str] = []
        self.submitted, self.started, self.ended = array("q"), array("q"), array("q")
        self.work, self.width = array("q"), array("q")
        self.runs, self.interruptions, self.lost = array("q"), array("q"), array("q")
        self.promised, self.told = array("q"), array("q")
        """The first promised start, and the moment it was given."""
        self.state = array("b")
        self.spells = Spells()
        if keep_nodes:
            self.spells.where = []

    def __len__(self) -> int:
        """How many tasks have been submitted."""
        return len(self.names)

    def arrive(self, task: Task, width: int) -> int:
        """A new row for a task that has just been submitted."""
        gang = task.gang
        self.names.append(gang.name)
        self.users.append(gang.user)
        self.queues.append(gang.queue)
        self.submitted.append(gang.submitted)
        self.work.append(task.work)
        self.width.append(width)
        self.started.append(NOT_YET)
        self.ended.append(NOT_YET)
        self.promised.append(NOT_YET)
        self.told.append(NOT_YET)
        self.runs.append(0)
        self.interruptions.append(0)
        self.lost.append(0)
        self.state.append(OPEN)
        return len(self.names) - 1

    def join(self, row: int, width: int) -> int:
        """One more member of a task whose members are submitted one by one."""
        self.width[row] += width
        return row

    def start(self, row: int, at: int) -> None:
        """The task was given seats."""
        self.runs[row] += 1
        if self.started[row] < 0:
            self.started[row] = at

    def end(self, row: int, at: int, state: State) -> None:
        """The task is over."""
        self.ended[row] = at
        self.state[row] = CODES[state]

    def promise(self, row: int, start: int, at: int) -> None:
        """The task was promised a start; only the first promise is what its owner was told."""
        if self.promised[row] < 0:
            self.promised[row], self.told[row] = start, at

    def state_of(self, row: int) -> State | None:
        """How the task ended, or None when it did not."""
        code = self.state[row]
        return None if code == OPEN else ENDS[code]

    def column(self, name: str) -> Column:
        """One column as numbers to compute with."""
        return np.array(getattr(self, name), np.int64)
