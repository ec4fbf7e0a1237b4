"""Ctrl-C: what was begun becomes whole first, so that nobody is left with a job whose name was never printed."""

import signal
import threading
from typing import Any

INTERRUPTED = 130
"""What a command ends with that somebody ended."""


class Interrupt:
    """Ctrl-C, kept from `hold` until somebody can do the right thing about it. A second one does not wait."""

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def hold(self) -> None:
        """From here on one Ctrl-C is kept."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)

    def _press(self, _number: int, _frame: object) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True

    def let(self) -> None:
        """From here on Ctrl-C counts at once; one that was kept counts now."""
        self.forget()
        if self._pressed:
            self._pressed = False
            raise KeyboardInterrupt

    def forget(self) -> None:
        """Everything as it was before."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
