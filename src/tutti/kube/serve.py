"""The pages of the scheduler: liveness, readiness, metrics."""

import asyncio
from typing import TYPE_CHECKING

from .api import Api

if TYPE_CHECKING:
    from .lease import Lease
    from .scheduler import Scheduler

LONGEST = 8192


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
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
            method, path, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            status, body = self.page(method, path.partition("?")[0])
            kind = "text/plain; version=0.0.4; charset=utf-8"
            answer = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n"
            writer.write(f"{answer}Connection: close\r\n\r\n{body}".encode())
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError):
            pass
        finally:
            writer.close()

    def page(self, method: str, path: str) -> tuple[str, str]:
        """Status and text of a page."""
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", "only GET\n"
        match path:
            case "/healthz" | "/livez":
                return "200 OK", "ok\n"
            case "/readyz":
                listed = bool(self.scheduler.listeners) and all(x.version for x in self.scheduler.listeners.values())
                return ("200 OK", "ok\n") if listed else ("503 Service Unavailable", "still listing the cluster\n")
            case "/metrics":
                return "200 OK", self.scheduler.metrics.text()
        return "404 Not Found", "pages: /healthz /readyz /metrics\n"
