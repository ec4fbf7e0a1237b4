"""How a gang's life is entered in the books: submitted, started, resized, interrupted, ended."""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from . import events as ev
from .books import Books, Touched, on
from .model import ENDED, NEVER, QUEUED, SEATED, Attempt, Coupling, Gang, Job, Life, Seats, State
from .ranks import lose
from .seats import without

KEEP_INTERRUPTIONS = 32
STARTABLE = frozenset({State.WAITING, State.PARKED})
COMING_UP = frozenset({State.STARTING, State.REPAIRING, State.DEGRADED})
STARTING, RUNNING = State.STARTING, State.RUNNING
UNTRIED = Attempt()
T = TypeVar("T")


@on(ev.Submitted)
def _submitted(books: Books, event: ev.Submitted) -> Touched:
    if event.gang.name in books.slots:
        return books.nothing(f"a gang named {event.gang.name!r} is already here")
    slot = admit(books, Job(event.gang, Life(awaiting=event.awaiting, since=event.at)))
    return Touched(books.version, slot)


def admit(books: Books, job: Job) -> int:
    slot = books.spare_slots.pop() if books.spare_slots else books.new_slot()
    books.slots[job.gang.name] = slot
    books.measure_gang(job.gang)
    books.put(slot, job)
    if job.life.seats:
        books.seat(slot, job, job.life.seats, 1)
    return slot


@on(ev.Changed)
def _changed(books: Books, event: ev.Changed) -> Touched:
    slot = books.slots.get(event.gang.name, -1)
    if slot < 0:
        return books.nothing(f"no gang named {event.gang.name!r}")
    job = books.job_in(slot)
    before, after = _asks(job.gang), _asks(event.gang)
    if job.life.seats and not _only_adds(before, event.gang):
        return books.nothing("a seated gang cannot change what its members ask for")
    life = job.life if before == after else _of_roles(job.life, len(after))
    books.book(slot, job, job.life.seats, -1)
    books.measure_gang(event.gang)
    changed = Job(event.gang, moved(life, books.version))
    books.book(slot, changed, life.seats, 1)
    books.put(slot, changed)
    return Touched(books.version, slot, freed=True)


def _only_adds(before: tuple[object, ...], gang: Gang) -> bool:
    """Whether a gang's roles are what they were, and those that are new are loose: it has started without them."""
    fresh = gang.roles[len(before) :]
    return _asks(gang)[: len(before)] == before and all(r.coupling is Coupling.LOOSE and r.shapes for r in fresh)


def _of_roles(life: Life, count: int) -> Life:
    """The life of a gang that has so many roles from now on; nobody sits yet in those that are new."""
    more = count - len(life.seats)
    empty = (Seats(),) * more
    return replace(
        life,
        # What was promised to other roles says nothing about these.
        promise=None,
        pledge=None,
        seats=life.seats and life.seats + empty,
        lost=life.lost and life.lost + empty,
        lost_ranks=life.lost_ranks and life.lost_ranks + ((),) * more,
        target=life.target and life.target + empty,
        done=life.done and (*life.done, *(0,) * count)[:count],
    )


@on(ev.MembersSeen)
def _members_seen(books: Books, event: ev.MembersSeen) -> Touched:
    return live(books, event.gang, QUEUED, lambda life: moved(life, books.version, awaiting=event.awaiting))


@on(ev.Held)
def _held(books: Books, event: ev.Held) -> Touched:
    return live(
        books,
        event.gang,
        QUEUED,
        lambda life: moved(life, books.version, state=State.HELD, since=event.at, promise=None, pledge=None),
    )


@on(ev.Released)
def _released(books: Books, event: ev.Released) -> Touched:
    return live(
        books, event.gang, {State.HELD}, lambda life: moved(life, books.version, state=State.WAITING, since=event.at)
    )


@on(ev.Starting)
def _starting(books: Books, event: ev.Starting) -> Touched:
    slot = books.slot_of(event.gang, STARTABLE)
    if slot < 0:
        return books.nothing(f"{event.gang!r} does not wait to be started")
    job = books.job_in(slot)
    if note := books.bad_seats(job.gang, event.seats):
        return books.nothing(note)
    at, seats = event.at, event.seats
    life = replace(
        job.life,
        version=books.version,
        state=RUNNING if event.up else STARTING,
        seats=seats,
        since=at,
        started=at,
        first_started=job.life.first_started or at,
        resized=at,
        turn=at,
        lent=event.lent,
        promise=None,
        pledge=None,
        attempt=UNTRIED if event.up else job.life.attempt,
    )
    books.put(slot, Job(job.gang, life))
    books.seat(slot, job, seats, 1, event.decided)
    return Touched(books.version, slot)


@on(ev.Running)
def _running(books: Books, event: ev.Running) -> Touched:
    slot = books.slot_of(event.gang, COMING_UP)
    if slot < 0:
        return _not_so(books, event.gang, COMING_UP)
    job = books.job_in(slot)
    started = event.at if job.life.state is STARTING else job.life.started
    life = replace(job.life, version=books.version, state=RUNNING, since=event.at, started=started, attempt=UNTRIED)
    books.put(slot, Job(job.gang, life))
    return Touched(books.version, slot)


@on(ev.Resized)
def _resized(books: Books, event: ev.Resized) -> Touched:
    slot = books.slot_of(event.gang, SEATED)
    if slot < 0:
        return books.nothing(f"{event.gang!r} has no seats to change")
    job = books.job_in(slot)
    if note := books.bad_seats(job.gang, event.seats):
        return books.nothing(note)
    books.seat(slot, job, job.life.seats, -1, event.decided)
    state = State.REPAIRING if job.life.lost else job.life.state
    life = moved(
        job.life, books.version, seats=event.seats, resized=event.at, lost=(), lost_ranks=(), target=(), state=state
    )
    books.put(slot, Job(job.gang, life))
    books.seat(slot, job, event.seats, 1, event.decided)
    return Touched(books.version, slot, freed=True)


@on(ev.Asked)
def _asked(books: Books, event: ev.Asked) -> Touched:
    slot = books.slot_of(event.gang, SEATED)
    if slot < 0:
        return books.nothing(f"{event.gang!r} has no seats to change")
    job = books.job_in(slot)
    if note := books.bad_seats(job.gang, event.seats):
        return books.nothing(note)
    state = State.REPAIRING if job.life.lost else job.life.state
    life = moved(job.life, books.version, target=event.seats, target_by=event.by, state=state)
    books.put(slot, Job(job.gang, life))
    return Touched(books.version, slot)


@on(ev.Leaving)
def _leaving(books: Books, event: ev.Leaving) -> Touched:
    return live(
        books,
        event.gang,
        SEATED,
        lambda life: moved(
            life,
            books.version,
            state=State.DRAINING,
            since=event.at,
            leaving_for=event.leaving_for,
            leave_by=event.by,
        ),
    )


@on(ev.Stays)
def _stays(books: Books, event: ev.Stays) -> Touched:
    slot = books.slot_of(event.gang, frozenset({State.DRAINING}))
    waits = books.slots.get(books.job_in(slot).life.leaving_for, -1) if slot >= 0 else -1
    if waits >= 0:
        # What it was to make room with will not be free.
        job = books.job_in(waits)
        books.put(waits, Job(job.gang, moved(job.life, books.version, pledge=None)))
    return live(
        books,
        event.gang,
        frozenset({State.DRAINING}),
        lambda life: moved(
            life,
            books.version,
            state=State.DEGRADED if any(held.nodes for held in life.lost) else State.RUNNING,
            since=event.at,
            leaving_for="",
            leave_by=NEVER,
            target=(),
        ),
    )


@on(ev.Evicted)
def _evicted(books: Books, event: ev.Evicted) -> Touched:
    state = State.PARKED if event.parked else State.WAITING
    return _unseat(
        books,
        event.gang,
        lambda life: moved(
            life,
            books.version,
            state=state,
            since=event.at,
            ran=life.ran + event.kept,
            restarts=life.restarts + event.interrupted,
            interruptions=_remember(life.interruptions, event.at) if event.interrupted else life.interruptions,
        ),
    )


@on(ev.Refused)
def _refused(books: Books, event: ev.Refused) -> Touched:
    return _unseat(
        books,
        event.gang,
        lambda life: moved(
            life,
            books.version,
            state=State.WAITING,
            since=event.at,
            attempt=Attempt(life.attempt.count + 1, event.not_before, event.why),
        ),
    )


def _unseat(books: Books, name: str, after: Callable[[Life], Life]) -> Touched:
    slot = books.slot_of(name, SEATED)
    if slot < 0:
        return books.nothing(f"{name!r} has no seats to give up")
    job = books.job_in(slot)
    books.seat(slot, job, job.life.seats, -1)
    bare = replace(
        job.life, seats=(), lost=(), lost_ranks=(), target=(), leaving_for="", leave_by=NEVER, progress=None, lent=0
    )
    books.put(slot, Job(job.gang, after(bare)))
    return Touched(books.version, slot, freed=True)


@on(ev.MemberLost)
def _member_lost(books: Books, event: ev.MemberLost) -> Touched:
    slot = books.slot_of(event.gang, SEATED)
    if slot < 0:
        return books.nothing(f"{event.gang!r} has no members to lose")
    return drop(books, slot, event.role, event.nodes, event.counts, event.at, lost=True, ranks=event.ranks)


@on(ev.MembersDone)
def _members_done(books: Books, event: ev.MembersDone) -> Touched:
    slot = books.slot_of(event.gang, SEATED)
    if slot < 0:
        return books.nothing(f"{event.gang!r} has no members")
    return drop(books, slot, event.role, event.nodes, event.counts, event.at, lost=False)


def drop(
    books: Books,
    slot: int,
    role: int,
    nodes: tuple[int, ...],
    counts: tuple[int, ...],
    at: int,
    lost: bool,
    ranks: tuple[int, ...] = (),
) -> Touched:
    """Members of a role leave their seats: lost, or done."""
    job = books.job_in(slot)
    life = job.life
    if not 0 <= role < len(life.seats) or len(nodes) != len(counts):
        return books.nothing("no such role")
    gone = dict(zip(nodes, counts, strict=True))
    if any(count <= 0 for count in counts) or len(gone) != len(nodes):
        return books.nothing("no number of members")
    if without(life.seats[role], gone)[1].members != sum(gone.values()):
        return books.nothing("members are reported gone that were not there")
    if not lost:
        after = _done(job, role, gone, books.version)
    elif job.gang.roles[role].coupling is Coupling.LOOSE:
        # Nobody waits for a loose member: the gang runs on and gets another one when there is room.
        after = moved(life, books.version, seats=replaced(life.seats, role, without(life.seats[role], gone)[0]))
    else:
        after = _lost(life, role, gone, ranks, at, books.version)
    books.seat(slot, job, life.seats, -1)
    books.put(slot, Job(job.gang, after))
    books.seat(slot, job, after.seats, 1)
    return Touched(books.version, slot, freed=True)


def _lost(life: Life, role: int, gone: dict[int, int], ranks: tuple[int, ...], at: int, version: int) -> Life:
    lost = life.lost or tuple(Seats(shape=held.shape) for held in life.seats)
    lost_ranks = life.lost_ranks or ((),) * len(life.seats)
    kept, missing, missing_ranks = lose(life.seats[role], lost[role], lost_ranks[role], gone, ranks)
    leaving = life.state is State.DRAINING
    return moved(
        life,
        version,
        seats=replaced(life.seats, role, kept),
        lost=replaced(lost, role, missing),
        lost_ranks=replaced(lost_ranks, role, missing_ranks),
        state=life.state if leaving else State.DEGRADED,
        since=life.since if leaving or life.state is State.DEGRADED else at,
        target=(),
    )


def _done(job: Job, role: int, gone: dict[int, int], version: int) -> Life:
    kept, missing = without(job.life.seats[role], gone)
    done = job.life.done or (0,) * len(job.gang.roles)
    done = replaced(done, role, done[role] + missing.members)
    return moved(job.life, version, seats=replaced(job.life.seats, role, kept), done=done)


def replaced(entries: tuple[T, ...], at: int, entry: T) -> tuple[T, ...]:
    """The same entries but for one."""
    return (*entries[:at], entry, *entries[at + 1 :])


@on(ev.Ended)
def _ended(books: Books, event: ev.Ended) -> Touched:
    slot = books.slots.get(event.gang, -1)
    if slot < 0:
        return books.nothing(f"no gang named {event.gang!r}")
    job = books.job_in(slot)
    if job.life.seats:
        books.seat(slot, job, job.life.seats, -1)
    books.forget(slot)
    del books.slots[event.gang]
    books.spare_slots.append(slot)
    if books.followers:
        _settle_dependents(books, event.gang, event.state if event.state in ENDED else State.FINISHED)
    return Touched(books.version, slot, freed=True)


def _settle_dependents(books: Books, name: str, outcome: State) -> None:
    for slot in list(books.followers):
        job = books.job_in(slot)
        if any(_names(entry) == name for entry in job.gang.after):
            after = tuple(entry for entry in job.gang.after if not _is_met(entry, name, outcome))
            after = tuple(f"never:{name}" if _names(entry) == name else entry for entry in after)
            gang = replace(job.gang, after=after)
            books.put(slot, Job(gang, moved(job.life, books.version)))


@on(ev.Reported)
def _reported(books: Books, event: ev.Reported) -> Touched:
    return live(books, event.gang, SEATED, lambda life: moved(life, books.version, progress=event.progress))


@on(ev.Estimated)
def _estimated(books: Books, event: ev.Estimated) -> Touched:
    slot = books.slots.get(event.gang, -1)
    if slot < 0:
        return books.nothing(f"no gang named {event.gang!r}")
    job = books.job_in(slot)
    gang = replace(job.gang, estimate=event.estimate)
    books.put(slot, Job(gang, moved(job.life, books.version)))
    return Touched(books.version, slot)


@on(ev.Promised)
def _promised(books: Books, event: ev.Promised) -> Touched:
    note = _bad_claim(books, event.gang, event.promise.seats) if event.promise else ""
    if note:
        return books.nothing(note)
    return live(books, event.gang, QUEUED, lambda life: moved(life, books.version, promise=event.promise))


@on(ev.Pledged)
def _pledged(books: Books, event: ev.Pledged) -> Touched:
    note = _bad_claim(books, event.gang, event.pledge.seats) if event.pledge else ""
    if note:
        return books.nothing(note)
    return live(books, event.gang, QUEUED, lambda life: moved(life, books.version, pledge=event.pledge))


def _bad_claim(books: Books, name: str, seats: tuple[Seats, ...]) -> str:
    """What is wrong with seats that a waiting gang is promised or pledged."""
    slot = books.slot_of(name, QUEUED)
    return books.bad_seats(books.job_in(slot).gang, seats) if slot >= 0 else ""


@on(ev.TurnTaken)
def _turn_taken(books: Books, event: ev.TurnTaken) -> Touched:
    return live(books, event.gang, SEATED, lambda life: moved(life, books.version, turn=event.at))


def live(books: Books, name: str, states: "frozenset[State] | set[State]", after: Callable[[Life], Life]) -> Touched:
    slot = books.slot_of(name, states)
    if slot < 0:
        return _not_so(books, name, states)
    job = books.job_in(slot)
    books.put(slot, Job(job.gang, after(job.life)))
    return Touched(books.version, slot)


def _not_so(books: Books, name: str, states: "frozenset[State] | set[State]") -> Touched:
    return books.nothing(f"{name!r} is not {' or '.join(sorted(states))}")


def moved(life: Life, version: int, **changes: object) -> Life:
    return replace(life, version=version, **changes)


def _asks(gang: Gang) -> tuple[object, ...]:
    return tuple((role.name, role.shapes, role.coupling) for role in gang.roles)


def _names(entry: str) -> str:
    return entry.split(":", 1)[-1] if entry.startswith(("any:", "failed:")) else entry


def _is_met(entry: str, name: str, outcome: State) -> bool:
    if entry == f"any:{name}":
        return True
    return outcome is State.FINISHED if entry == name else entry == f"failed:{name}" and outcome is not State.FINISHED


def _remember(times: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*times, at)[-KEEP_INTERRUPTIONS:]
