"""Options of other people's programs: which were given, with what, and where the program's own words begin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .problems import Misread, nearest
from .shell import Word

CLOSE = 0.86
"""How alike an unknown option must be to a known one to count as a slip of the finger."""


class Flag(NamedTuple):
    """An option as it was given."""

    spelling: str
    value: Word

    @property
    def text(self) -> str:
        """The value's text."""
        return self.value.text


class Spec(NamedTuple):
    """The options of a program: names with how many words each takes, and other spellings of a name."""

    program: str
    takes: Mapping[str, int]
    alias: Mapping[str, str] = {}
    strict: bool = False
    """Whether every option is known here, so that a stranger is a mistake."""


class Given(NamedTuple):
    """What a line says to a program."""

    flags: dict[str, Flag]
    rest: tuple[Word, ...]
    """From the first word that is no option."""
    unknown: tuple[Word, ...]
    """Options nobody knows, each with its value if it came with one."""
    every: tuple[tuple[str, Flag], ...]
    """All options in order, repeated ones included."""
    strays: tuple[Word, ...] = ()
    """Words between options that are none, where reading went on past them."""


def spec(program: str, with_value: str, without: str = "", two: str = "", **alias: str) -> Spec:
    """A table of options from words: those that take a value, those that do not, and short forms."""
    every = ((without, 0), (with_value, 1), (two, 2))
    takes = {canonical(name): count for names, count in every for name in names.split()}
    return Spec(program, takes, alias)


def given(words: Sequence[Word], table: Spec, stop_at_word: bool = True) -> Given:
    """Read options up to the first word that is none (or all of them). Raises Misread for a likely slip."""
    reading = _Given(words, table)
    while reading.at < len(words):
        word = words[reading.at].text
        if word == "--":
            reading.at += 1
            break
        if not word.startswith("-") or word == "-":
            if stop_at_word:
                break
            reading.strays.append(words[reading.at])
            reading.at += 1
        else:
            reading.take(word)
    rest = tuple(words[reading.at :])
    return Given(reading.flags, rest, tuple(reading.unknown), tuple(reading.every), tuple(reading.strays))


def canonical(name: str) -> str:
    """One spelling for an option: without dashes in front, dashes inside."""
    return name.lstrip("-").replace("_", "-")


class _Given:
    def __init__(self, words: Sequence[Word], table: Spec) -> None:
        self.words, self.table, self.at = words, table, 0
        self.flags: dict[str, Flag] = {}
        self.unknown: list[Word] = []
        self.every: list[tuple[str, Flag]] = []
        self.strays: list[Word] = []

    def take(self, word: str) -> None:
        spelling, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = self._name(spelling)
        if name is None and not word.startswith("--") and len(word) > 2 and self._name(word[:2]):
            spelling, name, equals, value = word[:2], self._name(word[:2]), "=", word[2:].removeprefix("=")
        unknown = self.words[self.at].unknown
        self.at += 1
        if name is None:
            self._strange(spelling, equals, unknown)
        elif equals or not self.table.takes[name]:
            self._keep(name, Flag(spelling, Word(value if equals else "", unknown)))
        else:
            self._values(name, spelling)

    def _values(self, name: str, spelling: str) -> None:
        count = self.table.takes[name]
        if self.at + count > len(self.words):
            raise Misread(f"{self.table.program}: {spelling} has no value")
        taken = self.words[self.at : self.at + count]
        self.at += count
        self._keep(
            name, Flag(spelling, Word(" ".join(w.text for w in taken), tuple(u for w in taken for u in w.unknown)))
        )

    def _keep(self, name: str, flag: Flag) -> None:
        self.flags[name] = flag
        self.every.append((name, flag))

    def _name(self, spelling: str) -> str | None:
        if spelling in self.table.takes:
            return spelling
        plain = canonical(spelling)
        short = not spelling.startswith("--")
        if short and plain in self.table.alias:
            return self.table.alias[plain]
        if plain in self.table.takes:
            return plain
        if not short and plain in self.table.alias:
            return self.table.alias[plain]
        fits = [name for name in self.table.takes if len(plain) > 3 and not short and name.startswith(plain)]
        return fits[0] if len(fits) == 1 else None

    def _strange(self, spelling: str, equals: str, unknown: tuple[str, ...]) -> None:
        from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

        close = get_close_matches(canonical(spelling), list(self.table.takes), 1, CLOSE)
        if (self.table.strict or (close and spelling.startswith("--"))) and not unknown:
            raise Misread(f"{self.table.program} has no option {spelling}", self._instead(spelling))
        self.unknown.append(self.words[self.at - 1])
        follows = self.words[self.at].text if self.at < len(self.words) else "-"
        if not equals and not follows.startswith("-") and not _is_program(follows) and self.at + 1 < len(self.words):
            self.at += 1

    def _instead(self, spelling: str) -> str:
        """The option that is most like it; of a program that has letters only, all of them."""
        dashes = "--" if spelling.startswith("--") else "-"
        if len(spelling) == 2 and any(len(name) > 1 for name in self.table.takes):
            return ""
        if known := [f"{dashes}{name}" for name in self.table.takes if len(name) > 1]:
            return nearest(f"{dashes}{canonical(spelling)}", known, " ")
        return "there are " + " ".join(f"-{name}" for name in sorted(self.table.takes))


def _is_program(word: str) -> bool:
    return word.endswith((".py", ".sh")) or "/" in word


def listed(found: Iterable[Word]) -> str:
    """Words as a line."""
    return " ".join(word.text for word in found)
