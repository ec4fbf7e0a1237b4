"""Which gang holds how much on a node of each class: every (class, gang) pair once, in columns.

The pairs of a class stand side by side in a block of rows. A block keeps its place as long as it has room, so that a
start or an end changes one row; one that has no room moves to the end and leaves rows of nobody behind.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

NOBODY = -1
MANY = 1024
"""Rows of nobody from which it is worth while to close them up."""


class Holdings:
    """The columns, and where in them the pairs of each class are."""

    def __init__(self) -> None:
        self.owner: NDArray[np.int32] = np.full(64, NOBODY, np.int32)
        """The class of each pair; -1 where nothing is."""
        self.slot: NDArray[np.int32] = np.zeros(64, np.int32)
        self.amount: NDArray[np.int64] = np.zeros((0, 64), np.int64)
        """What the gang holds of each resource on one node."""
        self._end = 0
        self._idle = 0
        self._begin: list[int] = []
        self._room: list[int] = []
        self._gangs: list[list[int]] = []
        """The gangs in the block of each class, in the order of its rows."""
        self._take_hold()

    @classmethod
    def of(
        cls, owner: NDArray[np.int32], slot: NDArray[np.int32], amount: NDArray[np.int64], classes: int
    ) -> "Holdings":
        """The same pairs in columns of its own."""
        twin = cls()
        twin.owner, twin.slot, twin.amount = owner.copy(), slot.copy(), amount.copy()
        twin._take_hold()
        twin._end = len(owner)
        twin._compact(classes)
        return twin

    def _take_hold(self) -> None:
        """After columns were replaced. Through these cells, single numbers take half the time."""
        self._owner, self._slot, self._amount = self.owner.data, self.slot.data, self.amount.data

    def detach(self) -> None:
        """Leave the present columns to whoever is looking at them and go on with copies."""
        self.owner, self.slot, self.amount = self.owner.copy(), self.slot.copy(), self.amount.copy()
        self._take_hold()

    def add_resource(self) -> None:
        """Make a row for one more resource, of which nobody holds any yet."""
        self.amount = np.vstack([self.amount, np.zeros((1, self.amount.shape[1]), np.int64)])
        self._take_hold()

    def extend(self) -> None:
        """There is one more class, on which nobody holds anything."""
        self._begin.append(0)
        self._room.append(0)
        self._gangs.append([])

    def inherit(self, new: int, old: int, more: int = 0) -> None:
        """Give a class without pairs those of another one, and room for some more."""
        gangs, begin = self._gangs[old].copy(), self._begin[old]
        length = len(gangs)
        start = self._open(new, length + more)
        if length:
            self.owner[start : start + length] = new
            self.slot[start : start + length] = gangs
            self.amount[:, start : start + length] = self.amount[:, begin : begin + length]
        self._gangs[new] = gangs
        self._idle += more

    def add(self, owner: int, slot: int, members: int, ask: Sequence[int]) -> None:
        """So many more members of a gang, on each node of the class."""
        gangs = self._gangs[owner]
        if slot in gangs:
            self._change(self._begin[owner] + gangs.index(slot), members, ask)
            return
        at, cells = self._enter(owner, slot), self._amount
        for resource, amount in enumerate(ask):
            cells[resource, at] = members * amount

    def take(self, owner: int, slot: int, members: int, ask: Sequence[int], is_last: bool) -> None:
        """So many fewer; after the last ones the gang holds nothing there."""
        gangs, begin = self._gangs[owner], self._begin[owner]
        at = begin + gangs.index(slot)
        if not is_last:
            self._change(at, -members, ask)
            return
        last = begin + len(gangs) - 1
        if at != last:
            self._slot[at] = gangs[at - begin] = gangs[-1]
            self.amount[:, at] = self.amount[:, last]
        self._owner[last] = NOBODY
        gangs.pop()
        self._idle += 1

    def drop(self, owner: int) -> None:
        """The class is no more."""
        self._close(owner)
        self._gangs[owner] = []
        self._begin[owner] = self._room[owner] = 0

    def _change(self, at: int, members: int, ask: Sequence[int]) -> None:
        cells = self._amount
        for resource, amount in enumerate(ask):
            if amount:
                cells[resource, at] += members * amount

    def _enter(self, owner: int, slot: int) -> int:
        """A row for one more gang in the block of a class."""
        if len(self._gangs[owner]) == self._room[owner]:
            self._make_room(owner)
        gangs = self._gangs[owner]
        at = self._begin[owner] + len(gangs)
        self._owner[at], self._slot[at] = owner, slot
        gangs.append(slot)
        self._idle -= 1
        return at

    def _make_room(self, owner: int) -> None:
        """Move the block of a class to where there is room for one more."""
        if self._idle > MANY and self._idle * 2 > self._end:
            self._compact(len(self._begin))
        begin = self._begin[owner]
        self.inherit(owner, owner, 1)
        length = len(self._gangs[owner])
        self.owner[begin : begin + length] = NOBODY
        self._idle += length

    def _open(self, owner: int, rows: int) -> int:
        start, self._end = self._end, self._end + rows
        while self._end > len(self.owner):
            self._double()
        self._begin[owner], self._room[owner] = start, rows
        return start

    def _close(self, owner: int) -> None:
        begin, length = self._begin[owner], len(self._gangs[owner])
        for at in range(begin, begin + length):
            self._owner[at] = NOBODY
        self._idle += length

    def _compact(self, classes: int) -> None:
        """Close up the rows of nobody."""
        keep = (self.owner[: self._end] != NOBODY).nonzero()[0]
        keep = keep[np.argsort(self.owner[keep], kind="stable")]
        owners, slots, many = self.owner[keep], self.slot[keep], len(keep)
        begin = np.searchsorted(owners, np.arange(classes + 1)).tolist()
        self._begin = begin[:-1]
        self._room = [end - start for start, end in pairwise(begin)]
        self._gangs = [slots[start:end].tolist() for start, end in pairwise(begin)]
        self._end, self._idle = many, 0
        self.amount[:, :many] = self.amount[:, keep]
        self.owner[:many], self.slot[:many] = owners, slots
        self.owner[many:] = NOBODY

    def _double(self) -> None:
        more = len(self.owner)
        self.owner = np.concatenate([self.owner, np.full(more, NOBODY, np.int32)])
        self.slot = np.concatenate([self.slot, np.zeros(more, np.int32)])
        self.amount = np.hstack([self.amount, np.zeros((len(self.amount), more), np.int64)])
        self._take_hold()
