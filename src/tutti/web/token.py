"""The token: whoever has it may change things through the port. A file that only its owner can read."""

import os
import secrets
import stat
from pathlib import Path

BYTES = 32


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
