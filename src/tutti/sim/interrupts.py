"""Who interrupts a run is heard between two steps: in the midst of one the books do not agree with each other."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Whether somebody has interrupted."""

    __slots__ = ("came",)

    def __init__(self) -> None:
        self.came = False

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Somebody does."""
        self.came = True


@contextmanager
def held_back() -> Iterator[Interrupts]:
    """Only note signals that would raise something; those that are ignored, or end the program, do so as before."""
    interrupts = Interrupts()
    # Elsewhere nobody may set handlers, and none is called.
    is_main = threading.current_thread() is threading.main_thread()
    raising = {number: signal.getsignal(number) for number in HEARD if is_main and callable(signal.getsignal(number))}
    for number in raising:
        signal.signal(number, interrupts.note)
    try:
        yield interrupts
    finally:
        for number, handler in raising.items():
            signal.signal(number, handler)
