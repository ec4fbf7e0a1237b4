"""What squeue, scancel and sinfo say and take: states, reasons, columns and options. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tutti.jobs.batch_variables import nodelist
from tutti.jobs.flags import spec
from tutti.jobs.lazy import pattern

Row = Mapping[str, Any]
STATES = {
    "waiting": ("PD", "PENDING"),
    "held": ("PD", "PENDING"),
    "starting": ("CF", "CONFIGURING"),
    "running": ("R", "RUNNING"),
    "degraded": ("R", "RUNNING"),
    "repairing": ("R", "RUNNING"),
    "parked": ("S", "SUSPENDED"),
    "draining": ("CG", "COMPLETING"),
    "finished": ("CD", "COMPLETED"),
    "failed": ("F", "FAILED"),
    "cancelled": ("CA", "CANCELLED"),
    "lost": ("NF", "NODE_FAIL"),
}
"""Our states in Slurm's letters and words."""
REASONS = {
    "NoCapacity": "Resources",
    "UsedByOthers": "Resources",
    "NoDomain": "Resources",
    "WaitingForEviction": "Resources",
    "BehindOthers": "Priority",
    "ReservedAhead": "Priority",
    "DependencyWait": "Dependency",
    "Held": "JobHeldUser",
    "QuotaReached": "QOSGrpGRES",
    "QueueClosed": "PartitionDown",
    "BackingOff": "BeginTime",
}
"""Our reasons in Slurm's words, where it has one; others stay as they are."""
SQUEUE = spec(
    "squeue",
    "user users jobs job partition states state name format sort",
    "noheader long me all start json array help",
    u="user",
    j="jobs",
    p="partition",
    t="states",
    n="name",
    o="format",
    S="sort",
    h="noheader",
    l="long",
    a="all",
    r="array",
)._replace(strict=True)
SCANCEL = spec(
    "scancel",
    "user name state partition signal jobname",
    "me quiet verbose full batch ctld hurry",
    u="user",
    n="name",
    t="state",
    p="partition",
    s="signal",
    Q="quiet",
    v="verbose",
    f="full",
    b="batch",
)._replace(strict=True)
SINFO = spec(
    "sinfo",
    "partition format states nodes",
    "noheader long Node summarize all json",
    p="partition",
    o="format",
    t="states",
    n="nodes",
    h="noheader",
    l="long",
    N="Node",
    s="summarize",
    a="all",
)._replace(strict=True)
ASKED = pattern(r"%([.]?)([0-9]{0,4})([a-zA-Z])")
ON = pattern(r"\bon ([^\s,]+)")
QUEUE_FORMAT = "%.8i %.9P %.16j %.8u %.2t %.11M %.6D %R"
LONG_FORMAT = "%.8i %.9P %.16j %.8u %.8T %.11M %.11l %.6D %R"
START_FORMAT = "%.8i %.9P %.16j %.8u %.2t %.19S %.6D %R"
EACH_FORMAT = "%16N %.6D %9P %6t"
INFO_FORMAT = "%9P %5a %.10l %.6D %6t %N"
SUMMARY_FORMAT = "%9P %5a %.10l %16F %N"


def state(row: Row) -> tuple[str, str]:
    """Letters and word."""
    return STATES.get(str(row["state"]), ("??", str(row["state"]).upper()))


def where(row: Row) -> str:
    """Where it runs, or in brackets why it does not."""
    if state(row)[0] == "PD":
        reason = str(row.get("reason") or "None")
        # Whoever is held and still waits was asked to start later.
        said = "BeginTime" if reason == "Held" and row["state"] != "held" else REASONS.get(reason, reason)
        return f"({'JobHeldUser' if row['state'] == 'held' else said})"
    return on_nodes(row)


def on_nodes(row: Row) -> str:
    """The nodes it runs on, as Slurm lists them."""
    placed = str(row.get("placed") or "")
    return nodelist(tuple(ON.findall(placed))) + (",..." if " more" in placed else "")


def moment(row: Row) -> str:
    """When it started or will start, to the second, in this machine's zone."""
    at = row.get("started_us") or row.get("eta_us")
    return datetime.fromtimestamp(at / 1e6).astimezone().strftime("%Y-%m-%dT%H:%M:%S") if at else "N/A"


def clock(seconds: float) -> str:
    """A time as Slurm writes it: [days-]hours:minutes:seconds, without the hours where there are none."""
    total = int(seconds)
    days, rest = divmod(total, 86_400)
    hours, minutes, left = rest // 3600, rest // 60 % 60, rest % 60
    short = f"{hours:02d}:{minutes:02d}:{left:02d}" if days else f"{hours}:{minutes:02d}:{left:02d}"
    return f"{days}-{short}" if days else short if hours else f"{minutes}:{left:02d}"


def limit(row: Row) -> str:
    """The time limit."""
    return clock(row["limit_s"]) if row.get("limit_s") else "UNLIMITED"


JOB_COLUMNS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "i": ("JOBID", lambda row: str(row["id"])),
    "A": ("JOBID", lambda row: str(row["id"])),
    "F": ("ARRAY_JOB_ID", lambda row: str(row["id"])),
    "P": ("PARTITION", lambda row: str(row["queue"])),
    "j": ("NAME", lambda row: str(row["name"])),
    "u": ("USER", lambda row: str(row["user"])),
    "t": ("ST", lambda row: state(row)[0]),
    "T": ("STATE", lambda row: state(row)[1]),
    "M": ("TIME", lambda row: clock(row.get("ran_s", 0))),
    "l": ("TIME_LIMIT", limit),
    "L": (
        "TIME_LEFT",
        lambda row: clock(max(row["limit_s"] - row.get("ran_s", 0), 0)) if row.get("limit_s") else "UNLIMITED",
    ),
    "D": ("NODES", lambda row: str(row["members"])),
    "C": ("CPUS", lambda row: str(row["devices"])),
    "R": ("NODELIST(REASON)", where),
    "N": ("NODELIST", lambda row: "" if state(row)[0] == "PD" else on_nodes(row)),
    "r": ("REASON", lambda row: where(row).strip("()") if state(row)[0] == "PD" else "None"),
    "S": ("START_TIME", moment),
    "p": ("PRIORITY", lambda row: str(row.get("priority", 0))),
    "Q": ("PRIORITY", lambda row: str(row.get("priority", 0))),
    "o": ("COMMAND", lambda row: str(row.get("command", ""))),
    "b": ("TRES_PER_NODE", lambda row: f"gres/gpu:{row['devices']}"),
}
NODE_COLUMNS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "P": ("PARTITION", lambda row: str(row["partition"])),
    "R": ("PARTITION", lambda row: str(row["partition"])),
    "a": ("AVAIL", lambda row: str(row["avail"])),
    "l": ("TIMELIMIT", lambda _: "infinite"),
    "D": ("NODES", lambda row: str(len(row["nodes"]))),
    "t": ("STATE", lambda row: str(row["state"])),
    "T": ("STATE", lambda row: str(row["state"])),
    "N": ("NODELIST", lambda row: nodelist(tuple(row["nodes"]))),
    "c": ("CPUS", lambda row: str(row["cpus"])),
    "m": ("MEMORY", lambda row: str(row["memory_mb"])),
    "F": ("NODES(A/I/O/T)", lambda row: "/".join(map(str, row.get("counts", ())))),
    "G": ("GRES", lambda row: f"gpu:{row['devices']}"),
}


def table(
    rows: Sequence[Row], columns: Mapping[str, tuple[str, Callable[[Row], str]]], text: str, header: bool
) -> list[str]:
    """Rows by a format such as '%.8i %j'. Raises KeyError with the letter that is not known."""
    lines = [_line(text, lambda letter: columns[letter][0])] if header else []
    return lines + [_line(text, lambda letter, row=row: columns[letter][1](row)) for row in rows]  # type: ignore[misc]  # the default binds the row


def _line(text: str, value: Callable[[str], str]) -> str:
    def put(found: re.Match[str]) -> str:
        said, width = value(found[3]), int(found[2] or 0)
        cut = said[:width] if width else said
        return cut.rjust(width) if found[1] else cut.ljust(width)

    return ASKED.sub(put, text).rstrip()


NUMBERS = {
    "i": "id",
    "A": "id",
    "F": "id",
    "M": "ran_s",
    "l": "limit_s",
    "D": "members",
    "C": "devices",
    "p": "priority",
}
"""Columns that are sorted as numbers, and where those are."""


def sorting(row: Row, letter: str) -> tuple[float, str]:
    """What a row is sorted by in one of the columns."""
    if letter in NUMBERS:
        return float(row.get(NUMBERS[letter]) or 0), ""
    return 0.0, JOB_COLUMNS[letter][1](row)


def of_states(text: str) -> set[str]:
    """Letters of the states that a list of letters or words names. Raises KeyError with the word that is none."""
    words = {word: letters for letters, word in STATES.values()} | {letters: letters for letters, _ in STATES.values()}
    every = {letters for letters, _ in STATES.values()}
    return every if text.lower() == "all" else {words[part.strip().upper()] for part in text.split(",") if part.strip()}
