"""Job files of our own: TOML or YAML, and `#tutti:` lines in a script. Unknown keys are errors, all of them at once."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from .files import Named, read_text
from .gang import problems_of
from .job import Job, Part
from .lazy import pattern
from .problems import BadJob, Problem, nearest

DIRECTIVE = pattern(r"\s*#tutti:\s*(.*)")
MARK = "#tutti:"
PART = r"(?:[\w-]{1,80}|\"[^\"\n]{0,80}\"|'[^'\n]{0,80}')"
DEEP_KEY = pattern(rf"(?:^|[\[{{,])[ \t]*{PART}(?:[ \t]*\.[ \t]*{PART}){{100}}", re.MULTILINE)
"""A key of a hundred parts: more than any has."""
Lines = Callable[..., int]
EXPECTED = pattern(r"Expected `([^`]*)`, got `([^`]*)`")
IN_WORDS = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "array": "a list",
    "object": "a table", "null": "nothing",
}  # fmt: skip


def read_job_file(path: Named) -> Job:
    """The job in a file: .toml, .yaml, .yml, or a script with `#tutti:` lines."""
    return read_job(read_text(path), os.fspath(path))


def read_job(text: str, source: str = "job.toml") -> Job:
    """The job in a text; the ending of its name says how to read it. Raises BadJob with everything that is wrong."""
    if source.endswith((".yaml", ".yml")):
        return _from_yaml(text, source)
    if source.endswith(".toml"):
        return from_data(_toml(text, source), source, toml_lines(text))
    return from_script(text, source)


def from_script(text: str, source: str) -> Job:
    """The job in the `#tutti:` lines at the top of a script; the script itself is what it runs."""
    data, lines = directives(text, source)
    job = from_data(data, source, lambda *path: lines.get(str(path[0]), 0) if path else 0)
    return job if job.command else replace(job, command=(source,))


def has_directives(text: str) -> bool:
    """Whether a script speaks to us."""
    return any(DIRECTIVE.match(line) for line in text.splitlines()[:1000])


def directives(text: str, source: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Keys and values of the `#tutti:` lines, in TOML (`gpus = 4`) or as options (`--gpus 4`), and their lines."""
    data: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = DIRECTIVE.match(line)
        if not found or not found[1].strip():
            continue
        try:
            for key, value in _directive(found[1].strip()).items():
                if key in data:
                    problems.append(Problem(f"{key!r} stands here a second time", line.strip(), "", source, number))
                data[key], lines[key] = value, number
        except ValueError as wrong:
            problems.append(
                Problem(str(wrong), line.strip(), "write `#tutti: gpus = 4` or `#tutti: --gpus 4`", source, number)
            )
    if problems:
        others = _sorted_out(data, source, lambda *path: lines.get(str(path[0]), 0) if path else 0, ())[0]
        raise BadJob([*problems, *others], source)
    return data, lines


def _directive(said: str) -> dict[str, Any]:
    if said.startswith("-"):
        from .options import from_words  # noqa: PLC0415 - click is needed for this form only

        return from_words(said)
    import tomllib  # noqa: PLC0415 - most jobs are written in something else

    try:
        return tomllib.loads(said)
    except tomllib.TOMLDecodeError:
        key, equals, value = said.partition("=")
        if equals and re.fullmatch(r"[\w.-]+", key.strip()):
            # A bare word, as people write it in a comment: `#tutti: time = 2h`.
            return {key.strip(): value.strip()}
        raise ValueError("it is neither `key = value` nor an option") from None


def _from_yaml(text: str, source: str) -> Job:
    from .yaml_file import load  # noqa: PLC0415 - the parser is not needed for TOML

    documents = load(text, source)
    if len(documents) != 1:
        what = f"it has {len(documents)} documents; a job file has one"
        raise BadJob([Problem(what, file=source)], source)
    return from_data(documents[0].value, source, documents[0].line)


def _toml(text: str, source: str) -> dict[str, Any]:
    # The parser takes the square of a key's parts.
    if found := DEEP_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise BadJob(
            [Problem("not TOML that anybody would write: a key of so many parts", file=source, line=line)], source
        )
    import tomllib  # noqa: PLC0415 - most jobs are written in something else

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as broken:
        found = re.search(r"\(at line (\d+)", str(broken))
        what = re.sub(r" \(at line .*\)", "", str(broken)).replace("(at end of document)", "where the file ends")
        line = int(found[1]) if found else len(text.rstrip().splitlines())
        said = text.splitlines()[line - 1].strip()[:200] if 0 < line <= len(text.splitlines()) else ""
        raise BadJob([Problem(f"not TOML: {what}", said, file=source, line=line)], source) from None


def from_data(data: object, source: str, line: Lines = lambda *_: 0) -> Job:
    """A job from keys and values. Raises BadJob with every key and value that is wrong."""
    if not isinstance(data, dict):
        raise BadJob([Problem("a job file is a table of keys and values", file=source)], source)
    data = {**data, "env": _texts(data.get("env", {}))}
    problems, good = _sorted_out(data, source, line, ())
    job = msgspec.convert(good, Job, strict=False)
    problems += [replace(one, file=source, line=line(*one.text.split(".")), text="") for one in problems_of(job)]
    if problems:
        raise BadJob(problems, source)
    return job


def _texts(env: object) -> object:
    """Numbers in an environment are meant as text."""
    if not isinstance(env, dict):
        return env
    return {k: str(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for k, v in env.items()}


def _sorted_out(
    data: Mapping[str, Any], source: str, line: Lines, path: tuple[str, ...]
) -> tuple[list[Problem], dict[str, Any]]:
    """What is wrong with keys and their types, and the keys with which nothing is."""
    kind = Part if path else Job
    problems: list[Problem] = []
    good: dict[str, Any] = {}
    for key, value in data.items():
        here = (*path, str(key))
        if key not in kind.__struct_fields__:
            hint = nearest(str(key), kind.__struct_fields__)
            problems.append(Problem(f"unknown key {'.'.join(here)!r}", "", hint, source, line(*here)))
        elif key == "roles" and isinstance(value, dict) and all(isinstance(part, dict) for part in value.values()):
            parts = {name: _sorted_out(part, source, line, (*here, str(name))) for name, part in value.items()}
            problems += [problem for found, _ in parts.values() for problem in found]
            good[key] = {name: part for name, (_, part) in parts.items()}
        elif found := _ill_typed(kind, str(key), value, here, source, line(*here)):
            problems.append(found)
        else:
            good[key] = value
    return problems, good


def _ill_typed(
    kind: type[Part], key: str, value: object, here: tuple[str, ...], source: str, line: int
) -> Problem | None:
    try:
        msgspec.convert({key: value}, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as wrong:
        what = re.sub(r" - at `.*`$", "", str(wrong))
        if found := EXPECTED.fullmatch(what):
            wanted = [IN_WORDS.get(one, one) for one in found[1].split(" | ") if one != "null"]
            what = f"expected {' or '.join(dict.fromkeys(wanted))}, got {IN_WORDS.get(found[2], found[2])}"
        hint = nearest(str(value), choices, f"write {' or '.join(choices)}") if (choices := _choices(kind, key)) else ""
        if key == "roles" and isinstance(value, list):
            hint = f"write [roles.{_name_of(value)}], a table for each role under its name"
        return Problem(f"{'.'.join(here)}: {what}", f"{key} = {value!r}"[:200], hint, source, line)
    return None


def _name_of(roles: list[object]) -> str:
    """What the first entry of a list of roles would be called."""
    first = roles[0] if roles else None
    return str(first.get("name") or first.get("role") or "NAME") if isinstance(first, dict) else "NAME"


def _choices(kind: type[Part], key: str) -> list[str]:
    """The words a field may be, where it is one of a few."""
    from msgspec import inspect  # noqa: PLC0415 - only where something is wrong

    fields: Any = inspect.type_info(kind)
    found = next(field.type for field in fields.fields if field.name == key)
    inner = found.types if isinstance(found, inspect.UnionType) else [found]
    for one in inner:
        if isinstance(one, inspect.EnumType):
            return [str(member.value) for member in one.cls]
        if isinstance(one, inspect.LiteralType):
            return [str(value) for value in one.values]
    return []


def toml_lines(text: str) -> Lines:
    """Where each key of a TOML text stands, by looking for it: exact for files written the usual way."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if heading := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            table = _dotted(heading[1])
            lines.setdefault(table, number)
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            lines.setdefault((*table, *_dotted(key[1])), number)

    def line_of(*path: str | int) -> int:
        here = tuple(map(str, path))
        if below := [number for other, number in lines.items() if here and other[: len(here)] == here]:
            return min(below)
        while here and here not in lines:
            here = here[:-1]
        return lines.get(here, 0)

    return line_of


def _dotted(key: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in key.split("."))
