"""How true are forecasts? Starts are foretold while logs are played, and compared with what came of them.

TUTTI_TRACES=/path/to/traces .venv/bin/python bench/forecasts.py [kth lublin hpc2n]

Prints, for each log, how many real starts lay inside the 80 % and the 90 % range, and the error by how far ahead the
forecast looked. The last line is JSON. Goal: the 90 % range covers 85 to 95 in a hundred.
"""

import json
import os
import sys
from pathlib import Path

import msgspec

from tutti.drive.calibration import ForecastBook
from tutti.drive.estimates import Errors
from tutti.drive.forecasts import Budget, Forecaster
from tutti.engine import events as ev
from tutti.engine.model import DAY
from tutti.engine.presets import PRESETS
from tutti.engine.world import Touched
from tutti.sim.experiment import Case, Options, prepare
from tutti.sim.run import Simulation
from tutti.sim.traces.log import Log
from tutti.sim.traces.read import read_trace
from tutti.views.table import part, table, time_s

LOGS = {
    "kth": ("kth-sp2/KTH-SP2_filtered.swf", ""),
    "lublin": ("lublin/lublin_256.swf", ""),
    "hpc2n": ("hpc2n-excerpt/hpc2n_excerpt.swf", ""),
}
GOAL = (0.85, 0.95)
MOST = 250
"""Forecasts of one log; each is twenty futures."""
EVERY = {"kth": 4, "lublin": 4, "hpc2n": 3}
"""So that the forecasts come from all over the part that is played."""
BUDGET = Budget(draws=20, steps=150, horizon=7 * DAY)
POLICY = PRESETS["easy"].policy


class Teller:
    """Learns how wrong estimates were, and foretells the start of a gang that was just submitted, now and then."""

    def __init__(self, every: int, most: int) -> None:
        self.every, self.left = every, most
        self.book = ForecastBook()
        self.errors = Errors()
        self.waited = 0
        self.begun: dict[str, int] = {}
        self.names: list[str] = []

    def watch(self, event: ev.Event, touched: Touched) -> None:
        """Listen to the driver."""
        self.book.watch(event, touched)
        if isinstance(event, ev.Starting):
            self.begun[event.gang] = event.at
        elif isinstance(event, ev.Submitted):
            self.names.append(event.gang.name)

    def learn(self, simulation: Simulation, name: str, at: int) -> None:
        """A gang has ended."""
        run = simulation.cluster.runs.get(name)
        if run is not None and name in self.begun:
            self.errors.learn(run.task.gang.estimate, at - self.begun.pop(name))

    def foretell(self, simulation: Simulation) -> None:
        """Forecasts for the latest gang, where it waits and its turn has come."""
        world = simulation.driver.world
        fresh = [name for name in self.names if world.slots.get(name, -1) in world.queued]
        self.names = []
        for name in fresh:
            self.waited += 1
            if self.waited % self.every == 0 and self.left:
                self.left -= 1
                teller = Forecaster(1, BUDGET, self.errors, stretch=self.book.stretch())
                told = teller.forecast(world.view(), simulation.now, POLICY, {name})
                self.book.made(list(told.values()))


def played(case: Case, every: int, most: int) -> ForecastBook:
    """A log played until so many forecasts were made and decided, every n-th gang that has to wait."""
    teller = Teller(every, most)
    tasks = case.tasks(elastic=False)
    simulation = Simulation(tasks, case.cluster, POLICY, case.log.resource, checked=False, watch=(teller.watch,))
    finish, step = simulation.cluster._finish, simulation._step

    def finished(run: object, at: int) -> list[ev.AnyEvent]:
        teller.learn(simulation, run.task.gang.name, at)  # type: ignore[attr-defined]
        return finish(run, at)  # type: ignore[arg-type]

    def stepped(now: int) -> None:
        step(now)
        if teller.names:
            teller.foretell(simulation)

    simulation.cluster._finish = finished  # type: ignore[method-assign]
    simulation._step = stepped  # type: ignore[method-assign]
    simulation.run()
    return teller.book


def measured(name: str) -> tuple[ForecastBook, str]:
    """The forecasts of one log and what came of them, and where its estimates come from."""
    path, cluster = LOGS[name]
    log = read_trace(Path(os.environ["TUTTI_TRACES"]) / path, skip_bad=True)
    case = prepare(some(log, int(os.environ.get("TUTTI_BENCH_JOBS", "1500"))), Options(cluster=cluster, skip_bad=True))
    return played(case, EVERY[name], int(os.environ.get("TUTTI_BENCH_FORECASTS", str(MOST)))), str(case.estimates)


def some(log: Log, jobs: int) -> Log:
    """So many jobs from the middle of a log."""
    begin = min(len(log.rows) // 3, max(len(log.rows) - jobs, 0))
    return msgspec.structs.replace(log, rows=log.rows[begin : begin + jobs])


def inner(book: ForecastBook) -> float:
    """Part of the starts that lay inside the 80 % range."""
    inside = [o.forecast.p10 <= o.started <= o.forecast.p90 for o in book.outcomes]
    return sum(inside) / max(len(inside), 1)


def shown(book: ForecastBook) -> list[str]:
    """The accuracy as a table."""
    rows = [
        (each.horizon, str(each.forecasts), part(each.covered_ppm / 1e6), time_s(each.median_error / 1e6))
        for each in book.accuracy()
    ]
    return table([("looked ahead", "forecasts", "inside 90 %", "median error"), *rows])


def main() -> int:
    """Print every log."""
    traces = os.environ.get("TUTTI_TRACES", "")
    if not traces:
        print("forecasts: the traces are not here.\n  try: TUTTI_TRACES=/path/to/traces make validate")
        return 2
    found: dict[str, dict[str, float | bool]] = {}
    for name in sys.argv[1:] or LOGS:
        book, told = measured(name)
        print(f"{name}, estimates {told}: {len(book.outcomes)} forecasts decided, {book.unpromised} beyond the horizon")
        if not book.outcomes:
            continue
        print("\n".join(shown(book)), flush=True)
        covered = book.accuracy()[0].covered_ppm / 1e6
        late = sum(o.started > o.forecast.p95 for o in book.outcomes) / len(book.outcomes)
        print(
            f"inside 80 %: {part(inner(book))}; started later than foretold: {part(late)}; goal for 90 %: 85 to 95 %\n",
            flush=True,
        )
        found[name] = {
            "forecasts": len(book.outcomes),
            "covered_90": covered,
            "covered_80": inner(book),
            "met": GOAL[0] <= covered <= GOAL[1],
        }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
