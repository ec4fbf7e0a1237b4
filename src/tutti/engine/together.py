"""Several roles at once: one after the other in a few orders, and where that fails the exact search."""

import numpy as np

from .desk import Desk
from .estimate import leading_role
from .model import Cap, Coupling, Job
from .pack import Bin, Packed, Want, pack
from .place import Need, Outlook, Seating
from .profile import Bools
from .sizes import Sizes
from .whole import allowed, seat_role

CELLS_PER_STEP = 2_500
"""Array cells of the exact search that count as one step of the decision's effort."""


class Stay:
    """A gang, on given shapes, during given time: what every attempt to seat its roles has in common."""

    def __init__(self, desk: Desk, job: Job, needs: tuple[Need, ...], start: int, end: int) -> None:
        self.desk = desk
        self.job = job
        self.needs = needs
        self.start = start
        self.end = end

    def seat(self, goal: list[int]) -> list[Seating] | None:
        """Seats for exactly so many members of each role."""
        sizes = [Sizes(size, size, size, (size,)) for size in goal]
        if not self.job.gang.within:
            found = self._in_some_order(sizes, None)
            return found or self._exactly(goal)
        for inside in self._domains(self.job.gang.within, goal):
            found = self._in_some_order(sizes, inside)
            if found is not None:
                return found
        return self._exactly(goal)

    def _in_some_order(self, sizes: list[Sizes], inside: Bools | None) -> list[Seating] | None:
        total = self.desk.view.total
        hardest = sorted(range(len(sizes)), key=lambda i: (-_scarcity(self.needs[i], total), i))
        for order in (hardest, hardest[::-1]):
            found = self._in_order(sizes, order, inside)
            if found is not None:
                return found
        return None

    def _in_order(self, sizes: list[Sizes], order: list[int], inside: Bools | None) -> list[Seating] | None:
        found: dict[int, Seating] = {}
        receipts = []
        for at in order:
            seating = Seating.empty()
            if sizes[at].want:
                within = inside if self._is_bound(at) else None
                if within is not None:
                    within = within[self.desk.profile.origins()] if len(within) < self.desk.profile.count else within
                chosen = seat_role(self.desk, self.job, self.needs[at], sizes[at], self.start, self.end, within)
                if chosen is None:
                    break
                seating = chosen
                take = self.desk.profile.take
                receipts.append(take(self.start, self.end, seating.positions, seating.counts, self.needs[at].ask))
            found[at] = seating
        for receipt in receipts:
            self.desk.profile.give(receipt)
        return [found[at] for at in range(len(sizes))] if len(found) == len(sizes) else None

    def _is_bound(self, role: int) -> bool:
        return self.job.gang.roles[role].coupling is Coupling.GANG

    def _domains(self, level: str, goal: list[int]) -> list[Bools]:
        """Domains in which each role alone has room, the tightest first; as marks on the view's classes."""
        view, profile = self.desk.view, self.desk.profile
        first, last = profile.slots(self.start, self.end)
        room = None
        for at, need in enumerate(self.needs):
            if not goal[at] or not self._is_bound(at):
                continue
            mask = allowed(self.desk, self.job, need, self.start, self.end)
            sums = Outlook(profile, need, first, last, mask).sums(level)
            here = np.where(sums >= goal[at], sums, -1)
            room = here if room is None else np.where((room < 0) | (here < 0), -1, room + here)
        if room is None:
            return []
        holding = [int(d) for d in np.argsort(room, kind="stable") if room[d] >= 0]
        columns = view.topology.domains(level)[view.class_kind]
        return [columns == domain for domain in holding]

    def _exactly(self, goal: list[int]) -> list[Seating] | None:
        wants = [self._want(at, size) for at, size in enumerate(goal)]
        columns, bins = self._bins()
        budget = max(self.desk.steps, 0) * CELLS_PER_STEP
        found = pack(wants, bins, self.job.gang.within, budget, self._charge)
        return self._seatings(found, columns) if isinstance(found, Packed) else None

    def _charge(self, cells: int) -> None:
        self.desk.spend(self.job, -(-cells // CELLS_PER_STEP))

    def _want(self, at: int, size: int) -> Want:
        need = self.needs[at]
        role = need.role
        ask = [0] * len(self.desk.view.resources)
        for resource, amount in need.ask:
            ask[resource] = amount
        caps = role.caps + tuple(Cap(near.level, 1) for near in role.repels if near.mark in role.marks)
        return Want(size, tuple(ask), role.within, role.segment, caps, self._is_bound(at))

    def _bins(self) -> tuple[list[int], list[Bin]]:
        profile, topology = self.desk.profile, self.desk.view.topology
        first, last = profile.slots(self.start, self.end)
        fits = [
            Outlook(profile, need, first, last, allowed(self.desk, self.job, need, self.start, self.end)).fits
            for need in self.needs
        ]
        some = np.flatnonzero(sum(np.minimum(f, 1) for f in fits) * profile.weight[: profile.count])
        columns = sorted(some.tolist(), key=lambda c: int(profile.positions()[c]))
        room = [profile.room(first, last, r).astype(np.int64) * u for r, u in enumerate(profile.units)]
        bins = []
        for column in columns:
            kind = topology.kinds[int(profile.kind[column])]
            path = tuple((topology.level_of(domain), domain) for domain in kind.domains)
            free = tuple(max(int(lane[column]), 0) for lane in room)
            bins.append(Bin(int(profile.weight[column]), free, tuple(int(f[column]) for f in fits), path))
        return columns, bins

    def _seatings(self, found: Packed, columns: list[int]) -> list[Seating]:
        used: dict[int, int] = {}
        places: list[list[tuple[int, int]]] = [[] for _ in self.needs]
        for part in found.parts:
            skip = used.get(part.bin, 0)
            used[part.bin] = skip + part.nodes
            nodes = self.desk.profile.nodes_in(columns[part.bin], skip + part.nodes)[skip:]
            for role, members in enumerate(part.members):
                places[role] += [(int(node), members) for node in nodes if members]
        return [_seating(sorted(place)) for place in places]


def seat_roles(
    desk: Desk, job: Job, needs: tuple[Need, ...], sizes: list[Sizes], start: int, end: int
) -> list[Seating] | None:
    """Seats for all roles of a gang during one stay: as wanted, else its minimum and then as much as fits."""
    stay = Stay(desk, job, needs, start, end)
    wanted, least = [size.want for size in sizes], [size.low for size in sizes]
    found = stay.seat(wanted)
    if found is not None or wanted == least:
        return found
    found = stay.seat(least)
    if found is None:
        return None
    found = _enlarged(stay, sizes, found)
    return found if any(len(seating.counts) for seating in found) else None


def _enlarged(stay: Stay, sizes: list[Sizes], found: list[Seating]) -> list[Seating]:
    """The same with as many more members of the role that sets the pace (and then of the others) as fit."""
    goal = [int(seating.counts.sum()) for seating in found]
    lead = leading_role(stay.job.gang)
    for role in sorted(range(len(goal)), key=lambda at: (at != lead, at)):
        legal = [size for size in sizes[role].legal if goal[role] < size <= sizes[role].want]
        low, high = 0, len(legal)
        while low < high:
            middle = (low + high) // 2
            more = stay.seat([*goal[:role], legal[middle], *goal[role + 1 :]])
            if more is None:
                high = middle
            else:
                found, low = more, middle + 1
        if low:
            goal[role] = legal[low - 1]
    return found


def _scarcity(need: Need, total: list[int]) -> int:
    return need.main_amount * 1_000_000 // max(total[need.main], 1) if need.main >= 0 else 0


def _seating(places: list[tuple[int, int]]) -> Seating:
    return Seating(np.array([node for node, _ in places], np.intp), np.array([count for _, count in places], np.int64))
