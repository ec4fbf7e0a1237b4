"""May a gang use room that is kept for another? Where it can be parked, until that one's time comes.

Who waits for many nodes keeps them idle as they free. A gang that loses nothing when it is parked runs there meanwhile.
The start that was promised is not delayed by it: to whoever plans, lent room is free when its borrower can be gone.
"""

from .cache import Card
from .desk import Desk, Stay
from .lineup import may_ever_borrow
from .model import NEVER, SECOND, Job, State
from .place import Need
from .plan import Evict, How
from .reclaim import all_of, has_budget, loss, min_run
from .releases import lent
from .reserve import are_free, hold_again
from .whole import Sitting, sit_at

EARLY = SECOND
"""Room is asked back so long before it must be: who is woken at a moment is never there before it."""


def may_borrow(desk: Desk, job: Job) -> bool:
    """Whether the gang may be put into room that is kept for another."""
    if not desk.promised or not may_ever_borrow(job.gang, desk.policy):
        return False
    return job.life.promise is None and job.life.pledge is None and not desk.is_strict and has_budget(desk, job)


def borrowed(desk: Desk, job: Job, card: Card) -> Sitting | None:
    """Seats in room that is kept for others, until it may be asked back; None where there are none for long enough."""
    if not may_borrow(desk, job) or (card.kin.simple and card.low > desk.rooms.room(card)):
        return None
    # Whoever would be asked to leave at once is lent nothing.
    most = max(desk.policy.reserve.lend, min_run(desk, job) + _notice(desk) + 1)
    failed = desk.loans.failed.get((card.kin.alike, most)) if card.kin.simple else None
    if failed is not None and failed <= card.low:
        return None
    sitting = sit_at(desk, job, desk.now, most=most)
    if sitting is None and card.kin.simple:
        desk.loans.failed[card.kin.alike, most] = card.low
    if sitting is None or not _is_within_bounds(desk, job, sitting):
        return None
    # From then on somebody has to look when it must be asked; nobody else may come by before that is too late.
    desk.wake(sitting.end - _notice(desk))
    return sitting


def _is_within_bounds(desk: Desk, job: Job, sitting: Sitting) -> bool:
    """Whether no bound of a queue is broken, now or later: nobody is asked to leave for the sake of one."""
    length = desk.length(job, sitting.seats)
    end = NEVER if length >= NEVER else desk.now + length
    if desk.rules.limited:
        total, floor = desk.amounts(job, sitting.seats)
        if desk.shares.blocked(job, total, floor) or not desk.spoken_for.allows(job, desk.now, end, total):
            return False
    desk.loans.stays[job.gang.name] = end
    return True


def leave_alone(desk: Desk) -> None:
    """Somebody starts who was promised to. Room that was lent on behalf of nobody else is its borrower's own."""
    still = {slot for slot in lent(desk.view, desk.started) if slot in desk.loans.borrowers}
    still.update(slot for slot in desk.loans.borrowers if desk.view.held(slot).life.lent <= desk.loans.cleared)
    for slot in desk.loans.borrowers:
        if slot not in still:
            _stays_on(desk, slot, desk.ends_by_itself(slot))
    desk.loans.borrowers = [slot for slot in desk.loans.borrowers if slot in still]


def ask_back(desk: Desk) -> None:
    """Who runs in room that is needed soon by the gang it was promised to is parked in time."""
    borrowers = desk.loans.borrowers
    if not borrowers:
        return
    notice = _notice(desk)
    for name, stay in list(desk.stays.items()):
        if name in desk.started or stay[0] <= desk.now:
            continue
        if stay[0] > desk.now + notice:
            desk.wake(stay[0] - notice)
            continue
        for slot in _in_the_way(desk, stay, borrowers):
            other = desk.view.held(slot)
            desk.disturbed.add(other.gang.name)
            why = f"its room was lent to it, and {name} needs it now"
            desk.act(Evict(other.gang.name, desk.view.number, (), loss(desk, other), How.PARK, name, stay[0], why))


def _in_the_way(desk: Desk, stay: Stay, borrowers: list[int]) -> list[int]:
    """Borrowers without whose leaving the gang could not sit; those who would lose the most are spared first."""
    job, nodes = stay[2], {node for held in stay[3] for node in held.nodes}
    there = [slot for slot in borrowers if _sits_on(desk, slot, nodes)]
    found: list[int] = []
    desk.unseat(job)
    receipts: list[int] = []
    for slot in sorted(there, key=lambda slot: (-loss(desk, desk.view.held(slot)), slot)):
        last = int(desk.view.ends[slot, 2])
        # Nobody knows when one ends that should be over.
        kept = _stays_on(desk, slot, max(last, desk.end_of(slot) + 1) if last > desk.now else NEVER)
        if _are_free(desk, stay):
            receipts += kept
            continue
        _give(desk, kept)
        if _may_be_asked(desk, desk.view.held(slot)):
            found.append(slot)
    _give(desk, receipts)
    hold_again(desk, job, stay)
    return found


def _notice(desk: Desk) -> int:
    """How long before a promised start borrowers are asked to leave."""
    return max(desk.policy.reclaim.grace, 1) + EARLY


def _may_be_asked(desk: Desk, job: Job) -> bool:
    """Whether a borrower whose time is over may be told so: also one that is broken, or has not come up.

    How long it is left alone, and how often it may be interrupted, was minded when the room was lent to it.
    """
    if job.gang.name in desk.disturbed:
        # This plan asks something else of it; what is left of that is for the next one to see.
        desk.wake(desk.now + 1)
        return False
    return job.life.state is not State.DRAINING


def _sits_on(desk: Desk, slot: int, nodes: set[int]) -> bool:
    return any(node in nodes for _, held in all_of(desk, desk.view.held(slot)) for node in held.nodes)


def _stays_on(desk: Desk, slot: int, end: int) -> list[int]:
    """Let a borrower stay for longer than its room is lent to it, until it ends by itself."""
    job, leaves = desk.view.held(slot), desk.end_of(slot)
    receipts = []
    for role, held in all_of(desk, job):
        if held.nodes and leaves < end:
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
