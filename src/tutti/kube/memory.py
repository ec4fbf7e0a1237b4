"""What outlives a restart: promises given, attempts made, and how long gangs have run; bounded, in one ConfigMap."""

from collections.abc import Container
from typing import Any

import msgspec

from tutti.drive.estimates import History, Memory
from tutti.engine.model import QUEUED, Attempt, Data, Gang, Job, Listing, Promise, Seats
from tutti.engine.world import World

from .api import MERGE, Api, ApiError
from .config import Config
from .http import Broken

MOST_GANGS = 500
MOST_BYTES = 700_000
"""An object in the API has a little over a megabyte."""


class Kept(Data, frozen=True):
    """What is remembered of one gang that waits; nodes are named."""

    attempt: Attempt = Attempt()
    start: int = 0
    end: int = 0
    given: int = 0
    broken: int = 0
    seats: tuple[tuple[tuple[tuple[str, int], ...], int], ...] = ()
    gang: Gang | None = None
    """The gang itself, where it had to leave and its pods are not there again: nothing else says what it was."""


def name_of(config: Config) -> str:
    """The ConfigMap's name."""
    return f"{config.scheduler_name}-history"


def path_of(config: Config, name: str = "") -> str:
    """Where it is."""
    return f"/api/v1/namespaces/{config.namespace}/configmaps{'/' if name else ''}{name}"


def gathered(world: World, away: Container[str]) -> dict[str, Kept]:
    """Everything worth remembering about the gangs that wait; of those that are away, what they are."""
    found: dict[str, Kept] = {}
    for slot in list(world.queued)[:MOST_GANGS]:
        job = world.job_in(slot)
        if job.gang.name in away:
            found[job.gang.name] = msgspec.structs.replace(_kept(job, world), gang=job.gang)
        elif job.life.promise is not None or job.life.attempt.count:
            found[job.gang.name] = _kept(job, world)
    return found


def _kept(job: Job, world: World) -> Kept:
    promise, attempt = job.life.promise, job.life.attempt
    if promise is None:
        return Kept(attempt)
    seats = tuple((_by_name(held, world), held.shape) for held in promise.seats)
    return Kept(attempt, promise.start, promise.end, promise.given, promise.broken, seats)


def _by_name(held: Seats, world: World) -> tuple[tuple[str, int], ...]:
    pairs = zip(held.nodes, held.counts, strict=True)
    return tuple((node.name, count) for at, count in pairs if (node := world.nodes[at]) is not None)


def away(kept: dict[str, Kept]) -> dict[str, Gang]:
    """Gangs that had to leave and whose pods were not there again."""
    return {key: said.gang for key, said in kept.items() if said.gang is not None}


def restored(listing: Listing, kept: dict[str, Kept]) -> Listing:
    """The listing with what was remembered; a promise on nodes that are gone is forgotten."""
    numbers = {node.name: at for at, node in enumerate(listing.nodes)}
    jobs = tuple(_with(job, kept.get(job.gang.name), numbers) for job in listing.jobs)
    return msgspec.structs.replace(listing, jobs=jobs)


def _with(job: Job, kept: Kept | None, numbers: dict[str, int]) -> Job:
    if kept is None or job.life.state not in QUEUED:
        return job
    known = all(name in numbers for nodes, _ in kept.seats for name, _ in nodes)
    promise = None
    if kept.seats and known and len(kept.seats) == len(job.gang.roles):
        seats = tuple(Seats(tuple(numbers[n] for n, _ in p), tuple(c for _, c in p), shape) for p, shape in kept.seats)
        promise = Promise(kept.start, kept.end, seats, kept.given, kept.broken)
    return Job(job.gang, msgspec.structs.replace(job.life, promise=promise, attempt=kept.attempt))


async def read(api: Api, config: Config) -> tuple[dict[str, Kept], History]:
    """What was remembered; nothing where there is nothing, or where it makes no sense."""
    try:
        found = await api.get(path_of(config, name_of(config)), dict[str, Any])
        data = found.get("data") or {}
        gangs = msgspec.json.decode(data.get("gangs", "{}"), type=dict[str, Kept])
        runs = msgspec.json.decode(data["runs"], type=Memory) if "runs" in data else None
        return gangs, History.recalled(runs) if runs is not None else History()
    except (ApiError, Broken, msgspec.MsgspecError, KeyError):
        return {}, History()


def fitting(gangs: dict[str, Kept], most: int) -> bytes:
    """As many of the first as fit into so many bytes."""
    while True:
        data = msgspec.json.encode(gangs)
        if len(data) <= most or not gangs:
            return data
        gangs = dict(list(gangs.items())[: len(gangs) * 2 // 3])


def latest(history: History, most: int) -> bytes:
    """The latest run times that fit into so many bytes; the oldest are forgotten."""
    memory = history.memory()
    while True:
        data = msgspec.json.encode(memory)
        if len(data) <= most or not memory.runs:
            return data
        memory = msgspec.structs.replace(memory, runs=memory.runs[-(len(memory.runs) * 2 // 3) :])


class Diary:
    """Writes it down when it has changed."""

    def __init__(self, api: Api, config: Config) -> None:
        self.api = api
        self.config = config
        self._written: tuple[bytes, bytes] = (b"{}", b"")

    async def write(self, world: World, history: History | None, away: Container[str] = ()) -> None:
        """Write what changed since the last time."""
        gangs = fitting(gathered(world, away), MOST_BYTES // 2)
        runs = latest(history, MOST_BYTES - len(gangs)) if history is not None else b""
        if (gangs, runs) == self._written:
            return
        name = name_of(self.config)
        body: dict[str, Any] = {"data": {"gangs": gangs.decode(), "runs": runs.decode()}}
        try:
            await self.api.write("PATCH", path_of(self.config, name), body, MERGE)
        except ApiError as no:
            if no.status != 404:
                return
            whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **body}
            await self.api.write("POST", path_of(self.config), whole)
        self._written = (gangs, runs)
