"""How a gang's life is entered in the books: submitted, started, resized, interrupted, ended."""

from collections.abc import Callable

import msgspec

from . import events as ev
from .books import Books, Touched, on
from .model import ENDED, NEVER, QUEUED, SEATED, Attempt, Gang, Job, Life, Seats, State
from .seats import without

KEEP_INTERRUPTIONS = 32


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
    seats = job.life.seats
    if seats and _asks(event.gang) != _asks(job.gang):
        return books.nothing("a seated gang cannot change what its members ask for")
    books.book(job, seats, -1)
    books.measure_gang(event.gang)
    changed = Job(event.gang, moved(job.life, books.version))
    books.book(changed, seats, 1)
    books.put(slot, changed)
    return Touched(books.version, slot, freed=True)


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
    slot = books.slot_of(event.gang, {State.WAITING, State.PARKED})
    if slot < 0:
        return books.nothing(f"{event.gang!r} does not wait to be started")
    job = books.job_in(slot)
    if note := books.bad_seats(job.gang, event.seats):
        return books.nothing(note)
    life = moved(
        job.life,
        books.version,
        state=State.STARTING,
        seats=event.seats,
        since=event.at,
        started=event.at,
        first_started=job.life.first_started or event.at,
        resized=event.at,
        turn=event.at,
        promise=None,
        pledge=None,
    )
    books.put(slot, Job(job.gang, life))
    books.seat(slot, job, event.seats, 1, event.decided)
    return Touched(books.version, slot)


@on(ev.Running)
def _running(books: Books, event: ev.Running) -> Touched:
    states = {State.STARTING, State.REPAIRING, State.DEGRADED}
    return live(
        books,
        event.gang,
        states,
        lambda life: moved(
            life,
            books.version,
            state=State.RUNNING,
            since=event.at,
            started=event.at if life.state is State.STARTING else life.started,
            attempt=Attempt(),
        ),
    )


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
    life = moved(job.life, books.version, seats=event.seats, resized=event.at, lost=(), state=state)
    books.put(slot, Job(job.gang, life))
    books.seat(slot, job, event.seats, 1, event.decided)
    return Touched(books.version, slot, freed=True)


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
    bare = msgspec.structs.replace(job.life, seats=(), lost=(), leaving_for="", leave_by=NEVER, progress=None)
    books.put(slot, Job(job.gang, after(bare)))
    return Touched(books.version, slot, freed=True)


@on(ev.MemberLost)
def _member_lost(books: Books, event: ev.MemberLost) -> Touched:
    slot = books.slot_of(event.gang, SEATED)
    if slot < 0:
        return books.nothing(f"{event.gang!r} has no members to lose")
    return drop(books, slot, event.role, event.nodes, event.counts, event.at, lost=True)


@on(ev.MembersDone)
def _members_done(books: Books, event: ev.MembersDone) -> Touched:
    slot = books.slot_of(event.gang, SEATED)
    if slot < 0:
        return books.nothing(f"{event.gang!r} has no members")
    return drop(books, slot, event.role, event.nodes, event.counts, event.at, lost=False)


def drop(
    books: Books, slot: int, role: int, nodes: tuple[int, ...], counts: tuple[int, ...], at: int, lost: bool
) -> Touched:
    job = books.job_in(slot)
    life = job.life
    if role >= len(life.seats) or len(nodes) != len(counts):
        return books.nothing("no such role")
    gone = dict(zip(nodes, counts, strict=True))
    kept, missing = without(life.seats[role], gone)
    if missing.members != sum(gone.values()):
        return books.nothing("members are reported gone that were not there")
    seats = (*life.seats[:role], kept, *life.seats[role + 1 :])
    books.seat(slot, job, life.seats, -1)
    done = life.done or (0,) * len(job.gang.roles)
    if lost:
        before = life.lost or tuple(Seats(shape=s.shape) for s in life.seats)
        together = Seats(before[role].nodes + missing.nodes, before[role].counts + missing.counts, missing.shape)
        all_lost = (*before[:role], together, *before[role + 1 :])
        leaving = life.state is State.DRAINING
        state = life.state if leaving else State.DEGRADED
        since = life.since if leaving or life.state is State.DEGRADED else at
        life = moved(life, books.version, seats=seats, lost=all_lost, state=state, since=since)
    else:
        done = (*done[:role], done[role] + missing.members, *done[role + 1 :])
        life = moved(life, books.version, seats=seats, done=done)
    books.put(slot, Job(job.gang, life))
    books.seat(slot, job, seats, 1)
    return Touched(books.version, slot, freed=True)


@on(ev.Ended)
def _ended(books: Books, event: ev.Ended) -> Touched:
    slot = books.slots.get(event.gang, -1)
    if slot < 0:
        return books.nothing(f"no gang named {event.gang!r}")
    job = books.job_in(slot)
    if job.life.seats:
        books.seat(slot, job, job.life.seats, -1)
    books.jobs[slot] = None
    books.queued.pop(slot, None)
    books.seated.pop(slot, None)
    books.leaving.pop(slot, None)
    books.ends[slot] = NEVER
    del books.slots[event.gang]
    books.spare_slots.append(slot)
    _settle_dependents(books, event.gang, event.state if event.state in ENDED else State.FINISHED)
    return Touched(books.version, slot, freed=True)


def _settle_dependents(books: Books, name: str, outcome: State) -> None:
    for slot in list(books.queued):
        job = books.job_in(slot)
        if job.gang.after and any(_names(entry) == name for entry in job.gang.after):
            after = tuple(entry for entry in job.gang.after if not _is_met(entry, name, outcome))
            after = tuple(f"never:{name}" if _names(entry) == name else entry for entry in after)
            gang = msgspec.structs.replace(job.gang, after=after)
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
    gang = msgspec.structs.replace(job.gang, estimate=event.estimate)
    books.put(slot, Job(gang, moved(job.life, books.version)))
    return Touched(books.version, slot)


@on(ev.Promised)
def _promised(books: Books, event: ev.Promised) -> Touched:
    return live(books, event.gang, QUEUED, lambda life: moved(life, books.version, promise=event.promise))


@on(ev.Pledged)
def _pledged(books: Books, event: ev.Pledged) -> Touched:
    return live(books, event.gang, QUEUED, lambda life: moved(life, books.version, pledge=event.pledge))


@on(ev.TurnTaken)
def _turn_taken(books: Books, event: ev.TurnTaken) -> Touched:
    return live(books, event.gang, SEATED, lambda life: moved(life, books.version, turn=event.at))


def live(books: Books, name: str, states: "frozenset[State] | set[State]", after: Callable[[Life], Life]) -> Touched:
    slot = books.slot_of(name, states)
    if slot < 0:
        return books.nothing(f"{name!r} is not {' or '.join(sorted(states))}")
    job = books.job_in(slot)
    books.put(slot, Job(job.gang, after(job.life)))
    return Touched(books.version, slot)


def moved(life: Life, version: int, **changes: object) -> Life:
    return msgspec.structs.replace(life, version=version, **changes)


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
