"""How jobs and runs are written into the journal, and read from it again."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tutti.engine.model import Gang, Life, State
from tutti.jobs.job import Job

from .held import Course, Held, Origin, Placed, Run
from .journal import Journal, Write

encode = msgspec.json.encode
NEW_JOB = """
INSERT INTO jobs (id, name, user, queue, submitted, state, members, devices, job, context, gang, life, tasks)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def environment(env: Mapping[str, str]) -> tuple[str, Write]:
    """The name under which an environment is kept, and the write that keeps it."""
    data = encode(dict(sorted(env.items())))
    name = hashlib.sha256(data).hexdigest()[:32]
    return name, ("INSERT OR IGNORE INTO environments (hash, data) VALUES (?, ?)", (name, data))


def submitted(held: Held, life: Life) -> Write:
    """A job that was just submitted."""
    return (
        NEW_JOB,
        (
            held.id, held.name, held.origin.user, held.gang.queue, held.gang.submitted, life.state.value,
            wanted_members(held.gang), wanted_devices(held.gang), encode(held.job), encode(held.origin),
            encode(held.gang), encode(life), encode(held.course),
        ),
    )  # fmt: skip


def wanted_members(gang: Gang) -> int:
    return sum(role.want or role.min for role in gang.roles)


def wanted_devices(gang: Gang) -> int:
    return sum((role.want or role.min) * role.shapes[0].ask.get("gpu", 0) for role in gang.roles if role.shapes)


def changed(held: Held) -> Write:
    """The owner, or the job itself, changed what it is."""
    return (
        "UPDATE jobs SET job = ?, gang = ?, queue = ? WHERE id = ?",
        (encode(held.job), encode(held.gang), held.gang.queue, held.id),
    )


def lived(held: Held, life: Life) -> Write:
    """What has happened to it so far."""
    return (
        "UPDATE jobs SET life = ?, state = ?, started = ?, tasks = ? WHERE id = ? AND ended = 0",
        (encode(life), life.state.value, life.first_started, encode(held.course), held.id),
    )


def coursed(held: Held) -> Write:
    """Only what this backend knows of it."""
    return ("UPDATE jobs SET tasks = ? WHERE id = ?", (encode(held.course), held.id))


def ended(held: Held, state: State, code: int, why: str, at: int) -> Write:
    """It is over."""
    return (
        "UPDATE jobs SET ended = ?, state = ?, code = ?, why = ?, device_us = ?, tasks = ? WHERE id = ?",
        (at, state.value, code, why, held.course.device_us, encode(held.course), held.id),
    )


def intended(held: Held, run: Run) -> Write:
    """A run is about to begin: written before anything is started."""
    return (
        "INSERT INTO runs (nonce, job, number, phase, made, seats, members) VALUES (?, ?, ?, 'intent', ?, ?, ?)",
        (run.nonce, held.id, run.number, run.made, encode(run.port), encode(list(run.members.values()))),
    )


def readied(held: Held, run: Run) -> Write:
    """A run is made ready for a job that waits. It is none before its members are let go."""
    return (
        "INSERT INTO runs (nonce, job, number, phase, made, seats, members) VALUES (?, ?, ?, 'ready', ?, ?, ?)",
        (run.nonce, held.id, run.number, run.made, encode(run.port), encode(list(run.members.values()))),
    )


def begun(run: Run) -> Write:
    """A run that was made ready begins."""
    return (
        "UPDATE runs SET phase = 'intent', made = ?, members = ? WHERE nonce = ? AND phase = 'ready'",
        (run.made, encode(list(run.members.values())), run.nonce),
    )


def unready(nonce: str) -> Write:
    """It was not needed, and nothing of it has run."""
    return ("DELETE FROM runs WHERE nonce = ? AND phase = 'ready'", (nonce,))


def moved(run: Run) -> Write:
    """The members of a run that goes on."""
    return (
        "UPDATE runs SET phase = ?, members = ? WHERE nonce = ? AND phase != 'ended'",
        (run.phase, encode(list(run.members.values())), run.nonce),
    )


def run_over(run: Run, at: int, record: dict[str, Any]) -> Write:
    """A run is over."""
    return (
        "UPDATE runs SET phase = 'ended', ended = ?, members = ?, record = ? WHERE nonce = ?",
        (at, encode(list(run.members.values())), encode(record), run.nonce),
    )


def told(held_id: int, at: int, kind: str, text: str) -> Write:
    """One entry of a job's story."""
    return ("INSERT INTO events (at, job, kind, text) VALUES (?, ?, ?, ?)", (at, held_id, kind, text))


def audited(at: int, who: str, what: str, target: str, detail: str) -> Write:
    """Who did what."""
    return (
        "INSERT INTO audit (at, who, what, target, detail) VALUES (?, ?, ?, ?, ?)",
        (at, who, what, target, detail),
    )


def kept(key: str, value: str) -> Write:
    """Something small to be remembered."""
    return ("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


def remembered(journal: Journal, key: str) -> str:
    """What was kept under a key; empty for nothing."""
    rows = journal.rows("SELECT value FROM meta WHERE key = ?", key)
    return str(rows[0]["value"]) if rows else ""


def active(journal: Journal) -> list[tuple[Held, Life]]:
    """Every job that has not ended, with what had happened to it."""
    shared: dict[str, dict[str, str]] = {}
    found = []
    for row in journal.rows("SELECT * FROM jobs WHERE ended = 0 ORDER BY id"):
        origin = msgspec.json.decode(row["context"], type=Origin)
        env = shared.get(origin.env_hash)
        if env is None:
            env = shared[origin.env_hash] = read_environment(journal, origin.env_hash)
        held = Held(
            id=row["id"],
            job=msgspec.json.decode(row["job"], type=Job),
            origin=origin,
            gang=msgspec.json.decode(row["gang"], type=Gang),
            env=env,
            course=msgspec.json.decode(row["tasks"] or b"{}", type=Course),
        )
        found.append((held, msgspec.json.decode(row["life"], type=Life)))
    return found


def read_environment(journal: Journal, name: str) -> dict[str, str]:
    """A captured environment."""
    rows = journal.rows("SELECT data FROM environments WHERE hash = ?", name)
    return msgspec.json.decode(rows[0]["data"], type=dict[str, str]) if rows else {}


def read_members(data: bytes) -> dict[int, Placed]:
    """The members of a run, by id."""
    return {one.id: one for one in msgspec.json.decode(data or b"[]", type=list[Placed])}
