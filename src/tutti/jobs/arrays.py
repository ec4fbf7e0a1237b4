"""Job arrays: `500` tasks, `0-99`, `1,5,7`, `0-20:4`, and `%10` for at most ten at once."""

import re

from tutti.engine.model import MOST_MEMBERS, Data

from .lazy import pattern
from .problems import Misread

PART = pattern(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
AN_ARRAY = "write 500, 0-99, 1,5,7, 0-20:4, and %10 at the end for at most ten at once"


class Array(Data, frozen=True):
    """The numbers of the tasks, in order, and how many may run at once."""

    indices: tuple[int, ...]
    at_once: int = 0
    """0 means no limit."""

    def __str__(self) -> str:
        """As it is written."""
        first, last = self.indices[0], self.indices[-1]
        run = self.indices == tuple(range(first, last + 1))
        text = f"{first}-{last}" if run else ",".join(map(str, self.indices))
        return f"{text}%{self.at_once}" if self.at_once else text


def array(written: int | str, bare_is_count: bool = True) -> Array:
    """The tasks of an array. A bare number is how many there are, or with batch systems the one task of that number."""
    text, percent, limit = str(written).strip().partition("%")
    if bare_is_count and re.fullmatch(r"[0-9]{1,9}", text):
        text = f"0-{int(text) - 1}" if int(text) else ""
    indices: set[int] = set()
    for part in text.split(","):
        indices.update(_indices(part.strip(), written))
        _bounded(len(indices))
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) < 10 and int(limit)):
        raise Misread(f"{written!r} has no number after the %", AN_ARRAY)
    return Array(tuple(sorted(indices)), int(limit) if percent else 0)


def _indices(part: str, written: object) -> range:
    found = PART.fullmatch(part)
    if not found:
        raise Misread(f"{written!r} is no array of tasks", AN_ARRAY)
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or not step:
        raise Misread(f"{written!r} has no tasks", AN_ARRAY)
    indices = range(first, last + 1, step)
    _bounded(len(indices))
    return indices


def _bounded(tasks: int) -> None:
    if tasks > MOST_MEMBERS:
        raise Misread(f"an array has at most {MOST_MEMBERS:,} tasks", AN_ARRAY)
