"""One box: how quick it feels, and what Slurm and task-spooler take for the same where they are installed.

`make bench-local` prints a table and, as the last line, JSON.
Debian: apt install task-spooler slurmctld slurmd slurm-client
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.local_rivals import CHAIN, LENGTHS, Rival, Slurm, TaskSpooler, dated, gaps_ms, idle_percent
from tutti.api.client import Client, job_path
from tutti.api.home import Home
from tutti.errors import Refused

GOALS: dict[str, tuple[str, float]] = {
    "run_to_first_line_ms": ("<=", 300),
    "gang64_skew_ms": ("<=", 50),
    "queue_ms": ("<=", 150),
    "submits_per_s": (">=", 500),
    "ends_to_next_start_ms_p50": ("<=", 20),
    "idle_cpu_percent": ("<=", 0.5),
    "help_ms": ("<=", 150),
}
ENV = {"PATH": os.environ["PATH"], "HOME": "/"}
TUTTI = [sys.executable, "-m", "tutti"]


class Box:
    """A daemon with made-up devices in a home of its own."""

    def __init__(self, devices: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tb"))
        os.environ.update(TUTTI_HOME=str(self.path), TUTTI_LOCKS=str(self.path / "shared"), TUTTI_DEVICES=devices)
        self.client = Client(Home(self.path))
        self.client.start(devices)

    def submit(self, jobs: list[dict[str, Any]], client: Client | None = None) -> None:
        sent = [{"job": job, "context": {"cwd": "/", "env": ENV}} for job in jobs]
        (client or self.client).post("/v1/jobs", {"jobs": sent})

    def wait(self, name: str) -> None:
        while not self.client.get(job_path(name, "wait"), **{"for": 60})["ended"]:
            pass

    def log(self, name: str, rank: int = 0) -> str:
        return str(self.client.get(job_path(name, "logs"), rank=rank)["text"])

    def close(self) -> None:
        for job in self.client.get("/v1/jobs", limit=100_000)["jobs"]:
            if job["state"] not in {"waiting", "held"}:
                with contextlib.suppress(Refused):  # it may have ended since
                    self.client.post(job_path(job["name"], "cancel"), {"grace_s": 0})
        pid = self.client.get("/v1/status")["pid"]
        self.client.post("/v1/stop")
        self.client.close()
        for _ in range(500):
            if not Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.02)
        else:
            os.kill(pid, signal.SIGKILL)
        subprocess.run(["rm", "-rf", str(self.path)], check=False)


def first_line_ms(command: list[str]) -> float:
    """From the command to the first line of its output."""
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took = 1e3 * (time.monotonic() - begun)
        process.stdout.read()
    return took


def median(times: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(times))


def command_ms(command: list[str]) -> float:
    begun = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return 1e3 * (time.monotonic() - begun)


def skew_ms(box: Box, number: int) -> float:
    """Between the first and the last of 64 members."""
    name = f"wide-{number}"
    box.submit([{"name": name, "workers": 64, "command": ["date", "+%s%N"]}])
    box.wait(name)
    moments = [int(box.log(name, rank)) for rank in range(64)]
    return (max(moments) - min(moments)) / 1e6


def chain_ms(box: Box, figure: str) -> float:
    """One device and a line of jobs: from the end of one to the start of the next, the middle of all."""
    box.submit([{"name": f"holder-{figure}", "gpus": 1, "command": ["sleep", "2"]}])
    files = [box.path / f"{figure}-{at}" for at in range(CHAIN)]
    jobs = [{"name": file.name, "command": ["sh", "-c", dated(LENGTHS[figure], file)]} for file in files]
    box.submit(jobs)
    # The others are asked about nothing while they work either.
    for file in reversed(files):
        box.wait(file.name)
    return gaps_ms(files)


def submits(box: Box, number: int, lines: int) -> float:
    """Jobs a second, each in a request of its own and on the disk when it is answered."""
    clients = [Client(box.client.home) for _ in range(lines)]

    def work(at: int) -> None:
        for job in range(number // lines):
            box.submit([{"name": f"s{at}-{job}", "held": True, "command": ["true"]}], clients[at])
        clients[at].close()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(lines)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return number / (time.monotonic() - begun)


def ours() -> dict[str, float]:
    found = {"help_ms": median(5, lambda: command_ms([*TUTTI, "--help"]))}
    box = Box("64")
    try:
        found["run_to_first_line_ms"] = median(9, lambda: first_line_ms([*TUTTI, "run", "--", "echo", "hello"]))
        found["gang64_skew_ms"] = statistics.median(skew_ms(box, at) for at in range(5))
        found["idle_cpu_percent"] = idle_percent([box.client.get("/v1/status")["pid"]], 10.0)
    finally:
        box.close()
    box = Box("1")
    try:
        found |= {figure: chain_ms(box, figure) for figure in LENGTHS}
        found["submits_per_s"] = submits(box, 2000, 16)
        for at in range(16):
            box.submit([{"name": f"q{at}-{n}", "held": bool(n % 2), "command": ["sleep", "9"]} for n in range(500)])
        found["queue_ms"] = median(5, lambda: command_ms([*TUTTI, "queue"]))
        found["jobs_in_queue"] = float(box.client.get("/v1/jobs", limit=1)["total"])
    finally:
        box.close()
    return found


def theirs(rival: Rival) -> dict[str, float] | str:
    """What a rival takes, or why it was not asked."""
    why = rival.missing()
    if why:
        return why
    try:
        rival.start()
        return rival.figures()
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        return f"failed: {type(problem).__name__}: {problem}"
    finally:
        rival.stop()


def everyone(found: dict[str, float], rivals: dict[str, dict[str, float] | str]) -> list[tuple[str, dict[str, float]]]:
    """We and those rivals that were measured."""
    return [("tutti", found), *((who, told) for who, told in rivals.items() if isinstance(told, dict))]


def main() -> None:
    """Print the table and the JSON line."""
    load = os.getloadavg()[0]
    found = ours()
    rivals = {rival.name: theirs(rival) for rival in (Slurm(), TaskSpooler())}
    report: dict[str, Any] = {}
    for name, (sign, goal) in GOALS.items():
        value = found[name]
        met = value <= goal if sign == "<=" else value >= goal
        beside = {who: round(told[name], 2) for who, told in rivals.items() if isinstance(told, dict) and name in told}
        report[name] = {"value": round(value, 2), "goal": goal, "met": met, "beside": beside}
        also = "  ".join(f"{who} {figure}" for who, figure in beside.items())
        print(f"{name:27} {value:>9.2f}  goal {sign} {goal:>5}  {'met' if met else 'MISSED':<6}  {also}")
    for who, told in rivals.items():
        if isinstance(told, str):
            report[who] = told
            print(f"{who}: {told}")
    report["empty_jobs_ms_p50"] = {who: round(told["empty_jobs_ms_p50"], 2) for who, told in everyone(found, rivals)}
    print(f"the same with jobs of no length: {report['empty_jobs_ms_p50']}")
    report["load_before"] = round(load, 1)
    print(f"load of the machine before: {load:.1f} on {os.cpu_count()} processors")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
