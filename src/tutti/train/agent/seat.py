"""A member as the agent sees it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tutti.train.agent.beats import Budget

if TYPE_CHECKING:
    from tutti.train.agent.far import FarLine, FarWatch
    from tutti.train.agent.lines import Lines
    from tutti.train.agent.watch import Watch


@dataclass
class Seat:
    """Its process, connection and heartbeat."""

    name: str
    index: int
    watch: Watch | FarWatch
    domain: str = ""
    local: int = 0
    line: Lines | FarLine | None = None
    silence: Budget = field(default_factory=lambda: Budget(0.25, 1.0))
    last_beat_ns: int = 0
    killed_for: str = ""
    began_ns: int = field(default_factory=time.monotonic_ns)
    is_doomed: bool = False
    is_parting: bool = False
    step: int = -1
    unkept: int = -1
    computed_s: deque[float] = field(default_factory=lambda: deque(maxlen=5))

    @property
    def compute_s(self) -> float:
        """How long a step takes this member to compute: the middle of the last few."""
        return sorted(self.computed_s)[len(self.computed_s) // 2] if self.computed_s else 0.0
