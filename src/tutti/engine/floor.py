"""What is free on each node, where all nodes are alike and gangs ask for one resource? And which nodes does one get?

The nodes are those that `place` would choose; here they are chosen one by one, without classes and columns over time.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from .place import Seating
from .tally import Bools, Ints

MANY = 64
"""From so many nodes on arrays are counted by sorting."""


class Held(NamedTuple):
    """What a gang takes of the nodes it sits on, and until when."""

    end: int
    where: "int | Ints"
    amounts: "int | Ints"
    units: int
    """All of it together."""
    nodes: int


def held(end: int, nodes: tuple[int, ...], counts: tuple[int, ...], amount: int) -> Held:
    """So many members on each node, who take so much each, until a moment."""
    if len(nodes) == 1:
        return Held(end, nodes[0], counts[0] * amount, counts[0] * amount, 1)
    return _held(end, np.array(nodes, np.intp), counts, amount)


def taken(end: int, seating: Seating, counts: tuple[int, ...], amount: int) -> Held:
    """The same of nodes that were just chosen."""
    if len(counts) == 1:
        return Held(end, seating.positions.item(0), counts[0] * amount, counts[0] * amount, 1)
    return _held(end, seating.positions, counts, amount)


def _held(end: int, where: Ints, counts: tuple[int, ...], amount: int) -> Held:
    members = sum(counts)
    even = members == len(counts)
    amounts: int | Ints = amount if even else np.array(counts, np.int64) * amount
    return Held(end, where, amounts, members * amount, len(counts))


class Floor:
    """What is free on each node, and how many nodes there are of each kind of free."""

    __slots__ = ("free", "levels", "units")

    def __init__(self, free: Ints, levels: dict[int, int], units: int) -> None:
        self.free = free
        self.levels = levels
        self.units = units
        """All that is free together."""

    @classmethod
    def empty(cls, nodes: int, each: int) -> "Floor":
        """Nobody anywhere."""
        return cls(np.full(nodes, each, np.int64), {each: nodes}, nodes * each)

    def copy(self) -> "Floor":
        """One of its own."""
        return Floor(self.free.copy(), self.levels.copy(), self.units)

    def take(self, come: Held) -> None:
        """Somebody sits down."""
        self.units -= come.units
        self._change(come.where, -come.amounts)

    def give(self, gone: Held) -> None:
        """Somebody leaves."""
        self.units += gone.units
        self._change(gone.where, gone.amounts)

    def _change(self, where: "int | Ints", amounts: "int | Ints") -> None:
        free = self.free
        if type(where) is int:
            before = free.item(where)
            free[where] = after = before + int(amounts)
            self._count({before: 1}, {after: 1})
            return
        many = free[where]
        free[where] = more = many + amounts
        known = _counted(many)
        if len(known) == 1 and type(amounts) is int:
            self._count(known, {next(iter(known)) + amounts: len(many)})
        else:
            self._count(known, _counted(more))

    def _count(self, before: dict[int, int], after: dict[int, int]) -> None:
        levels = self.levels
        for free, many in after.items():
            levels[free] = levels.get(free, 0) + many
        for free, many in before.items():
            left = levels[free] - many
            if left:
                levels[free] = left
            else:
                del levels[free]

    def room(self, amount: int) -> int:
        """Members who take so much each that find a seat."""
        room = 0
        for free, many in self.levels.items():
            if free >= amount:
                room += free // amount * many
        return room

    def choose(self, members: int, amount: int) -> Seating:
        """Nodes for so many members, for whom there is room."""
        need = members * amount
        tight = min((free for free in self.levels if free >= need), default=0)
        if tight:
            return _one((self.free == tight).argmax(), members)
        return self._by_level(members, amount)

    def _by_level(self, members: int, amount: int) -> Seating:
        """As `several` does, by what is free on a node: who has the same is as good as each other."""
        fitting = [free for free in self.levels if free >= amount]
        if len(fitting) == 1 and fitting[0] < 2 * amount:
            return Seating((self.free == fitting[0]).nonzero()[0][:members], np.ones(members, np.int64))
        parts: list[tuple[Ints, int]] = []
        rest, spent = members, 0
        ranked = sorted((-(free // amount), free % amount, free) for free in fitting)
        for at, (per, _, level) in enumerate(ranked):
            many = min(rest // -per, self.levels[level])
            parts.append(((self.free == level).nonzero()[0][:many], -per))
            rest += many * per
            if not rest:
                break
            if many < self.levels[level]:
                tight = min(free for _, _, free in ranked[at:] if free >= rest * amount)
                spent = many if tight == level else 0
                parts.append(((self.free == tight).nonzero()[0][spent : spent + 1], rest))
                break
        if len(parts) == 1:
            return Seating(parts[0][0], np.full(len(parts[0][0]), parts[0][1], np.int64))
        counts = [np.full(len(nodes), each, np.int64) for nodes, each in parts]
        return _along(np.concatenate([nodes for nodes, _ in parts]), np.concatenate(counts))

    def beside(self, room: Ints, members: int, amount: int) -> Seating:
        """The same with no more than so much room on each node."""
        whole = (room >= members * amount).nonzero()[0]
        if len(whole):
            return _one(whole[self.free[whole].argmin()], members)
        return several(room, self.free, members, amount)


def promised(then: Ints, now: Ints, members: int, amount: int) -> Seating:
    """Nodes for later: where less is free now, so that those who come and go until then disturb nobody."""
    whole = (then >= members * amount).nonzero()[0]
    if not len(whole):
        return several(then, then, members, amount, now)
    liking = np.minimum(now[whole] // amount, members)
    whole = whole[liking == liking.min()]
    return _one(whole[then[whole].argmin()], members)


def several(room: Ints, free: Ints, members: int, amount: int, now: Ints | None = None) -> Seating:
    """The roomiest nodes while they can be filled; what is left over goes where it leaves the least behind."""
    fits = room // amount
    nodes = (fits >= _least_filled(fits, members)).nonzero()[0]
    per = fits[nodes]
    keys = [free[nodes] - per * amount, -per]
    if now is not None:
        keys.insert(1, np.minimum(now[nodes] // amount, per))
    if any((key != key[0]).any() for key in keys):
        order = np.lexsort(keys)
        nodes, per = nodes[order], per[order]
    filled = per.cumsum()
    cut = int(filled.searchsorted(members, side="right"))
    nodes, counts = nodes[:cut], per[:cut]
    rest = members - (filled.item(cut - 1) if cut else 0)
    if rest:
        nodes = np.append(nodes, _tightest(fits >= rest, nodes, free, rest, amount, now))
        counts = np.append(counts, rest)
    return _along(nodes, counts)


def _along(nodes: Ints, counts: Ints) -> Seating:
    """In rank order, which is the order of the line."""
    order = nodes.argsort()
    return Seating(nodes[order], counts[order])


def _least_filled(fits: Ints, members: int) -> int:
    """How many members fit on the least roomy of the nodes that are filled."""
    many: list[int] = np.bincount(fits).tolist()
    per = len(many) - 1
    while (members := members - per * many[per]) > 0:
        per -= 1
    return per


def _tightest(open_to: Bools, taken: Ints, free: Ints, members: int, amount: int, now: Ints | None) -> int:
    open_to[taken] = False
    nodes = open_to.nonzero()[0]
    if now is not None:
        liking = np.minimum(now[nodes] // amount, members)
        nodes = nodes[liking == liking.min()]
    return int(nodes[free[nodes].argmin()])


def _one(node: "np.intp | int", members: int) -> Seating:
    return Seating(np.array([node], np.intp), np.array([members], np.int64))


def _counted(amounts: Ints) -> dict[int, int]:
    if len(amounts) < MANY:
        each = amounts.tolist()
        return {each[0]: len(each)} if each.count(each[0]) == len(each) else Counter(each)
    kinds, many = np.unique(amounts, return_counts=True)
    return dict(zip(kinds.tolist(), many.tolist(), strict=True))
