"""From the keeper of a gang that has ended to the members of the next one, without anybody in between.

The daemon names the heir while the gang still runs, and may take that back until the moment it ends: both take the same
file away, and only one of them finds it. Device locks go along as open files, so there is no moment at which nobody
holds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from typing import Any

from tutti.local.keeper import records
from tutti.local.keeper.fault import point
from tutti.local.keeper.locks import Locks
from tutti.local.keeper.member import received
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
        self._members: list[tuple[int, int]] = []
        try:
            self._line.connect(os.path.join(self.folder, LINE))
            for pid, began in message["members"]:
                self._members.append((os.pidfd_open(pid), pid))
                if started_at(pid) != began:
                    raise Gone(f"process {pid} is another by now")
        except (OSError, Gone):
            self.close()
            raise

    def take_over(self, locks: Locks) -> bool:
        """Let the members go, with the devices they need; False where they must not or cannot."""
        lent = locks.descriptors(self._paths)
        if not lent or time.time_ns() // 1000 >= self.until or any(is_replaced(pid) for _, pid in self._members):
            return False
        if not records.take_turn(self.folder):
            return False
        point("passed")
        try:
            socket.send_fds(self._line, [self._said], lent)
        except OSError:
            # Its own keeper lets them go when it hears that it is their turn.
            return True
        point("lent")
        for handle, _ in self._members:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGCONT)
        time.sleep(HEAD_START_S)
        return True

    def close(self) -> None:
        self._line.close()
        for handle, _ in self._members:
            os.close(handle)


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


def is_replaced(pid: int) -> bool:
    """Whether another file has taken the place of a process's program since it was executed, or the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith(" (deleted)")
    except OSError:
        return True
