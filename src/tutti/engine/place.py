"""Where could the members of a role sit? Whole roles over classes of interchangeable nodes, never member by member."""

from math import lcm
from typing import cast

import numpy as np
from numpy.typing import NDArray

from .estimate import sizes
from .model import Arrange, Gang, Role, Seats
from .profile import Ask, Bools, Ints, Profile
from .sizes import Sizes, largest_legal, role_rule
from .topology import NODE, NOWHERE
from .view import View


class Need:
    """One role on one of its shapes, as the profile understands it."""

    __slots__ = (
        "alike",
        "ask",
        "key",
        "level",
        "main",
        "main_amount",
        "missing",
        "one_node",
        "per_node",
        "role",
        "rule",
        "shape",
        "share",
        "unit",
    )

    def __init__(self, view: View, gang: Gang, role: Role, shape: int) -> None:
        wanted = role.shapes[shape]
        names = view.resources
        self.role = role
        self.shape = shape
        self.ask: Ask = tuple((names[name], amount) for name, amount in wanted.ask.items() if amount and name in names)
        self.missing = next((name for name, amount in wanted.ask.items() if amount and name not in names), "")
        self.key = (wanted.tags, wanted.avoid, wanted.tolerate)
        self.main, self.main_amount = _main(view, wanted.ask)
        self.per_node = _per_node(role)
        self.level = _level(view, role.within, gang.within)
        """The level inside one domain of which all members must sit; '' where there is none."""
        self.unit = _unit(role, self.level, sizes(role, shape))
        """Members come to a node in multiples of this."""
        self.one_node = self.level == NODE
        """Whether all members must sit on one node."""
        if self.one_node:
            self.level = ""
        self.share = _share(role)
        """The level at which members are dealt out: (level, most per domain, multiple)."""
        self.rule = role_rule(role)
        self.alike = (
            self.ask,
            self.key,
            role.within,
            gang.within,
            role.segment,
            role.caps,
            role.marks,
            role.repels,
            role.needs,
            self.unit,
        )
        """Needs with equal entries here find room in the same places."""

    def sizes(self) -> tuple[int, int, int]:
        """Minimum, wanted and maximum members."""
        return sizes(self.role, self.shape)

    def displaces(self, other: "Need") -> int:
        """How many members of another need find no seat on a node, at least, for each member of this one there."""
        if self.key != other.key or not other.ask:
            return 0
        asked = dict(self.ask)
        return min(asked.get(resource, 0) // amount for resource, amount in other.ask)

    def replaces(self, other: "Need") -> int:
        """How many members of this need more find a seat on a node, at most, for each one less of another there."""
        asked = dict(other.ask)
        return max((-(-asked.get(resource, 0) // amount) for resource, amount in self.ask), default=0)


class Seating:
    """Chosen nodes, by position in the line, and the members on each."""

    __slots__ = ("counts", "positions")

    def __init__(self, positions: NDArray[np.intp], counts: Ints) -> None:
        self.positions = positions
        self.counts = counts

    @classmethod
    def empty(cls) -> "Seating":
        """Nobody anywhere."""
        return cls(np.zeros(0, np.intp), np.zeros(0, np.int64))


def seats_of(view: View, need: Need, seating: Seating) -> Seats:
    """A seating as nodes in rank order, which is the order of the line."""
    if len(seating.positions) == 1:
        return Seats((int(view.by_line[seating.positions[0]]),), (int(seating.counts[0]),), need.shape)
    order = np.argsort(seating.positions, kind="stable")
    nodes = view.by_line[seating.positions[order]]
    return Seats(tuple(nodes.tolist()), tuple(seating.counts[order].tolist()), need.shape)


def _main(view: View, ask: dict[str, int]) -> tuple[int, int]:
    """The asked resource that is scarcest in proportion to all there is, and its amount."""
    best, amount = -1, 0
    for name, asked in sorted(ask.items()):
        at = view.resources.get(name)
        if asked and at is not None and (best < 0 or asked * view.total[best] > amount * view.total[at]):
            best, amount = at, asked
    return best, amount


def _level(view: View, mine: str, whole: str) -> str:
    if mine and whole:
        return max(mine, whole, key=lambda name: view.topology.levels.get(name, 0))
    return mine or whole


def _share(role: Role) -> tuple[str, int, int] | None:
    caps = [cap for cap in role.caps if cap.level != NODE]
    if role.segment and role.segment.level != NODE:
        most = min((cap.members for cap in caps if cap.level == role.segment.level), default=0)
        return role.segment.level, most, role.segment.members
    caps_by_mark = [near.level for near in role.repels if near.level != NODE and near.mark in role.marks]
    if caps_by_mark:
        return caps_by_mark[0], 1, 1
    return (caps[0].level, caps[0].members, 1) if caps else None


def _unit(role: Role, level: str, asked: tuple[int, int, int]) -> int:
    """Segments of a node, and a rigid role that must be on one node, are whole numbers of members on each node."""
    low, _, high = asked
    whole = low if level == NODE and low == high else 1
    return lcm(whole, role.segment.members) if role.segment and role.segment.level == NODE else max(whole, 1)


def _per_node(role: Role) -> int:
    """The most members of the role on one node; 0 means no limit but the room."""
    caps = [cap.members for cap in role.caps if cap.level == NODE]
    caps += [1 for near in role.repels if near.level == NODE and near.mark in role.marks]
    return min(caps, default=0)


class Outlook:
    """How many members of one need fit on each column during a stretch of slots, and how to choose among them."""

    def __init__(self, profile: Profile, need: Need, first: int, last: int, mask: Bools) -> None:
        self.profile = profile
        self.need = need
        self.first = first
        self.last = last
        fits = profile.members(first, last, need.ask, np.zeros_like(mask) if need.missing else mask)
        fits = np.minimum(fits, need.per_node) if need.per_node else fits
        self.fits = fits // need.unit * need.unit if need.unit > 1 else fits
        self._domains: dict[str, Ints] = {}

    def domains(self, level: str) -> Ints:
        """The domain of each column at a level."""
        known = self._domains.get(level)
        if known is None:
            profile = self.profile
            known = self._domains[level] = profile.view.topology.domains(level)[profile.kind[: profile.count]]
        return known

    def total(self, fits: Ints) -> int:
        """Members that fit in all."""
        return int(fits @ self.profile.weight[: self.profile.count])

    def by_domain(self, fits: Ints, level: str) -> Ints:
        """Members that fit in each domain of a level, after caps and whole segments."""
        domains = self.domains(level)
        inside = np.where(domains == NOWHERE, 0, fits) * self.profile.weight[: self.profile.count]
        share = self.need.share
        if share and share[0] != level:
            return self._through(share, fits, level)
        sums = np.bincount(np.maximum(domains, 0), inside, len(self.profile.view.topology.paths)).astype(np.int64)
        return _allowed(sums, share[1], share[2]) if share else sums

    def sums(self, level: str) -> Ints:
        """Members that fit in each domain of a level."""
        return self.by_domain(self.fits, level)

    def _through(self, share: tuple[str, int, int], fits: Ints, level: str) -> Ints:
        """Sums at an outer level of what the domains of the sharing level can really hold."""
        inner = self.domains(share[0])
        room = self.by_domain(fits, share[0])
        outer_of = np.full(len(room), NOWHERE, np.int64)
        outer_of[inner] = self.domains(level)
        there = np.flatnonzero((room > 0) & (outer_of != NOWHERE))
        return np.bincount(outer_of[there], room[there], len(room)).astype(np.int64)

    def capacity(self) -> int:
        """The most members that one legal seating could have."""
        level, share = self.need.level, self.need.share
        if self.need.one_node:
            return int(self.fits.max(initial=0))
        if level:
            sums = self.by_domain(self.fits, level)
            return int(sums.max(initial=0))
        return int(self.by_domain(self.fits, share[0]).sum()) if share else self.total(self.fits)

    def size(self, want: Sizes) -> int:
        """The largest legal size up to what is wanted that fits; 0 where not even the minimum does."""
        room = self.capacity()
        if room < want.low:
            return 0
        return largest_legal(self.need.rule, want.low, min(want.want, room)) or 0

    def choose(self, size: int, prefer: Ints | None = None) -> Seating | None:
        """Seats for exactly so many members, or None."""
        level = self.need.level
        if level:
            domain = self._tightest(self.by_domain(self.fits, level), level, size)
            if domain is None:
                return None
            inside = np.where(self.domains(level) == domain, self.fits, 0)
            return self._seat(inside, size, prefer)
        near = self.need.role.near
        for outer in _outward(self.profile.view, near) if near else ():
            domain = self._tightest(self.by_domain(self.fits, outer), outer, size)
            if domain is not None:
                inside = np.where(self.domains(outer) == domain, self.fits, 0)
                return self._seat(inside, size, prefer, "" if outer == near else near)
        return self._seat(self.fits, size, prefer, near)

    def _tightest(self, sums: Ints, level: str, size: int) -> int | None:
        """The domain with the least room that holds so many; ties go to the first in line."""
        holding = np.flatnonzero(sums >= size)
        if not len(holding):
            return None
        tight = holding[sums[holding] == sums[holding].min()]
        if len(tight) == 1:
            return int(tight[0])
        domains, first = self.domains(level), self.profile.positions()
        among = np.flatnonzero(np.isin(domains, tight) & (self.fits > 0))
        return int(domains[among[np.argmin(first[among])]])

    def _seat(self, fits: Ints, size: int, prefer: Ints | None, spill: str = "") -> Seating | None:
        share = self.need.share
        if share:
            return self._deal(fits, size, prefer, *share)
        if spill:
            return self._deal(fits, size, prefer, spill, 0, 1)
        return self._fill(fits, size, prefer)

    def _deal(self, fits: Ints, size: int, prefer: Ints | None, level: str, most: int, multiple: int) -> Seating | None:
        """Deal members out over the domains of a level: few domains, the roomiest first, the last one tight."""
        domains = self.domains(level)
        sums = np.bincount(
            np.maximum(domains, 0), np.where(domains == NOWHERE, 0, fits) * self.profile.weight[: self.profile.count]
        )
        room = _allowed(sums.astype(np.int64), most, multiple)
        parts = []
        for domain, members in _portions(room, size, self._first_by_domain(domains, fits)):
            part = self._fill(np.where(domains == domain, fits, 0), members, prefer)
            assert part is not None
            parts.append(part)
        if sum(int(part.counts.sum()) for part in parts) < size:
            return None
        return Seating(np.concatenate([p.positions for p in parts]), np.concatenate([p.counts for p in parts]))

    def _first_by_domain(self, domains: Ints, fits: Ints) -> dict[int, int]:
        first = self.profile.positions()
        result: dict[int, int] = {}
        for column in np.flatnonzero((fits > 0) & (domains != NOWHERE)):
            domain, position = int(domains[column]), int(first[column])
            result[domain] = min(result.get(domain, position), position)
        return result

    def _fill(self, fits: Ints, size: int, prefer: Ints | None) -> Seating | None:
        if self.need.role.arrange is Arrange.SPREAD and self.need.unit == 1 and not self.need.one_node:
            return self._spread(fits, size)
        whole = (fits >= size).nonzero()[0]
        if len(whole):
            tight = self._tight(whole, size, prefer)
            return Seating(self.profile.first_of(tight), np.array([size]))
        return None if self.need.one_node else self._fill_many(fits, size, prefer)

    def _fill_many(self, fits: Ints, size: int, prefer: Ints | None) -> Seating | None:
        """Roomiest nodes first while they can be filled; what is left over goes where it leaves the least behind.

        Where nodes are as good as each other, those first in line are taken, whoever else is on them.
        """
        columns = fits.nonzero()[0]
        per = fits[columns]
        keys = [self._left(columns, per), -per]
        if prefer is not None:
            keys.insert(1, np.minimum(prefer[columns], per))
        order = np.lexsort(keys)
        columns, per = columns[order], per[order]
        filled = np.cumsum(per * self.profile.weight[columns])
        if not len(columns) or filled[-1] < size:
            return None
        cut = min(int(np.searchsorted(filled, size, side="right")), len(columns) - 1)
        alike = np.logical_and.reduce([key[order] == key[order[cut]] for key in keys]).nonzero()[0]
        first, each = int(alike[0]), int(per[cut])
        many, rest = divmod(size - (int(filled[first - 1]) if first else 0), each)
        profile, before = self.profile, columns[:first]
        positions, counts = profile.nodes_of(before, profile.weight[before], per[:first])
        positions = np.concatenate([positions, profile.nodes_along(columns[alike], many)])
        counts = np.concatenate([counts, np.full(many, each, np.int64)])
        if rest:
            tight = self._tight(columns[first:][per[first:] >= rest], rest, prefer)
            last = profile.nodes_along(tight, 1, positions)
            positions, counts = np.concatenate([positions, last]), np.append(counts, rest)
        return Seating(positions, counts)

    def _spread(self, fits: Ints, size: int) -> Seating | None:
        """As even as the room allows: no node gets a second member while another could get its first."""
        columns = np.flatnonzero(fits)
        weight, per = self.profile.weight[columns], fits[columns]
        low, high = 0, int(per.max(initial=0))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if int(np.minimum(per, middle) @ weight) <= size else (low, middle - 1)
        positions, counts = self.profile.nodes_of(columns, weight, np.minimum(per, low))
        rest = size - int(counts.sum())
        roomy = per > low
        more, _ = self.profile.nodes_of(columns[roomy], weight[roomy], per[roomy])
        if rest > len(more):
            return None
        extra = np.sort(more)[:rest]
        held = dict(zip(positions[counts > 0].tolist(), counts[counts > 0].tolist(), strict=True))
        for position in extra.tolist():
            held[position] = held.get(position, 0) + 1
        return Seating(np.array(list(held), np.intp), np.array(list(held.values()), np.int64))

    def _tight(self, columns: NDArray[np.intp], members: int, prefer: Ints | None) -> NDArray[np.intp]:
        """The columns where so many members on one node leave the least behind."""
        if len(columns) == 1:
            return columns
        if prefer is not None:
            liking = np.minimum(prefer[columns], members)
            columns = columns[liking == liking.min()]
        left = self._left(columns, np.int64(members))
        return cast("NDArray[np.intp]", columns[left == left.min()])

    def _left(self, columns: NDArray[np.intp], members: "Ints | np.int64") -> Ints:
        if self.need.main < 0:
            return np.zeros(len(columns), np.int64)
        return self.profile.leftover(self.first, self.need.main)[columns] - members * self.need.main_amount


def _allowed(sums: Ints, most: int, multiple: int) -> Ints:
    capped = np.minimum(sums, most) if most else sums
    return capped // multiple * multiple if multiple > 1 else capped


def _portions(room: Ints, size: int, first: dict[int, int]) -> list[tuple[int, int]]:
    """Who gets how many: the roomiest domains whole, and the last portion where it fits tightest."""
    order = sorted(first, key=lambda domain: (-int(room[domain]), first[domain]))
    portions: list[tuple[int, int]] = []
    for at, domain in enumerate(order):
        here = int(room[domain])
        if here >= size:
            tight = min((d for d in order[at:] if room[d] >= size), key=lambda d: (int(room[d]), first[d]))
            return [*portions, (tight, size)]
        if here:
            portions.append((domain, here))
            size -= here
    return portions


def _outward(view: View, level: str) -> list[str]:
    """A level and the levels around it, innermost first."""
    for pool in view.topology.pools.values():
        if level in pool.levels:
            return list(reversed(pool.levels[: pool.levels.index(level) + 1]))
    return [level]
