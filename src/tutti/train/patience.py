"""Waiting for a slot that somebody reads, and what there is to say about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tutti.train.errors import NoMemory

BUSY_S = 1.0
"""How long a shard waits for a slot that is being read: nobody else could bring its state back."""
WORTH_TELLING_S = 0.1
LOOK_S = 0.002

News = tuple[str, str, dict[str, float]]


@dataclass
class Patience:
    """How the last snapshot fared. What is unusual is said when it begins and when it is over, not at every step."""

    is_kept: bool = True
    waited_s: float = 0.0
    why: str = ""
    _said: str = field(default="kept")

    def begin(self) -> None:
        self.is_kept, self.waited_s, self.why = True, 0.0, ""

    def refuse(self, error: NoMemory, generation: int) -> bool:
        """It cannot be kept at all. A run that has only begun ends by it; one that has come some way goes on."""
        if generation <= 1:
            raise error
        self.is_kept, self.why = False, str(error)
        return False

    def insist(self, take: Callable[[], bool], limit_s: float) -> bool:
        """Try until it is done or the time is over."""
        if take():
            return True
        began = time.monotonic()
        while not (is_done := take()) and time.monotonic() - began < limit_s:
            time.sleep(LOOK_S)
        self.waited_s += time.monotonic() - began
        self.is_kept = self.is_kept and is_done
        return is_done

    def news(self, step: int, complete: int) -> News | None:
        """What has changed: a snapshot was held up, could not be kept, or is kept again."""
        before, self._said = self._said, self._state()
        facts = {"step": step, "complete": complete, "waited_s": round(self.waited_s, 3)}
        if self._said == before or (before, self._said) == ("waited", "kept"):
            return None
        if self._said == "unkept":
            why = self.why or f"all slots it may go to were being read{how_long(self.waited_s)}"
            return "unkept", f"step {step} could not be kept in memory: {why}{whole(complete)}", facts
        if before == "unkept":
            return "kept", f"step {step} is kept in memory again", facts
        return "waited", f"step {step} was kept only after {self.waited_s:.1f} s: its slots were being read", facts

    def _state(self) -> str:
        if not self.is_kept:
            return "unkept"
        return "waited" if self.waited_s >= WORTH_TELLING_S else "kept"


def whole(complete: int) -> str:
    return f"; step {complete} stays" if complete >= 0 else ""


def how_long(waited_s: float) -> str:
    return f" for {waited_s:.1f} s" if waited_s >= WORTH_TELLING_S else ""
