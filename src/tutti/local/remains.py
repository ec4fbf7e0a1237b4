"""What is left to see to while gangs run: tasks of arrays, words of jobs, and keepers that fell silent."""

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.engine import events as ev
from tutti.engine.model import SECOND, Progress
from tutti.train.agent.watch import state_of

from . import shelf
from .ends import Verdict, died, exit_code
from .fault import now_us as _now
from .held import Held, Placed, Run
from .keeper import cgroup, records, tree
from .layout import seats_of

if TYPE_CHECKING:
    from .backend import LocalBackend

REPORT_EVERY = SECOND
MOST_TELLINGS, LONGEST_TELLING = 200, 300
"""Progress is passed on at most so often."""
NEVER_BEGAN = "the process that keeps it was killed before it began"


class Remains:
    """Looks after what a backend does not decide."""

    def __init__(self, backend: "LocalBackend") -> None:
        self._backend = backend
        self._reported: dict[str, int] = {}

    # -- arrays

    def task_over(self, held: Held, run: Run, one: Placed, code: int) -> None:
        """A task has ended: done, failed, or lost and to be tried again."""
        tasks = held.course.tasks
        if run.leaving or tasks is None:
            self._task_of_part(held, run, one, code)
            return
        tries = tasks.tries.get(one.task, 0)
        if code < 0 and tries < held.job.retries:
            tasks.tries[one.task] = tries + 1
            tasks.waiting.insert(0, one.task)
            self._lost(held, run, one, code)
            return
        if code:
            tasks.failed[one.task] = exit_code(code)
        elif one.task not in tasks.done:
            tasks.done.append(one.task)
        self._done(held, run, one)

    def _task_of_part(self, held: Held, run: Run, one: Placed, code: int) -> None:
        """A member of a loose part that is no array."""
        if run.leaving:
            return
        if code < 0:
            self._lost(held, run, one, code)
        else:
            self._done(held, run, one)

    def alone_over(self, held: Held, run: Run, one: Placed, expected: bool) -> None:
        """A loose member beside others that stay together: it is done, or it is started again, and they go on."""
        code = one.code or 0
        if expected or run.leaving:
            return
        self._free(held, one)
        tries = held.course.tries.get(one.id, 0)
        fate = f"{held.gang.roles[one.role].name} {one.role_rank} {'was ' if code < 0 else ''}{died(code)}"
        if code and tries < held.job.retries:
            held.course.tries[one.id] = tries + 1
            self._backend.on_news(held, "lost", f"{fate}; it is started again and the others go on")
            self._backend.tell(ev.MemberLost(_now(), held.name, one.role, (one.node,), (1,)))
        else:
            if code:
                self._backend.on_news(held, "lost", f"{fate}; it is given up after {tries + 1} tries")
            self._backend.tell(ev.MembersDone(_now(), held.name, one.role, (one.node,), (1,)))
        self._backend.journal.later(shelf.moved(run), shelf.coursed(held))

    def _lost(self, held: Held, run: Run, one: Placed, code: int) -> None:
        self._backend.on_news(held, "lost", f"task {max(one.task, one.id)} was {died(code)}; it is tried again")
        self._free(held, one)
        # Nobody waits for a loose member, so the gang is not broken: it only has a seat less for now.
        self._backend.tell(ev.Resized(_now(), held.name, seats_of(held.gang, run.here())))

    def _done(self, held: Held, run: Run, one: Placed) -> None:
        self._free(held, one)
        self._backend.tell(ev.MembersDone(_now(), held.name, one.role, (one.node,), (1,)))
        # An array remembers its tasks, and there may be thousands.
        self._backend.journal.later(shelf.coursed(held) if held.course.tasks else shelf.moved(run))
        self.close_if_done(held, run)

    def close_if_done(self, held: Held, run: Run) -> None:
        """The keeper of loose members stays until it is told that no more will come."""
        tasks = held.course.tasks
        if held.is_loose and not run.here() and (tasks is None or not tasks.waiting) and run.link is not None:
            run.link.send({"say": "close"})

    def _free(self, held: Held, one: Placed) -> None:
        self._backend.give_devices(held, list(one.devices))

    def array_record(self, held: Held, run: Run, record: dict[str, Any]) -> dict[str, Any]:
        """The end of an array: it failed when any of its tasks did."""
        tasks = held.course.tasks
        if tasks is None or run.leaving:
            return record
        for one in run.members.values():
            if one.task >= 0 and not any(one.task in known for known in (tasks.done, tasks.failed, tasks.waiting)):
                tasks.waiting.insert(0, one.task)
        if tasks.waiting:
            return {**record, "code": record.get("code") or -9}
        # Whoever kept it may have been killed when there was nothing left to keep: then nothing was lost.
        first, code = tasks.worst or (0, 0)
        return {**record, "first": first, "code": code, "lost_first": False}

    # -- the channel

    def word(self, held: Held, run: Run, word: dict[str, Any]) -> None:
        """The job said something."""
        match word.get("say"):
            case "told":
                self._told(held, run, str(word.get("text", "")))
            case "progress":
                self._progress(held, run, word)
            case "refused":
                self._backend.answered(held, run, str(word["id"]), "refused", str(word.get("why", "")))
            case "done":
                self._backend.answered(held, run, str(word["id"]), "done", "")
            case "released":
                run.saved = word.get("state", "none") != "none"
                wrong = others_went(run, word)
                self._backend.answered(held, run, str(word["id"]), "refused" if wrong else "released", wrong)

    def _told(self, held: Held, run: Run, text: str) -> None:
        """What happened inside a job belongs into its story, within reason: some jobs never stop talking."""
        run.tellings += 1
        if run.tellings <= MOST_TELLINGS:
            self._backend.on_news(held, "inside", text[:LONGEST_TELLING])

    def _progress(self, held: Held, run: Run, word: dict[str, Any]) -> None:
        now = _now()
        if now - self._reported.get(run.nonce, 0) < REPORT_EVERY:
            return
        self._reported = {run.nonce: now, **{k: v for k, v in self._reported.items() if now - v < 60 * SECOND}}
        self._backend.tell(ev.Reported(now, held.name, progress_of(word, held, now)))

    def learn_of_parking(self, held: Held, run: Run, found: Verdict) -> None:
        """A job that says it can be set aside and then saves nothing is not set aside again: that costs it its work."""
        if run.leaving != "park" or found.parked or not held.gang.parkable:
            return
        text = "it was to be set aside and saved nothing, so its work is lost: it will not be set aside again"
        self._backend.on_news(held, "unsaved", text)
        held.gang = msgspec.structs.replace(held.gang, parkable=False)
        self._backend.journal.later(shelf.changed(held))
        self._backend.tell(ev.Changed(_now(), held.gang))

    # -- keepers that fell silent

    async def look(self, held: Held, run: Run) -> None:
        """The line to a keeper broke: it has ended, or it lives and is called again, or it was killed."""
        for _ in range(50):
            if held.run is not run:
                return
            if (record := self._backend.read_exit(run)) is not None:
                self._backend.over(held, run, {**record, "saved": run.saved})
                return
            if not records.claim_is_alive(records.claimed_by(str(run.folder))):
                break
            try:
                await self._backend.attach(held, run)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return
        await self.bury(held, run)

    async def bury(self, held: Held, run: Run) -> None:
        """A keeper that was killed: what it left behind is ended, and the run counts as lost."""
        began = has_begun(run)
        await asyncio.to_thread(clear_away, run)
        await asyncio.to_thread(_last_words, run)
        if held.run is not run:
            return
        if not began:
            self._backend.over(held, run, {"why": "refused", "refused": NEVER_BEGAN})
        else:
            self._backend.on_news(held, "lost", "the process that keeps it was killed")
            self._backend.over(held, run, {"why": "", "code": -9, "first": 0, "lost_first": True})


def clear_away(run: Run) -> None:
    """What is left of a run whose keeper was killed: processes, and the control group that only it would remove."""
    tree.sweep(run.nonce)
    keeper = records.keeper_of(str(run.folder))
    if keeper and not state_of(keeper):
        cgroup.clear(keeper)


def has_begun(run: Run) -> bool:
    """Whether anything of it may have run. A run that nobody had claimed is void from now on."""
    folder = str(run.folder)
    is_void = not records.claimed_by(folder) and records.claim(folder, records.VOID)
    return not is_void and (run.was_told or run.up > 0)


def _last_words(run: Run) -> None:
    """What a keeper had to say before it died belongs into the daemon's log: its own goes with the run."""
    with suppress(OSError):
        sys.stderr.write((run.folder / "keeper.log").read_text()[-4000:])


def others_went(run: Run, word: dict[str, Any]) -> str:
    """Why the devices that were to be given back are still in use: a launcher has let others go. Empty where not."""
    asked = set(run.change.names) if run.change is not None and run.change.id == word["id"] else set()
    return "others left than those who were asked to" if asked - set(word.get("members", ())) else ""


def progress_of(word: dict[str, Any], held: Held, now: int) -> Progress:
    """What a job says of itself, in the engine's units."""
    age = float(word.get("snapshot_age_s", 0.0))
    saved = int(word.get("snapshot_step", -1)) >= 0
    return Progress(
        step=max(int(word.get("step", 0)), 0),
        steps=int(word.get("steps", 0) or held.job.env.get("TUTTI_STEPS", 0) or 0),
        rate_milli=round(float(word.get("rate", 0.0)) * 1000),
        at=now,
        snapshot_at=now - round(age * SECOND) if saved else 0,
        save_cost=round(float(word.get("save_s", 0.0)) * SECOND),
        restart_cost=round(float(word.get("restart_s", 0.0)) * SECOND),
        state_bytes=int(word.get("state_bytes", 0)),
        legal_sizes=tuple(int(size) for size in word.get("legal", ())),
    )
