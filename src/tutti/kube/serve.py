"""The port of the scheduler: liveness, readiness and metrics for machines; the page and the API for people.

Who asks for anything about gangs or nodes shows a token of the cluster; the API server says whose it is and whether
they may list placements.
"""

# ruff: noqa: ARG002 - the rules of another page

import asyncio
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.api.http import MOST_HEAD, Request, Response, answered, serve_connection
from tutti.api.types import Problem
from tutti.errors import Refused
from tutti.web.guard import Guard, Turned

from .api import Api, ApiError
from .credentials import IN_A_POD
from .http import Broken

if TYPE_CHECKING:
    from .lease import Lease
    from .scheduler import Scheduler

MOST_BODY = 1 << 16
TEXT = "text/plain; version=0.0.4; charset=utf-8"
DATA = ("/v1", "/page", "/plain")
TRUSTED = 10.0
"""Seconds for which an answer of the API server about a token holds."""
MOST_TOKENS = 1000


class Reviewed(Guard):
    """The rules of the page where the API server has said already who may read, and nobody may change anything.

    There are no cookies, so that a name that leads here by a trick brings no rights along.
    """

    def __init__(self) -> None:
        super().__init__(lambda _: None, "0.0.0.0")  # noqa: S104 - it only says that names are not checked by machine

    def may_read(self, request: Request, is_owner: bool) -> None:
        """The API server was asked."""

    def may_change(self, request: Request) -> None:
        """Raises Turned, but for what changes nothing."""
        if request.path != "/v1/what-if":
            raise Turned(403, "this page only reads", "kubectl")

    def has_token(self, request: Request) -> bool:
        """Nobody can change anything here."""
        return False

    def _is_ours(self, host: str) -> bool:
        return True


class Pages:
    """The server."""

    def __init__(self, scheduler: "Scheduler", lease: "Lease | None", api: Api) -> None:
        self.scheduler = scheduler
        self.lease = lease
        self.api = api
        self.port = 0
        self._reviewed: dict[str, tuple[float, str]] = {}
        """Tokens that may read, until when, and whose they are."""

    async def serve(self, group: asyncio.TaskGroup, port: int, host: str | None = None) -> None:
        """Listen; the port is known afterwards."""
        server = await asyncio.start_server(self._connected, sock=opened(port, host), limit=MOST_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        group.create_task(server.serve_forever())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_connection(reader, writer, self.handle, lambda _: None, MOST_BODY)

    async def handle(self, request: Request) -> Response:
        """The answer to one request."""
        match request.path:
            case "/healthz" | "/livez":
                return Response(kind=TEXT, body=b"ok\n")
            case "/readyz":
                listed = bool(self.scheduler.listeners) and all(x.version for x in self.scheduler.listeners.values())
                return (
                    Response(kind=TEXT, body=b"ok\n")
                    if listed
                    else Response(status=503, kind=TEXT, body=b"still listing\n")
                )
            case "/metrics":
                return Response(kind=TEXT, body=self.scheduler.metrics.text().encode())
        who = ""
        if request.path.startswith(DATA):
            found = await self._asked(request)
            if isinstance(found, Response):
                return found
            who = found
            with suppress(ApiError, Broken):
                await self.scheduler.glance()
        from tutti.web.site import Site  # noqa: PLC0415 - a scheduler nobody looks at needs no pages

        return await Site(self.scheduler.service, Reviewed(), who, is_owner=True).handle(request)

    # -- who asks

    async def _asked(self, request: Request) -> str | Response:
        """Whose token it is; or the refusal."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            return _refused(401, "a token of the cluster is needed", "Authorization: Bearer ...")
        known = self._reviewed.get(token)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        try:
            found = await self._review(token)
        except (ApiError, Broken):
            return _refused(503, "the API server cannot be asked", "try again")
        if isinstance(found, str):
            self._reviewed = dict(list(self._reviewed.items())[-MOST_TOKENS:])
            self._reviewed[token] = (time.monotonic() + TRUSTED, found)
        return found

    async def _review(self, token: str) -> str | Response:
        user = await self._ask("authentication", "TokenReview", "tokenreviews", {"token": token})
        if not user.get("authenticated"):
            return _refused(401, "the cluster does not know this token", "kubectl create token NAME")
        who = user.get("user") or {}
        wanted = {"group": "tutti.dev", "resource": "placements", "verb": "list"}
        # What limits a token may stand in `extra`, so that all of it is passed on.
        known = {"user": who.get("username"), **{key: who[key] for key in ("uid", "groups", "extra") if who.get(key)}}
        asked = known | {"resourceAttributes": wanted}
        may = await self._ask("authorization", "SubjectAccessReview", "subjectaccessreviews", asked)
        if not may.get("allowed"):
            return _refused(
                403, "you may not list placements.tutti.dev", "ask for the right to list placements.tutti.dev"
            )
        return str(who.get("username") or "somebody")

    async def _ask(self, group: str, kind: str, plural: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Ask the API server about somebody; this changes nothing, so that no lease is needed."""
        body = msgspec.json.encode({"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec})
        answer = await self.api.http.request("POST", f"/apis/{group}.k8s.io/v1/{plural}", body)
        if answer.status >= 300:
            raise ApiError(answer.status, "", answer.body[:200].decode(errors="replace"))
        return dict(msgspec.json.decode(answer.body).get("status") or {})


def opened(port: int, host: str | None = None) -> socket.socket:
    """A port to listen on. Of a pod every address, as probes come from outside; elsewhere only this machine's own."""
    host = host or ("::" if IN_A_POD in os.environ else "127.0.0.1")
    try:
        return _listening(port, host)
    except OSError as problem:
        raise Refused(f"port {port} of {host} cannot be opened: {problem.strerror}", hint="--port, --host") from None


def _listening(port: int, host: str) -> socket.socket:
    if host != "::":
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _refused(status: int, what: str, hint: str) -> Response:
    return answered(Problem(error=what, hint=hint, code=4), status)
