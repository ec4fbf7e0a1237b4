"""From the text of a policy file to a policy, or to everything that is wrong with it."""

import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from typing import TypeVar

import msgspec
from msgspec import inspect

from tutti.errors import Misused

from .model import DAY, HOUR, MINUTE, SECOND, Data
from .policy import ALL, DEPTH, DURATION, Policy
from .presets import DEFAULT, PRESETS

R = TypeVar("R", bound=Data)

UNITS = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}
SPAN = re.compile(r"([0-9]{1,12})([wdhms])")
A_DURATION = "write a number of seconds, or a text such as '90s', '30m', '2h30m' or '7d'"
PRESET = "preset"


class Problem(Data, frozen=True):
    """One thing that is wrong, and what to write instead."""

    where: str
    """The key, with the tables it stands in: 'order.half_life'."""
    what: str
    hint: str = ""
    line: int = 0
    """Line of the file, from 1; 0 where it is not known."""

    def __str__(self) -> str:
        """The problem as one line of text."""
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.where + ': ' if self.where else ''}{self.what}" + (f"; {self.hint}" if self.hint else "")


class BadPolicy(Misused):
    """A policy file that says something impossible: all of its problems at once."""

    def __init__(self, problems: Iterable[Problem], source: str = "policy") -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"{source} is not a policy", *map(str, self.problems)]))


class _Wrong(Exception):
    """A value that cannot be read: what is wrong with it, and what to write."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def read_policy(text: str, source: str = "policy") -> Policy:
    """The policy in a TOML text: a preset and what differs from it. Raises BadPolicy with everything that is wrong."""
    reading = _Reading(text)
    policy = reading.policy()
    if reading.problems:
        raise BadPolicy(sorted(reading.problems, key=lambda problem: problem.line), source)
    return policy


def duration(written: object) -> int:
    """A time in microseconds from whole seconds or from a text like '2h30m'. Raises ValueError for anything else."""
    if isinstance(written, int) and not isinstance(written, bool):
        return written * SECOND
    if isinstance(written, str):
        text = written.replace(" ", "")
        if text and not SPAN.sub("", text):
            return sum(int(number) * UNITS[unit] for number, unit in SPAN.findall(text))
    raise ValueError(f"{shown(written)} is not a duration")


def spelled(time: int) -> str:
    """A time as a policy file writes it: the inverse of `duration` for whole seconds."""
    parts = []
    for unit, length in UNITS.items():
        # Weeks are read but not written: seven days are easier to compare with others.
        if unit != "w" and time >= length:
            parts.append(f"{time // length}{unit}")
            time %= length
    return "".join(parts) or "0s"


def shown(value: object) -> str:
    """A value as TOML would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


class _Reading:
    """One file being read: problems are collected, so that a person sees all of them at once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.problems: list[Problem] = []

    def policy(self) -> Policy:
        try:
            said = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as broken:
            found = re.search(r"at line (\d+)", str(broken))
            line = int(found[1]) if found else len(self._text.splitlines())
            self.problems.append(Problem("", f"not TOML: {broken}", line=line))
            return Policy()
        return self._changed(self._preset(said.pop(PRESET, DEFAULT)), said, ())

    def _preset(self, name: object) -> Policy:
        if isinstance(name, str) and name in PRESETS:
            return PRESETS[name].policy
        self._problem((PRESET,), f"there is no preset {shown(name)}", _instead(name, PRESETS))
        return Policy()

    def _changed(self, record: R, said: dict[str, object], path: tuple[str, ...]) -> R:
        known = inspect.type_info(type(record))
        assert isinstance(known, inspect.StructType)
        fields = {field.name: field.type for field in known.fields}
        changes: dict[str, object] = {}
        for key, value in said.items():
            try:
                if key in fields:
                    changes[key] = self._read(fields[key], getattr(record, key), value, (*path, key))
                else:
                    raise _Wrong("no such key", _misplaced(key, path) or _instead(key, [*fields, *_top(path)]))
            except _Wrong as wrong:
                self._problem((*path, key), wrong.what, wrong.hint)
        return msgspec.structs.replace(record, **changes)

    def _read(self, kind: inspect.Type, old: object, value: object, path: tuple[str, ...]) -> object:
        if not isinstance(old, Data):
            return _value(kind, value)
        if not isinstance(value, dict):
            raise _Wrong(f"{shown(value)} is not a table", f"write [{'.'.join(path)}] and its keys below it")
        return self._changed(old, value, path)

    def _problem(self, path: tuple[str, ...], what: str, hint: str) -> None:
        self.problems.append(Problem(".".join(path), what, hint, _line(self._text, path)))


def _value(kind: inspect.Type, value: object) -> object:
    """The value of one key, or what is wrong with it."""
    extra = kind.extra if isinstance(kind, inspect.Metadata) else None
    if isinstance(kind, inspect.Metadata):
        kind = kind.type
    match kind:
        case inspect.BoolType():
            return _exactly(bool, value, "write true or false")
        case inspect.StrType():
            return _exactly(str, value, "write a text in quotes")
        case inspect.EnumType():
            return _word(kind.cls, value)
        case inspect.VarTupleType():
            return _list(kind.item_type, value)
        case inspect.IntType():
            return _depth(kind, value) if extra == DEPTH else _number(kind, value, is_time=extra == DURATION)
        case _:
            raise AssertionError(f"a policy cannot hold {kind}")


def _exactly(kind: type, value: object, hint: str) -> object:
    if type(value) is not kind:
        raise _Wrong(f"{shown(value)} will not do", hint)
    return value


def _word(kind: type[Enum], value: object) -> object:
    words = {str(member.value): member for member in kind}
    if not isinstance(value, str) or value not in words:
        raise _Wrong(f"{shown(value)} is not one of its words", _instead(value, words))
    return words[value]


def _list(kind: inspect.Type, value: object) -> object:
    if not isinstance(value, list):
        raise _Wrong(f"{shown(value)} is not a list", f"write [{shown(value)}]")
    items = [_value(kind, item) for item in value]
    twice = [shown(str(item)) for at, item in enumerate(items) if item in items[:at]]
    if twice:
        raise _Wrong(f"{twice[0]} is there twice", "name it once")
    return tuple(items)


def _depth(kind: inspect.IntType, value: object) -> object:
    if value == "all":
        return ALL
    if type(value) is not int or not 0 <= value <= (kind.le or 0):
        raise _Wrong(f"{shown(value)} is not a depth", f"write 'all', or a number from 0 to {kind.le}")
    return value


def _number(kind: inspect.IntType, value: object, is_time: bool) -> object:
    try:
        number = duration(value) if is_time else _exactly(int, value, "write a whole number")
    except ValueError as wrong:
        raise _Wrong(str(wrong), A_DURATION) from None
    least, most = int(kind.ge or 0), int(kind.le or 0)
    assert isinstance(number, int)
    if not least <= number <= most:
        ends = (shown(spelled(least)), shown(spelled(most))) if is_time else (least, most)
        raise _Wrong(f"{shown(value)} is out of range", f"write something from {ends[0]} to {ends[1]}")
    return number


def _top(path: tuple[str, ...]) -> list[str]:
    return [] if path else [PRESET]


def _instead(word: object, valid: Iterable[str]) -> str:
    """The nearest valid spelling, or all that there are."""
    words = sorted(valid)
    near = get_close_matches(word, words, n=1) if isinstance(word, str) else ()
    return f"did you mean {shown(near[0])}?" if near else f"there are {', '.join(words)}"


def _misplaced(key: str, path: tuple[str, ...]) -> str:
    """Where a key belongs that is known, but not here."""
    if path and key in (PRESET, *Policy.__struct_fields__):
        return "it belongs at the top of the file, before any table"
    homes = [
        name for name in Policy.__struct_fields__ if key in getattr(getattr(Policy(), name), "__struct_fields__", ())
    ]
    return f"it belongs under [{' or ['.join(f'{home}]' for home in homes)}" if homes else ""


def _line(text: str, path: tuple[str, ...]) -> int:
    """The line a key is written on; where that cannot be told, the line of its table."""
    table: list[str] = []
    best = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if head := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            table = _names(head[1])
            key: list[str] = []
        elif assigned := re.match(r"\s*([\w.\"' -]+?)\s*=", line):
            key = _names(assigned[1])
        else:
            continue
        here = (*table, *key)
        if here == path:
            return number
        if here == path[: len(here)]:
            best = number
    return best


def _names(dotted: str) -> list[str]:
    return [name.strip().strip("\"'") for name in dotted.split(".")]
