"""Slurm (one node) and task-spooler, started in folders of their own and asked for the same as we are."""

import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Protocol

CHAIN = 40
LENGTHS = {"ends_to_next_start_ms_p50": 0.1, "empty_jobs_ms_p50": 0.0}
"""A line of jobs, by how long each of them sleeps: how soon the next one starts, and how many there can be at most."""
ARRAYS = 9
"""Slurm keeps 10,000 jobs at most: so many arrays of a thousand are listed one by one."""
CONF = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={path}/ctld.pid
SlurmdPidFile={path}/d.pid
SlurmctldPort=16817
SlurmdPort=16818
SlurmdSpoolDir={path}/spool
StateSaveLocation={path}/state
SlurmctldLogFile={path}/ctld.log
SlurmdLogFile={path}/d.log
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


class Rival(Protocol):
    """Somebody who starts jobs on one machine too."""

    name: str

    def missing(self) -> str: ...
    def start(self) -> None: ...
    def figures(self) -> dict[str, float]: ...
    def stop(self) -> None: ...


def timed_ms(command: list[str], env: dict[str, str] | None = None, line: bool = False) -> float:
    """How long a command takes, to its first line or to its end."""
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env) as process:
        assert process.stdout is not None
        process.stdout.readline() if line else process.stdout.read()
        took = 1e3 * (time.monotonic() - begun)
        process.stdout.read()
    return took


def middle(times: int, command: list[str], env: dict[str, str] | None = None, line: bool = False) -> float:
    return statistics.median(timed_ms(command, env, line) for _ in range(times))


def idle_percent(pids: list[int], seconds: float) -> float:
    """Processor time of daemons that have nothing to do."""
    before = sum(map(_used, pids))
    time.sleep(seconds)
    return 100 * (sum(map(_used, pids)) - before) / os.sysconf("SC_CLK_TCK") / seconds


def _used(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def dated(length: float, file: Path) -> str:
    """A job that writes down when it began and when it ended: the same line for everybody."""
    return f"{{ date +%s%N; {f'sleep {length}; ' if length else ''}date +%s%N; }} > {file}"


def gaps_ms(files: list[Path]) -> float:
    """From the end of one job to the start of the next, the middle of all."""
    spans = sorted(tuple(map(int, file.read_text().split())) for file in files)
    return statistics.median((after[0] - before[1]) / 1e6 for before, after in pairwise(spans))


def await_files(files: list[Path], patience_s: float = 120.0) -> None:
    limit = time.monotonic() + patience_s
    while not all(file.exists() and len(file.read_text().split()) == 2 for file in files):
        if time.monotonic() > limit:
            raise ValueError("its jobs did not end in time")
        time.sleep(0.05)


class TaskSpooler:
    """Debian's `tsp`: a queue of commands, one after another."""

    name = "task-spooler"

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="bt"))
        self._env = {**os.environ, "TS_SOCKET": str(self._path / "s"), "TMPDIR": str(self._path)}

    def missing(self) -> str:
        return "" if shutil.which("tsp") else "absent (apt install task-spooler)"

    def start(self) -> None:
        subprocess.run(["tsp"], env=self._env, capture_output=True, check=True)

    def figures(self) -> dict[str, float]:
        found = {"run_to_first_line_ms": middle(9, ["tsp", "-nf", "echo", "hello"], self._env, line=True)}
        found |= {figure: self._chain(figure, length) for figure, length in LENGTHS.items()}
        begun = time.monotonic()
        for _ in range(100):
            subprocess.run(["tsp", "-n", "sleep", "60"], env=self._env, capture_output=True, check=True)
        found["submits_per_s"] = 100 / (time.monotonic() - begun)
        found["help_ms"] = middle(5, ["tsp", "-h"], self._env)
        return found

    def _chain(self, figure: str, length: float) -> float:
        files = [self._path / f"{figure}-{at}" for at in range(CHAIN)]
        subprocess.run(["tsp", "sleep", "2"], env=self._env, capture_output=True, check=True)
        for file in files:
            line = dated(length, file)
            subprocess.run(["tsp", "-n", "sh", "-c", line], env=self._env, capture_output=True, check=True)
        await_files(files)
        return gaps_ms(files)

    def stop(self) -> None:
        if shutil.which("tsp"):
            subprocess.run(["tsp", "-K"], env=self._env, capture_output=True, check=False)
        shutil.rmtree(self._path, ignore_errors=True)


class Slurm:
    """One controller and one node of 64 processors on this machine."""

    name = "slurm"

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="bs"))
        self._env = {**os.environ, "SLURM_CONF": str(self._path / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def missing(self) -> str:
        needed = [name for name in ("slurmctld", "slurmd", "srun", "sbatch") if not shutil.which(name)]
        if needed:
            return f"absent ({', '.join(needed)}; apt install slurmctld slurmd slurm-client)"
        return "" if os.getuid() == 0 else "not tried: it must be started by root"

    def start(self) -> None:
        host = socket.gethostname().partition(".")[0]
        for folder in ("spool", "state"):
            (self._path / folder).mkdir()
        (self._path / "slurm.conf").write_text(CONF.format(host=host, path=self._path))
        for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
            log = (self._path / f"{command[0]}.out").open("wb")
            with log:
                self._daemons.append(subprocess.Popen(command, env=self._env, stdout=log, stderr=log))
            time.sleep(1.0)
        limit = time.monotonic() + 30
        while b"idle" not in subprocess.run(["sinfo", "-h"], env=self._env, capture_output=True, check=False).stdout:
            if time.monotonic() > limit:
                raise ValueError("its node never came up")
            time.sleep(0.2)

    def figures(self) -> dict[str, float]:
        found = {"run_to_first_line_ms": middle(9, ["srun", "echo", "hello"], self._env, line=True)}
        found["gang64_skew_ms"] = statistics.median(self._skew() for _ in range(5))
        found |= {figure: self._chain(figure, length) for figure, length in LENGTHS.items()}
        begun = time.monotonic()
        for _ in range(100):
            self._sbatch("sleep 60", "--hold")
        found["submits_per_s"] = 100 / (time.monotonic() - begun)
        found["idle_cpu_percent"] = idle_percent([process.pid for process in self._daemons], 5.0)
        for _ in range(ARRAYS):
            self._sbatch("sleep 60", "--hold", "--array=0-999")
        found["queue_ms"] = middle(5, ["squeue", "-r"], self._env)
        found["help_ms"] = middle(5, ["squeue", "--help"], self._env)
        return found

    def _skew(self) -> float:
        done = subprocess.run(["srun", "-n64", "date", "+%s%N"], env=self._env, capture_output=True, check=True)
        moments = [int(line) for line in done.stdout.split()]
        return (max(moments) - min(moments)) / 1e6

    def _chain(self, figure: str, length: float) -> float:
        files = [self._path / f"{figure}-{at}" for at in range(10)]
        self._sbatch("sleep 2", "-n64")
        for file in files:
            self._sbatch(dated(length, file), "-n64")
        await_files(files)
        return gaps_ms(files)

    def _sbatch(self, line: str, *options: str) -> None:
        command = ["sbatch", "-o", "/dev/null", *options, "--wrap", line]
        subprocess.run(command, env=self._env, capture_output=True, check=True)

    def stop(self) -> None:
        for process in reversed(self._daemons):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)
        shutil.rmtree(self._path, ignore_errors=True)
