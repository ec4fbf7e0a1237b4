"""The journal of generations: each is written once, after the one it expects, before anyone hears of it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from tutti.train.agent.generation import NOBODY, Generation, from_record


class Stale(Exception):
    """Somebody else announced a generation first."""


class Held(Exception):
    """Another live process writes this journal."""


class Unwritten(Exception):
    """The generation is current, and a crash would forget it: the disk is full."""


class Journal:
    """Compare-and-set over an append-only file. One writer at a time, held by a lock that dies with the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock()
        self.current = self._replay()

    def advance(self, expected: int, following: Generation) -> Generation:
        """Make `following` the current generation if the current one is still number `expected`."""
        if self.current.number != expected:
            raise Stale(f"generation {self.current.number} is current, not {expected}: nothing was announced")
        if following.number <= expected:
            raise Stale(f"generation {following.number} cannot follow {expected}: numbers only grow")
        self.current = following
        self._write(json.dumps(following.to_record()).encode() + b"\n")
        return following

    def _write(self, line: bytes) -> None:
        before = os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            is_whole = os.write(self._file, line) == len(line)
            os.fsync(self._file)
        except OSError as error:
            self._cut(before)
            raise Unwritten(error.strerror) from error
        if not is_whole:
            self._cut(before)
            raise Unwritten("there is no room for it")

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file, size)
        os.lseek(self._file, size, os.SEEK_SET)

    def close(self) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise Held(f"{self.path} is being written by another live agent: this run is already running") from error

    def _replay(self) -> Generation:
        """The last whole line; a line torn by a crash was never announced and is cut off."""
        with open(self.path, "rb") as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1
        self._cut(whole)
        lines = content[:whole].splitlines()
        return from_record(json.loads(lines[-1])) if lines else NOBODY
