"""After a start of the daemon: what the journal knows, held against what really runs. Nothing acknowledged is lost,
nothing runs twice.
"""

import asyncio
import os
import shutil
import signal
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec

from tutti.engine.model import QUEUED, SEATED, Job, Life, Listing, State, Usage

from . import shelf
from .backend import LocalBackend
from .ends import Fate, Verdict
from .fault import now_us, point
from .held import Held, Run
from .keeper import records
from .layout import seats_of
from .remains import clear_away
from .settings import Settings

SETTLE_S = 5.0
"""How long a keeper that has lost its daemon may take to see it."""
CANCEL_S = 5.0
"""Time to end by itself for a job that had been cancelled before the daemon died."""


class Recovery:
    """Reads the journal into a listing, and goes on with what was under way."""

    def __init__(self, backend: LocalBackend, settings: Settings) -> None:
        self._backend = backend
        self._settings = settings
        self._after: list[tuple[Held, Run]] = []

    def listing(self) -> Listing:
        """The full truth at the start. Runs that ended meanwhile are listed as running; their end follows."""
        jobs = []
        for held, life in shelf.active(self._backend.journal):
            self._backend.held[held.name] = held
            jobs.append(Job(held.gang, self._life(held, life)))
        self._clear()
        booking = self._backend.booking
        usage = msgspec.json.decode(shelf.remembered(self._backend.journal, "usage") or "{}", type=dict[str, Usage])
        return Listing(
            at=now_us(),
            pools=(booking.box.pool,),
            nodes=booking.nodes(),
            queues=self._settings.engine_queues(),
            jobs=tuple(jobs),
            usage=usage,
        )

    def _clear(self) -> None:
        """Folders of runs that are over, or that never were: nobody had said go to what is in them."""
        known = {held.run.folder for held in self._backend.held.values() if held.run is not None}
        for folder in self._backend.starting.home.runs.iterdir():
            if folder not in known:
                shutil.rmtree(folder, ignore_errors=True)

    def _life(self, held: Held, life: Life) -> Life:
        run = self._run(held)
        life = msgspec.structs.replace(life, done=done_so_far(held, run, life))
        keep_waiting(held, run)
        if run is None:
            return _unseated(life)
        held.run = run
        for one in held.seated(run):
            self._backend.booking.take(held.name, one.devices)
        return self._seated(held, run, life)

    def _seated(self, held: Held, run: Run, life: Life) -> Life:
        lost = held.lost(run)
        seats = seats_of(held.gang, [*held.seated(run), *lost], life.seats)
        self._backend.tell_lost(held, run, lost)
        state = life.state if life.state in SEATED else State.STARTING
        # That it is up may be on the disk before its life is, and nobody says it a second time.
        if run.up or state in {State.DEGRADED, State.REPAIRING, State.DRAINING}:
            state = State.RUNNING
        return msgspec.structs.replace(
            life,
            state=state,
            seats=seats,
            started=life.started or run.made,
            first_started=life.first_started or run.made,
            lost=(),
            lost_ranks=(),
            target=(),
            promise=None,
            pledge=None,
            leaving_for="",
        )

    def _run(self, held: Held) -> Run | None:
        """The run that goes on, if one does. One that never began is made void, so that it never will."""
        found = self._backend.journal.rows("SELECT * FROM runs WHERE job = ? ORDER BY number", held.id)
        rows = [row for row in found if row["phase"] != "ready" or self._has_begun(row["nonce"])]
        held.runs = len(rows)
        if not rows or rows[-1]["phase"] == "ended":
            return None
        row = rows[-1]
        folder = self._backend.starting.folder(row["nonce"])
        run = Run(
            row["nonce"], row["number"], folder, shelf.read_members(row["members"]), made=row["made"],
            port=int(msgspec.json.decode(row["seats"] or b"0")), was_told=True,
        )  # fmt: skip
        if row["phase"] == "up":
            run.phase, run.up = "up", run.made
        if row["phase"] == "ready":
            run.made = records.begun_at(str(folder))
            self._backend.journal.later(shelf.begun(run))
        point("recover: run")
        if self._is_void(run):
            self._put_back(held, run)
            self._backend.journal.later(shelf.run_over(run, now_us(), {"why": "void"}), shelf.coursed(held))
            return None
        self._after.append((held, run))
        return run

    def _has_begun(self, nonce: str) -> bool:
        """Whether members that were ready were let go. Their keeper ends without its daemon, unless it had the word."""
        folder = str(self._backend.starting.folder(nonce))
        keeper_lives = not records.claim(folder, records.VOID) if Path(folder).is_dir() else False
        limit = time.monotonic() + SETTLE_S
        while keeper_lives and not records.begun_at(folder) and time.monotonic() < limit:
            keeper_lives = records.claim_is_alive(records.claimed_by(folder))
            time.sleep(0.005)
        if records.begun_at(folder):
            return True
        if keeper_lives and (keeper := records.keeper_of(folder)):
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
        self._backend.journal.later(shelf.unready(nonce))
        return False

    def _is_void(self, run: Run) -> bool:
        if not run.folder.exists():
            return True
        if not records.claimed_by(str(run.folder)):
            return records.claim(str(run.folder), records.VOID)
        return records.claimed_by(str(run.folder)) == records.VOID

    def _put_back(self, held: Held, run: Run) -> None:
        if held.course.tasks is not None:
            held.course.tasks.waiting = sorted({*held.course.tasks.waiting, *(one.task for one in run.here())} - {-1})

    def take_ends(self) -> None:
        """Runs that ended while nobody listened, in the order in which they did; and arrays with nothing left to do."""
        for held in list(self._backend.held.values()):
            if held.run is None and (found := cancelled(held) or nothing_left(held)) is not None:
                self._backend.finish(held, found, now_us())
        ends = [(held, run, self._backend.read_exit(run)) for held, run in self._after]
        over = [(held, run, record) for held, run, record in ends if record is not None]
        for held, run, record in sorted(over, key=lambda one: int(one[2].get("ended") or 0)):
            self._go_on_with(held, run)
            self._backend.over(held, run, record)

    async def go_on(self) -> None:
        """Listen to the keepers that live, and take in the ends of those that do not."""
        for held, run in self._after:
            if held.run is not run:
                continue
            self._go_on_with(held, run)
            try:
                await self._resume(held, run)
            except Exception:  # noqa: BLE001 - one run that cannot be taken up must not keep the others waiting
                traceback.print_exc()
                self._backend.spawn(self._backend.remains.look(held, run))

    def _go_on_with(self, held: Held, run: Run) -> None:
        if held.course.cancelled:
            run.leaving, run.leaving_why, run.grace_s = "cancel", held.course.cancelled, CANCEL_S

    async def _resume(self, held: Held, run: Run) -> None:
        if (record := self._backend.read_exit(run)) is not None:
            self._backend.over(held, run, record)
            return
        if records.claim_is_alive(records.claimed_by(str(run.folder))):
            try:
                await self._backend.attach(held, run)
            except OSError:
                self._backend.spawn(self._backend.remains.look(held, run))
            return
        await asyncio.to_thread(clear_away, run)
        record = self._backend.read_exit(run) or {"why": "", "code": -9, "first": 0, "lost_first": True}
        self._backend.over(held, run, record)


def done_so_far(held: Held, run: Run | None, life: Life) -> tuple[int, ...]:
    """How many members of each loose role need no seat again, each counted once whatever was stored of it last."""
    if (tasks := held.course.tasks) is not None:
        codes = {**dict.fromkeys(tasks.done, 0), **tasks.failed}
        for one in run.here() if run else ():
            one.code = codes.get(one.task)
        return (len(codes),) if codes else ()
    roles = range(len(held.gang.roles))
    over = Counter(one.role for one in run.members.values() if held.is_done(one)) if run else Counter[int]()
    return tuple(max(over[at], life.done[at] if life.done else 0) for at in roles) if over else life.done


def keep_waiting(held: Held, run: Run | None) -> None:
    """A task that is over or runs does not wait as well, whatever was stored of it last."""
    if (tasks := held.course.tasks) is not None:
        elsewhere = {*tasks.done, *tasks.failed, *(one.task for one in (run.here() if run else ()))}
        tasks.waiting = [task for task in tasks.waiting if task not in elsewhere]


def cancelled(held: Held) -> Verdict | None:
    """How a job ended that was cancelled on its way to a run which never began."""
    why = held.course.cancelled
    return Verdict(Fate.OVER, State.CANCELLED, 130, why) if why else None


def nothing_left(held: Held) -> Verdict | None:
    """How an array ended whose tasks are all over, though nobody had noted that it is."""
    tasks = held.course.tasks
    if tasks is None or tasks.waiting or not (tasks.done or tasks.failed):
        return None
    if tasks.worst is None:
        return Verdict(Fate.OVER, State.FINISHED, 0, "")
    task, code = tasks.worst
    return Verdict(Fate.OVER, State.FAILED, code, f"task {task} ended with exit code {code}")


def _unseated(life: Life) -> Life:
    state = life.state if life.state in QUEUED else State.WAITING
    return msgspec.structs.replace(
        life, state=state, seats=(), lost=(), lost_ranks=(), target=(), leaving_for="", lent=0
    )
