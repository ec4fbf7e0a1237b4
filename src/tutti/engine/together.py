"""Several roles at once: first one after the other in a few orders, then the exact search."""

from .desk import Desk
from .model import Job
from .place import Need, Seating
from .profile import Bools
from .sizes import Sizes
from .whole import seat_role


def seat_roles(
    desk: Desk, job: Job, needs: tuple[Need, ...], sizes: list[Sizes], start: int, end: int
) -> list[Seating] | None:
    """Seats for all roles of a gang during one stay, or None."""
    if job.gang.within:
        return None
    return _in_some_order(desk, job, needs, sizes, start, end, None)


def _in_some_order(
    desk: Desk, job: Job, needs: tuple[Need, ...], sizes: list[Sizes], start: int, end: int, inside: Bools | None
) -> list[Seating] | None:
    hardest = sorted(range(len(needs)), key=lambda i: -needs[i].main_amount * desk.view.total[needs[0].main])
    for order in (hardest, hardest[::-1]):
        found = _in_order(desk, job, needs, sizes, start, end, order, inside)
        if found is not None:
            return found
    return None


def _in_order(
    desk: Desk,
    job: Job,
    needs: tuple[Need, ...],
    sizes: list[Sizes],
    start: int,
    end: int,
    order: list[int],
    inside: Bools | None,
) -> list[Seating] | None:
    found: dict[int, Seating] = {}
    receipts = []
    for at in order:
        seating = seat_role(desk, job, needs[at], sizes[at], start, end, inside)
        if seating is None:
            break
        found[at] = seating
        receipts.append(desk.profile.take(start, end, seating.positions, seating.counts, needs[at].ask))
    for receipt in receipts:
        desk.profile.give(receipt)
    return [found[at] for at in range(len(needs))] if len(found) == len(needs) else None
