"""May a gang use room that is kept for another? Where it can be parked, until that one's time comes.

Who waits for many nodes keeps them idle as they free. A gang that loses nothing when it is parked runs there meanwhile.
The start that was promised is not delayed by it: to whoever plans, lent room is free when its borrower can be gone.
"""

from .cache import Card
from .desk import Desk, Stay
from .lineup import may_ever_borrow
from .model import Job
from .place import Need
from .plan import Evict, How
from .reclaim import has_budget, is_settled, loss, may_be_interrupted, min_run
from .releases import lent
from .reserve import are_free, hold_again
from .whole import Sitting, sit_at


def may_borrow(desk: Desk, job: Job) -> bool:
    """Whether the gang may be put into room that is kept for another."""
    if not desk.promised or not may_ever_borrow(job.gang, desk.policy):
        return False
    return job.life.promise is None and job.life.pledge is None and not desk.is_strict and has_budget(desk, job)


def borrowed(desk: Desk, job: Job, card: Card) -> Sitting | None:
    """Seats in room that is kept for others, until it may be asked back; None where there are none for long enough."""
    if not may_borrow(desk, job) or (card.kin.simple and card.low > desk.rooms.room(card)):
        return None
    most = max(desk.policy.reserve.lend, min_run(desk, job) + desk.policy.reclaim.grace)
    failed = desk.unlent.get((card.kin.alike, most)) if card.kin.simple else None
    if failed is not None and failed <= card.low:
        return None
    sitting = sit_at(desk, job, desk.now, most=most)
    if sitting is None and card.kin.simple:
        desk.unlent[card.kin.alike, most] = card.low
    return sitting


def ask_back(desk: Desk) -> None:
    """Who runs in room that is needed soon by the gang it was promised to is parked in time."""
    borrowers = lent(desk.view)
    if not borrowers:
        return
    grace = desk.policy.reclaim.grace
    for name, stay in list(desk.stays.items()):
        if name in desk.started or stay[0] <= desk.now:
            continue
        if stay[0] > desk.now + grace:
            desk.wake(stay[0] - grace)
            continue
        for slot in _in_the_way(desk, stay, borrowers):
            other = desk.view.held(slot)
            desk.disturbed.add(other.gang.name)
            why = f"its room was lent to it, and {name} needs it now"
            desk.act(Evict(other.gang.name, desk.view.number, (), loss(desk, other), How.PARK, name, stay[0], why))


def _in_the_way(desk: Desk, stay: Stay, borrowers: list[int]) -> list[int]:
    """Borrowers without whose leaving the gang could not sit; those who would lose the most are spared first."""
    job, nodes = stay[2], {node for held in stay[3] for node in held.nodes}
    there = [slot for slot in borrowers if _sits_on(desk.view.held(slot), nodes)]
    found: list[int] = []
    desk.unseat(job)
    receipts: list[int] = []
    for slot in sorted(there, key=lambda slot: (-loss(desk, desk.view.held(slot)), slot)):
        kept = _stays_on(desk, slot)
        if _are_free(desk, stay):
            receipts += kept
            continue
        _give(desk, kept)
        if is_settled(desk, desk.view.held(slot)) and may_be_interrupted(desk, desk.view.held(slot)):
            found.append(slot)
    _give(desk, receipts)
    hold_again(desk, job, stay)
    return found


def _sits_on(job: Job, nodes: set[int]) -> bool:
    return any(node in nodes for held in job.life.seats for node in held.nodes)


def _stays_on(desk: Desk, slot: int) -> list[int]:
    """Let a borrower stay until it would end by itself."""
    job, leaves = desk.view.held(slot), desk.end_of(slot)
    end = max(int(desk.view.ends[slot, 2]), leaves + 1)
    receipts = []
    for role, held in enumerate(job.life.seats):
        if held.nodes:
            seating, ask = desk.seating(held), desk.needs(job)[role][held.shape].ask
            receipts.append(desk.profile.take(leaves, end, seating.positions, seating.counts, ask))
    return receipts


def _are_free(desk: Desk, stay: Stay) -> bool:
    start, end, job, seats, _ = stay
    needs: tuple[tuple[Need, ...], ...] = desk.needs(job)
    return all(
        are_free(desk, job, needs[role][held.shape], held, start, end) for role, held in enumerate(seats) if held.nodes
    )


def _give(desk: Desk, receipts: list[int]) -> None:
    for receipt in receipts:
        desk.profile.give(receipt)
