"""What this box did, from its own journal: the SQLite file that the local runtime keeps."""

import sqlite3
from pathlib import Path

import msgspec

from tutti.engine.model import DAY, NEVER, Gang, State
from tutti.errors import Misused

from .log import Bad, Log, Row

MAGIC = b"SQLite format 3\x00"
QUERY = """
SELECT jobs.id, name, user, queue, submitted, started, ended, state, devices, members, gang,
       (SELECT SUM(runs.ended - runs.made) FROM runs WHERE runs.job = jobs.id AND runs.ended > 0)
FROM jobs WHERE submitted > 0 ORDER BY submitted, id
"""
ENDS = {state.value: state for state in (State.FINISHED, State.FAILED, State.CANCELLED, State.LOST)}


def is_journal(path: Path) -> bool:
    """Whether the file is a journal: recognised from its content, like every trace."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_journal(path: Path, skip_bad: bool = False) -> Log:
    """Jobs of the journal that have run and ended, as a trace. The file is only read."""
    try:
        with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as base:
            entries = base.execute(QUERY).fetchall()
    except sqlite3.Error as problem:
        raise Misused(
            f"{path.name} is an SQLite file but not a journal of Tutti: {problem}.",
            hint="journal.db is in the folder that TUTTI_HOME names",
        ) from None
    log = Log("journal", path.name, [])
    first = int(entries[0][4]) // DAY * DAY if entries else 0
    for entry in entries:
        row = _row(entry, first)
        if isinstance(row, Bad):
            log.left_out.append(row)
        else:
            log.rows.append(row)
    if log.left_out and not skip_bad:
        log.notes.append(f"{len(log.left_out)} jobs of the journal have not run to an end and are left out")
    return log


def _row(entry: tuple[object, ...], first: int) -> Row | Bad:
    number, name, user, queue, submitted, started, ended, state, devices, members, gang, ran = entry
    outcome = ENDS.get(str(state))
    if outcome is None or not started or not ended:
        return Bad(int(str(number)), f"{name} is {state} and has not run to an end")
    run = int(str(ran)) if ran else int(str(ended)) - int(str(started))
    width = max(int(str(devices)), int(str(members)), 1)
    return Row(
        f"{name}.{number}",
        int(str(submitted)) - first,
        max(run, 1),
        width,
        limit=_limit(gang),
        user=str(user),
        queue=str(queue) or "default",
        outcome=outcome,
    )


def _limit(gang: object) -> int:
    """The run time that was declared, from the stored gang; 0 where there is none."""
    try:
        limit = msgspec.json.decode(gang if isinstance(gang, bytes | str) else b"", type=Gang).estimate.limit
    except msgspec.DecodeError:
        return 0
    return limit if limit < NEVER else 0
