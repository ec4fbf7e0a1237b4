"""Drive's backend for one machine: actions become keepers and messages to them, what keepers say becomes events."""

import asyncio
import signal
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import msgspec

from tutti.drive.backend import Accepted, Capabilities, Refused
from tutti.engine import events as ev
from tutti.engine.model import NEVER, SECOND, Listing, Resizing, Seats, State
from tutti.engine.plan import (
    AnyAction,
    Await,
    Evict,
    Fail,
    Grow,
    How,
    Migrate,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)
from tutti.jobs.durations import duration

from . import shelf
from .arming import Arming, Ready
from .booking import Booking
from .ends import QUICK, Fate, Verdict, died, for_whom, pause, verdict
from .fault import now_us, point
from .held import Change, Held, Placed, Run
from .journal import LAZY_S, TOGETHER_S, Journal, Unstored, Write
from .keeper.records import Record, read_record
from .layout import NoRoom, entering, leaving, missing, seats_of
from .links import KeeperLink, Message, NotForked, Nursery
from .ports import Ports
from .remains import Remains
from .starting import Starting
from .succession import Heir, Succession

CAN = Capabilities(choose_device=True, enforce_limit=True, park=True)
LEAVES = {How.PARK: "park", How.REQUEUE: "requeue", How.CANCEL: "cancel"}


class LocalBackend:
    """Everything that is started, changed and ended on this machine."""

    def __init__(self, booking: Booking, journal: Journal, starting: Starting, ports: Ports, nursery: Nursery) -> None:
        self.booking = booking
        self.journal = journal
        self.starting = starting
        self.ports = ports
        self.nursery = nursery
        self.held: dict[str, Held] = {}
        self.on_end: Callable[[Held, Verdict, int], None] = lambda _held, _verdict, _at: None
        self.on_news: Callable[[Held, str, str], None] = lambda _held, _kind, _text: None
        self.first_listing: Listing | None = None
        self.unsettled = False
        """Whether a job has ended whose end is still on the way to the disk."""
        self.lost_at_start: list[tuple[Held, Record]] = []
        self.world_listing: Callable[[], Listing] | None = None
        self._inbox: asyncio.Queue[ev.Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self.remains = Remains(self)
        self.arming = Arming(self)
        self.succession = Succession(self)
        self.told = self.seen = 0
        """How many events were told so far, and how many of them the driver has seen."""

    # -- drive's protocol

    @property
    def can(self) -> Capabilities:
        """Live resizing, device choice, limits; parking where a job saves its state."""
        return CAN

    async def listing(self) -> Listing:
        """What the journal and the keepers know; later, what the driver itself knows."""
        if self.first_listing is not None:
            found, self.first_listing = self.first_listing, None
            return found
        assert self.world_listing is not None
        return self.world_listing()

    async def events(self) -> AsyncIterator[ev.Event]:
        """What happens, in order."""
        while True:
            yield await self._inbox.get()

    async def apply(self, action: AnyAction, key: str) -> Accepted | Refused:
        """Begin one action; what becomes of it arrives as events."""
        held = self.held.get(action.gang)
        if held is None:
            return Accepted()
        match action:
            case Start() | Resume():
                return self._start(held, action.seats)
            case Grow() | Shrink() | Repair() | Migrate():
                by = action.by if isinstance(action, Shrink) else NEVER
                return self._resize(held, action.seats, by, key)
            case Evict():
                self.end(held, LEAVES[action.how], for_whom(action), self._grace(held, action.by))
            case Restart():
                self.end(held, "restart", action.why, self._grace(held, NEVER))
            case Fail():
                self._fail(held, action.why)
            case Reserve() | Await():
                pass
        return Accepted()

    def tell(self, event: ev.Event) -> None:
        """Something happened."""
        self.succession.recall()
        self.told += 1
        self._inbox.put_nowait(event)

    def spawn(self, work: Any) -> None:
        """Do something beside; errors go to the daemon's log."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- starting

    def _start(self, held: Held, seats: tuple[Seats, ...]) -> Accepted | Refused:
        self.succession.recall()
        if held.run is not None:
            return Accepted()
        if held.course.cancelled:
            return Refused("it is being cancelled")
        try:
            placed = entering(held.gang, (), seats, self.booking.chooser(held.name), held.course.tasks)
        except NoRoom as problem:
            self.booking.give_all(held.name)
            return Refused(str(problem))
        ready = self.arming.taken(held, placed)
        run = self.arming.new_run(held, placed) if ready is None else ready.run
        self.own(held, run, placed)
        self._take_tasks(held, placed)
        self.spawn(self._begin(held, run, ready))
        return Accepted()

    def own(self, held: Held, run: Run, placed: list[Placed]) -> None:
        """The run is that of the gang from now on."""
        run.made = now_us()
        for one in placed:
            one.begun = run.made
        held.runs, held.run = run.number, run

    def _take_tasks(self, held: Held, placed: list[Placed]) -> None:
        if held.course.tasks is not None:
            taken = {one.task for one in placed}
            held.course.tasks.waiting = [task for task in held.course.tasks.waiting if task not in taken]

    async def _begin(self, held: Held, run: Run, ready: Ready | None) -> None:
        """Journal the intent while the keeper gets its members ready; they go when the disk has it, and not before.

        A start that fails leaves nothing behind.
        """
        intended = self.journal.storing([shelf.intended(held, run) if ready is None else shelf.begun(run)])
        try:
            await (self._prepare(held, run) if ready is None else ready.work)
            await intended
            point("spawn: intended")
            self.let_go(run)
        except Exception as problem:  # noqa: BLE001 - whatever it is, nobody may be left starting for ever
            if not isinstance(problem, Unstored | NotForked | OSError):
                traceback.print_exc()
            said = {"why": "refused", "refused": str(getattr(problem, "what", problem))}
            self.over(held, run, self.read_exit(run) or said)
        finally:
            with suppress(Unstored):
                await intended

    def let_go(self, run: Run) -> None:
        """Members that are at the gate may begin."""
        if run.link is not None:
            run.was_told = True
            run.link.send({"say": "go"})
            point("spawn: let go")

    async def _prepare(self, held: Held, run: Run) -> None:
        """A keeper whose members wait for our word."""
        if why := await self.starting.unhealthy(held, run):
            self._unhealthy(run, why)
            raise NotForked(why)
        self.starting.write(held, run)
        point("spawn: written")
        await self.nursery.fork(run.folder)
        await self.attach(held, run)
        point("spawn: attached")

    def _unhealthy(self, run: Run, why: str) -> None:
        for one in run.members.values():
            for device in one.devices:
                self.booking.drain(device, f"health check: {why}")

    async def attach(self, held: Held, run: Run) -> None:
        """Listen to a run's keeper."""
        run.link = KeeperLink(
            run.folder, lambda message: self.heard(held, run, message), lambda: self.spawn(self.remains.look(held, run))
        )
        if run.leaving:
            self._send_stop(run)
        await run.link.connect()

    # -- what keepers say

    def heard(self, held: Held, run: Run, message: Message) -> None:
        """A keeper said something."""
        ear = EARS.get(str(message.get("say")))
        if held.run is run and ear is not None:
            ear(self, held, run, message)

    def _hello(self, held: Held, run: Run, message: Message) -> None:
        run.can = tuple(message.get("can", ()))
        if message.get("up"):
            self._running(held, run, int(message["up"]))
        if run.can:
            self._speaks(held, run)

    def _members(self, held: Held, run: Run, message: Message) -> None:
        for rank, pid, code, expected in message["rows"]:
            one = run.members.get(int(rank))
            if one is not None:
                one.pid = int(pid)
                if code is not None and one.is_here:
                    self._exited(held, run, one.id, int(code), bool(expected))

    def _synced(self, held: Held, run: Run, _message: Message) -> None:
        """A keeper has told everything; what an earlier daemon could not say any more is said now."""
        self.remains.close_if_done(held, run)

    def _up(self, held: Held, run: Run, message: Message) -> None:
        self._running(held, run, int(message["at"]))

    def _exit(self, held: Held, run: Run, message: Message) -> None:
        # Members that a keeper ends itself, because one failed or the time is over, are not lost.
        expected = bool(message["released"]) or bool(message.get("ending"))
        self._exited(held, run, int(message["rank"]), message["code"], expected)

    def _did(self, held: Held, run: Run, message: Message) -> None:
        self._changed(held, run, str(message["id"]))

    def _did_not(self, held: Held, run: Run, message: Message) -> None:
        self._unchanged(held, run, str(message["id"]), str(message.get("why", "")))

    def _can(self, held: Held, run: Run, message: Message) -> None:
        run.can = tuple(dict.fromkeys((*run.can, *message["can"])))
        self._speaks(held, run)

    def _word(self, held: Held, run: Run, message: Message) -> None:
        self.remains.word(held, run, message["word"])

    def _limit(self, held: Held, _run: Run, _message: Message) -> None:
        self.on_news(held, "limit", "its time is over")

    def _end_heard(self, held: Held, run: Run, message: Message) -> None:
        record = {**message, "saved": run.saved}
        self.over(held, run, record, self.succession.pass_on(held, run, record))

    def _running(self, held: Held, run: Run, at: int) -> None:
        if run.up:
            return
        run.up, run.phase = at, "up"
        held.course.first_started = held.course.first_started or at
        self.journal.later(shelf.moved(run))
        self.tell(ev.Running(max(at, now_us()), held.name))

    def _exited(self, held: Held, run: Run, rank: int, code: int, expected: bool) -> None:
        one = run.members.get(rank)
        if one is None or not one.is_here:
            return
        one.code, one.released = code, expected
        if held.is_loose:
            self.remains.task_over(held, run, one, code)
        elif held.stands_alone(one.role):
            self.remains.alone_over(held, run, one, expected)
        elif code < 0 and not expected and not run.leaving and not held.is_led:
            self.on_news(held, "lost", f"rank {rank} was {died(code)}")
            if run.here(one.role):
                self.journal.later(shelf.moved(run))
                self.give_devices(held, list(one.devices))
                self.tell_lost(held, run, [one])

    def tell_lost(self, held: Held, run: Run, lost: list[Placed]) -> None:
        """The gang is not whole until they are replaced, or it is made smaller."""
        run.broken = run.broken or bool(lost)
        for one in lost:
            where = (one.node,), (1,)
            self.tell(ev.MemberLost(now_us(), held.name, one.role, *where, ranks=(one.role_rank,)))

    # -- changing size

    def _resize(self, held: Held, seats: tuple[Seats, ...], by: int, key: str) -> Accepted | Refused:
        run = held.run
        if run is None or run.leaving or not run.up:
            return Refused("the gang is not running")
        if run.change is not None:
            return Refused("a change of size is under way")
        seated = held.seated(run)
        out = leaving(seated, seats)
        try:
            stay = [one for one in seated if one not in out]
            enter = entering(held.gang, stay, seats, self.booking.chooser(held.name), held.course.tasks)
        except NoRoom as problem:
            return Refused(str(problem))
        asks = "resize" in run.can and not all(held.stands_alone(one.role) for one in (*out, *enter))
        if out and enter and not held.is_loose:
            self.booking.give(held.name, [device for one in enter for device in one.devices])
            return Refused("members cannot move to another node while they run")
        ids = [one.id for one in enter]
        again = [rank for rank in ids if rank in run.members and (run.members[rank].code or 0) < 0]
        run.change = Change(key, seats, [one.id for one in out], ids, wants_answer=asks, replacing=again)
        self._take_tasks(held, enter)
        for one in enter:
            one.begun = now_us()
        run.members |= {one.id: one for one in enter}
        self.spawn(self.carry_out(held, run, run.change, by))
        return Accepted()

    async def carry_out(self, held: Held, run: Run, change: Change, by: int) -> None:
        """Have the keeper, and the job where it has a say, change the size: by a certain time."""
        try:
            await self.journal.commit([shelf.moved(run), shelf.coursed(held)])
        except Unstored as problem:
            self._unchanged(held, run, change.id, str(problem))
            return
        point("change: stored")
        if run.link is None or held.run is not run:
            return
        if change.entering and held.is_led:
            paths = self.starting.locks_of([run.members[rank] for rank in change.entering])
            run.link.send({"say": "lock", "id": change.id, "paths": paths})
        elif change.entering:
            file = self.starting.write_more(held, run, change)
            run.link.send({"say": "spawn", "id": change.id, "file": str(file)})
        elif change.wants_answer:
            self._ask_resize(held, run, change, by)
        else:
            self._release(held, run, change)

    def _ask_resize(self, held: Held, run: Run, change: Change, by: int) -> None:
        assert run.link is not None
        grace = self._grace(held, by)
        size = max(sum(seats.counts) for seats in change.seats)
        names = change.names or [f"r{rank}" for rank in change.leaving]
        request = {"say": "resize", "id": change.id, "target": size, "deadline_s": grace, "members": names}
        run.link.send({"say": "ask", "request": request})
        asyncio.get_running_loop().call_later(grace, self._late, held, run, change)

    def _late(self, held: Held, run: Run, change: Change) -> None:
        """Nobody answered in time: members that should go are ended, those that came go again."""
        if held.run is not run or run.change is not change or run.leaving:
            return
        if change.leaving:
            self._release(held, run, change)
        else:
            self._unchanged(held, run, change.id, "the job did not answer in time")

    def _release(self, held: Held, run: Run, change: Change) -> None:
        assert run.link is not None
        change.wants_answer = False
        if held.is_led:
            paths = self.starting.locks_of([run.members[rank] for rank in change.leaving])
            run.link.send({"say": "unlock", "id": change.id, "paths": paths})
            return
        grace = min(self._grace(held, NEVER), 10.0)
        run.link.send({"say": "release", "id": change.id, "ranks": change.leaving, "grace_s": grace})

    def _changed(self, held: Held, run: Run, change_id: str) -> None:
        """The keeper has done its part; where the job has a say, it is asked now."""
        change = run.change
        if change is None or change.id != change_id:
            return
        if change.wants_answer and change.entering:
            self._ask_resize(held, run, change, NEVER)
        else:
            self.settle(held, run, change)

    def answered(self, held: Held, run: Run, change_id: str, kind: str, why: str) -> None:
        """The job answered a request to change its size."""
        change = run.change
        if change is None or change.id != change_id:
            return
        if kind == "refused":
            self._unchanged(held, run, change_id, why)
        elif change.leaving:
            self._release(held, run, change)
        else:
            self.settle(held, run, change)

    def settle(self, held: Held, run: Run, change: Change) -> None:
        """The change is complete: the world learns the new seats."""
        run.change = None
        gone = [run.members[rank] for rank in change.leaving if rank in run.members]
        for one in gone:
            one.code = 0 if one.code is None else one.code
            one.released = True
        self.give_devices(held, [device for one in gone for device in one.devices])
        lost = [] if held.is_loose else missing(held, run, change.seats)
        counted = [*held.seated(run), *lost]
        for one in run.members.values():
            # Whom the gang does without from now on was not lost any more.
            is_over = one not in counted and not held.stands_alone(one.role)
            one.released = one.released or is_over
        self.journal.later(shelf.moved(run))
        whole = not held.is_loose and len(counted) == sum(s.members for s in change.seats)
        seats = change.seats if whole else seats_of(held.gang, counted, change.seats)
        self.tell(ev.Resized(now_us(), held.name, seats))
        if run.broken and not held.is_loose and not lost:
            run.broken = False
            self.tell(ev.Running(now_us(), held.name))
        self.tell_lost(held, run, lost)

    def _unchanged(self, held: Held, run: Run, change_id: str, why: str) -> None:
        change = run.change
        if change is None or change.id != change_id:
            return
        run.change = None
        self.on_news(held, "unchanged", f"its size stays as it was: {why}")
        came = [run.members[rank] for rank in change.entering if rank in run.members]
        for one in came:
            if run.link is not None and held.is_led:
                run.link.send({"say": "unlock", "id": f"{change_id}/back", "paths": self.starting.locks_of([one])})
            elif run.link is not None:
                run.link.send({"say": "release", "id": f"{change_id}/back", "ranks": [one.id], "grace_s": 5.0})
            is_lost = one.id in change.replacing
            one.code, one.released = (-signal.SIGKILL, False) if is_lost else (0, True)
        self.give_devices(held, [device for one in came for device in one.devices])
        lost = held.lost(run)
        self.tell(ev.Resized(now_us(), held.name, seats_of(held.gang, [*held.seated(run), *lost], change.seats)))
        self.tell_lost(held, run, lost)

    def _speaks(self, held: Held, run: Run) -> None:
        """The job speaks the channel: if it can change its size while it runs, the engine may make use of it."""
        elastic = any(role.max > role.min for role in held.gang.roles)
        if "resize" not in run.can or not elastic or held.job.resize is not None:
            return
        if held.gang.resizing is not Resizing.LIVE:
            held.gang = msgspec.structs.replace(held.gang, resizing=Resizing.LIVE)
            self.journal.later(shelf.changed(held))
            self.tell(ev.Changed(now_us(), held.gang))

    # -- ending

    def end(self, held: Held, leaving: str, why: str, grace_s: float) -> None:
        """Have a run end; what it was told decides what its end means. To cancel wins over everything else."""
        self.succession.recall()
        run = held.run
        if run is None:
            return
        if not run.leaving or leaving == "cancel":
            run.leaving, run.leaving_why = leaving, why
        run.grace_s = grace_s
        self._send_stop(run)

    def _send_stop(self, run: Run) -> None:
        """A keeper that is not there yet hears it as soon as it is."""
        if run.link is not None:
            leave = run.leaving in {"requeue", "park"}
            run.link.send({"say": "stop", "grace_s": run.grace_s, "why": run.leaving, "leave": leave})

    def _fail(self, held: Held, why: str) -> None:
        if held.run is not None:
            self.end(held, "fail", why, self._grace(held, NEVER))
        else:
            self.finish(held, Verdict(Fate.OVER, State.FAILED, 1, why), now_us(), tell=False)

    def _grace(self, held: Held, by: int) -> float:
        own = duration(held.job.grace) / SECOND
        return max(min(own, (by - now_us()) / SECOND), 0.0) if by < NEVER else own

    def over(self, held: Held, run: Run, record: Record, heir: Heir | None = None) -> None:
        """A run is over: its devices are free, its gang ends or waits again. The heir has its place already."""
        if heir is None:
            self.succession.recall()
        if held.run is not run:
            return
        at = max(min(int(record.get("ended") or NEVER), now_us()), run.up or run.made)
        for one in run.members.values():
            one.code = one.code if one.code is not None else int(record.get("code") or 0)
        if held.is_loose:
            record = self.remains.array_record(held, run, record)
        found = verdict(held.job, run.leaving, run.leaving_why, held.course.losses, record)
        self.give_devices(held, self.booking.of(held.name), at)
        held.run = None
        if run.link is not None:
            run.link.close()
        over = shelf.run_over(run, at, {key: value for key, value in record.items() if key != "members"})
        if found.fate is Fate.OVER:
            self.finish(held, found, at, over, heir=heir)
        else:
            # That it was ready too early, or that its daemon went away, is not the job's fault.
            self._again(held, run, found, at, over, at_once=any(map(record.get, ("was_early", "was_deserted"))))
        self.spawn(self._tidy(run))

    async def _tidy(self, run: Run) -> None:
        """The folder of a run goes when the journal has its end, and not before."""
        with suppress(Unstored):
            await self.journal.commit((), LAZY_S)
            await self.starting.sweep(run)

    def give_devices(self, held: Held, devices: list[str], at: int = 0) -> None:
        """Devices are free again; a node that lost one to a drain says so before anybody plans with it."""
        self._count(held, frozenset(devices), at or now_us())
        for node in self.booking.give(held.name, devices):
            self.tell(ev.NodeSeen(now_us(), node))

    def _count(self, held: Held, devices: frozenset[str], at: int) -> None:
        """What they were used for is on the account of the job's owner."""
        for one in held.run.members.values() if held.run is not None else ():
            if not one.until and devices.intersection(one.devices):
                one.until = at
                held.course.device_us += len(one.devices) * max(at - (one.begun or at), 0)

    def finish(
        self, held: Held, found: Verdict, at: int, *writes: Write, tell: bool = True, heir: Heir | None = None
    ) -> None:
        """The gang is over."""
        self.held.pop(held.name, None)
        self.unsettled = True
        self.journal.later(*writes, shelf.ended(held, found.state, found.code, found.why, at))
        self.on_end(held, found, at)
        if heir is not None:
            self.succession.enter(heir, ev.Ended(at, held.name, found.state))
        elif tell:
            self.tell(ev.Ended(at, held.name, found.state))

    async def settled(self) -> None:
        """Ends that are on the way to the disk are there when this returns, so that no job is out of sight."""
        if self.unsettled:
            self.unsettled = False
            with suppress(Unstored):
                await self.journal.commit((), TOGETHER_S)

    def _again(self, held: Held, run: Run, found: Verdict, at: int, *writes: Write, at_once: bool = False) -> None:
        """Back in the queue. One that is lost soon after its start waits a while before it tries again."""
        if found.fate is Fate.REFUSED:
            if at_once:
                self.arming.set_aside(held)
            self.on_news(held, "refused", f"it could not be started: {found.why}")
            self.tell(ev.Refused(at, held.name, at if at_once else 0, found.why))
        elif run.leaving in {"requeue", "park"}:
            self.on_news(held, "evicted", f"it made room{': ' + found.why if found.why else ''}")
            self.tell(ev.Evicted(at, held.name, found.parked, self._kept(run, found, at)))
            self.remains.learn_of_parking(held, run, found)
        else:
            self._lost(held, run, found, at)
        self.journal.later(*writes, shelf.coursed(held))

    def _lost(self, held: Held, run: Run, found: Verdict, at: int) -> None:
        held.course.losses += 1
        self.on_news(held, "restart", f"{found.why}; it begins again (loss {held.course.losses})")
        if run.up and at - run.up > QUICK:
            self.tell(ev.Evicted(at, held.name, False, self._kept(run, found, at)))
        else:
            self.tell(ev.Refused(at, held.name, at + pause(held.course.losses), found.why))

    def _kept(self, run: Run, found: Verdict, at: int) -> int:
        """Run time whose work is not lost."""
        return max(at - run.up, 0) if found.kept and run.up else 0

    def read_exit(self, run: Run) -> Record | None:
        """The exit record of a run, if its keeper has written one."""
        return read_record(str(run.folder / "exit.json"))

    def close(self) -> None:
        """Hang up on everybody; keepers go on."""
        for held in self.held.values():
            if held.run is not None and held.run.link is not None:
                held.run.link.close()
        self.nursery.close()


EARS: dict[str, Callable[[LocalBackend, Held, Run, Message], None]] = {
    "hello": LocalBackend._hello,
    "members": LocalBackend._members,
    "synced": LocalBackend._synced,
    "up": LocalBackend._up,
    "exit": LocalBackend._exit,
    "spawned": LocalBackend._did,
    "released": LocalBackend._did,
    "refused": LocalBackend._did_not,
    "unasked": LocalBackend._did_not,
    "speaks": LocalBackend._can,
    "heard": LocalBackend._word,
    "limit": LocalBackend._limit,
    "ended": LocalBackend._end_heard,
}
"""What a keeper says, and who hears it."""
