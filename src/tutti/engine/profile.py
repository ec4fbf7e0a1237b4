"""What is free, where, and when: time slots x classes of interchangeable nodes.

A column is a class of nodes, a row a stretch of time between two moments at which something ends or begins. As long as
nobody asks about the future there is one row, now, and it is the view's own column. Whoever asks about a moment gets a
row that begins there; all ends are laid out only for those who search among takings that begin later than now. Taking
seats splits columns: nodes of a class that were chosen are no longer like the others.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from .blocks import BLOCK, Blocks, Rows
from .lanes import distinct, divided, taller, units, wider
from .model import MOST_MEMBERS, NEVER
from .releases import Releases
from .tally import Ask, Bools, Ints, Lane, Tally
from .view import View

__all__ = ["Ask", "Bools", "Ints", "Lane", "Profile"]

MOST_TALLIES = 24
"""Kinds of requests whose room is kept count of; for any more it is found out each time."""


NOW: Rows = np.zeros(1, np.intp)
PRESENT = Blocks(1)


class Profile:
    """Free amounts over time. Nothing in it is ever more than what the view and the takings so far leave."""

    def __init__(self, view: View, now: int, percent: int, usable: Bools, grace: int = 0) -> None:
        self.view = view
        self.now = now
        self.percent = percent
        self.grace = grace
        """How long who is asked to leave may take."""
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
        self.rows = NOW
        """Which physical row of the lanes holds each time slot."""
        self.has_future = False
        """Whether every moment at which something ends has a row."""
        self._has_few = False
        """Whether some later moments have a row."""
        self._later = False
        """Whether something was taken that begins later than now: room may get less with time."""
        self._releases: Releases | None = None
        self.moments_to_mark: list[int] = []
        """Moments at which something changes besides starts and ends: windows."""
        self._blocks = PRESENT
        self._lows: list[Lane] = []
        """The least of each block of rows, for each lane, as far as the blocks say that it is known."""
        self._tallies: dict[tuple[int, ...], Tally] = {}
        """Members that fit in all, by the resources asked for."""
        self._seen: tuple[int, int, Ask, list[Lane]] | None = None
        self._counted: tuple[list[Lane], Bools, Ints] | None = None
        """What was last read: a gang is often seated where it was just found that it can be."""
        self._at: dict[tuple[int, Ask], tuple[Bools, Ints]] = {}
        """What was read of single moments."""
        self._origin: Rows | None = None
        """The view's class that each column was split off, once columns may be split."""
        self._owned = False
        self._nodes: dict[int, Rows] = {}
        """Positions of the nodes of a column, for columns that were asked about."""
        self._taken: dict[int, tuple[int, int, Rows, Ints, Ask, int]] = {}
        self._tokens = 0

    # -- reading

    def slots(self, start: int, end: int) -> tuple[int, int]:
        """The time slots that a stay from start to end touches."""
        if start > self.now and not self.has_future:
            self.mark(start)
        first = bisect_right(self.times, start) - 1
        return first, max(bisect_left(self.times, end), first + 1)

    def room(self, first: int, last: int, resource: int) -> Ints:
        """The least that is free of a resource on a node of each column during the slots."""
        return cast("Ints", self._least(first, last, resource))

    def _least(self, first: int, last: int, resource: int) -> Lane:
        lane, count = self.lanes[resource], self.count
        if last - first == 1:
            return lane[self.rows[first], :count]
        if last - first <= BLOCK:
            return cast("Lane", np.minimum.reduce(lane[self.rows[first:last], :count]))
        whole, rest = self._blocks.inside(first, last)
        if len(whole):
            self._refresh()
        known = self._lows[resource][whole, :count]
        return cast("Lane", np.minimum.reduce(np.concatenate((known, lane[rest, :count]))))

    def _refresh(self) -> None:
        """Find the least of each block of rows again where it is not known."""
        stale = self._blocks.stale
        while stale:
            block = stale.pop()
            rows = self._blocks.of(block)
            for low, lane in zip(self._lows, self.lanes, strict=True):
                low[block] = np.minimum.reduce(lane[rows])

    def _rooms(self, first: int, last: int, ask: Ask) -> list[Lane]:
        """The room for each of the resources asked for."""
        seen = self._seen
        if seen is None or seen[:3] != (first, last, ask):
            rooms = [self._least(first, last, resource) for resource, _ in ask]
            seen = self._seen = (first, last, ask, rooms)
        return seen[3]

    def _forget_seen(self) -> None:
        self._seen = None
        self._at.clear()

    def members(self, first: int, last: int, ask: Ask, mask: Bools) -> Ints:
        """How many members fit on a node of each column, during all of the slots."""
        rooms = self._rooms(first, last, ask)
        counted = self._counted
        if counted is None or counted[0] is not rooms or counted[1] is not mask:
            fits = (self._fits(rooms, ask) * mask).astype(np.int64, copy=False)
            counted = self._counted = (rooms, mask, fits)
        return counted[2]

    def _fits(self, rooms: list[Lane], ask: Ask) -> Lane:
        if not ask:
            return np.full(self.count, MOST_MEMBERS, np.int64)
        fits = divided(rooms[0], ask[0][1] // self.units[ask[0][0]])
        for room, (resource, amount) in zip(rooms[1:], ask[1:], strict=True):
            fits = np.minimum(fits, divided(room, amount // self.units[resource]))
        return cast("Lane", np.maximum(fits, 0))

    def members_before(self, ask: Ask, mask: Bools) -> Ints:
        """How many members fit on a node of each column as the view shows it, before anything was taken."""
        free, many = self.view.class_free, self.origins()
        fits = np.full(self.count, MOST_MEMBERS, np.int64)
        for resource, amount in ask:
            np.minimum(fits, np.maximum(free[resource, many] // amount, 0), out=fits)
        return fits * mask

    def members_at(self, moment: int, ask: Ask, mask: Bools) -> Ints:
        """How many members fit on a node of each column at one moment, which need not have a row."""
        known = self._at.get((moment, ask))
        if known is None or known[0] is not mask:
            if self._taken:
                self._begin_rows()
            fits = (self._fits(self._rooms_at(moment, ask), ask) * mask).astype(np.int64, copy=False)
            known = self._at[moment, ask] = mask, fits
        return known[1]

    def members_beside(self, moment: int, ask: Ask, mask: Bools, others: Ints, other_ask: Ask) -> Ints:
        """The same beside so many others on a node of each column, who ask something else."""
        held = dict(other_ask)
        each = [held.get(resource, 0) // self.units[resource] for resource, _ in ask]
        rooms = [room - others * less for room, less in zip(self._rooms_at(moment, ask), each, strict=True)]
        return (self._fits(rooms, ask) * mask).astype(np.int64, copy=False)

    def leftover(self, first: int, resource: int) -> Ints:
        """Free amount of a resource in one slot, in whole amounts."""
        return self.room(first, first + 1, resource).astype(np.int64) * self.units[resource]

    # -- the future

    def look_ahead(self) -> None:
        """Lay out every moment at which something that runs now is expected to end."""
        if self.has_future:
            return
        self.has_future = True
        self._forget_seen()
        view, releases = self.view, self.releases
        times, row = np.unique(releases.at, return_inverse=True)
        self.times = [self.now, *times.tolist()]
        self.units, kinds = units(view)
        self._blocks = Blocks(len(self.times))
        self.rows = self._blocks.rows
        width = self.count + max(16, self.count // 2)
        self._widen_columns(width)
        origin, free = self.origins(), view.class_free
        height = self._blocks.capacity * 5 // 4 // BLOCK * BLOCK + BLOCK
        self.lanes = []
        for resource, unit in enumerate(self.units):
            freed = np.zeros((len(self.times), free.shape[1]), kinds[resource])
            freed[0] = free[resource] // unit
            back = (releases.amounts[resource] // unit).astype(kinds[resource])
            np.add.at(freed, (row + 1, releases.classes), back)
            np.add.accumulate(freed, axis=0, out=freed)
            lane = np.zeros((height, width), kinds[resource])
            lane[self.rows, : self.count] = freed[:, origin]
            self.lanes.append(lane)
        self._lows = [np.zeros((height // BLOCK, width), kind) for kind in kinds]
        self._repeat_taken()
        for moment in self.moments_to_mark:
            self.mark(moment)

    def _repeat_taken(self) -> None:
        """Seats taken while there was only the present are taken again in the rows that now exist."""
        for start, end, positions, counts, ask, sign in self._taken.values():
            self._subtract(start, end, self.columns_of(positions), counts, ask, sign)

    def moments(
        self, ask: Ask, mask: Bools, key: object, members: int, length: int, after: int, likely: int = NEVER
    ) -> Iterator[int]:
        """Moments, in order, from which the same nodes hold so many members for so long.

        Where `likely` is the first of them it is found sooner.
        """
        if not (self.has_future or self._later or self.moments_to_mark):
            yield from self._steadily(ask, mask, members, after, likely)
            return
        self.look_ahead()
        # Stays that the caller tries on meanwhile mark their ends: those are no new chances, or it would never end.
        chances = self.times.copy()
        at = bisect_left(chances, after) if after > self.now else 0
        while at < len(chances):
            if len(mask) < self.count:
                mask = mask[self.origins()]
            found = self._next_start(bisect_left(self.times, chances[at]), ask, mask, key, members, length)
            if found is None:
                return
            moment = self.times[found]
            at = bisect_left(chances, moment)
            if at < len(chances) and chances[at] == moment:
                yield moment
                at += 1

    def _steadily(self, ask: Ask, mask: Bools, members: int, after: int, likely: int) -> Iterator[int]:
        """The same, where room only grows with time: halving finds the first, and all that come after it will do."""
        if self._taken:
            self._begin_rows()
        ends = [end for _, end, *_ in self._taken.values() if end < NEVER]
        chances = np.concatenate((self.releases.at, [self.now, *ends]))
        weights = mask * self.weight[: self.count]
        if self._is_first(likely, chances, after, ask, weights, members):
            yield likely
            after = likely + 1
        chances.sort()
        chances = chances[chances.searchsorted(after) if after > self.now else 0 :]
        low, high = 0, len(chances)
        while low < high:
            middle = (low + high) // 2
            if self._holds(self._rooms_at(int(chances[middle]), ask), ask, weights, members):
                high = middle
            else:
                low = middle + 1
        while low < len(chances):
            yield int(chances[low])
            low = int(chances.searchsorted(chances[low], side="right"))

    def _is_first(self, likely: int, chances: Ints, after: int, ask: Ask, weights: Ints, members: int) -> bool:
        """Whether a moment is the first of the chances, from one on, at which there is room."""
        if not after <= likely < NEVER or not (chances == likely).any():
            return False
        if not self._holds(self._rooms_at(likely, ask), ask, weights, members):
            return False
        before = int(chances[chances < likely].max(initial=-1))
        return before < after or not self._holds(self._rooms_at(before, ask), ask, weights, members)

    def _rooms_at(self, moment: int, ask: Ask) -> list[Lane]:
        """The room for each of the resources asked for at one moment, which need not have a row."""
        slot = bisect_right(self.times, moment) - 1
        return [self._row_at(slot, moment, resource) for resource, _ in ask]

    def _row_at(self, slot: int, moment: int, resource: int) -> Lane:
        """A slot as it is when all that ends up to a moment has ended."""
        row = self.lanes[resource][self.rows[slot], : self.count]
        back = self.releases.between(self.times[slot], moment, resource)
        return row + (back if self._origin is None else back[self._origin[: self.count]])

    def _next_start(self, slot: int, ask: Ask, mask: Bools, key: object, members: int, length: int) -> int | None:
        """The first slot, from one on, from which the same nodes hold so many members for so long."""
        bad = self._too_full(slot, ask, mask, key, members)
        weights = mask * self.weight[: self.count]
        times = self.times
        while slot < len(times):
            end = len(times) if length >= NEVER else max(bisect_left(times, times[slot] + length, slot), slot + 1)
            last_bad = bisect_left(bad, end) - 1
            if last_bad >= 0 and bad[last_bad] >= slot:
                # Some slot of the stay has too little in sum: no stay that touches it will do.
                slot = bad[last_bad] + 1
                continue
            if self._holds(self._rooms(slot, end, ask), ask, weights, members):
                return slot
            slot = self._after_failure(slot, end, ask, weights, members)
        return None

    def _holds(self, rooms: list[Lane], ask: Ask, weights: Ints, members: int) -> bool:
        return int(self._fits(rooms, ask) @ weights) >= members

    def _after_failure(self, first: int, last: int, ask: Ask, weights: Ints, members: int) -> int:
        """No stay over all of these slots will do: the first slot from which one up to the last of them would.

        Stays that begin in between touch all the slots that were found to be too many.
        """
        low, high = first + 1, last
        known: list[Lane] | None = None
        while low < high:
            middle = (low + high) // 2
            rooms = [self._least(middle, high, resource) for resource, _ in ask]
            if known is not None:
                rooms = [np.minimum(room, later) for room, later in zip(rooms, known, strict=True)]
            if self._holds(rooms, ask, weights, members):
                high, known = middle, rooms
            else:
                low = middle + 1
        return low

    def _too_full(self, slot: int, ask: Ask, mask: Bools, key: object, members: int) -> list[int]:
        """Slots, from one on, with room for fewer members than these, be it on the same nodes or not."""
        resources = tuple(resource for resource, _ in ask)
        tally = self._tallies.get(resources)
        number = tally.known.get((ask, key)) if tally else None
        if number is None:
            if sum(len(tally.known) for tally in self._tallies.values()) >= MOST_TALLIES:
                return []
            tally = self._tallies.setdefault(resources, Tally(resources, self.lanes, self._height()))
            units = [amount // self.units[resource] for resource, amount in ask]
            number = tally.add(ask, key, units, wider(mask, len(self.weight)))
            tally.count(number, self.lanes, self.rows, self.weight[: self.count])
        assert tally is not None
        return ((tally.of(number)[self.rows[slot:]] < members).nonzero()[0] + slot).tolist()

    def _height(self) -> int:
        return self.lanes[0].shape[0] if self.lanes else 0

    # -- taking

    def nodes_in(self, column: int, most: int) -> Rows:
        """Positions in line of the first nodes of a column."""
        known = self._nodes.get(column)
        if known is None:
            known = self._nodes[column] = np.flatnonzero(self._columns() == column)
        return known[:most]

    def first_of(self, columns: Rows) -> Rows:
        """The position in line of the first node of any of these columns."""
        column_of = self._columns()
        if len(columns) == 1:
            return np.array([(column_of == columns[0]).argmax()])
        among = np.zeros(self.count, np.bool_)
        among[columns] = True
        return np.array([among[column_of].argmax()])

    def nodes_along(self, columns: Rows, most: int, but: Rows = NOW[:0]) -> Rows:
        """Positions in line of the first nodes of any of these columns, leaving some out."""
        among = np.zeros(self.count, np.bool_)
        among[columns] = True
        there = among[self._columns()]
        there[but] = False
        return there.nonzero()[0][:most]

    def nodes_of(self, columns: Rows, nodes: Ints, members: Ints) -> tuple[Rows, Ints]:
        """The first so many nodes of each of these columns, by position in line, and the members on each of them."""
        if nodes.max(initial=1) == 1:
            some = nodes > 0
            return self.positions()[columns[some]], members[some]
        column_of, whole = self._columns(), nodes == self.weight[columns]
        chosen, each = np.zeros(self.count, np.bool_), np.zeros(self.count, np.int64)
        chosen[columns[whole]], each[columns] = True, members
        parts = zip(columns[~whole].tolist(), nodes[~whole].tolist(), strict=True)
        positions = [chosen[column_of].nonzero()[0], *(self.nodes_in(column, most) for column, most in parts)]
        found = np.concatenate(positions) if len(positions) > 1 else positions[0]
        return found, each[column_of[found]]

    def take(self, start: int, end: int, positions: Rows, counts: Ints, ask: Ask, sign: int = 1) -> int:
        """Seat so many members on each of these nodes (by position in line) for a while; returns a receipt.

        With sign -1 the members leave instead: what if they were gone?
        """
        self._later |= start > self.now
        self._own()
        columns = self._split(positions, counts)
        self._subtract(start, end, columns, counts, ask, sign)
        self._tokens += 1
        self._taken[self._tokens] = (start, end, positions, counts, ask, sign)
        return self._tokens

    def give(self, receipt: int) -> None:
        """Undo a taking. The columns stay apart, which changes no answer."""
        start, end, positions, counts, ask, sign = self._taken.pop(receipt)
        self._subtract(start, end, self.columns_of(positions), counts, ask, -sign)

    def isolate(self, positions: Rows) -> None:
        """Give these nodes columns that they share with no other node."""
        self._own()
        self._split(positions, np.zeros(len(positions), np.int64))

    def columns_of(self, positions: Rows) -> NDArray[np.int32]:
        """The columns of nodes, by position in line."""
        return self._columns()[positions]

    def origins(self) -> Rows:
        """The view's class that each column was split off."""
        return np.arange(self.count) if self._origin is None else self._origin[: self.count]

    def descends_from(self, column: int) -> Bools:
        """Columns that were split off a class of the view, itself included."""
        return cast("Bools", self.origins() == column)

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
            view = self.view
            self.column_of = view.class_of[: len(view.by_line)] if view.is_straight else view.class_of[view.by_line]
        return self.column_of

    def _own(self) -> None:
        if self._owned:
            return
        self._owned = True
        self.positions()
        self.column_of = self._columns().copy()
        if not self.has_future:
            self._widen_columns(self.count + 16)

    def _widen_columns(self, width: int) -> None:
        self.weight, self.kind = wider(self.weight, width), wider(self.kind, width)
        self.usable = wider(self.usable, width)
        if self.first is not None:
            self.first = wider(self.first, width)
        self.lanes = [wider(lane, width) for lane in self.lanes]
        self._lows = [wider(low, width) for low in self._lows]
        for tally in self._tallies.values():
            tally.grow(self._height(), width)
        self._origin = wider(self.origins(), width)

    def _split(self, positions: Rows, counts: Ints) -> NDArray[np.int32]:
        """Columns of their own for the chosen nodes: one for each (old column, members) pair."""
        assert self.column_of is not None
        columns = self.column_of[positions]
        shared = self.weight[columns] > 1
        if not shared.any():
            return columns
        pairs = columns.astype(np.int64) << 32 | counts
        for pair in dict.fromkeys(pairs[shared].tolist()):
            which = (pairs == pair).nonzero()[0]
            columns[which] = self._split_off(pair >> 32, positions[which])
        return columns

    def _split_off(self, column: int, chosen: Rows) -> int:
        assert self.column_of is not None
        assert self.first is not None
        if self.weight[column] == len(chosen):
            return column
        nodes = self.nodes_in(column, len(self.column_of))
        new = self._new_column(column)
        self.column_of[chosen] = new
        for each, members in ((new, np.sort(chosen)), (column, nodes[self.column_of[nodes] == column])):
            self._nodes[each] = members
            self.weight[each] = len(members)
            self.first[each] = members[0]
        return new

    def _new_column(self, origin: int) -> int:
        new = self.count
        if new >= len(self.weight):
            self._widen_columns(new + max(16, new // 2))
        self.count += 1
        self._forget_seen()
        for column in (self.kind, self.usable, self._origin):
            assert column is not None
            column[new] = column[origin]
        for lane in (*self.lanes, *self._lows):
            lane[:, new] = lane[:, origin]
        for tally in self._tallies.values():
            tally.copy_column(origin, new)
        return new

    def _subtract(self, start: int, end: int, columns: NDArray[np.int32], counts: Ints, ask: Ask, sign: int) -> None:
        first, last = self._window(start, end)
        self._forget_seen()
        rows = self.rows[first:last]
        where, many = distinct(columns, counts)
        cells = rows[:, None] * len(self.weight) + where
        touched = {resource for resource, _ in ask}
        tallies = [tally for tally in self._tallies.values() if not touched.isdisjoint(tally.resources)]
        needed = touched.union(*(tally.resources for tally in tallies))
        before = {resource: self.lanes[resource].take(cells) for resource in needed}
        after = before.copy()
        whole = self._blocks.inside(first, last)[0][:, None] if self.has_future else None
        for resource, amount in ask:
            change = (many * (sign * (amount // self.units[resource]))).astype(before[resource].dtype)
            after[resource] = before[resource] - change
            self.lanes[resource].put(cells, after[resource])
            if whole is not None and len(whole):
                self._lows[resource][whole, where] -= change
        if self.has_future:
            self._blocks.stale.update(self._blocks.cut(first, last))
        for tally in tallies:
            old, new = [before[r] for r in tally.resources], [after[r] for r in tally.resources]
            tally.change(rows, where, old, new, self.weight[where])

    def _window(self, start: int, end: int) -> tuple[int, int]:
        if not (self.has_future or self._has_few) and start <= self.now:
            return 0, 1
        self.mark(start)
        self.mark(end)
        # The second may have laid out all ends, with everything taken so far, and this stay is not among it yet.
        self.mark(start)
        return self.slots(start, end)

    def mark(self, moment: int) -> None:
        """Make sure that a time slot begins at this moment."""
        if moment >= NEVER or moment <= self.now:
            return
        if not self.has_future:
            self._begin_rows()
        at = bisect_left(self.times, moment)
        if at < len(self.times) and self.times[at] == moment:
            return
        if not self.has_future:
            self._lay(at, moment)
            return
        if self._blocks.crowded(at - 1):
            self._copy_rows(*self._blocks.split(at - 1))
        source = int(self.rows[at - 1])
        self._copy_rows(source, self._blocks.insert(at - 1))
        self.rows = self._blocks.rows
        self.times.insert(at, moment)
        self._forget_seen()

    def _begin_rows(self) -> None:
        """From now on what ends later than now has a row where it ends."""
        if self._has_few or self.has_future:
            return
        self._has_few = True
        self._own()
        self.lanes = [taller(wider(lane, len(self.weight)), BLOCK) for lane in self.lanes]
        for _, end, positions, counts, ask, sign in list(self._taken.values()):
            self.mark(end)
            if self.now < end < NEVER and not self.has_future:
                self._subtract(end, NEVER, self.columns_of(positions), counts, ask, -sign)

    def _lay(self, at: int, moment: int) -> None:
        """Give a moment a row of its own, with what has ended by then; too many of them are laid out all together."""
        new = len(self.times)
        if new == BLOCK:
            self.look_ahead()
            self.mark(moment)
            return
        for resource, lane in enumerate(self.lanes):
            lane[new, : self.count] = self._row_at(at - 1, moment, resource)
        self.times.insert(at, moment)
        self.rows = np.concatenate((self.rows[:at], [new], self.rows[at:]))
        self._forget_seen()

    def next_moment(self) -> int:
        """The next moment at which something is expected to end, or was taken to begin or to end."""
        taken = [moment for start, end, *_ in self._taken.values() for moment in (start, end)]
        marked = self.moments_to_mark if self.has_future else []
        ahead = (moment for moment in (*taken, *marked) if moment > self.now)
        return min(min(ahead, default=NEVER), self.releases.first())

    @property
    def releases(self) -> Releases:
        """What the gangs that run now give back, and when."""
        if self._releases is None:
            self._releases = Releases(self.view, self.now, self.percent, self.grace)
        return self._releases

    def _copy_rows(self, old: "int | Rows", new: "int | Rows") -> None:
        height = self._blocks.capacity
        if height > self._height():
            self._heighten((height + height // 2) // BLOCK * BLOCK)
        for lane in self.lanes:
            lane[new] = lane[old]
        for tally in self._tallies.values():
            tally.copy_rows(old, new)

    def _heighten(self, height: int) -> None:
        self.lanes = [taller(lane, height) for lane in self.lanes]
        self._lows = [taller(low, height // BLOCK) for low in self._lows]
        for tally in self._tallies.values():
            tally.grow(height, len(self.weight))
