"""A control group of version 2 for the members of one gang, where this user may make one."""

from __future__ import annotations

import contextlib
import os
import signal

DAEMON = "tutti-daemon"
"""The group of the daemon and its keepers; the groups of gangs are beside it."""


class Cgroup:
    """A folder of the kernel's; every process that a member starts is in it, whatever it does to get away."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._can_kill = os.path.exists(os.path.join(path, "cgroup.kill"))

    def pids(self) -> list[int]:
        try:
            with open(os.path.join(self.path, "cgroup.procs"), encoding="ascii") as file:
                return [int(line) for line in file if line.strip() != "0"]
        except OSError:
            return []

    def add_me(self) -> None:
        """Enter it: called in a member before it becomes the job's program."""
        _write(os.path.join(self.path, "cgroup.procs"), "0")

    def kill(self) -> None:
        if self._can_kill:
            with contextlib.suppress(OSError):
                _write(os.path.join(self.path, "cgroup.kill"), "1")
            return
        for pid in self.pids():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def can_limit_memory(self) -> bool:
        """Whether the kernel counts the memory of this group."""
        return os.path.exists(os.path.join(self.path, "memory.max"))

    def limit_memory(self, amount: int) -> bool:
        """Whether the kernel will hold the gang to so many bytes."""
        try:
            _write(os.path.join(self.path, "memory.max"), str(amount))
        except OSError:
            return False
        return True

    def limit_processes(self) -> None:
        """Whatever forks in here, half of the machine's process numbers are left to others."""
        with contextlib.suppress(OSError, ValueError), open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            limit = os.path.join(self.path, "pids.max")
            if os.path.exists(limit):
                _write(limit, str(int(file.read()) // 2))

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


def nest(base: str | None = None) -> bool:
    """Go into a group of our own below the one a service was given, so that gangs can have theirs beside it.

    The kernel gives out controllers only below a group that has no processes in it. False where that cannot be done.
    """
    base = own_folder() if base is None else base
    inner = os.path.join(base, DAEMON)
    try:
        os.makedirs(inner, exist_ok=True)
        _write(os.path.join(inner, "cgroup.procs"), str(os.getpid()))
        _write(os.path.join(base, "cgroup.subtree_control"), "+memory +pids")
    except OSError:
        return False
    return True


def path_of(keeper: int) -> str:
    """Where the group of a keeper's gang is; empty where there is no version 2."""
    base = own_folder()
    if os.path.basename(base) == DAEMON:
        base = os.path.dirname(base)
    return os.path.join(base, f"tutti-{keeper}") if base else ""


def clear(keeper: int) -> None:
    """The group of a keeper that was killed, and so could not see to it."""
    if path := path_of(keeper):
        Cgroup(path).remove()


def make() -> Cgroup | None:
    """A group for the gang of this keeper, or None where there is no version 2 or no permission."""
    path = path_of(os.getpid())
    if not path:
        return None
    # One that had this number before and was killed has left its own, with its limits.
    clear(os.getpid())
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except OSError:
        return None
    group = Cgroup(path)
    if not os.access(os.path.join(path, "cgroup.procs"), os.W_OK):
        group.remove()
        return None
    return group


def own_folder() -> str:
    """Where this process is in the tree of version 2; empty where there is none."""
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split() for line in file]
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            entries = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    root = next((mount[1] for mount in mounts if len(mount) > 2 and mount[2] == "cgroup2"), "")
    inside = next((entry[2] for entry in entries if entry[0] == "0"), "")
    return os.path.join(root, inside.lstrip("/")).rstrip("/") if root and inside else ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
