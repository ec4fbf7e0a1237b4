"""The connections of a process group, so that they can be closed from outside of it, and the threads that use them.

gloo closes its connections when the last reference to it goes. A collective that is still under way in one of its
threads is such a reference, and may itself wait for a peer that waits for us: nobody would ever let go.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence

Known = dict[int, int]
NETWORKS = (socket.AF_INET, socket.AF_INET6)


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


def opened_since(before: Known, addresses: Sequence[bytes]) -> Known:
    """The connections opened since that lead from or to one of these addresses: what else this process has opened in
    the meantime, in another thread, is not ours to close.
    """
    new = {number: inode for number, inode in connected().items() if before.get(number) != inode}
    told = b"".join(addresses)
    return {number: inode for number, inode in new.items() if any(end in told for end in ends(number, inode))}


def ends(number: int, inode: int) -> list[bytes]:
    """Both ends of a connection, in the form in which the kernel keeps them and gloo tells them to others."""
    with contextlib.suppress(OSError), held(number, inode) as connection:
        if connection.family in NETWORKS:
            names = (connection.getsockname(), connection.getpeername())
            return [in_memory(connection.family, *name[:2]) for name in names]
    return []


def in_memory(family: int, host: str, port: int) -> bytes:
    """How an address begins: family, port, and the host where it comes next."""
    begin = struct.pack("=H", family) + struct.pack(">H", port)
    return begin + socket.inet_aton(host) if family == socket.AF_INET else begin


def shut(sockets: Known) -> None:
    """End these connections for both sides. One that was closed since, and whose number means another now, is not
    touched, nor is one that only listens: gloo would take that for a defect of its own.
    """
    for number, inode in sockets.items():
        with contextlib.suppress(OSError), held(number, inode) as connection:
            if connection.family in NETWORKS and connection.getpeername():
                connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def held(number: int, inode: int) -> Iterator[socket.socket]:
    """The number may come to mean something else at any time, because gloo closes connections in threads of its own: a
    second name for it cannot, and is looked at again. OSError when it does by now.
    """
    check_still(number, inode)
    mine = os.dup(number)
    try:
        check_still(mine, inode)
    except OSError:
        # Never kept: whoever holds another name for a locked file holds its lock.
        os.close(mine)
        raise
    with socket.socket(fileno=mine) as connection:
        yield connection


def check_still(number: int, inode: int) -> None:
    found = os.fstat(number)
    if not (stat.S_ISSOCK(found.st_mode) and found.st_ino == inode):
        raise OSError("the number means something else by now")


def remaining(sockets: Known) -> bool:
    """Whether any of these is still open here."""
    for number, inode in sockets.items():
        with contextlib.suppress(OSError):
            check_still(number, inode)
            return True
    return False


def is_idle(name: str) -> bool:
    """Whether all threads of this process with that name sleep; without one nothing is known, and the answer is no."""
    found = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/stat") as stat_file:
            program, _, rest = stat_file.read().rpartition(")")
            if program.partition("(")[2] == name:
                found.append(rest.split()[0])
    return bool(found) and set(found) == {"S"}
