"""When will it start? Promises: given, kept, made better, and broken only by a listed rule."""

from .company import closed_to
from .desk import Desk, Stay, wait
from .model import NEVER, Job, Pledge, Promise, Seats, State, Token
from .place import Need, Outlook, Seating
from .plan import Await, Reserve
from .policy import ALL, Break
from .seats import beyond
from .whole import Sitting, allowed, moments, shapes_of, sit_at, sit_with


def hold_targets(desk: Desk) -> None:
    """Seats that running gangs were asked to change to belong to them until they answer."""
    for slot in desk.view.watched:
        job = desk.view.held(slot)
        if not job.life.target:
            continue
        desk.wake(job.life.target_by)
        if job.life.target_by <= desk.now or not desk.are_there(job.life.target):
            continue
        end = max(desk.end_of(slot), desk.now + 1)
        needs = desk.needs(job)
        for role, held in enumerate(job.life.target):
            more = beyond(held, job.life.seats[role])
            if more.nodes:
                seating, ask = desk.seating(more), needs[role][held.shape].ask
                desk.profile.take(desk.now, end, seating.positions, seating.counts, ask)


def hold_pledges(desk: Desk) -> None:
    """What is being freed for a gang is its own before anybody who runs is given other seats."""
    for job in _standing(desk):
        if pledge := _open_pledge(desk, job):
            _hold(desk, job, pledge)


def list_promises(desk: Desk) -> None:
    """Standing promises and pledges, in the order in which they fall due."""
    standing = sorted(_standing(desk), key=lambda job: (_due(job), job.gang.name))
    desk.unkept = {job.gang.name: job for job in standing}
    desk.unseen = {job.gang.name for job in standing}


def keep_promises(desk: Desk) -> None:
    """Before anybody is placed, the room of standing promises and pledges is taken out.

    A start that cannot be kept to the second moves as little as it can, so that nobody gets a better one out of it.
    """
    for job in desk.unkept.values():
        pledge, promise = _open_pledge(desk, job), job.life.promise
        if pledge is not None:
            if desk.kept(job) is None:
                _hold(desk, job, pledge)
        elif promise is not None and promise.start < NEVER and not _may_be_broken(desk, job):
            start = max(promise.start, desk.now)
            sitting = None if _keep(desk, job, promise) else earliest(desk, job, start)
            if sitting is not None:
                sitting.take(desk)
    desk.unkept.clear()


def keep_aside(desk: Desk, job: Job) -> None:
    """Who may not start now keeps its promise beside those who came before, or is told that it moves a little.

    Who comes after is not to have the room, even if a higher priority might.
    """
    promise = job.life.promise
    if promise is None or promise.start >= NEVER or _open_pledge(desk, job):
        return
    keep_promises(desk)
    start = max(promise.start, desk.now)
    if _may_be_broken(desk, job) and not _keep(desk, job, promise) and (sitting := earliest(desk, job, start)):
        sitting.take(desk)
    kept = desk.kept(job)
    if kept is None:
        _withdraw(desk, job)
        return
    desk.wake(kept[0])
    if kept[0] > start:
        _tell(desk, job, kept[0], kept[1], kept[3])


def _open_pledge(desk: Desk, job: Job) -> Pledge | None:
    """What is being freed for the gang, if that still goes on."""
    pledge = job.life.pledge
    return pledge if pledge is not None and pledge.expires > desk.now and desk.are_there(pledge.seats) else None


def keep_start(desk: Desk, job: Job) -> bool:
    """Hold the start a gang was promised where the policy moves it for nothing better; whether it could be held."""
    old = job.life.promise
    if Break.BETTER_START in desk.policy.reserve.breaks or old is None or job.life.pledge is not None:
        return False
    if not desk.now < old.start < NEVER or _may_be_broken(desk, job) or not _keep(desk, job, old):
        return False
    desk.promised += 1
    desk.wake(old.start)
    return True


def _keep(desk: Desk, job: Job, promise: Promise) -> bool:
    """Hold a promised start on the seats it was given, or where they are gone on others; whether there were any."""
    start = max(promise.start, desk.now)
    if hold_if_free(desk, job, start, promise.seats):
        return True
    sitting = sit_at(desk, job, start)
    if sitting is not None:
        sitting.take(desk)
    return sitting is not None


def hold_if_free(desk: Desk, job: Job, start: int, seats: tuple[Seats, ...]) -> bool:
    """Take these very seats from a moment on for the gang's stay, if all of them are free."""
    if not desk.are_there(seats):
        return False
    length = desk.length(job, seats)
    end = NEVER if length >= NEVER else start + length
    if not desk.spoken_for.allows(job, start, end):
        return False
    needs = desk.needs(job)
    receipts: list[int] = []
    for role, held in enumerate(seats):
        need = needs[role][held.shape]
        if held.nodes and not are_free(desk, job, need, held, start, end):
            for receipt in receipts:
                desk.profile.give(receipt)
            return False
        if held.nodes:
            seating = desk.seating(held)
            receipts.append(desk.profile.take(start, end, seating.positions, seating.counts, need.ask))
    desk.seated(job, start, end, seats, receipts)
    return True


def are_free(desk: Desk, job: Job, need: Need, held: Seats, start: int, end: int) -> bool:
    """Whether these very seats are free during a stay."""
    profile = desk.profile
    first, last = profile.slots(start, end)
    seating = desk.seating(held)
    fits = profile.members(first, last, need.ask, allowed(desk, job, need, start, end))
    return bool((fits[profile.columns_of(seating.positions)] >= seating.counts).all())


def _standing(desk: Desk) -> list[Job]:
    jobs = (desk.view.held(slot) for slot in desk.view.promised)
    return [job for job in jobs if (job.life.promise or job.life.pledge) and job.life.state is not State.HELD]


def _due(job: Job) -> int:
    return job.life.promise.start if job.life.promise else 0


def _may_be_broken(desk: Desk, job: Job) -> bool:
    """Whether a gang of higher priority is waiting without a promise of its own."""
    if Break.HIGHER_PRIORITY not in desk.policy.reserve.breaks:
        return False
    return job.gang.priority < desk.highest_unpromised()


def _hold(desk: Desk, job: Job, pledge: Pledge) -> None:
    """What is being freed belongs to the gang from the moment the last victim is gone."""
    ready = pledged_from(desk, pledge)
    length = desk.length(job, pledge.seats)
    hold_again(desk, job, (ready, NEVER if length >= NEVER else ready + length, job, pledge.seats, []))


def hold_again(desk: Desk, job: Job, stay: Stay) -> None:
    """Take a stay that was given back a moment ago, on the same seats."""
    start, end, _, seats, _ = stay
    needs = desk.needs(job)
    receipts = []
    for role, held in enumerate(seats):
        if held.nodes:
            seating, ask = desk.seating(held), needs[role][held.shape].ask
            receipts.append(desk.profile.take(start, end, seating.positions, seating.counts, ask))
    desk.seated(job, start, end, seats, receipts)


def pledged_from(desk: Desk, pledge: Pledge) -> int:
    """When the last victim of a pledge is expected to have made room; now, where all have."""
    by = max(pledge.since + desk.policy.reclaim.grace, desk.now + 1)
    there = (slot for slot in desk.view.seated if _is_victim(desk, slot, pledge))
    return max((min(desk.end_of(slot), by) for slot in there), default=desk.now)


def _is_victim(desk: Desk, slot: int, pledge: Pledge) -> bool:
    return desk.view.held(slot).gang.name in pledge.victims


def may_have_promise(desk: Desk, job: Job) -> bool:
    """Whether the gang stands far enough ahead, or has waited long enough, to be promised a start."""
    return stands_ahead(desk, job) or has_waited_out(desk, job)


def stands_ahead(desk: Desk, job: Job) -> bool:
    """Whether the gang stands far enough ahead to be promised a start, or was promised one."""
    depth = desk.policy.reserve.depth
    return depth == ALL or desk.promised < depth or job.life.promise is not None


def has_waited_out(desk: Desk, job: Job) -> bool:
    """Whether the gang has waited so long that it must be promised a start."""
    queue = desk.queue(job)
    most = job.gang.max_wait or (queue.max_wait if queue else 0) or desk.policy.reserve.max_wait
    if not most:
        return False
    desk.wake(job.gang.submitted + most)
    return job.gang.submitted + most <= desk.now


def promise(desk: Desk, job: Job) -> bool:
    """Promise the gang the earliest start there is, and take the room out; False when there is none."""
    sitting = earliest(desk, job)
    if sitting is None:
        return _promise_without_time(desk, job) if has_waited_out(desk, job) else _withdraw(desk, job)
    desk.take(sitting)
    desk.promised += 1
    desk.wake(sitting.start)
    if isinstance(sitting, Sitting) and not (job.life.promise and job.life.promise.start == sitting.start):
        _tell(desk, job, sitting.start, sitting.end, sitting.seats)
    return True


def _tell(desk: Desk, job: Job, start: int, end: int, seats: tuple[Seats, ...]) -> None:
    """Tell the gang of a start that it does not know."""
    if job.life.promise is None or start < job.life.promise.start:
        desk.serve(job)
    renewed = _renewed(desk, job, start, end, seats)
    desk.act(Reserve(job.gang.name, desk.view.number, promise=renewed, why=_why(desk, job, start)))


def settle_seats(desk: Desk) -> None:
    """Where several gangs are promised a start, each is told of seats that were chosen anew, so that all still fit."""
    for name, (start, end, job, seats, _) in list(desk.stays.items()) if desk.promised > 1 else ():
        old = job.life.promise
        if old is None or job.life.pledge is not None or name in desk.started or name in desk.promised_anew:
            continue
        if start == old.start and seats != old.seats:
            renewed = Promise(start, end, seats, old.given, old.broken, old.clears)
            desk.act(Reserve(name, desk.view.number, promise=renewed))


def _renewed(desk: Desk, job: Job, start: int, end: int, seats: tuple[Seats, ...]) -> Promise:
    old = job.life.promise
    later = old is not None and start > old.start
    given = desk.now if old is None else old.given
    broken = (old.broken if old else 0) + later
    return Promise(start, end, seats, given, broken, desk.loans.clear(desk.view))


def _why(desk: Desk, job: Job, start: int) -> str:
    """What moved a promise; '' for a new one."""
    old = job.life.promise
    if old is None:
        return ""
    if start < old.start:
        return Break.BETTER_START
    nodes = [desk.view.nodes[node] for held in old.seats for node in held.nodes if node < len(desk.view.nodes)]
    if any(node is None or node.state for node in nodes):
        return Break.NODE_LOST
    return Break.HIGHER_PRIORITY if job.gang.priority < desk.highest_served else Break.OVERRUN


def _withdraw(desk: Desk, job: Job) -> bool:
    if job.life.promise is not None:
        desk.act(Reserve(job.gang.name, desk.view.number, promise=None, why=_why(desk, job, NEVER)))
    return False


class AsPromised:
    """A start that was promised and is still the earliest there is. Its seats are chosen when somebody looks."""

    __slots__ = ("_needs", "end", "job", "seats", "start")

    def __init__(self, desk: Desk, job: Job, needs: tuple[Need, ...], start: int) -> None:
        self.job = job
        self._needs = needs
        self.start = start
        self.seats: tuple[Seats, ...] = ()
        length = desk.length(job)
        self.end = NEVER if length >= NEVER else start + length

    def take(self, desk: Desk) -> None:
        """Choose the seats and take them."""
        sitting = sit_with(desk, self.job, self._needs, self.start)
        assert sitting is not None, "room in sum is all that gangs need which are put off"
        sitting.take(desk)


def _as_promised(desk: Desk, job: Job, needs: tuple[Need, ...], moment: int) -> AsPromised | None:
    """The promised start, where it is clear without choosing seats that the gang can sit then."""
    old = job.life.promise
    if old is None or old.start != moment or not desk.card(job).kin.free:
        return None
    stay = AsPromised(desk, job, needs, moment)
    is_open = closed_to(desk, job, needs[0], moment, stay.end) is None
    return stay if is_open and desk.spoken_for.allows(job, moment, stay.end) else None


def earliest(desk: Desk, job: Job, since: int = 0) -> Sitting | AsPromised | None:
    """The first moment, from one on, at which the whole gang can sit for its whole stay."""
    best: Sitting | AsPromised | None = None
    card = desk.card(job)
    after = max(desk.not_before(card), since)
    for needs in shapes_of(desk, job) if after < NEVER else ():
        if any(need.missing and desk.sizes(job, role, need.shape).low for role, need in enumerate(needs)):
            continue
        for moment in moments(desk, job, needs, after):
            if best is not None and moment >= best.start:
                break
            if not desk.spend(job):
                return best
            found = _as_promised(desk, job, needs, moment) or sit_with(desk, job, needs, moment)
            if found is not None:
                best = found
                break
    if not since and not desk.is_bounded(job):
        desk.note_earliest(card, best.start if best is not None else NEVER)
    return best


def _promise_without_time(desk: Desk, job: Job) -> bool:
    """Nobody knows when room frees: what is free now is kept for the gang, and more as it frees."""
    needs = next(iter(shapes_of(desk, job)))
    seats, receipts = [], []
    for role, need in enumerate(needs):
        seating = _some(desk, job, role, need)
        seats.append(desk.seats(need, seating))
        if len(seating.positions):
            receipts.append(desk.profile.take(desk.now, NEVER, seating.positions, seating.counts, need.ask))
    desk.seated(job, desk.now, NEVER, tuple(seats), receipts)
    desk.promised += 1
    old = job.life.promise
    if old is None or old.start < NEVER:
        desk.serve(job)
        given = desk.now if old is None else old.given
        kept = Promise(NEVER, NEVER, tuple(seats), given, old.broken + 1 if old else 0)
        desk.promised_anew.add(job.gang.name)
        desk.act(Reserve(job.gang.name, desk.view.number, promise=kept, why="" if old is None else Break.OVERRUN))
    return True


def _some(desk: Desk, job: Job, role: int, need: Need) -> Seating:
    """As many members of a role as can be kept room for right now, up to what is wanted."""
    profile = desk.profile
    first, last = profile.slots(desk.now, NEVER)
    outlook = Outlook(profile, need, first, last, allowed(desk, job, need, desk.now, NEVER))
    size = min(outlook.capacity(), desk.sizes(job, role, need.shape).want)
    seating = outlook.choose(size) if size else None
    return seating or Seating.empty()


def wait_for_eviction(desk: Desk, job: Job) -> bool:
    """Whether the gang waits for room that is being freed for it; an expired pledge is given up."""
    pledge = job.life.pledge
    if pledge is None:
        return False
    if pledge.expires <= desk.now or not _victims(desk, pledge) or not desk.are_there(pledge.seats):
        desk.act(Await(job.gang.name, desk.view.number, pledge=None))
        return False
    desk.wake(pledge.expires)
    _hold(desk, job, pledge)
    names = tuple(_victims(desk, pledge))
    desk.answer(job, wait(Token.WAITING_FOR_EVICTION, ", ".join(names), *(f"gang:{n}" for n in names), blockers=names))
    return True


def _victims(desk: Desk, pledge: Pledge) -> list[str]:
    seated = {desk.view.held(slot).gang.name for slot in desk.view.seated}
    return [name for name in pledge.victims if name in seated]
