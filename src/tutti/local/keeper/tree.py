"""All processes that came from the members, and their end: also those that forked twice or fork without rest."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection

from tutti.local.keeper.cgroup import Cgroup

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)
MARK = "TUTTI_RUN"
"""The variable that every process of a run carries, unless it took it off."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def descendants(root: int) -> list[int]:
    """Every process below one, parents first; those that have ended and wait to be reaped are left out."""
    children: dict[int, list[int]] = {}
    for pid, parent, state in processes():
        if state not in ("Z", "X"):
            children.setdefault(parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def processes() -> list[tuple[int, int, str]]:
    """Every process as (number, parent, state)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                found.append((int(name), int(fields[1]), fields[0].decode()))
    return found


def marked(nonce: str) -> list[int]:
    """Processes that carry the mark of a run, wherever they are in the tree."""
    mark = f"{MARK}={nonce}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_tree(group: Cgroup | None, members: Collection[int], wait_s: float = 10.0) -> list[int]:
    """Kill everything below this process until nothing is left; returns what could not be ended in time.

    Everything is stopped before anything is killed, so that a fork bomb cannot outrun the killing.
    """
    limit = time.monotonic() + wait_s
    while left := living(group):
        if group is not None:
            group.kill()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                _send(pid, number)
        reap_strangers(members)
        if time.monotonic() > limit:
            return living(group)
        time.sleep(0.002)
    return []


def living(group: Cgroup | None) -> list[int]:
    """Every process that came from the members and has not ended."""
    if not _has_children():
        return group.pids() if group is not None else []
    me = os.getpid()
    return sorted({*descendants(me), *(group.pids() if group is not None else ())} - {me})


def _has_children() -> bool:
    """Whether there is any child at all: as the adopter of orphans, without one we have no descendants either."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def sweep(nonce: str, wait_s: float = 10.0) -> list[int]:
    """End what a run has left behind after its keeper died: everything that carries its mark."""
    limit = time.monotonic() + wait_s
    while left := marked(nonce):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                _send(pid, number)
        if time.monotonic() > limit:
            return left
        time.sleep(0.005)
    return []


def reap_strangers(members: Collection[int]) -> None:
    """Collect adopted orphans that have ended; members are collected through their own handles."""
    me = os.getpid()
    for pid, parent, state in processes():
        if parent == me and state == "Z" and pid not in members:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
