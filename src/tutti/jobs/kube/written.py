"""JSON that people write into annotations."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decoded(text: str, kind: type[T]) -> T:
    """What it says; raises msgspec.DecodeError, also where it is nested so deeply that nobody could have meant it."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
