"""The tables of the journal, and how an older journal becomes one of this version."""

VERSION = 2

FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE environments (hash TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    queue TEXT NOT NULL,
    submitted INTEGER NOT NULL,
    started INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'waiting',
    code INTEGER NOT NULL DEFAULT 0,
    why TEXT NOT NULL DEFAULT '',
    members INTEGER NOT NULL DEFAULT 0,
    devices INTEGER NOT NULL DEFAULT 0,
    device_us INTEGER NOT NULL DEFAULT 0,
    job BLOB NOT NULL,
    context BLOB NOT NULL,
    gang BLOB NOT NULL,
    life BLOB NOT NULL,
    tasks BLOB NOT NULL DEFAULT ''
);
CREATE INDEX jobs_by_name ON jobs (name, id);
CREATE INDEX jobs_by_end ON jobs (ended, id);
CREATE TABLE runs (
    nonce TEXT PRIMARY KEY,
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    phase TEXT NOT NULL,
    made INTEGER NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0,
    seats BLOB NOT NULL,
    members BLOB NOT NULL,
    record BLOB NOT NULL DEFAULT ''
);
CREATE INDEX runs_by_job ON runs (job, number);
CREATE INDEX runs_by_phase ON runs (phase);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    job INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX events_by_job ON events (job, id);
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TRIGGER audit_is_kept BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
"""

SHEETS = """
CREATE TABLE sheets (at INTEGER PRIMARY KEY, total BLOB NOT NULL);
"""

STEPS: dict[int, str] = {0: FIRST, 1: SHEETS}
"""From a version to the next one, each in one transaction."""
