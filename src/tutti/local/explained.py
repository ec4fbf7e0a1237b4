"""The configuration, explained: every key with its default and its meaning, as a file to begin with."""

import inspect
import json
import re

import msgspec

from . import settings

TABLES = {
    "devices": settings.DeviceSettings,
    "logs": settings.LogSettings,
    "history": settings.HistorySettings,
    "queues.NAME": settings.QueueSettings,
}
HEAD = """\
# Every key there is, with its default. Take away the # of what you want to change, and the rest.
# `tutti config --check` says what is wrong with it, `tutti config --reload` puts it in force while jobs run.
"""
POLICY = """
# The keys of a policy file: a preset and what differs from it.
# [policy]
# preset = "balanced"  # One of the presets."""


def meanings(kind: type) -> dict[str, str]:
    """The line below each field."""
    source = inspect.getsource(kind)
    pairs = re.findall(r'^    (\w+): [^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
    return {name: re.sub(r"\s+", " ", text) for name, text in pairs}


def defaults(kind: type) -> dict[str, object]:
    """What each key is where nobody says anything, as plain data."""
    made = kind()
    return {field.name: msgspec.to_builtins(getattr(made, field.name)) for field in msgspec.structs.fields(kind)}


def explained() -> str:
    """All of it, as TOML in which everything is commented out."""
    own = {name: text for name, text in meanings(settings.Settings).items() if name != "policy"}
    parts = [HEAD, *_keys(settings.Settings, own), POLICY]
    for name, kind in TABLES.items():
        parts += [f"\n# {inspect.cleandoc(kind.__doc__ or '')}", f"# [{name}]", *_keys(kind, meanings(kind))]
    return "\n".join(parts) + "\n"


def _keys(kind: type, said: dict[str, str]) -> list[str]:
    values = defaults(kind)
    return [f"# {name} = {json.dumps(values[name])}  # {text}" for name, text in said.items()]
