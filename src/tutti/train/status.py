"""`tutti train status` and `clean`: what runs are there, how they are, and what is left of dead ones."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tutti.train.agent.cabinet import shelves_in
from tutti.train.agent.folder import Folder, runs
from tutti.train.agent.shelf import megabytes
from tutti.train.agent.watch import is_alive

NOT_FOUND = 3


def read(folder: Folder) -> dict[str, Any]:
    """One run's own words, and whether anyone is still there to say them."""
    try:
        status: dict[str, Any] = json.loads(folder.status.read_text())
    except (OSError, ValueError):
        status = {}
    holder = folder.owner.read_text()
    memory_bytes = sum(shelf.memory_bytes() for shelf in shelves_in(folder.slots))
    # On several machines the first one's words are everywhere, in folders with names of their own.
    name = folder.path.name
    found = {"run": name, "run_id": status.get("run", name), "is_running": is_alive(holder)}
    return {**status, **found, "memory_bytes": memory_bytes}


def chosen(names: list[str]) -> list[Folder]:
    return [folder for folder in runs() if not names or folder.path.name in names]


def show(names: list[str], as_json: bool) -> int:
    """Print the runs; 3 when a named one is not there."""
    found = [read(folder) for folder in chosen(names)]
    if as_json:
        sys.stdout.write(json.dumps({"schema": "tutti/v1", "runs": found}) + "\n")
    elif found or not names:
        sys.stdout.write("\n".join(map(sentence, found) if found else ["no runs here"]) + "\n")
    missing = set(names) - {status["run"] for status in found}
    for name in sorted(missing):
        sys.stderr.write(f"error: no run {name!r} here; `tutti train status` lists them\n")
    return NOT_FOUND if missing else 0


def sentence(status: dict[str, Any]) -> str:
    """A run in a few lines."""
    if not status["is_running"]:
        return dead(status["run"], status["run_id"], status["memory_bytes"], status.get("snapshot_step", -1))
    if "world" not in status:
        return f"{status['run']} is starting"
    return "\n".join([headline(status), f"  {pace(status)}", *(f"  {line}" for line in kept(status) if line)])


def dead(name: str, run_id: str, memory_bytes: int, step: int) -> str:
    """What is left of a run; its last words may be half a second older than its last snapshot."""
    if not memory_bytes:
        return f"{name} is not running, and none of its state is in memory\n  remove: tutti train clean {name}"
    of_step = f", step {step} or later" if step >= 0 else ""
    how = f"--run-id {run_id}" if run_id == name else f"--run-id {run_id}, and the --node-rank of this machine"
    return (
        f"{name} is not running; {megabytes(memory_bytes)} of its state is in memory{of_step}\n"
        f"  go on: {how}    give back: tutti train clean {name}"
    )


def headline(status: dict[str, Any]) -> str:
    if status["parked"]:
        return f"{status['run']} is parked: {status['parked']}"
    legal = ", ".join(map(str, status["legal"]))
    return (
        f"{status['run']} computes with {status['world']} of {status['want']} members (legal {legal}), "
        f"generation {status['generation']}, level {status['level']}"
    )


def pace(status: dict[str, Any]) -> str:
    age = time.time() - status["at"]
    slow = "".join(f"; {name} computes {factor} times as long" for name, factor in status["stragglers"].items())
    return (
        f"step {status['step']} (epoch {status['epoch']}, sample {status['cursor']}, {status['delivery']}), "
        f"{status['rate']:.2f} steps/s, {age:.0f} s ago; goodput {status['goodput']:.0%}, "
        f"{status['lost']} members lost so far{slow}"
    )


def kept(status: dict[str, Any]) -> list[str]:
    """Where the state is, how old, and what it costs."""
    tiers = [f"{name} holds step {step}" if step >= 0 else f"{name} is empty" for name, step in status["tiers"].items()]
    spread = ", ".join(f"{name} {count}" for name, count in status["domains"].items())
    snapshot = (
        f"snapshot of step {status['snapshot_step']}, {status['snapshot_age_s']:.1f} s old, "
        f"every {status['snapshot_every']} steps at {status['save_s'] * 1e3:.1f} ms each; "
        f"state {megabytes(status['state_bytes'])}, {megabytes(status['memory_bytes'])} of memory for its snapshots"
    )
    copies = f"failure domains: {spread}; {status['replicas']} members have a copy elsewhere"
    late = ", ".join(f"{name} could not keep step {step}" for name, step in status.get("unkept", {}).items())
    unkept = f"{late}: the story says why" if late else ""
    return [snapshot, unkept, "; ".join(tiers), copies if len(status["domains"]) > 1 else ""]


def clean(names: list[str]) -> int:
    """Remove what dead runs left in memory; running ones are not touched."""
    for folder in chosen(names):
        status = read(folder)
        if not status["is_running"]:
            folder.remove()
            sys.stdout.write(f"{status['run']}: {megabytes(status['memory_bytes'])} given back\n")
        elif names:
            sys.stderr.write(f"error: {status['run']} is running: end it first\n")
    return 0
