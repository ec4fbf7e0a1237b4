"""Daemons that listen to this keeper: usually one, none while it is being restarted."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from tutti.train.agent import lines
from tutti.train.agent.server import peer_user

Message = dict[str, Any]


class Listeners:
    """Accepts daemons of the same user, greets each with the whole state, and tells all of them what happens."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.DefaultSelector,
        hear: Callable[[Message, lines.Lines], None],
        hello: Callable[[], list[Message]],
        gone: Callable[[lines.Lines], None],
        guest: int = -1,
    ) -> None:
        """`guest` is the user whose gang it is, where that is not the user the keeper runs as."""
        self._listener = listener
        self._guest = guest
        self._guests: list[lines.Lines] = []
        self._selector = selector
        self._hear, self._hello, self._gone = hear, hello, gone
        self._lines: list[lines.Lines] = []
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def tell(self, message: Message) -> None:
        for line in list(self._lines):
            if not line.send(message):
                self._forget(line)

    def flush(self, wait_s: float) -> None:
        """Give those who listen a moment to hear the end; whoever has heard it hangs up."""
        limit = time.monotonic() + wait_s
        with contextlib.suppress(BlockingIOError, OSError):
            self._accept()
        while self._lines and time.monotonic() < limit:
            for key, _ in self._selector.select(0.1):
                if key.fileobj in self._lines:
                    key.data()
        for line in list(self._lines):
            self._forget(line)
        self._listener.close()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        user = peer_user(connection)
        is_ours = user in (os.getuid(), 0)
        if not is_ours and user != self._guest:
            connection.close()
            return
        line = lines.Lines(connection)
        self._lines.append(line)
        if not is_ours:
            self._guests.append(line)
        self._selector.register(line, selectors.EVENT_READ, lambda: self._listen(line))
        for message in self._hello():
            line.send(message)

    def is_guest(self, line: lines.Lines) -> bool:
        """Whether it is the owner of the gang who speaks, and not a daemon."""
        return line in self._guests

    def _listen(self, line: lines.Lines) -> None:
        try:
            said = line.receive()
        except lines.BadLine:
            said, line.is_open = [], False
        for message in said:
            self._hear(message, line)
        if not line.is_open:
            self._forget(line)

    def _forget(self, line: lines.Lines) -> None:
        if line in self._lines:
            self._lines.remove(line)
            self._gone(line)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(line)
            line.close()
            if line in self._guests:
                self._guests.remove(line)
