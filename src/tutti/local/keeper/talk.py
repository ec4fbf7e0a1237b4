"""The keeper's end of the job's channel: what the job says goes to the daemon, what the daemon asks goes to the job."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import Any

from tutti.train.agent.channel import Hello, Leave, Progress, Request, Word, from_message, to_message
from tutti.train.agent.lines import BadLine
from tutti.train.agent.server import Server

MOST_LAST_TURNS = 256
"""Turns that are spent on last words; each reads up to 64 KiB of each member's."""


class JobTalk:
    """One socket; a gang has one job, but each of its members may speak on it. The first that can resize leads."""

    def __init__(
        self, path: str, user: int, selector: selectors.DefaultSelector, tell: Callable[[dict[str, Any]], None]
    ) -> None:
        if os.path.exists(path):
            os.unlink(path)
        self._server = Server(path, (user,) if user >= 0 else ())
        if user >= 0:
            os.chown(path, user, -1)
        self._tell = tell
        self.progress: dict[str, Any] | None = None
        self.last_heard = 0.0
        selector.register(self._server.fileno(), selectors.EVENT_READ, self._turn)

    @property
    def can(self) -> tuple[str, ...]:
        """What the job says it can do."""
        return tuple(dict.fromkeys(word for talk in self._server.talks.values() for word in talk.can))

    def ask(self, message: dict[str, Any]) -> bool:
        """Pass a request on; False where no part of the job can do it."""
        try:
            word = from_message(message)
        except BadLine:
            return False
        if not isinstance(word, Request):
            return False
        able = [talk.run for talk in self._server.talks.values() if word.say in talk.can]
        return bool(able) and self._server.ask(able[0], word)

    def leave(self, deadline_s: float, why: str) -> bool:
        """Ask the job to save its work and go."""
        asked = [
            self._server.ask(talk.run, Leave(f"leave-{why}", deadline_s, why))
            for talk in self._server.talks.values()
            if talk.is_here
        ]
        return any(asked)

    def hear_out(self) -> None:
        """What members that are gone had said before: it still lies in the socket."""
        quiet = 0
        for _ in range(MOST_LAST_TURNS):
            # One turn may do no more than let somebody in.
            quiet = 0 if self._turn() else quiet + 1
            if quiet > 1:
                return

    def close(self) -> None:
        self._server.close()

    def _turn(self) -> bool:
        heard = self._server.turn()
        for run, word in heard:
            self._heard(run, word)
        return bool(heard)

    def _heard(self, run: str, word: Word) -> None:
        if isinstance(word, Progress):
            self.last_heard = time.monotonic()
            self.progress = to_message(word)
        if isinstance(word, Hello):
            self._tell({"say": "speaks", "run": run, "can": list(word.can)})
        else:
            self._tell({"say": "heard", "run": run, "word": to_message(word)})
