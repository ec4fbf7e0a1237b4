"""A size rule in a few words: `multiple:8`, `power-of-two`, `4,8,16`, `batch:512`, `memory:300G/80G`; joined by `+`."""

import re

from msgspec.structs import replace

from tutti.engine.model import MOST_AMOUNT, SizeRule

from .amounts import count, memory
from .problems import Misread, nearest

WORDS = ("multiple", "power-of-two", "sizes", "batch", "memory")
A_RULE = "write multiple:8, power-of-two, 4,8,16, batch:512 or memory:300G/80G; join several with +"


def size_rule(written: str) -> SizeRule:
    """The rule a text says; every part of it must hold."""
    rule = SizeRule()
    for part in filter(None, (part.strip() for part in written.split("+"))):
        rule = _with(rule, part)
    return rule


def spelled(rule: SizeRule) -> str:
    """The rule as a text that `size_rule` reads."""
    parts = [f"multiple:{rule.multiple}"] if rule.multiple > 1 else []
    parts += ["power-of-two"] if rule.power_of_two else []
    parts += [",".join(map(str, rule.sizes))] if rule.sizes else []
    parts += [f"batch:{rule.batch}"] if rule.batch else []
    parts += [f"memory:{rule.state_bytes}/{rule.member_bytes}"] if rule.state_bytes else []
    return " + ".join(parts)


def _with(rule: SizeRule, part: str) -> SizeRule:
    word, _, value = part.partition(":")
    match word.strip():
        case "multiple":
            return replace(rule, multiple=count(value, "multiple", 1))
        case "power-of-two" | "power_of_two" if not value:
            return replace(rule, power_of_two=True)
        case "batch":
            return replace(rule, batch=count(value, "global batch", 1, MOST_AMOUNT))
        case "memory":
            state, slash, each = value.partition("/")
            if slash:
                return replace(rule, state_bytes=memory(state), member_bytes=memory(each))
        case "sizes":
            return replace(rule, sizes=_listed(value))
        case listed if re.fullmatch(r"[0-9 ,]+", listed) and not value:
            return replace(rule, sizes=_listed(listed))
    hint = A_RULE if word.startswith(WORDS) else nearest(word, WORDS, A_RULE)
    raise Misread(f"{part!r} is no size rule", hint)


def _listed(text: str) -> tuple[int, ...]:
    return tuple(sorted({count(size, "size", 1) for size in text.split(",") if size.strip()}))
