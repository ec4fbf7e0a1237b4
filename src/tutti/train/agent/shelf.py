"""The shelf of a run: every member's slots in one folder, with a registry of their sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.train.agent import slots


class TooSmall(Exception):
    """The machine has not enough memory for the slots; nothing was allocated."""


@dataclass(frozen=True)
class Entry:
    """One member's slots."""

    member: str
    table_capacity: int
    data_capacity: int
    count: int

    @property
    def memory_bytes(self) -> int:
        return self.count * slots.slot_bytes(self.table_capacity, self.data_capacity)


class Shelf:
    """Creates, finds and removes slots. Any process of the run may read it; the agent alone changes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reserve(self, entry: Entry) -> list[Path]:
        """Allocate a member's slots, or refuse with the numbers and leave nothing behind."""
        self.remove(entry.member)
        free = free_bytes(self.folder)
        if entry.memory_bytes > free:
            raise TooSmall(
                f"{entry.count} snapshot slots of {megabytes(entry.data_capacity)} need "
                f"{megabytes(entry.memory_bytes)} of memory "
                f"and {megabytes(free)} are free: protect less, ask for more memory, or start with --slots 0"
            )
        paths = [self._path(entry.member, index) for index in range(entry.count)]
        try:
            for path in paths:
                slots.create(path, entry.table_capacity, entry.data_capacity)
            self._registry(entry.member).write_text(json.dumps(entry.__dict__))
        except OSError:
            self.remove(entry.member)
            raise
        return paths

    def entries(self) -> list[Entry]:
        """Who has slots here, dead or alive."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                found.append(Entry(**json.loads(path.read_text())))
            except (OSError, ValueError, TypeError):
                continue
        return found

    def open(self, entry: Entry, is_filled: bool = False) -> Iterator[slots.Slot]:
        """A member's slots, opened one after another; those that vanish meanwhile are passed over.

        `is_filled` asks for the pages at once, for whoever is going to write them all.
        """
        for index in range(entry.count):
            try:
                yield slots.Slot(self._path(entry.member, index), entry.table_capacity, is_filled)
            except (OSError, ValueError):
                continue

    def remove(self, member: str) -> None:
        """Give a member's memory back."""
        self._registry(member).unlink(missing_ok=True)
        for path in self.folder.glob(f"{member}.slot*"):
            path.unlink(missing_ok=True)

    def retire(self, step: int, kept: list[str]) -> None:
        """Give back what nobody would go back to: shelves not in use whose newest snapshot is older than a complete
        step.
        """
        for entry in self.entries():
            if entry.member not in kept and self.newest(entry) < step:
                self.remove(entry.member)

    def newest(self, entry: Entry) -> int:
        """The newest step that a member's slots hold."""
        return max((label.step for label in self.labels(entry)), default=-1)

    def labels(self, entry: Entry) -> list[slots.Label]:
        """What a member's slots say they hold."""
        found = []
        for slot in self.open(entry):
            label = slot.label()
            slot.close()
            found += [label] if label else []
        return found

    def memory_bytes(self) -> int:
        return sum(entry.memory_bytes for entry in self.entries())

    def _path(self, member: str, index: int) -> Path:
        return self.folder / f"{member}.slot{index}"

    def _registry(self, member: str) -> Path:
        return self.folder / f"{member}.json"


def free_bytes(folder: Path) -> int:
    """Memory that slots may take: the least of what the file system, the machine and the control group have left."""
    disk = os.statvfs(folder)
    limits = [disk.f_bavail * disk.f_frsize, machine_free_bytes(), group_free_bytes()]
    return min(limit for limit in limits if limit is not None)


def machine_free_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def group_free_bytes() -> int | None:
    """Room under the memory limit of our control group, if it has one."""
    try:
        inside = Path("/proc/self/cgroup").read_text().strip().split("::", 1)[1]
        folder = Path("/sys/fs/cgroup") / inside.lstrip("/")
        limit = (folder / "memory.max").read_text().strip()
        return None if limit == "max" else int(limit) - int((folder / "memory.current").read_text())
    except (OSError, IndexError, ValueError):
        return None


def megabytes(size: int) -> str:
    """A size for people: whole mebibytes, and small ones to where they differ."""
    if 0 < size < 10 << 20:
        return f"{size / 2**20:.1f} MiB" if size >= 1 << 20 else f"{size / 2**10:,.0f} KiB"
    return f"{size / 2**20:,.0f} MiB"
