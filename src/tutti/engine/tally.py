"""How many members would fit in all, slot by slot: kept up to date for every kind of request that was asked about."""

from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .model import MOST_MEMBERS

T = TypeVar("T", bound=np.generic)
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Lane = NDArray[np.signedinteger]
Ask = tuple[tuple[int, int], ...]
"""What one member asks: (resource, amount) pairs, amounts above 0."""

AT_ONCE = 1 << 18
"""Cells that are looked at together."""


class Tally:
    """Requests for the same resources, each with the nodes it may use, counted together in few array operations."""

    def __init__(self, resources: tuple[int, ...], lanes: list[Lane], rows: int) -> None:
        self.resources = resources
        self.known: dict[tuple[Ask, object], int] = {}
        """The number of each request, by what is asked of which nodes."""
        self._units: list[Lane] = [np.zeros((0, 1, 1), lanes[resource].dtype) for resource in resources]
        self._mask: Bools = np.zeros((0, 0), np.bool_)
        self._total: Ints = np.zeros((0, rows), np.int64)

    def add(self, ask: Ask, key: object, units: list[int], mask: Bools) -> int:
        """One more kind of request, in units of the lanes; nothing is counted yet."""
        number = self.known[ask, key] = len(self.known)
        for at, unit in enumerate(units):
            known = self._units[at]
            # More than any node has is as good as all that the integer holds.
            capped = min(max(unit, 1), int(np.iinfo(known.dtype).max))
            self._units[at] = np.append(known, np.full((1, 1, 1), capped, known.dtype), axis=0)
        self._mask = np.vstack((self._mask, mask)) if number else mask.reshape(1, -1)
        self._total = np.vstack((self._total, np.zeros(self._total.shape[1], np.int64)))
        return number

    def of(self, number: int) -> Ints:
        """Members that fit in all, by physical row."""
        return cast("Ints", self._total[number])

    def count(self, number: int, lanes: list[Lane], rows: NDArray[np.intp], weight: Ints) -> None:
        """Count one request in all of these rows."""
        weights = self._mask[number, : len(weight)] * weight
        if not self.resources:
            self._total[number] = MOST_MEMBERS * int(weights.sum())
            return
        step = max(AT_ONCE // max(len(weight), 1), 1)
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            free = [lanes[resource][some, : len(weight)] for resource in self.resources]
            self._total[number, some] = self._fits(free, slice(number, number + 1))[0] @ weights

    def change(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], before: list[Lane], after: list[Lane], weight: Ints
    ) -> None:
        """What was free in some rows and columns has changed."""
        fewer = (self._fits(before) - self._fits(after)).astype(np.int64)
        weights = self._mask[:, columns] * weight
        self._total[:, rows] -= (fewer @ weights[:, :, None])[:, :, 0]

    def _fits(self, free: list[Lane], which: slice = slice(None)) -> Lane:
        fits = free[0] // self._units[0][which]
        for amounts, units in zip(free[1:], self._units[1:], strict=True):
            fits = np.minimum(fits, amounts // units[which])
        return cast("Lane", np.maximum(fits, 0))

    def copy_rows(self, old: "int | NDArray[np.intp]", new: "int | NDArray[np.intp]") -> None:
        """Rows that begin their life as copies of others."""
        self._total[:, new] = self._total[:, old]

    def copy_column(self, old: int, new: int) -> None:
        """A column was split off another."""
        self._mask[:, new] = self._mask[:, old]

    def grow(self, rows: int, width: int) -> None:
        """Make room for more rows and columns."""
        self._total = _padded(self._total, rows)
        self._mask = _padded(self._mask, width)


def _padded(array: NDArray[T], width: int) -> NDArray[T]:
    more = width - array.shape[-1]
    return np.pad(array, ((0, 0), (0, more))) if more > 0 else array
