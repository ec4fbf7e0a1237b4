"""How fast the simulator plays logs through the real engine. Prints each figure with its goal; the last line is JSON.

Speeds are per second of processor time, so that a busy machine does not count. The independent checker, which changes
no plan, is left out. Logs come from TUTTI_TRACES; without it only the generated ones are played. ARGS="kth" plays only
some. A figure takes at most TUTTI_BENCH_SECONDS of processor time (60): what is not played by then is left out, and the
line says how much was played.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import accasim
from tutti.engine.presets import PRESETS
from tutti.sim.cluster import plain
from tutti.sim.experiment import Options, prepare
from tutti.sim.generate import Drawn, Load
from tutti.sim.run import Simulation
from tutti.sim.task import Workload
from tutti.sim.traces.log import Log
from tutti.sim.traces.read import read_trace

GOALS = {
    "jobs_per_s_kth": 10_000,
    "jobs_per_s_lublin": 5_000,
    "jobs_per_s_curie": 10_000,
    "jobs_per_s_philly": 5_000,
    "jobs_per_s_generated": 10_000,
    "accasim_ratio": 10,
    "accasim_ratio_kth": 10,
    "accasim_ratio_lublin": 10,
    "accasim_ratio_curie": 10,
    "growth_10x": 1.2,
    "million_jobs_s": 200,
    "million_jobs_peak_mb": 2_000,
}
AT_MOST = {"growth_10x", "million_jobs_s", "million_jobs_peak_mb"}
LOGS = {
    "jobs_per_s_kth": ("kth-sp2/KTH-SP2_filtered.swf", ""),
    "jobs_per_s_lublin": ("lublin/lublin_256.swf", ""),
    # Curie had nodes of 16 processors; seats of single processors would be lists of tens of thousands.
    "jobs_per_s_curie": ("cea-curie-sample/curie_sample.swf", "5832x16"),
    # At times 12,000 jobs wait.
    "jobs_per_s_philly": ("philly/philly_jobs.csv", "59x8"),
}
POLICY = PRESETS["easy"].policy
ROOT = Path(__file__).resolve().parents[1]
RACES = {"kth": (5_000, 1), "lublin": (10_000, 1), "curie": (1_000, 16)}
"""Jobs that are played of each log in the race against AccaSim, and processors of a node there."""
MILLION_TIMES = 4
"""How many times longer than the others the million may take."""


SECONDS = float(os.environ.get("TUTTI_BENCH_SECONDS", "60"))
PARTS: dict[str, str] = {}
"""How much was played, where it was not all of it."""


class Enough(Exception):
    """The time for this figure is over."""


def timed(simulation: Simulation, name: str, seconds: float = SECONDS) -> tuple[int, float]:
    """Jobs that ended, and the processor time it took; not much more time than was given."""
    begun, over = time.process_time(), 0

    def look(done: int, total: int) -> None:
        nonlocal over
        over = done
        if time.process_time() - begun > seconds:
            PARTS[name] = f"{done:,} of {total:,} jobs"
            raise Enough

    try:
        simulation.run(look)
        over = simulation.size
    except Enough:
        pass
    return over, time.process_time() - begun


def speed(simulation: Simulation, name: str) -> float:
    """Jobs per second of processor time."""
    jobs, took = timed(simulation, name)
    return jobs / took


def played(workload: Workload, nodes: int, each: int, resource_name: str, name: str) -> float:
    """Jobs per second of a workload on a plain cluster."""
    return speed(Simulation(workload, plain(nodes, each, resource_name), POLICY, resource_name, checked=False), name)


def from_log(name: str) -> Callable[[], float | None]:
    """A figure measured on a log of the folder of traces."""

    def figure() -> float | None:
        traces = os.environ.get("TUTTI_TRACES", "")
        path, cluster = LOGS[name]
        if not traces or not (Path(traces) / path).exists():
            return None
        case = prepare(read_trace(Path(traces) / path), Options(cluster=cluster))
        played_on = Simulation(case.tasks(elastic=False), case.cluster, POLICY, case.log.resource, checked=False)
        return speed(played_on, name)

    return figure


def generated(jobs: int = 10_000, name: str = "jobs_per_s_generated") -> float:
    """Jobs per second of generated load on 1,000 nodes of 8."""
    return played(Drawn(Load(jobs=jobs, devices=8_000, load=0.8)), 1_000, 8, "gpu", name)


def race(log: str) -> float | None:
    """Our speed over AccaSim's: same log, same machine, same policy, same run, in seconds of processor time."""
    traces, (name, cluster) = os.environ.get("TUTTI_TRACES", ""), LOGS[f"jobs_per_s_{log}"]
    path, (jobs, each) = Path(traces) / name, RACES[log]
    if not traces or not path.exists():
        return None
    case = prepare(_first(read_trace(path), jobs), Options(cluster=cluster))
    simulation = Simulation(case.tasks(elastic=False), case.cluster, POLICY, "slot", checked=False)
    return speed(simulation, f"accasim_ratio_{log}") / accasim.jobs_per_s(path, case.devices // each, jobs, each)


def races() -> dict[str, float | None]:
    """The race on each log, and the middle one of them."""
    found = {f"accasim_ratio_{log}": race(log) for log in RACES}
    measured = sorted(ratio for ratio in found.values() if ratio is not None)
    return {**found, "accasim_ratio": measured[len(measured) // 2] if measured else None}


def _first(log: Log, jobs: int) -> Log:
    return msgspec.structs.replace(log, rows=log.rows[:jobs])


def growth() -> float:
    """Cost per job of ten times the jobs, beside the cost of the fewer."""
    return generated(2_000) / generated(20_000, "growth_10x")


def in_own_process(jobs: int) -> dict[str, float]:
    """Time and memory of a long run, measured in a process of its own."""
    code = f"import sys; sys.argv = ['bench']; from bench.sim import alone; alone({jobs})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if part := found.pop("part"):
        PARTS["million_jobs_s"] = PARTS["million_jobs_peak_mb"] = str(part)
    return found


def alone(jobs: int) -> None:
    """What the process of its own does: time and memory for all jobs, scaled up from those there was time for."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    workload = Drawn(Load(jobs=jobs, devices=8_000, load=0.8))
    simulation = Simulation(workload, plain(1_000, 8, "gpu"), POLICY, "gpu", checked=False)
    over, took = timed(simulation, "million_jobs_s", MILLION_TIMES * SECONDS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    more = jobs / max(over, 1)
    found = {"million_jobs_s": took * more, "million_jobs_peak_mb": before + (peak - before) * more}
    print(json.dumps({**found, "part": PARTS.get("million_jobs_s", "")}))


def million() -> dict[str, float]:
    """A million generated jobs, or as many as there is time for; TUTTI_BENCH_JOBS draws fewer and scales up."""
    jobs = int(os.environ.get("TUTTI_BENCH_JOBS", "1000000"))
    found = in_own_process(jobs)
    return {**found, "million_jobs_s": found["million_jobs_s"] * 1_000_000 / jobs}


def figures(wanted: set[str]) -> dict[str, float | None]:
    """Every figure that was asked for."""
    found: dict[str, float | None] = {}
    single: dict[str, Callable[[], float | None]] = {
        **{name: from_log(name) for name in LOGS},
        "jobs_per_s_generated": generated,
        "growth_10x": growth,
    }
    for name, measure in single.items():
        if not wanted or any(word in name for word in wanted):
            found[name] = measure()
            show(name, found[name])
    several: dict[str, Callable[[], Mapping[str, float | None]]] = {"accasim": races, "million": million}
    for word, measure_all in several.items():
        if not wanted or word in wanted:
            for name, value in measure_all().items():
                found[name] = value
                show(name, value)
    return found


def show(name: str, value: float | None) -> None:
    """One line for a person."""
    if value is None:
        print(f"{name:<24} not measured: TUTTI_TRACES is not set")
        return
    met = value <= GOALS[name] if name in AT_MOST else value >= GOALS[name]
    bound = "at most" if name in AT_MOST else "at least"
    played = f"   ({PARTS[name]})" if name in PARTS else ""
    verdict = "met" if met else "not met"
    print(f"{name:<24} {value:>12,.1f}   goal {bound} {GOALS[name]:,}   {verdict}{played}", flush=True)


if __name__ == "__main__":
    measured = figures(set(sys.argv[1:]))
    print(json.dumps({**measured, "partial": PARTS}))
