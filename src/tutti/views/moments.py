"""Moments and lengths of time as people read them."""

from datetime import UTC, datetime

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def span(length: int) -> str:
    """A length of time in the unit a person would choose."""
    if length < SECOND:
        return f"{length / 1000:.0f} ms"
    if length < MINUTE:
        return f"{length / SECOND:.0f} s"
    if length < HOUR:
        return f"{length / MINUTE:.0f} min"
    if length < 2 * DAY:
        return f"{length / HOUR:.1f} h"
    return f"{length / DAY:.1f} d"


def clock_text(moment: int, now: int) -> str:
    """A moment near now: how far it is, and what the clock will say."""
    ahead = moment - now
    told = "now" if abs(ahead) < SECOND else f"in {span(ahead)}" if ahead > 0 else f"{span(-ahead)} ago"
    return f"{told} ({clock(moment, now)})"


def coming(moment: int, now: int) -> str:
    """A moment that is still to come, or is overdue."""
    return clock_text(moment, now) if moment > now else "any moment"


def clock(moment: int, now: int) -> str:
    """What the clock says: the day only where it is another one."""
    at, today = _local(moment), _local(now)
    if at.date() == today.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%a %H:%M}" if abs(moment - now) < 6 * DAY else f"{at:%Y-%m-%d %H:%M}"


def iso(moment: int) -> str:
    """A moment for machines; empty for none."""
    return datetime.fromtimestamp(moment / SECOND, UTC).isoformat(timespec="milliseconds") if moment > 0 else ""


def _local(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / SECOND, UTC).astimezone()
