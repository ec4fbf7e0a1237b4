"""Regular expressions that are compiled when they are first used: of those of all readers, a job needs few."""

import re
from typing import Any, cast

METHODS = ("match", "fullmatch", "search", "sub", "findall", "finditer", "split", "pattern")


class _Lazy:
    """Stands for a pattern; the first look at it makes it one."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        made = re.compile(self._text, self._flags)
        self.__dict__.update({method: getattr(made, method) for method in METHODS})
        return self.__dict__[name]


def pattern(text: str, flags: int = 0) -> "re.Pattern[str]":
    """Like `re.compile`, at the time of need."""
    return cast("re.Pattern[str]", _Lazy(text, flags))
