"""How long it takes to be told what a job means, and whether a thousand starts go well.

Prints each figure with its goal; the last line is JSON.
Wall time of whole commands, the best of several runs; beside it the processor time, for machines that are busy.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "jobs" / "golden"
RUNS = 9
GOALS = {
    "explain_line_ms": 200.0,
    "explain_script_ms": 200.0,
    "explain_manifest_ms": 200.0,
    "read_all_golden_ms": 1000.0,
    "failed_of_1000_starts": 0.0,
}
GANGS, ROUNDS = 50, 20
LINE = (
    "torchrun --nnodes 2:4 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 8 "
    "--pipeline-model-parallel-size 2 --global-batch-size 512"
)


def command_ms(name: str, *words: str) -> dict[str, float]:
    """The best wall time and the best processor time of a whole command."""
    command = [sys.executable, "-m", "tutti", "explain-job", "-o", "json", *words]
    runs = [_run(command) for _ in range(RUNS)]
    return {f"{name}_ms": min(wall for wall, _ in runs), f"{name}_cpu_ms": min(cpu for _, cpu in runs)}


def _run(command: list[str]) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = _ms(lambda: subprocess.run(command, check=True, capture_output=True))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def golden_ms() -> float:
    """Every golden input once, in one process."""
    sys.path.insert(0, str(ROOT))
    from tests.jobs.golden_files import cases, outcome  # noqa: PLC0415

    every = cases()
    return min(_ms(lambda: [outcome(case) for case in every]) for _ in range(3))


def failed_starts() -> float:
    """Of a thousand gangs of two, fifty at a time: those in which a rank could not bind or did not find the other."""
    sys.path.insert(0, str(ROOT))
    from tests.jobs.programs import PAIR  # noqa: PLC0415
    from tests.local.stage import box  # noqa: PLC0415

    with box(f"{2 * GANGS}") as made:
        (made.path / "pair.py").write_text(PAIR)
        failed = 0
        for _ in range(ROUNDS):
            jobs = [made.submit(sys.executable, "-I", "-S", "pair.py", workers=2) for _ in range(GANGS)]
            failed += sum(job.wait() != 0 for job in jobs)
    return float(failed)


def _ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """All figures."""
    figures = {
        **command_ms("explain_line", *LINE.split()),
        **command_ms("explain_script", str(GOLDEN / "scripts" / "megatron.sbatch")),
        **command_ms("explain_manifest", str(GOLDEN / "manifests" / "pytorchjob.yaml")),
        "read_all_golden_ms": golden_ms(),
        "failed_of_1000_starts": failed_starts(),
    }
    results = {}
    for name, value in figures.items():
        goal = GOALS.get(name)
        met = None if goal is None else value <= goal
        against = f"   goal at most {goal:,.0f}   {'met' if met else 'NOT met'}" if goal is not None else ""
        print(f"{name:<24} {value:>10,.1f}{against}")
        results[name] = {"figure": round(value, 1), "goal": goal, "met": met}
    print(json.dumps({"schema": "tutti/v1", "bench": "intake", "results": results}))


if __name__ == "__main__":
    main()
