"""Gangs and nodes of a cluster as tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from tutti.engine.model import ENDED, NEVER, SEATED, SECOND, Job
from tutti.engine.plan import Reason
from tutti.engine.world import World
from tutti.views.table import table, time_s

Row = dict[str, Any]


def gang_rows(jobs: Iterable[Job], answers: Mapping[str, Reason], now: int) -> list[Row]:
    """One row per gang, those that run first, then those that wait, oldest first."""
    rows = []
    for job in jobs:
        gang, life = job.gang, job.life
        if life.state in ENDED:
            continue
        reason = answers.get(gang.name)
        promised = life.promise.start if life.promise is not None and life.promise.start < NEVER else None
        rows.append(
            {
                "gang": gang.name,
                "state": life.state.value,
                "members": sum(held.members for held in life.seats),
                "min": sum(role.min for role in gang.roles),
                "want": sum(max(role.want, role.min) for role in gang.roles),
                "queue": gang.queue,
                "priority": gang.priority,
                "age_s": max(now - gang.submitted, 0) // SECOND,
                "reason": reason.token.value if reason is not None else "",
                "starts_in_s": max(promised - now, 0) // SECOND if promised is not None else None,
            }
        )
    return sorted(rows, key=lambda row: (row["state"] not in {s.value for s in SEATED}, -row["age_s"], row["gang"]))


def gang_table(rows: list[Row]) -> str:
    """The same for people."""
    if not rows:
        return "no gangs"
    head = ["GANG", "STATE", "MEMBERS", "QUEUE", "PRIORITY", "AGE", "REASON", "STARTS IN"]
    body = [
        [
            row["gang"],
            row["state"],
            f"{row['members']}/{row['want']}",
            row["queue"],
            str(row["priority"]),
            time_s(row["age_s"]),
            row["reason"],
            time_s(row["starts_in_s"]) if row["starts_in_s"] is not None else "",
        ]
        for row in rows
    ]
    return "\n".join(table([head, *body], right=False))


def node_rows(world: World) -> list[Row]:
    """One row per node: capacity, what pods of others use, what is free."""
    rows = []
    names = list(world.resources)
    for name, at in sorted(world.node_index.items()):
        node = world.nodes[at]
        if node is None:
            continue
        free = world.classes.free[:, world.classes.of[at]]
        rows.append(
            {
                "node": name,
                "state": node.state.name.lower(),
                "place": list(node.place),
                "capacity": node.capacity,
                "free": {r: int(free[i]) for i, r in enumerate(names) if r in node.capacity},
                "others": node.foreign,
                "tags": list(node.tags),
            }
        )
    return rows


def node_table(rows: list[Row]) -> str:
    """The same for people; devices first."""
    if not rows:
        return "no nodes"
    devices = sorted({name for row in rows for name in row["capacity"] if "/" in name})
    head = ["NODE", "STATE", "PLACE", *devices, "CPU FREE", "PODS FREE"]
    body = [
        [
            row["node"],
            row["state"],
            "/".join(part for part in row["place"] if not part.startswith("~")) or "-",
            *(f"{row['free'].get(name, 0)}/{row['capacity'].get(name, 0)}" for name in devices),
            f"{row['free'].get('cpu', 0) / 1000:g}",
            str(row["free"].get("pods", 0)),
        ]
        for row in rows
    ]
    return "\n".join(table([head, *body], right=False))
