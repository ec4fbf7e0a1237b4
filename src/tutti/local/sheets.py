"""The ledger over time: its totals are written down now and then, finely for a while and coarsely after that."""

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from tutti.api import types as t
from tutti.engine.model import SECOND

from .journal import Journal
from .shelf import encode
from .tallies import Tallies

BUSY, IDLE = 10 * SECOND, 60 * SECOND
"""How often the totals are written down while something happens, and while nothing does."""
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
COARSER = ((HOUR, MINUTE), (2 * DAY, HOUR))
"""From which age on one row is kept for how long a stretch."""
THIN = "DELETE FROM sheets WHERE at < ?1 AND at NOT IN (SELECT max(at) FROM sheets WHERE at < ?1 GROUP BY at / ?2)"
MOST_POINTS = 500
Total = dict[str, int]


class Sheets:
    """What was spent on what, stretch by stretch."""

    def __init__(self, journal: Journal, tallies: Tallies) -> None:
        self._journal, self._tallies = journal, tallies
        self._at = 0
        self._version = -1

    def turn(self, now: int, version: int) -> None:
        """Write the totals down, if it is time."""
        wait = IDLE if version == self._version else BUSY
        if 0 <= now - self._at < wait:
            return
        self._at, self._version = now, version
        row = (now, encode(self._tallies.ledger(now).total))
        self._journal.later(("INSERT OR REPLACE INTO sheets (at, total) VALUES (?, ?)", row))

    def thin(self, now: int, oldest: int) -> None:
        """What is old is kept less finely, and what is too old not at all."""
        writes = [(THIN, (now - age, stretch)) for age, stretch in COARSER]
        self._journal.later(*writes, ("DELETE FROM sheets WHERE at < ?", (oldest,)))

    def history(self, since: int, until: int, points: int, now: int) -> t.ReportHistory:
        """The stretches between two moments, together where there are more than can be shown."""
        rows = self._journal.rows("SELECT at, total FROM sheets WHERE at BETWEEN ? AND ? ORDER BY at", since, until)
        found = [(int(row["at"]), msgspec.json.decode(row["total"], type=Total)) for row in rows]
        if until >= now:
            found.append((now, self._tallies.ledger(now).total))
        step = -(-len(found) // max(min(points, MOST_POINTS), 1))
        # Counted from the end, so that the latest stretch always ends now.
        chosen = found[::-1][:: max(step, 1)][::-1]
        return t.ReportHistory(stretches=[_stretch(*before, *after) for before, after in pairwise(chosen)])

    def since(self, moment: int, now: int) -> t.Stretch:
        """All that happened from a moment on, as one stretch; from the first thing known, where that is later."""
        ledger = self._tallies.ledger(now)
        begun, before = ledger.since, dict[str, int]()
        rows = self._journal.rows("SELECT at, total FROM sheets WHERE at <= ? ORDER BY at DESC LIMIT 1", moment)
        if rows and moment > begun:
            begun, before = int(rows[0]["at"]), msgspec.json.decode(rows[0]["total"], type=Total)
        return _stretch(begun, before, now, ledger.total)


def _stretch(begun: int, before: Mapping[str, int], ended: int, after: Mapping[str, int]) -> t.Stretch:
    spent = {what: (after.get(what, 0) - before.get(what, 0)) / SECOND for what in after}
    installed = sum(spent.values())
    return t.Stretch(
        begun_us=begun,
        ended_us=ended,
        spent={what: amount for what, amount in spent.items() if amount},
        goodput=max(spent.get("useful-kept", 0.0), 0.0) / installed if installed > 0 else 0.0,
    )
