"""A job while it is being read: what was said, by whom, and in which order of authority. The first to say it wins."""

from collections.abc import Callable, Mapping
from typing import Any

from .amounts import count
from .files import Files
from .flags import Flag, Given, Spec, given, listed
from .output_files import OutputFiles
from .problems import BadJob, Misread, Problem
from .shell import Word
from .understood import Ignored
from .world_size import WorldRule, joined

COMMAND_LINE = "the command line"


class Draft:
    """Collects; nothing is decided before everything is read."""

    def __init__(self, files: Files, origin: str = COMMAND_LINE, env: Mapping[str, str] | None = None) -> None:
        self.files = files
        self.origin = origin
        self.file, self.line = "", 0
        self.env: dict[str, str] = dict(env or {})
        self.what = ""
        self.said: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.frameworks: dict[str, str] = {}
        """Specific frameworks seen, and where."""
        self.launcher = ""
        self.manager = ""
        self.ranks = 0
        """Ranks on each member, where a launcher starts several."""
        self.nodes = 0
        """Nodes of a batch job, where they are not its members."""
        self.world = WorldRule()
        self.tensor = 1
        """Consecutive ranks that share an NVLink domain."""
        self.level = "L0"
        self.output: OutputFiles | None = None
        self.ignored: list[Ignored] = []
        self.warnings: list[str] = []
        self.asks: list[str] = []
        self.problems: list[Problem] = []

    # -- saying

    def say(self, field: str, value: Any, source: str) -> None:
        """A field, by whoever has the word; who comes later and differs is named as not heeded."""
        if field not in self.said:
            self.said[field], self.sources[field] = value, source
        elif self.said[field] != value and not source.startswith("default"):
            self.ignore(f"{field} = {_shown(value)} ({source})", f"{self.sources[field]} goes first")

    def fill(self, field: str, value: Any, source: str) -> None:
        """A field, if nobody said it."""
        if field not in self.said:
            self.say(field, value, source)

    def has(self, field: str) -> bool:
        """Whether somebody said it."""
        return field in self.said

    def ignore(self, text: str, why: str) -> None:
        """Something written that changes nothing."""
        entry = Ignored(text, why)
        if entry not in self.ignored:
            self.ignored.append(entry)

    def warn(self, text: str) -> None:
        """Something a person should know."""
        if text not in self.warnings:
            self.warnings.append(text)

    def ask(self, text: str) -> None:
        """Something that only a person can say."""
        if text not in self.asks:
            self.asks.append(text)

    def problem(self, what: str, text: str = "", hint: str = "") -> None:
        """Something that is wrong, at the place that is being read."""
        self.problems.append(Problem(what, text, hint, self.file, self.line))

    def framework(self, name: str, source: str) -> None:
        """A specific framework was seen."""
        self.frameworks.setdefault(name, source)

    def rule(self, rule: WorldRule) -> None:
        """One more rule about legal sizes."""
        self.world = joined(self.world, rule)

    # -- reading

    def place(self, what: str) -> str:
        """Where something was said, in words."""
        if self.file and self.line:
            return f"{what} at {self.file}:{self.line}"
        return f"{what} on {self.origin}" if self.origin == COMMAND_LINE else f"{what} in {self.origin}"

    def options(self, words: "tuple[Word, ...] | list[Word]", table: Spec, stop_at_word: bool = True) -> Given:
        """The options of a program; slips of the finger and strangers are kept."""
        try:
            found = given(words, table, stop_at_word)
        except Misread as wrong:
            self.problem(wrong.what, listed(words)[:200], wrong.hint)
            raise BadJob(self.problems, self.origin) from None
        for word in found.unknown:
            self.ignore(word.text, f"not an option of {table.program} that is known here; it is passed on as written")
        return found

    def strays(self, found: Given) -> None:
        """Words of a directive that are no options change nothing, and are named."""
        for word in found.strays:
            self.ignore(word.text, "it is no option, and nothing is known here by that word")

    def without_effect(self, found: Given, known: Mapping[str, str], heeded: str) -> None:
        """Options that change nothing here are named, each with the reason."""
        for name, flag in found.flags.items():
            if name in known or name not in heeded.split():
                text = f"{flag.spelling} {flag.text}".strip()
                self.ignore(text, known.get(name, "it changes nothing here"))

    def number(self, flag: Flag | None, least: int = 1, field: str = "") -> int | None:
        """The whole number of an option; unknown ones are asked for (unless said elsewhere), bad ones are problems."""
        if flag is None:
            return None
        if flag.value.unknown:
            if not field or not self.has(field):
                self.ask(f"{flag.spelling} {flag.text}: known only when it runs; say it with an option of ours")
            return None
        try:
            return count(flag.text, "number", least)
        except Misread as wrong:
            self.problem(f"{flag.spelling}: {wrong.what}", f"{flag.spelling} {flag.text}", wrong.hint)
            return None

    def parsed(self, field: str, flag: Flag | None, parse: Callable[[str], object]) -> None:
        """A field from the text of an option, if it was given; text that only a run fills in is asked for."""
        if flag is None:
            return
        if flag.value.unknown:
            if not self.has(field):
                self.ask(f"{flag.spelling} {flag.text}: known only when it runs; say it with an option of ours")
            return
        try:
            value = parse(flag.text)
        except Misread as wrong:
            self.problem(f"{flag.spelling}: {wrong.what}", f"{flag.spelling} {flag.text}", wrong.hint)
            return
        if value != "":
            self.say(field, value, self.place(flag.spelling))

    def say_number(self, field: str, flag: Flag | None, least: int = 1) -> int | None:
        """A field from an option, if it was given."""
        number = self.number(flag, least, field)
        if flag is not None and number is not None:
            self.say(field, number, self.place(flag.spelling))
        return number


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
