"""Who else will be there? Marks to keep away from or close to, wide gangs, and what domains have left."""

from collections.abc import Iterator

import numpy as np

from .desk import Desk
from .model import Arrange, Job, Seats
from .place import Need
from .plan import GIVES_SEATS
from .profile import Bools


def closed_to(desk: Desk, job: Job, need: Need, start: int, end: int) -> Bools | None:
    """Columns that company, windows or domains close to this need during a stay; None where nothing does."""
    view, closed = desk.view, None
    role = need.role
    rules = [_in_window(desk, job, start, end)] if view.windows else []
    rules += [_near(desk, near.mark, near.level, start, end, job.gang.name) for near in role.repels]
    rules += [~_near(desk, near.mark, near.level, start, start + 1, "") for near in role.needs]
    if role.marks:
        rules.append(_kept_away(desk, role.marks, start, end, job.gang.name))
    if job.gang.domain_ask:
        rules.append(_domain_lacks(desk, job, start, end))
    if desk.policy.place.one_wide_gang_per_node and not _stays_on_one_node(desk, job, need, start, end):
        rules.append(_beside_wide(desk, job, start, end))
    for rule in rules:
        closed = rule if closed is None else closed | rule
    return closed


def keep_windows_apart(desk: Desk) -> None:
    """Nodes of a window are unlike the others, so they get columns of their own."""
    for _, window in sorted(desk.view.windows.items()):
        if window.end > desk.now:
            desk.profile.isolate(_positions(desk, window.nodes))
            desk.profile.moments_to_mark += [window.start, window.end]
            desk.wake(window.start)
            desk.wake(window.end)


def _positions(desk: Desk, names: tuple[str, ...]) -> "np.ndarray":
    index = desk.view.node_index
    return np.sort(desk.view.line[[index[name] for name in names if name in index]])


def _in_window(desk: Desk, job: Job, start: int, end: int) -> Bools:
    closed = np.zeros(desk.profile.count, np.bool_)
    gang = job.gang
    mine = {f"queue:{gang.queue}", f"user:{gang.user}", f"gang:{gang.name}"}
    for window in desk.view.windows.values():
        if window.start < end and start < window.end and mine.isdisjoint(window.allow):
            closed[desk.profile.columns_of(_positions(desk, window.nodes))] = True
    return closed


def _near(desk: Desk, mark: str, level: str, start: int, end: int, but: str) -> Bools:
    """Columns near a mark at some time of a stay; a whole domain is near when one of its nodes is."""
    profile = desk.profile
    marked = np.zeros(profile.count, np.bool_)
    for there, seats in _present(desk, start, end, but):
        for role, held in zip(there.gang.roles, seats, strict=True):
            if mark in role.marks and held.nodes:
                marked[profile.columns_of(desk.view.line[list(held.nodes)])] = True
    for number, trait in enumerate(desk.view.traits):
        if trait is not None and mark in trait.foreign_marks:
            marked |= profile.descends_from(number)
    return _widened(desk, marked, level)


def _kept_away(desk: Desk, marks: tuple[str, ...], start: int, end: int, but: str) -> Bools:
    """Columns near a gang that keeps away from one of these marks."""
    profile = desk.profile
    closed = np.zeros(profile.count, np.bool_)
    for there, seats in _present(desk, start, end, but):
        levels = {near.level for role in there.gang.roles for near in role.repels if near.mark in marks}
        if levels:
            mine = np.zeros(profile.count, np.bool_)
            mine[profile.columns_of(desk.view.line[[node for held in seats for node in held.nodes]])] = True
            for level in levels:
                closed |= _widened(desk, mine, level)
    return closed


def _widened(desk: Desk, marked: Bools, level: str) -> Bools:
    """These columns, and all others in their domains of a level."""
    if level == "node" or not marked.any():
        return marked
    profile = desk.profile
    domains = desk.view.topology.domains(level)[profile.kind[: profile.count]]
    return marked | np.isin(domains, np.unique(domains[marked & (domains >= 0)]))


def _present(desk: Desk, start: int, end: int, but: str) -> Iterator[tuple[Job, tuple[Seats, ...]]]:
    """Every gang that is seated at some time of a stay, and its seats."""
    ends = desk.ends()
    for slot in desk.view.seated:
        job = desk.view.held(slot)
        if int(ends[slot]) > start and job.gang.name != but:
            yield job, job.life.seats
    for begin, stop, job, seats, _ in desk.stays.values():
        if begin < end and start < stop and job.gang.name != but:
            yield job, seats


def _beside_wide(desk: Desk, job: Job, start: int, end: int) -> Bools:
    """Columns that a gang keeps away from which spans several nodes, or will; on its only node it may always grow."""
    closed = _with_wide(desk, start, end, job.gang.name)
    nodes = {node for held in job.life.seats for node in held.nodes}
    if len(nodes) == 1 and closed[mine := desk.profile.columns_of(desk.view.line[list(nodes)])].all():
        closed[:] = True
        closed[mine] = False
    return closed


def _planned(desk: Desk, job: Job) -> tuple[Seats, ...]:
    """Seats that this plan gives to a gang that runs."""
    if job.gang.name not in desk.disturbed:
        return desk.grown.get(job.gang.name, ())
    given = (action for action in desk.actions if isinstance(action, GIVES_SEATS) and action.gang == job.gang.name)
    return tuple(held for action in given for held in action.seats)


def _with_wide(desk: Desk, start: int, end: int, but: str) -> Bools:
    """Columns with a member of a gang that spans several nodes."""
    closed = np.zeros(desk.profile.count, np.bool_)
    ends = desk.ends()
    staying = [desk.view.held(slot) for slot in desk.view.seated if int(ends[slot]) > start]
    stays = [(job, (*job.life.seats, *job.life.target, *_planned(desk, job))) for job in staying]
    stays += [(job, seats) for begin, stop, job, seats, _ in desk.stays.values() if begin < end and start < stop]
    for job, seats in stays:
        nodes = sorted({node for held in seats for node in held.nodes})
        if len(nodes) > 1 and job.gang.name != but:
            closed[desk.profile.columns_of(desk.view.line[nodes])] = True
    return closed


def _stays_on_one_node(desk: Desk, job: Job, need: Need, start: int, end: int) -> bool:
    """Whether it is certain that all members would share a node. Who might not is taken for wide."""
    want = need.sizes()[1]
    if len(job.gang.roles) > 1 or job.life.seats:
        return False
    if need.one_node or want == 1:
        return True
    if need.level or need.share or need.role.near or need.role.arrange is Arrange.SPREAD:
        return False
    first, last = desk.profile.slots(start, end)
    most = int(desk.profile.members(first, last, need.ask, desk.mask(need)).max(initial=0))
    return (min(most, need.per_node) if need.per_node else most) >= want


def _domain_lacks(desk: Desk, job: Job, start: int, end: int) -> Bools:
    closed = np.zeros(desk.profile.count, np.bool_)
    for level, ask in job.gang.domain_ask.items():
        domains = desk.view.topology.domains(level)[desk.profile.kind[: desk.profile.count]]
        good = [d for d in np.unique(domains).tolist() if d >= 0 and _domain_holds(desk, level, d, ask, start, end)]
        closed |= ~np.isin(domains, good)
    return closed


def _domain_holds(desk: Desk, level: str, domain: int, ask: dict[str, int], start: int, end: int) -> bool:
    left = dict(desk.view.domain_free.get(domain, {}))
    ends = desk.ends()
    for slot in desk.view.seated:
        job = desk.view.held(slot)
        if int(ends[slot]) <= start and level in job.gang.domain_ask and _uses(desk, job.life.seats, level, domain):
            for name, amount in job.gang.domain_ask[level].items():
                left[name] = left.get(name, 0) + amount
    for begin, stop, job, seats, _ in desk.stays.values():
        if begin < end and start < stop and level in job.gang.domain_ask and _uses(desk, seats, level, domain):
            for name, amount in job.gang.domain_ask[level].items():
                left[name] = left.get(name, 0) - amount
    return all(left.get(name, 0) >= amount for name, amount in ask.items())


def _uses(desk: Desk, seats: tuple[Seats, ...], level: str, domain: int) -> bool:
    view = desk.view
    nodes = [node for held in seats for node in held.nodes]
    return bool((view.topology.domains(level)[view.class_kind[view.class_of[nodes]]] == domain).any())
