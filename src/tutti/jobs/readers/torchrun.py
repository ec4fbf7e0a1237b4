"""torchrun and its relatives: one launcher per node, so many ranks each."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, Given, spec
from tutti.jobs.shell import Word

TABLE = spec(
    "torchrun",
    "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval "
    "start-method role "
    "log-dir redirects tee local-ranks-filter node-rank master-addr master-port local-addr logs-specs numa-binding "
    "signals-to-handle shutdown-timeout event-log-handler duplicate-stdout-filters duplicate-stderr-filters node-unit",
    "standalone module no-python run-path use-env virtual-local-rank network-check exclude-straggler auto-config "
    "auto-tunning comm-perf-test accelerator",
    m="module",
    r="redirects",
    t="tee",
)
WHOLE_NODE = {"auto", "gpu", "cpu", "xpu"}


def read(words: Sequence[Word], draft: Draft, launcher: str = "torchrun") -> tuple[Word, ...]:
    """Nodes and ranks per node; what is left is the program."""
    found = draft.options(tuple(words), TABLE)
    draft.launcher = "torchrun"
    draft.framework("torch", draft.place(launcher))
    _nodes(found, draft)
    _ranks(found.flags.get("nproc-per-node") or _pet(draft, "nproc-per-node"), draft)
    _addresses(found, draft)
    if "module" in found.flags:
        return (Word("-m"), *found.rest)
    return found.rest


def _pet(draft: Draft, option: str) -> Flag | None:
    """torchrun also reads its options from the environment."""
    name = f"PET_{option.upper().replace('-', '_')}"
    return Flag(name, Word(draft.env[name])) if name in draft.env else None


def _nodes(found: Given, draft: Draft) -> None:
    flag = found.flags.get("nnodes") or _pet(draft, "nnodes")
    standalone = found.flags.get("standalone")
    if flag is None:
        draft.say("workers", 1, draft.place("--standalone") if standalone else "default of torchrun: one node")
        return
    low, colon, high = flag.text.partition(":")
    least = draft.number(Flag(flag.spelling, Word(low, flag.value.unknown)), field="workers")
    most = draft.number(Flag(flag.spelling, Word(high, flag.value.unknown)), field="workers") if colon else least
    if least is None or most is None:
        return
    if most < least:
        draft.problem(f"{flag.spelling} {flag.text}: at most is less than at least", hint=f"write {high}:{low}")
        return
    if standalone and most > 1:
        draft.problem(f"--standalone is one node, {flag.spelling} says {flag.text}", hint="drop one of the two")
        return
    source = draft.place(flag.spelling)
    draft.say("workers", f"{least}:{most}" if most > least else least, source)
    if most > least:
        draft.say("resize", "restart", source)


def _ranks(flag: Flag | None, draft: Draft) -> None:
    if flag is None:
        draft.ranks = 1
        draft.say("gpus", 1, "default of torchrun: one rank per node")
        return
    if flag.text in WHOLE_NODE:
        if flag.text == "cpu":
            draft.say("gpus", 0, draft.place(f"{flag.spelling} cpu"))
            if not draft.has("cpus"):
                draft.ask(f"{flag.spelling} cpu: a rank on every core of the node; say how many with --cpus")
        elif not draft.has("gpus"):
            draft.ask(f"{flag.spelling} {flag.text}: a rank on every device of the node; say how many with --gpus")
        draft.ranks = draft.said.get("gpus", 0)
        return
    number = draft.say_number("gpus", flag)
    if number:
        draft.ranks = number


def _addresses(found: Given, draft: Draft) -> None:
    fixed = [found.flags[name] for name in ("node-rank", "master-addr") if name in found.flags]
    many = draft.said.get("workers", 1) not in {1, "1"}
    for flag in fixed:
        if many and not flag.value.unknown and flag.spelling.lstrip("-").replace("_", "-") == "node-rank":
            draft.warn(f"{flag.spelling} {flag.text} is the same on every node; leave it out, and each gets its own")
    if "rdzv-endpoint" in found.flags and many and not found.flags["rdzv-endpoint"].value.unknown:
        flag = found.flags["rdzv-endpoint"]
        draft.warn(f"{flag.spelling} {flag.text} is fixed; leave it out, and it is where rank 0 really is")
    if restarts := found.flags.get("max-restarts"):
        draft.ignore(f"{restarts.spelling} {restarts.text}", "restarts inside a node are torchrun's own")
