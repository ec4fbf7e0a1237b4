"""Columns side by side, as wide as they need to be; and figures as people read them."""

from collections.abc import Sequence

MINUTE, HOUR, DAY = 60, 3600, 86400


def table(rows: Sequence[Sequence[str]], right: bool = True) -> list[str]:
    """Rows of text as lines; the first column stands to the left, the others to the right."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [_line(row, widths, right) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], right: bool) -> str:
    sized = enumerate(zip(row, widths, strict=True))
    cells = [cell.rjust(width) if right and at else cell.ljust(width) for at, (cell, width) in sized]
    return "  ".join(cells).rstrip()


def time_s(seconds: float) -> str:
    """A time in the unit a person would choose."""
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.1f} min"
    if seconds < 2 * DAY:
        return f"{seconds / HOUR:.1f} h"
    return f"{seconds / DAY:.1f} d"


def part(value: float) -> str:
    """A part of a whole, in percent."""
    return f"{100 * value:.1f} %"


def count(value: float) -> str:
    """A number with thousands apart."""
    return f"{value:,.0f}"


def factor(value: float) -> str:
    """A plain number, with as many digits as it deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
