"""`tutti sinfo`: nodes by partition and state, as with Slurm. A queue is a partition."""

import json
from contextlib import closing
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.output import empty_without_daemon
from tutti.cli.slurm_words import SETTINGS, options, without_effect
from tutti.errors import Misused

HEEDED = {"partition", "format", "states", "nodes", "noheader", "Node", "summarize", "all", "json"}


@click.command(context_settings=SETTINGS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SINFO]")
def sinfo(words: tuple[str, ...]) -> None:
    """Show nodes as Slurm's sinfo does.

    Known are -p, -t, -n, -o, -h, -N, -s, --json. An option that is not supported is named.
    """
    from tutti.jobs.batch import slurm_words as slurm  # noqa: PLC0415 - not needed for --help

    found = options(words, slurm.SINFO)
    flags = {name: flag.text for name, flag in found.flags.items()}
    without_effect(found, HEEDED)
    with closing(Client()) as client:
        nodes = empty_without_daemon(lambda: client.get("/v1/nodes"), {"nodes": []})["nodes"]
        queues = empty_without_daemon(lambda: client.get("/v1/queues"), {"queues": []})["queues"]
    rows = [row for row in by_state(nodes, queues, each="Node" in flags) if _wanted(row, flags)]
    if "summarize" in flags:
        rows = summed(rows)
    if "json" in flags:
        click.echo(json.dumps({"schema": "tutti/v1", "rows": rows}))
        return
    usual = slurm.SUMMARY_FORMAT if "summarize" in flags else slurm.INFO_FORMAT
    form = flags.get("format", slurm.EACH_FORMAT if "Node" in flags else usual)
    try:
        lines = slurm.table(rows, slurm.NODE_COLUMNS, form, "noheader" not in flags)
    except KeyError as letter:
        known = " ".join(f"%{name}" for name in slurm.NODE_COLUMNS)
        raise Misused(f"sinfo: there is no column %{letter.args[0]}", hint=f"one of {known}") from None
    for line in lines:
        click.echo(line)


def by_state(nodes: list[dict[str, Any]], queues: list[dict[str, Any]], each: bool = False) -> list[dict[str, Any]]:
    """Nodes of each partition that are in the same state."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for queue in queues:
        for node in nodes:
            state = state_of(node)
            row = rows.setdefault(
                (queue["name"], state, node["name"] if each else ""),
                {"partition": queue["name"] + ("*" if queue["name"] == "default" else ""), "state": state, "nodes": []},
            )
            row["nodes"].append(node["name"])
            row["avail"] = "down" if queue["closed"] else "up"
            row["cpus"], row["memory_mb"] = int(node["cpus"]), node["memory_bytes"] >> 20
            row["devices"] = len(node["devices"])
    return list(rows.values())


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each partition, with its nodes counted: allocated, idle, other, in all."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(row["partition"], {**row, "nodes": [], "counts": [0, 0, 0, 0]})
        one["nodes"] = one["nodes"] + row["nodes"]
        at = {"alloc": 0, "mix": 0, "idle": 1}.get(row["state"], 2)
        one["counts"][at] += len(row["nodes"])
        one["counts"][3] += len(row["nodes"])
    return list(found.values())


def state_of(node: dict[str, Any]) -> str:
    """idle, mix, alloc, drain or down."""
    if node["state"] not in {"ready", "READY", "0"}:
        return "drain" if "drain" in str(node["state"]).lower() else "down"
    taken = sum(device["state"] != "free" for device in node["devices"])
    return "idle" if not taken else "alloc" if taken == len(node["devices"]) else "mix"


def _wanted(row: dict[str, Any], flags: dict[str, str]) -> bool:
    partitions = set(filter(None, flags.get("partition", "").split(",")))
    states = set(filter(None, flags.get("states", "").lower().split(",")))
    names = set(filter(None, flags.get("nodes", "").split(",")))
    return (
        (not partitions or row["partition"].rstrip("*") in partitions)
        and (not states or row["state"] in states)
        and (not names or bool(names & set(row["nodes"])))
    )
