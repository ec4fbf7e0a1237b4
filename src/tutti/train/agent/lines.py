"""Line-JSON over a stream socket: what both the channel and the members' socket are made of."""

from __future__ import annotations

import errno
import json
import select
import socket
import threading
from typing import Any

MAX_LINE_BYTES = 65_536
MAX_UNSENT_BYTES = 1 << 20

Message = dict[str, Any]


class BadLine(Exception):
    """The other side sent something that is not one JSON object on one line of bounded length."""


def encode(message: Message) -> bytes:
    """One message as one line."""
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise BadLine(f"a {message.get('say')!r} message is {len(line)} bytes, and a line may have {MAX_LINE_BYTES}")
    return line


def decode(line: bytes) -> Message:
    """One line as one message."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise BadLine(f"not JSON: {line[:80]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("say"), str):
        raise BadLine(f"not an object with a field 'say': {line[:80]!r}")
    return message


class Lines:
    """A connected socket that sends and receives whole messages; one thread may send while another receives."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.is_open = True
        self._received = bytearray()
        self._unsent = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message) -> bool:
        """Send one message whole, without waiting: what the other side does not take now goes with the next one.

        False when the other side is gone, or has not listened for so long that it might as well be.
        """
        if self.is_open:
            line = encode(message)
            with self._sending:
                self._unsent += line
                self._flush()
        return self.is_open

    def receive(self, wait_s: float | None = 0.0) -> list[Message]:
        """All messages that are there; waits up to `wait_s` (None: for ever) for the first."""
        with self._sending:
            self._flush()
        ready = self._complete()
        if ready or not self.is_open:
            return ready
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(None if wait_s is None else max(0, wait_s) * 1000):
            return []
        self._fill()
        return self._complete()

    def close(self) -> None:
        self.is_open = False
        self.socket.close()

    def _flush(self) -> None:
        while self._unsent and self.is_open:
            try:
                sent = self.socket.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self.is_open = len(self._unsent) <= MAX_UNSENT_BYTES
                return
            except OSError:
                self.is_open = False
                return
            del self._unsent[:sent]

    def _fill(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        self.is_open = bool(data)

    def _complete(self) -> list[Message]:
        *lines, rest = bytes(self._received).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise BadLine(f"a line of more than {MAX_LINE_BYTES} bytes")
        self._received = bytearray(rest)
        return [decode(line) for line in lines]


def connect(path: str, wait_s: float = 5.0) -> Lines:
    """Connect to a Unix socket."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(wait_s)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    connection.settimeout(None)
    return Lines(connection)


def connect_to(host: str, port: int, wait_s: float = 5.0) -> Lines:
    """Connect to another machine."""
    connection = socket.create_connection((host, port), wait_s)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Lines(connection)


def listen_at(host: str, port: int) -> socket.socket:
    """Listen for other machines, at this address only where it is one of ours."""
    try:
        server = socket.create_server((host, port), backlog=64)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        server = socket.create_server(("", port), backlog=64)
    server.setblocking(False)
    return server


def listen(path: str) -> socket.socket:
    """Listen on a Unix socket that only this user may connect to."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(64)
    server.setblocking(False)
    return server
