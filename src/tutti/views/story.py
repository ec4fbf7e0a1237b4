"""The story of a job as lines of text: what happened when, and what it waited for."""

from collections.abc import Sequence
from typing import Protocol

from .moments import clock, span


class Told(Protocol):
    """One thing that happened."""

    @property
    def at_us(self) -> int: ...
    @property
    def text(self) -> str: ...


def story_lines(name: str, state: str, events: Sequence[Told], now: int) -> list[str]:
    """A line for each happening, with the time that passed before it."""
    lines = [f"{name} is {state}"]
    before = 0
    for event in events:
        gap = f"+{span(event.at_us - before)}" if before and event.at_us > before else ""
        lines.append(f"  {clock(event.at_us, now):>16}  {gap:>9}  {event.text}")
        before = event.at_us
    return lines
