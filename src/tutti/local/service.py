"""The daemon's answers: every route of the API, over the driver, the backend and the journal of this machine."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from operator import itemgetter
from typing import Any

import msgspec

import tutti
from tutti.api import types as t
from tutti.api.home import Home
from tutti.api.http import Request
from tutti.api.rows import deserved_devices, queue_rows
from tutti.drive.loop import Driver
from tutti.engine import events as ev
from tutti.engine.model import NEVER, Job
from tutti.engine.order import Standing
from tutti.engine.plan import Start
from tutti.engine.record import record
from tutti.errors import NotFound, Refused
from tutti.jobs.job import DEVICE
from tutti.jobs.job import Job as Written
from tutti.views.metrics import exposition
from tutti.views.moments import iso
from tutti.views.plan import plan_lines
from tutti.views.story import story_lines

from . import rows, shelf
from .backend import LocalBackend
from .chronicle import Chronicle, job_of
from .clearing import Clearing
from .deadlines import warnings
from .fault import now_us
from .forecasting import Forecasting
from .held import Held, Origin
from .hopeless import never_starts, refuse_to_wait
from .intake import Intake
from .journal import TOGETHER_S, Journal, Unstored
from .pieces import log_piece, log_sizes
from .settings import Settings, read_settings
from .sheets import DAY, Sheets
from .tallies import Tallies
from .throughput import throughput
from .watching import Watching

LONGEST_WAIT_S = 300.0
PAST = (
    "FROM jobs WHERE ended > 0 AND (?1 = '' OR user = ?1) AND (?2 = '' OR queue = ?2)"
    " AND (?3 = '' OR instr(lower(name), ?3))"
)
PAST_PAGE = f"SELECT * {PAST} ORDER BY ended DESC, id DESC LIMIT ?4 OFFSET ?5"


class LocalService:
    """Implements `tutti.api.routes.Service`."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        driver: Driver,
        backend: LocalBackend,
        journal: Journal,
        chronicle: Chronicle,
        forecasting: Forecasting,
        watching: Watching,
    ) -> None:
        self.home, self.settings = home, settings
        self.on_settings: Callable[[Settings], None] = lambda _settings: None
        self.driver, self.backend, self.journal = driver, backend, journal
        self.chronicle, self.forecasting, self.watching = chronicle, forecasting, watching
        self.intake = Intake(driver, backend, journal, os.getuid(), set(settings.admins))
        self.tallies = Tallies(driver, journal, backend.held)
        self.sheets = Sheets(journal, self.tallies)
        self.since = now_us()
        self.page = ""
        self.stopping = asyncio.Event()
        self.open_page: Callable[[dict[str, Any], int, bool], Any] | None = None
        """Opens the TCP port; the page's address and a user's token. Set by whoever builds the page."""
        self._ends: dict[str, list[asyncio.Event]] = {}
        self._standing = Standing()

    # -- the daemon

    async def status(self) -> t.Status:
        world = self.driver.world
        trouble = [f"the journal cannot be written: {self.journal.trouble}"] if self.journal.trouble else []
        trouble += [f"{word.value}: {count}" for word, count in self.driver.counts.items() if word.value in BAD]
        return t.Status(
            version=tutti.__version__,
            pid=os.getpid(),
            home=str(self.home.path),
            since_us=self.since,
            devices=len(self.backend.booking.box.devices),
            source=self.backend.booking.box.source,
            waiting=len(world.queued),
            running=len(world.seated),
            policy=self.driver.policy.name,
            trouble=trouble,
            page=self.page,
        )

    async def stop(self, by: Request) -> t.Done:
        self._for_admins(by)
        self.journal.later(shelf.audited(now_us(), by.user, "stop", "", ""))
        self.stopping.set()
        running = len(self.driver.world.seated)
        return t.Done(said=f"the daemon ends; {running} running {'job goes' if running == 1 else 'jobs go'} on")

    async def serve(self, asked: dict[str, Any], by: Request) -> t.Served:
        if self.open_page is None:
            raise Refused("this Tutti was built without the page")
        self.page, token = await self.open_page(asked, by.uid, self._is_admin(by))
        self.journal.later(shelf.audited(now_us(), by.user, "serve", self.page, ""))
        return t.Served(said=self.page, token=token)

    async def backup(self, by: Request) -> t.Done:
        self._for_admins(by)
        target = self.home.path / "backups" / f"journal-{iso(now_us())[:19].replace(':', '')}.db"
        await self.journal.commit([shelf.audited(now_us(), by.user, "backup", str(target), "")])
        await asyncio.to_thread(self.journal.backup, target)
        return t.Done(said=str(target))

    async def config(self, by: Request) -> t.Config:
        path = self.home.config
        # It may hold addresses of hooks, which are as good as passwords.
        text = path.read_text() if path.exists() and self._is_admin(by) else ""
        policy = msgspec.to_builtins(self.driver.policy)
        return t.Config(path=str(path), text=text, policy=policy, queues=sorted(self.driver.world.queues))

    async def reload(self, by: Request) -> t.Done:
        """Read the configuration again; a wrong one changes nothing."""
        self._for_admins(by)
        settings = read_settings(self.home.config)
        later = "; [devices] counts for the next daemon" if settings.devices != self.settings.devices else ""
        self.settings = self.backend.starting.settings = settings
        self.on_settings(settings)
        self.driver.turn_to(settings.engine_policy())
        self.backend.arming.renew()
        self.intake.admins = set(settings.admins)
        wanted = {queue.name: queue for queue in settings.engine_queues()}
        for queue in wanted.values():
            self.backend.tell(ev.QueueSet(now_us(), queue))
        for name in self.driver.world.queues.keys() - wanted.keys():
            self.backend.tell(ev.QueueGone(now_us(), name))
        self.journal.later(shelf.audited(now_us(), by.user, "reload", str(self.home.config), ""))
        return t.Done(said=f"{len(wanted)} queues, policy {self.driver.policy.name}{later}")

    def _is_admin(self, by: Request) -> bool:
        return by.uid in {os.getuid(), 0} or by.user in self.intake.admins

    def _for_admins(self, by: Request) -> None:
        """The service itself belongs to its owner and to administrators."""
        if not self._is_admin(by):
            raise Refused("only an administrator may do that", hint="admins = [...] in the configuration names them")

    # -- jobs

    async def jobs(self, which: str, who: t.Which, offset: int, limit: int) -> t.Jobs:
        if which != "active":
            await self.backend.settled()
        if which == "ended":
            return self._ended(who, offset, limit)
        found = self._in_line(who)
        page = [self.row(held, self._place(held)) for held in found[offset : offset + limit]]
        more = offset + limit if len(found) > offset + limit else 0
        answer = t.Jobs(jobs=page, total=len(found), next=more)
        if which == "all" and not more:
            past = self._ended(who, max(offset - len(found), 0), limit - len(page))
            return t.Jobs(jobs=[*page, *past.jobs], total=len(found) + past.total, next=past.next and offset + limit)
        return answer

    def _in_line(self, who: t.Which) -> list[Held]:
        """Those who run first, by number; then those who wait, as they stand in line; then those on hold."""
        self.line_up()
        places, slots, last = self._standing.places(), self.driver.world.slots, sys.maxsize
        everyone: Iterable[Held] = self.backend.held.values()
        if who != t.Which():
            everyone = [held for held in everyone if _is_meant(held, who)]
        keyed = [(places.get(slots.get(one.name, -1), last) if one.run is None else 0, one.id, one) for one in everyone]
        return [held for *_, held in sorted(keyed, key=itemgetter(0, 1))]

    def line_up(self) -> Standing:
        """The lines, brought up to date; only what changed costs anything."""
        self._standing.update(self.driver.world.view(), now_us(), self.driver.policy)
        return self._standing

    def _place(self, held: Held) -> int:
        """Where a gang that waits stands in its queue, from 1."""
        return self._standing.place(self.driver.world.slots.get(held.name, -1))[0]

    def _ended(self, who: t.Which, offset: int, limit: int) -> t.Jobs:
        asked = (who.user, who.queue, who.match.lower())
        total = self.journal.rows(f"SELECT count(*) {PAST}", *asked)[0][0]
        found = self.journal.rows(PAST_PAGE, *asked, limit, offset)
        more = offset + limit if total > offset + limit else 0
        return t.Jobs(jobs=[rows.ended_row(row) for row in found], total=total, next=more)

    def row(self, held: Held, place: int = 0) -> t.JobRow:
        """A job that has not ended, as it is now; its place in line where that is known."""
        job = job_of(self.driver.world, held.name)
        now = now_us()
        if job is None:
            # Accepted, but its event is still on the way.
            job = Job(held.gang)
        reason = self.watching.reason(held.name) if held.name in self.driver.world.slots else None
        return rows.active_row(self.driver.world, held, job, reason, self.forecasting.of(held.name), now, place)

    async def submit(self, asked: t.Submit, by: Request) -> t.Submitted:
        made = await self.intake.submit(asked, by)
        due = [held.gang for held in made if held.gang.deadline < NEVER]
        told = (self.driver.world.view(), now_us(), self.driver.policy, due)
        notes = await asyncio.to_thread(warnings, *told) if due else []
        return t.Submitted(jobs=[self.row(held) for held in made], notes=notes)

    async def job(self, name: str, by: Request) -> t.JobPage:
        page = await self._page(name)
        if self._is_admin(by) or self._uid_of(name) == by.uid:
            return page
        # People put keys and passwords into variables.
        return msgspec.structs.replace(page, written={**page.written, "env": {}}, variables={})

    async def _page(self, name: str) -> t.JobPage:
        held = self.backend.held.get(name)
        if held is None:
            await self.backend.settled()
            return self._past(name)
        self.line_up()
        run = held.run
        members = list(run.members.values()) if run else []
        sizes = log_sizes(self.backend.starting.log_folder(held.id))
        ranks = [self._rank(held, one, sizes) for one in members]
        given: dict[str, str] = {}
        if run is not None and run.here():
            given = self.backend.starting.member(held, run, run.here()[0]).env
        return t.JobPage(
            job=self.row(held, self._place(held)),
            written=msgspec.to_builtins(held.job),
            cwd=held.origin.cwd,
            ranks=ranks,
            runs=held.runs,
            speed=self.tallies.speed(name),
            sheet=self.tallies.sheet(name),
            log_folder=str(self.backend.starting.log_folder(held.id)),
            variables=given,
        )

    def _rank(self, held: Held, one: Any, sizes: dict[int, int]) -> t.Rank:
        numbers = [self.backend.booking.by_id[device].index for device in one.devices]
        return t.Rank(
            rank=one.id, role=held.gang.roles[one.role].name, node=self.backend.booking.box.nodes[one.node].name,
            devices=numbers, pid=one.pid, code=one.code, log_bytes=sizes.get(one.id, 0),
        )  # fmt: skip

    def _past(self, name: str) -> t.JobPage:
        row = self._row_of(name)
        sizes = log_sizes(self.backend.starting.log_folder(row["id"]))
        made = self.journal.rows(
            "SELECT members FROM runs WHERE job = ? AND phase != 'ready' ORDER BY number", row["id"]
        )
        members = shelf.read_members(made[-1]["members"]) if made else {}
        ranks = [t.Rank(rank=one.id, code=one.code, log_bytes=sizes.get(one.id, 0)) for one in members.values()]
        origin = msgspec.json.decode(row["context"], type=Origin)
        return t.JobPage(
            job=rows.ended_row(row),
            written=msgspec.to_builtins(msgspec.json.decode(row["job"], type=Written)),
            cwd=origin.cwd,
            ranks=ranks,
            runs=len(made),
            speed=self.tallies.speed(name),
            sheet=self.tallies.sheet(name),
            log_folder=str(self.backend.starting.log_folder(row["id"])),
        )

    async def _entered(self, name: str) -> None:
        """A job that was accepted a moment ago is in the world before anything is said of it."""
        for _ in range(500):
            if name in self.driver.world.slots or name not in self.backend.held:
                return
            await asyncio.sleep(0.002)

    def _row_of(self, name: str) -> Any:
        found = self.journal.rows("SELECT * FROM jobs WHERE name = ? ORDER BY id DESC LIMIT 1", name)
        if not found:
            raise NotFound(f"there is no job {name!r}", hint="tutti queue --all")
        return found[0]

    def _id_of(self, name: str) -> int:
        held = self.backend.held.get(name)
        return held.id if held else int(self._row_of(name)["id"])

    def _uid_of(self, name: str) -> int:
        """Whose job it is."""
        held = self.backend.held.get(name)
        return (held.origin if held else msgspec.json.decode(self._row_of(name)["context"], type=Origin)).uid

    async def story(self, name: str) -> t.Story:
        with contextlib.suppress(Unstored):
            await self.journal.commit(())
        found = self.journal.rows("SELECT * FROM events WHERE job = ? ORDER BY id", self._id_of(name))
        held = self.backend.held.get(name)
        state = self.row(held).state if held else str(self._row_of(name)["state"])
        events = [rows.moment_row(row) for row in found]
        return t.Story(job=name, state=state, events=events, lines=story_lines(name, state, events, now_us()))

    async def logs(self, name: str, rank: int, begin: int, tail: int, by: Request) -> t.Logs:
        page = await self._page(name)
        if not self._is_admin(by) and self._uid_of(name) != by.uid:
            raise Refused(f"the output of {name} belongs to {page.job.user}", hint="ask its owner or an administrator")
        if rank < 0:
            first = self._first_failed(page) if page.job.ended_us else -1
            rank = first if first >= 0 else min((one.rank for one in page.ranks), default=0)
        ended = name not in self.backend.held
        return await asyncio.to_thread(log_piece, name, page.log_folder, rank, begin, min(tail, 4 << 20), ended)

    async def wait(self, name: str, wait_s: float) -> t.Waited:
        """Answers when the job has ended, or when the time is over. Raises Refused where it can never start."""
        if name in self.backend.held:
            refuse_to_wait(self.driver.world, name)
            over = asyncio.Event()
            self._ends.setdefault(name, []).append(over)
            try:
                await asyncio.wait_for(over.wait(), min(max(wait_s, 0.0), LONGEST_WAIT_S))
            except TimeoutError:
                pass
            finally:
                with contextlib.suppress(ValueError):
                    self._ends.get(name, []).remove(over)
        held = self.backend.held.get(name)
        if held is not None:
            refuse_to_wait(self.driver.world, name)
            return t.Waited(job=self.row(held), ended=False, log_folder=str(self.backend.starting.log_folder(held.id)))
        # Its end is on the way to the disk; whoever is told of it may rely on it.
        try:
            await self.journal.commit((), TOGETHER_S)
        except Unstored as problem:
            # The disk does not take it now; whoever waits asks again.
            await asyncio.sleep(1.0)
            found = self._past(name)
            return t.Waited(job=found.job, ended=False, log_folder=found.log_folder, trouble=problem.what)
        page = self._past(name)
        first = self._first_failed(page)
        return t.Waited(job=page.job, ended=True, first=first, log_folder=page.log_folder)

    def _first_failed(self, page: t.JobPage) -> int:
        """The rank that failed first, as its keeper saw it; the others may have ended because of it."""
        sql = "SELECT record FROM runs WHERE job = ? ORDER BY number DESC LIMIT 1"
        found = self.journal.rows(sql, page.job.id)
        record = msgspec.json.decode(found[0]["record"]) if found and found[0]["record"] else {}
        return int(record.get("first", -1)) if page.job.code else -1

    def see_who_waits_in_vain(self) -> None:
        """A gang has ended otherwise than others had hoped: whoever waits for their end is told."""
        for name in [name for name in self._ends if never_starts(self.driver.world, name)]:
            self.has_ended(name)

    def has_ended(self, name: str) -> None:
        """Wake those who wait for the end of a job."""
        for over in self._ends.pop(name, []):
            over.set()

    async def act(self, name: str, verb: str, asked: t.Ask, by: Request) -> t.Done:
        return await self.intake.act(name, verb, asked, by)

    async def update(self, name: str, asked: t.Change, by: Request) -> t.Done:
        return await self.intake.update(name, asked, by)

    # -- reasons and plans

    async def why(self, name: str, effort: int) -> t.Why:
        if name not in self.backend.held:
            await self.backend.settled()
            row = self._row_of(name)
            text = f"{name} is {row['state']}{': ' + row['why'] if row['why'] else ''}"
            return t.Why(job=name, state=row["state"], token="", lines=[text], explanation={})
        await self._entered(name)
        return await self.forecasting.why(name, max(0, min(effort, 2000)), self.backend.booking.out_of_use())

    async def reasons(self) -> t.Reasons:
        found: dict[str, list[str]] = {}
        world = self.driver.world
        for slot in world.queued:
            name = world.job_in(slot).gang.name
            reason = self.watching.reason(name)
            if reason is not None:
                found.setdefault(reason.token.value, []).append(name)
        ranked = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        return t.Reasons(
            reasons=[t.ReasonRow(reason=token, jobs=len(names), first=names[:3]) for token, names in ranked]
        )

    async def plan(self, asked: t.Submission | None, by: Request) -> t.PlanAnswer:
        if asked is None:
            view = self.driver.world.view()
            found = await asyncio.to_thread(self.watching.decided, view, now_us())
            return t.PlanAnswer(lines=plan_lines(view, found), actions=[msgspec.to_builtins(a) for a in found.actions])
        gangs = await self.intake.looked_at(asked, by)
        names = ", ".join(gang.name for gang in gangs)
        try:
            view, found = await asyncio.to_thread(self.intake.dry_run, gangs)
        except Refused as wrong:
            return t.PlanAnswer(lines=[wrong.what], actions=[], fits=False, job=names)
        starting = {action.gang for action in found.actions if isinstance(action, Start)}
        return t.PlanAnswer(
            lines=plan_lines(view, found),
            actions=[msgspec.to_builtins(action) for action in found.actions],
            fits=starting >= {gang.name for gang in gangs},
            job=names,
        )

    async def what_if(self, asked: t.WhatIf) -> dict[str, Any]:
        return await self.forecasting.what_if(asked)

    async def snapshot(self) -> bytes:
        view = self.driver.world.view()
        return await asyncio.to_thread(record, view, now_us(), self.driver.policy)

    # -- the box

    async def nodes(self) -> t.Nodes:
        world, booking = self.driver.world, self.backend.booking
        found = rows.node_rows(world, booking, self.backend.held)
        return t.Nodes(
            nodes=found,
            levels=list(booking.box.pool.levels),
            largest=sum(row.free for row in found),
            source=booking.box.source,
            notes=list(booking.box.notes),
        )

    async def drain(self, device: str, verb: str, asked: t.Ask, by: Request) -> t.Done:
        """Take a device out of use, or put it back. Gangs on it may finish, or must leave in time."""
        booking = self.backend.booking
        self._for_admins(by)
        if verb not in {"drain", "undrain"}:
            raise NotFound(f"there is no order {verb!r} for a device", hint="drain or undrain")
        devices = booking.named(device)
        holders = booking.owners(devices)
        if asked.dry_run:
            count = f"{len(devices)} device{'' if len(devices) == 1 else 's'}"
            told = f"{count} would be {verb}ed; held by {', '.join(holders) or 'nobody'}"
            return t.Done(done=False, said=told, names=devices)
        why = asked.why or f"drained by {by.user}"
        self.backend.succession.recall()
        changed = booking.drain(device, why) if verb == "drain" else booking.undrain(device)
        self.backend.arming.soon()
        for node in changed:
            # Before anybody plans with what nobody may have any longer.
            self.backend.tell(ev.NodeSeen(now_us(), node))
        stored = [shelf.kept("drained", msgspec.json.encode(booking.out).decode())]
        await self.journal.commit([*stored, shelf.audited(now_us(), by.user, verb, device, asked.why)])
        self.chronicle.feed.news("nodes")
        if verb == "drain" and asked.by_s is not None:
            Clearing(self.driver, self.backend).leave_by(holders, devices, asked.by_s)
        said = f"{verb}ed {', '.join(devices[:8])}"
        said += f"; still held by {', '.join(holders)}" if holders and verb == "drain" else ""
        return t.Done(said=said, names=devices)

    async def queues(self) -> t.Queues:
        view = self.driver.world.view()
        deserved = await asyncio.to_thread(deserved_devices, view, now_us(), self.driver.policy, DEVICE)
        return t.Queues(queues=queue_rows(self.driver.world, DEVICE, self.tallies.used(now_us()), deserved))

    async def report(self) -> t.Report:
        return self.tallies.report(now_us())

    async def report_history(self, since_us: int, until_us: int, points: int) -> t.ReportHistory:
        now = now_us()
        return self.sheets.history(since_us or now - DAY, until_us or now, points, now)

    async def throughput(self, since_us: int) -> t.Throughput:
        now = now_us()
        return throughput(self.journal, self.sheets, since_us or now - 7 * DAY, now)

    async def forecasts(self) -> t.Forecasts:
        return self.forecasting.accuracy()

    async def timeline(self, since_us: int, until_us: int, limit: int) -> t.Timeline:
        return self.tallies.timeline(since_us, until_us, limit, self.backend, now_us())

    async def audit(self, limit: int, by: Request) -> t.Audit:
        """What everybody did, for administrators; what they did themselves, for others."""
        who = "" if self._is_admin(by) else by.user
        sql = "SELECT * FROM audit WHERE ?1 IN ('', who) ORDER BY id DESC LIMIT ?2"
        found = self.journal.rows(sql, who, max(1, min(limit, 10_000)))
        return t.Audit(
            entries=[
                t.Entry(
                    at_us=r["at"], at=iso(r["at"]), who=r["who"], what=r["what"], target=r["target"], detail=r["detail"]
                )
                for r in found
            ]
        )

    async def metrics(self) -> str:
        return exposition(self.tallies.figures(self.backend, self.watching, now_us()))

    def news(self, after: int) -> AsyncIterator[t.News]:
        return self.chronicle.feed.listen(after)


def _is_meant(held: Held, who: t.Which) -> bool:
    return (
        who.user in {"", held.origin.user}
        and who.queue in {"", held.gang.queue}
        and who.match.lower() in held.name.lower()
    )


BAD = {"violation", "crashed", "lost-touch"}
