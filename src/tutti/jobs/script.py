"""A script: `#tutti:` lines, the directives of a batch system, and the line in it that starts the job."""

import re
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from . import line
from .amounts import workers
from .batch.header import Directive, Header, header, managers
from .draft import Draft
from .file import directives, from_data
from .flags import Spec
from .problems import BadJob, Misread
from .shell import Word, commands

PART_FIELDS = ("workers", "gpus", "cpus", "mem", "kind")
MARKS = {"slurm": "#SBATCH", "pbs": "#PBS", "lsf": "#BSUB", "flux": "# flux:"}
SAYS = {
    "slurm": "a Slurm batch script",
    "pbs": "a PBS batch script",
    "lsf": "an LSF batch script",
    "flux": "a Flux batch script",
}
PARTS = {"hetjob", "packjob"}
"""A line of its own between the parts of a heterogeneous job of Slurm."""


def read(text: str, source: str, draft: Draft, extra: Sequence[Word] = ()) -> None:
    """What a script asks for, and what it runs. Options in `extra` come after its directives, and so win over them."""
    draft.file = draft.origin = source
    _ours(text, source, draft)
    found = managers(text)
    if len(found) > 1:
        draft.ask(f"{source} has directives for {' and '.join(found)}; the first is taken, say if that is wrong")
    if extra and found[:1] != ["slurm"]:
        found = ["slurm"]
    if found:
        _header(text, found[0], draft, extra)
    draft.line = 0
    draft.say("command", _command(text, source), f"{source}")
    stem = re.sub(r"[^\w.@+-]+", "-", line.base(source).rpartition(".")[0] or line.base(source)).strip("-.")
    draft.say("name", stem if stem[:1].isalnum() else "job", "default: the name of the script")
    _body(text, draft)


def _ours(text: str, source: str, draft: Draft) -> None:
    said, lines = directives(text, source)
    if said:
        draft.what = "a script with #tutti: lines"
        from_data(said, source, lambda *path: lines.get(str(path[0]), 0) if path else 0)
    for field, value in said.items():
        draft.say(field, value, f"{source}:{lines[field]}")


def _header(text: str, manager: str, draft: Draft, extra: Sequence[Word] = ()) -> None:
    draft.manager = manager
    draft.what = SAYS[manager]
    found: Header = header(text, manager)
    for late in found.late:
        draft.ignore(
            f"{late.text} (line {late.line})", "it comes after the first command, so Slurm does not read it either"
        )
    # A script speaks to one of them; the others are not imported.
    reader: Any = import_module(f"tutti.jobs.batch.{manager}")
    table = reader.TABLE._replace(program=MARKS[manager], strict=True)
    first, *others = _parts(_by_line(found.directives, table, draft))
    draft.line = found.directives[0].line if found.directives else 0
    words = tuple(word for directive in first for word in directive.words) + tuple(extra)
    with _Places(draft, first, extra):
        reader.read(words, draft)
    if others:
        _heterogeneous(others, draft)
    if draft.has("array"):
        _whole_tasks(draft)


def _by_line(found: tuple[Directive, ...], table: Spec, draft: Draft) -> list[Directive]:
    """Those that can be read: a slip in one directive must not hide those in others."""
    good: list[Directive] = []
    for directive in found:
        draft.line = directive.line
        try:
            draft.options(directive.words, table, stop_at_word=False)
        except BadJob:
            continue
        good.append(directive)
    return good


def _parts(found: list[Directive]) -> list[tuple[Directive, ...]]:
    """The directives of each part of a heterogeneous job; most jobs have one."""
    parts: list[list[Directive]] = [[]]
    for directive in found:
        if [word.text for word in directive.words] in [[word] for word in PARTS]:
            parts.append([])
        else:
            parts[-1].append(directive)
    return [tuple(part) for part in parts]


def _heterogeneous(others: list[tuple[Directive, ...]], draft: Draft) -> None:
    """Each part of a heterogeneous job is a role; what is not about nodes stands in the first."""
    from .batch import slurm  # noqa: PLC0415 - the only one that has such jobs

    roles = {"het0": {field: draft.said.pop(field) for field in PART_FIELDS if field in draft.said}}
    draft.say("roles", roles, f"hetjob in {draft.file}")
    for number, part in enumerate(others, 1):
        other = Draft(draft.files, draft.origin, draft.env)
        other.file, other.line = draft.file, part[0].line if part else draft.line
        with _Places(other, part, ()):
            slurm.read(tuple(word for directive in part for word in directive.words), other)
        roles[f"het{number}"] = {field: other.said[field] for field in PART_FIELDS if field in other.said}
        draft.problems += other.problems
        for entry in other.ignored:
            draft.ignore(entry.text, entry.why)
    draft.nodes = sum(workers(role["workers"])[0] for role in roles.values())


def _whole_tasks(draft: Draft) -> None:
    """A task of an array is one member, with what all its nodes ask for."""
    roles = draft.said.pop("roles", None)
    parts = list(roles.values()) if roles else [draft.said]
    counts = [workers(part.get("workers", 1))[0] for part in parts]
    if sum(counts) < 2:
        return
    for field in ("gpus", "cpus", "mem"):
        asked = [count * part[field] for count, part in zip(counts, parts, strict=True) if field in part]
        draft.said |= {field: sum(asked)} if asked else {}
    draft.said["workers"], draft.nodes = 1, sum(counts)
    draft.warn(f"each task of the array has {draft.nodes} nodes; it is one member with what all of them ask for")


class _Places:
    """While directives are read together, each option is said to stand on its own line."""

    def __init__(self, draft: Draft, found: tuple[Directive, ...], extra: Sequence[Word]) -> None:
        self.draft = draft
        self.extra = {word.text.partition("=")[0] for word in extra}
        said = ((word.text.partition("=")[0], d.line) for d in reversed(found) for word in d.words)
        self.lines = {option: number for option, number in said if option not in self.extra}
        # `-l` stands in a script once for each resource.
        for d in reversed(found):
            for before, word in pairwise(d.words):
                self.lines |= {
                    f"{before.text} {part.partition('=')[0].strip()}": d.line for part in word.text.split(",")
                }
        self.original = draft.place

    def __enter__(self) -> None:
        self.draft.place = self._place  # type: ignore[method-assign]  # for as long as the header is read
        self.before = len(self.draft.problems)

    def __exit__(self, *_: object) -> None:
        self.draft.place = self.original  # type: ignore[method-assign]
        late = self.draft.problems[self.before :]
        self.draft.problems[self.before :] = [replace(p, line=self._line(p.what) or p.line) for p in late]

    def _place(self, what: str) -> str:
        line = self._line(what)
        return f"{what} at {self.draft.file}:{line}" if line else f"{what} {self._elsewhere(what)}"

    def _elsewhere(self, what: str) -> str:
        return "on the command line" if what.split(" ", 1)[0] in self.extra else f"in {self.draft.file}"

    def _line(self, what: str) -> int:
        """The line of the option that a text begins with."""
        if exact := self.lines.get(" ".join(what.split()[:2]).rstrip(":")):
            return exact
        first = what.split(" ", 1)[0].rstrip(":")
        glued = (n for text, n in self.lines.items() if len(first) == 2 and text.startswith(first) and text[1:2] != "-")
        return self.lines.get(first) or next(glued, 0)


def _command(text: str, source: str) -> tuple[str, ...]:
    """How the script is run: by what its first line names."""
    first = text.split("\n", 1)[0]
    interpreter = first[2:].split() if first.startswith("#!") else ["/bin/bash"]
    return (*interpreter, source)


def _body(text: str, draft: Draft) -> None:
    first = text.split("\n", 1)[0]
    if "python" in first and first.startswith("#!"):
        from .readers import python  # noqa: PLC0415 - a script for Python itself
        from .scan import scan  # noqa: PLC0415

        draft.framework("python", f"the first line of {draft.file}")
        python.read_script(scan(text, draft.file), draft.file, draft)
        return
    try:
        line.read_script(commands(text, known(draft)), draft)
    except Misread as wrong:
        draft.problem(wrong.what, "", wrong.hint)


def known(draft: Draft) -> dict[str, str]:
    """Variables that the batch system will set, as far as the header tells their values."""
    found = dict(draft.env)
    said = draft.said
    nodes, gpus, cpus, ranks = said.get("workers"), said.get("gpus"), said.get("cpus"), draft.ranks
    if draft.manager == "slurm" and isinstance(nodes, int):
        by_tasks = ranks == 1
        values = {
            "SLURM_NNODES": nodes,
            "SLURM_JOB_NUM_NODES": nodes,
            "SLURM_NTASKS": nodes * ranks,
            "SLURM_NPROCS": nodes * ranks,
            "SLURM_NTASKS_PER_NODE": ranks,
            "SLURM_GPUS_ON_NODE": gpus,
            "SLURM_GPUS_PER_NODE": gpus,
            "SLURM_CPUS_PER_TASK": cpus if by_tasks else (cpus // ranks if isinstance(cpus, int) and ranks else None),
        }
        found |= {name: str(value) for name, value in values.items() if isinstance(value, int)}
    return found
