"""The API of one box, answered for a cluster: the same commands, the same page, the same documents.

Only what reads is answered. What would change something is done where everything about a cluster is changed, with
kubectl; each refusal says how.
"""

# ruff: noqa: ARG002 - what a route gives is not always needed

import asyncio
import os
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import tutti
from tutti.api import types as t
from tutti.api.http import Request
from tutti.api.news import Feed
from tutti.api.rows import deserved_devices, queue_rows
from tutti.drive.estimates import Errors
from tutti.drive.forecasts import Budget, Forecaster
from tutti.drive.foretold import forecast_json, forecast_text
from tutti.drive.ledger import Report
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.explain import explain
from tutti.engine.model import NEVER, QUEUED, SECOND, Job, State
from tutti.engine.record import record
from tutti.engine.remedy import affordable, remedies
from tutti.engine.world import Touched
from tutti.errors import Misused, NotFound, Refused
from tutti.jobs.problems import nearest
from tutti.views.moments import clock
from tutti.views.plan import plan_lines
from tutti.views.story import story_lines
from tutti.views.why import why_json, why_lines

from . import rows
from .choice import choices, plainly
from .story import story

if TYPE_CHECKING:
    from .scheduler import Scheduler

QUICK = Budget(draws=10, steps=120)
KEEP_BARS = 2000


class Course:
    """What has changed of late, and who held what until when; bounded."""

    def __init__(self) -> None:
        self.bars: deque[t.Bar] = deque(maxlen=KEEP_BARS)
        self.ended: dict[str, int] = {}
        self.feed = Feed()


class Service:
    """What can be asked of the scheduler."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self.scheduler = scheduler
        self.course = Course()
        self._since = now_us()
        self._weighing = asyncio.Lock()

    # -- what happens

    def watch(self, event: ev.Event, touched: Touched) -> None:
        """One event was entered in the engine's world."""
        name = getattr(event, "gang", None)
        if touched.note or name is None:
            self.course.feed.news("nodes" if touched.nodes else "queues")
            return
        self.course.feed.news("job", name if isinstance(name, str) else name.name)

    def leaves(self, job: Job, now: int, state: State) -> None:
        """A gang that held nodes does so no longer."""
        self.course.bars.extend(bars(self.scheduler.driver.world.nodes, job, self.device, now, state.value))

    @property
    def device(self) -> str:
        """The resource that counts as a device."""
        return rows.device_of(self.scheduler.driver.world)

    # -- gangs

    async def status(self) -> t.Status:
        scheduler = self.scheduler
        world, device = scheduler.driver.world, self.device
        waiting = len(world.queued)
        total = sum(node.capacity.get(device, 0) for node in filter(None, world.nodes))
        return t.Status(
            version=tutti.__version__,
            pid=os.getpid(),
            home=scheduler.config.namespace,
            since_us=self._since,
            devices=total // 1000 if device == "cpu" else total,
            source="kubernetes",
            waiting=waiting,
            running=len(scheduler.jobs()) - waiting,
            policy=scheduler.driver.policy.name,
            trouble=[*scheduler.teller.pen.refusals.values(), *(notice.sentence for notice in scheduler.notices[-5:])],
        )

    async def jobs(self, which: str, who: t.Which, offset: int, limit: int) -> t.Jobs:
        """Those that run first, then those that wait in the order they came; at last those that are over."""
        active = [] if which == "ended" else sorted(self.scheduler.jobs(), key=_in_line)
        active = [job for job in active if _is_meant(job.gang.name, job.gang.user, job.gang.queue, who)]
        over = self._over() if which in ("all", "ended") else []
        over = [row for row in over if _is_meant(row.name, row.user, row.queue, who)]
        page = [self._row(job) for job in active[offset : offset + limit]]
        page += over[max(offset - len(active), 0) : max(offset + limit - len(active), 0)]
        total = len(active) + len(over)
        return t.Jobs(jobs=page, total=total, next=offset + limit if total > offset + limit else 0)

    def _over(self) -> list[t.JobRow]:
        world, gangs = self.scheduler.driver.world, self.scheduler.mirror.gangs
        over = [(key, gang) for key, gang in gangs.items() if gang.pods and key not in world.slots]
        over = [(key, gang) for key, gang in over if all(pod.is_over for pod in gang.pods.values())]
        return [rows.ended_row(key, gang, 1_000_000 + at) for at, (key, gang) in enumerate(over)]

    def _row(self, job: Job) -> t.JobRow:
        scheduler = self.scheduler
        reason = scheduler.teller.reasons().get(job.gang.name) if job.life.state in QUEUED else None
        seen = scheduler.mirror.gangs.get(job.gang.name)
        wanted = seen.wanted if seen is not None else 0
        return rows.active_row(scheduler.driver.world, job, reason, now_us(), self.device, wanted)

    def _named(self, name: str) -> str:
        return meant(name, [*self.scheduler.driver.world.slots, *self.scheduler.mirror.gangs])

    def _job(self, name: str) -> Job | None:
        world = self.scheduler.driver.world
        slot = world.slots.get(name, -1)
        return world.job_in(slot) if slot >= 0 else None

    async def job(self, name: str, by: Request | None = None) -> t.JobPage:
        key = self._named(name)
        gang, job = self.scheduler.mirror.gangs.get(key), self._job(key)
        over = next((row for row in self._over() if row.name == key), None)
        if job is None and over is None:
            raise NotFound(f"nothing is known of {key!r} yet")
        written = msgspec.to_builtins(gang.declared) if gang is not None and gang.declared is not None else {}
        row = self._row(job) if job is not None else over
        assert row is not None
        return t.JobPage(job=row, written=written, cwd="", ranks=rows.ranks(gang) if gang else [], runs=row.restarts)

    async def why(self, name: str, effort: int) -> t.Why:
        key = self._named(name)
        job = self._job(key)
        if job is None:
            state = "over" if any(row.name == key for row in self._over()) else "not complete: no pod of it is there"
            return t.Why(job=key, state=state, token="", lines=[f"{key} is {state}"], explanation={})
        view, now, policy = self.scheduler.driver.world.view(), now_us(), self.scheduler.driver.policy
        found = await asyncio.to_thread(explain, view, now, policy, key)
        waits = found.state in QUEUED
        effort = affordable(view, max(0, min(effort, 500)))
        helps = await asyncio.to_thread(remedies, view, now, policy, key, effort) if waits else []
        told = None
        if waits and found.token is not None:
            history = self.scheduler.driver.intake.history
            seer = Forecaster(0, QUICK, history.errors if history is not None else Errors())
            told = (await asyncio.to_thread(seer.forecast, view, now, policy, [key])).get(key)
        tell = forecast_text(told, now)
        lines = why_lines(found, helps, tell, lambda at: "now" if at <= now else clock(at, now))
        mirror = self.scheduler.mirror
        seen = mirror.gangs.get(key)
        asked = choices(seen, mirror.grounds, mirror.volumes) if seen is not None and waits else []
        lines = plainly(lines, asked)
        token = found.token.value if found.token else ""
        explanation, forecast = why_json(found, helps), forecast_json(told)
        return t.Why(
            job=key, state=found.state.value, token=token, lines=lines, explanation=explanation, forecast=forecast
        )

    async def reasons(self) -> t.Reasons:
        found: dict[str, list[str]] = {}
        for name, reason in self.scheduler.teller.reasons().items():
            found.setdefault(reason.token.value, []).append(name)
        ranked = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        return t.Reasons(reasons=[t.ReasonRow(reason=one, jobs=len(names), first=names[:3]) for one, names in ranked])

    async def story(self, name: str) -> t.Story:
        key = self._named(name)
        gang, job = self.scheduler.mirror.gangs.get(key), self._job(key)
        if gang is None:
            raise NotFound(f"nothing is known of {key!r} any more")
        state = job.life.state.value if job is not None else next((r.state for r in self._over() if r.name == key), "")
        events = await story(self.scheduler.api, gang)
        return t.Story(job=key, state=state, events=events, lines=story_lines(key, state, events, now_us()))

    # -- the cluster

    async def nodes(self) -> t.Nodes:
        scheduler = self.scheduler
        found = rows.node_rows(scheduler.driver.world, scheduler.mirror, self.device)
        free, levels = sum(row.free for row in found), list(scheduler.mirror.terrain.levels)
        crossing = [f"{key} is no level: it does not nest" for key in scheduler.mirror.terrain.crossing]
        return t.Nodes(nodes=found, levels=levels, largest=free, source="kubernetes", notes=crossing)

    async def queues(self) -> t.Queues:
        driver = self.scheduler.driver
        deserved = await asyncio.to_thread(deserved_devices, driver.world.view(), now_us(), driver.policy, self.device)
        world = driver.world
        return t.Queues(queues=queue_rows(world, self.device, rows.used(world, self.device), deserved))

    async def plan(self, asked: t.Submission | None, by: Request) -> t.PlanAnswer:
        if asked is not None:
            raise _elsewhere("a dry run of a job", "tutti what-if --kube --submit job.toml")
        driver = self.scheduler.driver
        view = driver.world.view()
        found = await asyncio.to_thread(decide, view, now_us(), driver.policy)
        return t.PlanAnswer(lines=plan_lines(view, found), actions=[msgspec.to_builtins(a) for a in found.actions])

    async def what_if(self, asked: t.WhatIf) -> dict[str, Any]:
        """In a process of its own, so that the loop goes on; one at a time, however many ask."""
        async with self._weighing:
            return await self._weighed(asked)

    async def _weighed(self, asked: t.WhatIf) -> dict[str, Any]:
        if asked.submit:
            raise _elsewhere("a gang that is not there", "tutti what-if --kube --submit job.toml")
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
            file = Path(folder) / "now.json"
            file.write_bytes(await self.snapshot())
            words = [f"--add-nodes={one}" for one in asked.add_nodes] + [f"--remove={one}" for one in asked.remove]
            words += [f"--queue={one}" for one in asked.queue]
            command = [sys.executable, "-m", "tutti", "what-if", str(file), "-o", "json", *words]
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
            out, err = await process.communicate()
        if process.returncode:
            raise Misused(err.decode(errors="replace").strip().removeprefix("error: "))
        return dict(msgspec.json.decode(out))

    async def snapshot(self) -> bytes:
        driver = self.scheduler.driver
        return await asyncio.to_thread(record, driver.world.view(), now_us(), driver.policy)

    async def report(self) -> t.Report:
        driver, now = self.scheduler.driver, now_us()
        assert driver.ledger is not None
        found: Report = driver.ledger.report(driver.world, max(now, driver.world.at))
        return t.Report(
            resource=found.resource,
            since_us=found.since,
            at_us=found.at,
            installed_s=found.installed / SECOND,
            total=_seconds(found.total),
            queues={name: _seconds(sheet) for name, sheet in found.queues.items()},
            users={},
            goodput=found.goodput_ppm / 1e6,
            goodput_known=found.goodput_known_ppm / 1e6,
            closes=abs(sum(found.total.values()) - found.installed) < SECOND,
        )

    async def report_history(self, since_us: int, until_us: int, points: int) -> t.ReportHistory:
        """Nobody writes it down here: a cluster has Prometheus for that."""
        return t.ReportHistory(stretches=[])

    async def throughput(self, since_us: int) -> t.Throughput:
        raise NotFound("a cluster keeps no list of jobs that have ended", hint="ask Prometheus, or whoever made them")

    async def forecasts(self) -> t.Forecasts:
        return t.Forecasts(forecasts=[], open=0)

    async def timeline(self, since_us: int, until_us: int, limit: int) -> t.Timeline:
        now = now_us()
        since = since_us or now - 86_400 * SECOND
        nodes, device = self.scheduler.driver.world.nodes, self.device
        found = [bar for bar in self.course.bars if bar.ended_us >= since and bar.begun_us <= (until_us or now)]
        for job in self.scheduler.jobs():
            found += bars(nodes, job, device, 0, job.life.state.value)
            found += promised(nodes, job, device)
        return t.Timeline(now_us=now, bars=found[:limit], cut=len(found) > limit)

    async def config(self, by: Request) -> t.Config:
        scheduler = self.scheduler
        text = f"scheduler_name = {scheduler.config.scheduler_name!r}\nnamespace = {scheduler.config.namespace!r}\n"
        policy = msgspec.to_builtins(scheduler.driver.policy)
        return t.Config(path="ConfigMap tutti", text=text, policy=policy, queues=list(scheduler.mirror.queues.all()))

    async def metrics(self) -> str:
        return self.scheduler.metrics.text()

    def news(self, after: int) -> AsyncIterator[t.News]:
        return self.course.feed.listen(after)

    # -- what is done elsewhere

    async def audit(self, limit: int, by: Request) -> t.Audit:
        return t.Audit(entries=[])

    async def logs(self, name: str, rank: int, begin: int, tail: int, by: Request) -> t.Logs:
        key = self._named(name)
        gang = self.scheduler.mirror.gangs.get(key)
        pods = rows.ranks(gang) if gang is not None else []
        who = sorted(pod.name for pod in gang.pods.values()) if gang is not None else []
        text = f"the output is with the kubelets: kubectl logs -n {key.partition('/')[0]} {who[0] if who else 'POD'}\n"
        first = max(rank, 0)
        return t.Logs(job=key, rank=first, text=text, begin=0, next=len(text), size=len(text), ended=not pods)

    async def wait(self, name: str, wait_s: float) -> t.Waited:
        page = await self.job(name)
        return t.Waited(job=page.job, ended=page.job.state in ("finished", "failed"))

    async def submit(self, asked: t.Submit, by: Request) -> t.Submitted:
        raise _elsewhere("submitting", "kubectl apply -f FILE, or tutti kube apply FILE")

    async def act(self, name: str, verb: str, asked: t.Ask, by: Request) -> t.Done:
        raise _elsewhere(verb, "kubectl delete, or a scheduling gate on the pods")

    async def update(self, name: str, asked: t.Change, by: Request) -> t.Done:
        raise _elsewhere("changing a gang", "kubectl edit podgroup NAME")

    async def drain(self, device: str, verb: str, asked: t.Ask, by: Request) -> t.Done:
        raise _elsewhere(verb, f"kubectl {'drain' if verb == 'drain' else 'uncordon'} NODE")

    async def reload(self, by: Request) -> t.Done:
        raise _elsewhere("reading the configuration again", "it is read by itself when its file changes")

    async def backup(self, by: Request) -> t.Done:
        raise _elsewhere("a copy of the journal", "everything is in API objects: back up etcd")

    async def stop(self, by: Request) -> t.Done:
        raise _elsewhere("stopping", "kubectl scale deployment tutti --replicas 0")

    async def serve(self, asked: dict[str, Any], by: Request) -> t.Served:
        raise _elsewhere("opening a port", "tutti kube run --port PORT")


def _elsewhere(what: str, how: str) -> Refused:
    return Refused(f"{what} is not done here", hint=how)


def _in_line(job: Job) -> tuple[bool, int, str]:
    return job.life.state in QUEUED, job.gang.submitted, job.gang.name


def _is_meant(name: str, user: str, queue: str, who: t.Which) -> bool:
    return (
        who.user in ("", user, name.partition("/")[0])
        and who.queue in ("", queue)
        and who.match.lower() in name.lower()
    )


def meant(name: str, known: list[str]) -> str:
    """The gang somebody means: its whole name, or its name without namespace or dialect."""
    if name in known:
        return name
    parts = {key: (key.split("@")[0], key.split("/", 1)[-1], key.split("/", 1)[-1].split("@")[0]) for key in known}
    close = [key for key, words in parts.items() if name in words]
    if len(close) > 1:
        raise Misused(f"{name!r} may be {' or '.join(sorted(close)[:4])}.", hint=f"tutti kube why {min(close)}")
    if not close:
        plain = [word for words in parts.values() for word in words]
        raise NotFound(f"no gang is called {name!r}.", hint=nearest(name, plain, "tutti kube queue"))
    return close[0]


def bars(nodes: Any, job: Job, device: str, ended: int, state: str) -> list[t.Bar]:
    """Which nodes a gang holds, since when and until when."""
    found = []
    for role, held in zip(job.gang.roles, job.life.seats, strict=False):
        each = role.shapes[held.shape].ask.get(device, 0)
        for at, count in zip(held.nodes, held.counts, strict=True):
            if nodes[at] is not None:
                found.append(
                    t.Bar(
                        job=job.gang.name,
                        queue=job.gang.queue,
                        node=nodes[at].name,
                        devices=[],
                        count=count * each,
                        begun_us=job.life.started,
                        ended_us=ended,
                        state=state,
                    )
                )
    return found


def promised(nodes: Any, job: Job, device: str) -> list[t.Bar]:
    """The same of a promise."""
    promise = job.life.promise
    if promise is None or promise.start >= NEVER:
        return []
    life = msgspec.structs.replace(job.life, seats=promise.seats, started=promise.start)
    ended = promise.end if promise.end < NEVER else 0
    found = bars(nodes, Job(job.gang, life), device, ended, job.life.state.value)
    return [msgspec.structs.replace(bar, promised=True) for bar in found]


def _seconds(sheet: dict[Any, int]) -> dict[str, float]:
    return {str(getattr(what, "value", what)): amount / SECOND for what, amount in sheet.items()}


def now_us() -> int:
    """Now, in microseconds."""
    from .scheduler import moment  # noqa: PLC0415 - the scheduler has a service

    return moment()
