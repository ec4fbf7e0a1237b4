"""What people ask of the daemon that changes something: each is on the disk before it is acknowledged."""

import asyncio
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from tutti.api import types as t
from tutti.api.http import Request
from tutti.drive.loop import Driver
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.edit import Submit as SubmitEdit
from tutti.engine.edit import edited
from tutti.engine.model import QUEUED, SEATED, SECOND, Gang, Life, Resizing, State
from tutti.engine.validate import faults
from tutti.errors import Misused, NotFound, Refused
from tutti.jobs.batch_variables import MANAGERS
from tutti.jobs.counted import counted
from tutti.jobs.delivery import DELIVERIES
from tutti.jobs.durations import duration
from tutti.jobs.file import from_data
from tutti.jobs.finish import OTHERS
from tutti.jobs.gang import to_gang
from tutti.jobs.job import Job

from . import shelf
from .backend import LocalBackend
from .chronicle import job_of
from .ends import Fate, Verdict
from .fault import now_us
from .held import Course, Held, Origin, tasks_of
from .journal import Journal
from .limits import limits_of
from .memory_bill import billed
from .names import made_up
from .room import check_limits, check_room
from .spread import spread

CHANGES_RUNNING = {"time", "priority", "expect", "deadline", "on_loss", "retries", "grace", "preemptible", "min_run"}
"""What may change while a job runs; the rest only while it waits."""
SIZE = {"workers", "want"}
MOST_LOOKS, QUICK_LOOKS = 500, 20
FRAMEWORKS = sorted({*DELIVERIES, *OTHERS, *MANAGERS, "train", "xgboost", "paddle"})


class Intake:
    """Submissions and orders."""

    def __init__(self, driver: Driver, backend: LocalBackend, journal: Journal, owner: int, admins: set[str]) -> None:
        self._driver, self._backend, self._journal = driver, backend, journal
        self._owner, self.admins = owner, admins
        self._next_id = 1 + max((int(row[0] or 0) for row in journal.rows("SELECT max(id) FROM jobs")), default=0)
        self._coming: set[str] = set()

    # -- submitting

    async def submit(self, asked: t.Submit, by: Request) -> list[Held]:
        """Take jobs in, all of them or none."""
        made: list[Held] = []
        writes = []
        try:
            for one in asked.jobs:
                held, stored = self._made(one, by)
                made.append(held)
                writes += stored
                self._coming.add(held.name)
            if asked.dry_run:
                return made
            await self._journal.commit(writes)
            for held in made:
                self._enter(held)
        finally:
            self._coming -= {held.name for held in made}
        return made

    def _made(self, one: t.Submission, by: Request) -> tuple[Held, list[Any]]:
        job = from_data(one.job, "the job")
        job = msgspec.structs.replace(job, name=job.name or made_up(job, self._is_taken))
        self._check(job, one.context)
        now = now_us()
        gang = self._gang(job, now, by.user)
        self._check_gang(gang)
        env_hash, keep = shelf.environment(one.context.env)
        cwd = str(Path(one.context.cwd, job.cwd)) if job.cwd else one.context.cwd
        limits = limits_of(by.pid)
        origin = Origin(cwd, env_hash, one.context.umask, by.user, by.uid, one.context.framework, limits)
        held = Held(self._next_id, job, origin, gang, one.context.env, Course(tasks_of(job)))
        self._next_id += 1
        life = Life(state=State.HELD if job.held else State.WAITING, since=now)
        text = f"submitted to queue {gang.queue}"
        audit = shelf.audited(now, by.user, "submit", gang.name, shelf.encode(job).decode())
        return held, [keep, shelf.submitted(held, life), shelf.told(held.id, now, "submitted", text), audit]

    def _gang(self, job: Job, submitted: int, user: str) -> Gang:
        gang = billed(to_gang(job, submitted, user), job.words)
        return spread(gang, job, self._backend.booking.box.nodes)

    def _is_taken(self, name: str) -> bool:
        return name in self._backend.held or name in self._coming

    def _check(self, job: Job, context: t.Context) -> None:
        if self._is_taken(job.name):
            raise Refused(f"a job named {job.name!r} is already here", hint="another --name, or tutti cancel it first")
        if not job.command and not any(part.command for part in job.roles.values()):
            raise Misused("there is no command to run", hint="tutti run -- python train.py")
        self._check_after(job)
        if job.framework and job.framework not in FRAMEWORKS:
            hint = f"--framework {(get_close_matches(job.framework, FRAMEWORKS, 1) or ['torchrun'])[0]}"
            raise Misused(f"there is no framework {job.framework!r}", hint=hint)
        cwd = Path(context.cwd, job.cwd) if job.cwd else Path(context.cwd)
        if not cwd.is_dir():
            raise Misused(f"there is no folder {str(cwd)!r} to run in", hint="--cwd FOLDER")
        if job.command and "/" in job.command[0] and (cwd / job.command[0]).is_dir():
            raise Misused(f"{job.command[0]!r} is a folder, not a program", hint="tutti run -- python train.py")

    def _check_after(self, job: Job) -> None:
        """Whoever waits for a job that nobody knows would wait for ever."""
        for written in job.after:
            name = written.rpartition(":")[2]
            known = self._is_taken(name) or self._journal.rows("SELECT 1 FROM jobs WHERE name = ? LIMIT 1", name)
            if not known:
                raise Refused(f"there is no job {name!r} to wait for", hint="submit it first; tutti queue --all")

    def _check_gang(self, gang: Gang) -> None:
        """A job that could never run here is refused at once, with the nearest that could."""
        view = self._driver.world.view()
        if wrong := faults(gang, view):
            raise Misused("\n  ".join(["the job cannot run here", *wrong]))
        if gang.queue not in view.queues:
            raise Refused(f"there is no queue {gang.queue!r}", hint=f"one of: {', '.join(sorted(view.queues))}")
        check_room(gang, self._backend.booking.box)
        check_limits(gang, view.queues)

    def _enter(self, held: Held) -> None:
        self._backend.held[held.name] = held
        self._backend.tell(ev.Submitted(held.gang.submitted, held.gang))
        if held.job.held:
            self._backend.tell(ev.Held(held.gang.submitted, held.name))
        self._backend.on_news(held, "", "submitted")

    # -- orders about one job

    async def act(self, name: str, verb: str, asked: t.Ask, by: Request) -> t.Done:
        """cancel, hold, release, retry, signal."""
        verbs = {"cancel": self._cancel, "hold": self._hold, "release": self._release, "signal": self._signal}
        if verb == "retry":
            return await self._retry(name, asked, by)
        if verb not in verbs:
            raise NotFound(f"there is no order {verb!r} for a job", hint=", ".join([*verbs, "retry", "update"]))
        with self._backend.succession.paused():
            held = await self._of(name)
            self._may(held, by)
            said = await verbs[verb](held, asked, by)
        return t.Done(done=not asked.dry_run, said=said, names=[held.name])

    async def _of(self, name: str) -> Held:
        held = self._backend.held.get(name)
        if held is not None:
            return held
        await self._backend.settled()
        rows = self._journal.rows("SELECT state FROM jobs WHERE name = ? ORDER BY id DESC LIMIT 1", name)
        if rows:
            raise Refused(f"{name} is over: {rows[0]['state']}", hint=f"tutti retry {name}")
        raise NotFound(f"there is no job {name!r}", hint="tutti queue --all")

    def _may(self, held: Held, by: Request) -> None:
        if by.uid not in {held.origin.uid, self._owner, 0} and by.user not in self.admins:
            raise Refused(f"{held.name} belongs to {held.origin.user}", hint="ask its owner or an administrator")

    async def _cancel(self, held: Held, asked: t.Ask, by: Request) -> str:
        state = self._state(held)
        if asked.dry_run:
            return f"{held.name} would be cancelled; it is {state}"
        at, why = now_us(), f"cancelled by {by.user}" + (f": {asked.why}" if asked.why else "")
        held.course.cancelled = why
        audit = shelf.audited(at, by.user, "cancel", held.name, asked.why)
        found = Verdict(Fate.OVER, State.CANCELLED, 130, why)
        if held.run is None:
            await self._journal.commit([audit, shelf.ended(held, State.CANCELLED, 130, why, at)])
            if held.name in self._backend.held:
                self._backend.finish(held, found, at)
            return f"{held.name} is cancelled"
        await self._journal.commit([audit, shelf.coursed(held)])
        if held.run is not None:
            grace = duration(held.job.grace) / SECOND if asked.grace_s is None else asked.grace_s
            self._backend.end(held, "cancel", why, grace)
            self._backend.tell(ev.Leaving(now_us(), held.name))
        return f"{held.name} is being ended"

    async def _hold(self, held: Held, asked: t.Ask, by: Request) -> str:
        if self._state(held) not in QUEUED:
            raise Refused(f"{held.name} is {self._state(held)}; only a job that waits can be put on hold")
        if asked.dry_run:
            return f"{held.name} would be put on hold"
        await self._stored_state(held, State.HELD, "hold", by)
        await self._taken_in(held, ev.Held(now_us(), held.name))
        return f"{held.name} is on hold"

    async def _release(self, held: Held, asked: t.Ask, by: Request) -> str:
        if self._state(held) is not State.HELD:
            raise Refused(f"{held.name} is {self._state(held)}, and not on hold")
        if asked.dry_run:
            return f"{held.name} would be released"
        await self._stored_state(held, State.WAITING, "release", by)
        await self._taken_in(held, ev.Released(now_us(), held.name))
        return f"{held.name} waits again"

    async def _taken_in(self, held: Held, event: ev.Event) -> None:
        """Tell it, and wait until whoever looks sees it."""
        before = self._driver.world.version
        self._backend.tell(event)
        for at in range(MOST_LOOKS):
            job = job_of(self._driver.world, held.name)
            if job is None or job.life.version > before:
                return
            await asyncio.sleep(0.0 if at < QUICK_LOOKS else 0.002)

    async def _stored_state(self, held: Held, state: State, what: str, by: Request) -> None:
        job = job_of(self._driver.world, held.name)
        life = msgspec.structs.replace(job.life if job else Life(), state=state)
        await self._journal.commit([shelf.lived(held, life), shelf.audited(now_us(), by.user, what, held.name, "")])

    async def _signal(self, held: Held, asked: t.Ask, by: Request) -> str:
        if held.run is None or held.run.link is None:
            raise Refused(f"{held.name} is not running")
        if not asked.dry_run:
            self._journal.later(shelf.audited(now_us(), by.user, f"signal {asked.number}", held.name, ""))
            held.run.link.send({"say": "signal", "number": asked.number, "ranks": asked.ranks})
        return f"signal {asked.number} for {held.name}"

    async def _retry(self, name: str, asked: t.Ask, by: Request) -> t.Done:
        """A job that is over, once more, as it was."""
        if name in self._backend.held:
            raise Refused(f"{name} is not over yet", hint=f"tutti show {name}")
        rows = self._journal.rows("SELECT * FROM jobs WHERE name = ? ORDER BY id DESC LIMIT 1", name)
        if not rows:
            raise NotFound(f"there is no job {name!r}", hint="tutti queue --all")
        origin = msgspec.json.decode(rows[0]["context"], type=Origin)
        if by.uid != origin.uid:
            # It would run as whoever asks, with the owner's command and everything in the owner's environment.
            raise Refused(f"{name} belongs to {origin.user}", hint="only its owner may submit it once more")
        written = msgspec.to_builtins(msgspec.json.decode(rows[0]["job"], type=Job))
        written["held"] = False
        env = shelf.read_environment(self._journal, origin.env_hash)
        context = t.Context(cwd=origin.cwd, env=env, umask=origin.umask, framework=origin.framework)
        again = t.Submit(jobs=[t.Submission(job=written, context=context)], dry_run=asked.dry_run)
        made = await self.submit(again, by)
        said = f"{name} {'would be' if asked.dry_run else 'is'} submitted again"
        return t.Done(done=not asked.dry_run, said=said, names=[held.name for held in made])

    def _state(self, held: Held) -> State:
        job = job_of(self._driver.world, held.name)
        return job.life.state if job else State.WAITING

    # -- changing one

    async def update(self, name: str, asked: t.Change, by: Request) -> t.Done:
        """Another time, priority, queue, size ... of a job that waits or runs."""
        with self._backend.succession.paused():
            return await self._update(name, asked, by)

    async def _update(self, name: str, asked: t.Change, by: Request) -> t.Done:
        held = await self._of(name)
        self._may(held, by)
        runs = self._state(held) in SEATED
        asked = msgspec.structs.replace(asked, set=_bounds(held, asked.set)) if runs else asked
        before = msgspec.to_builtins(held.job)
        job = from_data({**before, **asked.set, "name": name}, "the change")
        gang = self._gang(job, held.gang.submitted, held.gang.user)
        gang = msgspec.structs.replace(gang, resizing=max_resizing(held.gang, gang), sheds=True)
        self._check_gang(gang)
        changed = sorted(key for key in asked.set if before.get(key) != asked.set[key])
        again = runs and self._must_restart(held, gang, changed)
        if not asked.dry_run:
            await self._change(held, job, gang, asked, by)
        if again and not asked.dry_run:
            self._backend.end(held, "requeue", f"{by.user} gave it another size", duration(job.grace) / SECOND)
        said = f"{name}: {_told(changed)} {'would change' if asked.dry_run else 'changed'}"
        said += "; it starts again for that" if again else ""
        return t.Done(done=not asked.dry_run, said=said, names=[name])

    def _must_restart(self, held: Held, after: Gang, changed: list[str]) -> bool:
        """A gang that runs can change little; an elastic one its bounds: it shrinks into them, or must start again."""
        fixed = [key for key in changed if key not in CHANGES_RUNNING]
        if fixed and not set(fixed) <= SIZE:
            raise Refused(
                f"{held.name} runs, and {fixed[0]!r} can only change while it waits", hint="tutti cancel, then submit"
            )
        if not fixed:
            return False
        if not _is_elastic(held):
            raise Refused(
                f"{held.name} is rigid: its size can only change while it waits",
                hint="tutti cancel, then submit with --workers MIN:MAX",
            )
        here = [len(held.run.here(at)) if held.run else 0 for at in range(len(after.roles))]
        if any(now < role.min for role, now in zip(after.roles, here, strict=True)):
            raise Refused(
                f"{held.name} has {sum(here)} members now, and its minimum cannot be more while it runs",
                hint=f"tutti resize {held.name} {sum(here)}:{sum(role.max for role in after.roles)}",
            )
        outgrown = any(now > role.max for role, now in zip(after.roles, here, strict=True))
        if outgrown and after.resizing is Resizing.NONE:
            raise Refused(
                f"{held.name} has {sum(here)} members, and does not say that it can change its size while it runs",
                hint="tutti cancel, then submit with --resize restart, or a loop that speaks the job channel",
            )
        return outgrown and after.resizing is Resizing.RESTART

    async def _change(self, held: Held, job: Job, gang: Gang, asked: t.Change, by: Request) -> None:
        old = held.job, held.gang
        held.job, held.gang = job, gang
        audit = shelf.audited(now_us(), by.user, "update", held.name, shelf.encode(asked.set).decode())
        story = shelf.told(held.id, now_us(), "changed", f"{by.user} changed {', '.join(sorted(asked.set))}")
        try:
            await self._journal.commit([shelf.changed(held), audit, story])
        except Exception:
            held.job, held.gang = old
            raise
        await self._taken_in(held, ev.Changed(now_us(), gang))
        if "time" in asked.set and held.run is not None and held.run.link is not None:
            limit = duration(job.time) / SECOND if job.time else 0.0
            held.run.link.send({"say": "limit", "limit_s": limit})

    # -- trying out

    async def looked_at(self, asked: t.Submission, by: Request) -> list[Gang]:
        """What a dry run is about: a job as it would be taken in, or gangs of a manifest as they were translated."""
        if not asked.gangs:
            return [held.gang for held in await self.submit(t.Submit(jobs=[asked], dry_run=True), by)]
        try:
            gangs = msgspec.convert(asked.gangs, list[Gang])
        except msgspec.ValidationError as wrong:
            raise Misused(f"this is no gang: {wrong}", hint="send what `tutti plan` sends") from None
        resources = self._driver.world.view().resources
        told = {"submitted": now_us(), "user": by.user}
        return [msgspec.structs.replace(counted(gang, resources), **told) for gang in gangs]

    def dry_run(self, gangs: list[Gang]) -> tuple[Any, Any]:
        """The view with the gangs in it, and the plan for that view."""
        view = edited(self._driver.world.view(), [SubmitEdit(gang) for gang in gangs])
        return view, decide(view, now_us(), self._driver.policy)


def _told(changed: list[str]) -> str:
    """What changed, in the words people used: who gives a size does not speak of the size to aim for."""
    return ", ".join(key for key in changed if key != "want" or "workers" not in changed) or "nothing"


def _bounds(held: Held, wished: dict[str, Any]) -> dict[str, Any]:
    """An elastic job that runs and is given a number keeps its minimum: it is to have so many, and no more."""
    size, roles = str(wished.get("workers", "")), held.gang.roles
    if not size.isdecimal() or len(roles) != 1 or not _is_elastic(held):
        return wished
    return {**wished, "workers": f"{min(int(size), roles[0].min)}:{size}"}


def _is_elastic(held: Held) -> bool:
    """Whether a running job can have another size than it has, be it that its bounds are one number just now."""
    can = held.gang.resizing is Resizing.LIVE or held.job.resize is Resizing.RESTART
    return not held.is_loose and (can or any(role.max > role.min for role in held.gang.roles))


def max_resizing(before: Gang, after: Gang) -> Any:
    """A job that said it can resize still can, be its bounds one number for now."""
    return after.resizing if before.resizing is Resizing.NONE or after.resizing is Resizing.LIVE else before.resizing
