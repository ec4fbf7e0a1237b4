"""Our own results as a page: five policies on real and generated load, with what was assumed.

TUTTI_TRACES=/path/to/traces .venv/bin/python bench/results.py > docs/explanation/results.md
`--jobs 300` plays fewer, `--only generated` only loads with that word in their name, `--beside` only the default beside
EASY, `--window 500` in shorter windows.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

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
from tutti.sim.seeds import Interval, interval
from tutti.sim.task import Habits
from tutti.sim.traces.log import Log, Row
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
WINDOWS = 5
"""Windows of a log, or seeds, over which the default is set beside EASY."""
WINDOW_JOBS = 1_000
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
        found[f"generated, load {load}, faults"] = drawn(jobs, load, seed=1)
    return found


def drawn(jobs: int, load: float, seed: int) -> Case:
    """Generated jobs, on nodes that fail now and then."""
    log = Drawn(Load(jobs=jobs, devices=GENERATED_DEVICES, load=load, seed=seed)).log()
    case = prepare(log, Options(habits=SAVING, load=load, warm_up=WARM_UP))
    case.faults = by_chance(case.cluster, NODE_FAILS_EVERY, HOUR, case.log.rows[-1].at + DAY, seed=seed)
    return case


def some(log: Log, jobs: int) -> Log:
    """So many jobs from the last third; of Philly, whose jobs are small beside its machine, every n-th."""
    thin = max(len(log.rows) // jobs, 1) if log.kind == "philly" else 1
    rows = log.rows[::thin]
    begin = 0 if thin > 1 else min(2 * len(rows) // 3, max(len(rows) - jobs, 0))
    return shifted(log, rows[begin : begin + jobs])


def shifted(log: Log, rows: list[Row]) -> Log:
    """Some rows of a log as a log of their own, which begins on its first day."""
    first = rows[0].at // DAY * DAY
    moved = [msgspec.structs.replace(row, at=row.at - first) for row in rows]
    return msgspec.structs.replace(log, rows=moved, notes=list(log.notes), left_out=[])


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


def section(name: str, case: Case) -> str:
    """All policies on one load."""
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
    for word in POLICIES:
        lines.append(line(play(case, find_policy(word)), best))
        print(f"results: {name}, {word}", file=sys.stderr, flush=True)
    return "\n".join([*lines, ""])


def windows(jobs: int) -> dict[str, list[Case]]:
    """Every load several times over: windows from all over a log, or other seeds."""
    found: dict[str, list[Case]] = {}
    traces = os.environ.get("TUTTI_TRACES", "")
    for name, (path, cluster, load) in LOGS.items() if traces else ():
        log = read_trace(Path(traces) / path, skip_bad=True)
        thin = max(len(log.rows) // (WINDOWS * jobs), 1) if log.kind == "philly" else 1
        rows = log.rows[::thin]
        last = max(len(rows) - jobs, 0)
        begins = sorted({last * at // (WINDOWS - 1) for at in range(WINDOWS)})
        options = Options(cluster=cluster, load=load, skip_bad=True, warm_up=WARM_UP)
        found[name] = [prepare(shifted(log, rows[begin : begin + jobs]), options) for begin in begins]
    for load in LOADS:
        found[f"generated, load {load}, faults"] = [drawn(jobs, load, seed) for seed in range(1, WINDOWS + 1)]
    return found


class Beside(NamedTuple):
    """One load: its row, and per figure how much `balanced` has more than `easy`, of the mean over windows."""

    row: str
    more: dict[str, Interval]


def beside(name: str, cases: list[Case]) -> Beside:
    """One row of the comparison: sums over all windows, and differences with their 95 % interval."""
    pairs = []
    for case in cases:
        pairs.append([play(case, find_policy(word)).metrics for word in ("easy", "balanced")])
        print(f"results: {name}, window {len(pairs)}", file=sys.stderr, flush=True)
    more = {figure: interval([b - a for a, b in each]) for figure, each in figures(pairs).items()}
    errors = zip(*pairs, strict=True)
    cells = [
        name,
        f"{math.fsum(case.offered for case in cases) / len(cases):.2f}",
        change(pairs, lambda found: found.wait_s.mean),
        change(pairs, lambda found: found.completion_s.mean),
        points(more["goodput"]),
        " / ".join(time_s(promised(each, lambda found: found.promise_error_s)) for each in errors),
        " / ".join(part(promised(each, lambda found: found.promise_error_part)) for each in zip(*pairs, strict=True))
        + f" ({points(more['promise error'])})",
    ]
    return Beside("| " + " | ".join(cells) + " |", more)


def figures(pairs: list[list[Metrics]]) -> dict[str, list[list[float]]]:
    """What the issue is, of both policies in every window; the error of promises in points of their lead."""
    return {
        "wait": [[each.wait_s.mean for each in pair] for pair in pairs],
        "completion": [[each.completion_s.mean for each in pair] for pair in pairs],
        "goodput": [[100 * each.goodput for each in pair] for pair in pairs],
        "promise error": [
            [100 * each.promise_error_part for each in pair] for pair in pairs if all(e.promised for e in pair)
        ],
    }


def verdicts(found: dict[str, Beside]) -> str:
    """What the intervals say of each figure, load by load."""
    lines = [
        "",
        "By the 95 % intervals of the mean difference between the two, window by window, under `balanced`:",
        "",
    ]
    for figure in ("wait", "completion", "goodput", "promise error"):
        less, more, even = list[str](), list[str](), list[str]()
        for name, each in found.items():
            sure = each.more[figure]
            (less if sure.mean + sure.half < 0 else more if sure.mean - sure.half > 0 else even).append(name)
        told = (("less", less), ("more", more), ("no difference that could not be chance", even))
        lines.append(f"- {figure}: " + "; ".join(f"{word} on {_listed(names)}" for word, names in told if names) + ".")
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return ", ".join(name.replace(", faults", "").replace(", load", " at") for name in names)


def change(pairs: list[list[Metrics]], figure: Callable[[Metrics], float]) -> str:
    """How much more or less over all windows, in percent, and in how many windows it is not more."""
    theirs, ours = (math.fsum(map(figure, each)) for each in zip(*pairs, strict=True))
    less = sum(figure(balanced) <= figure(easy) for easy, balanced in pairs)
    return f"{100 * (ours / theirs - 1):+.1f} % ({less} of {len(pairs)})" if theirs else "-"


def promised(found: Sequence[Metrics], figure: Callable[[Metrics], float]) -> float:
    """The mean over all promises of all windows."""
    return math.fsum(figure(each) * each.promised for each in found) / max(sum(each.promised for each in found), 1)


def points(sure: Interval) -> str:
    """Mean and half the width of its 95 % interval."""
    return f"{sure.mean:+.1f} ± {sure.half:.1f}" if math.isfinite(sure.half) else f"{sure.mean:+.1f}"


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
    each = int(sys.argv[sys.argv.index("--window") + 1]) if "--window" in sys.argv else WINDOW_JOBS
    print(HEAD.format(jobs=f"{jobs:,}", fails=NODE_FAILS_EVERY // DAY))
    head = BESIDE.format(windows=WINDOWS, jobs=f"{each:,}")
    compared = {name: beside(name, found) for name, found in windows(each).items() if only in name}
    print("\n".join([head, *(found.row for found in compared.values()), verdicts(compared), ""]), flush=True)
    if "--beside" in sys.argv:
        return
    print("\n".join(section(name, case) for name, case in cases(jobs).items() if only in name))
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

BESIDE = """## The default beside EASY

Over {windows} windows of {jobs} jobs from all over each log, on generated load over {windows} seeds: one window
says little, because a single wide gang can make the wait of a thousand jobs. Wait and completion are of all windows
together, with the number of windows in which `balanced` has no more; goodput is in points, with the 95 % interval of
its mean. Promise errors are `easy` / `balanced`, in time and as a part of the lead, with the difference in points.

Below full load all work gets done under either, and goodput is the same but for what is still left when the last job is
submitted. Above it, whoever lets short gangs pass leaves more work to the end: see
[the decision](../decisions/0015-nobody-is-put-off-for-long.md).

What holds: on every log waits and completions are shorter, in at least four windows of five, and goodput is nowhere
lower by more than chance: every interval holds 0. What does not: on generated load at 0.7 one seed of five waits
longer, by more than the four others gain; and promises are as good as EASY's only in part. In time their error is
smaller or the same on five loads and larger on three; as a part of the lead only KTH-SP2 shows more than chance.

| load | offered | wait | completion | goodput | promise error | part of its lead |
|---|---:|---:|---:|---:|---:|---:|"""

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
