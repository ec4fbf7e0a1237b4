"""How long will it run? Estimates scaled to the size a gang has, less the work it already kept."""

from .model import NEVER, SECOND, Coupling, Estimate, Gang, Job, Progress, Queue, Resizing, Role, Seats, Source, Speed

NONE = Source.NONE
QUANTILES = (50, 90, 100)
"""The percentiles that are kept for each running gang; the last is its limit."""


def sizes(role: Role, shape: int = 0) -> tuple[int, int, int]:
    """Minimum, wanted and maximum members of a role on one of its shapes."""
    low, want, most = role.min, role.want, role.max
    if shape < len(role.shapes):
        own = role.shapes[shape]
        low, want, most = own.min or low, own.want or want, own.max or most
    want = max(want, low)
    return low, want, max(most, want)


def rate(speed: Speed, size: int) -> int:
    """Work per second at a size, in thousandths of one member's; linear where nothing is known."""
    points = speed.points
    if not points:
        return 1000 * size
    below = (0, 0)
    for at, value in points:
        if at == size:
            return value
        if at > size:
            return below[1] + (value - below[1]) * (size - below[0]) // (at - below[0])
        below = (at, value)
    # Beyond the last measured size nothing more is assumed to be gained.
    return below[1]


def leading_role(gang: Gang) -> int:
    """The role whose size sets the pace: the first elastic gang-coupled one, else the first that is, else the first."""
    coupled = [index for index, role in enumerate(gang.roles) if role.coupling is Coupling.GANG]
    for index in coupled:
        low, _, high = sizes(gang.roles[index])
        if high > low:
            return index
    return coupled[0] if coupled else 0


def pace(gang: Gang, seats: tuple[Seats, ...]) -> tuple[int, int]:
    """Speed on these seats and speed at the wanted size, in the same unit."""
    at = leading_role(gang)
    role = gang.roles[at]
    if not seats:
        return 1, 1
    shape = role.shapes[seats[at].shape] if seats[at].shape < len(role.shapes) else None
    have = rate(gang.speed, seats[at].members) * (shape.speed if shape else 1000)
    want = rate(gang.speed, sizes(role)[1]) * 1000
    return max(have, 1), max(want, 1)


def known(gang: Gang, queue: Queue | None) -> Estimate:
    """The gang's estimate, or the queue's default where it has none."""
    if gang.estimate.source is NONE and queue is not None and queue.default_estimate:
        return Estimate(limit=queue.default_estimate, source=Source.DEFAULT)
    return gang.estimate


def run_time(job: Job, queue: Queue | None, percent: int, seats: tuple[Seats, ...] = ()) -> int:
    """How long the gang would run if it started now on these seats (or at its wanted size)."""
    told = job.gang.estimate
    if told.source is NONE:
        told = known(job.gang, queue)
    return _left(job, told.at(percent) if told.p50 or told.p90 else told.limit, seats)


def _left(job: Job, whole: int, seats: tuple[Seats, ...]) -> int:
    """How much of a run time is left on these seats."""
    if whole >= NEVER:
        return NEVER
    left = max(whole - job.life.ran, SECOND)
    if not seats or not job.gang.speed.points:
        return left
    have, want = pace(job.gang, seats)
    return max(left * want // have, 1)


def expected_ends(job: Job, queue: Queue | None) -> tuple[int, int, int]:
    """When a running gang ends, by percentile; the job's own progress beats every other source."""
    life = job.life
    # Loose members come and go one by one: the last ones set the end.
    begun = life.started if _is_coupled(job.gang) else life.resized
    told = job.gang.estimate
    if told.source is NONE:
        told = known(job.gang, queue)
    last = _after(begun, _left(job, told.limit, life.seats))
    if not told.p50 and not told.p90:
        soon = late = last
    else:
        soon, late = (_after(begun, _left(job, told.at(percent), life.seats)) for percent in QUANTILES[:2])
    if life.progress is not None and (reported := _end_by_progress(life.progress)) is not None:
        slack = (reported - life.started) // 10
        soon, late = reported, min(reported + slack, max(last, reported))
    return soon, late, max(late, last)


def ends_alike(before: Job, after: Job) -> bool:
    """Whether nothing has changed on which the expected ends of a running gang rest, apart from its queue."""
    old, new = before.life, after.life
    return (
        before.gang is after.gang
        and old.seats is new.seats
        and old.progress is new.progress
        and old.started == new.started
        and old.resized == new.resized
        and old.ran == new.ran
    )


def _is_coupled(gang: Gang) -> bool:
    for role in gang.roles:  # noqa: SIM110 - asked at every start
        if role.coupling is Coupling.GANG:
            return True
    return False


def overrun_end(started: int, last: int, now: int) -> int:
    """Where the end moves when every percentile has passed: the run time doubles until it lies ahead."""
    length = max(last - started, SECOND)
    while started + length <= now:
        length *= 2
    return started + length


def _after(start: int, length: int) -> int:
    return NEVER if length >= NEVER else start + length


def _end_by_progress(told: Progress) -> int | None:
    if not told.steps or not told.rate_milli:
        return None
    return told.at + (told.steps - told.step) * 1000 * SECOND // told.rate_milli


def is_flexible(gang: Gang) -> bool:
    """Whether the gang may get more or fewer members while it runs."""
    if gang.resizing is Resizing.LIVE:
        return True
    for role in gang.roles:  # noqa: SIM110 - asked at every start
        if role.coupling is Coupling.LOOSE:
            return True
    return False
