"""Can the whole gang sit? All roles together, at a legal size, during the whole stay, or not at all."""

from collections.abc import Iterator, Sequence
from itertools import product

from .company import closed_to
from .desk import Desk
from .estimate import leading_role
from .model import NEVER, Coupling, Job
from .place import Need, Outlook, Seating
from .profile import Bools
from .sizes import Sizes

MOST_SHAPES = 16
"""Combinations of shapes that are tried for one gang."""


class Sitting:
    """Seats found for a whole gang, not yet taken."""

    __slots__ = ("end", "job", "needs", "seatings", "seats", "start")

    def __init__(
        self, desk: Desk, job: Job, needs: Sequence[Need], seatings: Sequence[Seating], start: int, end: int
    ) -> None:
        self.job = job
        self.needs = needs
        self.seatings = seatings
        self.start = start
        self.end = end
        self.seats = tuple(desk.seats(need, seating) for need, seating in zip(needs, seatings, strict=True))

    def take(self, desk: Desk) -> None:
        """Take the seats, so that nobody else gets them during the stay."""
        receipts = [
            desk.profile.take(self.start, self.end, seating.positions, seating.counts, need.ask)
            for need, seating in zip(self.needs, self.seatings, strict=True)
            if len(seating.positions)
        ]
        desk.seated(self.job, self.start, self.end, self.seats, receipts)


def sit_now(desk: Desk, job: Job) -> Sitting | None:
    """Seats for the whole gang from now on, or None."""
    return sit_at(desk, job, desk.now)


def sit_at(desk: Desk, job: Job, start: int, least: bool = False, most: int = NEVER, late: int = 0) -> Sitting | None:
    """Seats for the whole gang from a moment on, for so long at most; with `least` its minimum is enough.

    They are free for so much longer as it may come late.
    """
    for needs in shapes_of(desk, job):
        found = sit_with(desk, job, needs, start, least, most, late)
        if found is not None:
            return found
    return None


def shapes_of(desk: Desk, job: Job) -> Iterator[tuple[Need, ...]]:
    """Every combination of shapes, the most liked first."""
    roles = desk.needs(job)
    if len(roles) == 1:
        yield from ((need,) for need in roles[0])
        return
    for number, needs in enumerate(product(*roles)):
        if number >= MOST_SHAPES:
            return
        yield needs


def sit_with(
    desk: Desk, job: Job, needs: tuple[Need, ...], start: int, least: bool = False, most: int = NEVER, late: int = 0
) -> Sitting | None:
    """Seats for the whole gang on these shapes from a moment on, or None."""
    sizes = [desk.sizes(job, role, need.shape) for role, need in enumerate(needs)]
    if any(need.missing and size.low for need, size in zip(needs, sizes, strict=True)):
        return None
    length = min(desk.length(job), most)
    if least:
        sizes = [Sizes(size.low, size.low, size.low, size.legal) for size in sizes]
    for _ in range(4):
        end = NEVER if length >= NEVER else start + length + late
        if not desk.spoken_for.allows(job, start, end):
            return None
        seatings = seat_all(desk, job, needs, sizes, start, end)
        if seatings is None:
            return None
        sitting = Sitting(desk, job, needs, seatings, start, end)
        longer = min(desk.length(job, sitting.seats), most)
        if longer <= length:
            sitting.end = NEVER if longer >= NEVER else start + longer + late
            return sitting
        # A smaller gang stays longer: look again at the longer stay.
        length = longer
    return None


def seat_all(
    desk: Desk, job: Job, needs: tuple[Need, ...], sizes: list[Sizes], start: int, end: int
) -> list[Seating] | None:
    """Seats for every role during a stay, or None."""
    if len(needs) == 1:
        one = seat_role(desk, job, needs[0], sizes[0], start, end, None)
        return None if one is None else [one]
    return desk.seat_roles(desk, job, needs, sizes, start, end)


def seat_role(
    desk: Desk, job: Job, need: Need, sizes: Sizes, start: int, end: int, inside: Bools | None
) -> Seating | None:
    """Seats for one role at the largest legal size up to what is wanted, or None."""
    # Whoever asks about company has all seats taken, which may cut slots and columns anew.
    mask, profile = allowed(desk, job, need, start, end), desk.until(end)
    first, last = profile.slots(start, end)
    if inside is not None:
        mask = mask & inside
    outlook = Outlook(profile, need, first, last, mask)
    size = outlook.size(sizes)
    if not size:
        return None
    return outlook.choose(size, profile.members_before(need.ask, mask) if start > desk.now else None)


def allowed(desk: Desk, job: Job, need: Need, start: int, end: int) -> Bools:
    """Columns that may take members of this need during a stay."""
    closed = closed_to(desk, job, need, start, end)
    mask = desk.mask(need, desk.until(end))
    return mask if closed is None else mask & ~closed


def moments(desk: Desk, job: Job, needs: tuple[Need, ...], after: int) -> Iterator[int]:
    """Moments, in order, at which the role that sets the pace finds room; the rest of the gang is not proven."""
    at = leading_role(job.gang)
    need = needs[at]
    low = max(desk.sizes(job, at, need.shape).low, 1)
    promised = job.life.promise.start if job.life.promise else NEVER
    return desk.profile.moments(need.ask, desk.mask(need), need.key, low, desk.length(job), after, promised)


def is_loose(job: Job) -> bool:
    """Whether no member of the gang needs another."""
    return all(role.coupling is Coupling.LOOSE for role in job.gang.roles)
