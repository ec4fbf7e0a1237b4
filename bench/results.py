"""Our own results as a page: five policies on real and generated load, with what was assumed.

TUTTI_TRACES=/path/to/traces .venv/bin/python bench/results.py --jobs 300 > docs/explanation/results.md
`--only generated` plays only loads with that word in their name.
"""

import os
import sys
from pathlib import Path

import msgspec

from tutti.engine.model import DAY, HOUR, MINUTE
from tutti.sim.bounds import Bounds
from tutti.sim.experiment import Case, Options, Outcome, play, prepare
from tutti.sim.faults import by_chance
from tutti.sim.generate import Drawn, Load
from tutti.sim.policies import find_policy
from tutti.sim.task import Habits
from tutti.sim.traces.log import Log
from tutti.sim.traces.read import read_trace
from tutti.views.table import part, time_s

POLICIES = ("rigid", "easy", "conservative", "balanced", "throughput")
LOGS = {
    "Philly": ("philly/philly_jobs.csv", "4x8", 0.8),
    "KTH-SP2": ("kth-sp2/KTH-SP2_filtered.swf", "", 0.0),
    "Lublin-1": ("lublin/lublin_256.swf", "", 0.0),
    "Curie sample": ("cea-curie-sample/curie_sample.swf", "5832x16", 0.0),
}
PHILLY_TIMES = 2
"""Its jobs are small and short beside the time it covers, so more of them are needed for a cluster to fill."""
LOADS = (0.7, 0.9, 1.1)
GENERATED_DEVICES = 32
NODE_FAILS_EVERY = 2 * DAY
SAVING = Habits(
    start_up=20 * 1_000_000, restart=MINUTE, save_every=30 * MINUTE, save_cost=5 * 1_000_000, leave=30 * 1_000_000
)


def cases(jobs: int) -> dict[str, Case]:
    """Every load, cut to so many jobs."""
    found = {}
    traces = os.environ.get("TUTTI_TRACES", "")
    for name, (path, cluster, load) in LOGS.items() if traces else ():
        log = read_trace(Path(traces) / path, skip_bad=True)
        many = jobs * (PHILLY_TIMES if log.kind == "philly" else 1)
        found[name] = prepare(_some(log, many), Options(cluster=cluster, load=load, skip_bad=True))
    for load in LOADS:
        log = Drawn(Load(jobs=jobs, devices=GENERATED_DEVICES, load=load, seed=1)).log()
        case = prepare(log, Options(habits=SAVING))
        end = case.log.rows[-1].at + DAY
        case.faults = by_chance(case.cluster, NODE_FAILS_EVERY, HOUR, end, seed=1)
        found[f"generated, load {load}, faults"] = case
    return found


def _some(log: Log, jobs: int) -> Log:
    """So many jobs from the middle: logs begin with what was running before. Of Philly, every n-th."""
    thin = max(len(log.rows) // jobs, 1) if log.kind == "philly" else 1
    rows = log.rows[::thin]
    begin = min(len(rows) // 3, max(len(rows) - jobs, 0)) if thin == 1 else 0
    rows = rows[begin : begin + jobs]
    first = rows[0].at // DAY * DAY
    return msgspec.structs.replace(log, rows=[msgspec.structs.replace(row, at=row.at - first) for row in rows])


def line(outcome: Outcome, best: Bounds) -> str:
    """One row of the table."""
    found = outcome.metrics
    above = found.completion_s.mean / best.avg_flow_s if best.avg_flow_s else 1.0
    error = time_s(found.promise_error_s) if found.promised else "-"
    cells = [
        found.policy,
        time_s(found.wait_s.mean),
        time_s(found.completion_s.mean),
        f"{above:.2f}",
        part(found.goodput),
        str(found.interruptions),
        error,
        part(found.promises_late) if found.promised else "-",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the page."""
    jobs = int(sys.argv[sys.argv.index("--jobs") + 1]) if "--jobs" in sys.argv else 2_000
    print(HEAD.format(jobs=f"{jobs:,}", fails=NODE_FAILS_EVERY // DAY))
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    for name, case in cases(jobs).items():
        if only not in name:
            continue
        best = case.bounds()
        print(f"## {name}\n")
        print(f"{len(case.log.rows):,} jobs on {case.devices:,} devices, offered load {case.offered:.2f}, ", end="")
        print(f"estimates {case.estimates}, {len(case.faults)} faults.\n")
        print("| policy | wait | completion | over the bound | goodput | interruptions | promise error | late |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for word in POLICIES:
            print(line(play(case, find_policy(word)), best), flush=True)
        print(flush=True)
    print("Back to [the documentation](../README.md).")


HEAD = """# Results

<!-- made by bench/results.py; change that, not this -->

Five policies on the same load, made by one command (`bench/results.py`). Of each log {jobs} jobs from its middle, of
Philly twice as many, every n-th; means over all jobs that ended. *Over the bound* is mean completion over what no
scheduler could beat. *Promise error* is the mean distance of the first promised start from the real one, *late* the
part of the promised jobs that started later. On the generated load a node fails every {fails} days on average, jobs
save every half hour and need a minute to start again.
"""

if __name__ == "__main__":
    main()
