"""What happens after a loss? Lost members get a place again, or the gang shrinks, restarts or fails, by its policy."""

from collections.abc import Iterator

from .desk import Desk
from .model import NEVER, Coupling, Job, OnLoss, Resizing, Seats, State
from .place import Need, Outlook, Seating
from .plan import Evict, Fail, How, Migrate, Repair, Restart, Shrink
from .profile import Bools
from .ranks import cut, refill
from .resize import same_domain, whole_domain
from .sizes import largest_legal, role_rule
from .whole import allowed


def mend(desk: Desk) -> None:
    """First of all: a broken gang holds its seats without computing, so nothing is worth more than mending it."""
    for job in _broken(desk):
        before = len(desk.actions)
        _mend_one(desk, job)
        if len(desk.actions) > before:
            desk.disturbed.add(job.gang.name)


def _broken(desk: Desk) -> list[Job]:
    jobs = (desk.view.held(slot) for slot in desk.view.watched)
    broken = [job for job in jobs if job.life.state is State.DEGRADED and not _is_only_loose(job)]
    return sorted(broken, key=lambda job: (-job.gang.priority, job.life.since, job.gang.name))


def _is_only_loose(job: Job) -> bool:
    """Loose members that are lost are simply started again."""
    roles = zip(job.gang.roles, job.life.lost, strict=True)
    return all(role.coupling is Coupling.LOOSE or not lost.nodes for role, lost in roles)


def _mend_one(desk: Desk, job: Job) -> None:
    match job.gang.on_loss:
        case OnLoss.FAIL:
            desk.act(Fail(job.gang.name, desk.view.number, why="a member was lost"))
        case OnLoss.RESTART:
            _restart(desk, job, "a member was lost")
        case OnLoss.SHRINK:
            if not _shrink(desk, job):
                _repair_or_hold(desk, job)
        case OnLoss.REPAIR:
            if not (_was_too_large(desk, job) and _shrink(desk, job)):
                _repair_or_hold(desk, job)


def _restart(desk: Desk, job: Job, why: str) -> None:
    if job.life.restarts >= job.gang.restart_limit:
        desk.act(Fail(job.gang.name, desk.view.number, why=f"{why}, and it was restarted {job.life.restarts} times"))
    else:
        desk.act(Restart(job.gang.name, desk.view.number, why=why))


def _was_too_large(desk: Desk, job: Job) -> bool:
    """Whether its owner had made it smaller than it was: who is missing was not wanted any more."""
    roles = zip(job.life.seats, job.life.lost, strict=True)
    return job.gang.sheds and any(
        held.members + lost.members > desk.sizes(job, role, held.shape).high for role, (held, lost) in enumerate(roles)
    )


def _shrink(desk: Desk, job: Job) -> bool:
    """Go on with those who are left, at a legal size."""
    if job.gang.resizing is not Resizing.LIVE:
        return False
    seats = []
    for role, held in enumerate(job.life.seats):
        found = desk.sizes(job, role, held.shape)
        most = min(held.members, found.high)
        size = largest_legal(role_rule(job.gang.roles[role]), found.low, most) if most else None
        if not size or size not in found.legal:
            return False
        seats.append(cut(held, size))
    by = desk.now + desk.policy.reclaim.grace
    desk.act(Shrink(job.gang.name, desk.view.number, seats=tuple(seats), by=by))
    return True


def _repair_or_hold(desk: Desk, job: Job) -> None:
    seats = _repaired(desk, job)
    if seats is not None:
        desk.act(Repair(job.gang.name, desk.view.number, seats=seats))
        return
    until = job.life.since + (job.gang.hold_up_to or desk.policy.repair.hold_up_to)
    desk.wake(until)
    if until <= desk.now:
        _restart(desk, job, "a lost member found no place in time")


def _repaired(desk: Desk, job: Job) -> tuple[Seats, ...] | None:
    """The seats with every lost member in a new place, or None; what is needed is taken."""
    seats = list(job.life.seats)
    receipts: list[int] = []
    for role, lost in enumerate(job.life.lost):
        if not lost.nodes or job.gang.roles[role].coupling is Coupling.LOOSE:
            continue
        places = _new_places(desk, job, role, lost.members, seats, receipts)
        if places is None:
            for receipt in receipts:
                desk.profile.give(receipt)
            return None
        seats[role] = refill(seats[role], lost, job.life.lost_ranks[role], places, desk.view)
    return tuple(seats)


def _new_places(
    desk: Desk, job: Job, role: int, members: int, seats: list[Seats], receipts: list[int]
) -> list[tuple[int, int]] | None:
    """Spares first, then the same domain, then anywhere legal."""
    places = _from_spares(job, role, members, seats)
    members -= sum(count for _, count in places)
    if not members:
        return places
    need = desk.needs(job)[role][seats[role].shape]
    together = whole_domain(desk, job, seats)
    for inside in _near_first(desk, need, seats[role]):
        found = _find(desk, job, need, members, inside & together)
        if found is not None:
            end = max(desk.end_of(desk.slot(job)), desk.now + 1)
            receipts.append(desk.profile.take(desk.now, end, found.positions, found.counts, need.ask))
            nodes = desk.view.by_line[found.positions].tolist()
            return [*places, *zip(nodes, found.counts.tolist(), strict=True)]
    return None


def _from_spares(job: Job, role: int, members: int, seats: list[Seats]) -> list[tuple[int, int]]:
    """Idle members that the gang keeps for this role step in."""
    name = job.gang.roles[role].name
    places: list[tuple[int, int]] = []
    for other, spare in enumerate(job.gang.roles):
        if spare.spare_for == name and members:
            used = min(members, seats[other].members)
            kept = cut(seats[other], seats[other].members - used)
            places += list(_dropped(seats[other], kept))
            seats[other] = kept
            members -= used
    return places


def _dropped(before: Seats, after: Seats) -> Iterator[tuple[int, int]]:
    kept = dict.fromkeys(before.nodes, 0) | dict(zip(after.nodes, after.counts, strict=True))
    for node, count in zip(before.nodes, before.counts, strict=True):
        if count > kept[node]:
            yield node, count - kept[node]


def _near_first(desk: Desk, need: Need, held: Seats) -> Iterator[Bools]:
    """Columns in ever wider domains around the survivors, up to what the gang allows."""
    profile, topology = desk.profile, desk.view.topology
    bound = same_domain(desk, need, held)
    if held.nodes:
        kind = topology.kinds[int(desk.view.class_kind[desk.view.class_of[held.nodes[0]]])]
        for domain in reversed(kind.domains):
            column = topology.domains(topology.level_of(domain))[profile.kind[: profile.count]]
            yield bound & (column == domain)
    yield bound


def _find(desk: Desk, job: Job, need: Need, members: int, inside: Bools) -> Seating | None:
    profile = desk.profile
    end = max(desk.end_of(desk.slot(job)), desk.now + 1)
    first, last = profile.slots(desk.now, end)
    mask = allowed(desk, job, need, desk.now, end) & inside[: profile.count]
    outlook = Outlook(profile, need, first, last, mask)
    return outlook.choose(members) if outlook.capacity() >= members else None


def drain(desk: Desk) -> None:
    """Members on draining nodes move in time, or their gang leaves before the deadline."""
    for slot in _on_draining(desk):
        job = desk.view.held(slot)
        nodes = {node for held in job.life.seats for node in held.nodes}
        by = min(until for node, until in desk.view.draining.items() if node in nodes)
        if job.gang.name in desk.disturbed or job.life.state is not State.RUNNING:
            continue
        if desk.end_of(slot) <= by < NEVER:
            desk.wake(desk.end_of(slot))
        else:
            _move_or_leave(desk, job, by)


def _on_draining(desk: Desk) -> list[int]:
    if not desk.view.draining:
        return []
    slots = {slot for node in desk.view.draining for slot, _, _ in desk.view.loads[int(desk.view.class_of[node])]}
    return sorted(slots, key=lambda slot: desk.view.held(slot).gang.name)


def _move_or_leave(desk: Desk, job: Job, by: int) -> None:
    pending = bool(job.life.target) and job.life.target_by > desk.now
    moved = _moved(desk, job) if job.gang.resizing is Resizing.LIVE and not pending else None
    if moved is not None:
        desk.disturbed.add(job.gang.name)
        desk.act(Migrate(job.gang.name, desk.view.number, seats=moved))
        return
    notice = by - desk.policy.reclaim.grace
    if by < NEVER and notice <= desk.now:
        desk.disturbed.add(job.gang.name)
        how = How.PARK if job.gang.parkable else How.REQUEUE
        desk.act(Evict(job.gang.name, desk.view.number, how=how, by=by))
    elif by < NEVER:
        desk.wake(notice)


def _moved(desk: Desk, job: Job) -> tuple[Seats, ...] | None:
    """The seats with every member of a draining node somewhere else; ranks stay."""
    seats: list[Seats] = []
    receipts: list[int] = []
    for role, held in enumerate(job.life.seats):
        runs = list(zip(held.nodes, held.counts, strict=True))
        members = sum(count for node, count in runs if node in desk.view.draining)
        places = _new_places(desk, job, role, members, list(job.life.seats), receipts) if members else []
        if places is None:
            for receipt in receipts:
                desk.profile.give(receipt)
            return None
        seats.append(_replaced(runs, places, desk, held.shape))
    return tuple(seats)


def _replaced(runs: list[tuple[int, int]], places: list[tuple[int, int]], desk: Desk, shape: int) -> Seats:
    """Runs on draining nodes exchanged, in order, for the new places."""
    result: list[tuple[int, int]] = []
    room = [list(place) for place in places]
    for node, count in runs:
        if node not in desk.view.draining:
            result.append((node, count))
            continue
        left = count
        while left:
            used = min(left, room[0][1])
            result.append((room[0][0], used))
            left, room[0][1] = left - used, room[0][1] - used
            if not room[0][1]:
                room.pop(0)
    return Seats(tuple(node for node, _ in result), tuple(count for _, count in result), shape)
