"""PBS Professional, OpenPBS and Torque: `#PBS` lines."""

import re
from collections.abc import Sequence
from typing import Any

from tutti.engine.model import SECOND
from tutti.jobs.amounts import binary_memory, legal_name
from tutti.jobs.arrays import array
from tutti.jobs.draft import Draft
from tutti.jobs.durations import duration
from tutti.jobs.flags import Flag, spec
from tutti.jobs.output_files import OutputFiles
from tutti.jobs.problems import Misread
from tutti.jobs.shell import Word

from . import moments

TABLE = spec(
    "qsub",
    "N q l J t W p r A o e j m M v a S c k u C P d D w",
    "V h I X z f",
    N="N", q="q", l="l", J="J", t="t", W="W", p="p", r="r", A="A", o="o", e="e", j="j", m="m", M="M", v="v", a="a",
    S="S", c="c", k="k", u="u", C="C", P="P", d="d", D="D", w="w", V="V", h="h", I="I", X="X", z="z", f="f",
)  # fmt: skip
DEPENDENCY = {"afterok": "ok", "afterany": "any", "afternotok": "failed"}
HEEDED = "N q l J t W p r h v d o e j a"
NOT_HERE = {
    "A": "nobody is charged by account here; queues are",
    "P": "nobody is charged by project here; queues are",
    "k": "logs are kept; see `tutti logs`",
    "m": "no e-mail; a hook can send it",
    "M": "no e-mail; a hook can send it",
    "S": "the first line of the script says what runs it",
    "c": "snapshots are the job's own",
    "u": "jobs run as who submits them",
    "V": "the environment of the submission is kept whole",
    "I": "use `tutti shell`",
}


def read(words: Sequence[Word], draft: Draft) -> None:
    """The options of the directives, all of them together."""
    found = draft.options(tuple(words), TABLE._replace(strict=True), stop_at_word=False)
    draft.strays(found)
    resources: dict[str, tuple[str, Flag]] = {}
    for name, flag in found.every:
        if name == "l":
            resources.update(_resources(flag))
    _members(resources, draft)
    _rest(resources, draft)
    _simple(found.flags, draft)
    _output(found.flags, draft)
    draft.without_effect(found, NOT_HERE, HEEDED)


def _output(flags: dict[str, Flag], draft: Draft) -> None:
    """Files for what it prints; `-j` sends errors along, or the other way round."""
    out, err = (flags[name].text if name in flags else "" for name in ("o", "e"))
    join = flags["j"].text if "j" in flags else ""
    if join == "eo":
        out = err or out
    if out or err:
        draft.output = OutputFiles("pbs", out, "" if join in {"oe", "eo"} else err)
        draft.sources["output"] = draft.place("-o" if "o" in flags else "-e")
    elif join:
        draft.ignore(f"-j {join}", "logs hold both; see `tutti logs`")


def _resources(flag: Flag) -> dict[str, tuple[str, Flag]]:
    """`-l select=2:ncpus=8,walltime=1:00:00` as names and values."""
    found: dict[str, tuple[str, Flag]] = {}
    for part in flag.text.split(","):
        name, _, value = part.partition("=")
        found[name.strip()] = (value.strip(), flag)
    return found


def _members(resources: dict[str, tuple[str, Flag]], draft: Draft) -> None:
    for name in ("select", "nodes"):
        if name in resources:
            text, flag = resources[name]
            source = draft.place(f"{flag.spelling} {name}")
            chunks = [_chunk(part, flag, draft) for part in text.split("+")]
            if len(chunks) == 1:
                for field, value in chunks[0].items():
                    draft.say(field, value, source)
            else:
                draft.say("roles", {f"chunk{i}": chunk for i, chunk in enumerate(chunks)}, source)
            draft.ranks = draft.ranks or 1
            return
    number = draft.number(Flag("-l ncpus", Word(resources["ncpus"][0]))) if "ncpus" in resources else None
    if number:
        draft.say("cpus", number, draft.place("-l ncpus"))
    gpus = draft.number(Flag("-l ngpus", Word(resources["ngpus"][0])), 0) if "ngpus" in resources else 0
    draft.say("gpus", gpus or 0, draft.place("-l ngpus") if gpus else "default: no device is asked for")


def _chunk(text: str, flag: Flag, draft: Draft) -> dict[str, Any]:
    """`2:ncpus=8:ngpus=4:mem=64gb`, or `2:ppn=8:gpus=4` as Torque writes it."""
    first, *parts = text.split(":")
    chunk: dict[str, Any] = {"workers": 1, "gpus": 0}
    if first.isdigit():
        chunk["workers"] = draft.number(Flag(flag.spelling, Word(first))) or 1
    else:
        parts = [first, *parts]
    for part in parts:
        name, equals, value = part.partition("=")
        _attribute(name, value if equals else "", chunk, flag, draft)
    return chunk


def _attribute(name: str, value: str, chunk: dict[str, Any], flag: Flag, draft: Draft) -> None:
    def number() -> int:
        return draft.number(Flag(f"{flag.spelling} {name}", Word(value)), 0) or 0

    match name:
        case "ncpus" | "ppn":
            chunk["cpus"] = number() or 1
        case "ngpus" | "gpus":
            chunk["gpus"] = number()
        case "mpiprocs":
            draft.ranks = number()
        case "mem":
            try:
                chunk["mem"] = binary_memory(value, "B") if not value.isdigit() else int(value)
            except Misread as wrong:
                draft.problem(f"{flag.spelling} mem: {wrong.what}", flag.text, wrong.hint)
        case "ompthreads":
            pass
        case "gpu_type" | "accelerator_model":
            chunk["kind"] = [value]
        case _:
            draft.ignore(f"{name}{'=' if value else ''}{value}", "not a resource that is counted here")


def _rest(resources: dict[str, tuple[str, Flag]], draft: Draft) -> None:
    if "walltime" in resources:
        text, flag = resources["walltime"]
        draft.parsed(
            "time",
            Flag(f"{flag.spelling} walltime", Word(text, flag.value.unknown)),
            lambda t: duration(t) // SECOND,
        )
    if "mem" in resources and not draft.has("mem"):
        text, flag = resources["mem"]
        # It is the memory of the whole job.
        nodes = draft.said.get("workers", 1)
        whole = Flag(f"{flag.spelling} mem", Word(text, flag.value.unknown))
        draft.parsed("mem", whole, lambda t: -(-binary_memory(t, "B") // nodes))
    for name, (value, _) in resources.items():
        if name not in {"walltime", "mem", "select", "nodes", "ncpus", "ngpus"}:
            why = "placement is our own" if name == "place" else "not a resource that is counted here"
            draft.ignore(f"-l {name}{'=' if value else ''}{value}", why)


def _simple(flags: dict[str, Flag], draft: Draft) -> None:
    for option, field in (("N", "name"), ("q", "queue"), ("d", "cwd")):
        if (flag := flags.get(option)) and not flag.value.unknown:
            text = flag.text.partition("@")[0] if field == "queue" else flag.text
            draft.say(field, legal_name(text) if field == "name" else text, draft.place(flag.spelling))
    flag = flags.get("J") or flags.get("t")
    draft.parsed("array", flag, lambda text: str(array(text, bare_is_count=False)))
    draft.parsed("priority", flags.get("p"), _priority)
    draft.parsed("begin", flags.get("a"), moments.pbs)
    if flag := flags.get("h"):
        draft.say("held", True, draft.place(flag.spelling))
    if (flag := flags.get("r")) and flag.text == "n":
        draft.say("on_loss", "fail", draft.place(flag.spelling))
    if flag := flags.get("v"):
        env = dict(part.partition("=")[::2] for part in flag.text.split(",") if "=" in part)
        draft.say("env", env, draft.place(flag.spelling))
    if flag := flags.get("W"):
        _attributes(flag, draft)


def _attributes(flag: Flag, draft: Draft) -> None:
    """`-W depend=afterok:123`."""
    name, _, value = flag.text.partition("=")
    if name != "depend":
        draft.ignore(f"{flag.spelling} {flag.text}", "not known here")
        return
    if flag.value.unknown:
        draft.ask(f"{flag.spelling} {flag.text}: known only when it runs; say it with --after")
        return
    after = []
    for part in filter(None, value.split(",")):
        kind, *jobs = part.split(":")
        if kind in DEPENDENCY and jobs and all(jobs):
            after += [f"{DEPENDENCY[kind]}:{job.partition('.')[0]}" for job in jobs]
        else:
            draft.ignore(f"{flag.spelling} {part}", "only afterok, afterany and afternotok are known here")
    if after:
        draft.say("after", after, draft.place(flag.spelling))


def _priority(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,5}", text):
        raise Misread(f"{text!r} is no priority", "write -1024 to 1023")
    return int(text)
