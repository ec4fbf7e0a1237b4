"""A proxy between a scheduler and the API server that can refuse, delay and count requests, and cut streams."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

from tools.control_plane.rig import Rig


class Request(NamedTuple):
    """What the scheduler sent."""

    method: str
    path: str
    number: int
    """Which write it is, from 1; 0 for what only reads or concerns the lease."""


Rule = Callable[[Request], Awaitable[tuple[int, str] | None]]
"""Called before a request goes on: an answer to give instead, or None."""


class Proxy:
    """Plain HTTP on our side, TLS on the other."""

    def __init__(self, rig: Rig) -> None:
        host, _, port = rig.url.removeprefix("https://").partition(":")
        self.target = host, int(port)
        self.tls = ssl.create_default_context(cafile=str(rig.ca))
        self.writes = 0
        self.log: list[Request] = []
        self.before: Rule | None = None
        self.after: Callable[[Request], None] | None = None
        self.streams: set[asyncio.StreamWriter] = set()
        self.twice = False
        """Whether every event of a watch is told twice."""
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each connection."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        """End every watch that is open."""
        for writer in list(self.streams):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Cancelled is what ends it with the proxy.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._passed_on(reader, writer)
        finally:
            self._tasks.discard(task)
            self.streams.discard(writer)
            writer.transport.abort()

    async def _passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self.target, ssl=self.tls, limit=1 << 22)
        try:
            while await self._one(reader, writer, there_reader, there_writer):
                pass
        finally:
            there_writer.transport.abort()

    async def _one(self, reader, writer, there_reader, there_writer) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        body = await reader.readexactly(_length(head))
        counts = method != "GET" and "/leases" not in path
        self.writes += counts
        request = Request(method, path, self.writes if counts else 0)
        if counts:
            self.log.append(request)
        instead = await self.before(request) if self.before is not None else None
        if instead is not None:
            writer.write(_answer(*instead))
            return True
        there_writer.write(head + body)
        if "watch=1" in path:
            self.streams.add(writer)
            if self.twice:
                await _told_twice(there_reader, writer)
                return False
            while data := await there_reader.read(65536):
                writer.write(data)
            return False
        answer = await _whole(there_reader)
        if self.after is not None:
            self.after(request)
        writer.write(answer)
        await writer.drain()
        return True


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


async def _told_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass a stream of lines on, each line once more behind the next one: late, and out of order."""
    writer.write(await reader.readuntil(b"\r\n\r\n"))
    rest, before = b"", b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        data = (await reader.readexactly(size + 2))[:-2]
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            for told in (line, before or line):
                writer.write(b"%x\r\n%s\n\r\n" % (len(told) + 1, told))
            before = line


async def _whole(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return head + await reader.readexactly(_length(head))
    parts = [head]
    while True:
        line = await reader.readuntil(b"\r\n")
        parts += [line, await reader.readexactly(int(line, 16) + 2)]
        if line == b"0\r\n":
            return b"".join(parts)


def _answer(status: int, reason: str) -> bytes:
    body = f'{{"kind":"Status","status":"Failure","reason":"{reason}","message":"by the proxy","code":{status}}}'
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


@contextlib.asynccontextmanager
async def behind(play, before: Rule | None = None, *, twice: bool = False):
    """A scheduler that reaches the server through a proxy, with a rule for its requests."""
    async with Proxy(play.rig) as proxy:
        proxy.before, proxy.twice = before, twice
        async with play.scheduler(kubeconfig=play.rig.kubeconfig(play.rig.tutti, proxy.url)) as scheduler:
            yield proxy, scheduler
