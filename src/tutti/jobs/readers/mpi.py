"""mpirun and mpiexec, of Open MPI, MPICH, Intel and MVAPICH: how many ranks, on which hosts."""

import re
from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, Given, spec
from tutti.jobs.lazy import pattern
from tutti.jobs.shell import Word

TABLE = spec(
    "mpirun",
    "np n c N npernode ppn ppr H host hosts hostfile machinefile f map-by rank-by bind-to x wdir wd path "
    "prefix env genvlist "
    "envlist report-bindings-to output-filename oversubscribe-by cpus-per-rank cpus-per-proc cpu-set rankfile "
    "launcher launcher-exec iface timeout mca-base tune display app rf genvnone-by perhost npersocket stdin",
    "oversubscribe nooversubscribe allow-run-as-root tag-output report-bindings q v display-map display-allocation "
    "nolocal verbose quiet get-stdin-fd merge-stderr-to-stdout forward-signals genvall genvnone l use-hwthread-cpus "
    "bynode byslot bycore bysocket enable-recovery continuous noprefix",
    "mca genv gmca pmca prtemca",
    machinefile="machinefile",
)
COUNT = ("np", "n", "c")
PER_NODE = ("N", "npernode", "ppn", "perhost")
HOSTS = ("H", "host", "hosts")
HOSTFILE = ("hostfile", "machinefile", "f")
PPR = pattern(r"ppr:([0-9]{1,6}):node.*")
PE = pattern(r".*\bPE=([0-9]{1,4})\b.*", re.IGNORECASE)
SLOTS = pattern(r"([\w.-]+)(?::([0-9]{1,6}))?(?:\s+(?:slots|max_slots)\s*=\s*([0-9]{1,6}))?.*")


def read(words: Sequence[Word], draft: Draft, program: str = "mpirun") -> tuple[Word, ...]:
    """Ranks and hosts. On one host the line is one member with so many slots."""
    contexts = _contexts(words)
    found = draft.options(contexts[0], TABLE)
    draft.launcher = "mpi"
    draft.framework("mpi", draft.place(program))
    if draft.manager:
        # The batch system hands its hosts and slots to mpirun.
        return found.rest
    total = sum(filter(None, (_count(draft.options(context, TABLE), draft) for context in contexts))) or None
    hosts = _hosts(found, draft)
    per_node = _per_node(found, draft)
    _members(total, hosts, per_node, draft, program)
    _cores(found, draft)
    return found.rest


def _contexts(words: Sequence[Word]) -> list[tuple[Word, ...]]:
    """Several programs in one line are parted by a colon."""
    parts: list[list[Word]] = [[]]
    for word in words:
        if word.text == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    return [tuple(part) for part in parts if part] or [()]


def _first(found: Given, names: tuple[str, ...]) -> Flag | None:
    return next((found.flags[name] for name in names if name in found.flags), None)


def _count(found: Given, draft: Draft) -> int | None:
    return draft.number(_first(found, COUNT))


def _per_node(found: Given, draft: Draft) -> tuple[int, str] | None:
    flag = _first(found, PER_NODE)
    if flag is not None and (number := draft.number(flag)):
        return number, draft.place(flag.spelling)
    mapped = found.flags.get("map-by")
    if mapped and (ppr := PPR.fullmatch(mapped.text)):
        return int(ppr[1]), draft.place(f"{mapped.spelling} {mapped.text}")
    return None


def _hosts(found: Given, draft: Draft) -> tuple[dict[str, int], str]:
    if flag := _first(found, HOSTS):
        hosts: dict[str, int] = {}
        for part in filter(None, flag.text.split(",")):
            name, _, slots = part.partition(":")
            hosts[name] = hosts.get(name, 0) + (int(slots) if re.fullmatch(r"[0-9]{1,6}", slots) else 1)
        return ({}, "") if flag.value.unknown else (hosts, draft.place(flag.spelling))
    if flag := _first(found, HOSTFILE):
        text = None if flag.value.unknown else draft.files.text(flag.text)
        if text is None:
            draft.warn(f"{flag.text} is not here, so its hosts are not known")
            return {}, ""
        return _hostfile(text), f"hosts in {flag.text}"
    return {}, ""


def _hostfile(text: str) -> dict[str, int]:
    hosts: dict[str, int] = {}
    for line in text.splitlines():
        found = SLOTS.fullmatch(line.partition("#")[0].strip())
        if found:
            hosts[found[1]] = hosts.get(found[1], 0) + int(found[3] or found[2] or 1)
    return hosts


def _members(
    total: int | None, hosts: tuple[dict[str, int], str], per_node: tuple[int, str] | None, draft: Draft, program: str
) -> None:
    named = {name for name in hosts[0] if name not in {"localhost", "127.0.0.1"}}
    nodes = len(named) if len(hosts[0]) > 1 else 1
    source = hosts[1] if nodes > 1 else f"{program} on one host"
    ranks = total or (None if per_node else sum(hosts[0].values()) or None)
    if per_node and ranks:
        nodes, source = -(-ranks // per_node[0]), f"{ranks} ranks, {per_node[1]}"
    elif per_node:
        ranks = per_node[0] * nodes
    if ranks is None:
        draft.ask(f"{program} starts a rank on every slot it finds when -np is left out; say how many with --cpus")
        ranks = nodes
    draft.say("workers", nodes, source)
    draft.ranks = -(-ranks // nodes)
    if nodes > 1:
        draft.warn(f"{program} reaches {_others(nodes - 1)} by itself; it is started once, on the first member")


def _cores(found: Given, draft: Draft) -> None:
    """A device, or where there are none a slot, for each rank; cores where the mapping counts them."""
    draft.say("gpus", draft.ranks, f"one device or slot per rank, {draft.ranks} on a node; --gpus 0 for cores alone")
    mapped = found.flags.get("map-by")
    pe = PE.fullmatch(mapped.text) if mapped else None
    flag = _first(found, ("cpus-per-rank", "cpus-per-proc"))
    each = int(pe[1]) if pe else draft.number(flag)
    if each:
        draft.say("cpus", draft.ranks * each, f"{draft.ranks} ranks on a node x {each} cores")


def _others(hosts: int) -> str:
    return "the other host" if hosts == 1 else f"the other {hosts} hosts"
