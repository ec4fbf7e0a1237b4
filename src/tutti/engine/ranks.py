"""Which rank sits where: neighbours in the ring are neighbours in the tree, and ranks survive losses.

A collective passes data from rank to rank around a ring. A walk through the tree of domains that never comes back to a
domain it has left crosses every link exactly twice, and no ring crosses fewer. Positions along that walk are known to
the view, so laying out a gang is one sort.
"""

from collections.abc import Container, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .model import Seats, Segment
from .topology import NODE, NOWHERE, Kind, Topology
from .view import View

IntArray = NDArray[np.int64]
LEAVING_A_POOL = 1
"""What the link above a pool costs; pools declare only the levels below."""


class Run(NamedTuple):
    """Consecutive ranks on one node."""

    rank: int
    node: int
    members: int


def lay_out(
    view: View, nodes: Sequence[int], counts: Sequence[int], segment: Segment | None = None, shape: int = 0
) -> Seats:
    """Seats in rank order: the shortest ring, and each segment inside one domain wherever the nodes allow it."""
    where, many = np.asarray(nodes, np.int64), np.asarray(counts, np.int64)
    if len(where) == 0:
        return Seats(shape=shape)
    line = view.line[where]
    uneven = _uneven_node(view, where, many, segment) if segment is not None and segment.members > 1 else NOWHERE
    if uneven == NOWHERE:
        order = np.argsort(line, kind="stable")
    else:
        order = np.lexsort((line, _closeness(view, where, int(where[uneven]), segment)))
    return _seats(zip(where[order].tolist(), many[order].tolist(), strict=True), shape)


def hops(view: View, seats: Seats) -> int:
    """Cost of the links a ring over all ranks crosses, each hop going up to the common domain and down again."""
    known = [node for node in seats.nodes if view.nodes[node] is not None]
    if len(known) < 2:
        return 0
    here = np.array(known, np.int64)
    there = np.roll(here, -1)
    kinds, kind = np.unique(view.class_kind[view.class_of[here]], return_inverse=True)
    domains, up = _ways_up(view.topology, kinds.tolist())
    next_kind = np.roll(kind, -1)
    same = (domains[kind] == domains[next_kind]) & (domains[kind] != NOWHERE)
    common = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    cost = up[kind, common] + up[next_kind, common]
    return int(cost[here != there].sum())


def grown(view: View, old: Seats, nodes: Sequence[int], counts: Sequence[int], segment: Segment | None = None) -> Seats:
    """Seats with more members: old ranks keep their numbers, new ones follow along the topology."""
    more = lay_out(view, nodes, counts, segment)
    return _seats([*_pairs(old), *_pairs(more)], old.shape)


def cut(old: Seats, members: int) -> Seats:
    """The seats of the first so many ranks."""
    kept: list[tuple[int, int]] = []
    for node, count in _pairs(old):
        kept.append((node, min(count, members)))
        members -= kept[-1][1]
    return _seats(kept, old.shape)


# -- ranks across losses: what is lost keeps its first rank beside it


def numbered(kept: Seats, lost: Seats, lost_ranks: Sequence[int]) -> list[Run]:
    """The surviving ranks: what is left of the gang, numbered as it was before anything was lost."""
    if not lost.nodes:
        return list(map(Run, accumulate(kept.counts, initial=0), kept.nodes, kept.counts))
    gaps = sorted(zip(lost_ranks, lost.counts, strict=True))
    runs: list[Run] = []
    rank = at = 0
    for node, whole in _pairs(kept):
        count = whole
        while count:
            while at < len(gaps) and gaps[at][0] == rank:
                rank += gaps[at][1]
                at += 1
            fits = min(count, gaps[at][0] - rank) if at < len(gaps) else count
            runs.append(Run(rank, node, fits))
            rank, count = rank + fits, count - fits
    return runs


def lose(
    kept: Seats, lost: Seats, lost_ranks: Sequence[int], gone: dict[int, int], ranks: Iterable[int] = ()
) -> tuple[Seats, Seats, tuple[int, ...]]:
    """Seats left, seats lost and their first ranks after more members are gone.

    `gone` says how many on each node; `ranks` says which, where that is known. Otherwise the last ones of a node are
    taken. Members that are not there are not lost: compare the numbers.
    """
    runs = numbered(kept, lost, lost_ranks)
    taken = _taken([run for run in runs if gone.get(run.node)], dict(gone), set(ranks))
    stay: list[Run] = []
    leave = [Run(*run) for run in zip(lost_ranks, lost.nodes, lost.counts, strict=True)]
    for run in runs:
        if gone.get(run.node):
            leave += _singles(run, taken)
            stay += [one for one in _singles(run) if one.rank not in taken]
        else:
            stay.append(run)
    leave = _joined(leave)
    missing = Seats(tuple(run.node for run in leave), tuple(run.members for run in leave), kept.shape)
    return _seats([(run.node, run.members) for run in stay], kept.shape), missing, tuple(run.rank for run in leave)


def refill(
    kept: Seats, lost: Seats, lost_ranks: Sequence[int], new: Sequence[tuple[int, int]], view: View | None = None
) -> Seats:
    """Seats after a repair: every survivor keeps its rank, and the lost ranks sit on the new (node, count) places.

    A place goes to the lost ranks it fits best, so that what sat together sits together again; with a view, among
    equals to those whose neighbours in the ring are nearest.
    """
    survivors = numbered(kept, lost, lost_ranks)
    gaps = [Run(*run) for run in zip(lost_ranks, lost.nodes, lost.counts, strict=True)]
    room = [[node, count] for node, count in new if count > 0]
    assert sum(count for _, count in room) == lost.members, "every lost rank needs one place"
    filled: list[Run] = []
    # Widest first: a narrow gap can take what a wide one leaves, not the other way round.
    for gap in sorted(gaps, key=lambda gap: (-gap.members, gap.rank)):
        rank, count = gap.rank, gap.members
        beside = _beside(gap, survivors) if view is not None else ()
        while count:
            choice = min(range(len(room)), key=lambda i: _misfit(room[i], count, beside, view, i))
            node, there = room[choice]
            used = min(count, there)
            filled.append(Run(rank, node, used))
            rank, count, room[choice][1] = rank + used, count - used, there - used
            if not room[choice][1]:
                del room[choice]
    return _seats([(run.node, run.members) for run in sorted([*survivors, *filled])], kept.shape)


def distance(view: View, one: int, other: int) -> int:
    """Cost of the links between two nodes; 0 where one of them is no longer known."""
    here, there = view.nodes[one], view.nodes[other]
    if one == other or here is None or there is None:
        return 0
    kinds = [view.topology.kinds[int(view.class_kind[view.class_of[node]])] for node in (one, other)]
    common = _shared(kinds[0].domains, kinds[1].domains)
    return sum(sum(_links(view.topology, kind)[common:]) for kind in kinds)


# -- how it is done


def _uneven_node(view: View, where: IntArray, many: IntArray, segment: Segment) -> int:
    """Position of a node of the one domain that holds a broken segment; NOWHERE if there is none, or more than one."""
    domain = _domains_at(view, where, segment.level)
    _, at, group = np.unique(domain, return_index=True, return_inverse=True)
    held = np.zeros(len(at), np.int64)
    np.add.at(held, group, many)
    broken = np.flatnonzero(held % segment.members)
    return int(at[broken[0]]) if len(broken) == 1 else NOWHERE


def _domains_at(view: View, where: IntArray, level: str) -> IntArray:
    if level == NODE:
        return where
    return view.topology.domains(level)[view.class_kind[view.class_of[where]]]


def _closeness(view: View, where: IntArray, last: int, segment: Segment | None) -> IntArray:
    """How many domains each node shares with the one that goes last. A walk in this order is still a walk."""
    kinds, kind = np.unique(view.class_kind[view.class_of[where]], return_inverse=True)
    target = view.topology.kinds[int(view.class_kind[view.class_of[last]])].domains
    shared = [_shared(view.topology.kinds[int(k)].domains, target) for k in kinds]
    closeness = np.array(shared, np.int64)[kind]
    return closeness + (where == last) if segment is not None and segment.level == NODE else closeness


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(a == b for a, b in zip(one, other, strict=False))


def _ways_up(topology: Topology, kinds: Sequence[int]) -> tuple[IntArray, IntArray]:
    """For each kind its domains, and the cost from a node up to below the domain at each depth."""
    depth = max(len(topology.kinds[kind].domains) for kind in kinds)
    domains = np.full((len(kinds), depth), NOWHERE, np.int64)
    up = np.zeros((len(kinds), depth + 1), np.int64)
    for row, number in enumerate(kinds):
        kind = topology.kinds[number]
        links = _links(topology, kind)
        domains[row, : len(kind.domains)] = kind.domains
        up[row, : len(links)] = np.cumsum(links[::-1])[::-1]
    return domains, up


def _links(topology: Topology, kind: Kind) -> list[int]:
    """Cost of each link from the root down to a node of the kind."""
    return [LEAVING_A_POOL, *(topology.cost(kind.pool, level) for level in range(len(kind.domains)))]


def _taken(runs: Sequence[Run], left: dict[int, int], named: set[int]) -> set[int]:
    """Which ranks are gone: those named first, then the last ones of each node."""
    likely = [(rank, run.node) for run in runs for rank in range(run.rank, run.rank + run.members)]
    taken: set[int] = set()
    for rank, node in sorted(likely, key=lambda one: (one[0] not in named, -one[0])):
        if left[node] > 0:
            left[node] -= 1
            taken.add(rank)
    return taken


def _singles(run: Run, only: Container[int] | None = None) -> list[Run]:
    """The ranks of a run one by one, or those of them that are named."""
    ranks = range(run.rank, run.rank + run.members)
    return [Run(rank, run.node, 1) for rank in ranks if only is None or rank in only]


def _joined(runs: Iterable[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in sorted(runs):
        if joined and joined[-1].node == run.node and joined[-1].rank + joined[-1].members == run.rank:
            joined[-1] = joined[-1]._replace(members=joined[-1].members + run.members)
        else:
            joined.append(run)
    return joined


def _beside(gap: Run, survivors: Sequence[Run]) -> tuple[int, ...]:
    """Nodes of the surviving ranks next to a gap, and the one that was lost, as a hint of where it stood."""
    before = [run.node for run in survivors if run.rank < gap.rank][-1:]
    behind = [run.node for run in survivors if run.rank > gap.rank][:1]
    return (*before, *behind, gap.node)


def _misfit(
    place: Sequence[int], count: int, beside: Sequence[int], view: View | None, order: int
) -> tuple[bool, int, int, int]:
    node, room = place
    known = [other for other in beside if 0 <= other < len(view.nodes)] if view is not None else []
    away = sum(distance(view, node, other) for other in known) if view is not None else 0
    return room < count, abs(room - count), away, order


def _pairs(seats: Seats) -> Iterable[tuple[int, int]]:
    return zip(seats.nodes, seats.counts, strict=True)


def _seats(pairs: Iterable[tuple[int, int]], shape: int) -> Seats:
    """Seats from (node, count) in rank order, neighbours on one node joined."""
    nodes: list[int] = []
    counts: list[int] = []
    for node, count in pairs:
        if count and nodes and nodes[-1] == node:
            counts[-1] += count
        elif count:
            nodes.append(node)
            counts.append(count)
    return Seats(tuple(nodes), tuple(counts), shape)
