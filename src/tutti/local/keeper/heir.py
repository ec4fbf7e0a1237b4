"""From the keeper of a gang that has ended to the members of the next one, without anybody in between.

The daemon names the heir while the gang still runs, and may take that back until the moment it ends (see `turn.py`).
Device locks follow as open files: whoever had them holds them until they are on the way.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from typing import Any

from tutti.local.keeper.fault import point
from tutti.local.keeper.locks import Locks
from tutti.local.keeper.member import received
from tutti.local.keeper.turn import Turn
from tutti.train.agent.watch import started_at

LINE = "h"
HEAD_START_S = 0.003
"""What nobody waits for leaves the processor to a gang that begins at this moment."""
MOST_PATHS, MOST_FILES = 1 << 16, 250


class Gone(Exception):
    """The heir is not there any longer."""


class Heir:
    """Who is next, in the keeper that still has the place."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.folder, self.until = str(message["folder"]), int(message["until"])
        self._paths = [str(path) for path in message["locks"]]
        self._said = json.dumps(self._paths).encode()
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._members: list[int] = []
        self._programs: dict[str, tuple[int, int]] = {}
        self._turn: Turn | None = None
        try:
            self._line.connect(os.path.join(self.folder, LINE))
            self._turn = Turn(self.folder)
            for pid, began in message["members"]:
                self._meet(int(pid), str(began))
        except (OSError, Gone):
            self.close()
            raise

    def _meet(self, pid: int, began: str) -> None:
        """A member of the heir, and what it has executed."""
        self._members.append(os.pidfd_open(pid))
        program = os.readlink(f"/proc/{pid}/exe")
        if started_at(pid) != began:
            raise Gone(f"process {pid} is another by now")
        self._programs[program] = version(program)

    def _is_as_it_was(self) -> bool:
        """Whether no program has been replaced meanwhile: what was executed early would be an old one."""
        try:
            return all(version(path) == found for path, found in self._programs.items())
        except OSError:
            return False

    def take_over(self, locks: Locks) -> bool:
        """Let the members go, with the devices they need; False where they must not or cannot."""
        lent = locks.descriptors(self._paths)
        if self._turn is None or not lent or time.time_ns() // 1000 >= self.until or not self._is_as_it_was():
            return False
        if not self._turn.take():
            return False
        point("passed")
        for handle in self._members:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGCONT)
        point("lent")
        # Where their keeper is gone, so are they.
        with contextlib.suppress(OSError):
            socket.send_fds(self._line, [self._said], lent)
        time.sleep(HEAD_START_S)
        return True

    def close(self) -> None:
        self._line.close()
        for handle in self._members:
            os.close(handle)
        if self._turn is not None:
            self._turn.close()


class Waiting:
    """The other end: a keeper whose members are ready hears here that they have been let go."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, LINE)
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind(self._path)
        os.chmod(self._path, 0o600)
        self._line.setblocking(False)

    def fileno(self) -> int:
        return self._line.fileno()

    def receive(self) -> tuple[list[str], list[int]]:
        """The lock files of devices, and these files, open and locked."""
        try:
            data, files = received(self._line, MOST_PATHS, MOST_FILES)
        except BlockingIOError:
            return [], []
        return json.loads(data), files

    def close(self) -> None:
        self._line.close()


def version(path: str) -> tuple[int, int]:
    """What tells one file of a name from the next."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns
