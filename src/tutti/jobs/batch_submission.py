"""From the words of `sbatch` to what is submitted: options, script and arguments together."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tutti.engine.model import Data
from tutti.errors import Misused

from . import script
from .batch import slurm
from .bring import ready, remarks, summary
from .draft import Draft
from .files import Files, read_text
from .finish import finish
from .flags import given
from .problems import Misread
from .shell import Word
from .surroundings import known_variables


class Batch(Data, frozen=True):
    """The job as fields, what to tell the person, and the options that are about the submission itself."""

    job: dict[str, Any]
    lines: tuple[str, ...]
    flags: tuple[str, ...]


def read_sbatch(words: Sequence[str]) -> Batch:
    """What `sbatch [options] script [arguments]` asks for. Raises an error that names what is wrong."""
    table = slurm.TABLE._replace(program="sbatch", strict=True)
    try:
        found = given([Word(word) for word in words], table)
    except Misread as wrong:
        raise Misused(wrong.what, hint=wrong.hint or None) from None
    extra = tuple(Word(word) for word in words[: len(words) - len(found.rest)])
    wrap = found.flags.get("wrap")
    if wrap is None and not found.rest:
        raise Misused("sbatch: no script is named", hint="tutti sbatch train.sbatch, or --wrap 'python train.py'")
    arguments: tuple[str, ...] = ()
    if wrap is not None:
        text, name = f"#!/bin/sh\n{wrap.text}\n", "wrap"
    else:
        name = found.rest[0].text
        text, arguments = read_text(Path(name)), tuple(word.text for word in found.rest[1:])
    draft = Draft(Files(), env=known_variables(os.environ))
    script.read(text, name, draft, extra or (Word("--quiet"),))
    understood = finish(draft)
    job = ready(understood)
    command = ("/bin/sh", "-c", wrap.text) if wrap else (*_absolute(job.words, name), *arguments)
    whole = _told(job.words) + command
    whole = understood.output.wrapped(whole) if understood.output is not None else whole
    fields = msgspec.to_builtins(msgspec.structs.replace(job, command=whole))
    kept = {k: v for k, v in fields.items() if v not in (None, "", [], {})} | {"name": job.name or Path(name).stem}
    lines = summary(understood) if "verbose" in found.flags else remarks(understood)
    return Batch(kept, lines, tuple(found.flags))


def _told(words: tuple[str, ...]) -> tuple[str, ...]:
    """The variables that are set for the script, which come first."""
    told = [word for word in words if word == "/usr/bin/env" or word.startswith("SLURM_")]
    return tuple(told) if words[:1] == ("/usr/bin/env",) else ()


def _absolute(words: tuple[str, ...], name: str) -> tuple[str, ...]:
    """How the script is run, by its full name."""
    run = tuple(word for word in words if word != "/usr/bin/env" and not word.startswith("SLURM_"))
    return tuple(str(Path(name).absolute()) if word == name else word for word in run)
