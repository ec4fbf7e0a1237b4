"""Our own results as a page: five policies on real and generated load, with what was assumed.

TUTTI_TRACES=/path/to/traces .venv/bin/python bench/results.py > docs/explanation/results.md
`--jobs 300` plays fewer, `--only generated` only loads with that word in their name.
"""

import os
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import forecasts
from tutti.engine.model import DAY, HOUR, MINUTE
from tutti.sim.bounds import Bounds
from tutti.sim.experiment import Case, Options, Outcome, play, prepare
from tutti.sim.faults import by_chance
from tutti.sim.generate import Drawn, Load
from tutti.sim.metrics import Metrics
from tutti.sim.policies import find_policy
from tutti.sim.task import Habits
from tutti.sim.traces.log import Log
from tutti.sim.traces.read import read_trace
from tutti.views.table import part, time_s

POLICIES = ("rigid", "easy", "conservative", "balanced", "throughput")
LOGS = {
    "Philly": ("philly/philly_jobs.csv", "4x8", 0.8),
    "KTH-SP2": ("kth-sp2/KTH-SP2_filtered.swf", "", 0.0),
    "HPC2N excerpt": ("hpc2n-excerpt/hpc2n_excerpt.swf", "", 0.0),
    "Lublin-1": ("lublin/lublin_256.swf", "", 0.0),
    "Curie sample": ("cea-curie-sample/curie_sample.swf", "5832x16", 0.0),
}
LOADS = (0.7, 0.9, 1.1)
GENERATED_DEVICES = 64
NODE_FAILS_EVERY = 7 * DAY
WARM_UP = 0.1
COLUMNS = ("wait", "p99 wait", "completion", "over the bound", "utilisation", "goodput", "interruptions")
PROMISES = ("promise error", "part of its lead", "late")
FORECASTS = ("kth", "lublin", "hpc2n")
SAVING = Habits(
    start_up=20 * 1_000_000, restart=MINUTE, save_every=30 * MINUTE, save_cost=5 * 1_000_000, leave=30 * 1_000_000
)


def cases(jobs: int) -> dict[str, Case]:
    """Every load, cut to so many jobs."""
    found = {}
    traces = os.environ.get("TUTTI_TRACES", "")
    for name, (path, cluster, load) in LOGS.items() if traces else ():
        log = some(read_trace(Path(traces) / path, skip_bad=True), jobs)
        found[name] = prepare(log, Options(cluster=cluster, load=load, skip_bad=True, warm_up=WARM_UP))
    for load in LOADS:
        log = Drawn(Load(jobs=jobs, devices=GENERATED_DEVICES, load=load, seed=1)).log()
        case = prepare(log, Options(habits=SAVING, load=load, warm_up=WARM_UP))
        end = case.log.rows[-1].at + DAY
        case.faults = by_chance(case.cluster, NODE_FAILS_EVERY, HOUR, end, seed=1)
        found[f"generated, load {load}, faults"] = case
    return found


def some(log: Log, jobs: int) -> Log:
    """So many jobs from the last third; of Philly, whose jobs are small beside its machine, every n-th."""
    thin = max(len(log.rows) // jobs, 1) if log.kind == "philly" else 1
    rows = log.rows[::thin]
    begin = 0 if thin > 1 else min(2 * len(rows) // 3, max(len(rows) - jobs, 0))
    rows = rows[begin : begin + jobs]
    first = rows[0].at // DAY * DAY
    return msgspec.structs.replace(log, rows=[msgspec.structs.replace(row, at=row.at - first) for row in rows])


def line(outcome: Outcome, best: Bounds) -> str:
    """One row of a table."""
    found = outcome.metrics
    above = found.completion_s.mean / best.avg_flow_s if best.avg_flow_s else 1.0
    promises = [time_s(found.promise_error_s), part(found.promise_error_part), part(found.promises_late)]
    cells = [
        found.policy,
        time_s(found.wait_s.mean),
        time_s(found.wait_s.p99),
        time_s(found.completion_s.mean),
        f"{above:.2f}",
        part(found.utilization),
        part(found.goodput),
        str(found.interruptions),
        *(promises if found.promised else ["-"] * len(PROMISES)),
    ]
    return "| " + " | ".join(cells) + " |"


def section(name: str, case: Case) -> tuple[str, str]:
    """All policies on one load, and the line that sets balanced beside EASY."""
    best = case.bounds()
    size = f"{len(case.log.rows):,} jobs on {case.devices:,} devices"
    lines = [
        f"## {name}",
        "",
        f"{size}, offered load {case.offered:.2f}, estimates {case.estimates}, {len(case.faults)} faults.",
        "",
        "| policy | " + " | ".join((*COLUMNS, *PROMISES)) + " |",
        "|---|" + "---:|" * len((*COLUMNS, *PROMISES)),
    ]
    found = {}
    for word in POLICIES:
        found[word] = play(case, find_policy(word))
        lines.append(line(found[word], best))
        print(f"results: {name}, {word}", file=sys.stderr, flush=True)
    return "\n".join([*lines, ""]), beside(name, found["easy"].metrics, found["balanced"].metrics)


def beside(name: str, easy: Metrics, balanced: Metrics) -> str:
    """One row of the comparison."""
    cells = [
        name,
        change(balanced.wait_s.mean, easy.wait_s.mean),
        change(balanced.completion_s.mean, easy.completion_s.mean),
        f"{100 * (balanced.goodput - easy.goodput):+.1f}",
        f"{part(easy.promise_error_part)} / {part(balanced.promise_error_part)}",
        f"{time_s(easy.promise_error_s)} / {time_s(balanced.promise_error_s)}",
    ]
    return "| " + " | ".join(cells) + " |"


def change(ours: float, theirs: float) -> str:
    """How much more or less, in percent."""
    return f"{100 * (ours / theirs - 1):+.1f} %" if theirs else "-"


def calibration() -> str:
    """What came of forecasts on three logs, as it was measured by bench/forecasts.py."""
    rows = []
    for name in FORECASTS:
        book, told = forecasts.measured(name)
        for each in book.accuracy():
            cells = (name, told, each.horizon, str(each.forecasts))
            figures = (part(each.covered_ppm / 1e6), time_s(each.median_error / 1e6))
            rows.append("| " + " | ".join((*cells, *figures)) + " |")
            print(f"results: forecasts, {rows[-1]}", file=sys.stderr, flush=True)
    return "\n".join([*CALIBRATION, *rows, ""])


def main() -> None:
    """Print the page."""
    jobs = int(sys.argv[sys.argv.index("--jobs") + 1]) if "--jobs" in sys.argv else 1_000
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    wanted = {name: case for name, case in cases(jobs).items() if only in name}
    sections = [section(name, case) for name, case in wanted.items()]
    print(HEAD.format(jobs=f"{jobs:,}", fails=NODE_FAILS_EVERY // DAY))
    print("\n".join([*BESIDE, *(row for _, row in sections), ""]))
    print("\n".join(text for text, _ in sections))
    if not only and os.environ.get("TUTTI_TRACES"):
        print(calibration())
    print("Back to [the documentation](../README.md).")


HEAD = """# Results

<!-- made by bench/results.py; change that, not this -->

Five policies on the same load, made by one command (`bench/results.py`). Of each log {jobs} jobs from its last third,
of Philly every n-th; the first tenth warms the cluster up and is not measured. *Over the bound* is mean completion over
what no scheduler could beat. Utilisation and goodput are of the time in which jobs keep coming. *Promise error* is the
mean distance of the first promised start from the real one, early or late; *part of its lead* is the same distance as
a part of how far ahead the promise looked; *late* is the part of the promised jobs that started later. On the generated
load a node fails every {fails} days on average, jobs save every half hour and need a minute to start again.
"""

BESIDE = (
    "## The default beside EASY",
    "",
    "`balanced` was made on other windows (three of KTH-SP2, one of Lublin-1); see",
    "[the decision](../decisions/0014-waits-in-proportion.md). Less is better but for goodput, in points.",
    "",
    "| load | wait | completion | goodput | promise error, part of its lead: easy / balanced | in time |",
    "|---|---:|---:|---:|---:|---:|",
)

CALIBRATION = (
    "## Forecasts",
    "",
    "Starts foretold while a log was played under EASY (`bench/forecasts.py`), by how far ahead the forecast looked.",
    "The range is meant to hold nine starts in ten.",
    "",
    "| log | estimates | looked ahead | forecasts | inside the 90 % range | median error |",
    "|---|---|---|---:|---:|---:|",
)

if __name__ == "__main__":
    main()
