"""Which batch system a script was written for, and the words of its directives with their lines."""

from typing import NamedTuple

from tutti.jobs.lazy import pattern
from tutti.jobs.problems import Misread
from tutti.jobs.shell import Word, commands

MARKS = {
    "slurm": pattern(r"#SBATCH(?=\s|$)\s*(.*)"),
    "pbs": pattern(r"#PBS(?=\s|$)\s*(.*)"),
    "lsf": pattern(r"#BSUB(?=\s|$)\s*(.*)"),
    "flux": pattern(r"#\s?[Ff][Ll][Uu][Xx]:\s*(.*)"),
}
MOST_LINES = 20_000


class Directive(NamedTuple):
    """One directive line."""

    words: tuple[Word, ...]
    line: int
    text: str


class Header(NamedTuple):
    """The directives of a script, those that come too late, and where the commands begin."""

    manager: str
    directives: tuple[Directive, ...]
    late: tuple[Directive, ...]


def managers(text: str) -> list[str]:
    """The batch systems that a script speaks to."""
    lines = text.splitlines()[:MOST_LINES]
    return [name for name, mark in MARKS.items() if any(mark.match(line) for line in lines)]


def header(text: str, manager: str) -> Header:
    """The directives of one batch system. Raises Misread where a directive is no line of words."""
    before: list[Directive] = []
    late: list[Directive] = []
    running = False
    for number, line in enumerate(text.splitlines()[:MOST_LINES], 1):
        if found := MARKS[manager].match(line):
            words = _words(found[1])
            (late if running and manager == "slurm" else before).append(Directive(words, number, line.strip()))
        elif line.strip() and not line.lstrip().startswith("#"):
            running = True
    return Header(manager, tuple(before), tuple(late))


def _words(text: str) -> tuple[Word, ...]:
    """The words of a directive. A hash begins a comment; variables are not filled in by any batch system."""
    try:
        found = commands(text.replace("$", "\\$"))
    except Misread:
        return ()
    return tuple(Word(word.text, ("$",) if "$" in word.text else ()) for word in (found[0].words if found else ()))
