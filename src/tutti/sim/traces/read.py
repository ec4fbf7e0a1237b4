"""Read a trace, whatever it is: the format is recognised from the content, compressed files are read as they are."""

import gzip
import zlib
from pathlib import Path
from typing import Protocol

from tutti.errors import Misused, NotFound
from tutti.sim import generate

from . import swf, tabbed, table
from .journal import is_journal, read_journal
from .log import Line, Log


class Format(Protocol):
    """A module that knows one family of traces."""

    def looks_like(self, first: list[str]) -> bool:
        """Whether these are the first lines of one."""

    def read(self, lines: list[Line], source: str, skip_bad: bool, path: Path | None = None) -> Log:
        """The trace."""


LOOK = 60
"""Lines a format is recognised by."""
GZIP = b"\x1f\x8b"
FORMATS: tuple[Format, ...] = (swf, table, tabbed, generate)


def read_trace(path: Path, skip_bad: bool = False) -> Log:
    """The trace in a file. Raises an error that says what is wrong, where, and what to do."""
    if is_journal(path):
        return _checked(read_journal(path, skip_bad), path)
    lines = read_lines(path, skip_bad)
    first = [text for _, text in lines[:LOOK]]
    for form in FORMATS:
        if form.looks_like(first):
            log = form.read(lines, path.name, skip_bad, path)
            return _checked(log, path)
    raise Misused(
        f"{path.name} is not a trace in a format that Tutti knows.",
        where=f"{path}, line 1: {first[0][:60]!r}" if first else f"{path} is empty",
        hint="docs/reference/traces.md lists the formats and their first lines",
    )


def _checked(log: Log, path: Path) -> Log:
    if not log.rows:
        raise Misused(
            f"{path.name} looks like {log.kind} but holds no job that can be used.",
            where=str(log.left_out[0]) if log.left_out else str(path),
            hint="is the file complete? `head` it",
        )
    return log


def read_lines(path: Path, skip_bad: bool = False) -> list[Line]:
    """The numbered lines of a file, compressed or not."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", hint="tutti simulate --scenes lists what ships with Tutti") from None
    except OSError as problem:
        raise Misused(f"cannot read {path}: {problem.strerror}") from None
    if data.startswith(GZIP):
        data = _unpacked(data, path, skip_bad)
    return list(enumerate(data.decode("utf-8", "replace").splitlines(), 1))


def _unpacked(data: bytes, path: Path, skip_bad: bool) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        if not skip_bad:
            raise Misused(
                f"{path.name} is a compressed file that is cut short or damaged: {problem}.",
                hint="fetch it again, or --skip-bad to use what is readable",
            ) from None
    reader = zlib.decompressobj(wbits=31)
    try:
        return reader.decompress(data)
    except zlib.error:
        return b""
