"""HTTP/1.1 on a stream, as little of it as our clients need: requests in, JSON or a stream of events out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from tutti.errors import Misused, NoDaemon, NotFound, Refused, TuttiError

from .types import Problem

MOST_HEAD = 64 << 10
MOST_BODY = 64 << 20
STATUS = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    421: "Misdirected Request",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
JSON = "application/json"


class Request(msgspec.Struct, kw_only=True):
    """One request, read whole."""

    method: str
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes = b""
    user: str = ""
    """Who asks, as the transport knows it."""
    uid: int = -1
    pid: int = 0
    """The process that asks, where the transport knows it."""
    names: dict[str, str] = {}
    """What the placeholders of the route stand for."""

    def number(self, name: str, otherwise: int) -> int:
        """A whole number from the query."""
        text = self.query.get(name, "")
        if not text:
            return otherwise
        try:
            return int(text)
        except ValueError:
            raise Misused(f"{name} is {text!r}, which is no number") from None


class Response(msgspec.Struct, kw_only=True):
    """One answer: a body, or a stream of pieces."""

    status: int = 200
    kind: str = JSON
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = {}


Handle = Callable[[Request], Awaitable[Response]]


def answered(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(status=status, body=msgspec.json.encode(value) + b"\n")


def refused(problem: Exception) -> Response:
    """Any error as an answer."""
    match problem:
        case Misused():
            status = 400
        case NotFound():
            status = 404
        case Refused():
            status = 409
        case NoDaemon():
            status = 503
        case TuttiError():
            status = 503
        case _:
            bug = f"this is a bug in Tutti. {type(problem).__name__}: {problem}"
            return answered(Problem(error=bug, code=1), 500)
    return answered(
        Problem(error=problem.what, where=problem.where or "", hint=problem.hint or "", code=problem.exit_code), status
    )


async def serve_connection(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    handle: Handle,
    who: Callable[[Request], None],
    most_body: int = MOST_BODY,
) -> None:
    """Answer requests on one connection until it closes. `who` puts the caller's identity into each request."""
    try:
        while (request := await read_request(reader, most_body)) is not None:
            who(request)
            response = await handle(request)
            goes_on = response.stream is None and request.headers.get("connection", "").lower() != "close"
            await write_response(writer, response, goes_on)
            if not goes_on:
                break
    except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
        pass
    except Bad as problem:
        await write_response(writer, answered(Problem(error=str(problem), code=2), problem.status), False)
    finally:
        writer.close()


class Bad(Exception):
    """Bytes that are no request of ours."""

    def __init__(self, what: str, status: int = 400) -> None:
        super().__init__(what)
        self.status = status


async def read_request(reader: asyncio.StreamReader, most_body: int = MOST_BODY) -> Request | None:
    """The next request; None when the other side is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    except asyncio.LimitOverrunError:
        raise Bad("the head of the request is too long", 413) from None
    return await _with_body(_head(head), reader, most_body)


def _head(head: bytes) -> Request:
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Bad("this is not HTTP/1.1")
    path, _, query = words[1].partition("?")
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return Request(method=words[0], path=path, query=dict(parse_qsl(query)), headers=headers)


async def _with_body(request: Request, reader: asyncio.StreamReader, most_body: int) -> Request:
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers or not length.isdigit():
        raise Bad("send the body with a Content-Length")
    if int(length) > most_body:
        raise Bad(f"the body is larger than {most_body >> 20} MiB", 413)
    if int(length):
        request.body = await reader.readexactly(int(length))
    return request


async def write_response(writer: asyncio.StreamWriter, response: Response, goes_on: bool) -> None:
    """Send an answer: with its length, or piece by piece until the other side has had enough."""
    lines = [f"HTTP/1.1 {response.status} {STATUS.get(response.status, 'Status')}", f"Content-Type: {response.kind}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    if response.stream is None:
        lines.append(f"Content-Length: {len(response.body)}")
    lines.append(f"Connection: {'keep-alive' if goes_on else 'close'}")
    writer.write("\r\n".join([*lines, "", ""]).encode() + response.body)
    await writer.drain()
    if response.stream is not None:
        async for piece in response.stream:
            writer.write(piece)
            await writer.drain()


def segments(path: str) -> tuple[str, ...]:
    """The parts of a path, decoded one by one, so that a slash in a name stays in the name."""
    return tuple(unquote(part) for part in path.strip("/").split("/"))
