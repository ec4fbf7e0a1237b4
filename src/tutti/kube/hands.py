"""What is done to the cluster: placements written, pods bound and evicted; many at a time, in the order asked.

Every write goes through the fence of the lease. A bind names the pod's uid, so that a pod that was replaced meanwhile
is not bound in its stead.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from tutti.jobs.kube.objects import Pod

from . import placement
from .api import BUSY, MERGE, Api, ApiError, Fenced
from .gangs import Fill, GangSeen, Kept, Seat, Seen
from .http import Broken
from .metrics import Metrics
from .reload import say
from .watch import pause

TRIES = 8
LAST_WORDS = 3.0
"""Seconds that answers are waited for on the way out."""


class Bind(NamedTuple):
    """One pod to bind."""

    gang: GangSeen
    fill: Fill


class Spec(msgspec.Struct):
    """Of a pod: where it is."""

    nodeName: str = ""  # noqa: N815 - as Kubernetes spells it


class Hands:
    """Writers in parallel, over one queue of work."""

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        moved: Callable[[GangSeen], None],
        failed: Callable[[GangSeen, str], None],
        recharge: Callable[[Seen], None],
        workers: int = 24,
    ) -> None:
        """`moved` hears of every gang of which something became known; `failed` of starts that cannot be finished;
        `recharge` of pods that may take room elsewhere now."""
        self.api = api
        self.metrics = metrics
        self.moved = moved
        self.failed = failed
        self.recharge = recharge
        self.workers = workers
        self.scheduler = self.generation = ""
        self.start_within = 120
        self.written: set[str] = set()
        """Gangs of which a placement was written and not removed; the watch may not have told of it yet."""
        self._alone: dict[str, asyncio.Lock] = {}
        """By gang: its record is written or removed by one at a time."""
        self._to_place: deque[tuple[GangSeen, list[Fill]]] = deque()
        self._to_bind: deque[Bind] = deque()
        self._others: deque[Callable[[], Awaitable[None]]] = deque()
        self._work = asyncio.Semaphore(0)
        self._rests = False
        self._said: set[int] = set()
        """Refusals of evictions that stand in the log."""
        self.busy = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being written."""
        return not (self._to_place or self._to_bind or self._others or self.busy)

    @property
    def is_laden(self) -> bool:
        """Whether there is so much to write that more would only wait."""
        return len(self._to_bind) > self.workers

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(self._worker())

    async def rest(self) -> None:
        """Begin nothing more, and let what is on the way be answered, so that whoever comes next sees all of it."""
        self._rests = True
        end = time.monotonic() + LAST_WORDS
        while self.busy and time.monotonic() < end:  # noqa: ASYNC110 - it is a matter of milliseconds
            await asyncio.sleep(0.01)

    # -- what is asked

    def start(self, gang: GangSeen, fills: list[Fill], write_ahead: bool) -> None:
        """Bind these pods; the placement goes first where there is more than one."""
        if write_ahead:
            self._to_place.append((gang, fills))
            self._work.release()
        else:
            self._bind_all(gang, fills)

    def do(self, job: Callable[[], Awaitable[None]]) -> None:
        """Something else to write, behind the binds."""
        self._others.append(job)
        self._work.release()

    def _bind_all(self, gang: GangSeen, fills: list[Fill]) -> None:
        gang.pending += len(fills)
        for fill in fills:
            self._to_bind.append(Bind(gang, fill))
            self._work.release()

    # -- who does it

    async def _worker(self) -> None:
        while True:
            await self._work.acquire()
            if self._rests:
                continue
            self.busy += 1
            try:
                await self._next()
            except Fenced:
                # Somebody else may lead; whoever does finds the placement and goes on from there.
                pass
            except (ApiError, Broken):
                self.metrics.add("tutti_kube_trouble_total", label="unwritten")
            finally:
                self.busy -= 1

    async def _next(self) -> None:
        if self._to_place and len(self._to_bind) < 2 * self.workers:
            gang, fills = self._to_place.popleft()
            await self._place(gang, fills)
        elif self._to_bind:
            bind = self._to_bind.popleft()
            await self._bind(bind.gang, bind.fill)
        elif self._to_place:
            gang, fills = self._to_place.popleft()
            await self._place(gang, fills)
        elif self._others:
            await self._others.popleft()()

    # -- placements

    async def _place(self, gang: GangSeen, fills: list[Fill]) -> None:
        if not gang.desired or gang.leaving:
            return
        try:
            await self._write_placement(self._record(gang))
        except (ApiError, Broken) as problem:
            self.failed(gang, f"the placement could not be written: {problem}")
            return
        self._bind_all(gang, fills)

    def move(self, gang: GangSeen, uids: list[str]) -> None:
        """Write down where a gang is to be from now on, then evict those who are not there."""
        going = self._told_to_go(gang, uids)

        async def written() -> None:
            try:
                if gang.is_seated and not gang.leaving:
                    await self._write_placement(self._record(gang))
            finally:
                for uid in going:
                    self._send_away(gang, uid)

        self.do(written)

    def _record(self, gang: GangSeen) -> dict[str, object]:
        deadline = (datetime.now(UTC) + timedelta(seconds=self.start_within)).isoformat(timespec="seconds")
        return placement.placement(gang, self.scheduler, self.generation, deadline)

    @asynccontextmanager
    async def _recording(self, key: str) -> AsyncIterator[None]:
        lock = self._alone.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._alone.pop(key, None)

    async def _write_placement(self, body: dict[str, object]) -> None:
        meta: dict[str, str] = body["metadata"]  # type: ignore[assignment]
        key = str(body["spec"]["gang"])  # type: ignore[index]
        self.written.add(key)
        path = placement.path_of(meta["namespace"])
        async with self._recording(key):
            try:
                await self.api.insist("POST", path, body)
            except ApiError as no:
                if no.status != 409:
                    raise
                kept = {"ownerReferences": meta["ownerReferences"], "annotations": {placement.LEAVING: None}}
                change = {"spec": body["spec"], "metadata": kept}
                await self.api.insist("PATCH", f"{path}/{meta['name']}", change, MERGE)

    async def remove_placement(self, key: str, is_needed: Callable[[], bool] = lambda: False) -> None:
        """Nothing is left of the gang, unless it has seats again by now."""
        path = placement.path_of(placement.namespace_of(key), placement.name_of(key))
        async with self._recording(key):
            if is_needed():
                return
            self.written.discard(key)
            try:
                await self.api.insist("DELETE", path)
            except ApiError as no:
                if no.status != 404:
                    raise

    async def mark(self, key: str, leaving: str | None) -> None:
        """Write down that a gang is being taken off its seats, and whom for; or that it is not any more."""
        path = placement.path_of(placement.namespace_of(key), placement.name_of(key))
        async with self._recording(key):
            try:
                await self.api.insist("PATCH", path, {"metadata": {"annotations": {placement.LEAVING: leaving}}}, MERGE)
            except ApiError as no:
                if no.status != 404:
                    raise

    # -- binds

    async def _bind(self, gang: GangSeen, fill: Fill) -> None:
        """Bind one pod. What is decided about its gang meanwhile waits until no bind of it is on the way."""
        try:
            await self._bind_if_meant(gang, fill)
        finally:
            gang.pending -= 1
            if not gang.pending:
                self._all_landed(gang)

    async def _bind_if_meant(self, gang: GangSeen, fill: Fill) -> None:
        pod, node = fill
        seat = gang.seats.get(pod.uid)
        if seat is None or seat.node != node or seat.leaving or pod.node:
            return
        if gang.leaving or gang.failed_start:
            del gang.seats[pod.uid]
            return
        gang.since = gang.since or time.monotonic_ns()
        # Whatever becomes of its seat meanwhile: the pod may turn up there until the answer says that it does not.
        seat.flying, pod.sent = True, node
        try:
            why = await self._bind_pod(gang, fill, seat)
        finally:
            seat.flying = False
            if not seat.bound:
                pod.sent = ""
                self.recharge(pod)
        self._landed(gang, fill, seat, why)

    def _all_landed(self, gang: GangSeen) -> None:
        """The last bind on the way was answered."""
        if gang.is_seated and gang.is_whole and gang.landed:
            self.metrics.add("tutti_kube_starts_total")
            if gang.since:
                self.metrics.observe("tutti_kube_start_skew_seconds", (time.monotonic_ns() - gang.since) / 1e9)
        self.moved(gang)

    def _landed(self, gang: GangSeen, fill: Fill, seat: Seat, why: str) -> None:
        if seat.leaving and fill.pod.uid in gang.seats:
            seat.leaving = False
            self.evict(gang, [fill.pod.uid])
            self.moved(gang)
        gang.failed_start = gang.failed_start or why
        if gang.failed_start and not gang.leaving and not any(s.flying for s in gang.seats.values()):
            self.failed(gang, gang.failed_start)

    async def _bind_pod(self, gang: GangSeen, fill: Fill, seat: Seat) -> str:
        """Why the pod cannot be bound; nothing when it was, or when that is nobody's fault."""
        pod, node = fill
        path, body = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", binding(pod, node)
        for attempt in range(TRIES):
            try:
                await self.api.write("POST", path, body)
            except ApiError as no:
                if no.status in BUSY:
                    await asyncio.sleep(pause(attempt, no.retry_after))
                    continue
                return await self._refused(gang, fill, seat, no)
            except Broken:
                # It may have been taken in; a second bind of the same pod is answered by a conflict.
                await asyncio.sleep(pause(attempt))
                continue
            self._bound(gang, fill, seat)
            return ""
        return f"{pod.name} could not be bound: the API server does not answer"

    def _bound(self, gang: GangSeen, fill: Fill, seat: Seat) -> None:
        self.metrics.add("tutti_kube_binds_total")
        seat.bound = True
        if fill.pod.uid not in gang.seats:
            return
        gang.landed += 1
        if gang.landed == gang.least > 1 and gang.since:
            self.metrics.observe("tutti_kube_exposure_seconds", gang.in_part(time.monotonic_ns()) / 1e9)

    async def _refused(self, gang: GangSeen, fill: Fill, seat: Seat, no: ApiError) -> str:
        """A conflict may be our own earlier bind; a pod that is gone may be made again; else it cannot be helped."""
        self.metrics.add("tutti_kube_bind_failures_total", label=str(no.status))
        if no.status == 409 and await self._where(fill.pod) == fill.node:
            self._bound(gang, fill, seat)
            return ""
        gang.seats.pop(fill.pod.uid, None)
        self.moved(gang)
        return "" if no.status in (404, 409) else f"{fill.pod.name} could not be bound: {no}"

    async def _where(self, pod: Seen) -> str:
        """Where a pod with this uid is now."""
        try:
            found = await self.api.get(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", Pod)
        except (ApiError, Broken):
            return ""
        return found.spec.node_name if found.metadata.uid == pod.uid else ""

    # -- evictions

    def take_off(self, gang: GangSeen, uids: list[str], why: str) -> None:
        """Evict a gang as a whole: that is written down first, so that whoever comes after us goes on with it."""
        going = self._told_to_go(gang, uids)

        async def marked() -> None:
            try:
                await self.mark(gang.key, why)
            finally:
                for uid in going:
                    self._send_away(gang, uid)
                self.moved(gang)

        if sum(gang.seats[uid].bound for uid in going) > 1:
            self.do(marked)
        else:
            for uid in going:
                self._send_away(gang, uid)

    def evict(self, gang: GangSeen, uids: list[str]) -> None:
        """Evict pods of a gang; each is asked for again until a disruption budget lets it go."""
        for uid in self._told_to_go(gang, uids):
            self._send_away(gang, uid)

    def _told_to_go(self, gang: GangSeen, uids: list[str]) -> list[str]:
        """Their seats are given up from now on, so that nobody takes the gang for whole; those not told before."""
        going = [uid for uid in uids if uid in gang.seats and not gang.seats[uid].leaving]
        for uid in going:
            gang.seats[uid].leaving = True
        return going

    def _send_away(self, gang: GangSeen, uid: str) -> None:
        seat, pod = gang.seats.get(uid), gang.pods.get(uid)
        if seat is None or seat.flying:
            return
        if pod is None or (not seat.bound and not pod.node):
            # It never got there, so that there is nothing to take away.
            del gang.seats[uid]
        else:
            self.do(lambda: self._evict(gang, pod, 0))

    async def _evict(self, gang: GangSeen, pod: Seen, attempt: int) -> None:
        if pod.uid not in gang.pods or pod.uid not in gang.seats or not gang.seats[pod.uid].leaving:
            return
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self.api.write("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", body)
            self.metrics.add("tutti_kube_evictions_total")
        except ApiError as no:
            if no.status == 404:
                return
            if no.status == 429:
                self.metrics.add("tutti_kube_evictions_blocked_total")
                gang.kept = Kept.YES if gang.kept is Kept.NO else gang.kept
            elif no.status not in BUSY and no.status not in self._said:
                self._said.add(no.status)
                say(f"pods cannot be evicted: {no}")
            self._later(gang, pod, attempt)
        except Broken:
            self._later(gang, pod, attempt)

    def _later(self, gang: GangSeen, pod: Seen, attempt: int) -> None:
        loop = asyncio.get_running_loop()
        again = lambda: self.do(lambda: self._evict(gang, pod, attempt + 1))  # noqa: E731
        loop.call_later(min(0.5 * 2 ** min(attempt, 5), 10.0), again)


def binding(pod: Seen, node: str) -> bytes:
    """The body of a bind, with the uid the pod must have. No name in Kubernetes needs to be escaped."""
    meta = f'{{"name":"{pod.name}","namespace":"{pod.namespace}","uid":"{pod.uid}"}}'
    target = f'{{"apiVersion":"v1","kind":"Node","name":"{node}"}}'
    return f'{{"apiVersion":"v1","kind":"Binding","metadata":{meta},"target":{target}}}'.encode()
