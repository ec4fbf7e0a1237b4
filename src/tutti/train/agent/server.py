"""The scheduler's end of the channel, for one socket and any number of jobs."""

from __future__ import annotations

import os
import selectors
import socket
import struct
from dataclasses import dataclass, field

from tutti.train.agent import lines
from tutti.train.agent.channel import (
    VERSION,
    Accepted,
    Done,
    Goodbye,
    Hello,
    Progress,
    Refused,
    Released,
    Request,
    Unknown,
    Welcome,
    Word,
    from_message,
    to_message,
)

LAST_ANSWERS = (Refused, Released, Done)


@dataclass
class Talk:
    """What is known about one job from its own words."""

    run: str
    can: tuple[str, ...] = ()
    is_here: bool = True
    progress: Progress | None = None
    pending: dict[str, Request] = field(default_factory=dict)


class Server:
    """Hears the jobs that connect, and repeats what they have not answered when they come back."""

    def __init__(self, path: str, users: tuple[int, ...] = ()) -> None:
        """`users` may speak too, beside the owner of this process."""
        self.path = path
        self._users = users
        self.talks: dict[str, Talk] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = lines.listen(path)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._lines: dict[str, lines.Lines] = {}

    def fileno(self) -> int:
        """Readable when `turn` has something to do, so that it can sit inside another loop."""
        return self._selector.fileno() if isinstance(self._selector, selectors.EpollSelector) else -1

    def ask(self, run: str, request: Request) -> bool:
        """Send a request; False when the job cannot do it. One that is away hears it when it returns."""
        talk = self.talks[run]
        if request.say not in talk.can:
            return False
        talk.pending[request.id] = request
        if run in self._lines:
            self._lines[run].send(to_message(request))
        return True

    def turn(self, wait_s: float = 0.0) -> list[tuple[str, Word]]:
        """What the jobs said since the last turn, as (run, word)."""
        heard: list[tuple[str, Word]] = []
        for key, _ in self._selector.select(wait_s):
            if key.data is None:
                self._accept()
            else:
                heard += self._read(key.data)
        return heard

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            (key.data.socket if key.data else self._listener).close()
        self._selector.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if peer_user(connection) not in (os.getuid(), 0, *self._users):
            connection.close()
            return
        self._selector.register(connection, selectors.EVENT_READ, lines.Lines(connection))

    def _read(self, line: lines.Lines) -> list[tuple[str, Word]]:
        try:
            words = [from_message(message) for message in line.receive()]
        except lines.BadLine:
            words = []
            line.is_open = False
        heard = [(run, word) for word in words for run in self._note(line, word)]
        if not line.is_open:
            self._forget(line)
        return heard

    def _note(self, line: lines.Lines, word: Word) -> list[str]:
        if isinstance(word, Hello):
            self._greet(line, word)
        run = next((run for run, known in self._lines.items() if known is line), None)
        if run is None:
            return []
        talk = self.talks[run]
        if isinstance(word, Progress):
            talk.progress = word
        elif isinstance(word, LAST_ANSWERS):
            talk.pending.pop(word.id, None)
        elif isinstance(word, Unknown):
            line.send(to_message(word))
        return [run]

    def _greet(self, line: lines.Lines, hello: Hello) -> None:
        if hello.channel < 1:
            line.send(to_message(Goodbye(why=f"this scheduler speaks versions 1 to {VERSION} of the channel")))
            line.is_open = False
            return
        talk = self.talks.setdefault(hello.run, Talk(hello.run))
        talk.can, talk.is_here = hello.can, True
        self._lines[hello.run] = line
        line.send(to_message(Welcome(channel=min(VERSION, hello.channel))))
        for request in talk.pending.values():
            line.send(to_message(request))

    def _forget(self, line: lines.Lines) -> None:
        for run in [run for run, known in self._lines.items() if known is line]:
            del self._lines[run]
            self.talks[run].is_here = False
        self._selector.unregister(line.socket)
        line.close()


def peer_user(connection: socket.socket) -> int:
    """The user id at the other end of a Unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


__all__ = ["Accepted", "Server", "Talk", "peer_user"]
