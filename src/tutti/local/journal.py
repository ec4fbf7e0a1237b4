"""What the daemon must not forget, in SQLite: acknowledged means that the disk has it.

One thread writes. What several callers ask for at the same time goes to the disk together, so that many submissions
cost one flush. Readers have a connection of their own.
"""

import asyncio
import contextlib
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tutti.errors import Refused, TuttiError

from .fault import point, writable
from .schema import STEPS, VERSION

LAZY_S = 0.05
"""How long writes that nobody waits for may gather."""
TOGETHER_S = 0.01
"""How long those who ask about an end may have to wait, so that the next start goes to the disk with it."""
MOST_AT_ONCE = 512
RETRY_S = 1.0

Write = tuple[str, Sequence[Any]]
Outcomes = list[tuple["asyncio.Future[None]", Exception | None]]


class Unstored(TuttiError):
    """The disk would not take it; nothing was promised."""


class Unit(NamedTuple):
    """Writes that happen together, and who waits for them."""

    writes: tuple[Write, ...]
    stored: "asyncio.Future[None] | None" = None
    patience: float = LAZY_S
    """How long it may wait for others to go to the disk with it."""


class Journal:
    """The journal of one home."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        """Why the disk does not take writes now; empty when it does."""
        prepare(path)
        self.reader = _connected(path, "reader")
        self._inbox: queue.Queue[Unit | None] = queue.Queue()
        self._unstored: list[Unit] = []
        """What nobody waits for and the disk did not take: it goes before everything else, so that a commit that
        succeeds has everything before it."""
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    async def commit(self, writes: Iterable[Write], patience: float = 0.0) -> None:
        """Write, and return when the disk has it. Raises Unstored when it does not take it."""
        # Whoever else was asked for something at this moment comes first to this point: all of it is one flush.
        await asyncio.sleep(0)
        await self.storing(writes, patience)

    def storing(self, writes: Iterable[Write], patience: float = 0.0) -> "asyncio.Future[None]":
        """Begin to write at once; the future is done when the disk has it, or holds Unstored."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put(Unit(tuple(writes), stored, patience))
        return stored

    def later(self, *writes: Write) -> None:
        """Write soon; whoever needs to be sure uses `commit`, which waits for everything before it too."""
        self._inbox.put(Unit(writes))

    def close(self) -> None:
        """Write what is left and let go of the file."""
        self._inbox.put(None)
        self._thread.join(timeout=30)
        self.reader.close()

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """What a question finds, as of the last commit."""
        return self.reader.execute(sql, values).fetchall()

    def backup(self, target: Path) -> None:
        """A copy of the journal as of now, whole, while it is in use."""
        target.parent.mkdir(parents=True, exist_ok=True)
        # What jobs were submitted with is in it, and people put keys into variables.
        target.touch(mode=0o600)
        with contextlib.closing(sqlite3.connect(target)) as copy:
            self.reader.backup(copy)

    # -- the writing thread

    def _write_all(self) -> None:
        base = _connected(self.path, "writer")
        try:
            while (units := self._gathered()) is not None:
                self._store(base, units)
            if self._unstored:
                self._store(base, self._unstored)
        finally:
            base.close()

    def _gathered(self) -> list[Unit] | None:
        """Everything that waits to be written; None when there will be nothing more."""
        first = self._first()
        if first is None:
            return None
        units = [*self._unstored, first]
        self._unstored = []
        until = time.monotonic() + first.patience
        with contextlib.suppress(queue.Empty):
            while len(units) < MOST_AT_ONCE:
                left = until - time.monotonic()
                unit = self._inbox.get(timeout=left) if left > 0 else self._inbox.get_nowait()
                if unit is None:
                    self._inbox.put(None)
                    break
                units.append(unit)
                until = min(until, time.monotonic() + unit.patience)
        return units

    def _first(self) -> Unit | None:
        """What comes next; nothing new where what the disk did not take is to be tried again."""
        try:
            return self._inbox.get(timeout=RETRY_S if self._unstored else None)
        except queue.Empty:
            return Unit((), patience=0.0)

    def _store(self, base: sqlite3.Connection, units: list[Unit]) -> None:
        try:
            point("journal: before")
            bad = self._transact(base, units)
            self.trouble = self.trouble if self._unstored else ""
        except (sqlite3.Error, OSError) as problem:
            self._failed(base, units, problem)
            asked = [unit for unit in units if unit.stored is not None and unit.writes]
            if asked and len(asked) < len(units):
                # What somebody waits for must not suffer from something else that is too large.
                self._store(base, asked)
            return
        point("journal: stored")
        _tell([(unit.stored, bad.get(id(unit))) for unit in units if unit.stored is not None])

    def _transact(self, base: sqlite3.Connection, units: list[Unit]) -> dict[int, Exception]:
        """All of it in one transaction, without what the journal refuses; whose that is, and why."""
        writable()
        base.execute("BEGIN IMMEDIATE")
        try:
            for unit in units:
                for sql, values in unit.writes:
                    base.execute(sql, values)
            bad: dict[int, Exception] = {}
        except sqlite3.IntegrityError:
            base.execute("ROLLBACK")
            base.execute("BEGIN IMMEDIATE")
            bad = _one_by_one(base, units)
        point("journal: written")
        base.execute("COMMIT")
        return bad

    def _failed(self, base: sqlite3.Connection, units: list[Unit], problem: sqlite3.Error | OSError) -> None:
        """Nothing of it is stored: those who wait are told, what nobody waits for is tried again."""
        with contextlib.suppress(sqlite3.Error):
            base.execute("ROLLBACK")
        self.trouble = str(problem)
        why = Unstored(
            f"the journal cannot be written: {problem}",
            str(self.path),
            "see that there is disk space and that it can be written, then retry",
        )
        asked = [unit for unit in units if unit.stored is not None and unit.writes]
        alone = len(asked) == len(units)
        _tell([(unit.stored, why) for unit in units if unit.stored is not None and (alone or not unit.writes)])
        if not alone:
            self._unstored = [unit for unit in units if unit.stored is None and unit.writes]


def _one_by_one(base: sqlite3.Connection, units: list[Unit]) -> dict[int, Exception]:
    """Writes that are refused take only those with them that belong to them."""
    bad: dict[int, Exception] = {}
    for unit in units:
        base.execute("SAVEPOINT unit")
        try:
            for sql, values in unit.writes:
                base.execute(sql, values)
        except sqlite3.IntegrityError as problem:
            base.execute("ROLLBACK TO unit")
            bad[id(unit)] = Unstored(f"the journal refused it: {problem}")
        base.execute("RELEASE unit")
    return bad


def _tell(outcomes: Outcomes) -> None:
    """Wake everybody who waits for these writes, at once: each call into another thread has its price."""
    if outcomes:
        outcomes[0][0].get_loop().call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: Outcomes) -> None:
    for stored, problem in outcomes:
        if stored.cancelled():
            continue
        if problem is None:
            stored.set_result(None)
        else:
            stored.set_exception(problem)


def _connected(path: Path, who: str) -> sqlite3.Connection:
    base = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    base.row_factory = sqlite3.Row
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA synchronous = FULL")
    if who == "reader":
        base.execute("PRAGMA query_only = ON")
    return base


def prepare(path: Path) -> None:
    """Make the journal, or bring an older one up to this version. One of a newer version is left alone."""
    try:
        with contextlib.closing(_connected(path, "writer")) as base:
            found = int(base.execute("PRAGMA user_version").fetchone()[0])
            if found > VERSION:
                raise Refused(
                    f"the journal is of version {found}, and this Tutti knows versions up to {VERSION}",
                    str(path),
                    "use the newer Tutti, or another TUTTI_HOME",
                )
            if found and found < VERSION:
                base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                shutil.copy2(path, path.with_name(f"{path.name}.v{found}"))
            for version in range(found, VERSION):
                migrate(base, version)
            base.execute("SELECT count(*) FROM jobs WHERE ended = 0").fetchone()
    except sqlite3.DatabaseError as problem:
        raise TuttiError(
            f"the journal cannot be opened: {problem}",
            str(path),
            "nothing was changed; `tutti backup --restore FILE` puts a backup in its place",
        ) from problem
    path.chmod(0o600)


def migrate(base: sqlite3.Connection, version: int) -> None:
    """One version further, whole or not at all."""
    base.executescript(f"BEGIN IMMEDIATE;\n{STEPS[version]}\nPRAGMA user_version = {version + 1};\nCOMMIT;")
