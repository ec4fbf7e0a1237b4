"""One screen of `tutti top`: how busy it is, who sits where, and the queue, as much of it as fits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .nodes import node_lines
from .queue import queue_lines

Row = dict[str, Any]
BAR = 24
WAITS = frozenset({"waiting", "held", "parked"})
ORDERS = ("line", "time", "size", "name")
"""How jobs may be sorted: as they come, the longest first, the widest first, by name."""


def top_lines(
    jobs: Sequence[Row], nodes: Mapping[str, Any], columns: int, rows: int, coloured: bool = False
) -> list[str]:
    """At most so many rows; the devices get half of them, and a list that is cut says so."""
    cells = node_lines(nodes, coloured)
    most = max((rows - 4) // 2, 3)
    if len(cells) > most:
        cells = [*cells[: most - 1], f"  and {len(cells) - most + 1} more lines: tutti nodes"]
    table = queue_lines(jobs, columns, wide=False)
    room = max(rows - len(cells) - 1, 2)
    if len(table) > room:
        table = [*table[: room - 1], f"and {len(table) - room + 1} more"]
    return [*cells, "", *table]


def summary(jobs: Sequence[Row], nodes: Mapping[str, Any], running: int, waiting: int) -> str:
    """How full it is, who runs and what those that are shown wait for, in a line."""
    states = [cell["state"] for node in nodes["nodes"] for cell in node["devices"]]
    busy = sum(state not in {"free", "drained"} for state in states)
    filled = round(BAR * busy / len(states)) if states else 0
    reasons = Counter(job["reason"] for job in jobs if job["state"] in WAITS and job.get("reason"))
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(3))
    bar = "#" * filled + "." * (BAR - filled)
    head = f"[{bar}] {busy} of {len(states)} devices   {running:,} running   {waiting:,} waiting"
    return head + (f" ({told})" if told else "")


def arranged(jobs: Sequence[Row], order: str, words: str = "") -> list[Row]:
    """Jobs in an order, and only those with these letters in their name, state, queue, user or reason."""
    shown = [job for job in jobs if words.lower() in _text(job)]
    keys = {"time": lambda job: -_time(job), "size": lambda job: -job["devices"], "name": lambda job: job["name"]}
    return sorted(shown, key=keys[order]) if order in keys else shown


def later(job: Row, seconds: float) -> Row:
    """A job as it will look some seconds from now, if nothing happens: only its clock goes on."""
    if job.get("ended_us"):
        return job
    key = "waited_s" if job["state"] in WAITS else "ran_s"
    return {**job, key: job[key] + seconds}


def _text(job: Row) -> str:
    return " ".join(str(job.get(key, "")) for key in ("name", "state", "queue", "user", "reason")).lower()


def _time(job: Row) -> float:
    return float(job["waited_s"] if job["state"] in WAITS else job["ran_s"])
