"""The files a job names: read from beside it, each once, and no other file ever."""

import os
import stat

from .problems import BadJob, Problem

Named = str | os.PathLike[str]
"""Not `pathlib`: whoever asks about a line waits for every import."""

MOST_BYTES = 4 << 20


class Files:
    """Files by the name the job gives them. What is not there is no error: much is known without it."""

    def __init__(self, folder: Named | None = None) -> None:
        self.folder = os.fspath(folder or "")
        self.read: dict[str, str | None] = {}

    def text(self, name: str) -> str | None:
        """The text of a file; None where it is missing, no plain file, too large or not text."""
        if name not in self.read:
            self.read[name] = _text(beside(self.folder, name)) if _is_name(name) else None
        return self.read[name]


def beside(folder: str, name: str) -> str:
    """A file by its name, from a folder."""
    return name if not folder or name.startswith("/") else f"{folder}/{name}"


def is_file(path: Named) -> bool:
    """Whether there is a plain file of that name."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Named) -> bool:
    """Whether there is a folder of that name."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Named) -> int:
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - see `Named`
    except (OSError, ValueError):
        return 0


def _is_name(name: str) -> bool:
    return bool(name) and "\0" not in name and len(name) < 4096


class NoFiles(Files):
    """For texts that come from elsewhere: what they name is not looked for here."""

    def text(self, name: str) -> str | None:
        """Nothing."""
        self.read[name] = None
        return None


def read_text(path: Named) -> str:
    """A file that has to be there. Raises BadJob, with what is wrong."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        raise BadJob([Problem(f"there is no file {str(path)!r}")], str(path)) from None
    except (OSError, ValueError) as problem:
        what = getattr(problem, "strerror", None) or str(problem)
        raise BadJob([Problem(f"it cannot be read: {what}", file=str(path))], str(path)) from None
    if len(data) > MOST_BYTES:
        raise BadJob([Problem(f"it is larger than {MOST_BYTES >> 20} MiB", file=str(path))], str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadJob([Problem("it is not text (UTF-8)", file=str(path))], str(path)) from None


def read_bytes(path: Named) -> bytes:
    """One byte more than the most that is taken, of a plain file; a pipe or a device is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a plain file")
        return file.read(MOST_BYTES + 1)


def _text(path: Named) -> str | None:
    try:
        data = read_bytes(path)
        return data.decode("utf-8-sig") if len(data) <= MOST_BYTES else None
    except (OSError, ValueError):
        return None
