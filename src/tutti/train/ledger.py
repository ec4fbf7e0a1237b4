"""The ledger: which samples were committed, as ranges, so that exactly-once can be checked and not only claimed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from tutti.train.errors import DataChanged


@dataclass
class Ledger:
    """Committed positions of each epoch, as sorted ranges that do not touch."""

    epochs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, epoch: int, start: int, stop: int) -> None:
        """Note a committed range; one that was committed before is refused."""
        if stop <= start:
            return
        ranges = self.epochs.setdefault(epoch, [])
        at = bisect_left(ranges, (start, stop))
        before = ranges[at - 1] if at > 0 else (-1, -1)
        after = ranges[at] if at < len(ranges) else (stop + 1, stop + 1)
        if before[1] > start or after[0] < stop:
            raise DataChanged(
                f"samples {start} to {stop} of epoch {epoch} were committed twice: the run would not be exactly-once"
            )
        low = at - 1 if before[1] == start else at
        high = at + 1 if after[0] == stop else at
        joined = (before[0] if low < at else start, after[1] if high > at else stop)
        ranges[low:high] = [joined]

    def missing(self, epoch: int, length: int) -> list[tuple[int, int]]:
        """The ranges of an epoch that were not committed."""
        edges = [0, *(edge for pair in self.epochs.get(epoch, []) for edge in pair), length]
        gaps = zip(edges[::2], edges[1::2], strict=True)
        return [(start, stop) for start, stop in gaps if start < stop]

    def is_whole(self, epoch: int, length: int) -> bool:
        """Whether every sample of an epoch was committed exactly once."""
        return not self.missing(epoch, length)

    def count(self, epoch: int) -> int:
        return sum(stop - start for start, stop in self.epochs.get(epoch, []))

    def to_record(self) -> dict[str, list[list[int]]]:
        return {str(epoch): [list(pair) for pair in ranges] for epoch, ranges in self.epochs.items()}


def from_record(record: dict[str, list[list[int]]]) -> Ledger:
    return Ledger({int(epoch): [(start, stop) for start, stop in ranges] for epoch, ranges in record.items()})
