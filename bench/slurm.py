"""Our plan beside Slurm's: the same random gangs, Slurm's expected starts against ours.

.venv/bin/python bench/slurm.py [SETS]      (needs Debian's slurm-wlm, or at least slurmctld, slurmd and slurm-client)

One slurmctld and one slurmd for each of eight nodes run on loopback, as root, with fake GPUs that are empty files. Of
each set some gangs of whole nodes run and others wait; `squeue` says when Slurm expects each to start. We play the
same gangs through the engine: `conservative` beside a reservation for every job, `easy` beside one reservation.

Slurm plans in steps of a minute and looks every few seconds, so starts within two minutes count as equal. By default it
also loses precision on purpose: ends of running jobs are looked at in windows that double (slurm.conf(5),
bf_window_linear), which defers starts. Here the windows grow by a second, so that what is compared is the plan. Of some
gangs Slurm says nothing, and those behind them are planned as if they were not there (behind unsaid).
"""

import datetime as dt
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tutti.engine.model import SECOND
from tutti.sim.cluster import plain
from tutti.sim.intake import Cut, Estimates, EstimateSource, Tasks
from tutti.sim.policies import find_policy
from tutti.sim.run import Simulation
from tutti.sim.traces.log import Log, Row

NODES, GPUS, FIRST_PORT = 8, 8, 27_100
ALIKE_S = 120
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
MODES = {"conservative": 0, "easy": 1}
"""Our policy, and the reservations that Slurm makes (0 means for every job)."""
CONF = """
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
PriorityType=priority/basic
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,bf_window=2880,bf_resolution=60,bf_max_job_test=500,bf_continue,bf_window_linear=1{reserve}
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{end}] CPUs=8 RealMemory=100 Gres=gpu:{gpus}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Ask(NamedTuple):
    """A gang of whole nodes: how many, and for how many minutes at most."""

    nodes: int
    minutes: int


class Set(NamedTuple):
    """Gangs that run, and gangs that wait behind them, in the order of submission."""

    running: list[Ask]
    waiting: list[Ask]


def drawn(seed: int) -> Set:
    """A random set: the cluster is full to at most one node when the first gang has to wait."""
    draws = random.Random(seed)
    running, left = list[Ask](), NODES
    while left > draws.choice((0, 0, 1)):
        nodes = min(draws.choice((1, 1, 2, 3, 4)), left)
        running.append(Ask(nodes, draws.randrange(20, 200, 5)))
        left -= nodes
    waiting = [Ask(draws.choice((1, 1, 2, 2, 3, 4, 6, 8)), draws.randrange(10, 240, 5)) for _ in range(6)]
    return Set(running, [Ask(max(waiting[0].nodes, left + 1), waiting[0].minutes), *waiting[1:]])


class Planned(NamedTuple):
    """When a gang that waits is expected to start, and on which nodes; None where Slurm says nothing."""

    start: float | None
    nodes: frozenset[int]


class Said(NamedTuple):
    """Slurm's plan: the nodes of those that run, and of each gang that waits what is planned for it."""

    seated: list[frozenset[int]]
    waiting: dict[int, Planned]


# -- ours


def our_starts(asked: Set, policy: str) -> dict[int, float]:
    """Seconds until each waiting gang starts, when every gang runs as long as it may."""
    rows = [
        Row(f"r{at}", at * SECOND, ask.minutes * 60 * SECOND, ask.nodes * GPUS) for at, ask in enumerate(asked.running)
    ]
    later = len(rows)
    rows += [
        Row(f"w{at}", (later + at) * SECOND, ask.minutes * 60 * SECOND, ask.nodes * GPUS)
        for at, ask in enumerate(asked.waiting)
    ]
    tasks = Tasks(Log("slurm", "slurm", rows), Cut("gpu", GPUS), Estimates(EstimateSource.EXACT))
    simulation = Simulation(tasks, plain(NODES, GPUS, "gpu"), find_policy(policy), "gpu")
    record = simulation.run()
    return {at: record.started[later + at] / SECOND for at in range(len(asked.waiting))}


# -- theirs


class Slurm:
    """A controller and its nodes on loopback; every command is run with its configuration."""

    def __init__(self, folder: Path, reservations: int) -> None:
        self.folder = folder
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}
        self.processes: list[subprocess.Popen[bytes]] = []
        reserve = f",bf_job_part_count_reserve={reservations}" if reservations else ""
        host = socket.gethostname().partition(".")[0]
        last = NODES - 1
        ports = {"port": FIRST_PORT - 1, "first": FIRST_PORT, "end": FIRST_PORT + last}
        text = CONF.format(host=host, folder=folder, reserve=reserve, last=last, gpus=GPUS, **ports)
        (folder / "slurm.conf").write_text(text)
        for number in range(GPUS):
            (folder / f"gpu{number}").touch()
        (folder / "gres.conf").write_text(f"NodeName=n[0-{last}] Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
        (folder / "state").mkdir()

    def start(self) -> None:
        """Start everything and wait until the nodes are idle."""
        self._spawn("slurmctld", "-D")
        for node in range(NODES):
            (self.folder / f"spool-n{node}").mkdir()
            self._spawn("slurmd", "-D", "-N", f"n{node}")
        for _ in range(120):
            time.sleep(0.5)
            if self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).strip() == str(NODES):
                return
        log = (self.folder / "ctld.log").read_text().splitlines()[-5:]
        raise SystemExit("slurm: the nodes did not come up\n" + "\n".join(log))

    def _spawn(self, program: str, *words: str) -> None:
        path = shutil.which(program) or f"/usr/sbin/{program}"
        quiet = subprocess.DEVNULL
        command = [path, *words, "-f", str(self.folder / "slurm.conf")]
        self.processes.append(subprocess.Popen(command, env=self.env, stdout=quiet, stderr=quiet))

    def run(self, *command: str, check: bool = True) -> str:
        """A client command's output."""
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True, check=check)
        return done.stdout

    def stop(self) -> None:
        """End every process that was started here."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def submit(self, ask: Ask) -> str:
        """Submit a gang; its number."""
        words = ["-N", str(ask.nodes), f"--gres=gpu:{GPUS}", "--exclusive", "-t", str(ask.minutes), "-o", "/dev/null"]
        return self.run("sbatch", "--parsable", *words, "--wrap", "sleep 100000").strip()

    def clear(self) -> None:
        """Cancel everything, and wait until it is gone."""
        self.run("scancel", "--user=root")
        for _ in range(120):
            if not self.run("squeue", "-h", "-o", "%i").strip():
                return
            time.sleep(0.25)
        raise SystemExit("slurm: jobs do not go away")

    def plan(self, asked: Set) -> Said:
        """What Slurm expects of the gangs that wait, and where those that run are."""
        running = [self.submit(ask) for ask in asked.running]
        for _ in range(80):
            if len(self.run("squeue", "-h", "-t", "R", "-o", "%i").split()) == len(running):
                break
            time.sleep(0.25)
        begun = time.time()
        waiting = [self.submit(ask) for ask in asked.waiting]
        found: dict[int, Planned] = {}
        listed: dict[str, tuple[str, list[str]]] = {}
        for _ in range(4):
            time.sleep(2.5)
            lines = self.run("squeue", "-h", "-o", "%i|%S|%Y|%N").split()
            listed = {job: (start, nodes) for job, start, *nodes in (line.split("|") for line in lines)}
            before, found = (
                found,
                {at: _planned(*listed[job], begun) for at, job in enumerate(waiting) if job in listed},
            )
            if found == before:
                break
        seated = [numbers(listed[job][1][1]) if job in listed else frozenset[int]() for job in running]
        self.clear()
        return Said(seated, found)


def _planned(start: str, nodes: list[str], begun: float) -> Planned:
    if start == "N/A":
        return Planned(None, frozenset())
    at = dt.datetime.fromisoformat(start).replace(tzinfo=dt.UTC).timestamp() - begun
    return Planned(at, numbers(nodes[1]) or numbers(nodes[0]))


def numbers(names: str) -> frozenset[int]:
    """The nodes that a list such as n[0-2,5] names."""
    parts = (part.partition("-") for part in re.findall(r"[0-9]+(?:-[0-9]+)?", names))
    return frozenset(node for low, _, high in parts for node in range(int(low), int(high or low) + 1))


@contextmanager
def slurm(reservations: int) -> Iterator[Slurm]:
    """Slurm while the block runs."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        made = Slurm(Path(folder), reservations)
        try:
            made.start()
            yield made
        finally:
            made.stop()


# -- side by side


class Cause(StrEnum):
    """Why two starts differ."""

    UNSAID = "Slurm leaves out a gang ahead, of which it says nothing"
    THEIR_NODES = "Slurm has named nodes for those ahead, and of the others too few are free for the whole stay"
    OUR_NODES = "our promises keep the nodes they were given; counting nodes alone, the gang would start earlier"
    AHEAD = "each is the earliest its own plan allows; a gang ahead starts at another time"
    MINUTES = "Slurm plans in steps of a minute, and what fits to the second does not fit into them"
    LATER = "Slurm's own plan has room earlier, at a moment that its windows do not try"
    OVERLAP = "Slurm's start is earlier than its own plan has room"


class Taken(NamedTuple):
    """Nodes from a moment to another; only so many where nobody says which."""

    start: float
    end: float
    nodes: frozenset[int]
    many: int


def earliest(ask: Ask, taken: list[Taken], by_name: bool, slack: float = 60) -> float:
    """When so many nodes are free for the whole stay but for a little, by their names or merely by their number."""
    for start in sorted({0.0, *(each.end for each in taken)}):
        over = [each for each in taken if each.start < start + ask.minutes * 60 - slack and each.end > start + slack]
        named = NODES - len(frozenset[int]().union(*(each.nodes for each in over)))
        moments = {start, *(each.start for each in over if each.start > start)}
        busy = (sum(each.many for each in over if each.start <= at + slack and each.end > at + slack) for at in moments)
        if (named if by_name else NODES - max(busy)) >= ask.nodes:
            return start
    raise AssertionError("all nodes are free in the end")


def cause(at: int, asked: Set, ours: dict[int, float], said: Said) -> Cause:
    """Why the starts of a gang differ, from what each plan has for those ahead of it."""
    theirs = said.waiting[at].start
    assert theirs is not None
    if theirs < ours[at] and any(said.waiting[ahead].start is None for ahead in range(at)):
        return Cause.UNSAID
    running = [
        Taken(0, ask.minutes * 60, nodes, ask.nodes) for ask, nodes in zip(asked.running, said.seated, strict=True)
    ]
    others = [other for other in range(len(asked.waiting)) if other < at]
    planned = [(asked.waiting[other], said.waiting[other]) for other in others]
    slurm = running + [
        Taken(p.start, p.start + ask.minutes * 60, p.nodes, ask.nodes) for ask, p in planned if p.start is not None
    ]
    mine = running + [
        Taken(ours[other], ours[other] + asked.waiting[other].minutes * 60, frozenset(), asked.waiting[other].nodes)
        for other in others
    ]
    ask = asked.waiting[at]
    by_name, by_count = earliest(ask, slurm, by_name=True), earliest(ask, slurm, by_name=False)
    if theirs < by_count - ALIKE_S:
        return Cause.OVERLAP
    if ours[at] > theirs:
        return Cause.OUR_NODES if ours[at] > earliest(ask, mine, by_name=False) + ALIKE_S else Cause.AHEAD
    if theirs > by_name + ALIKE_S:
        return Cause.LATER if theirs > earliest(ask, slurm, by_name=True, slack=0) + ALIKE_S else Cause.MINUTES
    return Cause.THEIR_NODES if theirs > by_count + ALIKE_S else Cause.AHEAD


def compared(asked: Set, ours: dict[int, float], said: Said) -> Counter[str]:
    """How one set came out; every difference is printed with its cause."""
    counts = Counter[str]()
    for at, start in ours.items():
        theirs = said.waiting[at].start if at in said.waiting else None
        if theirs is None:
            counts["unsaid"] += 1
            continue
        counts["compared"] += 1
        if abs(start - theirs) <= ALIKE_S:
            counts["equal"] += 1
            continue
        counts["ours_earlier" if start < theirs else "theirs_earlier"] += 1
        why = cause(at, asked, ours, said)
        counts[f"because_{why.name.lower()}"] += 1
        print(f"    gang {at} ({asked.waiting[at].nodes} nodes): ours {start:.0f} s, Slurm {theirs:.0f} s: {why}")
    return counts


def main() -> int:
    """Print both modes; the last line is JSON."""
    missing = [name for name in PROGRAMS if not (shutil.which(name) or Path(f"/usr/sbin/{name}").exists())]
    if missing or os.geteuid():
        print(f"slurm: not measured: {'it needs root' if os.geteuid() else 'no ' + ', '.join(missing)}")
        print("  try: apt install slurm-wlm")
        return 0
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    results: dict[str, dict[str, int]] = {}
    for policy, reservations in MODES.items():
        count = Counter[str]()
        with slurm(reservations) as theirs:
            for seed in range(sets):
                asked = drawn(seed)
                ours, said = our_starts(asked, policy), theirs.plan(asked)
                before = count["compared"] - count["equal"]
                count += compared(asked, ours, said)
                if count["compared"] - count["equal"] > before:
                    print(f"  {policy}, set {seed}: {asked}\n    ours {ours}\n    slurm {said}", flush=True)
        print(f"{policy:<13} {dict(count)}", flush=True)
        results[policy] = dict(count)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
