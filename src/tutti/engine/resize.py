"""Which running gangs change their size? Loose ones get whatever fits, elastic ones members where they add the most.

A gang whose owner wants fewer members than it has gives the others back.
"""

import heapq
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from .desk import Desk
from .estimate import leading_role
from .model import SECOND, Coupling, Job, Resizing, Role, Seats, State
from .place import Need, Outlook, Seating
from .plan import Grow, Shrink
from .profile import Bools
from .ranks import cut, grown
from .sizes import largest_legal, marginal, next_legal, role_rule
from .topology import NODE
from .whole import allowed

ASK_AGAIN = 10 * SECOND
"""A gang that was just resized, or has just refused to be, is not asked again before this time is over."""


def fill_loose(desk: Desk) -> None:
    """Members of loose roles start one by one wherever there is room that delays nobody's promise."""
    for job in _running(desk):
        seats = job.life.seats
        for role, need in enumerate(_needs(desk, job)):
            if job.gang.roles[role].coupling is Coupling.LOOSE:
                missing = desk.sizes(job, role, need.shape).want - seats[role].members
                seats = _more(desk, job, seats, role, missing, legal_only=False)
        if seats != job.life.seats:
            desk.act(Grow(job.gang.name, desk.view.number, seats=seats))
            desk.disturbed.add(job.gang.name)


def give_back(desk: Desk) -> None:
    """Elastic gangs that may no longer be as large as they are shrink to the largest size that is left to them."""
    pause = min(ASK_AGAIN, desk.policy.grow.cool_down)
    for job in _running(desk):
        if not job.gang.sheds or job.gang.resizing is not Resizing.LIVE:
            continue
        seats = tuple(_at_most(desk, job, role, held) for role, held in enumerate(job.life.seats))
        if seats == job.life.seats:
            continue
        if job.life.resized + pause > desk.now:
            desk.wake(job.life.resized + pause)
        else:
            by = desk.now + desk.policy.reclaim.grace
            desk.act(Shrink(job.gang.name, desk.view.number, seats=seats, by=by))
            desk.disturbed.add(job.gang.name)


def _at_most(desk: Desk, job: Job, role: int, held: Seats) -> Seats:
    """The seats of a role, without those beyond what it may have."""
    found = desk.sizes(job, role, held.shape)
    if held.members <= found.high:
        return held
    size = largest_legal(role_rule(job.gang.roles[role]), found.low, found.high)
    return cut(held, size) if size is not None and size in found.legal else held


def grow(desk: Desk) -> None:
    """Elastic gangs grow, the one first whose next member adds the most."""
    if not desk.policy.grow.on:
        return
    jobs = {job.gang.name: job for job in _running(desk) if job.gang.resizing is Resizing.LIVE}
    seats = {name: job.life.seats for name, job in jobs.items()}
    steps = {name: _next_step(desk, job, seats[name]) for name, job in jobs.items()}
    heap = [(-step[0], name, step[1]) for name, step in steps.items() if step]
    heapq.heapify(heap)
    while heap:
        _, name, size = heapq.heappop(heap)
        job = jobs[name]
        role = leading_role(job.gang)
        bigger = _more(desk, job, seats[name], role, size - seats[name][role].members, legal_only=True)
        if bigger == seats[name]:
            continue
        seats[name] = bigger
        if step := _next_step(desk, job, bigger):
            heapq.heappush(heap, (-step[0], name, step[1]))
    for name in sorted(seats):
        if seats[name] != jobs[name].life.seats:
            desk.act(Grow(name, desk.view.number, seats=seats[name]))
            desk.disturbed.add(name)


def _running(desk: Desk) -> list[Job]:
    """Gangs that may change now: running, not asked to change already, not touched by this plan."""
    jobs = (desk.view.held(slot) for slot in desk.view.watched)
    return [
        job
        for job in jobs
        if job.life.state is State.RUNNING
        and not (job.life.target and job.life.target_by > desk.now)
        and job.gang.name not in desk.disturbed
    ]


def _needs(desk: Desk, job: Job) -> list[Need]:
    """The needs of a running gang on the shapes it runs on."""
    return [needs[held.shape] for needs, held in zip(desk.needs(job), job.life.seats, strict=True)]


def _next_step(desk: Desk, job: Job, seats: tuple[Seats, ...]) -> tuple[int, int] | None:
    """What the next legal size would add for each new member, and that size; None where it may not grow."""
    rules = desk.policy.grow
    role = leading_role(job.gang)
    if job.gang.roles[role].coupling is Coupling.LOOSE or _is_dealt_out(job.gang.roles[role]):
        return None
    if job.life.resized + rules.cool_down > desk.now:
        desk.wake(job.life.resized + rules.cool_down)
        return None
    found = desk.sizes(job, role, seats[role].shape)
    size = next_legal(role_rule(job.gang.roles[role]), seats[role].members, found.high)
    if size is None or size not in found.legal:
        return None
    gain = marginal(job.gang.speed, seats[role].members, size)
    return (gain, size) if gain >= rules.least_gain else None


def _is_dealt_out(role: Role) -> bool:
    """Whether so many members belong into each domain; such a role changes size only by a restart."""
    return any(cap.level != NODE for cap in role.caps) or any(near.level != NODE for near in role.repels)


def _more(
    desk: Desk, job: Job, seats: tuple[Seats, ...], role: int, members: int, *, legal_only: bool
) -> tuple[Seats, ...]:
    """The seats with so many more members of a role (or, unless all are needed, as many as fit); taken."""
    need = _needs(desk, job)[role]
    end = max(desk.end_of(desk.slot(job)), desk.now + 1)
    if not legal_only:
        # Who joins late is taken to run as long as the others do, or for as long as the others did.
        end = max(end, desk.now + desk.length(job))
        members = _within_quota(desk, job, need, members, end)
    if members <= 0:
        return seats
    seating = _place(desk, job, need, seats[role], members, end, legal_only=legal_only)
    if seating is None or _over_quota(desk, job, need, int(seating.counts.sum()), end):
        return seats
    desk.profile.take(desk.now, end, seating.positions, seating.counts, need.ask)
    total, floor = _added(desk, need, int(seating.counts.sum()))
    desk.shares.enter(job.gang, total, floor, starts=False)
    desk.spoken_for.grows(job, total, end)
    nodes = desk.view.by_line[seating.positions].tolist()
    bigger = grown(desk.view, seats[role], nodes, seating.counts.tolist(), job.gang.roles[role].segment)
    after = desk.grown[job.gang.name] = (*seats[:role], bigger, *seats[role + 1 :])
    return after


def _within_quota(desk: Desk, job: Job, need: Need, members: int, end: int) -> int:
    """So many more members, or as many as no limit forbids."""
    if not desk.rules.limited or not _over_quota(desk, job, need, members, end):
        return members
    return bisect_left(range(1, members), 1, key=lambda more: _over_quota(desk, job, need, more, end))


def _over_quota(desk: Desk, job: Job, need: Need, members: int, end: int) -> bool:
    """Whether so many more members would break a limit, now or when a promise falls due."""
    total, floor = _added(desk, need, members)
    return bool(desk.shares.blocked(job, total, floor)) or not desk.spoken_for.allows(job, desk.now, end, total)


def _added(desk: Desk, need: Need, members: int) -> tuple[list[int], list[int]]:
    total = [0] * len(desk.view.resources)
    for resource, amount in need.ask:
        total[resource] = members * amount
    return total, [0] * len(total)


def _place(
    desk: Desk, job: Job, need: Need, held: Seats, members: int, end: int, *, legal_only: bool
) -> Seating | None:
    profile = desk.profile
    first, last = profile.slots(desk.now, end)
    mask = allowed(desk, job, need, desk.now, end)
    inside = same_domain(desk, need, held)
    if not legal_only:
        # Who joins later belongs where the others are.
        inside = inside & whole_domain(desk, job, job.life.seats)
    outlook = Outlook(profile, need, first, last, mask & inside)
    _leave_room_for_held(desk, outlook, need, held)
    room = outlook.capacity()
    size = min(room, members) if not legal_only else members if room >= members else 0
    return outlook.choose(size) if size else None


def same_domain(desk: Desk, need: Need, held: Seats) -> Bools:
    """Columns in the domain that the role (or the gang) is bound to, given where its members already sit."""
    return _around(desk, NODE if need.one_node else need.level, held.nodes)


def whole_domain(desk: Desk, job: Job, seats: Sequence[Seats]) -> Bools:
    """Columns in the domain that the whole gang is bound to, given where members of any of its roles sit."""
    coupled = zip(job.gang.roles, seats, strict=True)
    nodes = [node for role, held in coupled if role.coupling is Coupling.GANG for node in held.nodes]
    return _around(desk, job.gang.within, nodes)


def _around(desk: Desk, level: str, nodes: Sequence[int]) -> Bools:
    """Columns in the domain of a level that the first of these nodes is in; all where there is none."""
    profile = desk.profile
    if not level or not nodes:
        return np.ones(profile.count, np.bool_)
    if level == NODE:
        mine = profile.columns_of(desk.view.line[[nodes[0]]])
        return np.asarray(np.isin(np.arange(profile.count), mine), np.bool_)
    domains = desk.view.topology.domains(level)
    here = domains[desk.view.class_kind[desk.view.class_of[nodes[0]]]]
    return np.asarray(domains[profile.kind[: profile.count]] == here, np.bool_)


def _leave_room_for_held(desk: Desk, outlook: Outlook, need: Need, held: Seats) -> None:
    """Members that already sit on a node count against its cap."""
    if not need.per_node:
        return
    columns = desk.profile.columns_of(desk.view.line[list(held.nodes)])
    fits = outlook.fits.copy()
    for column, count in zip(columns.tolist(), held.counts, strict=True):
        fits[column] = max(min(int(fits[column]), need.per_node - count), 0)
    outlook.fits = fits
