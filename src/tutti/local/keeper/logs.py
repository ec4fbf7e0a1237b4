"""What members write, one file per rank: rotated, capped, and never faster than it can be stored."""

from __future__ import annotations

import contextlib
import os

PIECE = 1 << 16
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
PIECES_AT_ONCE = 4
"""What is read from one member before the others and the daemon have their turn."""


class Log:
    """One rank's output: a pipe that is emptied into a file, which becomes `.1` when it has grown too long."""

    def __init__(self, path: str, most_bytes: int, owner: tuple[int, int] | None = None) -> None:
        self.path = path
        self.most = max(most_bytes, 1 << 12)
        self.lost = 0
        """Bytes that could not be stored."""
        self.source = -1
        self._file = -1
        self._size = 0
        self._owner = owner

    def pipe(self) -> int:
        """A new pipe: the end a member writes to."""
        self.source, writer = os.pipe()
        os.set_blocking(self.source, False)
        return writer

    def fileno(self) -> int:
        return self.source

    def pump(self, pieces: int = PIECES_AT_ONCE) -> bool:
        """Store what is there, within reason; False when the member has closed its end."""
        for _ in range(pieces):
            try:
                data = os.read(self.source, PIECE)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self._store(data)
        return True

    def note(self, text: str) -> None:
        """A line of our own."""
        self._store(f"{text}\n".encode())

    def close_pipe(self) -> None:
        if self.source >= 0:
            os.close(self.source)
            self.source = -1

    def close(self) -> None:
        self.close_pipe()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _store(self, data: bytes) -> None:
        if self._size + len(data) > self.most:
            self._rotate()
        elif self._file < 0:
            self.open()
        try:
            written = os.write(self._file, data) if self._file >= 0 else 0
        except OSError:
            written = 0
        # A full disk must not stop the job: what cannot be stored is counted.
        self.lost += len(data) - written
        self._size += written

    def open(self) -> None:
        """Have the file there, at the latest when there is something to store."""
        with contextlib.suppress(OSError):
            self._file = os.open(self.path, FLAGS, 0o600)
            self._size = os.fstat(self._file).st_size
            if self._owner is not None:
                os.fchown(self._file, *self._owner)

    def _rotate(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        with contextlib.suppress(OSError):
            os.replace(self.path, f"{self.path}.1")
        self._size = 0
        self.open()
