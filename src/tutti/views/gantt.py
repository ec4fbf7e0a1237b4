"""Who had which card when, drawn with letters: one row per card, time from left to right."""

from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase, digits
from typing import NamedTuple

LETTERS = ascii_uppercase + digits
FREE, HOLDING, MIXED = "·", "-", "+"


class Bar(NamedTuple):
    """A job held so many devices of a node for a while; it computed from `up` on (never, where that is below 0)."""

    job: str
    node: str
    devices: int
    begun: int
    up: int
    ended: int


def letters(jobs: Iterable[str], alone: bool = False) -> dict[str, str]:
    """A letter for every job: its own first letter where that is still free; the many of a stream share one.

    With `alone` every job has one of its own as long as there are letters.
    """
    found: dict[str, str] = {}
    stems: dict[str, str] = {}
    for job in jobs:
        stem = job if alone else job.rstrip(digits).rstrip("-") or job
        if stem not in stems:
            own = [letter for letter in stem.upper() if letter in LETTERS]
            left = [letter for letter in [*own, *LETTERS] if letter not in stems.values()]
            stems[stem] = left[0] if left else MIXED
        found[job] = stems[stem]
    return found


def draw(
    bars: Sequence[Bar], nodes: Sequence[tuple[str, int]], end: int, width: int, names: dict[str, str]
) -> list[str]:
    """The picture as lines of text: computing in capitals, holding without computing in small letters."""
    pad = max(len(node) for node, _ in nodes) + 3
    lines = []
    for node, devices in nodes:
        for lane, held in enumerate(_lanes([bar for bar in bars if bar.node == node], devices)):
            cells = "".join(_cell(held, column, end, width, names) for column in range(width))
            lines.append(f"{f'{node}.{lane}':>{pad}} {cells}")
    return lines


def _lanes(bars: list[Bar], devices: int) -> list[list[Bar]]:
    """Which card of the node each bar lies on; a device that is free longest ago comes first."""
    lanes: list[list[Bar]] = [[] for _ in range(devices)]
    for bar in sorted(bars, key=lambda bar: (bar.begun, bar.job)):
        free = [lane for lane in lanes if not lane or lane[-1].ended <= bar.begun]
        for lane in free[: bar.devices]:
            lane.append(bar)
    return lanes


def _cell(lane: list[Bar], column: int, end: int, width: int, names: dict[str, str]) -> str:
    middle = end * (2 * column + 1) // (2 * width)
    bar = next((bar for bar in lane if bar.begun <= middle < bar.ended), None)
    if bar is None:
        return FREE
    letter = names[bar.job]
    return letter if 0 <= bar.up <= middle else letter.lower() if letter in ascii_uppercase else HOLDING


def axis(end: int, width: int, pad: int, unit: int, suffix: str) -> str:
    """The time axis below the picture, in whole units."""
    marks = [" "] * (width + 12)
    steps = 4
    for step in range(steps + 1):
        text = f"{end * step // steps // unit}{suffix}"
        at = min(width * step // steps, width)
        marks[at : at + len(text)] = text
    return " " * (pad + 1) + "".join(marks).rstrip()


def is_job(letter: str) -> bool:
    """Whether a cell shows a job."""
    return letter in LETTERS or letter in ascii_lowercase
