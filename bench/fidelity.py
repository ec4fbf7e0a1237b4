"""Does the simulator say what a real box does? The same gangs, as processes on made-up devices and in virtual time.

.venv/bin/python bench/fidelity.py [GANGS] [POLICY]

A daemon with eight made-up devices runs random short gangs (`sleep`), all submitted at once; then its own journal is
played as a trace, with the run times that were measured and the estimates that were declared, under the same policy.
Prints how far starts and mean wait agree; the last line is JSON. Goal: the same order of starts but for five pairs in a
hundred, and waits within five in a hundred. A busy machine ends gangs in bunches, and one start that differs moves
those behind it: run it on a quiet one.
"""

import json
import os
import random
import sqlite3
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.local.stage import Box, box
from tutti.api.handles import JobHandle
from tutti.engine.model import SECOND
from tutti.sim.experiment import Options, play, prepare
from tutti.sim.policies import find_policy
from tutti.sim.traces.read import read_trace

DEVICES = 8
WIDTHS = (1, 1, 1, 2, 2, 4, 8)
LENGTHS_S = (0.5, 1, 2, 4)
SLACK = 3
"""What is declared is so many times what is needed: the box is not only ours."""
TIE = SECOND // 2
"""Starts nearer to each other than this on the box may come in either order."""
WITHIN = 0.05
STARTS = """
SELECT name || '.' || jobs.id, MIN(runs.made), submitted FROM jobs JOIN runs ON runs.job = jobs.id GROUP BY jobs.id
"""
Starts = dict[str, int]


def gangs(count: int, seed: int) -> list[dict[str, object]]:
    """Random gangs as the API takes them."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        length = chance.choice(LENGTHS_S)
        job = {
            "name": f"s{round(10 * length)}-{number:03}",
            "workers": chance.choice(WIDTHS),
            "time": f"{round(SLACK * length)}s",
        }
        found.append({**job, "command": ["sleep", str(length)], "grace": "0s"})
    return found


def letters(number: int) -> str:
    """A number as a word, so that the box takes no gang for a run of one before it: estimates stay as declared."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in (2, 1, 0))


def run_for_real(made: Box, jobs: list[dict[str, object]]) -> None:
    """Submit all of them in one request, and wait for the last."""
    context = {"cwd": str(made.path), "env": {"PATH": os.environ["PATH"]}}
    made.client.post("/v1/jobs", {"jobs": [{"job": job, "context": context} for job in jobs]})
    for job in jobs:
        JobHandle(made.client, str(job["name"])).wait()


def real_starts(journal: Path) -> tuple[Starts, Starts]:
    """When each gang was given its seats, and when it was submitted."""
    with sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True) as base:
        rows = base.execute(STARTS).fetchall()
    return {name: start for name, start, _ in rows}, {name: at for name, _, at in rows}


def simulated_starts(journal: Path, policy: str) -> tuple[Starts, Starts]:
    """The same by the simulator, from what the journal says of submissions and run times."""
    record = play(prepare(read_trace(journal), Options(cluster=f"1x{DEVICES}")), find_policy(policy)).record
    return dict(zip(record.names, record.started, strict=True)), dict(zip(record.names, record.submitted, strict=True))


def swapped(real: Starts, ours: Starts) -> float:
    """Part of the pairs that started clearly one after the other on the box, and the other way round in the plan."""
    names = sorted(real)
    theirs, mine = (np.array([starts[name] for name in names]) for starts in (real, ours))
    before = theirs[:, None] + TIE < theirs[None, :]
    return float((before & (mine[:, None] > mine[None, :])).sum() / max(before.sum(), 1))


def compared(real: tuple[Starts, Starts], ours: tuple[Starts, Starts]) -> dict[str, float]:
    """How far the two agree."""
    waits = [np.array([starts[name] - at[name] for name in sorted(starts)]) / SECOND for starts, at in (real, ours)]
    means = [float(each.mean()) for each in waits]
    return {
        "gangs": len(waits[0]),
        "wait_real_s": means[0],
        "wait_simulated_s": means[1],
        "wait_difference": means[1] / means[0] - 1 if means[0] else 0.0,
        "median_start_error_s": float(np.median(np.abs(waits[0] - waits[1]))),
        "pairs_swapped": swapped(real[0], ours[0]),
    }


def main() -> None:
    """Run, play, compare."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    policy = sys.argv[2] if len(sys.argv) > 2 else "balanced"
    with box(str(DEVICES), f'[policy]\npreset = "{policy}"\n') as made:
        run_for_real(made, gangs(count, seed=1))
        journal = made.path / "journal.db"
        found = compared(real_starts(journal), simulated_starts(journal, policy))
    print(f"{found['gangs']:.0f} gangs under {policy} on {DEVICES} made-up devices")
    print(f"mean wait     {found['wait_real_s']:.1f} s for real, {found['wait_simulated_s']:.1f} s simulated")
    print(f"starts        {found['median_start_error_s']:.2f} s apart in the middle")
    print(f"order         {100 * found['pairs_swapped']:.2f} % of the pairs the other way round")
    met = abs(found["wait_difference"]) <= WITHIN and found["pairs_swapped"] <= WITHIN
    print(json.dumps({**found, "policy": policy, "met": met}))


if __name__ == "__main__":
    main()
