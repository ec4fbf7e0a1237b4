"""Where members wait for each other: each has become the job's program, and none has done anything of it.

A process that is traced stops when it has executed its program, before the first instruction. So when the last of them
is there, only the word is missing, and what takes time is behind them. Where tracing is not allowed, and for programs
that would lose their privileges by it, members wait before they execute their program instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import stat
import time
from collections.abc import Collection

TRACE_ME, CONTINUE, DETACH, SET_OPTIONS = 0, 7, 17, 0x4200
DIE_WITH_TRACER = 1 << 20
LOOK_EVERY_S = 0.05
NUMBER = 4
"""Bytes of a process id."""
_ptrace = ctypes.CDLL(None).ptrace
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_ptrace.restype = ctypes.c_long


class Gate:
    """The keeper's side: members come to it one by one and leave it all at once."""

    def __init__(self) -> None:
        self._ready, self._ready_in = os.pipe()
        self._opens, self._holds = os.pipe()
        os.set_blocking(self._ready, False)
        self._stopped: list[int] = []

    def ends(self) -> tuple[int, int]:
        """What a member needs of it: where it says that it is ready, and where it hears that all are."""
        return self._ready_in, self._opens

    def leave_to_keeper(self) -> None:
        """In a member that was forked with all of it: let go of what only the keeper may hold."""
        os.close(self._holds)
        os.close(self._ready)

    def await_all(self, members: Collection[int], limit_s: float) -> None:
        """Until every member waits or is gone; one that does neither in time is killed, for nobody could free it."""
        self._close_ready_in()
        # Executing closes this pipe, as do waiting and dying: at its end nobody is on the way any longer.
        waiting = self._until_closed(members, time.monotonic() + limit_s)
        if waiting is None:
            for pid in members:
                if not self._has_stopped(pid, os.WNOHANG):
                    os.kill(pid, signal.SIGKILL)
            return
        for pid in members:
            if pid not in waiting:
                self._has_stopped(pid)

    def hold(self, members: Collection[int]) -> bool:
        """Leave those who are there stopped without a trace, so that not only their keeper can let them go; False where
        one waits in another way.
        """
        if set(self._stopped) != set(members):
            return False
        for pid in self._stopped:
            _ptrace(DETACH, pid, None, signal.SIGSTOP)
        self._stopped = []
        return True

    def open(self) -> None:
        """Let all of them go who are held by a trace or by the pipe."""
        self.take_down()
        for pid in self._stopped:
            _ptrace(DETACH, pid, None, None)

    def take_down(self) -> None:
        """There is no gate any longer; whoever waits at it without being traced goes."""
        self._close_ready_in()
        for end in (self._holds, self._opens, self._ready):
            os.close(end)

    def _close_ready_in(self) -> None:
        if self._ready_in >= 0:
            os.close(self._ready_in)
            self._ready_in = -1

    def _until_closed(self, members: Collection[int], limit: float) -> set[int] | None:
        """Who waits without being traced; None when the time is over."""
        look = select.poll()
        look.register(self._ready, select.POLLIN)
        told = b""
        while time.monotonic() < limit:
            if not look.poll(LOOK_EVERY_S * 1000):
                _pass_signals_on(members)
                continue
            if not (piece := os.read(self._ready, 4096)):
                return {int.from_bytes(told[at : at + NUMBER], "little") for at in range(0, len(told), NUMBER)}
            told += piece
        return None

    def _has_stopped(self, pid: int, flags: int = 0) -> bool:
        """Whether a member has stopped behind its program; it does so at once, unless it is gone."""
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | flags)
        if found is None or found.si_code != os.CLD_TRAPPED:
            return found is not None
        _ptrace(SET_OPTIONS, pid, None, DIE_WITH_TRACER)
        self._stopped.append(pid)
        return True


def _pass_signals_on(members: Collection[int]) -> None:
    """A signal to a process that is traced stops it until its tracer has decided; ours is that it shall have it."""
    for pid in members:
        with contextlib.suppress(ChildProcessError):
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG)
            if found is not None and found.si_code == os.CLD_TRAPPED and found.si_status != signal.SIGTRAP:
                _ptrace(CONTINUE, pid, None, found.si_status)


def wait_at(gate: tuple[int, int], program: str) -> None:
    """In a member that executes its program next: wait for the others, behind that or before it."""
    if _may_be_traced(program) and _ptrace(TRACE_ME, 0, None, None) == 0:
        return
    ready_in, opens = gate
    os.write(ready_in, os.getpid().to_bytes(NUMBER, "little"))
    os.close(ready_in)
    if os.read(opens, 1) != b"":
        os._exit(1)
    os.close(opens)


def _may_be_traced(program: str) -> bool:
    """A program that runs as somebody else does not do so under a trace."""
    try:
        has_rights = "security.capability" in os.listxattr(program)
        return not has_rights and not os.stat(program).st_mode & (stat.S_ISUID | stat.S_ISGID)
    except OSError:
        return True
