"""Anything a person has: a launch line, a job file, a batch script, a manifest. What gang does it make?"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from . import line
from .draft import COMMAND_LINE, Draft
from .file import has_directives, read_job, toml_lines
from .files import Files, Named, beside, is_file, is_folder, read_text
from .finish import finish
from .lazy import pattern
from .problems import BadJob, Misread, Problem
from .shell import Word, commands
from .understood import Understood

UNKNOWN = pattern(r"\$\w|\$\{|\$\(|`")
KUBERNETES = pattern(r"^\s*(?:- |\{\s*)?[\"']?apiVersion[\"']?\s*:", re.MULTILINE)


def understand(
    words: Sequence[str],
    options: Mapping[str, Any] | None = None,
    folder: Named | None = None,
    env: Mapping[str, str] | None = None,
) -> Understood:
    """What a command line (or the one file it names) means. `options` are fields said explicitly; they go first."""
    if not words:
        raise BadJob([Problem("there is nothing to read", hint="give a launch line or a file")], COMMAND_LINE)
    files = Files(folder)
    if len(words) == 1:
        path = beside(files.folder, words[0])
        if is_file(path) and (not os.access(path, os.X_OK) or files.text(words[0]) is not None):
            # What is no text and can be run is a program, and the line is its name.
            return understand_text(read_text(path), words[0], options, files, env)
        if re.search(r"\s", words[0].strip()):
            return understand_line(words[0], options, files, env)
        if is_folder(path):
            raise BadJob([Problem(f"{words[0]!r} is a folder", hint="give a file or a launch line")], COMMAND_LINE)
        if words[0].endswith((".toml", ".yaml", ".yml", ".sbatch", ".slurm", ".pbs", ".lsf", ".bsub")):
            raise BadJob([Problem(f"there is no file {words[0]!r}")], words[0])
    draft = _draft(files, options, env)
    draft.say("command", tuple(words), "the command line")
    if words[0].endswith((".sh", ".bash")) and files.text(words[0]) is None:
        draft.warn(f"{words[0]} is not here, so what it runs is not known")
    return _read(tuple(_word(text) for text in words), draft)


def understand_line(
    text: str, options: Mapping[str, Any] | None, files: Files, env: Mapping[str, str] | None
) -> Understood:
    """A line of shell text."""
    draft = _draft(files, options, env)
    try:
        found = commands(text, draft.env, closed=True)
    except Misread as wrong:
        raise BadJob([wrong.at(text[:200])], COMMAND_LINE) from None
    if not found or not any(word.text for one in found for word in one.words):
        raise BadJob([Problem("there is no command in it", text[:200])], COMMAND_LINE)
    draft.say("command", text, "the command line")
    if len(found) == 1:
        draft.env.update({name: value.text for name, value in found[0].sets if not value.unknown})
        return _read(found[0].words, draft)
    line.read_script(found, draft)
    draft.what = draft.what or "a line of shell text"
    return finish(draft)


def understand_text(
    text: str,
    source: str,
    options: Mapping[str, Any] | None = None,
    files: Files | None = None,
    env: Mapping[str, str] | None = None,
) -> Understood:
    """The text of a file: what it is shows in its name and its first lines."""
    files = files or Files()
    if source.endswith(".json") or (source.endswith((".yaml", ".yml")) and KUBERNETES.search(text)):
        from .manifest import understand_manifest  # noqa: PLC0415 - needs the Kubernetes part

        return understand_manifest(text, source, options)
    if source.endswith((".toml", ".yaml", ".yml")):
        return _job_file(text, source, options, files, env)
    from . import script  # noqa: PLC0415 - the batch systems are not needed for a line
    from .batch.header import managers  # noqa: PLC0415

    draft = _draft(files, options, env)
    if managers(text) or has_directives(text) or not source.endswith(".py"):
        draft.what = "a shell script"
        try:
            script.read(text, source, draft)
        except Misread as wrong:
            raise BadJob([wrong.at("", source)], source) from None
        return finish(draft)
    draft.say("command", ("python", source), source)
    files.read[source] = text
    return _read((Word("python"), Word(source)), draft)


def _draft(files: Files, options: Mapping[str, Any] | None, env: Mapping[str, str] | None) -> Draft:
    draft = Draft(files, COMMAND_LINE, env)
    for field, value in (options or {}).items():
        draft.say(field, value, f"--{field.replace('_', '-')} on the command line")
    return draft


def _read(words: Sequence[Word], draft: Draft) -> Understood:
    try:
        line.read(words, draft)
    except Misread as wrong:
        draft.problem(wrong.what, " ".join(word.text for word in words)[:200], wrong.hint)
    return finish(draft)


def _word(text: str) -> Word:
    """A word that came through somebody's shell; a dollar sign that is left was meant for another one."""
    return Word(text, (text,)) if UNKNOWN.search(text) else Word(text)


def _job_file(
    text: str, source: str, options: Mapping[str, Any] | None, files: Files, env: Mapping[str, str] | None
) -> Understood:
    """A job file of our own; its command is read too, and fills in what the file leaves out."""
    job = read_job(text, source)
    draft = _draft(files, options, env)
    draft.what, draft.file = "a job file", source
    place = toml_lines(text) if source.endswith(".toml") else _yaml_lines(text, source)
    for field, value in _said(job).items():
        if field != "command":
            number = place(field)
            draft.say(field, value, f"{source}:{number}" if number else source)
    if job.command:
        draft.say("command", job.command, f"{source}:{place('command')}")
        words = _command_words(job.command, draft)
        draft.file, draft.origin = "", source
        return _read(words, draft)
    return finish(draft)


def _command_words(command: tuple[str, ...] | str, draft: Draft) -> tuple[Word, ...]:
    if not isinstance(command, str):
        return tuple(_word(text) for text in command)
    try:
        found = commands(command, draft.env)
    except Misread:
        return ()
    starts = [one.words for one in found if line.is_launcher(one.words)] or [one.words for one in found]
    return starts[0] if starts else ()


def _said(job: Any) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    found: dict[str, Any] = msgspec.to_builtins(job)
    return found


def _yaml_lines(text: str, source: str) -> Any:
    from .yaml_file import load  # noqa: PLC0415

    return load(text, source)[0].line
