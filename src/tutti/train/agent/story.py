"""The story of a run: what happened, in order, in words and as records."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO


class Story:
    """Each event goes to a file as one JSON line and to people as one sentence."""

    def __init__(self, path: Path | None, out: TextIO | None = None, clock: Callable[[], float] = time.time) -> None:
        self.events: list[dict[str, Any]] = []
        self._file = open(path, "a", buffering=1) if path else None  # noqa: SIM115 - lives as long as the story
        self._out = out
        self._clock = clock

    def tell(self, event: str, sentence: str, **facts: Any) -> None:
        """Note an event: a stable word for programs, a sentence for people, and the facts."""
        record = {"at": round(self._clock(), 4), "event": event, "text": sentence, **facts}
        self.events.append(record)
        if self._file:
            self._file.write(json.dumps(record) + "\n")
        if self._out:
            print(f"tutti train: {sentence}", file=self._out, flush=True)

    def count(self, event: str) -> int:
        return sum(record["event"] == event for record in self.events)

    def close(self) -> None:
        if self._file:
            self._file.close()


def to_stderr(path: Path | None, is_quiet: bool) -> Story:
    """A story on the error stream, unless asked to be quiet."""
    return Story(path, None if is_quiet else sys.stderr)
