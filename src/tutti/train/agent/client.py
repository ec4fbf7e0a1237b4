"""The job's end of the channel: report progress, hear requests, answer each of them once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tutti.train.agent import lines
from tutti.train.agent.channel import (
    Answer,
    Goodbye,
    Hello,
    Leave,
    Progress,
    Request,
    Resize,
    Snapshot,
    Told,
    Unknown,
    Welcome,
    Word,
    from_message,
    to_message,
)

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 5.0


class Client:
    """Keeps one connection to the scheduler, through its restarts, without ever holding the job up."""

    def __init__(self, address: str, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = socket_path(address)
        self.run = run
        self.last_words: str | None = None
        self._clock = clock
        self._line: lines.Lines | None = None
        self._retry_s = FIRST_RETRY_S
        self._next_try = 0.0
        self._answers: dict[str, list[Answer]] = {}

    def fileno(self) -> int | None:
        """The socket to wait on, when there is one."""
        return self._line.fileno() if self._line else None

    def report(self, progress: Progress) -> bool:
        """Say how far the job is; False when nobody listens."""
        return self._send(progress)

    def tell(self, told: Told) -> bool:
        """Say what happened inside the job; False when nobody listens."""
        return self._send(told)

    def answer(self, answer: Answer) -> None:
        """Answer a request; the answer is kept, to be said again when the request is repeated."""
        self._answers.setdefault(answer.id, []).append(answer)
        self._send(answer)

    def requests(self) -> list[Request]:
        """New requests since the last call; repeated ones are answered from memory."""
        if not self._connected():
            return []
        assert self._line is not None
        try:
            words = [from_message(message) for message in self._line.receive()]
        except lines.BadLine:
            self._drop()
            return []
        fresh = [request for word in words for request in self._heard(word)]
        if not self._line.is_open:
            self._drop()
        return fresh

    def close(self) -> None:
        if self._line:
            self._line.close()

    def _heard(self, word: Word) -> list[Request]:
        if isinstance(word, (Resize, Snapshot, Leave)):
            if word.id not in self._answers:
                self._answers[word.id] = []
                return [word]
            for answer in self._answers[word.id]:
                self._send(answer)
        elif isinstance(word, Goodbye):
            self.last_words = word.why
        elif isinstance(word, Unknown):
            self._send(word)
        elif isinstance(word, Welcome):
            self._retry_s = FIRST_RETRY_S
        return []

    def _send(self, word: Word) -> bool:
        if not self._connected():
            return False
        assert self._line is not None
        if not self._line.send(to_message(word)):
            self._drop()
        return self._line is not None

    def _connected(self) -> bool:
        if self._line is None and self._clock() >= self._next_try:
            self._connect()
        return self._line is not None

    def _connect(self) -> None:
        try:
            self._line = lines.connect(self.path, wait_s=0.5)
        except OSError:
            self._drop()
            return
        self._line.send(to_message(Hello(run=self.run, pid=os.getpid())))

    def _drop(self) -> None:
        if self._line:
            self._line.close()
        self._line = None
        self._next_try = self._clock() + self._retry_s
        self._retry_s = min(LAST_RETRY_S, self._retry_s * 2)


def socket_path(address: str) -> str:
    """The path in `unix:/path`; other transports belong to other backends."""
    scheme, _, path = address.partition(":")
    if scheme != "unix" or not path:
        raise ValueError(
            f"cannot reach the scheduler at {address!r}: on one machine TUTTI_CHANNEL is unix:/path/to.sock"
        )
    return path
