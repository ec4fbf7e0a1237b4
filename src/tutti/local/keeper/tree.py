"""All processes that came from the members, and their end: also those that forked twice or fork without rest."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection

from tutti.local.keeper.cgroup import Cgroup
from tutti.train.agent.watch import state_of

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LOOKS = 3
PATIENT_AFTER_S = 1.0
"""How long the killing goes on without a pause: whoever forks without rest must not get one."""
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
    """Every process below one, parents first; those that have ended and wait to be reaped may be among them."""
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):
        return _by_parents(root)
    found, todo = [], [root]
    while todo:
        below = _children(todo.pop())
        found += below
        todo += below
    return found


def _children(pid: int) -> list[int]:
    """The kernel's own list: quick enough to catch up with processes that live for a millisecond."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(number) for number in file.read().split()]
    return found


def _by_parents(root: int) -> list[int]:
    """The same from a look at every process, for kernels without that list."""
    children: dict[int, list[int]] = {}
    for pid, parent, _ in processes():
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
    begun = time.monotonic()
    left = living(group, members)
    while left:
        if group is not None:
            group.kill()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                _send(pid, number)
        reap_strangers(left, members)
        spent = time.monotonic() - begun
        if spent > wait_s:
            return living(group, members)
        if spent > PATIENT_AFTER_S:
            time.sleep(0.002)
        left = _look_again(group, members)
    return []


def _look_again(group: Cgroup | None, members: Collection[int]) -> list[int]:
    """Who is left. While processes die their children change hands, and a single look may miss them."""
    for _ in range(LOOKS):
        found = living(group, members)
        if found:
            return found
        time.sleep(0.001)
    return []


def living(group: Cgroup | None, members: Collection[int] = ()) -> list[int]:
    """Every process that came from the members and has not ended."""
    if not has_children():
        return group.pids() if group is not None else []
    me = os.getpid()
    found = {*descendants(me), *(group.pids() if group is not None else ())} - {me}
    return sorted(pid for pid in found if _counts(state_of(pid), pid in members))


def _counts(state: str, is_member: bool) -> bool:
    """Members that have ended wait for their own handles; anybody else who has is still to be collected here."""
    return state not in ("", "X") and not (state == "Z" and is_member)


def has_children() -> bool:
    """Whether there is any child at all: as the adopter of orphans, without one we have no descendants either."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_session(leader: int, known: Collection[int]) -> None:
    """Kill what is left of a member that has ended: everything in its session. `known` are our other children."""
    if not _has_others(known):
        return
    for _ in range(100):
        left = [pid for pid, session in _sessions() if session == leader]
        for pid in left:
            _send(pid, signal.SIGKILL)
        if not left:
            return


def _has_others(known: Collection[int]) -> bool:
    """Whether anybody may be left: whoever outlives its parent is a child of ours, as the adopter of orphans."""
    me = os.getpid()
    return not os.path.exists(f"/proc/{me}/task/{me}/children") or not set(_children(me)) <= set(known)


def _sessions() -> list[tuple[int, int]]:
    """Every living process with its session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    found.append((int(name), int(fields[3])))
    return found


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


def reap_strangers(ended: Collection[int], members: Collection[int]) -> None:
    """Collect adopted orphans that have ended; members are collected through their own handles."""
    for pid in ended:
        if pid not in members:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def collect_orphans(mine: Collection[int]) -> None:
    """Collect every adopted orphan that has ended, up to the first of those that have handles of their own."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and found.si_pid not in mine:
            os.waitpid(found.si_pid, os.WNOHANG)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
