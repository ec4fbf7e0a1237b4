"""What a member is told when it is started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Begin:
    """What a member is told when it starts: its entry among the heartbeats, its place, the world, how often all were
    started before, and its place among those of its machine.
    """

    index: int
    rank: int
    world: int
    attempt: int
    local: int
    local_world: int
