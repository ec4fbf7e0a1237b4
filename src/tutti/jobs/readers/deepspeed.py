"""The deepspeed launcher, its hostfile, and its configuration with the elasticity block."""

from collections.abc import Sequence
from typing import Any

from tutti.jobs.draft import Draft
from tutti.jobs.flags import Given, spec
from tutti.jobs.lazy import pattern
from tutti.jobs.problems import Problem
from tutti.jobs.shell import Word
from tutti.jobs.world_size import WorldRule

from . import config
from .elasticity import Block, legal_counts

TABLE = spec(
    "deepspeed",
    "hostfile include exclude num-nodes min-elastic-nodes max-elastic-nodes num-gpus num-accelerators master-port "
    "master-addr launcher launcher-args autotuning elastic-training-policy bind-core-list ssh-port node-rank save-pid "
    "venv-script module-args",
    "module no-python no-local-rank no-ssh no-ssh-check force-multi enable-each-rank-log elastic-training "
    "bind-cores-to-rank",
    H="hostfile",
    i="include",
    e="exclude",
)
HOST = pattern(r"([\w.:-]+)\s+slots\s*=\s*([0-9]{1,6})")


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """Nodes and devices, from its options or from the hostfile."""
    found = draft.options(tuple(words), TABLE)
    draft.launcher = "deepspeed"
    draft.framework("deepspeed", draft.place("deepspeed"))
    hosts = _hosts(found, draft)
    _gpus(found, hosts, draft)
    _nodes(found, hosts, draft)
    draft.ranks = draft.said.get("gpus") or 0
    return (Word("-m"), *found.rest) if "module" in found.flags else found.rest


def _hosts(found: Given, draft: Draft) -> dict[str, int]:
    flag = found.flags.get("hostfile")
    if flag is None:
        return {}
    text = draft.files.text(flag.text) if not flag.value.unknown else None
    if text is None:
        draft.warn(f"{flag.text} is not here, so its hosts are not known")
        return {}
    hosts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.partition("#")[0].strip()
        if not plain:
            continue
        if entry := HOST.fullmatch(plain):
            hosts[entry[1]] = int(entry[2])
        else:
            draft.problems.append(
                Problem("it is no line of a hostfile", plain, "write `name slots=8`", flag.text, number)
            )
    return _filtered(hosts, found, draft)


def _filtered(hosts: dict[str, int], found: Given, draft: Draft) -> dict[str, int]:
    """`--include a:0,1@b` and `--exclude b:0` choose among the hosts of the file."""
    for option in ("include", "exclude"):
        flag = found.flags.get(option)
        if flag is None or flag.value.unknown:
            continue
        chosen: dict[str, int] = {}
        for part in filter(None, flag.text.split("@")):
            name, colon, slots = part.partition(":")
            if name not in hosts:
                draft.problem(f"{flag.spelling} names {name!r}, which is not in the hostfile", flag.text)
            chosen[name] = len(slots.split(",")) if colon else hosts.get(name, 0)
        if option == "include":
            hosts = chosen
        else:
            hosts = {name: slots - chosen.get(name, 0) for name, slots in hosts.items() if slots > chosen.get(name, 0)}
    return hosts


def _gpus(found: Given, hosts: dict[str, int], draft: Draft) -> None:
    flag = found.flags.get("num-gpus") or found.flags.get("num-accelerators")
    if draft.say_number("gpus", flag):
        return
    include = found.flags.get("include")
    if hosts:
        slots = set(hosts.values())
        if len(slots) > 1:
            draft.warn(
                f"hosts have different numbers of slots ({', '.join(map(str, sorted(slots)))}); the most is taken"
            )
        draft.say("gpus", max(slots), f"slots in {found.flags['hostfile'].text}")
    elif include is not None and include.text.startswith("localhost:"):
        draft.say("gpus", len(include.text.partition(":")[2].split(",")), draft.place(include.spelling))
    elif not draft.has("gpus"):
        draft.ask("deepspeed takes every device it sees when --num_gpus is left out; say how many with --gpus")


def _nodes(found: Given, hosts: dict[str, int], draft: Draft) -> None:
    flags = found.flags
    if "elastic-training" in flags and ("min-elastic-nodes" in flags or "max-elastic-nodes" in flags):
        most = draft.number(flags.get("max-elastic-nodes")) or len(hosts) or 1
        least = draft.number(flags.get("min-elastic-nodes")) or 1
        source = draft.place("--min_elastic_nodes and --max_elastic_nodes")
        draft.say("workers", f"{least}:{most}" if most > least else most, source)
        draft.say("resize", "restart", source)
    elif not draft.say_number("workers", flags.get("num-nodes")):
        draft.say(
            "workers", max(len(hosts), 1), f"hosts in {flags['hostfile'].text}" if hosts else "default of deepspeed"
        )
    if draft.said.get("workers") not in {1, "1"} and "no-ssh" not in flags:
        draft.warn("deepspeed reaches the other nodes by ssh itself; with --no_ssh one launcher runs on each")


def read_config(name: str, draft: Draft) -> None:
    """The JSON configuration: batch sizes, and the elasticity block with its legal counts."""
    settings = config.read(name, draft)
    block = settings.get("elasticity")
    if isinstance(block, dict) and block.get("enabled") is True:
        _elastic(block, settings, draft)
    else:
        _batch(settings, draft)
    state = settings.get("zero_optimization", "stage")
    if state in {1, 2, 3}:
        draft.ignore(
            f"ZeRO stage {state} ({settings.place('zero_optimization', 'stage')})", "it shards state, not the job"
        )


def _batch(settings: "config.Settings", draft: Draft) -> None:
    """train_batch = micro x accumulation x ranks: with the batch fixed, so is what divides it."""
    batch, micro, steps = (
        _whole(settings.get(key))
        for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    )
    if not batch:
        return
    place = settings.place("train_batch_size")
    if micro and steps:
        if batch % (micro * steps):
            what = f"train_batch_size {batch} is no multiple of {micro} x {steps}"
            hint = "make it micro batch x accumulation x ranks, or leave one of the three out"
            draft.problems.append(Problem(what, "", hint, settings.source, int(place.rpartition(":")[2] or 0)))
            return
        draft.rule(WorldRule(listed=(batch // (micro * steps),), why=f"batch sizes at {place}"))
    else:
        draft.rule(WorldRule(batch=batch, micro=micro or 1, why=f"train_batch_size at {place}"))


def _elastic(block: dict[str, Any], settings: "config.Settings", draft: Draft) -> None:
    place = settings.place("elasticity")
    try:
        found = legal_counts(Block.read(block, draft.said.get("gpus") or 0))
    except ValueError as wrong:
        line = int(place.rpartition(":")[2] or 0)
        draft.problems.append(Problem(f"elasticity: {wrong}", "", "see its documentation", settings.source, line))
        return
    draft.rule(WorldRule(listed=found.counts, why=f"elasticity block at {place}, batch {found.batch}"))
    per_member = draft.said.get("gpus") or 1
    nodes = [count // per_member for count in found.counts if count % per_member == 0]
    if nodes and draft.said.get("workers", 1) in {1, "1"} and draft.sources.get("workers", "").startswith("default"):
        # Only the block says how many: the launcher left it open.
        draft.said.pop("workers", None)
        draft.say("workers", f"{nodes[0]}:{nodes[-1]}" if len(nodes) > 1 else nodes[0], f"elasticity block at {place}")
    draft.say("resize", "restart", f"elasticity block at {place}")


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else 0
