"""Flux: `# flux:` lines."""

from collections.abc import Sequence

from tutti.jobs.amounts import legal_name
from tutti.jobs.draft import Draft
from tutti.jobs.durations import duration
from tutti.jobs.flags import Flag, spec
from tutti.jobs.shell import Word

from . import moments

TABLE = spec(
    "flux batch",
    "nodes nslots ntasks cores-per-slot cores-per-task cores gpus-per-slot gpus-per-task gpus-per-node tasks-per-node "
    "tasks-per-core time-limit queue job-name name bank urgency dependency setattr attribute setopt cwd env env-remove "
    "env-file output error input signal begin-time requires conf add-file rlimit broker-opts taskmap bg-x "
    "input-file flags",
    "exclusive wait unbuffered label-io verbose quiet dump dry-run wrap bg watch",
    N="nodes",
    n="nslots",
    c="cores-per-slot",
    g="gpus-per-slot",
    t="time-limit",
    q="queue",
    B="bank",
    x="exclusive",
    o="setopt",
    S="setattr",
    u="unbuffered",
    l="label-io",
)
HEEDED = (
    "nodes nslots ntasks cores-per-slot cores-per-task gpus-per-slot gpus-per-task gpus-per-node time-limit "
    "queue job-name name urgency dependency signal cwd begin-time"
)
NOT_HERE = {
    "bank": "nobody is charged by bank here; queues are",
    "output": "logs are kept; see `tutti logs`",
    "error": "logs are kept; see `tutti logs`",
    "requires": "nodes are not chosen by name",
    "setattr": "not known here",
    "setopt": "not known here",
    "exclusive": "devices and cores are never shared; whole nodes are not set aside",
}
DEPENDENCY = {"afterok": "ok", "afterany": "any", "afternotok": "failed"}


def read(words: Sequence[Word], draft: Draft) -> None:
    """The options of the directives, all of them together."""
    found = draft.options(tuple(words), TABLE._replace(strict=True), stop_at_word=False)
    draft.strays(found)
    flags = found.flags
    _members(flags, draft)
    for option, field in (("queue", "queue"), ("job-name", "name"), ("name", "name"), ("cwd", "cwd")):
        if (flag := flags.get(option)) and not flag.value.unknown:
            draft.say(field, legal_name(flag.text) if field == "name" else flag.text, draft.place(flag.spelling))
    draft.parsed("time", flags.get("time-limit"), _time)
    draft.parsed("begin", flags.get("begin-time"), moments.flux)
    draft.parsed("signal", flags.get("signal"), _signal)
    if (flag := flags.get("urgency")) and (number := draft.number(flag, 0)) is not None:
        draft.say("priority", number - 16, draft.place(flag.spelling))
    after = []
    for name, flag in found.every:
        kind, _, job = flag.text.partition(":")
        if name == "dependency" and kind in DEPENDENCY and job and not flag.value.unknown:
            after.append(f"{DEPENDENCY[kind]}:{job}")
        elif name == "dependency":
            draft.ignore(f"{flag.spelling} {flag.text}", "only afterok, afterany and afternotok are known here")
    if after:
        draft.say("after", after, draft.place("--dependency"))
    draft.without_effect(found, NOT_HERE, HEEDED)


def _members(flags: dict[str, Flag], draft: Draft) -> None:
    """A slot is the smallest thing Flux hands out; a node with its slots is a member."""
    nodes = draft.number(flags.get("nodes"))
    slots = draft.number(flags.get("nslots") or flags.get("ntasks")) or nodes or 1
    cores = draft.number(flags.get("cores-per-slot") or flags.get("cores-per-task")) or 1
    gpus = draft.number(flags.get("gpus-per-slot") or flags.get("gpus-per-task"), 0) or 0
    per_node = draft.number(flags.get("gpus-per-node"), 0)
    members = nodes or slots
    share = -(-slots // members)
    draft.ranks = share
    said = flags.get("nodes") or flags.get("nslots") or flags.get("ntasks")
    draft.say("workers", members, draft.place(said.spelling) if said else "default")
    draft.say("cpus", cores * share, f"{cores} cores x {share} slots" if share > 1 else f"{cores} per slot")
    asked = flags.get("gpus-per-node") or flags.get("gpus-per-slot") or flags.get("gpus-per-task")
    devices = per_node if per_node is not None else gpus * share
    draft.say("gpus", devices, draft.place(asked.spelling) if asked else "default: no device is asked for")


def _time(text: str) -> int:
    """A Flux duration; a bare number is minutes."""
    return duration(f"{text}m" if text.replace(".", "").isdigit() else text) // 1_000_000


def _signal(text: str) -> str:
    name, _, before = text.partition("@")
    return f"{(name or 'USR1').upper().removeprefix('SIG')}@{before or '60s'}"
