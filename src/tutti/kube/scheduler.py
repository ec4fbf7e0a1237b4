"""The loop: what the watches say goes to the driver, what the driver decides goes to the hands."""

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from tutti.drive.backend import Capabilities, Refused
from tutti.drive.estimates import History
from tutti.drive.ledger import Ledger
from tutti.drive.loop import Driver, Keyed
from tutti.drive.notice import Notice, Trouble
from tutti.engine import events as ev
from tutti.engine.model import NEVER, SECOND, Job, State
from tutti.engine.plan import (
    AnyAction,
    Await,
    Evict,
    Fail,
    Grow,
    Migrate,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)
from tutti.engine.world import World
from tutti.jobs.kube.objects import Node, Pod, Thing

from . import memory, placement, reload, resync
from .api import Api, ApiError, Fenced
from .books import read_thing
from .config import Config
from .drift import drift
from .gangs import GangSeen, Kept, Where
from .hands import Hands
from .http import Broken
from .kinds import OWN, Served, served
from .metrics import Metrics
from .mirror import FILLING, Mirror
from .queues import OURS
from .resume import Room
from .rows import device_of
from .service import Service
from .sight import Sight
from .tell import Teller
from .verify import objection
from .watch import Listener

CAN = Capabilities(bind=True, live_resize=True, restart_resize=False, park=False)
SETTLE = 0.005
"""Seconds to wait for more news after the first, so that they are looked at together."""
BUSY, LADEN = 0.02, 0.03
"""The same while binds are on the way, and while they queue: what is decided meanwhile would only wait behind them."""
LONGEST_SETTLE = 0.1
TICK = 1.0
REMEMBER = 3.0
DEEPEST = 20_000
"""Calls inside calls: objects may be nested as deeply as the API server takes them, which is 10,000 levels."""
DISCOVER = 60.0
REPLAN = 10.0
"""Seconds after which a start that lost members, and finds no other place for them, is given up."""
GLANCE = 2.0
"""Seconds for which an answer of a replica that does not lead is good enough."""


class Scheduler:
    """Everything between the watches and the API server."""

    def __init__(self, api: Api, config: Config, metrics: Metrics | None = None) -> None:
        self.api = api
        self.config = config
        self.metrics = metrics or Metrics()
        self.mirror = Mirror(config.scheduler_name, config.levels)
        self.mirror.queues.replace(OURS, config.queues)
        self.service = Service(self)
        self.identity = f"{socket.gethostname()}-{os.getpid()}-{int(time.time())}"
        self.driver = self._new_driver()
        self.hands = Hands(api, self.metrics, self._moved, self._failed, self.mirror.recharge, config.connections)
        self.hands.scheduler, self.hands.generation = config.scheduler_name, self.identity
        self.hands.start_within = config.start_within
        self.teller = Teller(api, self.mirror, self.driver, self.metrics, config)
        self.teller.hands = self.hands
        self.served: list[Served] = []
        self.listeners: dict[str, Listener[object]] = {}
        self.sight = Sight(self.listeners)
        self._following: dict[str, asyncio.Task[None]] = {}
        self.placements: dict[str, placement.Written] = {}
        self.ready = asyncio.Event()
        self._changed = asyncio.Event()
        self.notices: list[Notice] = []
        self._took = 0.0
        self._glanced = -GLANCE
        self._compared = time.monotonic_ns()

    def _new_driver(self) -> Driver:
        epoch = f"{self.identity}/"
        watch = (self.service.watch,)
        return Driver(self.config.policy, can=CAN, history=History(), tell=self._notice, epoch=epoch, watch=watch)

    # -- life

    async def listen(self, group: asyncio.TaskGroup) -> None:
        """List everything and begin to watch; standbys do this too, so that they can take over at once."""
        await self.read_once()
        for path in self.listeners:
            self._follow(path, group)
        group.create_task(self._discover(group))
        group.create_task(self._stand_by())
        group.create_task(resync.verify_all(self, group))

    async def read_once(self) -> None:
        """List everything there is."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST))
        self.served = await served(self.api, self.config.dialects)
        for kind in self.served:
            self.listeners[kind.path] = self._listener(kind)
            self.teller.heed(kind)
        connections = self.api.http.warm(self.config.connections)
        await asyncio.gather(connections, *(listener.list() for listener in self.listeners.values()))

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        """Kinds that are installed later are watched from then on."""
        while True:
            await asyncio.sleep(DISCOVER)
            with contextlib.suppress(ApiError, Broken):
                for kind in await served(self.api, self.config.dialects):
                    if kind.path not in self.listeners:
                        self.served.append(kind)
                        self.listeners[kind.path] = self._listener(kind)
                        self.teller.heed(kind)
                        self._follow(kind.path, group)

    async def reread(self, path: str, group: asyncio.TaskGroup) -> None:
        """List a kind anew, and go on from there."""
        self._following[path].cancel()
        await asyncio.gather(self._following[path], return_exceptions=True)
        self.listeners[path].version = ""
        self._follow(path, group)

    def _follow(self, path: str, group: asyncio.TaskGroup) -> None:
        self._following[path] = group.create_task(self.listeners[path].follow())

    async def catch_up(self, group: asyncio.TaskGroup) -> None:
        """List once more who is where: what the leader before us wrote last may not have come in yet."""
        paths = [kind.path for kind in self.served if kind.kind.item in (Node, Pod) or kind.kind is OWN]
        for path in paths:
            self._following[path].cancel()
        await asyncio.gather(*(self._following[path] for path in paths), return_exceptions=True)
        await asyncio.gather(*(self.listeners[path].list() for path in paths))
        for path in paths:
            self._follow(path, group)

    def _listener(self, kind: Served) -> Listener[object]:
        put, drop = self._doors(kind)
        item, bulky = kind.kind.item, kind.kind.is_bulky
        return Listener(self.api, kind.path, item, put, drop, self._changed.set, bulky, **kind.query)

    def _doors(self, kind: Served) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
        mirror = self.mirror
        if kind.kind.item is Node:
            return mirror.put_node, lambda node: mirror.drop_node(node.metadata.name)
        if kind.kind.item is Pod:
            return mirror.put_pod, lambda pod: mirror.drop_pod(pod.metadata.uid)
        if kind.kind is OWN:
            return self._put_placement, self._drop_placement
        return (
            lambda thing: read_thing(mirror, _named(thing, kind), gone=False),
            lambda thing: read_thing(mirror, _named(thing, kind), gone=True),
        )

    def _put_placement(self, thing: Thing) -> None:
        key, written = placement.read(thing)
        if written.where and self._is_ours(thing):
            self.placements[key] = written

    def _drop_placement(self, thing: Thing) -> None:
        key = placement.read(thing)[0]
        if self._is_ours(thing):
            self.placements.pop(key, None)
            self.hands.written.discard(key)

    def _is_ours(self, thing: Thing) -> bool:
        """Whether a placement was written by a scheduler of this name; there may be others in the cluster."""
        ours = self.config.scheduler_name
        return ((thing.spec or {}).get("scheduler") or ours) == ours

    async def lead(self) -> None:
        """Decide and act, until cancelled."""
        kept, history = await memory.read(self.api, self.config)
        self.driver.intake.history = history
        self._begin(kept)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.hands.run())
            group.create_task(self.teller.run())
            group.create_task(self._tick())
            group.create_task(self._remember())
            group.create_task(self.api.http.warm(self.config.connections))
            self.ready.set()
            self.teller.look()
            await self._serve()

    async def glance(self) -> None:
        """Somebody asks a replica that does not lead: what it has heard is worked out, and nothing is done about it."""
        if self.ready.is_set() or time.monotonic() < self._glanced + GLANCE:
            return
        self._glanced = time.monotonic()
        kept, history = await memory.read(self.api, self.config)
        if not self.ready.is_set():
            self.driver.intake.history = history
            self._take_stock(kept)

    async def _stand_by(self) -> None:
        """Nobody hears what is heard while another leads; it must not pile up."""
        while not self.ready.is_set():
            await asyncio.sleep(self.config.resync)
            with contextlib.suppress(ApiError, Broken):
                await self.glance()

    def _take_stock(self, kept: dict[str, memory.Kept]) -> dict[str, placement.Written]:
        """Enter everything anew; answers with the starts that were written down and are not finished."""
        self.mirror.start_over()
        begun = {key: written for key, written in self.placements.items() if written.leaving is None}
        unfinished = {key: written for key, written in begun.items() if self._is_unfinished(key, written.where)}
        leaving = {key: said.leaving for key, said in self.placements.items() if said.leaving is not None}
        now = moment()
        room = Room(self.mirror)
        listing = memory.restored(self.mirror.listing(now, unfinished, leaving, memory.away(kept), room.takes), kept)
        # It is no drift that nothing was entered meanwhile; but what was answered before is not the answer now.
        before, self.driver.world = self.driver.world.version, World(self.config.policy.order.half_life)
        self.driver.resync(listing, now)
        self.driver.world.version += before
        self.driver.ledger = Ledger(device_of(self.driver.world))
        self.driver.ledger.open(self.driver.world, now)
        return unfinished

    def _begin(self, kept: dict[str, memory.Kept]) -> None:
        """Take over: what is bound sits, what was written down and is not finished goes on."""
        unfinished = self._take_stock(kept)
        for key in unfinished:
            gang = self.mirror.gangs.get(key)
            if gang is not None and gang.goes_on:
                gang.behind = int(placement.age(unfinished[key], self.config.start_within, time.time()) * 1e9)
                self._fill(gang)
        for key in self.placements:
            if key not in self.mirror.gangs or not any(True for _ in self.mirror.gangs[key].live):
                self._forget(key)
        for gang in [gang for gang in self.mirror.gangs.values() if gang.leaving]:
            self._take_off(gang)
        self.mirror.dirty_gangs |= dict.fromkeys(self.mirror.gangs)

    def _is_unfinished(self, key: str, where: list[Where]) -> bool:
        """Some of its members are bound, and others of those that are there could be."""
        gang = self.mirror.gangs.get(key)
        if gang is None:
            return False
        bound = sum(bool(pod.node) and not pod.is_over for pod in gang.pods.values())
        waiting = sum(pod.can_be_placed for pod in gang.pods.values())
        wanted = sum(count for role in where for _, count in role)
        gone = any(node not in self.mirror.grounds for role in where for node, _ in role)
        return 0 < bound < wanted and waiting > 0 and not gone

    # -- the loop

    async def _serve(self) -> None:
        self._step()
        while True:
            await self._news()
            while self.sight.is_lost:
                # Who decides blindly binds pods to nodes that have gone meanwhile.
                await self._changed.wait()
                self._changed.clear()
            self._step()

    async def _news(self) -> None:
        """Wait until something happened or the driver wants to look again."""
        wake = self.driver.wake_at
        delay = max((wake - moment()) / 1e6, 0.0) if wake < NEVER else None
        if self.mirror.filling:
            delay = FILLING if delay is None else min(delay, FILLING)
        try:
            async with asyncio.timeout(delay):
                await self._changed.wait()
            # The longer a look takes, and the more there is to write already, the more news are gathered for the next.
            settle = LADEN if self.hands.is_laden else SETTLE if self.hands.is_idle else BUSY
            await asyncio.sleep(min(max(settle, 2 * self._took), LONGEST_SETTLE))
        except TimeoutError:
            pass
        self._changed.clear()

    def _step(self) -> None:
        began = time.perf_counter()
        now = moment()
        news = bool(self.mirror.dirty_gangs)
        events = self.mirror.take(self.driver.world, now)
        self._note_ends(events, now)
        actions = self.driver.step(events, now)
        self._refill()
        while actions:
            actions = self._carried_out(actions, now)
        self._took = time.perf_counter() - began
        if events:
            self.metrics.observe("tutti_kube_decision_seconds", self._took)
        if events or news or self.mirror.misread:
            self.teller.look()

    def _note_ends(self, events: list[ev.Event], now: int) -> None:
        """Who held what is remembered for a while after it is gone."""
        world = self.driver.world
        for event in events:
            if isinstance(event, ev.Ended | ev.Evicted) and event.gang in world.slots:
                job = world.job_in(world.slots[event.gang])
                self.service.leaves(job, now, event.state if isinstance(event, ev.Ended) else State.WAITING)
            if isinstance(event, ev.Ended | ev.Evicted | ev.Refused):
                self._forget(event.gang)
            if isinstance(event, ev.Refused) and self.mirror.gangs[event.gang].exposed:
                self.metrics.observe("tutti_kube_exposure_seconds", self.mirror.gangs[event.gang].exposed / 1e9)

    def _forget(self, key: str) -> None:
        """What was written down of a gang that is over goes too; some have no group it would go with."""

        def is_needed() -> bool:
            gang = self.mirror.gangs.get(key)
            return gang is not None and gang.is_seated

        if key in self.placements or key in self.hands.written:
            self.hands.do(lambda: self.hands.remove_placement(key, is_needed))

    def _refill(self) -> None:
        """Pods that came for seats that were kept for them."""
        for key in self.mirror.refillable():
            self._fill(self.mirror.gangs[key])

    def _carried_out(self, actions: list[Keyed], now: int) -> list[Keyed]:
        more: list[Keyed] = []
        for key, action in actions:
            answer = self.apply(action)
            if answer is not None:
                more += self.driver.refused(key, action, answer, now)
        return more

    def apply(self, action: AnyAction) -> Refused | None:
        """Begin one action; what becomes of it arrives with the watches."""
        gang = self.mirror.gangs.get(action.gang)
        if gang is None:
            return Refused("the gang is gone")
        match action:
            case Start() | Resume():
                return self._start(gang, action)
            case Grow() | Repair() | Shrink() if gang.leaving:
                return Refused("it is being taken off its seats")
            case Grow() | Repair():
                gang.sit(action.seats, self.driver.world.nodes)
                gang.asked, gang.lost, gang.up, gang.since = True, 0, False, time.monotonic_ns()
                self._fill(gang)
                self._moved(gang)
            case Shrink():
                gang.sit(action.seats, self.driver.world.nodes)
                gang.asked = True
                self.hands.evict(gang, gang.surplus())
                self._moved(gang)
            case Migrate():
                return self._migrate(gang, action)
            case Evict() | Restart() | Fail():
                return self._evict(gang, action)
            case Reserve() | Await():
                self.teller.look()
        return None

    def _start(self, gang: GangSeen, action: Start | Resume) -> Refused | None:
        if gang.leaving or gang.is_seated:
            return Refused("it has seats already")
        gang.sit(action.seats, self.driver.world.nodes)
        fills = gang.fills()
        wanted = sum(count for where in gang.desired for _, count in where)
        why = objection(self.mirror, fills) if len(fills) == wanted else "pods have gone meanwhile"
        if why:
            gang.clear()
            self.mirror.dirty_gangs[gang.key] = None
            self._changed.set()
            return Refused(why)
        self.hands.start(gang, fills, write_ahead=wanted > 1)
        self.mirror.has_sat(gang.key)
        self.teller.look()
        return None

    def _migrate(self, gang: GangSeen, action: Migrate) -> Refused | None:
        """Members go, and the new pods that are made for them get the new seats."""
        before = gang.desired, gang.shapes
        gang.sit(action.seats, self.driver.world.nodes)
        going = gang.surplus()
        owned = all(gang.pods[uid].controller for uid in going if uid in gang.pods)
        if not owned or not (gang.may_move or gang.bound - len(going) >= gang.least):
            gang.desired, gang.shapes = before
            return Refused("it does not say that it may be started anew elsewhere (tutti.dev/movable)")
        # It has as long to become whole again as it had at its start.
        gang.asked, gang.up, gang.since = True, False, time.monotonic_ns()
        self.teller.moves(gang, action.room_for)
        self.hands.move(gang, going)
        self._moved(gang)
        return None

    def _fill(self, gang: GangSeen) -> None:
        """Bind pods that wait to seats that are free."""
        fills = gang.fills()
        if fills:
            self.hands.start(gang, fills, write_ahead=False)

    def _evict(self, gang: GangSeen, action: Evict | Restart | Fail) -> Refused | None:
        if not gang.is_seated:
            return None
        room_for = action.room_for if isinstance(action, Evict) else ""
        owned = all(gang.pods[uid].controller for uid in gang.seats if uid in gang.pods)
        if not room_for and not owned:
            return Refused("nobody would make its pods again, so it is left as it is", NEVER)
        gang.leaving, gang.room_for = "evict", room_for
        gang.stood = min(gang.bound, gang.least)
        self.teller.preempted(gang, room_for or getattr(action, "why", ""))
        self._take_off(gang)
        return None

    def _take_off(self, gang: GangSeen) -> None:
        gang.left_at = time.monotonic()
        self.hands.take_off(gang, list(gang.seats), gang.room_for)
        self._moved(gang)

    # -- what comes back

    def _moved(self, gang: GangSeen) -> None:
        self.mirror.moved_gangs[gang.key] = None
        self._changed.set()
        self.teller.look()

    def _failed(self, gang: GangSeen, why: str) -> None:
        """A start that cannot be finished is undone where somebody makes the pods again; else it is left, and told."""
        gang.failed_start = why
        if gang.bound >= gang.least:
            return
        owned = all(gang.pods[uid].controller for uid, seat in gang.seats.items() if seat.bound and uid in gang.pods)
        if not owned:
            self.teller.held(gang, why)
            return
        gang.leaving = "undo"
        self.metrics.add("tutti_kube_undone_total")
        self._take_off(gang)

    async def _remember(self) -> None:
        """Now and then: what should outlive us."""
        diary = memory.Diary(self.api, self.config)
        while True:
            await asyncio.sleep(REMEMBER)
            with contextlib.suppress(ApiError, Broken, Fenced):
                away = {key for key, gang in self.mirror.gangs.items() if gang.away}
                await diary.write(self.driver.world, self.driver.intake.history, away)

    async def _tick(self) -> None:
        """Once a second: gangs that take too long, and figures."""
        while True:
            await asyncio.sleep(TICK)
            now, now_us = time.monotonic_ns(), moment()
            for gang in list(self.mirror.gangs.values()):
                if gang.is_seated and gang.since and not gang.leaving and not self.sight.is_lost:
                    self._overdue(gang, (now - gang.since) / 1e9)
                if gang.again and gang.again <= now_us:
                    gang.again = 0
                    self.mirror.dirty_gangs[gang.key] = None
                    self._changed.set()
                if gang.leaving or gang.spared:
                    self._spare(gang, now / 1e9)
            self._count()
            self.sight.tell(now / 1e9)
            if now - self._compared > self.config.resync * 1e9 and self.hands.is_idle:
                self._compared = now
                self.compare()

    def _spare(self, gang: GangSeen, now: float) -> None:
        """Who cannot be made to leave stays, if all of it is there or can be made again: nobody is asked for ever."""
        if gang.spared and now > gang.spared:
            gang.spared = 0.0
            self.mirror.dirty_gangs[gang.key] = None
            self._changed.set()
        if gang.leaving and gang.kept is Kept.YES:
            gang.kept = Kept.TOLD
            self.teller.kept(gang)
        whole = all(uid in gang.pods and not gang.pods[uid].deleting for uid in gang.seats)
        if not (gang.leaving and whole and now - gang.left_at > self.config.evict_within):
            return
        if gang.bound >= gang.stood or all(gang.pods[uid].controller for uid in gang.seats):
            self._stay(gang, now)

    def _stay(self, gang: GangSeen, now: float) -> None:
        """It keeps the seats it had. Of whom somebody has gone already may be whole again when they are made anew."""
        if gang.leaving == "evict":
            self.mirror.news.append(ev.Stays(moment(), gang.key))
        for seat in gang.seats.values():
            seat.leaving = False
        gang.leaving, gang.room_for, gang.spared = "", "", now + self.config.evict_within
        gang.kept, gang.failed_start, gang.since = Kept.NO, "", time.monotonic_ns()
        self.hands.do(lambda: self.hands.mark(gang.key, None))
        self.metrics.add("tutti_kube_spared_total")
        self.teller.spared(gang)
        self.mirror.dirty_gangs[gang.key] = None
        self._changed.set()

    def reconfigure(self, config: Config) -> str:
        """Go by other settings from now on, as far as that is possible; says what was done."""
        later = reload.kept(self.config, config)
        self.mirror.queues.replace(OURS, config.queues)
        fresh = {name: getattr(config, name) for name in reload.AT_ONCE}
        self.config = msgspec.structs.replace(self.config, **fresh)
        self.hands.start_within = config.start_within
        self.driver.turn_to(config.policy)
        self._changed.set()
        return f"new settings are in force{'; after a restart: ' + ', '.join(later) if later else ''}"

    def compare(self) -> int:
        """Add up every pod anew and compare with the engine's books, which are made afresh; how many nodes differ."""
        self._step()
        wrong = drift(self.mirror, self.driver.world)
        self.metrics.add("tutti_kube_drift_total", wrong)
        now = moment()
        self.driver.resync(self.driver.world.listing(), now)
        return wrong

    def _overdue(self, gang: GangSeen, age: float) -> None:
        if gang.bound < gang.least and not gang.lost:
            self._in_part(gang, age)
        elif gang.bound < gang.least and not gang.ran:
            if age > REPLAN and not gang.failed_start:
                self._failed(gang, "members were lost before it ran, and there is no other place for them")
        elif not gang.up and age > self.config.up_within and gang.bound >= gang.least and not gang.failed_start:
            gang.failed_start = f"members did not run {self.config.up_within} s after they were bound"
            if all(gang.pods[uid].controller for uid in gang.seats if uid in gang.pods):
                gang.leaving = "undo"
                self.metrics.add("tutti_kube_undone_total")
                self._take_off(gang)
            else:
                self.teller.held(gang, gang.failed_start)

    def _in_part(self, gang: GangSeen, age: float) -> None:
        """A start is given so long to become whole; a gang that lost members, as long as its dialect says."""
        within = self.config.start_within
        if gang.landed >= gang.least and gang.gang is not None:
            if age * SECOND > (gang.gang.hold_up_to or self.config.policy.repair.hold_up_to) and not gang.failed_start:
                self._failed(gang, f"lost members were not made again in {age:.0f} s")
        elif age > within and not gang.failed_start:
            self._failed(gang, f"it was not whole {within} s after its first bind")

    def _count(self) -> None:
        mirror, metrics = self.mirror, self.metrics
        metrics.set("tutti_kube_nodes", sum(bool(ground.capacity) for ground in mirror.grounds.values()))
        metrics.set("tutti_kube_pods", len(mirror.pods))
        metrics.set("tutti_kube_out_of_sight", len(self.sight.lost()))
        metrics.set("tutti_kube_requests_total", self.api.requests)
        metrics.set("tutti_kube_retries_total", self.api.retries)
        metrics.set("tutti_kube_relists_total", sum(listener.lists - 1 for listener in self.listeners.values()))
        states = Counter(job.life.state.value for job in self.jobs())
        metrics.replace("tutti_kube_gangs", {state.value: states.get(state.value, 0) for state in State})

    def jobs(self) -> list[Job]:
        """Every gang the engine knows."""
        return [job for job in self.driver.world.jobs if job is not None]

    def _notice(self, notice: Notice) -> None:
        self.metrics.add("tutti_kube_trouble_total", label=notice.trouble.value)
        if notice.trouble is Trouble.DRIFT:
            self.metrics.add("tutti_kube_drift_total")
        self.notices = [*self.notices[-199:], notice]


def _named(thing: Thing, kind: Served) -> Thing:
    """Items of a list do not say what they are."""
    thing.api_version, thing.kind = kind.api_version, kind.kind.name
    return thing


def moment() -> int:
    """Now, in microseconds."""
    return time.time_ns() // 1000
