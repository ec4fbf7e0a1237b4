"""One minute with Tutti on eight made-up devices: real processes, no GPU and no torch needed.

Every line that begins with `$` is a command you could type yourself.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutti.api.client import Client, job_path
from tutti.api.home import Home
from tutti.errors import TuttiError
from tutti.views.gantt import letters

HERE = Path(__file__).resolve().parent
CONFIG = """
[policy.grow]
cool_down = "1s"

[policy.reclaim]
min_run = "0s"
grace = "3s"
"""
FRAME_S = 0.8


class Stage:
    """A home of its own, and a narrator."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tutti-demo-"))
        self.home = Home(self.path)
        self.home.make()
        self.home.config.write_text(CONFIG)
        os.environ.update(TUTTI_HOME=str(self.path), TUTTI_LOCKS=str(self.path / "shared"))
        os.environ.pop("TUTTI_DEVICES", None)
        self.client = Client(self.home)
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)

    def tutti(self, line: str, shown: bool = True) -> str:
        """Run a command as a person would, and show it."""
        if shown:
            print(f"  $ tutti {line}", flush=True)
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "tutti", *shlex.split(line)], capture_output=True, text=True, check=False
        )
        text = done.stdout + done.stderr
        if shown and text.strip():
            print("\n".join(f"    {row}" for row in text.rstrip().splitlines()), flush=True)
        return text.strip()

    def row(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(job_path(name))["job"]
        return found

    def frames(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """The eight devices, a line every moment, until something has happened or the time is over."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and not until():
            self.frame()
            time.sleep(FRAME_S)

    def frame(self) -> None:
        cells = self.client.get("/v1/nodes")["nodes"][0]["devices"]
        jobs = self.client.get("/v1/jobs")["jobs"]
        known = letters([job["name"] for job in sorted(jobs, key=lambda job: job["id"])])
        drawn = " ".join(known.get(cell["job"], "·") for cell in cells)
        waits = [f"{job['name']} waits: {job['reason']}" for job in jobs if job["state"] == "waiting" and job["reason"]]
        print(f"    {time.monotonic() - self.began:4.0f} s  [ {drawn} ]  {'; '.join(waits)}", flush=True)

    def wait(self, *names: str) -> None:
        for name in names:
            self.frames(15, lambda name=name: bool(self.row(name).get("ended_us")))  # type: ignore[misc]  # a default binds the name

    def close(self) -> None:
        """End everything that is left and remove the folder."""
        try:
            for job in self.client.get("/v1/jobs")["jobs"]:
                self.client.post(job_path(job["name"], "cancel"), {"grace_s": 0.5})
            self.client.post("/v1/stop")
        except TuttiError:
            pass
        time.sleep(0.5)
        shutil.rmtree(self.path, ignore_errors=True)


def deadlock(stage: Stage) -> None:
    stage.say("1. Two gangs of six want eight devices. Pod by pod each would hold four and wait for ever.")
    stage.tutti("submit --devices 8 --name alpha --workers 6 --time 4s -- sleep 3")
    stage.tutti("submit --name beta --workers 6 --time 4s -- sleep 3")
    stage.wait("alpha", "beta")
    print("    both have run, one after the other, each of them whole", flush=True)


def promise(stage: Stage) -> None:
    stage.say("2. A wide gang is promised a start; short jobs run in the gap before it, a long one must not.")
    stage.tutti("submit --name base --workers 6 --time 8s -- sleep 7")
    stage.tutti("submit --name wide --workers 8 --time 3s -- sleep 2")
    stage.tutti("submit --name long --workers 2 --time 1h -- sleep 1")
    stage.tutti("submit --name quick --workers 2 --time 3s -- sleep 2")
    time.sleep(0.3)
    promised = int(stage.row("wide")["eta_us"])
    stage.tutti("why wide")
    stage.wait("base", "wide")
    started = int(stage.row("wide")["started_us"])
    said = (promised - started) / 1e6
    print(f"    wide started {abs(said):.1f} s {'before' if said >= 0 else 'after'} what it was promised", flush=True)
    stage.wait("long")


def elastic(stage: Stage) -> None:
    stage.say("3. An elastic job takes what is free, and gives it back when somebody needs it.")
    script = HERE / "elastic_job.py"
    stage.tutti(f"submit --name elastic --workers 2:8 -- {shlex.quote(sys.executable)} {shlex.quote(str(script))}")
    stage.frames(5, lambda: stage.row("elastic")["elastic"] == "live")
    stage.tutti("submit --name guest --workers 4 --time 3s -- sleep 2")
    stage.frames(12, lambda: bool(stage.row("guest").get("ended_us")))
    stage.frames(8, lambda: stage.row("elastic")["members"] == 8)
    stage.tutti("logs elastic --lines 3")
    stage.tutti("cancel elastic --grace 1", shown=False)
    stage.frames(4, lambda: bool(stage.row("elastic").get("ended_us")))


def loss(stage: Stage) -> None:
    stage.say("4. A rank is killed. Its gang asked for repair: the rank gets a new process, the others stay.")
    stage.tutti("submit --name steady --workers 4 --on-loss repair -- sleep 600")
    stage.frames(5, lambda: stage.row("steady")["state"] == "running")
    ranks = stage.client.get(job_path("steady"))["ranks"]
    victim = next(one["pid"] for one in ranks if one["rank"] == 2)
    print(f"  $ kill -9 {victim}        # rank 2", flush=True)
    os.kill(victim, signal.SIGKILL)
    stage.frames(6, lambda: replaced(stage, victim))
    stage.tutti("story steady")


def replaced(stage: Stage, victim: int) -> bool:
    ranks = stage.client.get(job_path("steady"))["ranks"]
    running = stage.row("steady")["state"] == "running"
    return running and all(one["pid"] != victim for one in ranks)


def survival(stage: Stage) -> None:
    stage.say("5. The daemon is killed. The gang does not notice, and the next command finds it again.")
    before = sorted(one["pid"] for one in stage.client.get(job_path("steady"))["ranks"] if one["code"] is None)
    daemon = int(stage.client.get("/v1/status")["pid"])
    print(f"  $ kill -9 {daemon}        # the daemon", flush=True)
    os.kill(daemon, signal.SIGKILL)
    stage.client.close()
    time.sleep(0.3)
    stage.tutti("submit --devices 8 --name after --workers 2 --time 1m -- true")
    stage.tutti("wait after", shown=False)
    after = sorted(one["pid"] for one in stage.client.get(job_path("steady"))["ranks"] if one["code"] is None)
    same = "the same processes as before" if before == after else f"OTHER processes: {before} became {after}"
    print(f"    steady still runs: {same}", flush=True)
    stage.tutti("cancel steady --grace 1 --wait")


def summary(stage: Stage) -> None:
    stage.say("What happened, and where every device-second went:")
    stage.tutti("queue --all --columns name,state,size,waited,time,what")
    stage.tutti("report")
    page = stage.tutti("serve", shown=False)
    if page.startswith("http"):
        print(f"\n  the page is at {page} while this runs", flush=True)
        if sys.stdin.isatty():
            input("  press Enter to end ")


def main() -> int:
    stage = Stage()
    try:
        for act in (deadlock, promise, elastic, loss, survival, summary):
            act(stage)
    except KeyboardInterrupt:
        return 130
    finally:
        stage.close()
    print(f"\nthat took {time.monotonic() - stage.began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
