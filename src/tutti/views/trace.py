"""Who held which device when, as a trace that Perfetto opens: a process for each node, a row for each device."""

from collections.abc import Iterable, Mapping
from typing import Any

PROMISED = 1_000_000
"""The row of promises, below all devices."""


def trace(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A timeline in Chrome's trace event format; times are microseconds there as here."""
    nodes = {name: at for at, name in enumerate(dict.fromkeys(bar["node"] for bar in answer["bars"]), 1)}
    held = [event for bar in answer["bars"] for event in _events(bar, nodes[bar["node"]], answer["now_us"])]
    rows = sorted({(event["pid"], event["tid"]) for event in held})
    names = [_named("process_name", at, 0, name) for name, at in nodes.items()]
    names += [_named("thread_name", at, row, _row(row)) for at, row in rows]
    return {"displayTimeUnit": "ms", "traceEvents": [*names, *held]}


def _events(bar: Mapping[str, Any], node: int, now: int) -> Iterable[dict[str, Any]]:
    begun = bar["begun_us"]
    length = max((bar["ended_us"] or max(now, begun + 1)) - begun, 1)
    about = {"state": bar["state"], "devices": bar["count"], "promised": bar["promised"]}
    for row in [PROMISED] if bar["promised"] else bar["devices"]:
        yield {
            "ph": "X", "name": bar["job"], "cat": bar["queue"], "ts": begun, "dur": length, "pid": node, "tid": row,
            "args": about,
        }  # fmt: skip


def _named(what: str, node: int, row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": node, "tid": row, "args": {"name": name}}


def _row(row: int) -> str:
    return "promised" if row == PROMISED else f"device {row}"
