"""A keeper without a run: everything that can be done before the run is known has been done.

The nursery keeps one. It hears of its run on a line from the nursery, and ends when that line does.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass

from tutti.local.keeper import cgroup
from tutti.local.keeper.cgroup import Cgroup
from tutti.local.keeper.member import Warm, received
from tutti.local.keeper.records import own_identity
from tutti.local.keeper.tree import adopt_orphans
from tutti.train.agent.watch import state_of

READY = b"r"
MOST_PATH = 4096
Keep = Callable[[str, socket.socket, "Kit"], int]
Rehearse = Callable[["Kit"], None]


@dataclass
class Kit:
    """What a keeper has before it begins."""

    group: Cgroup | None
    warm: Warm | None = None
    name: str = ""
    """Who this process is, where it has looked already."""
    line: socket.socket | None = None
    """What the nursery sees the end of when there is room for another spare."""

    def begun(self) -> None:
        """The members run: what is done beside that is in nobody's way any longer."""
        if self.line is not None:
            self.line.close()
            self.line = None

    def end(self) -> None:
        """Nobody needs it."""
        if self.warm is not None:
            self.warm.end()
        if self.group is not None:
            self.group.remove()


def kit() -> Kit:
    """For a keeper that is needed at once."""
    adopt_orphans()
    return Kit(cgroup.make())


class Spare:
    """The nursery's end of the line to a keeper that waits."""

    def __init__(self, keep: Keep, rehearse: Rehearse, fork: Callable[[Callable[[], int]], int]) -> None:
        self._line, theirs = socket.socketpair()
        self.is_ready = False

        def wait() -> int:
            self._line.close()
            return _wait(theirs, keep, rehearse)

        self.pid = fork(wait)
        theirs.close()

    def take(self, folder: str, listener: socket.socket) -> bool:
        """Give it a run; False where it is not ready, or gone."""
        try:
            if not self.is_ready and self._line.recv(1, socket.MSG_DONTWAIT) != READY:
                raise ConnectionError("it has ended")
            self.is_ready = True
            socket.send_fds(self._line, [folder.encode()], [listener.fileno()])
        except BlockingIOError:
            # Its member may hold the line for a moment longer than it lived itself.
            self.pid = self.pid if state_of(self.pid) else 0
            return False
        except OSError:
            self.pid = 0
            return False
        return True

    def fileno(self) -> int:
        """At its end the run that it was given has begun, or will not."""
        return self._line.fileno()

    def close(self) -> None:
        """Let it go."""
        self._line.close()


def _wait(line: socket.socket, keep: Keep, rehearse: Rehearse) -> int:
    mine = kit()
    mine.warm = Warm(mine.group, line)
    mine.name = own_identity()
    rehearse(mine)
    folder, ends = b"", list[int]()
    with contextlib.suppress(OSError):
        line.send(READY)
        folder, ends = received(line, MOST_PATH, 1)
    if not folder or not ends:
        mine.end()
        return 0
    mine.line = line
    return keep(folder.decode(), socket.socket(fileno=ends[0]), mine)
