"""Our own results as a page: five policies on real and generated load, with what was assumed.

TUTTI_TRACES=/path/to/traces make results, which is: .venv/bin/python bench/results.py > docs/explanation/results.md
`--jobs 300` plays fewer, `--only generated` only loads with that word in their name, `--beside` only the default beside
EASY, `--window 2000` in longer windows. Loads are played beside each other, on as many cores as there are.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
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
from tutti.sim.promises import Alike, alike, promises
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
GENERATED = "generated, load "
GENERATED_DEVICES = 64
NODE_FAILS_EVERY = 7 * DAY
WARM_UP = 0.1
WINDOWS = 8
"""Windows of a log over which the default is set beside EASY."""
SEEDS = 12
"""Seeds of generated load over which it is; they differ more than windows of a log."""
WINDOW_JOBS = 600
DRAWN_JOBS = 4 * WINDOW_JOBS
"""Generated load is played for two weeks and not for three days: gangs as wide as the machine come every other day, and
what they cost shows when they have waited."""
COLUMNS = ("wait", "p99 wait", "completion", "over the bound", "utilisation", "goodput", "interruptions")
PROMISES = ("promise error", "part of its lead", "late")
FORECASTS = ("kth", "lublin", "hpc2n")
SAVING = Habits(
    start_up=20 * 1_000_000, restart=MINUTE, save_every=30 * MINUTE, save_cost=5 * 1_000_000, leave=30 * 1_000_000
)


def names() -> list[str]:
    """Every load there is."""
    logs = list(LOGS) if os.environ.get("TUTTI_TRACES") else []
    return [*logs, *(f"{GENERATED}{load}, faults" for load in LOADS)]


def load_in(name: str) -> float:
    """The load that a generated one is named after."""
    return float(name.removeprefix(GENERATED).partition(",")[0])


def read(name: str) -> tuple[Log, Options]:
    """A log, and how it is played."""
    path, cluster, load = LOGS[name]
    log = read_trace(Path(os.environ["TUTTI_TRACES"]) / path, skip_bad=True)
    return log, Options(cluster=cluster, load=load, skip_bad=True, warm_up=WARM_UP)


def case_of(name: str, jobs: int) -> Case:
    """One load, cut to so many jobs."""
    if name not in LOGS:
        return drawn(jobs, load_in(name), seed=1)
    log, options = read(name)
    return prepare(some(log, jobs), options)


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


def section(name: str, jobs: int) -> str:
    """All policies on one load."""
    case = case_of(name, jobs)
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


def windows(name: str, jobs: int) -> list[Case]:
    """A load several times over: windows from all over a log, or other seeds."""
    if name not in LOGS:
        return [drawn(jobs or DRAWN_JOBS, load_in(name), seed) for seed in range(1, SEEDS + 1)]
    log, options = read(name)
    jobs = jobs or WINDOW_JOBS
    thin = max(len(log.rows) // (WINDOWS * jobs), 1) if log.kind == "philly" else 1
    rows = log.rows[::thin]
    last = max(len(rows) - jobs, 0)
    begins = sorted({last * at // (WINDOWS - 1) for at in range(WINDOWS)})
    return [prepare(shifted(log, rows[begin : begin + jobs]), options) for begin in begins]


class Beside(NamedTuple):
    """One load: its rows, and per figure how much `balanced` has more than `easy`, of the mean over windows."""

    name: str
    row: str
    promises: str
    more: dict[str, Interval]


class Window(NamedTuple):
    """One window under both policies."""

    easy: Metrics
    balanced: Metrics
    promises: Alike
    until_done: float
    """How much more goodput `balanced` has until the last job has ended, in points."""


def beside(name: str, jobs: int) -> Beside:
    """The two on one load: sums over all windows, and differences with their 95 % interval."""
    found: list[Window] = []
    cases = windows(name, jobs)
    for case in cases:
        outcomes = [play(case, find_policy(word)) for word in ("easy", "balanced")]
        pairs = alike(*(promises(each.record, case.since) for each in outcomes))
        easy, balanced = (each.report.goodput_ppm / 1e4 for each in outcomes)
        found.append(Window(outcomes[0].metrics, outcomes[1].metrics, pairs, balanced - easy))
        print(f"results: {name}, window {len(found)}", file=sys.stderr, flush=True)
    more = {figure: interval(values or [0.0]) for figure, values in differences(found).items()}
    cells = [
        name,
        f"{math.fsum(case.offered for case in cases) / len(cases):.2f}",
        change(found, lambda metrics: metrics.wait_s.mean),
        change(found, lambda metrics: metrics.completion_s.mean),
        points(more["goodput"]),
        points(more["goodput until done"]),
    ]
    return Beside(name, row_of(cells), row_of([name, *promise_cells(found, more["promise error"])]), more)


def row_of(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def differences(found: list[Window]) -> dict[str, list[float]]:
    """How much `balanced` has more, window by window: of times the logarithm of the ratio, of parts points.

    Waits of one window are many times those of another; in seconds the longest would be all that counts.
    """
    pairs = [(each.easy, each.balanced) for each in found]
    told = [each.promises.part for each in found if each.promises.jobs]
    return {
        "wait": [ratio(easy.wait_s.mean, balanced.wait_s.mean) for easy, balanced in pairs],
        "completion": [ratio(easy.completion_s.mean, balanced.completion_s.mean) for easy, balanced in pairs],
        "goodput": [100 * (balanced.goodput - easy.goodput) for easy, balanced in pairs],
        "goodput until done": [each.until_done for each in found],
        "promise error": [100 * (balanced - easy) for easy, balanced in told],
    }


def ratio(one: float, other: float) -> float:
    """The logarithm of how many times more the other is; below a second nothing matters."""
    return math.log(max(other, 1.0) / max(one, 1.0))


def promise_cells(found: list[Window], more: Interval) -> list[str]:
    """All first promises of both, then those to the same jobs at the same horizon."""
    policies = ([each.easy for each in found], [each.balanced for each in found])
    jobs = sum(each.promises.jobs for each in found)
    both = [each.promises for each in found if each.promises.jobs]
    errors = [math.fsum(each.jobs * each.error_s[side] for each in both) / max(jobs, 1) for side in (0, 1)]
    late = [math.fsum(each.jobs * each.late[side] for each in both) / max(jobs, 1) for side in (0, 1)]
    return [
        " / ".join(f"{sum(each.promised for each in side):,}" for side in policies),
        " / ".join(time_s(promised(side, lambda each: each.promise_error_s)) for side in policies),
        f"{jobs:,}",
        " / ".join(map(time_s, errors)),
        points(more),
        " / ".join(map(part, late)),
    ]


BAD = {"wait": "more", "completion": "more", "goodput": "less", "goodput until done": "less", "promise error": "more"}
"""Every figure, and what of it nobody wants."""


def verdicts(found: list[Beside]) -> str:
    """What the intervals say of each figure, load by load, and whether the default is worse anywhere."""
    lines = ["", "By the 95 % intervals of the difference between the two, window by window, under `balanced`:", ""]
    worse = []
    for figure, bad in BAD.items():
        told: dict[str, list[str]] = {"less": [], "more": [], "no difference that could not be chance": []}
        for each in found:
            sure = each.more[figure]
            says = "less" if sure.mean + sure.half < 0 else "more" if sure.mean - sure.half > 0 else list(told)[-1]
            told[says].append(each.name.replace(", faults", "").replace(", load", " at"))
        worse += [f"{figure} on {name}" for name in told[bad]]
        lines.append(f"- {figure}: " + "; ".join(f"{says} on {', '.join(on)}" for says, on in told.items() if on) + ".")
    return "\n".join(
        [*lines, "", f"So it is worse, by more than chance, {'in ' + ', '.join(worse) if worse else 'nowhere'}."]
    )


def change(found: list[Window], figure: Callable[[Metrics], float]) -> str:
    """How much more or less over all windows, in percent, and in how many windows it is not more."""
    theirs, ours = math.fsum(figure(each.easy) for each in found), math.fsum(figure(each.balanced) for each in found)
    less = sum(figure(each.balanced) <= figure(each.easy) for each in found)
    return f"{100 * (ours / theirs - 1):+.1f} % ({less} of {len(found)})" if theirs else "-"


def promised(found: Sequence[Metrics], figure: Callable[[Metrics], float]) -> float:
    """The mean over all promises of all windows."""
    return math.fsum(figure(each) * each.promised for each in found) / max(sum(each.promised for each in found), 1)


def points(sure: Interval) -> str:
    """Mean and half the width of its 95 % interval."""
    return f"{sure.mean:+.1f} ± {sure.half:.1f}" if math.isfinite(sure.half) else f"{sure.mean:+.1f}"


def foretold(name: str, _jobs: int) -> str:
    """What came of forecasts on one log, as it was measured by bench/forecasts.py."""
    rows = []
    book, told = forecasts.measured(name)
    for each in book.accuracy():
        cells = [name, told, each.horizon, str(each.forecasts)]
        rows.append(row_of([*cells, part(each.covered_ppm / 1e6), time_s(each.median_error / 1e6)]))
        print(f"results: forecasts, {rows[-1]}", file=sys.stderr, flush=True)
    return "\n".join(rows)


def option(word: str, usual: str) -> str:
    """What follows a word on the command line."""
    return sys.argv[sys.argv.index(word) + 1] if word in sys.argv else usual


def main() -> None:
    """Print the page."""
    jobs, window, only = int(option("--jobs", "600")), int(option("--window", "0")), option("--only", "")
    wanted = [name for name in names() if only in name]
    whole = "--beside" not in sys.argv
    logs = FORECASTS if whole and not only and os.environ.get("TUTTI_TRACES") else ()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        compared = pool.map(beside, wanted, repeat(window))
        sections = pool.map(section, wanted if whole else (), repeat(jobs))
        told = pool.map(foretold, logs, repeat(jobs))
        found = list(compared)
        print(HEAD.format(jobs=f"{jobs:,}", fails=NODE_FAILS_EVERY // DAY))
        sizes = {"jobs": f"{window or WINDOW_JOBS:,}", "drawn": f"{window or DRAWN_JOBS:,}"}
        print("\n".join([BESIDE.format(windows=WINDOWS, seeds=SEEDS, **sizes), *(each.row for each in found)]))
        print("\n".join([KEPT, *(each.promises for each in found), verdicts(found), ""]), flush=True)
        print("\n".join(sections))
        if logs:
            print("\n".join([*CALIBRATION, *told, ""]))
    if whole:
        print("Back to [the documentation](../README.md).")


HEAD = """# Results

<!-- made by bench/results.py; change that, not this -->

Five policies on the same load, made by one command (`bench/results.py`). Of each log {jobs} jobs from its last third,
of Philly every n-th; the first tenth warms the cluster up and is not measured. *Over the bound* is mean completion over
what no scheduler could beat. Utilisation and goodput are of the time in which jobs keep coming. *Promise error* is the
mean distance of the first promised start from the real one, early or late; *part of its lead* is the same distance as
a part of how far ahead the promise looked; *late* is the part of the promised jobs that started later. On the generated
load a node fails every {fails} days on average, jobs save every half hour and need a minute to start again;
they can be parked, so that `balanced` and `throughput`
[lend](../decisions/0021-room-that-is-kept-is-lent.md) them room that is kept for others.
"""

BESIDE = """## The default beside EASY

Over {windows} windows of {jobs} jobs from all over each log, on generated load over {seeds} seeds of {drawn} jobs:
one window says little, because a single wide gang can make the wait of a thousand jobs. Wait and completion are of all
windows together, with the number of windows in which `balanced` has no more; goodput is in points, with the 95 %
interval of its mean: while jobs keep coming, and until the last of them has ended. Whoever lets short gangs pass has
more work left when the last job is submitted, once, however long the window is: see
[one decision](../decisions/0015-nobody-is-put-off-for-long.md),
[the next](../decisions/0016-the-shortest-behind-the-promise.md) and what
[a bound on waiting](../decisions/0017-what-a-bound-on-waiting-costs.md) costs.

| load | offered | wait | completion | goodput | until done |
|---|---:|---:|---:|---:|---:|"""

KEPT = """
Both promise a start to the first in line, but not to the same gang and not at the same moment: another order has other
gangs at its head. Who promises further ahead is further off, and a gang that starts earlier than promised counts as an
error although nobody minds. So beside the mean error of all first promises stands that of the jobs that both promised a
start, both about equally far ahead (under ten minutes, an hour, six hours, a day, more): the same jobs at the same
horizon. The difference is in points of the lead, with the 95 % interval of its mean over the windows; *late* is the
part of these jobs that started later than promised. All are `easy` / `balanced`.

| load | promised | error | same jobs | error | difference, part of the lead | late |
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
