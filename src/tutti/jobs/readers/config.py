"""Configuration files that a launch line names: YAML or JSON, with the line of each key."""

import json
import re
from typing import TYPE_CHECKING, Any

from tutti.jobs.draft import Draft
from tutti.jobs.problems import Problem

if TYPE_CHECKING:
    from tutti.jobs.yaml_file import Document


class Settings:
    """Keys and values of a file, and where each stands."""

    def __init__(self, value: Any = None, source: str = "", document: "Document | None" = None, text: str = "") -> None:
        self.value: dict[str, Any] = value if isinstance(value, dict) else {}
        self.source = source
        self._document = document
        self._text = text

    def get(self, *path: str) -> Any:
        """A value, or nothing."""
        here: Any = self.value
        for key in path:
            here = here.get(key) if isinstance(here, dict) else None
        return here

    def place(self, *path: str) -> str:
        """File and line of a key."""
        source, line = self.spot(*path)
        return f"{source}:{line}" if line else source

    def spot(self, *path: str) -> tuple[str, int]:
        """The same, apart."""
        return self.source, self._document.line(*path) if self._document else _json_line(self._text, path)


def read(name: str, draft: Draft) -> Settings:
    """The settings in a file; missing ones are said, broken ones are problems."""
    text = draft.files.text(name)
    if text is None:
        draft.warn(f"{name} is not here, so what it says is not known")
        return Settings(source=name)
    if name.endswith(".json") or text.lstrip().startswith("{"):
        return _json(text, name, draft)
    from tutti.jobs.yaml_file import load  # noqa: PLC0415 - the parser is not needed for JSON

    documents = load(text, name)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        draft.problems.append(Problem("it is not one table of keys and values", file=name))
        return Settings(source=name)
    return Settings(documents[0].value, name, documents[0])


def _json(text: str, name: str, draft: Draft) -> Settings:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as broken:
        draft.problems.append(Problem(f"not JSON: {broken.msg}", file=name, line=broken.lineno))
        return Settings(source=name)
    except (RecursionError, ValueError):
        draft.problems.append(Problem("not JSON that anybody would write", file=name))
        return Settings(source=name)
    if not isinstance(value, dict):
        draft.problems.append(Problem("it is not a table of keys and values", file=name, line=1))
    return Settings(value, name, None, text)


def _json_line(text: str, path: tuple[str, ...]) -> int:
    """Where a key stands in a JSON text, by looking for each step of its path after the one before."""
    at = 0
    for key in path:
        found = re.compile(r'"' + re.escape(key) + r'"\s*:').search(text, at)
        if not found:
            return 0
        at = found.start()
    return text.count("\n", 0, at) + 1
