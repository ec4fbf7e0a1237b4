"""The story of a run: what happened, in order, in words and as records."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO


class Story:
    """Each event goes to a file as one JSON line and to people as one sentence."""

    def __init__(self, path: Path | None, out: TextIO | None = None, clock: Callable[[], float] = time.time) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644) if path else -1
        self._missing = 0
        self._out = out
        self._clock = clock
        self.listener: Callable[[str, str], None] | None = None
        """Who else hears each event and its sentence."""

    def tell(self, event: str, sentence: str, **facts: Any) -> None:
        """Note an event: a stable word for programs, a sentence for people, and the facts."""
        record = {"at": round(self._clock(), 4), "event": event, "text": sentence, **facts}
        self._say(sentence)
        if self.listener is not None:
            self.listener(event, sentence)
        if self._file >= 0:
            self._write(record)

    def _say(self, sentence: str) -> None:
        if self._out:
            print(f"tutti train: {sentence}", file=self._out, flush=True)

    def _write(self, record: dict[str, Any]) -> None:
        """A line, whole or not at all: where the disk is full the run goes on, and the file says how many are missing
        as soon as it can.
        """
        gap = {"at": record["at"], "event": "gap", "text": f"{self._missing} events could not be written here"}
        text = "".join(json.dumps(one) + "\n" for one in ([gap, record] if self._missing else [record])).encode()
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, text) == len(text):
                self._missing = 0
                return
            why = "there is no room for it"
        except OSError as error:
            why = error.strerror or str(error)
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, before)
        if not self._missing:
            self._say(f"the story cannot be written to its file ({why}): the run goes on")
        self._missing += 1

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def to_stderr(path: Path | None, is_quiet: bool) -> Story:
    """A story on the error stream, unless asked to be quiet."""
    return Story(path, None if is_quiet else sys.stderr)
