"""The connections that a process group opened, so that they can be closed from outside of it.

gloo closes its connections when the last reference to it goes. A collective that is still under way in one of its
threads is such a reference, and may itself wait for a peer that waits for us: nobody would ever let go.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat

Known = dict[int, int]


def connected() -> Known:
    """The sockets of this process, each with the number the kernel knows it by."""
    found: Known = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found[int(name)] = os.fstat(int(name)).st_ino
        except OSError:
            continue
    return found


def opened_since(before: Known) -> Known:
    return {number: inode for number, inode in connected().items() if before.get(number) != inode}


def shut(sockets: Known) -> None:
    """End these connections for both sides. One that was closed since, and whose number means another now, is not
    touched, nor is one that only listens: gloo would take that for a defect of its own.
    """
    for number, inode in sockets.items():
        with contextlib.suppress(OSError):
            if is_still(number, inode):
                _shut(number, inode)


def is_still(number: int, inode: int) -> bool:
    found = os.fstat(number)
    return stat.S_ISSOCK(found.st_mode) and found.st_ino == inode


def _shut(number: int, inode: int) -> None:
    """The number may come to mean something else at any time, because gloo closes connections in threads of its own: a
    second name for it cannot, and is looked at again.
    """
    mine = os.dup(number)
    if not is_still(mine, inode):
        # Never kept: whoever holds another name for a locked file holds its lock.
        os.close(mine)
        return
    with socket.socket(fileno=mine) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getpeername():
            connection.shutdown(socket.SHUT_RDWR)
