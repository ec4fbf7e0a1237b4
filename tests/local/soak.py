"""Random submits, cancels, kills, drains and daemon kills for a while; then everything must be in order.

`python -m tests.local.soak SECONDS [SEED]` runs for as long as you like; the test suite runs it for a few seconds.
In the second half the daemon is left alone, so that one process can be seen to need no more and more memory or files.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.local.stage import Box, box, until
from tutti.api.client import job_path
from tutti.errors import NoDaemon, TuttiError
from tutti.local.keeper.locks import is_held

CONFIG = """
[policy.grow]
cool_down = "0s"
[policy.reclaim]
min_run = "0s"
grace = "1s"
[policy.repair]
back_off = "1s"
"""
MOST_WAITING = 50
SAMPLE_S = 10.0
MORE_FILES, MORE_KB = 8, 8_000
"""What a daemon may need more after hundreds of jobs: running gangs come and go, and caches fill."""
LOSSES = ("fail", "restart", "repair", "shrink")


class Soak:
    """One run: what was acknowledged, and what was done to it."""

    def __init__(self, made: Box, chance: random.Random) -> None:
        self.made, self.chance = made, chance
        self.names: list[str] = []
        self.parts: dict[str, tuple[int, int]] = {}
        """How many parts each job has, and what it ends with unless somebody disturbs it."""
        self.disturbed: set[str] = set()
        self.number = 0
        self.kills = 0
        self.samples: list[tuple[int, int]] = []
        """Open files and resident kilobytes of the daemon that was left alone, now and then."""

    def step(self, spares_daemon: bool) -> None:
        """One thing, drawn by chance."""
        deeds = [self.submit] * 8 + [self.cancel] * 2 + [self.kill_rank] * 2
        deeds += [self.drain, self.undrain, self.kill_keeper]
        deeds += [] if spares_daemon else [self.kill_daemon]
        with contextlib.suppress(TuttiError, ConnectionError):
            self.chance.choice(deeds)()

    def submit(self) -> None:
        if self.made.client.get("/v1/status")["waiting"] > MOST_WAITING:
            return
        self.number += 1
        name = f"j{self.number}"
        length = self.chance.choice([0, 0.1, 0.3, 1])
        job: dict[str, Any] = {"name": name, "workers": self.chance.randint(1, 4), "grace": "0s", "time": "1m"}
        job["on_loss"] = self.chance.choice(LOSSES)
        if self.chance.random() < 0.15:
            job |= {"array": self.chance.randint(1, 6), "workers": 1}
        code = self.chance.choice([0, 0, 0, 3])
        self.parts[name] = job.get("array", job["workers"]), code
        line = f"echo $RANK.$TUTTI_TASK >> ran-{name}; sleep {length}; exit {code}"
        self.made.submit("sh", "-c", line, **job)
        self.names.append(name)

    def cancel(self) -> None:
        if self.names:
            name = self.chance.choice(self.names)
            self.disturbed.add(name)
            self.made.client.post(job_path(name, "cancel"), {"grace_s": 0})

    def kill_rank(self) -> None:
        running = [job["name"] for job in self.made.client.get("/v1/jobs")["jobs"] if job["state"] == "running"]
        if running:
            name = self.chance.choice(running)
            self.disturbed.add(name)
            ranks = self.made.client.get(job_path(name))["ranks"]
            self.kill([rank["pid"] for rank in ranks if rank["pid"] and rank["code"] is None])

    def kill_keeper(self) -> None:
        keepers = self.made.keepers()
        # Whose it is does not matter; that of a job which runs may be any of theirs.
        self.disturbed.update(job["name"] for job in self.made.client.get("/v1/jobs")["jobs"])
        self.kill(keepers)

    def kill(self, pids: list[int]) -> None:
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGKILL)

    def drain(self) -> None:
        self.made.client.post(f"/v1/devices/{self.chance.randrange(6)}/drain", {})

    def undrain(self) -> None:
        for device in range(6):
            self.made.client.post(f"/v1/devices/{device}/undrain", {})

    def kill_daemon(self) -> None:
        self.kills += 1
        self.made.kill()
        self.made.start()

    def finish(self) -> None:
        """Let everything end, then look at what is left."""
        self.undrain()
        until(lambda: not self.made.client.get("/v1/jobs")["jobs"], "the end of every job", 300)
        known = {job["name"]: job for job in self.past()}
        assert set(self.names) <= known.keys(), set(self.names) - known.keys()
        for name in set(self.names) - self.disturbed:
            self.ended_well(known[name])
        assert not [
            line for line in self.made.home.log.read_text().splitlines() if line.startswith(("violation", "crashed"))
        ]
        _, failed, how = self.made.home.log.read_text().partition("Traceback")
        assert not failed, how[:3000]
        until(lambda: not self.made.keepers(), "the end of every keeper")
        assert not [path for path in self.made.home.locks.iterdir() if is_held(str(path))]
        report = self.made.client.get("/v1/report")
        assert report["closes"], report

    def ended_well(self, job: dict[str, Any]) -> None:
        """A job that nobody disturbed ran once, and its code is known; where one rank fails, others may not begin."""
        ran = (self.made.path / f"ran-{job['name']}").read_text().split()
        parts, code = self.parts[job["name"]]
        assert len(ran) == len(set(ran)) <= parts, (job, ran)
        assert code or len(ran) == parts, (job, ran)
        assert job["code"] == code, job

    def past(self) -> Iterator[dict[str, Any]]:
        """All jobs that have ended, page by page."""
        offset = 0
        while True:
            page = self.made.client.get("/v1/jobs", which="ended", limit=500, offset=offset)
            yield from page["jobs"]
            offset = page["next"]
            if not offset:
                return

    def is_flat(self) -> bool:
        """Whether the last third of the looks shows no more files and hardly more memory than the middle one."""
        third = len(self.samples) // 3
        middle, last = self.samples[third : 2 * third], self.samples[2 * third :]
        if third < 3:
            return True
        files = max(one[0] for one in last) - max(one[0] for one in middle)
        grown = statistics.median(one[1] for one in last) - statistics.median(one[1] for one in middle)
        return files <= MORE_FILES and grown <= MORE_KB

    def files_and_memory(self) -> tuple[int, int]:
        """Open files beside one for each gang, and resident kilobytes of the daemon."""
        about = self.made.client.get("/v1/status")
        pid = about["pid"]
        status = Path(f"/proc/{pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()) - about["running"], resident


def soak(seconds: float, seed: int) -> Soak:
    """Run, check, and give back what happened."""
    chance = random.Random(seed)
    with box("6", CONFIG) as made:
        run = Soak(made, chance)
        begun = time.monotonic()
        try:
            while (spent := time.monotonic() - begun) < seconds:
                run.step(spares_daemon := spent > seconds / 2)
                if spares_daemon and spent > seconds / 2 + len(run.samples) * SAMPLE_S:
                    run.samples.append(run.files_and_memory())
                time.sleep(chance.choice([0, 0.01, 0.05, 0.2]))
            run.finish()
            run.samples.append(run.files_and_memory())
            assert run.samples[-1][0] < 60, run.samples
            assert run.samples[-1][1] < 300_000, run.samples
            assert run.is_flat(), run.samples
        except (AssertionError, NoDaemon):
            sys.stderr.write(f"seed {seed}, {run.number} jobs\n{made.home.log.read_text()[-6000:]}\n")
            with contextlib.suppress(TuttiError):
                for job in made.client.get("/v1/jobs")["jobs"]:
                    story = made.client.get(job_path(job["name"], "story"))["lines"]
                    sys.stderr.write("\n".join([str(job), *story]) + "\n")
            raise
    return run


if __name__ == "__main__":
    started = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    done = soak(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, started)
    print(f"seed {started}: {done.number} jobs, {done.kills} daemons killed, nothing out of order")
    looks = [
        {"files": files, "resident_kb": resident} for files, resident in done.samples[:: len(done.samples) // 10 + 1]
    ]
    print(json.dumps({"seed": started, "jobs": done.number, "daemons_killed": done.kills, "looks": looks}))
