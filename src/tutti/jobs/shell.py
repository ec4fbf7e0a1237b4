"""Shell text as commands of words, without running any of it.

Quotes, line continuations, comments, here-documents, plain variables, arrays and arithmetic are worked out. What only
a running shell could know (`$(hostname)`, a variable nobody set here) stays as written and is marked as unknown.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from .arithmetic import evaluate
from .lazy import pattern
from .problems import Misread

MOST_TEXT = 1 << 20
MOST_VALUE = 1 << 16
PLAIN = pattern(r'[^"\\$`]+')
"""What means itself inside double quotes."""
MOST_WORDS = 50_000
NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGN = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
ARRAY_START = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=\(")
BRACED = pattern(r"(!?)(#?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(\[[@*0-9]+\])?(?:(:?[-=+?])(.*))?", re.DOTALL)
SEPARATORS = ("&&", "||", ";;", ";", "|&", "|", "&", "\n", "(", ")")
KEYWORDS = {
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "for",
    "while",
    "until",
    "do",
    "done",
    "case",
    "esac",
    "{",
    "}",
    "!",
}
REDIRECT = pattern(r"(?:[0-9]{0,3}|&)(?:>>|>\||>&|<&|<>|>|<<<|<)")
HEREDOC = pattern(r"<<(-?)\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")


class Word(NamedTuple):
    """A word after expansion; `unknown` names what could not be worked out, which stays in the text as written."""

    text: str
    unknown: tuple[str, ...] = ()


class Command(NamedTuple):
    """One simple command, the variables set for it alone, and the line it begins on."""

    words: tuple[Word, ...]
    line: int
    sets: tuple[tuple[str, Word], ...] = ()


def commands(text: str, known: Mapping[str, str] | None = None, closed: bool = False) -> list[Command]:
    """Every simple command of a text, in order. `known` are variables set from outside.

    With `closed`, a quote that is not closed is an error; a whole script may have some where it is read only roughly.
    """
    if len(text) > MOST_TEXT:
        raise Misread("the script is larger than 1 MiB")
    reading = _Shell(text, known or {})
    found = reading.commands()
    if closed and reading.open:
        raise Misread(f"the quote {reading.open} is not closed", f"write another {reading.open} where it ends")
    return found


def words(text: str, known: Mapping[str, str] | None = None) -> tuple[Word, ...]:
    """The words of the first command of a text."""
    found = commands(text, known)
    return found[0].words if found else ()


class _Shell:
    """A text being read from left to right."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.line = 1
        self.scalars = {name: Word(value) for name, value in known.items()}
        self.arrays: dict[str, tuple[Word, ...]] = {}
        self.found: list[Command] = []
        self.current: list[Word] = []
        self.sets: list[tuple[str, Word]] = []
        self.began = 1
        self.total = 0
        self.heredocs: list[str] = []
        self.open = ""
        """A quote that nobody closed."""

    def commands(self) -> list[Command]:
        while self.at < len(self.text):
            self._step()
        self._end()
        return self.found

    def _step(self) -> None:
        here = self.text[self.at]
        if here in " \t":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self._skip(2)
        elif here == "#":
            self._skip_line()
        elif found := HEREDOC.match(self.text, self.at):
            self.heredocs.append(found[3])
            self._skip(len(found[0]))
        elif separator := next((s for s in SEPARATORS if self.text.startswith(s, self.at)), ""):
            self._separate(separator)
        elif found := REDIRECT.match(self.text, self.at):
            self._skip(len(found[0]))
            self._redirected()
        else:
            self._take()

    def _separate(self, separator: str) -> None:
        self._end()
        self._skip(len(separator))
        if separator == "\n" and self.heredocs:
            for mark in self.heredocs:
                self._skip_heredoc(mark)
            self.heredocs = []

    def _redirected(self) -> None:
        """The target of a redirection is no word of the command."""
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] not in "\n;|&()":
            self._word()

    def _take(self) -> None:
        """One word: an assignment before the command, or a word of it."""
        if not self.current:
            self.began = self.line
            if array := ARRAY_START.match(self.text, self.at):
                self._array(array[1], bool(array[2]), len(array[0]))
                return
            if assign := ASSIGN.match(self.text, self.at):
                self._skip(len(assign[0]))
                self._assign(assign[1], _joined(self._word()), bool(assign[2]))
                return
        for word in self._word():
            if self.current or word.text not in KEYWORDS:
                self.current.append(word)
            self._count(len(word.text) + 1)

    def _assign(self, name: str, value: Word, more: bool) -> None:
        before = self.scalars.get(name, Word("")) if more else Word("")
        value = Word((before.text + value.text)[:MOST_VALUE], before.unknown + value.unknown)
        self.sets.append((name, value))
        self._count(len(value.text))

    def _array(self, name: str, more: bool, length: int) -> None:
        self._skip(length)
        items = list(self.arrays.get(name, ())) if more else []
        while self.at < len(self.text) and self.text[self.at] != ")":
            here = self.text[self.at]
            if here.isspace():
                self._skip(1)
            elif self.text.startswith("\\\n", self.at):
                self._skip(2)
            elif here == "#":
                self._skip_line()
            elif here in ";|&(":
                self._skip(1)
            else:
                items += self._word()
                self._count(sum(len(item.text) + 1 for item in items[-8:]))
        self._skip(1)
        self.arrays[name] = tuple(items)[:MOST_WORDS]

    def _end(self) -> None:
        """The command is complete: it sets variables for what follows, or it is one of the commands found."""
        exported = self.current and self.current[0].text in {"export", "declare", "local", "readonly", "typeset"}
        if exported:
            for word in self.current[1:]:
                name, equals, value = word.text.partition("=")
                if equals and NAME.fullmatch(name):
                    self.scalars[name] = Word(value, word.unknown)
        elif self.current:
            self.found.append(Command(tuple(self.current), self.began, tuple(self.sets)))
        if exported or not self.current:
            self.scalars.update(self.sets)
        self.current, self.sets = [], []

    # -- words

    def _word(self) -> list[Word]:
        """The words that one stretch of text without blanks becomes; an unquoted variable may be several."""
        done: list[Word] = []
        text, quoted = "", False
        unknown: list[str] = []
        while self.at < len(self.text):
            here = self.text[self.at]
            if here in " \t\n;|&()<>":
                break
            pieces, in_quotes = self._piece(here)
            quoted = quoted or in_quotes
            for number, piece in enumerate(pieces):
                if number:
                    done.append(Word(text, tuple(unknown)))
                    text, unknown = "", []
                text += piece.text
                unknown += piece.unknown
            self._count(1 + 8 * len(pieces))
            if len(text) > MOST_VALUE:
                raise Misread("a word of the script is longer than anybody writes", "")
        if text or quoted:
            done.append(Word(text, tuple(unknown)))
        return done

    def _piece(self, here: str) -> tuple[list[Word], bool]:
        """The next piece of a word, and whether it stood in quotes."""
        if here == "'":
            return [Word(self._until("'"))], True
        if self.text.startswith("$'", self.at):
            self.at += 1
            return [Word(self._until("'"))], True
        if here == '"':
            return self._double(), True
        if here == "\\":
            plain = self.text[self.at + 1 : self.at + 2]
            self._skip(2)
            return ([] if plain == "\n" else [Word(plain)]), False
        if here in "$`":
            return _split(self._expansion()), False
        self._skip(1)
        return [Word(here)], False

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.at + 1)
        if end < 0:
            self.open, end = mark, len(self.text)
        inside = self.text[self.at + 1 : end]
        self._skip(end + 1 - self.at)
        return inside

    def _double(self) -> list[Word]:
        self._skip(1)
        pieces: list[Word] = [Word("")]
        while self.at < len(self.text) and self.text[self.at] != '"':
            here = self.text[self.at]
            if here == "\\" and self.text[self.at + 1 : self.at + 2] in {'"', "\\", "$", "`", "\n"}:
                more = [Word(self.text[self.at + 1].replace("\n", ""))]
                self._skip(2)
            elif here in "$`":
                more = self._expansion() or [Word("")]
            else:
                plain = PLAIN.match(self.text, self.at)
                more = [Word(plain[0] if plain else here)]
                self._skip(len(more[0].text))
            last = pieces[-1]
            pieces[-1] = Word(last.text + more[0].text, last.unknown + more[0].unknown)
            pieces += more[1:]
            self._count(len(last.text) // 64 + 1)
        if self.at >= len(self.text):
            self.open = '"'
        self._skip(1)
        return pieces

    # -- what a dollar sign may mean

    def _expansion(self) -> list[Word]:
        rest = self.text[self.at : self.at + 3]
        if rest.startswith("`"):
            inside = self._until("`")
            return [_unknown(f"`{inside}`")]
        if rest.startswith("$(("):
            return [self._arithmetic()]
        if rest.startswith("$("):
            return [_unknown(self._balanced("(", ")", 1))]
        if rest.startswith("${"):
            return self._braced(self._balanced("{", "}", 1))
        if found := re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])").match(self.text, self.at):
            self._skip(len(found[0]))
            return self._variable(found[1], f"${found[1]}")
        self._skip(1)
        return [Word("$")]

    def _arithmetic(self) -> Word:
        whole = self._balanced("(", ")", 1)
        known = {name: word.text for name, word in self.scalars.items() if not word.unknown}
        value = evaluate(whole[3:-2], known) if whole.endswith("))") else None
        return _unknown(whole) if value is None else Word(str(value))

    def _balanced(self, opens: str, closes: str, start: int) -> str:
        """From the dollar sign to the closing bracket; quotes inside are respected roughly."""
        depth, at = 0, self.at + start
        while at < len(self.text):
            here = self.text[at]
            if here == "\\":
                at += 1
            elif here == opens:
                depth += 1
            elif here == closes:
                depth -= 1
                if depth == 0:
                    break
            at += 1
        whole = self.text[self.at : at + 1]
        self._skip(len(whole) or 1)
        return whole

    def _braced(self, whole: str) -> list[Word]:
        found = BRACED.fullmatch(whole[2:-1])
        if not found or found[1] or found[2]:
            return [_unknown(whole)]
        name, index, how, other = found[3], found[4], found[5] or "", found[6] or ""
        if index and index[1:-1].isdigit():
            items = self.arrays.get(name, ())
            return [items[int(index[1:-1])]] if len(index) < 8 and int(index[1:-1]) < len(items) else [_unknown(whole)]
        value = self._variable(name, whole)
        if how.endswith(("-", "=")) and (any(word.unknown for word in value) or not "".join(w.text for w in value)):
            return [_unknown(whole) if "$" in other or "`" in other else Word(other.strip("\"'"))]
        return value

    def _variable(self, name: str, written: str) -> list[Word]:
        if name in self.arrays:
            return list(self.arrays[name])
        if name in self.scalars:
            return [self.scalars[name]]
        return [_unknown(written)]

    # -- moving on

    def _skip(self, length: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + length)
        self.at += length

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _skip_heredoc(self, mark: str) -> None:
        found = re.compile(rf"^\t*{mark}$", re.MULTILINE).search(self.text, self.at)
        self._skip((found.end() if found else len(self.text)) - self.at)

    def _count(self, more: int) -> None:
        self.total += more
        if self.total > 4 * MOST_TEXT:
            raise Misread("the script grows without end when its variables are filled in")


def _unknown(written: str) -> Word:
    return Word(written[:200], (written[:200],))


def _split(pieces: list[Word]) -> list[Word]:
    """Unquoted values fall apart at blanks."""
    done: list[Word] = []
    for piece in pieces:
        if piece.unknown or not re.search(r"\s", piece.text):
            done.append(piece)
        else:
            done += [Word(part) for part in piece.text.split()]
    return done


def _joined(found: list[Word]) -> Word:
    return Word(" ".join(word.text for word in found), tuple(u for word in found for u in word.unknown))
