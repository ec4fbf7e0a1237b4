"""Read a trace, whatever it is: the format is recognised from the content, compressed files are read as they are."""

import gzip
import zlib
from pathlib import Path
from typing import Protocol

from tutti.errors import Misused, NotFound
from tutti.sim import generate

from . import swf, tabbed, table
from .journal import is_journal, read_journal
from .log import Bad, Line, Log


class Format(Protocol):
    """A module that knows one family of traces."""

    def looks_like(self, first: list[str]) -> bool:
        """Whether these are the first lines of one."""

    def read(self, lines: list[Line], source: str, skip_bad: bool, path: Path | None = None) -> Log:
        """The trace."""


LOOK = 60
"""Lines a format is recognised by."""
PIECE = 1 << 12
GZIP = b"\x1f\x8b"
OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
"""What a file begins with that is compressed in a way that is not unpacked here."""
FORMATS: tuple[Format, ...] = (swf, table, tabbed, generate)


def read_trace(path: Path, skip_bad: bool = False) -> Log:
    """The trace in a file. Raises an error that says what is wrong, where, and what to do."""
    if is_journal(path):
        return _checked(read_journal(path, skip_bad), path)
    damage: list[Bad] = []
    lines = read_lines(path, skip_bad, damage)
    first = [text for _, text in lines[:LOOK]]
    for form in FORMATS:
        if form.looks_like(first):
            log = form.read(lines, path.name, skip_bad, path)
            log.left_out = [*log.left_out, *damage]
            return _checked(log, path)
    lacks = table.lacks(first)
    raise Misused(
        f"{path.name} is not a trace in a format that Tutti knows{f': {lacks}' if lacks else ''}.",
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


def read_lines(path: Path, skip_bad: bool = False, damage: list[Bad] | None = None) -> list[Line]:
    """The numbered lines of a file, compressed or not; what is lost of it is added to `damage`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", hint="tutti simulate --scenes lists what ships with Tutti") from None
    except OSError as problem:
        raise Misused(f"cannot read {path}: {problem.strerror}") from None
    if other := next((name for magic, name in OTHERS.items() if data.startswith(magic)), ""):
        raise Misused(f"{path.name} is compressed with {other}.", hint="unpack it first; gzip is read as it is")
    if data.startswith(GZIP):
        data, wrong = _unpacked(data, path, skip_bad)
        if wrong and damage is not None:
            damage.append(Bad(data.count(b"\n") + 1, f"the rest of the file is lost: {wrong}"))
    return list(enumerate(data.decode("utf-8", "replace").splitlines(), 1))


def _unpacked(data: bytes, path: Path, skip_bad: bool) -> tuple[bytes, str]:
    """What is readable of a compressed file, and what is wrong with it."""
    try:
        return gzip.decompress(data), ""
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        says = str(problem)
        if not skip_bad:
            raise Misused(
                f"{path.name} is a compressed file that is cut short or damaged: {says}.",
                hint="fetch it again, or --skip-bad to use what is readable",
            ) from None
    reader, found = zlib.decompressobj(wbits=31), b""
    try:
        # In small pieces, so that damage in the middle leaves all that stands before it.
        for at in range(0, len(data), PIECE):
            found += reader.decompress(data[at : at + PIECE])
    except zlib.error:
        pass
    return found, says
