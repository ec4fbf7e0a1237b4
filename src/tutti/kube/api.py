"""The verbs of the Kubernetes API that the scheduler uses, with their errors, retries and back-off."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from .credentials import Credentials
from .http import Answer, Broken, Http

T = TypeVar("T")
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MANAGER = "tutti"
PAGE = 2000
TRIES = 6
BUSY = frozenset({401, 429, 500, 502, 503, 504})
"""Answers that may be others in a moment; a token that has expired is being renewed."""


class ApiError(Exception):
    """The API server said no."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Fenced(Exception):
    """We may no longer be the leader, so nothing is written."""


class Status(msgspec.Struct):
    """What the server answers instead of the object when it says no."""

    reason: str = ""
    message: str = ""
    code: int = 0


class Meta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    """Of a list: how far it reaches and whether there is more."""

    resource_version: str = ""
    next: str = ""


class Api:
    """A client of one cluster."""

    def __init__(
        self,
        credentials: Credentials,
        most: int = 32,
        fence: Callable[[], None] | None = None,
        agent: str = MANAGER,
    ) -> None:
        """`fence` is called before each write and raises Fenced where nothing may be written."""
        self.credentials = credentials
        self.http = Http(credentials.target, credentials.headers, most)
        self.fence = fence
        self.requests = 0
        self.retries = 0
        self._agent = f"User-Agent: {agent}\r\n"
        self.http.headers = lambda: self._agent + credentials.headers()

    async def get(self, path: str, kind: type[T], **query: object) -> T:
        """Read one object (or a page of a list); asks again while the server is busy."""
        answer = await self._again("GET", with_query(path, query))
        return msgspec.json.decode(answer.body, type=kind)

    async def list(self, path: str, item: type[T], **query: object) -> tuple[list[T], str, int]:
        """All objects of a kind, page by page, the version they stand for, and how many could not be read."""
        Page = msgspec.defstruct("Page", [("metadata", Meta), ("items", list[item], [])])  # type: ignore[valid-type]  # noqa: N806
        decoder = msgspec.json.Decoder(Page)
        found: list[T] = []
        following, unreadable = "", 0
        while True:
            answer = await self._again("GET", with_query(path, {**query, "limit": PAGE, "continue": following}))
            try:
                page: Any = decoder.decode(answer.body)
            except msgspec.ValidationError:
                page, bad = _readable(answer.body, item)
                unreadable += bad
            found += page.items
            following = page.metadata.next
            if not following:
                return found, page.metadata.resource_version, unreadable

    async def watch(self, path: str, version: str, **query: object) -> AsyncGenerator[Sequence[bytes], None]:
        """Changes since a version, one JSON line each; ends when the server ends it, raises ApiError or Broken.

        They come as many at a time as there are; first of all none, once the stream is open.
        """
        ask = {**query, "watch": 1, "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": 590}
        lines = self.http.lines(with_query(path, ask))
        self.requests += 1
        status = int((await anext(lines))[0])
        if status != 200:
            raise failure(Answer(status, b"", b"\n".join(await anext(lines, [b""]))))
        yield []
        async for some in lines:
            yield some

    async def write(
        self, method: str, path: str, body: object = None, kind: str = "application/json", **query: object
    ) -> bytes:
        """Write once. Raises Fenced, ApiError, Broken; the caller knows whether asking again is safe."""
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        return (await self._once(method, with_query(path, query), data, kind, self.fence)).body

    async def insist(
        self, method: str, path: str, body: object = None, kind: str = "application/json", **query: object
    ) -> bytes:
        """Write something that may be written twice: asks again while the server is busy or out of reach."""
        for attempt in range(TRIES):
            try:
                return await self.write(method, path, body, kind, **query)
            except ApiError as no:
                if no.status not in BUSY or attempt == TRIES - 1:
                    raise
                await self._pause(attempt, no.retry_after)
            except Broken:
                if attempt == TRIES - 1:
                    raise
                await self._pause(attempt)
        raise Broken("unreachable", sent=False)

    async def apply(self, path: str, body: object, subresource: str = "") -> bytes:
        """Server-side apply: only our own fields, never by force."""
        path = f"{path}/{subresource}" if subresource else path
        return await self.insist("PATCH", path, body, APPLY, fieldManager=MANAGER)

    async def _again(self, method: str, path: str) -> Answer:
        for attempt in range(TRIES):
            try:
                return await self._once(method, path, b"", "")
            except ApiError as no:
                if no.status not in BUSY or attempt == TRIES - 1:
                    raise
                await self._pause(attempt, no.retry_after)
            except Broken:
                if attempt == TRIES - 1:
                    raise
                await self._pause(attempt)
        raise Broken("unreachable", sent=False)

    async def _once(
        self, method: str, path: str, body: bytes, kind: str, fence: Callable[[], None] | None = None
    ) -> Answer:
        self.requests += 1
        answer = await self.http.request(method, path, body, kind, fence)
        if answer.status == 401:
            self.credentials.expire()
            answer = await self.http.request(method, path, body, kind, fence)
        if answer.status >= 300:
            raise failure(answer)
        return answer

    async def _pause(self, attempt: int, asked: float = 0.0) -> None:
        """Longer each time, and never all at the same moment."""
        self.retries += 1
        longest = min(0.1 * 2**attempt, 5.0)
        await asyncio.sleep(max(asked, longest * (0.5 + random.random() / 2)))

    def close(self) -> None:
        """Let go of the connections."""
        self.http.close()


class Raw(msgspec.Struct):
    """A page whose objects are still to be read."""

    metadata: Meta
    items: list[Any] = []


def _readable(body: bytes, item: type[T]) -> tuple[Raw, int]:
    """Of a page the objects that can be read, and how many cannot: one that nobody could have meant hides no other."""
    page = msgspec.json.decode(body, type=Raw)
    read: list[T] = []
    for written in page.items:
        with contextlib.suppress(msgspec.ValidationError):
            read.append(msgspec.convert(written, item))
    bad = len(page.items) - len(read)
    page.items = read
    return page, bad


def failure(answer: Answer) -> ApiError:
    """The server's no, in its own words."""
    try:
        status = msgspec.json.decode(answer.body, type=Status)
    except msgspec.MsgspecError:
        status = Status(message=answer.body[:200].decode(errors="replace"))
    after = answer.header(b"retry-after")
    return ApiError(answer.status, status.reason, status.message, float(after) if after.isdigit() else 0.0)


def with_query(path: str, query: dict[str, object]) -> str:
    """The path with the parameters that are set."""
    if not query:
        return path
    asked = urlencode({key: value for key, value in query.items() if value not in ("", None)}, quote_via=quote)
    return f"{path}{'&' if '?' in path else '?'}{asked}" if asked else path
