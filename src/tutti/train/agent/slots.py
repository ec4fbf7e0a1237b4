"""Snapshot memory: slots that outlive the process that filled them.

A slot is a file in memory with a header, a table that says what is in it, and the bytes. It is sealed last, so a slot
that is not sealed is not a snapshot; and it is locked while it is read or written, so a slot being read is never
overwritten. The locks are the kernel's and die with their holder.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

MAGIC = b"TUTTIS03"
HEADER = struct.Struct("<8sIIqqQQ32sQQ")
HAS_DIGEST_AT = struct.calcsize("<8sI")
DIGEST_AT = struct.calcsize("<8sIIqqQQ32s")
PAGE = 4096
WRITING, SEALED = 1, 2


class Busy(Exception):
    """The slot is being read or written by somebody else."""


class NotSealed(Exception):
    """The slot holds no whole snapshot."""


@dataclass(frozen=True)
class Label:
    """What a sealed slot says about itself."""

    generation: int
    step: int
    layout: str
    data_bytes: int
    table_bytes: int
    digest: int = 0
    is_digested: bool = False


_mapped: WeakValueDictionary[tuple[int, int], mmap.mmap] = WeakValueDictionary()


def mapped(file: int, size: int, is_filled: bool) -> mmap.mmap:
    """A file in memory. One that this process has mapped already is not mapped again: every page of it would have to
    be asked for once more, which takes as long as reading it.
    """
    found = os.fstat(file)
    key = (found.st_dev, found.st_ino)
    memory = _mapped.get(key)
    if memory is None:
        populate = getattr(mmap, "MAP_POPULATE", 0) if is_filled else 0
        memory = _mapped[key] = mmap.mmap(file, size, flags=mmap.MAP_SHARED | populate)
    return memory


class Slot:
    """One slot file, opened by one process."""

    def __init__(self, path: Path, table_capacity: int, is_filled: bool = False) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size
        self._data_at = PAGE + round_up(table_capacity)
        self.memory = mapped(self._file, self._size, is_filled)

    @property
    def capacity(self) -> int:
        return self._size - self._data_at

    @property
    def data(self) -> memoryview:
        return memoryview(self.memory)[self._data_at :]

    def label(self) -> Label | None:
        """What the slot holds, or None when it is not sealed."""
        magic, state, has_digest, generation, step, table, data, layout, digest, _ = HEADER.unpack_from(self.memory)
        if magic != MAGIC or state != SEALED:
            return None
        text = layout.rstrip(b"\0").decode()
        return Label(generation, step, text, data, table, digest, bool(has_digest))

    def table(self) -> list[bytes]:
        """The lines of a sealed slot's table."""
        label = self.label()
        if label is None:
            raise NotSealed(f"{self.path.name} holds no whole snapshot")
        return self.memory[PAGE : PAGE + label.table_bytes].split(b"\n")

    @contextmanager
    def writing(self, label: Label, table: bytes) -> Iterator[memoryview]:
        """The bytes to fill; sealed when the block ends well, left unsealed when it does not."""
        self._check_room(label, table)
        with self._locked(fcntl.LOCK_EX):
            self._write_header(label, WRITING)
            self.memory[PAGE : PAGE + len(table)] = table
            yield self.data
            self._write_header(label, SEALED)

    @contextmanager
    def reading(self) -> Iterator[Label]:
        """Pin a sealed slot: nobody overwrites it until the block ends."""
        with self._locked(fcntl.LOCK_SH):
            label = self.label()
            if label is None:
                raise NotSealed(f"{self.path.name} holds no whole snapshot")
            yield label

    def digest_unless_written(self) -> bool:
        """Write down the checksum of a sealed slot that has none. It is not pinned meanwhile, so that nobody who wants
        to write it waits; what was written in the meantime makes the checksum void.
        """
        before = self.label()
        if before is None or before.is_digested:
            return False
        digest = zlib.crc32(self.data[: before.data_bytes])
        try:
            with self._locked(fcntl.LOCK_SH):
                if self.label() != before:
                    return True
                self._note_digest(digest)
        except Busy:
            pass
        return True

    def is_intact(self, label: Label) -> bool:
        """Whether the bytes still are what their checksum says; true when none was taken yet."""
        return not label.is_digested or zlib.crc32(self.data[: label.data_bytes]) == label.digest

    def close(self) -> None:
        """Close the file; the mapping goes when the last view of it does."""
        os.close(self._file)

    def _check_room(self, label: Label, table: bytes) -> None:
        if label.data_bytes > self.capacity or len(table) > self._data_at - PAGE:
            raise ValueError(
                f"a snapshot of {label.data_bytes} bytes and a table of {len(table)} do not fit a slot of "
                f"{self.capacity} and {self._data_at - PAGE}: the state grew after protect()"
            )

    def _write_header(self, label: Label, state: int) -> None:
        # Not packed in place, which clears the place first: others look at any time.
        self.memory[: HEADER.size] = HEADER.pack(
            MAGIC, state, int(label.is_digested), label.generation, label.step,
            label.table_bytes, label.data_bytes, label.layout.encode(), label.digest, 0,
        )  # fmt: skip

    def _note_digest(self, digest: int) -> None:
        """Nothing else is touched, because whoever reads the slot meanwhile must find it sealed: the number, then that
        it is there.
        """
        self.memory[DIGEST_AT : DIGEST_AT + 8] = struct.pack("<Q", digest)
        self.memory[HAS_DIGEST_AT : HAS_DIGEST_AT + 4] = struct.pack("<I", 1)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        # A lock belongs to an open file, not to a process: each use opens its own, or two uses in one process would
        # share it. Not by its name: that may be gone by now, or mean another slot.
        holder = os.open(f"/proc/self/fd/{self._file}", os.O_RDWR | os.O_CLOEXEC)
        if not _lock_soon(holder, how):
            os.close(holder)
            raise Busy(f"{self.path.name} is in use")
        try:
            yield
        finally:
            os.close(holder)


def _lock_soon(holder: int, how: int) -> bool:
    """Lock; a few tries, because a checksum that is being noted holds the lock for an instant."""
    for _ in range(5):
        try:
            fcntl.flock(holder, how | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.0005)
        else:
            return True
    return False


def create(path: Path, table_capacity: int, data_capacity: int) -> None:
    """Make a slot file with its memory really reserved: a full machine fails here, not in the middle of a snapshot."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, PAGE + round_up(table_capacity) + round_up(max(1, data_capacity)))
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(file)


def slot_bytes(table_capacity: int, data_capacity: int) -> int:
    """Memory that one slot takes."""
    return PAGE + round_up(table_capacity) + round_up(max(1, data_capacity))


def round_up(size: int) -> int:
    return -(-size // PAGE) * PAGE
