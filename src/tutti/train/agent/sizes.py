"""Which sizes are legal, and why one is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class SizeRule:
    """The sizes a job may have: between least and most, whole units, or one of a list."""

    least: int
    most: int
    unit: int = 1
    listed: tuple[int, ...] = ()
    batch: int = 0

    def legal(self) -> tuple[int, ...]:
        return tuple(size for size in range(self.least, self.most + 1) if not self.why_not(size))

    @property
    def fewest(self) -> int:
        return min(self.legal(), default=self.least)

    def why_not(self, size: int) -> str:
        """Why a size is not legal; empty when it is."""
        if size < self.least or size > self.most:
            return f"{size} is outside {self.least} to {self.most}"
        if self.listed and size not in self.listed:
            return f"{size} is not one of {', '.join(map(str, self.listed))}"
        if size % self.unit:
            return f"{size} is not a multiple of {self.unit}"
        if self.batch and size > self.batch:
            return f"{size} members cannot share a batch of {self.batch} samples"
        return ""

    def at_most(self, size: int) -> int | None:
        """The largest legal size that is not above `size`."""
        return max((legal for legal in self.legal() if legal <= size), default=None)

    def nearest(self, size: int) -> tuple[int, ...]:
        """The legal sizes just below and just above."""
        legal = self.legal()
        return tuple(sorted({*_last(x for x in legal if x < size), *_first(x for x in legal if x > size)}))


def _first(sizes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sizes)[:1]


def _last(sizes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sizes)[-1:]
