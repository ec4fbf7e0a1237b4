"""What is free on each node, where all nodes are alike and gangs ask for one resource? And which nodes does one get?

The nodes are those that `place` would choose. Nodes on which the same is free are as good as each other, so that a few
sets of nodes say it all, without classes and columns over time.
"""

from collections.abc import Iterable
from typing import NamedTuple

from .bits import first, gathered, named
from .model import Seats

Levels = dict[int, int]
"""By how much is free on a node, the nodes where it is that much."""
Part = tuple[int, int]
"""So many on each of these nodes."""
Spot = tuple[int, int, int, int]
"""How much may be taken of a node, how much is free there in all, how much of it now (0 where that does not matter),
and the nodes where it is so."""


class Held(NamedTuple):
    """What a gang takes of the nodes it sits on, and until when."""

    end: int
    parts: tuple[Part, ...]
    """Amounts, and the nodes they are taken of."""
    units: int
    """All of it together."""
    nodes: int


def held(end: int, seats: Seats, amount: int) -> Held:
    """Members in these seats, who take so much each, until a moment."""
    nodes, counts = seats.nodes, seats.counts
    members = sum(counts)
    if counts.count(counts[0]) == len(counts):
        parts: tuple[Part, ...] = ((counts[0] * amount, gathered(nodes)),)
    else:
        by_count: dict[int, list[int]] = {}
        for node, count in zip(nodes, counts, strict=True):
            by_count.setdefault(count, []).append(node)
        parts = tuple((count * amount, gathered(some)) for count, some in by_count.items())
    return Held(end, parts, members * amount, len(nodes))


def seats_in(parts: list[Part]) -> Seats:
    """So many members on each of these nodes, in rank order, which is the order of the line."""
    if len(parts) == 1:
        each, where = parts[0]
        nodes = named(where)
        return Seats(nodes, (each,) * len(nodes), 0)
    pairs = sorted((node, each) for each, where in parts for node in named(where))
    return Seats(tuple(node for node, _ in pairs), tuple(each for _, each in pairs), 0)


def lift(levels: Levels, nodes: int, change: int) -> list[Part]:
    """Let so much more (or less) be free on these nodes; what was free on them before."""
    before: list[Part] = []
    for free, here in levels.items():
        both = here & nodes
        if both:
            before.append((free, both))
            nodes ^= both
            if not nodes:
                break
    for free, both in before:
        left = levels[free] ^ both
        if left:
            levels[free] = left
        else:
            del levels[free]
        levels[free + change] = levels.get(free + change, 0) | both
    return before


def room_in(levels: Levels, amount: int) -> int:
    """Members who take so much each that find a seat."""
    room = 0
    for free, nodes in levels.items():
        if free >= amount:
            room += free // amount * nodes.bit_count()
    return room


class Floor:
    """What is free on each node now."""

    __slots__ = ("levels", "units")

    def __init__(self, levels: Levels, units: int) -> None:
        self.levels = levels
        self.units = units
        """All that is free together."""

    @classmethod
    def empty(cls, nodes: int, each: int) -> "Floor":
        """Nobody anywhere."""
        return cls({each: (1 << nodes) - 1}, nodes * each)

    def copy(self) -> "Floor":
        """One of its own."""
        return Floor(self.levels.copy(), self.units)

    def take(self, come: Held) -> None:
        """Somebody sits down."""
        self.units -= come.units
        for amount, nodes in come.parts:
            lift(self.levels, nodes, -amount)

    def give(self, gone: Held) -> None:
        """Somebody leaves."""
        self.units += gone.units
        for amount, nodes in gone.parts:
            lift(self.levels, nodes, amount)

    def room(self, amount: int) -> int:
        """Members who take so much each that find a seat."""
        return room_in(self.levels, amount)

    def choose(self, members: int, amount: int) -> list[Part]:
        """Nodes for so many members, for whom there is room."""
        levels = self.levels
        fitting = [free for free in levels if free >= amount]
        if len(fitting) == 1 and fitting[0] < 2 * amount:
            return [(1, first(levels[fitting[0]], members))]
        roomy = [free for free in fitting if free >= members * amount]
        if roomy:
            nodes = levels[min(roomy)]
            return [(members, nodes & -nodes)]
        return chosen([(free, free, 0, levels[free]) for free in fitting], members, amount)


def beside(now: Levels, then: Levels, amount: int) -> list[Spot]:
    """Where so much is free both now and then."""
    spots: list[Spot] = []
    for free, here in now.items():
        if free >= amount:
            for later, there in then.items():
                if later >= amount and (both := here & there):
                    spots.append((min(free, later), free, 0, both))
    return spots


def room_beside(now: Levels, then: Levels, amount: int) -> int:
    """Members who take so much each that find a seat both now and then."""
    return sum(room // amount * nodes.bit_count() for room, _, _, nodes in beside(now, then, amount))


def promised(then: Levels, now: Levels, members: int, amount: int) -> list[Part]:
    """Nodes for later: where less is free now, so that those who come and go until then disturb nobody."""
    spots: list[Spot] = []
    for later, there in then.items():
        if later >= amount:
            spots += [(later, later, free, both) for free, here in now.items() if (both := here & there)]
    return chosen(spots, members, amount)


def chosen(spots: Iterable[Spot], members: int, amount: int) -> list[Part]:
    """One node for all of them, or the roomiest while they can be filled; what is left over goes where it leaves the
    least behind."""
    whole = _tightest(spots, members, amount, 0)
    if whole:
        return [(members, whole)]
    ranks: dict[tuple[int, int, int], int] = {}
    for room, free, now, nodes in spots:
        per = room // amount
        key = -per, min(now // amount, per), free - per * amount
        ranks[key] = ranks.get(key, 0) | nodes
    parts: list[Part] = []
    taken = 0
    for key in sorted(ranks):
        per, nodes = -key[0], ranks[key]
        many, most = members // per, nodes.bit_count()
        if many < most:
            nodes = first(nodes, many)
        if nodes:
            parts.append((per, nodes))
            taken |= nodes
        members -= min(many, most) * per
        if many < most or not members:
            break
    if members:
        parts.append((members, _tightest(spots, members, amount, taken)))
    return parts


def _tightest(spots: Iterable[Spot], members: int, amount: int, taken: int) -> int:
    """The first of the nodes where so many members leave the least behind; none where no node takes all of them."""
    best: tuple[int, int] | None = None
    found = 0
    for room, free, now, nodes in spots:
        if room >= members * amount and (left := nodes & ~taken):
            key = min(now // amount, members), free
            if best is None or key < best:
                best, found = key, left
            elif key == best:
                found |= left
    return found & -found
