"""What the Slurm-like commands share: options by Slurm's own tables, and errors that name what is not supported."""

from collections.abc import Collection
from typing import Any

import click

from tutti.errors import Misused
from tutti.jobs.flags import Given, Spec, given
from tutti.jobs.problems import Misread
from tutti.jobs.shell import Word

SETTINGS: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
"""Options are read here and not by click: the short ones mean what they mean to Slurm (`squeue -h`)."""


def options(words: tuple[str, ...], table: Spec, stop_at_word: bool = False) -> Given:
    """The options given. One that is not supported is named, with what is."""
    try:
        return given([Word(word) for word in words], table, stop_at_word)
    except Misread as wrong:
        known = ", ".join(f"--{name}" for name in table.takes if len(name) > 1)
        what = wrong.what.replace("has no option", "does not know")
        raise Misused(what, hint=wrong.hint or f"one of {known}") from None


def without_effect(found: Given, heeded: Collection[str]) -> None:
    """Options that are known and change nothing are named."""
    for name, flag in found.flags.items():
        if name not in heeded:
            click.echo(f"ignored {flag.spelling} {flag.text}".strip() + ": it changes nothing here", err=True)


def operands(words: tuple[str, ...], found: Given, table: Spec) -> list[str]:
    """The words that are no options and no values of options."""
    left: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word.startswith("-") and len(word) > 1:
            at += 1 + _follows(word, table)
        else:
            left.append(word)
            at += 1
    return left + [word.text for word in found.rest]


def _follows(word: str, table: Spec) -> int:
    """How many words after an option belong to it."""
    if "=" in word:
        return 0
    name = table.alias.get(word[1:2], "") if not word.startswith("--") else word[2:]
    if not word.startswith("--") and len(word) > 2:
        return 0
    return table.takes.get(name, 0)
