"""A box for tests: a home of its own, made-up devices, a real daemon; nothing is left behind, whatever happens."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tutti.api.client import Client, job_path
from tutti.api.handles import JobHandle
from tutti.api.home import Home
from tutti.errors import TuttiError
from tutti.local.keeper import records, tree

PATIENCE_S = 60.0


def until(found: Callable[[], Any], what: str = "it", patience_s: float = PATIENCE_S) -> Any:
    """What a question answers, as soon as it answers anything; bounded."""
    limit = time.monotonic() + patience_s
    while not (answer := found()):
        if time.monotonic() > limit:
            raise AssertionError(f"{what} did not happen within {patience_s:.0f} s")
        time.sleep(0.01)
    return answer


def put(path: Path, text: str) -> None:
    """Write a file anew that somebody may be reading: they see it as it was or as it is, never empty."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


def line_in(path: Path) -> bool:
    """Whether a whole line has been written to a file."""
    return path.exists() and "\n" in path.read_text()


class Box:
    """A home with a daemon."""

    def __init__(self, devices: str = "4", config: str = "") -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tt"))
        self.home = Home(self.path)
        self.home.make()
        self.devices = devices
        self.system = False
        self.env: dict[str, str] = {"TUTTI_LOCKS": str(self.path / "shared")}
        if config:
            self.home.config.write_text(config)
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.client = Client(self.home)

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """Start a daemon and wait until it answers."""
        process = self.spawn(**env)
        until(lambda: self._is_up(process) or process.poll() is not None, "the daemon's start")
        assert self._is_up(process), self.home.log.read_text()[-2000:]
        return process

    def _is_up(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether this daemon answers. A process that one was starting when it was killed can hold on to its socket
        for a moment, and nobody is behind it.
        """
        with contextlib.suppress(TuttiError, OSError):
            return bool(self.client.get("/v1/status")["pid"] == process.pid)
        return False

    def spawn(self, **env: str) -> subprocess.Popen[bytes]:
        """Start a daemon and do not wait."""
        log = self.home.log.open("ab")
        with log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tutti.local.daemon", "--devices", self.devices),
                    *(["--system"] if self.system else []),
                ],
                env={**os.environ, "TUTTI_HOME": str(self.path), **self.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.daemons.append(process)
        return process

    def kill(self) -> None:
        """Kill the daemon, as a power cut would."""
        self.client.close()
        process = self.daemons[-1]
        process.kill()
        process.wait(timeout=10)

    def submit(self, *command: str, **job: Any) -> JobHandle:
        """Submit to the daemon that runs; with a plain environment, so that every test is alike."""
        env = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
        sent = {"job": {**job, "command": list(command)}, "context": {"cwd": str(self.path), "env": env}}
        row = self.client.post("/v1/jobs", {"jobs": [sent]})["jobs"][0]
        return JobHandle(self.client, row["name"])

    def row(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(job_path(name))["job"]
        return found

    def speeds(self, name: str) -> dict[int, float]:
        """The rates a job has reported, by number of members."""
        return {one["members"]: one["rate"] for one in self.client.get(job_path(name))["speed"] if one["samples"]}

    def state(self, name: str) -> str:
        return str(self.row(name)["state"])

    def becomes(self, name: str, *states: str) -> dict[str, Any]:
        """The job's row, once it is in one of the states."""
        until(lambda: self.state(name) in states, f"{name} {' or '.join(states)}")
        return self.row(name)

    def log(self, name: str, rank: int = 0) -> str:
        return str(self.client.get(job_path(name, "logs"), rank=rank)["text"])

    def keepers(self) -> list[int]:
        """Process numbers of the keepers that live."""
        found = [records.claimed_by(str(folder)) for folder in self.home.runs.iterdir()]
        return [int(who.split("/")[1]) for who in found if records.claim_is_alive(who)]

    def _strays(self) -> list[int]:
        """Daemons of this home that a client has started, because ours was gone."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                home = f"TUTTI_HOME={self.path}".encode()
                if b"tutti.local.daemon" in (folder / "cmdline").read_bytes().split(b"\0"):
                    found += [int(folder.name)] if home in (folder / "environ").read_bytes().split(b"\0") else []
        return found

    def close(self) -> None:
        """End every process that came from this box, by its number, and remove the folder."""
        self.client.close()
        if any(process.poll() not in {None, 0, -9} for process in self.daemons):
            sys.stderr.write(f"a daemon ended by itself:\n{self.home.log.read_text()[-3000:]}\n")
        for process in self.daemons:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=10)
        for pid in self._strays():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for folder in list(self.home.runs.iterdir()) if self.home.runs.exists() else []:
            who = records.claimed_by(str(folder))
            if records.claim_is_alive(who):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(who.split("/")[1]), signal.SIGKILL)
            tree.sweep(folder.name)
        shutil.rmtree(self.path, ignore_errors=True)


@contextlib.contextmanager
def box(devices: str = "4", config: str = "", start: bool = True) -> Iterator[Box]:
    """A box for one test."""
    made = Box(devices, config)
    try:
        if start:
            made.start()
        yield made
    finally:
        made.close()
