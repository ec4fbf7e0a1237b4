"""Do several roles fit together? An exact answer, for when simpler ways have failed.

How many members of each role a part of the cluster can take is a set of vectors. The set of a node follows from its
free amounts; that of a domain is the sum of the sets of its parts, less what caps, segments and `within` forbid there.
The set of the whole cluster holds the wanted vector, or the gang does not fit: nothing is guessed.

A set is kept as an array: for every number of members of the smaller roles, the most members of the largest role that
fit beside them. Fewer of the largest role fit as well (in whole segments), so the most says it all, and a role of five
hundred workers costs no more than a role of five.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd, lcm
from types import EllipsisType

import msgspec
import numpy as np
from numpy.typing import NDArray

from .model import Cap, Segment
from .topology import NODE

Best = NDArray[np.int64]
Vector = tuple[int, ...]
IMPOSSIBLE = -(1 << 40)
BUDGET = 20_000_000
"""Array cells that may be computed before giving up; about a fifth of a second."""
SMALL = 16
"""Below this many cells looking for those that matter costs more than computing all."""


class Want(msgspec.Struct, frozen=True):
    """One role: so many members, what each asks for, and the conditions on where they sit."""

    count: int
    ask: tuple[int, ...]
    within: str = ""
    segment: Segment | None = None
    caps: tuple[Cap, ...] = ()
    bound: bool = True
    """Whether the gang's own `within` holds for this role."""


class Bin(msgspec.Struct, frozen=True):
    """Interchangeable nodes: how many, what each has free, the most members of each role on one, and their domains."""

    weight: int
    free: tuple[int, ...]
    fits: tuple[int, ...]
    path: tuple[tuple[str, int], ...] = ()
    """(level, domain) from the outermost in. A domain's number occurs at one place of the tree only."""


class Part(msgspec.Struct, frozen=True):
    """So many nodes of a bin, with so many members of each role on each of them."""

    bin: int
    nodes: int
    members: tuple[int, ...]


class Packed(msgspec.Struct, frozen=True):
    """Where everybody goes."""

    parts: tuple[Part, ...]


class OutOfBudget(msgspec.Struct, frozen=True):
    """The search was cut short; whether the roles fit is not known."""

    spent: int


def pack(
    wants: Sequence[Want],
    bins: Sequence[Bin],
    within: str = "",
    budget: int = BUDGET,
    charge: Callable[[int], object] = int,
) -> Packed | OutOfBudget | None:
    """Seats for every member of every role, or None if there are none. `within` binds all bound roles to one domain.

    `charge` is told how many cells of the budget were used.
    """
    if not any(want.count for want in wants):
        return Packed(())
    search = _Search(wants, budget)
    usable = [search.usable(number, one) for number, one in enumerate(bins)]
    try:
        for tried in _restricted(wants, usable, within):
            found = search.solve(tried)
            if found is not None:
                return found
    except _Spent:
        return OutOfBudget(search.spent)
    finally:
        charge(search.spent)
    return None


# -- what is searched


class _Spent(Exception):
    """The budget is used up."""


class _Node(msgspec.Struct, frozen=True):
    """A bin as the search sees it."""

    number: int
    weight: int
    free: tuple[int, ...]
    fits: Vector
    path: tuple[tuple[str, int], ...]


class _Room:
    """What a part of the cluster can take, and the parts it is the sum of."""

    __slots__ = ("best", "key", "nodes", "parts", "unit")

    def __init__(self, best: Best, key: int, unit: int) -> None:
        self.best = best
        self.key = key
        self.unit = unit
        """The largest role comes in multiples of this; 0 where none of it fits."""
        self.parts: tuple[_Room, _Room] | None = None
        self.nodes: tuple[_Node, ...] = ()


class _Spot:
    """A domain: its level, the domains inside, and the nodes directly inside."""

    __slots__ = ("inside", "level", "nodes")

    def __init__(self, level: str) -> None:
        self.level = level
        self.inside: dict[int, _Spot] = {}
        self.nodes: list[_Node] = []


def _restricted(wants: Sequence[Want], nodes: Sequence[_Node], within: str) -> Iterator[list[_Node]]:
    """The nodes to search among: all, or one domain after the other for the bound roles, tightest first."""
    if not within or not any(want.bound and want.count for want in wants):
        yield list(nodes)
        return
    bound = [want.bound for want in wants]
    domains = _single_nodes(nodes) if within == NODE else _by_domain(nodes, within)
    for inside in sorted(domains, key=lambda group: sum(one.weight * sum(one.fits) for one in group)):
        yield [*inside, *([] if all(bound) else _outside(nodes, inside, bound))]


def _by_domain(nodes: Sequence[_Node], level: str) -> list[list[_Node]]:
    groups: dict[int, list[_Node]] = {}
    for one in nodes:
        domain = dict(one.path).get(level)
        if domain is not None and any(one.fits):
            groups.setdefault(domain, []).append(one)
    return list(groups.values())


def _single_nodes(nodes: Sequence[_Node]) -> list[list[_Node]]:
    return [[msgspec.structs.replace(one, weight=1)] for one in nodes if one.weight and any(one.fits)]


def _outside(nodes: Sequence[_Node], inside: Sequence[_Node], bound: Sequence[bool]) -> Iterator[_Node]:
    """What is left for the roles that are not bound."""
    taken = {one.number: one.weight for one in inside}
    for one in nodes:
        left = one.weight - taken.get(one.number, 0)
        if left:
            yield msgspec.structs.replace(one, weight=left, fits=_masked(one.fits, bound))


def _masked(fits: Vector, out: Sequence[bool]) -> Vector:
    return tuple(0 if barred else most for most, barred in zip(fits, out, strict=True))


# -- the search


class _Search:
    """The sets of one call, computed once each however many parts of the cluster are alike."""

    def __init__(self, wants: Sequence[Want], budget: int) -> None:
        self.wants = wants
        self.budget = budget
        self.spent = 0
        self.main = max(range(len(wants)), key=lambda role: wants[role].count)
        self.others = [role for role in range(len(wants)) if role != self.main]
        self.most = wants[self.main].count
        self.full: Vector = tuple(wants[role].count for role in self.others)
        self.units = [_units(want) for want in wants]
        self.numbers: dict[tuple[Vector, bytes], int] = {}
        self.sums: dict[tuple[int, int], tuple[Best, int]] = {}
        self.single: dict[tuple[Vector, Vector], tuple[Best, int]] = {}
        self.sieved: dict[tuple[int, int, str], tuple[Best, int, int]] = {}

    def usable(self, number: int, one: Bin) -> _Node:
        """A bin with what really fits: by room, by count, and by the levels a role insists on."""
        levels = {NODE, *(level for level, _ in one.path)}
        fits = tuple(
            _fits(want, one.free, most) if levels.issuperset(units) else 0
            for want, most, units in zip(self.wants, one.fits, self.units, strict=True)
        )
        # Room that nobody could use makes no difference, and without it more nodes are alike.
        useful = [sum(n * want.ask[r] for n, want in zip(fits, self.wants, strict=True)) for r in range(len(one.free))]
        free = tuple(max(min(have, most), 0) for have, most in zip(one.free, useful, strict=True))
        return _Node(number, one.weight, free, fits, one.path)

    def solve(self, nodes: list[_Node]) -> Packed | None:
        """Seats among these nodes, or None."""
        if not self._enough(nodes):
            return None
        root = _Spot("")
        for one in nodes:
            if one.weight and any(one.fits):
                _descend(root, one.path).nodes.append(one)
        room = self._room(root, ())
        return Packed(self._trace(room)) if room is not None and self._holds_all(room) else None

    def _enough(self, nodes: Iterable[_Node]) -> bool:
        """Whether each role would fit alone and in whole units: a quick no for most that do not fit."""
        sums = [0] * len(self.wants)
        for one in nodes:
            sums = [have + one.weight * most for have, most in zip(sums, one.fits, strict=True)]
        whole = all(
            want.count % unit == 0
            for want, units in zip(self.wants, self.units, strict=True)
            for unit in units.values()
        )
        return whole and all(have >= want.count for have, want in zip(sums, self.wants, strict=True))

    def _holds_all(self, room: _Room) -> bool:
        return _at(room.best, self.full) >= self.most

    def _room(self, spot: _Spot, around: tuple[str, ...]) -> _Room | None:
        """What a domain can take. A domain that can take everything alone ends the search: fewer need not be asked."""
        parts: list[_Room] = []
        for inner in sorted(spot.inside.values(), key=_capacity):
            room = self._room(inner, (*around, spot.level))
            if room is not None and self._holds_all(room) and self._allowed((*around, spot.level)):
                return room
            parts += [room] if room is not None else []
        parts += self._node_rooms(spot.nodes)
        # Roomiest first: whatever the first few can hold is never spread over the rest.
        parts.sort(key=lambda room: -int(room.best.max(initial=0)) - sum(room.best.shape))
        whole: _Room | None = None
        for part in parts:
            whole = part if whole is None else self._sum(whole, part)
            if self._is_saturated(whole, spot.level):
                break
        return self._sieve(whole, spot.level) if whole is not None else None

    def _allowed(self, levels: Iterable[str]) -> bool:
        """Whether one domain of each of these levels may hold everything."""
        caps = {cap.level: cap.members for want in self.wants for cap in want.caps if cap.members < want.count}
        return not any(level in caps for level in levels)

    def _is_saturated(self, room: _Room, level: str) -> bool:
        if not level:
            return self._holds_all(room)
        return room.best.shape == tuple(n + 1 for n in self.full) and bool((room.best >= self.most).all())

    def _node_rooms(self, nodes: Sequence[_Node]) -> list[_Room]:
        """One room for all nodes of a domain that can take the same."""
        alike: dict[int, list[_Node]] = {}
        single: dict[int, Best] = {}
        for one in nodes:
            best, key = self._node(one)
            alike.setdefault(key, []).append(one)
            single[key] = best
        rooms: list[_Room] = []
        for key, group in alike.items():
            room = _Room(single[key], key, int(single[key].max(initial=0) > 0))
            room.nodes = tuple(group)
            whole = self._sieve(room, NODE)
            rooms.append(self._times(whole, sum(one.weight for one in group), {}))
        return rooms

    def _node(self, one: _Node) -> tuple[Best, int]:
        """What one node can take: all combinations of the smaller roles, and the most of the largest beside each."""
        known = self.single.get((one.free, one.fits))
        if known is None:
            best = self._beside(one)
            self._spend(best.size)
            known = self.single[one.free, one.fits] = best, self._number(best)
        return known

    def _beside(self, one: _Node) -> Best:
        shape = tuple(one.fits[role] + 1 for role in self.others)
        left = np.indices(shape) if shape else np.zeros((0,), np.int64)
        best = np.full(shape, one.fits[self.main], np.int64)
        for resource, free in enumerate(one.free):
            rest = np.full(shape, free, np.int64)
            for at, role in enumerate(self.others):
                rest -= left[at] * self.wants[role].ask[resource]
            asked = self.wants[self.main].ask[resource]
            best = np.minimum(best, rest // asked) if asked else best
            best = np.where(rest < 0, IMPOSSIBLE, best)
        return best

    def _times(self, one: _Room, nodes: int, known: dict[int, _Room]) -> _Room:
        """The sum of so many equal rooms, by halves."""
        if nodes == 1:
            return one
        if nodes not in known:
            half = self._times(one, nodes // 2, known)
            known[nodes] = self._sum(half, self._times(one, nodes - nodes // 2, known))
        return known[nodes]

    def _sum(self, one: _Room, other: _Room) -> _Room:
        """What two parts can take together."""
        pair = (one.key, other.key)
        known = self.sums.get(pair)
        if known is None:
            few, many = sorted((one.best, other.best), key=lambda best: best.size)
            best = self._added(many, few)
            known = self.sums[pair] = best, self._number(best)
        both = _Room(*known, gcd(one.unit, other.unit))
        both.parts = (one, other)
        return both

    def _added(self, many: Best, few: Best) -> Best:
        limit = tuple(n + 1 for n in self.full)
        shape = tuple(a + b - 1 for a, b in zip(many.shape, few.shape, strict=True))
        closed = few.size > SMALL and _is_closed(many) and _is_closed(few)
        if not closed:
            shape = tuple(map(min, shape, limit))
        best = np.full(shape, IMPOSSIBLE, np.int64)
        shifts = np.argwhere(_undominated(few) if closed else few >= 0).tolist()
        self._spend(len(shifts) * many.size)
        for shift in shifts:
            target = _box(best, shift, [i + n for i, n in zip(shift, many.shape, strict=True)])
            source = _box(many, [0] * many.ndim, target.shape)
            np.maximum(target, source + few[tuple(shift)], out=target)
        best[best < 0] = IMPOSSIBLE
        if closed:
            best = _box(_closed(best), [0] * best.ndim, limit).copy()
        return np.minimum(best, self.most, out=best)

    def _sieve(self, room: _Room, level: str) -> _Room:
        """What a domain of a level can take once caps and whole segments are obeyed."""
        if not any(level in units for units in self.units) and not any(
            cap.level == level for want in self.wants for cap in want.caps
        ):
            return room
        known = self.sieved.get((room.key, room.unit, level))
        if known is None:
            best, unit = self._obeying(room, level)
            known = self.sieved[room.key, room.unit, level] = best, self._number(best), unit
        sieved = _Room(*known)
        sieved.parts, sieved.nodes = room.parts, room.nodes
        return sieved

    def _obeying(self, room: _Room, level: str) -> tuple[Best, int]:
        best, unit = room.best.copy(), room.unit
        for at, role in enumerate(self.others):
            numbers = np.arange(best.shape[at])
            bad = (numbers % self.units[role].get(level, 1) != 0) | (numbers > _cap(self.wants[role], level))
            best[(slice(None),) * at + (bad,)] = IMPOSSIBLE
        unit = lcm(unit, self.units[self.main].get(level, 1))
        most = np.minimum(best, _cap(self.wants[self.main], level))
        return np.where(best < 0, IMPOSSIBLE, most // unit * unit if unit else most), unit

    def _number(self, best: Best) -> int:
        """Equal arrays get equal numbers."""
        return self.numbers.setdefault((best.shape, best.tobytes()), len(self.numbers))

    def _spend(self, cells: int) -> None:
        self.spent += cells
        if self.spent > self.budget:
            raise _Spent

    # -- from the set back to seats

    def _trace(self, room: _Room) -> tuple[Part, ...]:
        """Go back from the wanted vector to the vectors of single nodes."""
        ahead: list[tuple[_Room, Vector, int]] = [(room, self.full, self.most)]
        seated: dict[_Room, Counter[Vector]] = {}
        while ahead:
            here, others, main = ahead.pop()
            if not main and not any(others):
                continue
            if here.parts is None:
                seated.setdefault(here, Counter())[self._vector(others, main)] += 1
            else:
                ahead += _split(*here.parts, others, main)
        parts = [part for leaf, vectors in seated.items() for part in _dealt(leaf.nodes, vectors)]
        return tuple(sorted(parts, key=lambda part: (part.bin, part.members)))

    def _vector(self, others: Vector, main: int) -> Vector:
        vector = [0] * len(self.wants)
        for role, members in zip(self.others, others, strict=True):
            vector[role] = members
        vector[self.main] = main
        return tuple(vector)


def _units(want: Want) -> dict[str, int]:
    """The multiple in which members of a role come at a level: segments, and all of them where `within` says so."""
    units: dict[str, int] = {}
    if want.segment is not None and want.segment.members > 1:
        units[want.segment.level] = want.segment.members
    if want.within and want.count:
        units[want.within] = lcm(units.get(want.within, 1), want.count)
    return units


def _cap(want: Want, level: str) -> int:
    return min((cap.members for cap in want.caps if cap.level == level), default=want.count)


def _fits(want: Want, free: Sequence[int], most: int) -> int:
    room = [have // asked for have, asked in zip(free, want.ask, strict=True) if asked]
    return max(min(most, want.count, _cap(want, NODE), *room), 0)


def _descend(root: _Spot, path: Iterable[tuple[str, int]]) -> _Spot:
    spot = root
    for level, domain in path:
        spot = spot.inside.setdefault(domain, _Spot(level))
    return spot


def _capacity(spot: _Spot) -> int:
    own = sum(one.weight * sum(one.fits) for one in spot.nodes)
    return own + sum(_capacity(inner) for inner in spot.inside.values())


def _at(best: Best, others: Vector) -> int:
    inside = all(n < size for n, size in zip(others, best.shape, strict=True))
    return int(best[others]) if inside else IMPOSSIBLE


def _box(best: Best, low: Sequence[int], high: Sequence[int]) -> Best:
    """A window into an array; an array too where there are no axes."""
    where: tuple[EllipsisType | slice, ...] = (..., *map(slice, low, high))
    return best[where]


def _is_closed(best: Best) -> bool:
    """Whether fewer members of the smaller roles always leave at least as much room for the largest."""
    return all(bool((np.diff(best, axis=axis) <= 0).all()) for axis in range(best.ndim))


def _undominated(best: Best) -> NDArray[np.bool_]:
    """The cells of a closed array from which all others follow."""
    needed = best >= 0
    for axis in range(best.ndim):
        body, ahead = np.moveaxis(best, axis, 0)[:-1], np.moveaxis(best, axis, 0)[1:]
        np.moveaxis(needed, axis, 0)[:-1] &= body != ahead
    return needed


def _closed(best: Best) -> Best:
    for axis in range(best.ndim):
        best = np.flip(np.maximum.accumulate(np.flip(best, axis), axis=axis), axis)
    return best


def _split(one: _Room, other: _Room, others: Vector, main: int) -> list[tuple[_Room, Vector, int]]:
    """Who takes what: one part everything if it can, or all of the smaller roles, or whatever is possible."""
    for alone in (one, other):
        if _at(alone.best, others) >= main:
            return [(alone, others, main)]
    none = (0,) * len(others)
    for first, second in ((one, other), (other, one)):
        members = _at(first.best, others)
        if members >= 0 and _at(second.best, none) >= main - members:
            return [(first, others, members), (second, none, main - members)]
    return _shared(one, other, others, main)


def _shared(one: _Room, other: _Room, others: Vector, main: int) -> list[tuple[_Room, Vector, int]]:
    """A split of every role, the first part taking as much as it can."""
    low = [max(0, n - size + 1) for n, size in zip(others, other.best.shape, strict=True)]
    high = [min(n + 1, size) for n, size in zip(others, one.best.shape, strict=True)]
    mine = _box(one.best, low, high)
    far = [n + 1 - a for n, a in zip(others, low, strict=True)]
    theirs = np.flip(_box(other.best, [n + 1 - b for n, b in zip(others, high, strict=True)], far))
    share = np.minimum(mine, main) + (np.indices(mine.shape).sum(axis=0) if mine.ndim else 0)
    good = (mine >= 0) & (theirs >= 0) & (mine + theirs >= main)
    at = np.unravel_index(int(np.argmax(np.where(good, share, IMPOSSIBLE))), mine.shape)
    taken = tuple(int(i) + a for i, a in zip(at, low, strict=True))
    members = min(int(one.best[taken]), main)
    return [(one, taken, members), (other, tuple(n - t for n, t in zip(others, taken, strict=True)), main - members)]


def _dealt(nodes: Sequence[_Node], vectors: Counter[Vector]) -> Iterator[Part]:
    """Single-node vectors onto the nodes of one group, fullest first."""
    left = [(one.number, one.weight) for one in nodes]
    for vector, needed in sorted(vectors.items(), reverse=True):
        missing = needed
        while missing:
            number, free = left.pop(0)
            used = min(free, missing)
            yield Part(number, used, vector)
            missing -= used
            if free > used:
                left.insert(0, (number, free - used))
