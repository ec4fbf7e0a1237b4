"""Tokens: whoever has one may change things through the port, as the user whose it is. Files that only the daemon's own
user can read.
"""

import os
import secrets
import stat
from pathlib import Path

from tutti.api.home import Home

BYTES = 32


class Tokens:
    """One token for each user: that of the daemon's own user beside the socket, those of others in a folder."""

    def __init__(self, home: Home) -> None:
        self._own, self._others = home.token, home.path / "tokens"
        self._known: dict[int, str] = {}

    def of(self, uid: int, fresh: bool = False) -> str:
        """A user's token; a new one ends the old one."""
        if uid != os.getuid():
            self._others.mkdir(mode=0o700, exist_ok=True)
        self._known[uid] = token_of(self._file(uid), fresh)
        return self._known[uid]

    def recall(self) -> None:
        """Those that an earlier daemon gave out."""
        given = [int(file.name) for file in self._others.glob("*") if file.name.isdigit()]
        for uid in given:
            if found := read_token(self._file(uid)):
                self._known[uid] = found

    def owner(self, given: str) -> int | None:
        """Whose token it is. Every one is compared in full, so that nobody learns anything from the time it takes."""
        found = None
        for uid, token in self._known.items():
            if secrets.compare_digest(given.encode(), token.encode()):
                found = uid
        return found

    def _file(self, uid: int) -> Path:
        return self._own if uid == os.getuid() else self._others / str(uid)


def token_of(path: Path, fresh: bool = False) -> str:
    """The token in a file; a new one where there is none, where it is `fresh`, or where others could have read it."""
    if not fresh and (known := read_token(path)):
        return known
    made = secrets.token_urlsafe(BYTES)
    half = path.with_name(f"{path.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{made}\n")
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    return made


def read_token(path: Path) -> str:
    """What a file says, provided that it is a plain file and nobody else could read or change it; else nothing."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return ""
        return path.read_text().strip()
    except OSError:
        return ""
