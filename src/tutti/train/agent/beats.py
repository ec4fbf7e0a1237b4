"""Heartbeats through shared memory: a member writes, the agent looks, nothing travels."""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

ENTRY = struct.Struct("<QQqQQ")
WORD = struct.Struct("<Q")
ENTRY_BYTES = 64
ENTRIES = 1024
COMPUTE, REDUCE, COMMIT, WAIT = range(4)


@dataclass(frozen=True)
class Beat:
    """The newest signs of life of one member; times are the monotonic clock of this machine, in nanoseconds."""

    beat_ns: int
    phase: int
    step: int
    since_ns: int
    compute_ns: int
    waits_ns: int = 0


class Beats:
    """One page of entries; each has a single writer."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # All of it now: where memory is full, the first touch of a page that is not there ends the process.
        os.posix_fallocate(file, 0, ENTRY_BYTES * ENTRIES)
        self._memory = mmap.mmap(file, ENTRY_BYTES * ENTRIES)
        os.close(file)

    def beat(self, index: int) -> None:
        """I live."""
        self._put(index * ENTRY_BYTES, WORD.pack(time.monotonic_ns()))

    def phase(self, index: int, phase: int, step: int, compute_ns: int = 0) -> None:
        """What I do now, and how long my last computation took."""
        now = time.monotonic_ns()
        self._put(index * ENTRY_BYTES, ENTRY.pack(now, phase, step, now, compute_ns))

    def waits(self, index: int, is_waiting: bool) -> None:
        """I wait for others, or no longer."""
        self._put(index * ENTRY_BYTES + ENTRY.size, WORD.pack(time.monotonic_ns() if is_waiting else 0))

    def read(self, index: int) -> Beat:
        at = index * ENTRY_BYTES
        return Beat(*ENTRY.unpack_from(self._memory, at), *WORD.unpack_from(self._memory, at + ENTRY.size))

    def put(self, index: int, beat: Beat) -> None:
        """What was heard of a member whose own page is on another machine."""
        entry = ENTRY.pack(beat.beat_ns, beat.phase, beat.step, beat.since_ns, beat.compute_ns)
        self._put(index * ENTRY_BYTES, entry + WORD.pack(beat.waits_ns))

    def _put(self, at: int, entry: bytes) -> None:
        """Not packed in place, which clears the place first: the agent looks at any time."""
        self._memory[at : at + len(entry)] = entry

    def clear(self, index: int) -> None:
        self._memory[index * ENTRY_BYTES : (index + 1) * ENTRY_BYTES] = bytes(ENTRY_BYTES)


class Budget:
    """How long silence may last, learned from the silences that were harmless."""

    def __init__(self, least_s: float, most_s: float, factor: float = 4.0, remembered: int = 64) -> None:
        self.least_s = least_s
        self.most_s = most_s
        self.factor = factor
        self._seen: deque[float] = deque(maxlen=remembered)

    def observe(self, silence_s: float) -> None:
        self._seen.append(silence_s)

    @property
    def allowed_s(self) -> float:
        """The whole patience until enough was seen, then a multiple of the silence that nine in ten stayed under."""
        if len(self._seen) < 8:
            return self.most_s
        usual = sorted(self._seen)[len(self._seen) * 9 // 10]
        return min(self.most_s, max(self.least_s, self.factor * usual))


def stragglers(compute_s: dict[str, float], factor: float = 1.5) -> dict[str, float]:
    """Members that compute much longer than the middle one, with how much longer."""
    if len(compute_s) < 3:
        return {}
    middle = sorted(compute_s.values())[len(compute_s) // 2]
    if middle <= 0:
        return {}
    return {name: round(taken / middle, 2) for name, taken in sorted(compute_s.items()) if taken > factor * middle}
