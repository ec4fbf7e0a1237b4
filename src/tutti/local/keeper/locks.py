"""Device claims that no daemon owns: one lock file per device, held as long as the keeper lives."""

from __future__ import annotations

import contextlib
import fcntl
import os


class Busy(Exception):
    """Somebody else holds a device."""


class Locks:
    """The devices this keeper holds. The kernel lets go of them when the process ends, however it ends."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._open: dict[str, int] = {}
        """Files that will be locked later."""

    def look_at(self, paths: list[str]) -> None:
        """Have the files at hand; nothing is held by that."""
        for path in paths:
            with contextlib.suppress(OSError):
                self._open[path] = _opened(path)

    def take(self, paths: list[str]) -> None:
        """Hold all of these or none."""
        taken: list[str] = []
        for path in paths:
            if path in self._held:
                continue
            try:
                self._held[path] = _locked(path, self._open.pop(path, -1))
            except OSError as problem:
                self.give(taken)
                raise Busy(f"{os.path.basename(path)} is held by {holder(path)} ({problem.strerror})") from problem
            taken.append(path)

    def descriptors(self, paths: list[str]) -> list[int]:
        """The files of devices that are held; none where one of them is not."""
        found = [self._held.get(path, -1) for path in paths]
        return found if -1 not in found else []

    def inherit(self, paths: list[str], descriptors: list[int]) -> None:
        """Hold what somebody else held, without a moment in which nobody did."""
        for path, descriptor in zip(paths, descriptors, strict=True):
            self._held[path] = descriptor
            os.pwrite(descriptor, _name(), 0)

    def give(self, paths: list[str]) -> None:
        """Let go of these."""
        for path in paths:
            descriptor = self._held.pop(path, -1)
            if descriptor >= 0:
                os.close(descriptor)

    def give_all(self) -> None:
        self.give(list(self._held))


def _locked(path: str, descriptor: int) -> int:
    descriptor = _opened(path) if descriptor < 0 else descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(descriptor, _name(), 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _name() -> bytes:
    return f"process {os.getpid()} of user {os.getuid()}\n".encode()


def _opened(path: str) -> int:
    # In a folder that all users write to, some kernels let nobody create what is already there: open it first.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    before = os.umask(0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    finally:
        os.umask(before)


def holder(path: str) -> str:
    """Who wrote its name in a lock file last."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip() or "somebody"
    except OSError:
        return "somebody"


def is_held(path: str) -> bool:
    """Whether anybody holds the device now."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
