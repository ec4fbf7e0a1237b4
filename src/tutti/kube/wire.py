"""One connection to an HTTP/1.1 server, on a bare socket in the event loop.

asyncio's own streams do TLS in Python, which takes more of the processor than everything else about a request; here
OpenSSL reads and writes the socket itself, and an answer is cut out of the buffer by a few searches.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, NamedTuple

CONNECT_IN = 10.0
PIECE = 1 << 14
"""As much as TLS gives at once; larger buffers would be mapped and unmapped for every answer."""
GATHER = 0.01
"""Seconds before a stream that has just been read is looked at again: what comes meanwhile is taken together."""
AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Answer(NamedTuple):
    """What came back."""

    status: int
    head: bytes
    """Its first lines, in small letters."""
    body: bytes

    def header(self, name: bytes) -> str:
        """The value of a header; nothing where it is missing."""
        return value_of(self.head, name)


class Broken(Exception):
    """The connection failed. `sent` says whether the request may have reached the server."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Ended(Exception):
    """The server closed the connection; `partial` says whether it had begun to answer."""

    def __init__(self, why: str, partial: bool) -> None:
        super().__init__(why)
        self.partial = partial


class Target(NamedTuple):
    """Where the server is."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    base: str = ""
    name: str = ""
    """Whose certificate it shows, where that is another name than the host's."""


class Wire:
    """One connection, one request at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.is_used = False
        self.is_open = True
        self.stays = True
        """Whether the server lets it be used again after this answer."""
        self.until = 0.0
        """When to give up waiting for the present answer, by the loop's clock; 0 for never."""
        self._sock = sock
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self._loop = asyncio.get_running_loop()
        self._in = bytearray()
        self._out = b""
        self._head = b""
        self._status = 0
        self._needs = -1
        """Bytes missing of a body of known length; -1 while pieces come, -2 where it ends with the connection."""
        self._pieces: list[bytes] = []
        self._streams = False
        self._waiter: asyncio.Future[Answer] | None = None
        self._more: asyncio.Future[None] | None = None
        self._is_over = False
        self._is_stuck = False
        """Whether the socket takes no more at present."""
        self._loop.add_reader(sock.fileno(), self._readable)

    @classmethod
    async def open(cls, target: Target) -> "Wire":
        """Connect; raises Broken."""
        opening = asyncio.get_running_loop().run_in_executor(None, _connect, target)
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_unwanted)
            raise
        except (OSError, ssl.SSLError) as problem:
            why = problem.strerror or problem
            raise Broken(f"cannot connect to {target.host}:{target.port}: {why}", sent=False) from None

    # -- asking

    def ask(self, request: bytes, streams: bool = False) -> "asyncio.Future[Answer]":
        """Send one request. The answer comes as a whole, or (where it streams) as soon as its head is there."""
        self._waiter = self._loop.create_future()
        self._streams, self._is_over, self._head = streams, False, b""
        self._out = request
        self._writable()
        return self._waiter

    async def pieces(self) -> list[bytes]:
        """What has come of a stream since the last call; empty when the server has ended it. Raises Ended."""
        while not self._pieces and not self._is_over:
            if not self.is_open:
                raise Ended("the connection was closed", partial=True)
            self._more = self._loop.create_future()
            await self._more
        found, self._pieces = self._pieces, []
        return found

    def _writable(self) -> None:
        try:
            while self._out:
                self._out = self._out[self._sock.send(self._out) :]
        except AGAIN:
            if not self._is_stuck:
                self._is_stuck = True
                self._loop.add_writer(self._sock.fileno(), self._writable)
            return
        except OSError as problem:
            self.fail(problem)
            return
        if self._is_stuck and self.is_open:
            self._is_stuck = False
            self._loop.remove_writer(self._sock.fileno())

    # -- hearing

    def _readable(self) -> None:
        try:
            while self.is_open:
                data = self._sock.recv(PIECE)
                if not data:
                    self._end()
                    return
                self._in += data
                self._advance()
                if self._waiter is None and not self._streams and not (self._tls is not None and self._tls.pending()):
                    break
        except AGAIN:
            pass
        except OSError as problem:
            self.fail(problem)
        except ValueError:
            self.fail(ConnectionError("the answer is not HTTP"))
        if self._pieces and self._more is not None:
            _tell(self._more, None)
        if self._streams and self._head and self.is_open:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.call_later(GATHER, self._listen)

    def _listen(self) -> None:
        if self.is_open:
            self._loop.add_reader(self._sock.fileno(), self._readable)

    def _advance(self) -> None:
        if not self._head and not self._begin():
            return
        if self._needs == -1:
            self._chunks()
        elif self._needs >= 0 and len(self._in) >= self._needs:
            body = bytes(self._in[: self._needs])
            del self._in[: self._needs]
            self._finish(body)

    def _begin(self) -> bool:
        """Read the head, where all of it is there."""
        end = self._in.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head = bytes(self._in[:end]).lower()
        del self._in[: end + 4]
        self._status = int(self._head[9:12])
        length = value_of(self._head, b"content-length")
        chunked = not length and value_of(self._head, b"transfer-encoding") == "chunked"
        empty = self._status in (204, 304)
        self._needs = 0 if empty else int(length) if length else -1 if chunked else -2
        self.stays = self._needs != -2 and value_of(self._head, b"connection") != "close"
        self._pieces = []
        if self._streams and self._waiter is not None:
            _tell(self._waiter, Answer(self._status, self._head, b""))
            self._waiter = None
        return True

    def _chunks(self) -> None:
        at, buffer = 0, self._in
        while True:
            line = buffer.find(b"\r\n", at)
            if line < 0:
                break
            size = int(buffer[at:line].split(b";", 1)[0], 16)
            if len(buffer) < line + 4 + size:
                break
            if size:
                self._pieces.append(bytes(buffer[line + 2 : line + 2 + size]))
            at = line + 4 + size
            if not size:
                del buffer[:at]
                self._finish(b"" if self._streams else b"".join(self._pieces))
                return
        if at:
            del buffer[:at]

    def _finish(self, body: bytes) -> None:
        self._is_over = True
        if self._streams:
            self._pieces += [body] if body else []
            if self._more is not None:
                _tell(self._more, None)
        elif self._waiter is not None:
            self._pieces = []
            _tell(self._waiter, Answer(self._status, self._head, body))
        self._waiter = None

    def _end(self) -> None:
        """The server has closed."""
        if self._head and self._needs == -2 and not self._is_over:
            self._finish(bytes(self._in))
            self.close()
            return
        self.fail(Ended("the connection was closed", partial=bool(self._head or self._in)))

    def fail(self, problem: Exception) -> None:
        """Whoever waits is told, and the connection is closed."""
        self.close()
        for waiter in (self._waiter, self._more):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        self._waiter = self._more = None

    def close(self) -> None:
        """Let go of it, without a farewell."""
        if not self.is_open:
            return
        self.is_open = False
        with suppress(OSError, RuntimeError, ValueError):
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
        with suppress(OSError):
            self._sock.close()


def _connect(target: Target) -> socket.socket:
    """In a thread of its own: names and handshakes take their time."""
    sock = socket.create_connection((target.host, target.port), CONNECT_IN)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Who has vanished without a word is missed within a minute; by default it takes twelve.
        for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        if target.tls is not None:
            sock = target.tls.wrap_socket(sock, server_hostname=target.name or target.host)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _unwanted(opening: "asyncio.Future[socket.socket]") -> None:
    """Nobody waits for this connection any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def value_of(head: bytes, name: bytes) -> str:
    """One header of a head in small letters."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return ""
    begin = at + len(name) + 3
    end = head.find(b"\r\n", begin)
    return head[begin : end if end >= 0 else None].strip().decode("latin-1")


def _tell(waiter: asyncio.Future[Any], value: object) -> None:
    if not waiter.done():
        waiter.set_result(value)
