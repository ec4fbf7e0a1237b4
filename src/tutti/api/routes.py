"""Every route of the HTTP API in one table, over whatever can answer: the daemon's socket and the page share it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from tutti.errors import Misused, NotFound

from . import types as t
from .http import Handle, Request, Response, answered, refused, segments

T = TypeVar("T")
PAGE = 1000
"""Rows of a list where nobody asks for fewer."""


class Service(Protocol):
    """What a driver of some world can be asked. `by` is who asks."""

    async def status(self) -> t.Status: ...
    async def jobs(self, which: str, who: t.Which, offset: int, limit: int) -> t.Jobs: ...
    async def submit(self, asked: t.Submit, by: Request) -> t.Submitted: ...
    async def job(self, name: str, by: Request) -> t.JobPage: ...
    async def why(self, name: str, effort: int) -> t.Why: ...
    async def reasons(self) -> t.Reasons: ...
    async def story(self, name: str) -> t.Story: ...
    async def logs(self, name: str, rank: int, begin: int, tail: int, by: Request) -> t.Logs: ...
    async def wait(self, name: str, wait_s: float) -> t.Waited: ...
    async def act(self, name: str, verb: str, asked: t.Ask, by: Request) -> t.Done: ...
    async def update(self, name: str, asked: t.Change, by: Request) -> t.Done: ...
    async def nodes(self) -> t.Nodes: ...
    async def drain(self, device: str, verb: str, asked: t.Ask, by: Request) -> t.Done: ...
    async def queues(self) -> t.Queues: ...
    async def plan(self, asked: t.Submission | None, by: Request) -> t.PlanAnswer: ...
    async def what_if(self, asked: t.WhatIf) -> dict[str, Any]: ...
    async def report(self) -> t.Report: ...
    async def report_history(self, since_us: int, until_us: int, points: int) -> t.ReportHistory: ...
    async def throughput(self, since_us: int) -> t.Throughput: ...
    async def forecasts(self) -> t.Forecasts: ...
    async def timeline(self, since_us: int, until_us: int, limit: int) -> t.Timeline: ...
    async def snapshot(self) -> bytes: ...
    async def audit(self, limit: int, by: Request) -> t.Audit: ...
    async def config(self, by: Request) -> t.Config: ...
    async def reload(self, by: Request) -> t.Done: ...
    async def backup(self, by: Request) -> t.Done: ...
    async def stop(self, by: Request) -> t.Done: ...
    async def serve(self, asked: dict[str, Any], by: Request) -> t.Served: ...
    async def metrics(self) -> str: ...
    def news(self, after: int) -> AsyncIterator[t.News]: ...


class Route(NamedTuple):
    """A method, a path with {placeholders}, what it is for, and who answers."""

    method: str
    path: str
    says: str
    answer: Callable[[Service, Request], Awaitable[Any]]

    @property
    def changes(self) -> bool:
        """Whether it changes anything: such a request needs a token on TCP, and is never a GET."""
        return self.method != "GET"


def read(kind: type[T], request: Request) -> T:
    """The body as one of our types. Raises Misused, with what is wrong."""
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except msgspec.DecodeError as problem:
        raise Misused(f"the body is not what this route takes: {problem}", request.path) from None


def _jobs(service: Service, request: Request) -> Awaitable[t.Jobs]:
    query = request.query
    limit = max(1, min(request.number("limit", PAGE), 100_000))
    offset = max(request.number("offset", 0), 0)
    who = t.Which(user=query.get("user", ""), queue=query.get("queue", ""), match=query.get("match", ""))
    return service.jobs(query.get("which", "active"), who, offset, limit)


def _plan(service: Service, request: Request) -> Awaitable[t.PlanAnswer]:
    return service.plan(read(t.Submission, request), request)


def _logs(service: Service, request: Request) -> Awaitable[t.Logs]:
    name, rank = request.names["name"], request.number("rank", -1)
    return service.logs(name, rank, request.number("begin", -1), request.number("tail", 64 << 10), request)


def _history(service: Service, request: Request) -> Awaitable[Any]:
    since, until = request.number("since", 0), request.number("until", 0)
    return service.report_history(since, until, request.number("points", 120))


def _timeline(service: Service, request: Request) -> Awaitable[t.Timeline]:
    since, until = request.number("since", 0), request.number("until", 0)
    return service.timeline(since, until, min(request.number("limit", 5000), 20_000))


def _act(service: Service, request: Request) -> Awaitable[t.Done]:
    return service.act(request.names["name"], request.names["verb"], read(t.Ask, request), request)


async def _metrics(service: Service) -> Response:
    return Response(kind="text/plain; version=0.0.4", body=(await service.metrics()).encode())


async def _news(service: Service, request: Request) -> Response:
    last = request.headers.get("last-event-id", "")
    after = int(last) if last.isdigit() else request.number("after", -1)
    heard = service.news(after)

    async def stream() -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        async for news in heard:
            yield b"id: %d\nevent: %s\ndata: %s\n\n" % (news.id, news.kind.encode(), msgspec.json.encode(news))

    return Response(kind="text/event-stream", stream=stream(), headers={"Cache-Control": "no-store"})


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/status", "The daemon itself.", lambda s, _: s.status()),
    Route(
        "GET",
        "/v1/jobs",
        "Jobs: `which` (active, all, ended), `user`, `queue`, `match` (part of a name), `offset`, `limit`.",
        _jobs,
    ),
    Route("POST", "/v1/jobs", "Submit jobs.", lambda s, r: s.submit(read(t.Submit, r), r)),
    Route("GET", "/v1/jobs/{name}", "Everything about one job.", lambda s, r: s.job(r.names["name"], r)),
    Route(
        "GET",
        "/v1/jobs/{name}/why",
        "Why it waits, when it starts, what would start it now: `effort`.",
        lambda s, r: s.why(r.names["name"], r.number("effort", 60)),
    ),
    Route("GET", "/v1/jobs/{name}/story", "What happened to it.", lambda s, r: s.story(r.names["name"])),
    Route("GET", "/v1/jobs/{name}/logs", "Output of a rank: `rank`, `begin` or `tail` (bytes).", _logs),
    Route(
        "GET",
        "/v1/jobs/{name}/wait",
        "Answers when it has ended, or after `for` seconds.",
        lambda s, r: s.wait(r.names["name"], float(r.number("for", 30))),
    ),
    Route(
        "POST",
        "/v1/jobs/{name}/update",
        "Change time, priority, queue, sizes or limits.",
        lambda s, r: s.update(r.names["name"], read(t.Change, r), r),
    ),
    Route("POST", "/v1/jobs/{name}/{verb}", "cancel, hold, release, retry, signal.", _act),
    Route("GET", "/v1/why", "How many wait for what.", lambda s, _: s.reasons()),
    Route("GET", "/v1/nodes", "Nodes and devices.", lambda s, _: s.nodes()),
    Route(
        "POST",
        "/v1/devices/{id}/{verb}",
        "drain or undrain a device or a node.",
        lambda s, r: s.drain(r.names["id"], r.names["verb"], read(t.Ask, r), r),
    ),
    Route("GET", "/v1/queues", "Queues and their shares.", lambda s, _: s.queues()),
    Route("GET", "/v1/plan", "The plan as it stands.", lambda s, r: s.plan(None, r)),
    Route("POST", "/v1/plan", "What would happen to a job: a dry run.", _plan),
    Route("POST", "/v1/what-if", "What would start when, if.", lambda s, r: s.what_if(read(t.WhatIf, r))),
    Route("GET", "/v1/report", "The goodput ledger.", lambda s, _: s.report()),
    Route("GET", "/v1/report/history", "The ledger over time: `since`, `until` (microseconds), `points`.", _history),
    Route(
        "GET",
        "/v1/report/throughput",
        "Jobs and useful device time since a moment, waits by width: `since` (microseconds).",
        lambda s, r: s.throughput(r.number("since", 0)),
    ),
    Route("GET", "/v1/report/forecasts", "How true forecasts were.", lambda s, _: s.forecasts()),
    Route("GET", "/v1/timeline", "Who held what when, and promises: `since`, `until` (microseconds).", _timeline),
    Route("GET", "/v1/snapshot", "The world as a file for `tutti replay`.", lambda s, _: s.snapshot()),
    Route("GET", "/v1/audit", "Who did what: `limit`.", lambda s, r: s.audit(r.number("limit", 100), r)),
    Route("GET", "/v1/config", "The configuration in force.", lambda s, r: s.config(r)),
    Route("POST", "/v1/config/reload", "Read the configuration again.", lambda s, r: s.reload(r)),
    Route("POST", "/v1/backup", "Copy the journal.", lambda s, r: s.backup(r)),
    Route("POST", "/v1/serve", "Open the page on a TCP port.", lambda s, r: s.serve(read(dict, r), r)),
    Route("POST", "/v1/stop", "End the daemon; gangs run on.", lambda s, r: s.stop(r)),
    Route("GET", "/v1/events", "Changes as they happen (server-sent events): `after`.", _news),
    Route("GET", "/metrics", "Figures for Prometheus.", lambda s, _: _metrics(s)),
)


def matched(method: str, path: str, routes: tuple[Route, ...] = ROUTES) -> tuple[Route, dict[str, str]] | None:
    """The route of a request, and what its placeholders stand for."""
    parts = segments(path)
    for route in routes:
        if route.method == method and (names := _names(segments(route.path), parts)) is not None:
            return route, names
    return None


def _names(pattern: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    names = {}
    for wanted, found in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1]] = found
        elif wanted != found:
            return None
    return names


def handler(service: Service) -> Handle:
    """Answers requests from the table; whatever goes wrong becomes an answer too."""

    async def handle(request: Request) -> Response:
        try:
            found = matched(request.method, request.path)
            if found is None:
                raise NotFound(f"there is nothing at {request.method} {request.path}", hint="docs/reference/http.md")
            route, request.names = found
            value = await route.answer(service, request)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller is told and the daemon goes on
            return refused(problem)
        if isinstance(value, Response):
            return value
        return Response(body=value) if isinstance(value, bytes) else answered(value)

    return handle
