"""The tiers behind memory: when a snapshot goes on to disk, and by whom."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tutti.train.agent.folder import Folder
from tutti.train.agent.story import Story
from tutti.train.hands import with_path

LIMIT_S = 600.0
PAUSE_S = 0.02


class Tier:
    """One folder that snapshots are persisted to, every so many seconds, by a process of its own."""

    def __init__(self, folder: Folder, into: Path, every_s: float, story: Story, env: dict[str, str]) -> None:
        self.into = into
        self.step = -1
        self.complaint = ""
        """Why the last snapshot could not be written; empty when it was."""
        self._every_s = every_s
        self._story = story
        self._words = [sys.executable, "-m", "tutti.train.persist", str(folder.path), str(into)]
        self._env = with_path(env)
        self._process: subprocess.Popen[str] | None = None
        self._next = time.monotonic() + every_s

    def turn(self, newest: int) -> None:
        """Start when it is time and there is something new; note the outcome when it is there."""
        if self._process and self._process.poll() is not None:
            self._finish()
        if self._process is None and newest > self.step and time.monotonic() >= self._next:
            self._start()

    def hurry(self) -> None:
        """Do not wait for the next time: someone asked for it."""
        self._next = 0.0

    def persist_now(self, newest: int, is_over: Callable[[], bool]) -> bool:
        """Persist and wait, unless it is over before; False when the newest step could not be written."""
        # It may be busy already, with that step or with an older one.
        if self._process and self._await(is_over) and self.step >= newest:
            return True
        self._start()
        return self._await(is_over)

    def _await(self, is_over: Callable[[], bool]) -> bool:
        assert self._process is not None
        limit = time.monotonic() + LIMIT_S
        while self._process.poll() is None and time.monotonic() < limit and not is_over():
            time.sleep(PAUSE_S)
        self._process.kill()
        return self._finish()

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            self._words, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _finish(self) -> bool:
        assert self._process is not None
        said, complained = self._process.communicate()
        code, self._process = self._process.returncode, None
        self._next = time.monotonic() + self._every_s
        self.complaint = (complained.strip().splitlines() or ["it was ended"])[-1] if code else ""
        if code:
            text = f"a snapshot could not be written to {self.into}: {self.complaint}; the one in memory stays"
            self._story.tell("unpersisted", text, why=self.complaint)
            return False
        self.step = json.loads(said)["step"]
        self._story.tell("persisted", f"step {self.step} is in {self.into}", step=self.step)
        return True
