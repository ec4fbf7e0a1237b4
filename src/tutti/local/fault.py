"""What a test may have go wrong: the daemon killed at a certain point, a disk that takes no more, a clock that jumps.

`TUTTI_FAULT=7` kills the process with SIGKILL at the seventh point it comes to, `TUTTI_FAULT=NAME` at the first of that
name; `TUTTI_FAULT_COUNT=FILE` writes down how many points there were, so that a test can go through all of them. While
the file `TUTTI_FAULT_READ_ONLY` is there, the disk is read-only; the file `TUTTI_FAULT_CLOCK` holds by how many seconds
the clock is wrong.
"""

import errno
import os
import signal
import threading
import time
from pathlib import Path

_lock = threading.Lock()
_passed = 0
_clock = os.environ.get("TUTTI_FAULT_CLOCK", "")
_read_only = os.environ.get("TUTTI_FAULT_READ_ONLY", "")


def point(name: str) -> None:
    """A moment at which the machine's owner might pull the plug."""
    kill_at, file = os.environ.get("TUTTI_FAULT", ""), os.environ.get("TUTTI_FAULT_COUNT", "")
    if not kill_at and not file:
        return
    global _passed  # noqa: PLW0603 - one count for the whole process, from two threads
    with _lock:
        _passed += 1
        if file:
            with Path(file).open("a") as log:
                log.write(f"{_passed} {name}\n")
        if kill_at in {str(_passed), name}:
            os.kill(os.getpid(), signal.SIGKILL)


def writable() -> None:
    """Raises what the kernel would where the disk is read-only."""
    if _read_only and Path(_read_only).exists():
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def now_us() -> int:
    """The clock on the wall, in microseconds."""
    now = time.time_ns() // 1000
    return now if not _clock else now + round(float(Path(_clock).read_text() or 0) * 1_000_000)


def steady_us() -> int:
    """A clock that nobody sets, in microseconds: for how long something takes, or how long ago it was."""
    return time.monotonic_ns() // 1000
