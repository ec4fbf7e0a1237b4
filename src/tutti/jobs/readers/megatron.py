"""Megatron-LM and NeMo: how the model is cut, which world sizes that allows, and which ranks must sit together."""

from collections.abc import Mapping, Sequence
from math import lcm

from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, canonical
from tutti.jobs.shell import Word
from tutti.jobs.world_size import WorldRule

NAMES = {
    "tensor-model-parallel-size": "tp",
    "pipeline-model-parallel-size": "pp",
    "context-parallel-size": "cp",
    "expert-model-parallel-size": "ep",
    "expert-tensor-parallel-size": "etp",
    "virtual-pipeline-model-parallel-size": "vpp",
    "num-layers-per-virtual-pipeline-stage": "vpp",
    "num-virtual-stages-per-pipeline-rank": "vpp",
    "num-distributed-optimizer-instances": "instances",
    "micro-batch-size": "micro",
    "global-batch-size": "batch",
}
NODES = {"num-nodes": "workers", "devices": "gpus", "num-gpus-per-node": "gpus"}
LETTERS = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert", "etp": "expert tensor"}


def read(words: Sequence[Word], draft: Draft) -> bool:
    """The arguments of a training script, if they are Megatron's (`--name value`) or NeMo's (`model.name=value`)."""
    found: dict[str, Flag] = {}
    nemo: dict[str, Flag] = {}
    for at, word in enumerate(words):
        name, flag = _argument(word, words[at + 1] if at + 1 < len(words) else None)
        if name in NAMES:
            found[NAMES[name]] = flag
        elif name in NODES and "." in word.text.partition("=")[0]:
            nemo[NODES[name]] = flag
    parallel = {"tp", "pp", "cp", "ep", "etp"} & set(found)
    if not parallel:
        return False
    _devices(nemo, draft)
    numbers = {name: number for name, flag in found.items() if (number := draft.number(flag)) is not None}
    source = draft.place(" ".join(sorted(found[name].spelling for name in parallel)))
    draft.framework("nemo" if nemo or any("." in flag.spelling for flag in found.values()) else "megatron", source)
    _check(numbers, found, draft)
    draft.rule(rule_of(numbers))
    _together(numbers.get("tp", 1), source, draft)
    return True


def rule_of(sizes: Mapping[str, int]) -> WorldRule:
    """Legal world sizes: whole replicas of the model, whole groups of experts, and an even share of the batch."""
    tp, pp, cp, ep = (sizes.get(name, 1) for name in ("tp", "pp", "cp", "ep"))
    replica = tp * pp * cp
    experts = sizes.get("etp", tp) * ep * pp
    named = " x ".join(f"{LETTERS[name]} {sizes[name]}" for name in LETTERS if sizes.get(name, 1) > 1) or "no slicing"
    batch = sizes.get("batch", 0)
    share = f", batch {batch} in micro batches of {sizes.get('micro', 1)}" if batch else ""
    return WorldRule(
        multiple=lcm(replica, experts),
        batch=batch,
        micro=sizes.get("micro", 1),
        replica=replica,
        instances=sizes.get("instances", 1),
        why=f"{named}{share}",
    )


def _argument(word: Word, following: Word | None) -> tuple[str, Flag]:
    key, equals, value = word.text.partition("=")
    dotted = not key.startswith("-")
    if dotted and not equals:
        return "", Flag("", Word(""))
    name = canonical(key.lstrip("+").rpartition(".")[2])
    if equals:
        return name, Flag(key, Word(value, word.unknown))
    return name, Flag(key, following or Word(""))


def _devices(nemo: dict[str, Flag], draft: Draft) -> None:
    """NeMo starts no ranks on other nodes; its trainer says how many it expects."""
    for field, flag in nemo.items():
        if not draft.launcher or not draft.has(field):
            draft.say_number(field, flag)
    if "gpus" in nemo and not draft.launcher:
        draft.ranks = draft.said.get("gpus", 0)


def _check(numbers: dict[str, int], found: dict[str, Flag], draft: Draft) -> None:
    if "vpp" in found and numbers.get("pp", 1) < 2:
        flag = found["vpp"]
        draft.problem(f"{flag.spelling} needs more than one pipeline stage", hint="set --pipeline-model-parallel-size")


def _together(tensor: int, source: str, draft: Draft) -> None:
    """The ranks of a tensor-parallel group are consecutive and belong on one node."""
    per_member = draft.ranks or draft.said.get("gpus") or 1
    if tensor <= 1:
        return
    draft.tensor = tensor
    if per_member == 1 and draft.has("workers"):
        draft.say("group", f"{tensor}@node", source)
    elif per_member % tensor and draft.launcher:
        draft.warn(f"tensor groups of {tensor} do not fit evenly into {per_member} ranks per node")
    else:
        draft.sources.setdefault("topology", source)
