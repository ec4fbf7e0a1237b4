"""Policies by name or by file, with the one that only the simulator has."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import msgspec

from tutti.engine.policy import Policy, Term
from tutti.engine.presets import PRESETS
from tutti.engine.read_policy import read_policy
from tutti.errors import Misused

from .pods import POD_FIFO

BY_WIDTH = frozenset({Term.WFP3, Term.UNI, Term.F1})
"""Orders of the literature that weigh a job by its processors: a gang's members may have several each."""

FILE_NAME = re.compile(r"[\w+ -][\w.+ -]*")
"""Names that can be a part of a file's name."""


def names() -> list[str]:
    """Every policy that has a name here."""
    return [*PRESETS, POD_FIFO.name]


def by_devices(policy: Policy, resource: str) -> Policy:
    """The same with widths counted in devices, as the orders of the literature have them, where it names no measure."""
    order = policy.order
    if order.measure or BY_WIDTH.isdisjoint(order.terms):
        return policy
    return msgspec.structs.replace(policy, order=msgspec.structs.replace(order, measure=resource))


def find_policy(word: str) -> Policy:
    """A policy by its name, or from a file."""
    if word == POD_FIFO.name:
        return POD_FIFO
    if word in PRESETS:
        return PRESETS[word].policy
    path = Path(word)
    if path.suffix == ".toml" and path.exists():
        policy = read_policy(path.read_text(), str(path))
        # A file that names no policy has its preset's name, and beside that preset nobody could tell them apart.
        return msgspec.structs.replace(policy, name=path.stem) if policy.name in PRESETS else policy
    if path.suffix == ".toml":
        raise Misused(f"there is no file {word}", hint=f"a file with a policy, or one of {', '.join(names())}")
    close = get_close_matches(word, names(), n=1)
    hint = close[0] if close else f"one of {', '.join(names())}, or a file that ends in .toml"
    raise Misused(f"there is no policy {word!r}", hint=hint)


def find_policies(words: Iterable[str]) -> list[Policy]:
    """Policies to be set side by side: each has a name of its own, which is also part of a file's."""
    found: dict[str, str] = {}
    chosen = []
    for word in words:
        policy = find_policy(word)
        if policy.name in found:
            twice = word if word == found[policy.name] else f"{found[policy.name]} and {word}"
            raise Misused(
                f"two policies would be called {policy.name!r}: {twice}",
                hint="give each once; a file may say `name` at its top",
            )
        if not FILE_NAME.fullmatch(policy.name):
            raise Misused(f"{word}: {policy.name!r} is no name for a policy", hint="letters, digits and - . _ + alone")
        found[policy.name] = word
        chosen.append(policy)
    return chosen
