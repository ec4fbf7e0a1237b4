"""What is free, where, and when: time slots x classes of interchangeable nodes.

A column is a class of nodes, a row a stretch of time between two moments at which something ends or begins. As long as
nobody asks about the future there is one row, now, and it is the view's own column. Taking seats splits columns: nodes
of a class that were chosen are no longer like the others.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .estimate import overrun_end
from .model import MOST_MEMBERS, NEVER, State
from .view import View

T = TypeVar("T", bound=np.generic)
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Lane = NDArray[np.signedinteger]
Ask = tuple[tuple[int, int], ...]
"""What one member asks: (resource, amount) pairs, amounts above 0."""


class Profile:
    """Free amounts over time. Nothing in it is ever more than what the view and the takings so far leave."""

    def __init__(self, view: View, now: int, percent: int, usable: Bools) -> None:
        self.view = view
        self.now = now
        self.percent = percent
        self.times = [now]
        self.count = len(view.class_weight)
        self.weight: Ints = view.class_weight
        self.kind: NDArray[np.int32] = view.class_kind
        self.usable = usable
        self.first: Ints | None = None
        """Position in line of the first node of each column."""
        self.column_of: NDArray[np.int32] | None = None
        """Column of each node, in the order of the line; made when the first seats are taken."""
        self.lanes: list[Lane] = [row.reshape(1, -1) for row in view.class_free]
        self.units = [1] * len(self.lanes)
        self.rows: NDArray[np.intp] = np.zeros(1, np.intp)
        """Which physical row of the lanes holds each time slot."""
        self.has_future = False
        self._tallies: dict[tuple[Ask, object], tuple[Ask, Bools, Ints]] = {}
        self.moments_to_mark: list[int] = []
        """Moments at which something changes besides starts and ends: windows."""
        self._origin: list[int] = []
        """The view's class that each column was split off, once there are any."""
        self._owned = False
        self._taken: dict[int, tuple[int, int, NDArray[np.intp], Ints, Ask, int]] = {}
        self._tokens = 0

    # -- reading

    def slots(self, start: int, end: int) -> tuple[int, int]:
        """The time slots that a stay from start to end touches."""
        if start > self.now:
            self.look_ahead()
        first = bisect_right(self.times, start) - 1
        return first, max(bisect_left(self.times, end), first + 1)

    def room(self, first: int, last: int, resource: int) -> Ints:
        """The least that is free of a resource on a node of each column during the slots."""
        lane = self.lanes[resource]
        if last - first == 1:
            return cast("Ints", lane[self.rows[first], : self.count])
        return cast("Ints", lane[self.rows[first:last], : self.count].min(axis=0))

    def members(self, first: int, last: int, ask: Ask, mask: Bools) -> Ints:
        """How many members fit on a node of each column, during all of the slots."""
        fits: Ints | None = None
        for resource, amount in ask:
            here = _divided(self.room(first, last, resource), amount // self.units[resource])
            fits = here if fits is None else np.minimum(fits, here)
        if fits is None:
            fits = np.full(self.count, MOST_MEMBERS, np.int64)
        return np.where(mask, np.maximum(fits, 0), 0).astype(np.int64, copy=False)

    def leftover(self, first: int, resource: int) -> Ints:
        """Free amount of a resource in one slot, in whole amounts."""
        return self.room(first, first + 1, resource).astype(np.int64) * self.units[resource]

    # -- the future

    def look_ahead(self) -> None:
        """Lay out every moment at which something that runs now is expected to end."""
        if self.has_future:
            return
        self.has_future = True
        view = self.view
        ends = expected(view, self.now, self.percent)
        times = np.unique(ends[ends < NEVER])
        self.times = [self.now, *times.tolist()]
        live = np.flatnonzero((view.entry_class >= 0) & (ends[view.entry_slot] < NEVER))
        column, row = view.entry_class[live], np.searchsorted(times, ends[view.entry_slot[live]]) + 1
        spare = max(8, len(times) // 2)
        self.units, kinds = _units(view)
        slots, width = len(self.times), self.count + max(16, self.count // 2)
        self.rows = np.arange(slots)
        free = view.class_free
        self.lanes = []
        for resource, unit in enumerate(self.units):
            lane = np.zeros((slots + spare, width), kinds[resource])
            lane[0, : free.shape[1]] = free[resource] // unit
            np.add.at(lane, (row, column), (view.entry_amount[resource, live] // unit).astype(kinds[resource]))
            np.add.accumulate(lane[:slots], axis=0, out=lane[:slots])
            self.lanes.append(lane)
        self._widen_columns(width)
        self._repeat_taken()
        for moment in self.moments_to_mark:
            self.mark(moment)

    def _repeat_taken(self) -> None:
        """Seats taken while there was only the present are taken again in the rows that now exist."""
        origin = self._origin
        for column in range(len(self.view.class_weight), self.count):
            for lane in self.lanes:
                lane[: len(self.times), column] = lane[: len(self.times), origin[column]]
        for start, end, positions, counts, ask, sign in self._taken.values():
            self._subtract(start, end, self.columns_of(positions), counts, ask, sign)

    def moments(self, ask: Ask, mask: Bools, key: object, members: int, length: int, after: int) -> Iterator[int]:
        """Moments, in order, from which the same nodes hold so many members for so long."""
        self.look_ahead()
        # Stays that the caller tries on meanwhile mark their ends: those are no new chances, or it would never end.
        chances = self.times.copy()
        at = bisect_left(chances, after) if after > self.now else 0
        shape, bad = (0, 0), np.zeros(0, np.intp)
        while at < len(chances):
            if shape != (len(self.times), self.count):
                shape, total = (len(self.times), self.count), self._tally(ask, mask, key)
                bad, mask = np.flatnonzero(total[self.rows] < members), self._tallies[ask, key][1]
            slot, end = self.slots(chances[at], chances[at] + length)
            last_bad = int(bad.searchsorted(end)) - 1
            if last_bad >= 0 and bad[last_bad] >= slot:
                # Some slot of the stay has too little in sum: no stay that touches it will do.
                after_bad = int(bad[last_bad]) + 1
                at = bisect_left(chances, self.times[after_bad]) if after_bad < len(self.times) else len(chances)
                continue
            if int(self.members(slot, end, ask, mask) @ self.weight[: self.count]) >= members:
                yield chances[at]
            at += 1

    def _tally(self, ask: Ask, mask: Bools, key: object) -> Ints:
        known = self._tallies.get((ask, key))
        if known is not None:
            return known[2]
        total = np.zeros(self.lanes[0].shape[0], np.int64)
        for row in self.rows:
            total[row] = self._total(np.array([row]), slice(0, self.count), ask, mask)[0]
        self._tallies[ask, key] = (ask, mask, total)
        return total

    def _total(self, rows: NDArray[np.intp], columns: "slice | NDArray[np.int32]", ask: Ask, mask: Bools) -> Ints:
        fits: Ints | None = None
        for resource, amount in ask:
            here = _divided(self.lanes[resource][rows][:, columns], amount // self.units[resource])
            fits = here if fits is None else np.minimum(fits, here)
        if fits is None:
            fits = np.full((len(rows), len(self.weight[columns])), MOST_MEMBERS, np.int64)
        weight = np.where(mask[columns], self.weight[columns], 0)
        return np.maximum(fits, 0).astype(np.int64) @ weight

    # -- taking

    def nodes_in(self, column: int, most: int) -> NDArray[np.intp]:
        """Positions in line of the first nodes of a column."""
        return np.flatnonzero(self._columns() == column)[:most]

    def take(self, start: int, end: int, positions: NDArray[np.intp], counts: Ints, ask: Ask, sign: int = 1) -> int:
        """Seat so many members on each of these nodes (by position in line) for a while; returns a receipt.

        With sign -1 the members leave instead: what if they were gone?
        """
        if start > self.now:
            self.look_ahead()
        self._own()
        columns = self._split(positions, counts)
        self._tokens += 1
        self._taken[self._tokens] = (start, end, positions, counts, ask, sign)
        self._subtract(start, end, columns, counts, ask, sign)
        return self._tokens

    def give(self, receipt: int) -> None:
        """Undo a taking. The columns stay apart, which changes no answer."""
        start, end, positions, counts, ask, sign = self._taken.pop(receipt)
        self._subtract(start, end, self.columns_of(positions), counts, ask, -sign)

    def isolate(self, positions: NDArray[np.intp]) -> None:
        """Give these nodes columns that they share with no other node."""
        self._own()
        self._split(positions, np.zeros(len(positions), np.int64))

    def columns_of(self, positions: NDArray[np.intp]) -> NDArray[np.int32]:
        """The columns of nodes, by position in line."""
        return self._columns()[positions]

    def origins(self) -> NDArray[np.intp]:
        """The view's class that each column was split off."""
        return np.array(self._origin[: self.count]) if self._origin else np.arange(self.count)

    def descends_from(self, column: int) -> Bools:
        """Columns that were split off a class of the view, itself included."""
        origin = np.array(self._origin) if self._origin else np.arange(self.count)
        return cast("Bools", origin == column)

    def positions(self) -> "Ints":
        """Position of the first node of each column in the line."""
        if self.first is None:
            column_of = self._columns()
            self.first = np.full(max(len(self.weight), self.count), len(column_of), np.int64)
            backwards = np.arange(len(column_of) - 1, -1, -1)
            self.first[column_of[backwards]] = backwards
        return self.first[: self.count]

    def _columns(self) -> NDArray[np.int32]:
        if self.column_of is None:
            self.column_of = self.view.class_of[self.view.by_line]
        return self.column_of

    def _own(self) -> None:
        if self._owned:
            return
        self._owned = True
        self.positions()
        self.column_of = self._columns().copy()
        self._origin = self._origin or list(range(self.count))
        if not self.has_future:
            self._widen_columns(self.count + 16)
            self.lanes = [_wider(lane, self.count + 16) for lane in self.lanes]

    def _widen_columns(self, width: int) -> None:
        self.weight, self.kind = _wider(self.weight, width), _wider(self.kind, width)
        self.usable = _wider(self.usable, width)
        if self.first is not None:
            self.first = _wider(self.first, width)
        if not self._origin:
            self._origin = list(range(self.count))

    def _split(self, positions: NDArray[np.intp], counts: Ints) -> NDArray[np.int32]:
        """Columns of their own for the chosen nodes: one for each (old column, members) pair."""
        assert self.column_of is not None
        assert self.first is not None
        old = self.column_of[positions]
        if len(positions) == 1:
            return self._split_off(int(old[0]), positions)
        result = np.empty(len(positions), np.int32)
        pairs = old.astype(np.int64) << 32 | counts
        for pair in dict.fromkeys(pairs.tolist()):
            which = np.flatnonzero(pairs == pair)
            result[which] = self._split_off(pair >> 32, positions[which])[0]
        return result

    def _split_off(self, column: int, chosen: NDArray[np.intp]) -> NDArray[np.int32]:
        assert self.column_of is not None
        assert self.first is not None
        if self.weight[column] == len(chosen):
            return np.full(len(chosen), column, np.int32)
        new = self._new_column(column)
        self.column_of[chosen] = new
        self.weight[new] = len(chosen)
        self.weight[column] -= len(chosen)
        self.first[new] = chosen[0]
        if self.first[column] == chosen[0]:
            rest = self.column_of == column
            self.first[column] = int(rest.argmax())
        return np.full(len(chosen), new, np.int32)

    def _new_column(self, origin: int) -> int:
        new = self.count
        if new >= len(self.weight):
            width = new + max(16, new // 2)
            self._widen_columns(width)
            self.lanes = [_wider(lane, width) for lane in self.lanes]
        self.count += 1
        self.kind[new], self.usable[new] = self.kind[origin], self.usable[origin]
        self._origin.append(self._origin[origin])
        for lane in self.lanes:
            lane[:, new] = lane[:, origin]
        for key, (ask, mask, total) in self._tallies.items():
            self._tallies[key] = (ask, np.append(mask[:new], mask[origin]), total)
        return new

    def _subtract(self, start: int, end: int, columns: NDArray[np.int32], counts: Ints, ask: Ask, sign: int) -> None:
        rows = self._window(start, end)
        where, at = np.unique(columns, return_index=True)
        many = counts[at]
        before = [self._total(rows, where, *tally[:2]) for tally in self._tallies.values()]
        for resource, amount in ask:
            lane = self.lanes[resource]
            change = many * (sign * (amount // self.units[resource]))
            lane[np.ix_(rows, where)] -= change.astype(lane.dtype)
        for (tally_ask, mask, total), old in zip(self._tallies.values(), before, strict=True):
            total[rows] += self._total(rows, where, tally_ask, mask) - old

    def _window(self, start: int, end: int) -> NDArray[np.intp]:
        if not self.has_future:
            return self.rows
        self.mark(start)
        self.mark(end)
        first, last = self.slots(start, end)
        return self.rows[first:last]

    def mark(self, moment: int) -> None:
        """Make sure that a time slot begins at this moment."""
        if moment >= NEVER or moment <= self.now:
            return
        at = bisect_left(self.times, moment)
        if at < len(self.times) and self.times[at] == moment:
            return
        new = len(self.times)
        if new >= self.lanes[0].shape[0]:
            self._grow_rows(new + max(8, new // 2))
        source = self.rows[at - 1]
        for lane in self.lanes:
            lane[new] = lane[source]
        for _, _, total in self._tallies.values():
            total[new] = total[source]
        self.times.insert(at, moment)
        self.rows = np.insert(self.rows, at, new)

    def _grow_rows(self, rows: int) -> None:
        self.lanes = [
            np.concatenate([lane, np.zeros((rows - len(lane), lane.shape[1]), lane.dtype)]) for lane in self.lanes
        ]
        for key, (ask, mask, total) in self._tallies.items():
            self._tallies[key] = (ask, mask, _wider(total, rows))


def expected(view: View, now: int, percent: int) -> Ints:
    """When each running gang is expected to end; a moment that has passed moves to the next percentile."""
    which = 0 if percent <= 50 else 1 if percent <= 90 else 2
    ends = view.ends[:, which].copy()
    for later in range(which + 1, 3):
        np.copyto(ends, view.ends[:, later], where=ends < now)
    for slot in np.flatnonzero(ends < now):
        if int(slot) in view.seated:
            ends[slot] = overrun_end(int(view.begun[slot]), int(view.ends[slot, 2]), now)
    # What is due this very moment is not late yet: it ends the next.
    np.maximum(ends, now + 1, out=ends)
    for leaver in view.leaving:
        life = view.held(leaver).life
        if life.state is State.DRAINING:
            ends[leaver] = min(int(ends[leaver]), max(life.leave_by, now + 1))
    return ends


def _units(view: View) -> tuple[list[int], list[type[np.signedinteger]]]:
    """The unit each resource is counted in, and the smallest integer that holds a node full of them."""
    kinds: list[type[np.signedinteger]] = []
    for unit, most in zip(view.units, view.most, strict=True):
        size = most // max(unit, 1)
        kinds.append(
            np.int8 if size <= 60 else np.int16 if size <= 16_000 else np.int32 if size < 1 << 30 else np.int64
        )
    return [max(unit, 1) for unit in view.units], kinds


def _divided(amounts: NDArray[np.signedinteger], units: int) -> NDArray[np.signedinteger]:
    if units <= 1:
        return amounts
    if units > np.iinfo(amounts.dtype).max:
        return np.zeros_like(amounts)
    return amounts // amounts.dtype.type(units)


def _wider(array: NDArray[T], width: int) -> NDArray[T]:
    more = width - array.shape[-1]
    if more <= 0:
        return array.copy()
    shape = (*array.shape[:-1], more)
    return np.concatenate([array, np.zeros(shape, array.dtype)], axis=-1)
