"""Watching a process by a handle that can never mean another one."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from selectors import BaseSelector
from typing import Protocol

FLAGS, EXIT_CODE = 6, 49
PF_EXITING = 0x4
BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Another for each start of the machine; a test may name another file."""


class Watch:
    """A process as a pidfd: readable when it has ended, and safe to signal."""

    is_cut_off = False
    """Whether it went with its whole machine."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        self._stat = open_stat(pid)

    def fileno(self) -> int:
        return self._fd

    def send(self, number: int) -> bool:
        """Signal the process; False when it has already ended."""
        try:
            signal.pidfd_send_signal(self._fd, number)
        except ProcessLookupError:
            return False
        return True

    def reap(self) -> int | None:
        """The exit code of an ended child (negative: a signal); None while it runs."""
        try:
            result = os.waitid(os.P_PIDFD, self._fd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return None if self.is_running() else -signal.SIGKILL
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def end_group(self) -> bool:
        """Kill what an ended child has left running; True when it led a group of its own. Its number cannot mean
        anybody else until it is reaped.
        """
        try:
            has_ended = os.waitid(os.P_PIDFD, self._fd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if not has_ended or os.getpgid(self.pid) != self.pid:
                return False
            os.killpg(self.pid, signal.SIGKILL)
        except (ChildProcessError, ProcessLookupError, PermissionError):
            return False
        return True

    def is_running(self) -> bool:
        try:
            signal.pidfd_send_signal(self._fd, 0)
        except ProcessLookupError:
            return False
        return state_of(self.pid) not in ("Z", "X", "")

    def doom(self) -> int | None:
        """The signal (negative) that ends a process whose every thread is past its last instruction, though the kernel
        is still busy taking it apart; None while it may still do something.
        """
        folder = f"/proc/{self.pid}"
        try:
            # Nearly always the first thread alone tells that nothing is wrong; they are many.
            if not self.is_dying():
                return None
            words = [words_of(f"{folder}/task/{thread}/stat") for thread in os.listdir(f"{folder}/task")]
        except (OSError, IndexError):
            return None
        if not words or not all(map(is_exiting, words)):
            return None
        code = next((int(one[EXIT_CODE]) & 0x7F for one in words if int(one[EXIT_CODE]) & 0x7F), 0)
        return -code if code else None

    def is_dying(self) -> bool:
        """Whether its first thread is past its last instruction; cheap enough to be asked all the time."""
        try:
            return self._stat >= 0 and is_exiting(fields_of(os.pread(self._stat, 1024, 0).decode()))
        except (OSError, IndexError):
            return True

    def is_stopped(self) -> bool:
        """Whether it was frozen by a signal or a debugger."""
        return state_of(self.pid) in ("T", "t")

    def cpu_s(self) -> float:
        """Processor time that it has used so far."""
        return cpu_s(self.pid)

    def close(self) -> None:
        os.close(self._fd)
        if self._stat >= 0:
            os.close(self._stat)


class Ended(Protocol):
    """A process that may have ended, here or on another machine."""

    pid: int

    def reap(self) -> int | None: ...

    def end_group(self) -> bool: ...

    def close(self) -> None: ...


class Farewells:
    """Sees off processes that were watched through a selector, and whatever they have left running."""

    def __init__(self, selector: BaseSelector) -> None:
        self._selector = selector
        self._left_behind: set[int] = set()

    def see_off(self, watch: Ended) -> int | None:
        """The exit code of a process that has ended, which is then watched no longer; None while it runs."""
        if watch.end_group():
            self._left_behind.add(watch.pid)
        code = watch.reap()
        if code is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(watch)  # type: ignore[arg-type]
            watch.close()
        return code

    def are_over(self) -> bool:
        """Whether nothing is left of those that were seen off: what a member started and did not end (those that read
        its data) is killed with it, and noted here when it is gone.
        """
        self._left_behind = {group for group in self._left_behind if not reap_group(group)}
        return not self._left_behind


def open_stat(pid: int) -> int:
    """The kernel's account of a first thread, to be read again and again; -1 when there is none."""
    try:
        return os.open(f"/proc/{pid}/task/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def words_of(path: str) -> list[str]:
    return fields_of(Path(path).read_text())


def fields_of(stat: str) -> list[str]:
    """The fields of a `stat` file behind the name of the program, which may have blanks in it."""
    return stat.rpartition(")")[2].split()


def is_exiting(words: list[str]) -> bool:
    return bool(int(words[FLAGS]) & PF_EXITING)


def state_of(pid: int) -> str:
    """The kernel's one letter for what a process does; empty when there is none."""
    try:
        return words_of(f"/proc/{pid}/stat")[0]
    except (OSError, IndexError):
        return ""


def reap_group(group: int) -> bool:
    """Take note of the ended children of a process group; True when there are none left."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def cpu_s(pid: int) -> float:
    """Processor time that a process has used so far."""
    try:
        words = words_of(f"/proc/{pid}/stat")
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def started_at(pid: int) -> str:
    """When a process started, in the kernel's ticks: with the boot id, a name that is never reused."""
    try:
        return words_of(f"/proc/{pid}/stat")[19]
    except (OSError, IndexError):
        return ""


def identity(pid: int) -> str:
    """A process named so that no later process is mistaken for it."""
    boot = Path(os.environ.get("TUTTI_FAULT_BOOT_ID") or BOOT_ID).read_text().strip()
    return f"{boot}/{pid}/{started_at(pid)}"


def is_alive(name: str) -> bool:
    """Whether the process of that identity still runs."""
    pid = int(name.split("/")[1])
    return state_of(pid) not in ("", "Z", "X") and identity(pid) == name
