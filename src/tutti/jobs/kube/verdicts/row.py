"""What becomes of one key that a dialect has: it is honoured, refused by its name, or for information only."""

from enum import StrEnum
from typing import Any, NamedTuple


class Verdict(StrEnum):
    """What becomes of a key."""

    HONOURED = "honoured"
    REFUSED = "refused"
    KNOWN = "for information"


class Row(NamedTuple):
    """A key of a dialect, where it is written, and what becomes of it."""

    on: str
    """The kind of object."""
    key: str
    """'annotation NAME', 'label NAME', 'property NAME', or the path of a field; [] goes into a list."""
    verdict: Verdict
    does: str
    example: Any = None
    """A value that shows it; None where it is nothing that could be written into an object."""
    only: tuple[str, ...] = ()
    """The values that are refused; all where none is named."""
    by_code: bool = False
    """Whether it is refused depends on more than that it is there."""
    beside: tuple[tuple[str, Any], ...] = ()
    """Other keys of the object without which it says nothing."""

    @property
    def name(self) -> str:
        """The key without the word before it."""
        return self.key.rpartition(" ")[2]

    def refuses(self, value: object) -> bool:
        """Whether such a value, found in an object, is refused."""
        if self.verdict is not Verdict.REFUSED or self.by_code or value is None:
            return False
        return not self.only or str(value) in self.only


Pairs = tuple[tuple[str, Any], ...]


def honoured(on: str, key: str, example: object, does: str, beside: Pairs = ()) -> Row:
    """A key that has its effect."""
    return Row(on, key, Verdict.HONOURED, does, example, beside=beside)


def refused(
    on: str,
    key: str,
    example: object,
    does: str,
    *,
    only: tuple[str, ...] = (),
    by_code: bool = False,
    beside: Pairs = (),
) -> Row:
    """A key that cannot be honoured: its gang waits, or an event on its object says so."""
    return Row(on, key, Verdict.REFUSED, does, example, only, by_code, beside)


def known(on: str, key: str, does: str, example: object = None, beside: Pairs = ()) -> Row:
    """A key that has no effect here, and why it needs none."""
    return Row(on, key, Verdict.KNOWN, does, example, beside=beside)
