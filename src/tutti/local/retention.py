"""What is kept, and for how long: logs and history have limits in time, number and size."""

import asyncio
import os
import shutil
from pathlib import Path

from tutti.api.home import Home
from tutti.engine.model import SECOND
from tutti.engine.read_policy import duration
from tutti.jobs.amounts import memory

from .fault import now_us, steady_us
from .journal import Journal
from .settings import Settings
from .sheets import Sheets

EVERY, HISTORY_EVERY = 60 * SECOND, 600 * SECOND
RARELY = 500
MOST_OWN, KEPT_OWN = 16 << 20, 1 << 20
CLEAR = """
DELETE FROM {table} WHERE {column} IN (SELECT id FROM jobs WHERE ended > 0
AND (ended < ? OR id NOT IN (SELECT id FROM jobs WHERE ended > 0 ORDER BY ended DESC LIMIT ?)))
"""
CLEARS = tuple(
    CLEAR.format(table=table, column=column) for table, column in (("events", "job"), ("runs", "job"), ("jobs", "id"))
)
AUDIT = "DELETE FROM audit WHERE at < ? OR id <= (SELECT max(id) FROM audit) - ?"
UNUSED = "DELETE FROM environments WHERE hash NOT IN (SELECT json_extract(context, '$.env_hash') FROM jobs)"


class Retention:
    """Clears away what is too old, now and then."""

    def __init__(self, home: Home, journal: Journal, settings: Settings, sheets: Sheets | None = None) -> None:
        self._home, self._journal, self.settings, self._sheets = home, journal, settings, sheets
        self._sizes: dict[Path, int] = {}
        """Of logs that nobody writes any more."""
        self._at = now_us()
        self._history_at = self._at + EVERY - HISTORY_EVERY
        self._wait = EVERY

    async def turn(self) -> None:
        """If it is time: old history, old logs, then the oldest logs until they fit."""
        now, begun = now_us(), steady_us()
        # What lies in the future was done before the clock was set back.
        if 0 <= now - self._at < self._wait:
            return
        self._at = now
        if not 0 <= now - self._history_at < HISTORY_EVERY:
            self._history_at = now
            self.history(now)
        keep = {int(row["id"]) for row in self._journal.rows("SELECT id FROM jobs WHERE ended = 0")}
        await asyncio.to_thread(self.logs, now, keep)
        await asyncio.to_thread(self.own_log)
        # A long list of folders takes its time to look at; it shall not be noticed.
        self._wait = max(EVERY, (steady_us() - begun) * RARELY)

    def history(self, now: int) -> None:
        """Jobs that ended too long ago, or are too many."""
        settings = self.settings.history
        before = now - duration(settings.keep)
        values = (before, settings.jobs)
        self._journal.later(*((sql, values) for sql in CLEARS), (UNUSED, ()), (AUDIT, (before, settings.audit)))
        if self._sheets is not None:
            self._sheets.thin(now, before)

    def logs(self, now: int, keep: set[int]) -> None:
        """Logs of ended jobs, oldest first."""
        folders = sorted(
            (path for path in self._home.logs.iterdir() if path.name.isdigit() and int(path.name) not in keep),
            key=lambda path: path.stat().st_mtime,
        )
        sizes = self._sizes = {path: self._sizes.get(path) or _size(path) for path in folders}
        total, most = sum(sizes.values()), memory(self.settings.logs.total)
        oldest = (now - self.settings.keep_logs) / SECOND
        for path in folders:
            if total > most or path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
                total -= sizes.pop(path)

    def own_log(self) -> None:
        """What the daemon itself has to say: the last part of it is kept, in place, because it is written on."""
        log = self._home.log
        if not log.exists() or log.stat().st_size <= MOST_OWN:
            return
        with log.open("rb") as file:
            file.seek(-KEPT_OWN, os.SEEK_END)
            last = file.read().partition(b"\n")[2]
        log.with_name(f"{log.name}.1").write_bytes(last)
        os.truncate(log, 0)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
