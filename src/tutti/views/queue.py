"""A list of jobs as a table: columns that say nothing are left out, the last one says what matters now."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tutti.errors import Misused

from .table import table

Row = Mapping[str, Any]


def queue_lines(jobs: Sequence[Row], width: int, wide: bool, chosen: Sequence[str] = ()) -> list[str]:
    """The table; a sentence where there is nothing to list."""
    if not jobs:
        return ["no jobs"]
    columns = known_columns(chosen) or _telling(jobs, wide)
    rows = [[name.upper() for name in columns], *([COLUMNS[name](job) for name in columns] for job in jobs)]
    return [_cut(line, width) for line in table(rows, right=False)]


def known_columns(names: Sequence[str]) -> list[str]:
    """Names of columns, after each was looked up."""
    found = [name.strip() for name in names if name.strip()]
    unknown = [name for name in found if name not in COLUMNS]
    if unknown:
        raise Misused(f"there is no column {unknown[0]!r}", hint=f"--columns {','.join(COLUMNS)}")
    return found


def _telling(jobs: Sequence[Row], wide: bool) -> list[str]:
    names = ["name", "state", "size", "time"]
    if len({job["user"] for job in jobs}) > 1 or wide:
        names.insert(1, "user")
    if len({job["queue"] for job in jobs}) > 1 or wide:
        names.insert(-2, "queue")
    if any(job.get("priority") for job in jobs) or wide:
        names.append("priority")
    if any(job.get("step") for job in jobs):
        names.append("progress")
    return [*names, *(["waited", "command"] if wide else []), "what"]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def what(job: Row) -> str:
    """The reason, the start, where it runs, or how it ended: whichever matters now."""
    if job["state"] in {"waiting", "held", "parked"}:
        return ", ".join(filter(None, [job.get("reason", ""), f"starts {job['eta']}" if job.get("eta") else ""]))
    if job.get("ended_us"):
        return job.get("why") or ("" if not job.get("code") else f"exit code {job['code']}")
    parts = [job.get("placed", ""), job.get("reason", ""), f"ends {job['eta']}" if job.get("eta") else ""]
    return ", ".join(filter(None, parts))


def size(job: Row) -> str:
    """Members, with the range of an elastic gang and the tasks of an array."""
    if job.get("tasks"):
        return f"{job['tasks_done']}/{job['tasks']} tasks"
    ranged = f" ({job['min']}:{job['max']})" if job["max"] > job["min"] else ""
    each = job["devices"] // job["members"] if job["members"] else 0
    return f"{job['members']}{ranged}" + (f"x{each}" if each > 1 else "")


def progress(job: Row) -> str:
    """How far it is, where it says so."""
    if not job.get("step"):
        return ""
    total = f"/{job['steps']}" if job.get("steps") else ""
    return f"step {job['step']}{total}" + (f", {job['rate']:.3g}/s" if job.get("rate") else "")


def short(seconds: float) -> str:
    """A time in few letters."""
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 48 else f"{hours // 24}d{hours % 24}h"


def _time(job: Row) -> str:
    waits = job["state"] in {"waiting", "held", "parked"}
    return short(job["waited_s"] if waits else job["ran_s"])


COLUMNS: dict[str, Callable[[Row], str]] = {
    "name": lambda job: job["name"],
    "user": lambda job: job["user"],
    "queue": lambda job: job["queue"],
    "state": lambda job: job["state"],
    "size": size,
    "time": _time,
    "waited": lambda job: short(job["waited_s"]),
    "priority": lambda job: str(job.get("priority", 0)),
    "progress": progress,
    "reason": lambda job: job.get("reason", ""),
    "why": lambda job: job.get("reason", ""),
    "eta": lambda job: job.get("eta", ""),
    "placed": lambda job: job.get("placed", ""),
    "devices": lambda job: str(job["devices"]),
    "code": lambda job: "" if job.get("code") is None else str(job["code"]),
    "command": lambda job: job.get("command", "")[:40],
    "what": what,
}
