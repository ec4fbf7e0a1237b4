"""YAML, read with care: no aliases, no tags that build objects, no key twice, bounded size, line numbers kept.

The tree is built from parser events, so nothing in the text can name a Python object or grow by repetition.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from tutti.engine.model import Data

from .lazy import pattern
from .problems import BadJob, Problem

MOST_TEXT = 4 << 20
MOST_DEPTH = 48
MOST_NODES = 200_000
PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
NULL = {"", "~", "null", "Null", "NULL"}
BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INT = pattern(r"[-+]?(?:0|[1-9][0-9]{0,17}|0o[0-7]{1,20}|0x[0-9a-fA-F]{1,15})")
FLOAT = pattern(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
Path = tuple[str | int, ...]


class Document(Data, frozen=True):
    """One document: its value as plain data, and the line of every entry."""

    value: Any
    lines: dict[Path, int]
    source: str = ""

    def line(self, *path: str | int) -> int:
        """The line of an entry, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


def load(text: str, source: str = "the text") -> list[Document]:
    """Every document of the text that is not empty. Raises BadJob, with the line."""
    if len(text) > MOST_TEXT:
        raise BadJob([Problem(f"it is larger than {MOST_TEXT >> 20} MiB", file=source)], source)
    try:
        return [found for found in _documents(text, source) if found.value is not None]
    except yaml.YAMLError as broken:
        raise BadJob([_in_words(broken, text, source)], source) from None
    except UnicodeError:
        raise BadJob([Problem("it is not text", file=source)], source) from None


def _documents(text: str, source: str) -> Iterator[Document]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events = yaml.parse(text, Loader=loader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(events, source)
            value = builder.build(next(events), (), 0)
            yield Document(value, builder.lines, source)


def _in_words(broken: yaml.YAMLError, text: str, source: str) -> Problem:
    mark = getattr(broken, "problem_mark", None)
    what = getattr(broken, "problem", None) or "it cannot be parsed"
    lines = text.splitlines()
    said = lines[mark.line].strip()[:200] if mark and mark.line < len(lines) else ""
    return Problem(f"not YAML: {what}", said, file=source, line=mark.line + 1 if mark else 0)


class _Builder:
    """One document being built from events."""

    def __init__(self, events: Iterator[Any], source: str) -> None:
        self.lines: dict[Path, int] = {}
        self._events = events
        self._source = source
        self._nodes = 0

    def build(self, event: Any, path: Path, depth: int) -> Any:
        line = event.start_mark.line + 1
        self.lines.setdefault(path, line)
        self._nodes += 1
        if depth > MOST_DEPTH or self._nodes > MOST_NODES:
            raise self._refused("it is nested too deep" if depth > MOST_DEPTH else "it has too many entries", line)
        if isinstance(event, yaml.AliasEvent):
            raise self._refused(f"alias '*{event.anchor}' is not read", line, "write the value out")
        if event.tag is not None and event.tag not in PLAIN_TAGS and event.tag != "!":
            raise self._refused(f"tag {event.tag!r} is not read", line, "write plain data")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return [
                self.build(item, (*path, i), depth + 1) for i, item in enumerate(self._until(yaml.SequenceEndEvent))
            ]
        return self._mapping(path, depth)

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refused("a key is not a plain word", line, "write key: value")
            key = event.value
            if key in found:
                raise self._refused(f"key {key!r} stands here a second time", line, "keep one of the two")
            self.lines[(*path, key)] = line
            found[key] = self.build(next(self._events), (*path, key), depth + 1)
        return found

    def _until(self, end: type[Any]) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event

    def _refused(self, what: str, line: int, hint: str = "") -> BadJob:
        return BadJob([Problem(what, hint=hint, file=self._source, line=line)], self._source)


def _scalar(event: Any) -> Any:
    value: str = event.value
    if (
        not event.implicit[0]
        and event.tag != "!"
        and not (event.tag or "").endswith((":int", ":float", ":bool", ":null"))
    ):
        return value
    if event.style in {"'", '"', "|", ">"}:
        return value
    return plain(value)


def plain(value: str) -> Any:
    """What an unquoted word means: nothing, yes or no, a number, or itself."""
    if value in NULL:
        return None
    if value in BOOL:
        return BOOL[value]
    if INT.fullmatch(value):
        return int(value, 0 if value.lstrip("+-")[:2].lower() in {"0x", "0o"} else 10)
    return float(value) if FLOAT.fullmatch(value) else value
