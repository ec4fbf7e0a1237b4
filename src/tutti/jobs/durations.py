"""Times as people write them, in microseconds: 90, 2h30m, 1-02:00:00; and moments: a duration from now, or a date."""

import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

from tutti.engine.model import DAY, HOUR, MINUTE, NEVER, SECOND

from .lazy import pattern
from .problems import Misread

UNITS = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1000}
SPAN = pattern(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|[wdhms])")
CLOCK = pattern(r"(?:([0-9]{1,5})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
DATE = pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)")
A_DURATION = "write seconds, or a text such as 90s, 30m, 2h30m, 7d or 1-12:00:00"
A_MOMENT = "write a duration from now (2h30m) or a date with its zone (2030-05-01T12:00:00+02:00)"


@lru_cache(maxsize=1024, typed=True)
def duration(written: float | str) -> int:
    """A length of time: whole seconds, a text with units, or [days-]hours:minutes[:seconds]."""
    text = str(written).strip()
    if not isinstance(written, bool) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
        return _sane(int(Fraction(text) * SECOND), written)
    compact = text.replace(" ", "")
    if compact and not SPAN.sub("", compact):
        return _sane(sum(int(Fraction(number) * UNITS[unit]) for number, unit in SPAN.findall(compact)), written)
    found = CLOCK.fullmatch(text)
    if found and (found[3] is not None or found[1] is not None):
        return _sane(clock(found[1], found[2], found[3], found[4]), written)
    raise Misread(f"{written!r} is not a duration", A_DURATION)


def clock(days: str | None, hours: str | None, minutes: str | None, seconds: str | None) -> int:
    """Microseconds of the parts of a clock, each of which may be missing."""
    parts = ((days, DAY), (hours, HOUR), (minutes, MINUTE), (seconds, SECOND))
    return sum(int(part) * length for part, length in parts if part)


def moment(written: int | str, now: int) -> int:
    """A point in time: so long after now, or a date."""
    text = str(written).strip()
    if DATE.match(text):
        return int(in_zone(text).timestamp() * SECOND)
    try:
        return now + duration(written)
    except Misread:
        raise Misread(f"{written!r} is not a moment", A_MOMENT) from None


def spelled(time: int) -> str:
    """A length of time as it would be written."""
    parts = []
    for unit, length in UNITS.items():
        if unit not in {"w", "ms"} and time >= length:
            parts.append(f"{time // length}{unit}")
            time %= length
    return "".join(parts) or "0s"


def in_zone(text: str) -> datetime:
    """A date; without a zone it is one of UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Misread(f"{text!r} is not a date", A_MOMENT) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _sane(time: int, written: object) -> int:
    if time >= NEVER // 4:
        raise Misread(f"{written!r} is longer than anybody will wait", A_DURATION)
    return time
