"""Could running gangs move closer together, so that one that waits finds room? Where the policy asks for it."""

from .desk import Desk, wait
from .model import Job, Pledge, Resizing, Seats, Token
from .plan import Await, Migrate
from .reclaim import Victim, is_settled, keep_room, leave, sets_by_cost, would_sit
from .seats import beyond, shared
from .sizes import Sizes
from .whole import Sitting, seat_all


def may_consolidate(desk: Desk) -> bool:
    """Whether moves are made at all."""
    return desk.policy.place.migrate and bool(desk.view.seated)


def consolidate(desk: Desk, job: Job) -> bool:
    """Make room for a gang by moving others whole; True when moves were found that let it start."""
    if not may_consolidate(desk) or not _is_enough(desk, job):
        return False
    found = _movable(desk)
    tries = desk.policy.effort.victims
    for movers in sets_by_cost(found) if found else ():
        if tries == 0:
            break
        tries -= 1
        sitting = would_sit(desk, job, movers)
        elsewhere = _elsewhere(desk, movers, sitting) if sitting is not None else None
        if sitting is not None and elsewhere is not None:
            _move(desk, job, movers, elsewhere, sitting)
            return True
    return False


def _is_enough(desk: Desk, job: Job) -> bool:
    """Whether there is enough of everything in sum: what is lacking is room in one piece."""
    view = desk.view
    free = (view.class_free * (view.class_weight * view.class_ready)).sum(axis=1).tolist()
    return all(asked <= have for asked, have in zip(desk.least_amounts(job), free, strict=True))


def _movable(desk: Desk) -> list[Victim]:
    """Gangs that can move while they run and have not changed their seats for a while, the smallest first."""
    found = []
    for slot in desk.view.seated:
        other = desk.view.held(slot)
        rested = other.life.resized + desk.policy.grow.cool_down
        if other.gang.resizing is not Resizing.LIVE or not is_settled(desk, other) or other.life.lost:
            continue
        if rested > desk.now:
            desk.wake(rested)
        else:
            found.append(Victim(slot, other, (), _cost(other)))
    return sorted(found, key=lambda mover: (mover.cost, mover.job.gang.name))


def _cost(job: Job) -> int:
    """What a move costs, in member-microseconds."""
    told = job.life.progress
    members = sum(held.members for held in job.life.seats)
    return members * max((told.save_cost + told.restart_cost) if told else 0, 1)


def _elsewhere(desk: Desk, movers: list[Victim], sitting: Sitting) -> list[tuple[Seats, ...]] | None:
    """Seats for every mover beside the gang that it makes room for; nothing stays taken."""
    profile = desk.profile
    receipts = [receipt for mover in movers for receipt in leave(desk, mover, desk.now)]
    for need, seating in zip(sitting.needs, sitting.seatings, strict=True):
        if len(seating.positions):
            receipts.append(profile.take(desk.now, sitting.end, seating.positions, seating.counts, need.ask))
    found: list[tuple[Seats, ...]] = []
    for mover in movers:
        seats = _seats(desk, mover, receipts)
        if seats is None:
            break
        found.append(seats)
    for receipt in receipts:
        profile.give(receipt)
    return found if len(found) == len(movers) else None


def _seats(desk: Desk, mover: Victim, receipts: list[int]) -> tuple[Seats, ...] | None:
    """New seats for one mover at the size it has; they are taken."""
    job, end = mover.job, max(desk.end_of(mover.slot), desk.now + 1)
    held = job.life.seats
    needs = tuple(desk.needs(job)[role][given.shape] for role, given in enumerate(held))
    sizes = [Sizes(given.members, given.members, given.members, (given.members,)) for given in held]
    found = seat_all(desk, job, needs, sizes, desk.now, end)
    if found is None:
        return None
    for need, seating in zip(needs, found, strict=True):
        if len(seating.positions):
            receipts.append(desk.profile.take(desk.now, end, seating.positions, seating.counts, need.ask))
    return tuple(desk.seats(need, seating) for need, seating in zip(needs, found, strict=True))


def _move(desk: Desk, job: Job, movers: list[Victim], elsewhere: list[tuple[Seats, ...]], sitting: Sitting) -> None:
    names = tuple(mover.job.gang.name for mover in movers)
    pledge = Pledge(sitting.seats, names, desk.now, desk.now + desk.policy.reclaim.pledge_for)
    at = desk.act(Await(job.gang.name, desk.view.number, pledge=pledge))
    leaving = []
    for mover, seats in zip(movers, elsewhere, strict=True):
        other = mover.job
        desk.disturbed.add(other.gang.name)
        desk.act(Migrate(other.gang.name, desk.view.number, (at,), mover.cost, seats=seats, room_for=job.gang.name))
        _take_new(desk, mover, seats)
        kept = tuple(shared(old, new) for old, new in zip(other.life.seats, seats, strict=True))
        leaving.append(Victim(mover.slot, other, kept, mover.cost))
    keep_room(desk, job, leaving, sitting)
    desk.wake(pledge.expires)
    desk.answer(job, wait(Token.WAITING_FOR_EVICTION, ", ".join(names), *(f"gang:{n}" for n in names), blockers=names))


def _take_new(desk: Desk, mover: Victim, seats: tuple[Seats, ...]) -> None:
    """Until it has moved, a mover has its old seats and its new ones."""
    needs, end = desk.needs(mover.job), max(desk.end_of(mover.slot), desk.now + 1)
    for role, (old, new) in enumerate(zip(mover.job.life.seats, seats, strict=True)):
        more = beyond(new, old)
        if more.nodes:
            seating, ask = desk.seating(more), needs[role][new.shape].ask
            desk.profile.take(desk.now, end, seating.positions, seating.counts, ask)
