"""The pages of the scheduler: liveness, readiness and metrics for machines, gangs and nodes for people with a token.

Who asks for gangs or nodes shows a token of the cluster; the API server says whose it is and whether they may list
placements.
"""

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from tutti.engine.explain import explain
from tutti.views.why import why_json

from .api import Api, ApiError, Fenced
from .http import Broken
from .tables import gang_rows, node_rows

if TYPE_CHECKING:
    from .lease import Lease
    from .scheduler import Scheduler

LONGEST = 16384
TEXT, JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"
SCHEMA = "tutti/v1"


class Page(NamedTuple):
    """What is answered."""

    status: str
    body: str
    kind: str = TEXT


class Pages:
    """A small server that only reads."""

    def __init__(self, scheduler: "Scheduler", lease: "Lease | None", api: Api) -> None:
        self.scheduler = scheduler
        self.lease = lease
        self.api = api
        self.port = 0

    async def serve(self, group: asyncio.TaskGroup, port: int, host: str = "0.0.0.0") -> None:  # noqa: S104 - probes come from outside
        """Listen; the port is known afterwards."""
        server = await asyncio.start_server(self._answer, host, port, limit=LONGEST)
        self.port = server.sockets[0].getsockname()[1]
        group.create_task(server.serve_forever())

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, path, *_ = head.split("\r\n", 1)[0].split(" ")
                page = await self.page(method, path.partition("?")[0], bearer(head))
            body = page.body.encode()
            answer = f"HTTP/1.1 {page.status}\r\nContent-Type: {page.kind}\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{answer}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError):
            pass
        finally:
            writer.close()

    async def page(self, method: str, path: str, token: str = "") -> Page:
        """The answer to one request."""
        if method not in ("GET", "HEAD"):
            return Page("405 Method Not Allowed", "only GET\n")
        match path:
            case "/healthz" | "/livez":
                return Page("200 OK", "ok\n")
            case "/readyz":
                listed = bool(self.scheduler.listeners) and all(x.version for x in self.scheduler.listeners.values())
                return Page("200 OK", "ok\n") if listed else Page("503 Service Unavailable", "still listing\n")
            case "/metrics":
                return Page("200 OK", self.scheduler.metrics.text())
        if not path.startswith("/v1/"):
            return Page("404 Not Found", "pages: /healthz /readyz /metrics /v1/gangs /v1/gangs/NAME /v1/nodes\n")
        refused = await self._refused(token)
        return refused if refused is not None else self._read(unquote(path))

    def _read(self, path: str) -> Page:
        driver = self.scheduler.driver
        if path == "/v1/nodes":
            return page_of({"nodes": node_rows(driver.world)})
        if path == "/v1/gangs":
            return page_of({"gangs": gang_rows(self.scheduler.jobs(), driver.answers(), driver.world.at)})
        name = path.removeprefix("/v1/gangs/")
        if path == name or name not in driver.world.slots:
            return Page("404 Not Found", "no such gang\n")
        world = driver.world
        return page_of(why_json(explain(world.view(), world.at, driver.policy, name)))

    # -- who asks

    async def _refused(self, token: str) -> Page | None:
        """The refusal, or None for those who may look."""
        if not token:
            return Page("401 Unauthorized", "a token of the cluster is needed: Authorization: Bearer ...\n")
        try:
            user = await self._review("authentication", "TokenReview", "tokenreviews", {"token": token})
            if not user.get("authenticated"):
                return Page("401 Unauthorized", "the cluster does not know this token\n")
            who = user.get("user") or {}
            wanted = {"group": "tutti.dev", "resource": "placements", "verb": "list"}
            asked = {"user": who.get("username"), "groups": who.get("groups"), "resourceAttributes": wanted}
            may = await self._review("authorization", "SubjectAccessReview", "subjectaccessreviews", asked)
        except (ApiError, Broken, Fenced):
            return Page("503 Service Unavailable", "the API server cannot be asked\n")
        return None if may.get("allowed") else Page("403 Forbidden", "you may not list placements.tutti.dev\n")

    async def _review(self, group: str, kind: str, plural: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Ask the API server about somebody; this changes nothing, so that no lease is needed."""
        body = msgspec.json.encode({"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec})
        answer = await self.api.http.request("POST", f"/apis/{group}.k8s.io/v1/{plural}", body)
        if answer.status >= 300:
            raise ApiError(answer.status, "", answer.body[:200].decode(errors="replace"))
        return dict(msgspec.json.decode(answer.body).get("status") or {})


def page_of(data: dict[str, Any]) -> Page:
    """JSON, with its schema."""
    return Page("200 OK", msgspec.json.encode({"schema": SCHEMA, **data}).decode(), JSON)


def bearer(head: str) -> str:
    """The token of a request."""
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "authorization" and value.strip().lower().startswith("bearer "):
            return value.strip()[7:].strip()
    return ""
