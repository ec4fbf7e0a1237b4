"""Gangs that start next, made ready while they wait: when there is room for them, only the word is missing.

Nothing of it is promised to anybody. A gang that is ready and does not start, or not on the devices it was made ready
for, is let go without having run an instruction, and starts like any other.
"""

import asyncio
import secrets
import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from tutti.engine.model import SECOND, OnLoss, Seats
from tutti.jobs.job import Job

from . import shelf
from .fault import now_us, point
from .held import Held, Placed, Run
from .journal import Unstored
from .keeper import records
from .layout import NoRoom, entering
from .links import KeeperLink, Message, NotForked
from .ports import is_free
from .upcoming import Upcoming

if TYPE_CHECKING:
    from .backend import LocalBackend

MOST = 2
"""Gangs that are ready at a time."""
WIDEST = 64
"""Members of a gang that is made ready: each is a process that may have to wait long."""
LOOK_S, LOOK_AGAIN_S = 0.003, 1.0
"""How long after something has happened it is looked at who is next (a start that goes on comes first), and how often
because of time alone."""
QUICK_S = 0.01
BREAKS = 9
"""Deciding ahead that takes longer than this is done only for a tenth of the time: in long lines others come first."""
ENOUGH_GUESSES = 6
UNLUCKY_S = 60.0
"""How long nobody is made ready where fewer than half of so many started so: it costs others, and is for nothing."""
GONE_S, STAND_DOWN_S = 0.1, 2.0
TRIES = 100
NEWS = frozenset({"members", "up", "exit", "ended"})
"""What keepers say of members that were let go."""
FAILURES = (OSError, NotForked, Unstored)


class Ready(NamedTuple):
    """A gang whose members are at the gate, or on their way to it."""

    held: Held
    job: Job
    """What it was when it was made ready: it may be changed while it waits."""
    run: Run
    work: "asyncio.Task[None]"

    @property
    def is_done(self) -> bool:
        """Whether only the word is missing, and the disk knows of the run."""
        return self.work.done() and not self.work.cancelled() and self.work.exception() is None

    @property
    def is_current(self) -> bool:
        """Whether the job is still the one it was made ready for."""
        held = self.held
        waits = held.run is None and not held.course.cancelled
        return waits and self.job is held.job and self.run.number == held.runs + 1


class Arming:
    """Who is ready, and who should be."""

    def __init__(self, backend: "LocalBackend") -> None:
        self._backend = backend
        self._ready: dict[str, Ready] = {}
        self._unfit: dict[str, Job] = {}
        """Jobs whose members did not stay at the gate: they begin in their turn, and fail for all to see."""
        self._next_look: asyncio.TimerHandle | None = None
        self._break_s = self._pause_until = 0.0
        self._guesses: list[bool] = []
        """Whether the last ones who were ready started so."""
        self.upcoming: Upcoming | None = None

    def soon(self, wait_s: float = LOOK_S) -> None:
        """Something has happened: somebody else may be next."""
        loop, before = asyncio.get_running_loop(), self._next_look
        wait_s = max(wait_s, self._break_s)
        if before is None or before.when() > loop.time() + wait_s:
            if before is not None:
                before.cancel()
            self._next_look = loop.call_later(wait_s, self._look)

    def new_run(self, held: Held, placed: list[Placed]) -> Run:
        """A run that nobody knows of yet."""
        nonce = secrets.token_hex(8)
        run = Run(nonce, held.runs + 1, self._backend.starting.folder(nonce), {one.id: one for one in placed})
        taken = {one.run.port for one in self._backend.held.values() if one.run}
        run.port = self._backend.ports.choose(taken | {one.run.port for one in self._ready.values()})
        return run

    def has_any(self) -> bool:
        """Whether anybody is ready."""
        return any(ready.is_done for ready in self._ready.values())

    def of(self, name: str) -> Ready | None:
        """What was made ready for a gang, if it is."""
        ready = self._ready.get(name)
        return ready if ready is not None and ready.is_done and ready.is_current else None

    def may_go(self, ready: Ready) -> bool:
        """Whether it may go before the disk has it that it does. After a loss of power nobody could tell that it had
        begun: no harm where it would be begun again after any loss.
        """
        job, link = ready.job, ready.run.link
        again = job.on_loss is not OnLoss.FAIL and ready.held.course.losses < job.retries
        return again and ready.is_done and ready.is_current and link is not None and link.is_up and self._is_here(ready)

    def _is_here(self, ready: Ready) -> bool:
        return self._ready.get(ready.held.name) is ready and is_free(ready.run.port)

    def take(self, ready: Ready) -> None:
        """It starts."""
        del self._ready[ready.held.name]
        self._guessed(True)

    def taken(self, held: Held, placed: list[Placed]) -> Ready | None:
        """What was made ready for a gang that starts now; None where it was not, or not for these places."""
        ready = self._ready.get(held.name)
        if ready is None:
            return None
        fits = ready.held is held and ready.is_current and is_same(ready.run, placed) and is_free(ready.run.port)
        if not fits:
            self._guessed(False)
            self._let_go(held.name)
            return None
        self.take(ready)
        ready.run.members = {one.id: one for one in placed}
        return ready

    def _guessed(self, right: bool) -> None:
        self._guesses.append(right)
        if len(self._guesses) == ENOUGH_GUESSES:
            if 2 * sum(self._guesses) < ENOUGH_GUESSES:
                self._pause_until = time.monotonic() + UNLUCKY_S
            self._guesses.clear()

    def renew(self) -> None:
        """What they were made ready with has changed."""
        for name in list(self._ready):
            self._let_go(name)
        self.soon()

    async def stand_down(self) -> None:
        """Let everybody go, and see that nothing is left."""
        if self._next_look is not None:
            self._next_look.cancel()
        self._backend.succession.recall()
        going = [asyncio.create_task(self._cleared(self._ready.pop(name))) for name in list(self._ready)]
        if going:
            await asyncio.wait(going, timeout=STAND_DOWN_S)

    def set_aside(self, held: Held) -> None:
        """Nobody makes it ready again: it could not stay so."""
        self._unfit = {name: job for name, job in self._unfit.items() if name in self._backend.held}
        self._unfit[held.name] = held.job

    # -- who is next

    def _look(self) -> None:
        self._next_look = None
        used: dict[int, int] = {}
        wanted = {held.name: (held, placed) for held in self._wanted() if (placed := self._placed(held, used))}
        for name, ready in list(self._ready.items()):
            held, _ = wanted.get(name, (None, []))
            if held is not ready.held or not ready.is_current:
                self._let_go(name)
        for name, (held, placed) in wanted.items():
            if name not in self._ready and held.run is None:
                self._make_ready(held, placed)
        self._foresee()

    def _foresee(self) -> None:
        begun = time.thread_time()
        again = self._backend.succession.foresee()
        took = time.thread_time() - begun
        self._break_s = took if took < QUICK_S else took * BREAKS
        if again:
            self.soon(max((again - now_us()) / SECOND, LOOK_AGAIN_S))

    def _wanted(self) -> list[Held]:
        # Where devices have a health check, they are to be looked at right before they are used.
        if self.upcoming is None or self._backend.starting.settings.devices.health:
            return []
        if time.monotonic() < self._pause_until:
            return []
        return list(islice((held for held in self.upcoming.gangs() if self._may_be(held)), MOST))

    def _may_be(self, held: Held) -> bool:
        roles = held.gang.roles
        rigid = all(role.min == role.max and len(role.shapes) == 1 for role in roles)
        fits = rigid and not held.is_loose and sum(role.min for role in roles) <= WIDEST
        return fits and held.run is None and not held.course.cancelled and self._unfit.get(held.name) is not held.job

    def _placed(self, held: Held, used: dict[int, int]) -> list[Placed]:
        """Where it will probably be: on the devices that are free soonest and not counted on by those before it."""

        def choose(node: int, count: int) -> tuple[str, ...] | None:
            devices = self.upcoming.devices(node) if self.upcoming else []
            begin = used.get(node, 0)
            begin = begin if begin + count <= len(devices) else 0
            used[node] = begin + count
            chosen = devices[begin : begin + count]
            return self._backend.booking.in_order(chosen) if len(chosen) == count else None

        try:
            return entering(held.gang, (), seats_on_one(held), choose, None)
        except NoRoom:
            return []

    # -- making ready

    def _make_ready(self, held: Held, placed: list[Placed]) -> None:
        run = self.new_run(held, placed)
        work = asyncio.create_task(self._prepare(held, run))
        self._ready[held.name] = Ready(held, held.job, run, work)
        work.add_done_callback(lambda done: self._made(held, run, done))

    async def _prepare(self, held: Held, run: Run) -> None:
        backend = self._backend
        stored = backend.journal.storing([shelf.readied(held, run)])
        try:
            backend.starting.write(held, run, early=True)
            point("ready: written")
            await backend.nursery.fork(run.folder, early=True)
            run.link = KeeperLink(
                run.folder, lambda message: self._heard(held, run, message), lambda: self._silent(held, run)
            )
            await run.link.connect()
            # What a keeper does for the first time takes it longer; so it has listened once before it matters.
            run.link.send({"say": "hello"})
            point("ready: attached")
        finally:
            await stored

    def _made(self, held: Held, run: Run, done: "asyncio.Task[None]") -> None:
        if done.cancelled():
            return
        if done.exception() is not None:
            self._failed(held, run)
        else:
            self._foresee()

    def _heard(self, held: Held, run: Run, message: Message) -> None:
        if held.run is not run and message.get("say") in NEWS:
            # It may have been let go by a keeper whose own word is still on the way.
            self._backend.succession.recall()
        if held.run is run:
            self._backend.heard(held, run, message)
        elif message.get("say") == "ended":
            self._failed(held, run)
        elif message.get("say") == "hello":
            run.at_gate = [(int(pid), str(began)) for pid, began in message.get("held", ())]
            self._foresee()

    def _silent(self, held: Held, run: Run) -> None:
        """Its keeper has gone: where it runs by now that is looked into, otherwise it was not to be."""
        self._backend.succession.recall()
        if held.run is run:
            self._backend.spawn(self._backend.remains.look(held, run))
        else:
            self._failed(held, run)

    def _failed(self, held: Held, run: Run) -> None:
        self.set_aside(held)
        ready = self._ready.get(held.name)
        if ready is not None and ready.run is run:
            self._let_go(held.name)

    def _let_go(self, name: str) -> None:
        self._backend.succession.recall()
        if name not in self._ready:
            return  # it was let go at this moment
        self._backend.spawn(self._cleared(self._ready.pop(name)))

    async def _cleared(self, ready: Ready) -> None:
        """Its keeper ends when we hang up; then nothing shall be left."""
        with suppress(*FAILURES):
            await ready.work
        if ready.run.link is not None:
            ready.run.link.close()
        self._backend.journal.later(shelf.unready(ready.run.nonce))
        folder = ready.run.folder
        for _ in range(TRIES):
            await asyncio.sleep(GONE_S)
            if not records.claim_is_alive(records.claimed_by(str(folder))):
                await self._backend.starting.sweep(ready.run)
            if not folder.exists():
                break
        if not ready.held.runs:
            with suppress(OSError):
                self._backend.starting.log_folder(ready.held.id).rmdir()


def seats_on_one(held: Held) -> tuple[Seats, ...]:
    """All members on the first node."""
    return tuple(Seats((0,), (role.min,)) for role in held.gang.roles)


def is_same(run: Run, placed: list[Placed]) -> bool:
    """Whether members were made ready for exactly these places."""
    mine = {one.id: (one.role, one.role_rank, one.node, one.devices) for one in run.members.values()}
    return mine == {one.id: (one.role, one.role_rank, one.node, one.devices) for one in placed}
