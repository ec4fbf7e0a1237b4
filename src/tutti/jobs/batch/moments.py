"""Moments as batch systems write them. Clocks and dates are those of this machine's zone.

What comes out is what a job file takes: a duration from now ('3600s'), or a date with its zone.
"""

import re
from datetime import UTC, datetime, timedelta

from tutti.jobs.durations import duration
from tutti.jobs.lazy import pattern
from tutti.jobs.problems import Misread

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
NAMED = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}
FROM_NOW = pattern(r"now(?:\s*\+\s*([0-9]{1,9})\s*([a-z]*))?")
CLOCK = pattern(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?\s*(am|pm)?")
DATES = ("%Y-%m-%d", "%m%d%y", "%m/%d/%y", "%d.%m.%y")
A_SLURM = "write now+2hours, 16:30, tomorrow, or 2030-05-01T12:00"
A_PBS = "write [[[[CC]YY]MM]DD]hhmm[.SS], as in 2130 or 203005011200"
AN_LSF = "write [[[year:]month:]day:]hour:minute, as in 20:00 or 5:1:12:00"
A_FLUX = "write +2h, or a date such as 2030-05-01T12:00"


def slurm(text: str, now: datetime | None = None) -> str:
    """`--begin` and `--deadline`: now+1hour, 16:00, 4:30pm, teatime, tomorrow, 2030-01-20T12:34."""
    said = text.strip().lower()
    if found := FROM_NOW.fullmatch(said):
        return _from_now(text, found[1] or "0", found[2] or "seconds")
    today = now or _here()
    said = NAMED.get(said, said)
    if found := CLOCK.fullmatch(said):
        return _zoned(_next(_clock(today, found, text), today))
    day, _, at = said.replace("t", " ", 1).partition(" ") if said[:1].isdigit() else (said, "", "")
    midnight = _day(day, today)
    if midnight is None:
        raise Misread(f"{text!r} is no moment", A_SLURM)
    found = CLOCK.fullmatch(at or "00:00")
    if not found:
        raise Misread(f"{text!r} is no moment", A_SLURM)
    return _zoned(_clock(midnight, found, text))


def _from_now(text: str, count: str, unit: str) -> str:
    """Units may be cut short: hour, hours, hou."""
    for name, seconds in UNITS.items():
        if f"{name}s".startswith(unit):
            return f"{int(count) * seconds}s"
    raise Misread(f"{text!r} is no moment", A_SLURM)


def _day(text: str, today: datetime) -> datetime | None:
    if text in {"today", "tomorrow"}:
        return today.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=text == "tomorrow")
    for form in DATES:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - it is in this machine's zone
        except ValueError:
            continue
    return None


def _clock(day: datetime, found: re.Match[str], text: str) -> datetime:
    hour = int(found[1])
    if found[4]:
        hour = hour % 12 + (12 if found[4] == "pm" else 0) if 1 <= hour <= 12 else 99
    return _at(text, A_SLURM, day, hour=hour, minute=int(found[2]), second=int(found[3] or 0))


def _at(text: str, hint: str, base: datetime, /, **parts: int) -> datetime:
    try:
        return base.replace(microsecond=0, **parts)  # type: ignore[arg-type]  # the parts of a clock and a date
    except ValueError:
        raise Misread(f"{text!r} is no moment", hint) from None


def _next(moment: datetime, now: datetime) -> datetime:
    """A clock that has struck today is tomorrow's."""
    return moment if moment > now else moment + timedelta(days=1)


def pbs(text: str, now: datetime | None = None) -> str:
    """`-a [[[[CC]YY]MM]DD]hhmm[.SS]`: what is left out is the next that comes."""
    found = re.fullmatch(r"((?:[0-9]{2}){2,6})(?:\.([0-9]{2}))?", text.strip())
    if not found:
        raise Misread(f"{text!r} is no moment", A_PBS)
    today, pairs = now or _here(), [int(pair) for pair in re.findall("..", found[1])]
    year = pairs[-6] * 100 + pairs[-5] if len(pairs) == 6 else 2000 + pairs[-5] if len(pairs) == 5 else None
    parts = {"hour": pairs[-2], "minute": pairs[-1], "second": int(found[2] or 0)}
    return _counted(text, A_PBS, today, parts, pairs[-3:-2], pairs[-4:-3], [year] if year else [])


def lsf(text: str, now: datetime | None = None) -> str:
    """`-b [[[year:]month:]day:]hour:minute`."""
    if not re.fullmatch(r"(?:[0-9]{1,4}:){1,4}[0-9]{1,2}", text.strip()):
        raise Misread(f"{text!r} is no moment", AN_LSF)
    today, numbers = now or _here(), [int(part) for part in text.strip().split(":")]
    parts = {"hour": numbers[-2], "minute": numbers[-1], "second": 0}
    return _counted(text, AN_LSF, today, parts, numbers[-3:-2], numbers[-4:-3], numbers[-5:-4])


def _counted(
    text: str, hint: str, now: datetime, parts: dict[str, int], day: list[int], month: list[int], year: list[int]
) -> str:
    """A clock, perhaps with a day, a month and a year; the first such moment that is still to come."""
    said = {name: found[0] for name, found in (("day", day), ("month", month), ("year", year)) if found}
    moment = _at(text, hint, now, **parts, **said)
    if moment <= now and not said:
        moment += timedelta(days=1)
    elif moment <= now and not month:
        moment = _at(text, hint, moment, year=now.year + now.month // 12, month=now.month % 12 + 1)
    elif moment <= now and not year:
        moment = _at(text, hint, moment, year=now.year + 1)
    return _zoned(moment)


def flux(text: str) -> str:
    """`--begin-time=+2h`, or a date."""
    said = text.strip()
    if said.startswith("+"):
        return f"{duration(said[1:]) // 1_000_000}s"
    try:
        return _zoned(datetime.fromisoformat(said))
    except ValueError:
        raise Misread(f"{text!r} is no moment", A_FLUX) from None


def _here() -> datetime:
    """What the clock on the wall shows."""
    return datetime.now(UTC).astimezone().replace(tzinfo=None)


def _zoned(moment: datetime) -> str:
    return (moment if moment.tzinfo else moment.astimezone()).isoformat(timespec="seconds")
