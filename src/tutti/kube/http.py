"""HTTP/1.1 with a pool of keep-alive connections: whole answers, and streams of lines.

The API server is the limit of everything the scheduler does, so what matters of a client is how little of the processor
it takes; see bench/kube.py for what this one takes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from .wire import Answer, Broken, Ended, Target, Wire

__all__ = ["Answer", "Broken", "Http", "Target"]

ANSWER_IN = 60.0
SWEEP = 1.0


class Http:
    """A pool of connections to one server."""

    def __init__(self, target: Target, headers: Callable[[], str], most: int = 32) -> None:
        """`headers` gives the lines that go with every request (whose token may change)."""
        self.target = target
        self.headers = headers
        self.most = most
        self._idle: list[Wire] = []
        self._free = asyncio.Semaphore(most)
        self._open: set[Wire] = set()
        self._under_way = 0
        self._sweeper: asyncio.TimerHandle | None = None
        host = f"[{target.host}]" if ":" in target.host else target.host
        self._host = f" HTTP/1.1\r\nHost: {host}:{target.port}\r\nAccept: application/json\r\n"

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
        request = self._head(method, path, body, kind) + body
        async with self._free:
            self._under_way += 1
            try:
                return await self._answer(request, f"{method} {path}", method == "GET", fence)
            finally:
                self._under_way -= 1

    async def _answer(self, request: bytes, what: str, harmless: bool, fence: Callable[[], None] | None) -> Answer:
        for _ in range(2):
            wire = self._taken() or await self._connect()
            stale = wire.is_used
            try:
                if fence is not None:
                    fence()
                self._watch(wire)
                answer = await wire.ask(request)
            except (Ended, OSError) as problem:
                self._drop(wire)
                closed = isinstance(problem, Ended) and not problem.partial
                # The server may have taken a write in before it closed; only the caller can tell.
                if not (stale and closed and harmless):
                    raise Broken(f"{what}: {problem}", sent=True) from None
            except BaseException:
                self._drop(wire)
                raise
            else:
                self._back(wire)
                return answer
        raise Broken(f"{what}: connections are closed at once", sent=True)

    async def lines(self, path: str) -> AsyncIterator[list[bytes]]:
        """The lines of an endless answer on a connection of its own, as many at a time as have come.

        The first item is the status as a number. Ends when the server ends it; raises Broken.
        """
        wire = await self._connect()
        try:
            self._watch(wire)
            answer = await wire.ask(self._head("GET", path, b"", ""), streams=True)
            wire.until = 0.0
            yield [b"%d" % answer.status]
            rest = b""
            while pieces := await wire.pieces():
                *whole, rest = (rest + b"".join(pieces)).split(b"\n")
                if whole:
                    yield whole
            if rest:
                yield [rest]
        except (Ended, OSError) as problem:
            raise Broken(f"GET {path.partition('?')[0]}: {problem}", sent=True) from None
        finally:
            self._drop(wire)

    def _head(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        length = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n" if body else ""
        first = f"{method} {self.target.base}{path}{self._host}"
        return f"{first}{self.headers()}{length}\r\n".encode("latin-1")

    # -- connections

    async def warm(self, count: int) -> None:
        """Open so many connections ahead of need: handshakes are dear, and come when there is most to do."""
        most = min(count, self.most)
        missing = most - len(self._idle) - self._under_way
        await asyncio.gather(*(self._open_ahead(most) for _ in range(missing)))

    async def _open_ahead(self, most: int) -> None:
        with suppress(Broken):
            wire = await self._connect()
            wire.is_used = True
            # Somebody may have opened others meanwhile.
            if len(self._idle) + self._under_way < most:
                self._idle.append(wire)
            else:
                self._drop(wire)

    async def _connect(self) -> Wire:
        wire = await Wire.open(self.target)
        self._open.add(wire)
        return wire

    def _taken(self) -> Wire | None:
        """A connection that is open and has nothing to do."""
        while self._idle:
            wire = self._idle.pop()
            if wire.is_open:
                return wire
            self._drop(wire)
        return None

    def _back(self, wire: Wire) -> None:
        wire.until = 0.0
        wire.is_used = True
        if wire.stays and wire in self._open:
            self._idle.append(wire)
        else:
            self._drop(wire)

    def _drop(self, wire: Wire) -> None:
        self._open.discard(wire)
        wire.close()

    def _watch(self, wire: Wire) -> None:
        """It answers in time, or is given up."""
        loop = asyncio.get_running_loop()
        wire.until = loop.time() + ANSWER_IN
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for wire in list(self._open):
            if wire.until and now > wire.until:
                wire.fail(TimeoutError(f"no answer in {ANSWER_IN:.0f} s"))
        waiting = any(wire.until for wire in self._open)
        self._sweeper = loop.call_later(SWEEP, self._sweep) if waiting else None

    def close(self) -> None:
        """Let go of every connection."""
        for wire in list(self._open):
            wire.fail(ConnectionError("the client was closed"))
        self._open.clear()
        self._idle.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
