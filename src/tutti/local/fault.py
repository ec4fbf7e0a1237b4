"""Points at which a test may have the daemon killed: every write to the journal and every step of a start.

`TUTTI_FAULT=7` kills the process with SIGKILL at the seventh point it comes to; `TUTTI_FAULT_COUNT=FILE` writes down
how many points there were, so that a test can go through all of them.
"""

import os
import signal
import threading
from pathlib import Path

_lock = threading.Lock()
_passed = 0


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
        if kill_at == str(_passed):
            os.kill(os.getpid(), signal.SIGKILL)
