"""What the port answers: pages, their files, a few routes of their own, and the whole API behind the guard."""

import os
import pwd
import socket
from html import escape
from pathlib import Path
from typing import Any

import msgspec

import tutti
from tutti.api import types as t
from tutti.api.context import recognised
from tutti.api.http import Handle, Request, Response, answered, refused, segments
from tutti.api.routes import Service, handler, read
from tutti.errors import NotFound
from tutti.views.report import MEANS

from .files import shelf
from .guard import Guard, Turned
from .plain import plain
from .pulse import pulse
from .words import REASONS

HTML = "text/html; charset=utf-8"
PATH = "/usr/local/bin:/usr/bin:/bin"
PAGES = ("timeline", "ledger", "cluster", "submit", "history")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Hello(t.Answer, frozen=True, kw_only=True):
    """GET /page/hello: what a page must know before it shows anything."""

    version: str
    host: str
    user: str
    may_change: bool
    cwd: str
    queues: list[str]
    means: dict[str, str]
    reasons: dict[str, str]


class Ordered(t.Wire, frozen=True, kw_only=True):
    """POST /page/jobs: a job from the page; it runs in the daemon's environment."""

    job: dict[str, Any]
    cwd: str = ""
    plan: bool = False
    """Only say what would happen."""


class Site:
    """Answers the requests of one connection, which the daemon's own user made or somebody else."""

    def __init__(self, service: Service, guard: Guard, user: str, is_owner: bool) -> None:
        self._service, self._guard, self._user, self._is_owner = service, guard, user, is_owner
        self._api: Handle = handler(service)

    async def handle(self, request: Request) -> Response:
        """Any request; whatever goes wrong becomes an answer."""
        try:
            self._guard.look(request)
            response = await self._answered(request)
        except Turned as turned:
            response = told(request, turned.status, turned.what, turned.hint)
        except Exception as problem:  # noqa: BLE001 - the caller is told and the daemon goes on
            response = refused(problem)
        response.headers = {"Cache-Control": "no-store", **response.headers, **SAFE}
        return response

    async def _answered(self, request: Request) -> Response:
        parts = segments(request.path)
        if request.method == "GET":
            if parts[0] == "static" or parts == ("favicon.ico",):
                return _file(request, parts[-1] if len(parts) <= 2 else "")
            if parts in {("",), *((page,) for page in PAGES)} or (parts[0] == "jobs" and len(parts) == 2):
                return _file(request, "index.html")
        if parts[0] not in {"v1", "page", "metrics", "plain"}:
            raise Turned(404, f"there is nothing at {request.path}", "the start page: /")
        self._let_in(request)
        if parts[0] == "plain" and request.method == "GET" and len(parts) <= 2:
            return Response(kind=HTML, body=await plain(self._service, request, parts))
        return await (self._own(request, parts) if parts[0] == "page" else self._api(request))

    def _let_in(self, request: Request) -> None:
        if request.method == "GET":
            self._guard.may_read(request, self._is_owner)
        else:
            self._guard.may_change(request)
        owner = self._guard.owner(request)
        if owner is None:
            request.uid, request.user = os.getuid(), self._user
        else:
            request.uid, request.user = owner, user_of(owner)

    async def _own(self, request: Request, parts: tuple[str, ...]) -> Response:
        match request.method, parts[1:]:
            case "GET", ("hello",):
                return answered(await self._hello(request))
            case "GET", ("changes",):
                stream = pulse(self._service.news(-1))
                return Response(kind="text/event-stream", stream=stream)
            case "POST", ("jobs",):
                return answered(await self._submitted(request))
            case _:
                raise NotFound(f"there is nothing at {request.method} {request.path}")

    async def _hello(self, request: Request) -> Hello:
        queues = await self._service.queues()
        return Hello(
            version=tutti.__version__,
            host=socket.gethostname(),
            user=request.user,
            may_change=self._guard.has_token(request),
            cwd=home_of(request.uid),
            queues=[queue.name for queue in queues.queues],
            means=MEANS,
            reasons=REASONS,
        )

    async def _submitted(self, request: Request) -> t.Submitted | t.PlanAnswer:
        asked = read(Ordered, request)
        one = submission(asked, request.uid)
        if asked.plan:
            return await self._service.plan(one, request)
        return await self._service.submit(t.Submit(jobs=[one]), request)


def submission(asked: Ordered, uid: int) -> t.Submission:
    """A job from the page, with the folder and the environment it runs in."""
    words = str(asked.job.get("command", "")).split()
    home = home_of(uid)
    cwd = home if asked.cwd in {"", "~"} else str(Path(home, asked.cwd.removeprefix("~/")))
    if uid != os.getuid():
        # Somebody else's files are not ours to read, and our environment is not theirs.
        return t.Submission(job=asked.job, context=t.Context(cwd=cwd, env=environment_of(uid), umask=0o077))
    env = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    return t.Submission(job=asked.job, context=t.Context(cwd=cwd, env=env, framework=recognised(words, cwd)))


def user_of(uid: int) -> str:
    """The name of a user; the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def home_of(uid: int) -> str:
    """The folder in which a user's jobs run, where none is named."""
    try:
        return str(Path.home()) if uid == os.getuid() else pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def environment_of(uid: int) -> dict[str, str]:
    """What a user has right after logging in, as far as that can be known from outside."""
    who = pwd.getpwuid(uid)
    return {"HOME": who.pw_dir, "USER": who.pw_name, "LOGNAME": who.pw_name, "SHELL": who.pw_shell, "PATH": PATH}


def _file(request: Request, name: str) -> Response:
    file = shelf().get("icon.svg" if name == "favicon.ico" else name)
    if file is None:
        raise Turned(404, f"there is no file at {request.path}", "the start page: /")
    headers = {"Cache-Control": "no-cache", "ETag": file.mark}
    if request.headers.get("if-none-match") == file.mark:
        return Response(status=304, kind=file.kind, headers=headers)
    return Response(kind=file.kind, body=file.body, headers=headers)


def told(request: Request, status: int, what: str, hint: str) -> Response:
    """An error: a page for a person, JSON for a program."""
    if "text/html" not in request.headers.get("accept", ""):
        body = msgspec.json.encode(t.Problem(error=what, hint=hint, code=4)) + b"\n"
        return Response(status=status, body=body)
    page = shelf()["error.html"].body.decode()
    for mark, text in (("{status}", str(status)), ("{what}", what), ("{hint}", hint and f"Try: {hint}")):
        page = page.replace(mark, escape(text))
    return Response(status=status, kind=HTML, body=page.encode())
