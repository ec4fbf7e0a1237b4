"""Runs the launcher on a loop, watches its story, and leaves nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

LOOPS = Path(__file__).parent / "loops"
SOURCE = Path(__file__).parents[2] / "src"
LIMIT_S = 200


class Theatre:
    """Forks launchers from a process that has torch already."""

    process: Any

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "theatre.py")],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert json.loads(self.process.stdout.readline()) == {"ready": True}

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        self.process.stdout.close()


class Run:
    """One launcher and its members."""

    def __init__(self, theatre, folder, home, options=(), loop=None, *, name="r", script="storm.py", env=None, warm=()):
        self.theatre = theatre
        self.home = home
        self.out = folder / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        self.story_path = folder / "story.jsonl"
        self.log = folder / "log.txt"
        self.name = name
        self.code = None
        environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "TUTTI_TRAIN_HOME": str(self.home),
            "OUT": str(self.out),
            "LOOP": json.dumps(loop or {}),
            "OMP_NUM_THREADS": "1",
            **(env or {}),
        }
        words = ["--run-id", name, "--story", self.story_path, *options, "--", "python", LOOPS / script]
        argv = [str(word) for word in words]
        self.pid = theatre.ask(argv=argv, env=environment, log=str(self.log), warm=warm)["pid"]

    def is_running(self):
        return self.code is None and state_of(self.pid) not in ("Z", "")

    def story(self):
        if not self.story_path.exists():
            return []
        whole = self.story_path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def counts(self):
        return Counter(event["event"] for event in self.story())

    def events(self, kind):
        return [event for event in self.story() if event["event"] == kind]

    def wait_for(self, kind, count=1):
        """Until the story has so many events of a kind."""
        until = time.monotonic() + LIMIT_S
        while len(self.events(kind)) < count:
            assert self.is_running(), f"ended early:\n{self.said()}"
            assert time.monotonic() < until, f"no {kind} in {LIMIT_S} s:\n{self.said()}"
            time.sleep(0.01)
        return self.events(kind)[count - 1]

    def status(self):
        path = self.home / self.name / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"step": -1}

    def wait_step(self, step):
        until = time.monotonic() + LIMIT_S
        while self.status()["step"] < step:
            assert self.is_running(), f"ended early:\n{self.said()}"
            assert time.monotonic() < until, f"step {step} not reached in {LIMIT_S} s:\n{self.said()}"
            time.sleep(0.02)

    def pids(self):
        """Members that were started and have not ended."""
        ended = {event["member"] for event in self.story() if event["event"] in ("lost", "ended")}
        return {event["member"]: event["pid"] for event in self.events("started") if event["member"] not in ended}

    def finish(self):
        """The exit code."""
        return self.finish_within(LIMIT_S)

    def finish_within(self, limit_s):
        until = time.monotonic() + limit_s
        while self.is_running():
            assert time.monotonic() < until, f"not finished in {limit_s} s:\n{self.said()}"
            time.sleep(0.01)
        if self.code is None:
            self.code = self.theatre.ask(wait=self.pid)["code"]
        return self.code

    def hurry(self):
        """What was waited for is there: no step takes longer than it needs from now on."""
        (self.out / "hurry").touch()

    def signal(self, number=signal.SIGTERM):
        os.kill(self.pid, number)

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)

    def kill_store(self):
        """End the process that groups meet at."""
        self.kill(self.events("store")[-1]["pid"])

    def results(self):
        return [torch.load(path) for path in sorted(self.out.glob("*.pt"))]

    def said(self):
        return self.log.read_text()[-6000:]

    def close(self):
        """End what is still there, by its id."""
        if self.is_running():
            os.kill(self.pid, signal.SIGKILL)
        if self.code is None:
            self.code = self.theatre.ask(wait=self.pid)["code"]
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.home, ignore_errors=True)

    def leftovers(self):
        """Processes, segments, sockets and files of the run that should not be there any more."""
        return [*self.processes(), *(str(path) for path in self.home.rglob("*"))]

    def processes(self):
        """Every process that came from this run: what is still below its launcher, and what was orphaned by it."""
        return [pid for pid in descendants(self.theatre.process.pid) if pid != self.pid or self.is_running()]


def descendants(pid):
    """Processes below one, without those that have ended; the theatre adopts orphans, so none is missed."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = stat_of(int(entry.name))
            if words and words[0] not in ("Z", "X"):
                parents[int(entry.name)] = int(words[1])
    found = [child for child, parent in parents.items() if parent == pid]
    for child in found:
        found += [grandchild for grandchild, parent in parents.items() if parent == child]
    return found


def stat_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def state_of(pid):
    return (stat_of(pid) or [""])[0]
