"""HTTP/1.1 over asyncio streams: keep-alive connections in a pool, whole answers, and streams of lines.

The API server is the limit of everything the scheduler does, so what matters of a client is how little of the processor
it takes; see bench/kube.py for what this one takes.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

LIMIT = 1 << 22
"""Longest line of a stream that is read in one go; an object in the API has at most 1.5 MiB."""
CONNECT_IN = 10.0
ANSWER_IN = 60.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Broken(Exception):
    """The connection failed. `sent` says whether the request may have reached the server."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Target(NamedTuple):
    """Where the server is."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    base: str = ""


class Connection:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.is_used = False

    @classmethod
    async def open(cls, target: Target) -> "Connection":
        """Connect; raises Broken."""
        try:
            async with asyncio.timeout(CONNECT_IN):
                return cls(*await asyncio.open_connection(target.host, target.port, ssl=target.tls, limit=LIMIT))
        except (OSError, TimeoutError, ssl.SSLError) as problem:
            raise Broken(f"cannot connect to {target.host}:{target.port}: {problem!r}", sent=False) from None

    def send(self, head: bytes, body: bytes) -> None:
        """Write one request."""
        self.writer.write(head + body if body else head)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the answer."""
        block = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = block.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            if name:
                headers[name.lower()] = value.strip()
        return int(first.split(" ", 2)[1]), headers

    async def answer(self) -> tuple[Answer, bool]:
        """The whole answer, and whether the connection can be used again."""
        status, headers = await self.head()
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            body = b"".join([chunk async for chunk in self.chunks()])
        else:
            body = b"" if status in (204, 304) else await self.reader.read(-1)
        return Answer(status, headers, body), headers.get("connection", "").lower() != "close"

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces of a chunked answer, as they come."""
        while size := int((await self.reader.readuntil(b"\r\n")).split(b";", 1)[0], 16):
            data = await self.reader.readexactly(size + 2)
            yield data[:-2]
        await self.reader.readuntil(b"\r\n")

    def close(self) -> None:
        """Let go of it, without a farewell."""
        with suppress(OSError, RuntimeError):
            self.writer.transport.abort()


class Http:
    """A pool of connections to one server."""

    def __init__(self, target: Target, headers: Callable[[], str], most: int = 32) -> None:
        """`headers` gives the lines that go with every request (whose token may change)."""
        self.target = target
        self.headers = headers
        self.most = most
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(most)
        self._open: set[Connection] = set()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        kind: str = "application/json",
        fence: Callable[[], None] | None = None,
    ) -> Answer:
        """Send one request and read the whole answer; raises Broken. A stale connection is replaced once.

        `fence` is called at the last moment before the request is sent, and may raise.
        """
        head = self._head(method, path, body, kind)
        async with self._free:
            for _ in range(2):
                connection = self._idle.pop() if self._idle else await self._connect()
                stale = connection.is_used
                try:
                    async with asyncio.timeout(ANSWER_IN):
                        return await self._ask(connection, head, body, fence)
                except (asyncio.IncompleteReadError, ConnectionError, OSError) as problem:
                    self._drop(connection)
                    if not (stale and isinstance(problem, asyncio.IncompleteReadError) and not problem.partial):
                        raise Broken(f"{method} {path}: {problem}", sent=True) from None
                    if method != "GET":
                        # The server may have taken the request in before it closed; only the caller can tell.
                        raise Broken(f"{method} {path}: the connection was closed", sent=True) from None
                except BaseException as problem:
                    self._drop(connection)
                    if isinstance(problem, TimeoutError):
                        raise Broken(f"{method} {path}: no answer in {ANSWER_IN:.0f} s", sent=True) from None
                    raise
            raise Broken(f"{method} {path}: connections are closed at once", sent=True)

    async def _ask(self, connection: Connection, head: bytes, body: bytes, fence: Callable[[], None] | None) -> Answer:
        if fence is not None:
            fence()
        connection.send(head, body)
        answer, stays = await connection.answer()
        connection.is_used = True
        if stays and connection in self._open:
            self._idle.append(connection)
        else:
            self._drop(connection)
        return answer

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of an endless answer on a connection of its own; the first item is the status as a number.

        Ends when the server ends it; raises Broken.
        """
        connection = await self._connect()
        try:
            connection.send(self._head("GET", path, b"", ""), b"")
            async with asyncio.timeout(ANSWER_IN):
                status, headers = await connection.head()
            yield b"%d" % status
            if headers.get("transfer-encoding") != "chunked":
                yield await connection.reader.readexactly(int(headers.get("content-length", "0")))
                return
            rest = b""
            async for chunk in connection.chunks():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line
            if rest:
                yield rest
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, OSError) as problem:
            raise Broken(f"GET {path}: {problem!r}", sent=True) from None
        finally:
            self._drop(connection)

    def _head(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        length = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n" if body else ""
        host = f"{self.target.host}:{self.target.port}"
        first = f"{method} {self.target.base}{path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n"
        return f"{first}{self.headers()}{length}\r\n".encode("latin-1")

    async def _connect(self) -> Connection:
        connection = await Connection.open(self.target)
        self._open.add(connection)
        return connection

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

    def close(self) -> None:
        """Let go of every connection."""
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()
