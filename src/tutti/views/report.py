"""The ledger and the forecasts as tables."""

from collections.abc import Mapping
from typing import Any

from .moments import clock, span
from .table import factor, part, table, time_s

BAR = 20
MEANS = {
    "useful-kept": "steps that count",
    "useful-later-lost": "work that was lost again",
    "start-up": "from the start to the first step",
    "snapshot-stall": "saving",
    "resize": "changing size",
    "degraded": "slower than its best",
    "held-starting": "waiting for all members to be up",
    "reserved-idle": "kept for a promise, or as a spare",
    "fragmented-idle": "free, but nobody fits",
    "quota-idle": "free, but limits forbid it",
    "no-demand": "nobody wanted it",
    "broken": "out of order",
    "foreign": "used by others, or drained",
    "unknown": "jobs that report no progress",
}


def report_lines(answer: Mapping[str, Any]) -> list[str]:
    """Every part that is not nothing, the largest first; and whether they add up."""
    installed = answer["installed_s"] or 1.0
    spent = sorted(((name, amount) for name, amount in answer["total"].items() if amount >= 0.05), key=lambda p: -p[1])
    rows = [["spent on", "device-s", "share", ""]]
    rows += [[name, f"{amount:,.1f}", part(amount / installed), MEANS.get(name, "")] for name, amount in spent]
    rows.append(
        [
            "installed",
            f"{answer['installed_s']:,.1f}",
            "100.0 %",
            "it adds up" if answer["closes"] else "IT DOES NOT ADD UP",
        ]
    )
    lines = table([row[:3] for row in rows])
    lines = [f"{line}  {row[3]}".rstrip() for line, row in zip(lines, rows, strict=True)]
    known = f"goodput {part(answer['goodput'])}; leaving out jobs that report nothing {part(answer['goodput_known'])}"
    return [*lines, known]


def user_lines(answer: Mapping[str, Any]) -> list[str]:
    """Device-hours by user."""
    rows = [["user", "device-hours"], *([user, f"{hours:.3f}"] for user, hours in answer["users"].items())]
    return table(rows) if answer["users"] else ["nobody has used anything yet"]


def history_lines(answer: Mapping[str, Any]) -> list[str]:
    """Goodput and what was largest, stretch by stretch."""
    if not answer["stretches"]:
        return ["nothing has been written down for that time"]
    rows = [["until", "for", "goodput", "", "mostly"]]
    now = answer["stretches"][-1]["ended_us"]
    for one in answer["stretches"]:
        rest = {name: amount for name, amount in one["spent"].items() if amount > 0}
        most = max(rest, key=lambda name: rest[name], default="")
        share = part(rest[most] / sum(rest.values())) if most else ""
        bar = "#" * round(one["goodput"] * BAR)
        length = span(one["ended_us"] - one["begun_us"])
        rows.append([clock(one["ended_us"], now), length, part(one["goodput"]), bar, f"{most} {share}".strip()])
    return table(rows)


def throughput_lines(answer: Mapping[str, Any]) -> list[str]:
    """What was done in a time, and how long jobs of each width waited for it."""
    ends = ", ".join(f"{number} {state}" for state, number in sorted(answer["ended"].items(), key=lambda one: -one[1]))
    facts = [
        ("since", f"{clock(answer['since_us'], answer['at_us'])}, {span(answer['at_us'] - answer['since_us'])}"),
        ("jobs ended", f"{answer['jobs']}{' (' + ends + ')' if ends else ''}; {factor(answer['jobs_per_day'])} a day"),
        ("device-hours", f"{factor(answer['device_hours'])} held by them"),
        ("useful", f"{factor(answer['useful_device_hours'])}; {factor(answer['useful_device_hours_per_day'])} a day"),
        ("utilisation", f"{part(answer['utilization'])}, goodput {part(answer['goodput'])}"),
    ]
    lines = [f"{label:<14}{text}" for label, text in facts]
    if not answer["widths"]:
        return lines
    rows = [["devices", "jobs", "mean wait", "median", "longest", "slowdown"]]
    rows += [
        [
            one["devices"],
            str(one["jobs"]),
            *(time_s(one[name]) for name in ("wait_s", "wait_median_s", "wait_longest_s")),
            factor(one["slowdown"]),
        ]
        for one in answer["widths"]
    ]
    return [*lines, "", *table(rows)]


def forecast_lines(answer: Mapping[str, Any]) -> list[str]:
    """Coverage by how far ahead forecasts looked."""
    if not answer["forecasts"]:
        return [f"no forecast has been decided yet; {answer['open']} are open"]
    rows = [["forecasts", "number", "inside the 90 % range", "middle error"]]
    rows += [
        [row["horizon"], str(row["forecasts"]), part(row["covered"]), time_s(row["median_error_s"])]
        for row in answer["forecasts"]
    ]
    return table(rows)
