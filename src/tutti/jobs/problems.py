"""What is wrong with what somebody wrote: all of it at once, each with its place and what to write instead."""

from collections.abc import Iterable

from tutti.engine.model import Data
from tutti.errors import Misused

SLIP = 0.88


class Problem(Data, frozen=True):
    """One thing that is wrong."""

    what: str
    text: str = ""
    """The offending text, as it was written."""
    hint: str = ""
    """What was expected, or the nearest valid spelling."""
    file: str = ""
    line: int = 0
    """Line of the file, from 1; 0 where it is not known."""

    def __str__(self) -> str:
        """The problem as a line or two."""
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        if not place and self.line:
            place = f"line {self.line}: "
        said = f"\n      {self.text}" if self.text and self.text not in self.what else ""
        return f"{place}{self.what}{'; ' + self.hint if self.hint else ''}{said}"


class BadJob(Misused):
    """A job that cannot be understood: everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem], source: str = "the job") -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n  ".join([f"{source} is not well formed", *map(str, self.problems)]))


class Misread(Exception):
    """A value that cannot be read: what is wrong with it, and what to write. Readers turn it into a Problem."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint

    def at(self, text: str = "", file: str = "", line: int = 0) -> Problem:
        """The same, with its place."""
        return Problem(self.what, text, self.hint, file, line)


def nearest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint with the known word most like this one."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    names = list(known)
    close = get_close_matches(word, names, 1, 0.6) or get_close_matches(word.lower(), names, 1, 0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return otherwise.strip() if otherwise else (f"known are {', '.join(sorted(names)[:12])}" if names else "")


def is_slip(word: str, meant: str) -> bool:
    """Whether a finger slipped: the same first letter, nearly the same length, nearly the same letters."""
    if word[:1].lower() != meant[:1].lower() or abs(len(word) - len(meant)) > 2 or word == meant:
        return False
    from difflib import SequenceMatcher  # noqa: PLC0415 - few words come that near

    return SequenceMatcher(None, word.lower(), meant.lower()).ratio() > SLIP
