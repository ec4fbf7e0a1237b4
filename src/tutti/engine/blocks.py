"""Time slots in blocks of neighbours, so that the least over many slots is read off few rows.

A time slot lives in a physical row that stays where it is; its place in time is an entry in `rows`. Neighbouring slots
share a block of physical rows, and whoever keeps the minimum of each block reads the minimum of a long stretch from one
row for each block that lies inside it, and the few slots at its ends.
"""

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Physical rows of one block."""
FILLED = 24
"""How many of them are in use at first; a block without spare rows is split when a slot is inserted."""
Rows = NDArray[np.intp]


class Blocks:
    """Which physical row holds each time slot, and which slots share a block."""

    def __init__(self, slots: int) -> None:
        count = -(-slots // FILLED)
        every = np.arange(slots)
        self._rows: Rows = np.empty(slots + max(8, slots // 2), np.intp)
        self._rows[:slots] = every // FILLED * BLOCK + every % FILLED
        self.rows: Rows = self._rows[:slots]
        """The physical row of each slot."""
        self.order: Rows = np.arange(count)
        """The blocks in the order of time."""
        self.begin: Rows = np.append(np.arange(count) * FILLED, slots)
        """The first slot of each of them, and where the last one ends."""
        filled = [min(slots - begin, FILLED) for begin in range(0, slots, FILLED)]
        self._spare = [
            list(range((block + 1) * BLOCK - 1, block * BLOCK + used - 1, -1)) for block, used in enumerate(filled)
        ]
        self.stale: set[int] = set(range(count))
        """Blocks whose minimum has to be found anew."""

    @property
    def capacity(self) -> int:
        """Physical rows there have to be."""
        return len(self._spare) * BLOCK

    def inside(self, first: int, last: int) -> tuple[Rows, Rows]:
        """The blocks that lie whole between two slots, and the rows of the slots that belong to none of these."""
        begin, end = self.begin.searchsorted(first), self.begin.searchsorted(last, "right") - 1
        if begin >= end:
            return self.order[:0], self.rows[first:last]
        rest = np.concatenate((self.rows[first : self.begin[begin]], self.rows[self.begin[end] : last]))
        return self.order[begin:end], rest

    def cut(self, first: int, last: int) -> list[int]:
        """The blocks (two at most) of which only a part lies between two slots."""
        left, right = self._at(first), self._at(last - 1)
        cut = [left] if self.begin[left] < first or self.begin[left + 1] > last else []
        if right > left and self.begin[right + 1] > last:
            cut.append(right)
        return [int(self.order[at]) for at in cut]

    def of(self, block: int) -> Rows:
        """The physical rows in use of one block, in the order of time."""
        at = int((self.order == block).argmax())
        return self.rows[self.begin[at] : self.begin[at + 1]]

    def crowded(self, slot: int) -> bool:
        """Whether the block of a slot has to be split before another one fits."""
        return not self._spare[self.order[self._at(slot)]]

    def split(self, slot: int) -> tuple[Rows, Rows]:
        """Give the later half of a slot's block a block of its own; says which rows have to be copied where."""
        at, new = self._at(slot), len(self._spare)
        begin, end = int(self.begin[at]), int(self.begin[at + 1])
        middle = (begin + end) // 2
        old = self.rows[middle:end].copy()
        self.rows[middle:end] = np.arange(end - middle) + new * BLOCK
        self._spare[self.order[at]] = old.tolist()
        self._spare.append(list(range((new + 1) * BLOCK - 1, new * BLOCK + len(old) - 1, -1)))
        self.stale |= {int(self.order[at]), new}
        self.order = np.concatenate((self.order[: at + 1], [new], self.order[at + 1 :]))
        self.begin = np.concatenate((self.begin[: at + 1], [middle], self.begin[at + 1 :]))
        return old, self.rows[middle:end]

    def insert(self, slot: int) -> int:
        """Make a slot after this one, in the same block, which has a row to spare; returns that row."""
        at, many = self._at(slot), len(self.rows)
        row = self._spare[int(self.order[at])].pop()
        if many == len(self._rows):
            self._rows = np.concatenate((self._rows, np.empty(many // 2 + 8, np.intp)))
        self._rows[slot + 2 : many + 1] = self._rows[slot + 1 : many]
        self._rows[slot + 1] = row
        self.rows = self._rows[: many + 1]
        self.begin[at + 1 :] += 1
        return row

    def _at(self, slot: int) -> int:
        return int(self.begin.searchsorted(slot, "right")) - 1
