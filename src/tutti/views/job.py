"""Everything about one job, as lines of text."""

from collections.abc import Mapping
from typing import Any

from .queue import progress, short, size, what
from .table import table

MOST_RANKS = 16
RESIZES = {"live": "elastic: live", "restart": "elastic: restart", "loose": "members come one by one"}


def job_lines(page: Mapping[str, Any], wide: bool = False) -> list[str]:
    """The job, its ranks, and its part of the ledger."""
    job = page["job"]
    facts = [
        ("state", f"{job['state']}{', ' + what(job) if what(job) else ''}"),
        ("command", job["command"]),
        ("in", page["cwd"]),
        ("user", f"{job['user']}, queue {job['queue']}, priority {job['priority']}"),
        (
            "size",
            f"{size(job)}; {_devices(job['devices'])}, {RESIZES.get(job['elastic'], 'rigid')}",
        ),
        ("progress", progress(job)),
        ("waited", short(job["waited_s"])),
        ("ran", short(job["ran_s"]) if job["started_us"] else ""),
        ("limit", short(job["limit_s"]) if job["limit_s"] else ""),
        ("runs", str(page["runs"]) if page["runs"] > 1 else ""),
        ("output", page["log_folder"]),
    ]
    lines = [f"{job['name']} (job {job['id']})"]
    lines += [f"  {label:<9} {text}" for label, text in facts if text]
    return lines + _ranks(page["ranks"], wide) + _sheet(page.get("sheet", {})) + _variables(page, wide)


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _ranks(ranks: list[dict[str, Any]], wide: bool) -> list[str]:
    if not ranks:
        return []
    shown = ranks if wide else ranks[:MOST_RANKS]
    rows = [["rank", "role", "node", "devices", "pid", "exit"]]
    rows += [
        [
            str(one["rank"]), one["role"], one["node"], ",".join(map(str, one["devices"])), str(one["pid"] or ""),
            "" if one["code"] is None else str(one["code"]),
        ]
        for one in shown
    ]  # fmt: skip
    more = [f"    and {len(ranks) - len(shown)} more (-o wide)"] if len(ranks) > len(shown) else []
    return ["", *(f"  {line}" for line in table(rows, right=False)), *more]


def rank_lines(page: Mapping[str, Any]) -> list[str]:
    """Which rank sits where, all of them and nothing else."""
    return [line.removeprefix("  ") for line in _ranks(page["ranks"], wide=True)[1:]] or ["it has no ranks now"]


def speed_lines(page: Mapping[str, Any]) -> list[str]:
    """Steps per second at each size the job has had, and what each member adds to it."""
    known = [one for one in page["speed"] if one["rate"] > 0]
    if not known:
        return ["it has reported no rate"]
    rows = [["members", "steps/s", "per member", "reports"]]
    rows += [
        [str(one["members"]), f"{one['rate']:.3g}", f"{one['rate'] / one['members']:.3g}", str(one["samples"])]
        for one in known
    ]
    return table(rows)


def _sheet(sheet: Mapping[str, float]) -> list[str]:
    spent = sorted(((what, amount) for what, amount in sheet.items() if amount >= 0.05), key=lambda pair: -pair[1])
    return ["", "  device-seconds", *(f"    {name:<18} {amount:10.1f}" for name, amount in spent)] if spent else []


def _variables(page: Mapping[str, Any], wide: bool) -> list[str]:
    given = page.get("variables") or {}
    if not wide or not given:
        return []
    return ["", "  variables of the first rank", *(f"    {name}={given[name]}" for name in sorted(given))]
