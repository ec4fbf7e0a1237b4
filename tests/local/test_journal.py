"""The journal: acknowledged means stored, and what cannot be read is left alone."""

import asyncio
import sqlite3

import pytest

from tutti.errors import Refused, TuttiError
from tutti.local import journal as journal_module
from tutti.local import schema, shelf
from tutti.local.journal import Journal, Unstored
from tutti.local.schema import VERSION


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal.db")
    yield made
    made.close()


def stored(tmp_path, key):
    with sqlite3.connect(tmp_path / "journal.db") as base:
        return base.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()


def test_what_is_acknowledged_is_there_for_another_reader(journal, tmp_path):
    asyncio.run(journal.commit([shelf.kept("a", "1")]))
    assert stored(tmp_path, "a") == ("1",)


def test_many_at_once_share_a_flush(journal, monkeypatch):
    begun = []
    real = Journal._transact

    def counted(self, base, units):
        begun.append(len(units))
        return real(self, base, units)

    monkeypatch.setattr(Journal, "_transact", counted)

    async def many():
        await asyncio.gather(*(journal.commit([shelf.kept(f"k{at}", "v")]) for at in range(200)))

    asyncio.run(many())
    assert sum(begun) == 200
    assert len(begun) < 50


def test_a_commit_waits_for_everything_before_it(journal):
    for at in range(20):
        journal.later(shelf.kept(f"later{at}", "x"))
    asyncio.run(journal.commit(()))
    assert len(journal.rows("SELECT * FROM meta WHERE key LIKE 'later%'")) == 20


def test_one_that_is_refused_does_not_harm_the_others(journal):
    bad = ("INSERT INTO meta (key, value) VALUES ('b', NULL)", ())

    async def both():
        return await asyncio.gather(
            journal.commit([shelf.kept("good", "1")]), journal.commit([bad]), return_exceptions=True
        )

    good, refused = asyncio.run(both())
    assert good is None
    assert isinstance(refused, Unstored)
    assert shelf.remembered(journal, "good") == "1"


def test_a_full_disk_is_told_and_nothing_half_is_stored(journal):
    asyncio.run(journal.commit([shelf.kept("before", "1")]))
    pages = journal.reader.execute("PRAGMA page_count").fetchone()[0]
    limit = (f"PRAGMA max_page_count = {pages + 2}", ())
    asyncio.run(journal.commit([limit]))
    with pytest.raises(Unstored, match="cannot be written") as told:
        asyncio.run(journal.commit([shelf.kept("half", "x"), shelf.kept("big", "x" * 100_000)]))
    assert "disk space" in str(told.value)
    assert journal.trouble
    assert not shelf.remembered(journal, "half")
    asyncio.run(journal.commit([("PRAGMA max_page_count = 1000000", ())]))
    asyncio.run(journal.commit([shelf.kept("after", "1")]))
    assert shelf.remembered(journal, "after") == "1"
    assert not journal.trouble


def test_what_nobody_waits_for_is_tried_again_when_there_is_room(journal, monkeypatch):
    monkeypatch.setattr(journal_module, "RETRY_S", 0.01)
    pages = journal.reader.execute("PRAGMA page_count").fetchone()[0]
    asyncio.run(journal.commit([(f"PRAGMA max_page_count = {pages + 2}", ())]))
    journal.later(shelf.kept("patient", "x" * 100_000))
    with pytest.raises(Unstored):
        asyncio.run(journal.commit([shelf.kept("big", "x" * 100_000)]))
    asyncio.run(journal.commit([("PRAGMA max_page_count = 1000000", ())]))

    async def until_stored():
        for _ in range(500):
            await journal.commit(())
            if shelf.remembered(journal, "patient"):
                return True
            await asyncio.sleep(0.01)
        return False

    assert asyncio.run(until_stored())


def test_a_newer_journal_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as base:
        base.execute(f"PRAGMA user_version = {VERSION + 1}")
        base.execute("CREATE TABLE future (x)")
    before = path.read_bytes()
    with pytest.raises(Refused, match=f"version {VERSION + 1}"):
        Journal(path)
    assert path.read_bytes()[:18] == before[:18]
    with sqlite3.connect(path) as base:
        assert base.execute("SELECT count(*) FROM future").fetchone() == (0,)


def test_an_older_journal_is_brought_up_to_date_with_a_backup(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    Journal(path).close()
    monkeypatch.setattr(journal_module, "VERSION", VERSION + 1)
    monkeypatch.setitem(schema.STEPS, VERSION, "CREATE TABLE fresh (x);")
    newer = Journal(path)
    assert newer.rows("SELECT count(*) FROM fresh")[0][0] == 0
    newer.close()
    assert (tmp_path / f"journal.db.v{VERSION}").exists()


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    Journal(path).close()
    monkeypatch.setattr(journal_module, "VERSION", VERSION + 1)
    monkeypatch.setitem(schema.STEPS, VERSION, "CREATE TABLE fresh (x); SELECT nonsense;")
    with pytest.raises(TuttiError):
        Journal(path)
    with sqlite3.connect(path) as base:
        assert base.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert not base.execute("SELECT name FROM sqlite_master WHERE name = 'fresh'").fetchall()


def test_a_damaged_journal_is_told_and_not_touched(tmp_path):
    path = tmp_path / "journal.db"
    path.write_bytes(b"this was a journal once" * 1000)
    with pytest.raises(TuttiError, match="cannot be opened") as told:
        Journal(path)
    assert "--restore" in str(told.value)
    assert path.read_bytes().startswith(b"this was a journal once")


def test_a_torn_last_page_loses_only_what_was_not_acknowledged(tmp_path):
    """The end of the write-ahead log is garbage, as after a power cut in the middle of a write."""
    path = tmp_path / "journal.db"
    first = Journal(path)
    asyncio.run(first.commit([shelf.kept("safe", "1")]))
    log, whole = path.with_name("journal.db-wal"), tmp_path / "copy.db"
    whole.write_bytes(path.read_bytes())
    torn = log.read_bytes() + b"\xff" * 3000
    first.close()
    whole.with_name("copy.db-wal").write_bytes(torn)
    again = Journal(whole)
    assert shelf.remembered(again, "safe") == "1"
    again.close()


def test_a_backup_is_whole_while_the_journal_is_in_use(journal, tmp_path):
    asyncio.run(journal.commit([shelf.kept("a", "1")]))
    journal.backup(tmp_path / "backups" / "b.db")
    with sqlite3.connect(tmp_path / "backups" / "b.db") as base:
        assert base.execute("SELECT value FROM meta WHERE key = 'a'").fetchone() == ("1",)


def test_the_audit_cannot_be_changed(journal):
    asyncio.run(journal.commit([shelf.audited(1, "me", "cancel", "x", "")]))
    with pytest.raises(Unstored, match="append-only"):
        asyncio.run(journal.commit([("UPDATE audit SET who = 'you'", ())]))
