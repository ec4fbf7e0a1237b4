"""The state of a pipeline: each stage protects its own part, under the names that it has in the whole model.

An optimizer numbers its parameters, and a stage has other numbers than the next. So its state is kept by the names of
its parameters, in the form in which torch's own checkpoints keep it, and any other cut into stages finds it there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from tutti.train import plain
from tutti.train.boxes import Box, whole
from tutti.train.errors import StateChanged

if TYPE_CHECKING:
    from tutti.train.grid import Grid
    from tutti.train.group import Talk
    from tutti.train.state import Leaf

MARK = "//stage/"
OF_THE_GROUP = ("params", "param_names")

Names = dict[int, str]
"""By the identity of a parameter, its name in the whole model."""


def marks(grid: Grid) -> dict[str, tuple[torch.Tensor, Box]]:
    """A byte for each stage, of which each rank holds its own stage's: a step of which a stage is missing has not all
    its bytes, also where nobody is left who knows what that stage had.
    """
    held = {stage: whole((1,)) if stage == grid.stage else Box((0,), (0,)) for stage in range(grid.stages)}
    return {f"{MARK}{stage}": (torch.zeros(box.sizes, dtype=torch.uint8), box) for stage, box in held.items()}


def names_of(modules: list[tuple[str, torch.nn.Module]]) -> Names:
    """What parameters are called: as in the model, with the model before it where there are several."""
    return {
        id(parameter): path if len(modules) == 1 else f"{name}.{path}"
        for name, module in modules
        for path, parameter in module.named_parameters()
    }


def by_name(thing: str, optimizer: torch.optim.Optimizer, names: Names) -> dict[str, Any]:
    """An optimizer's state by the names of its parameters, and the settings of each of them."""
    settings, states = {}, {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = name_in(thing, names, parameter)
            settings[name] = {key: value for key, value in group.items() if key not in OF_THE_GROUP}
            if optimizer.state.get(parameter):
                states[name] = dict(optimizer.state[parameter])
    return {"state": states, "param_groups": settings}


def name_in(thing: str, names: Names, parameter: torch.Tensor) -> str:
    if id(parameter) not in names:
        raise StateChanged(
            f"{thing!r} has a parameter of {list(parameter.shape)} that is in no protected model: in a pipeline the "
            f"state of an optimizer is kept by the names of its parameters, so protect(model=stage, {thing}={thing})"
        )
    return names[id(parameter)]


def load_by_name(
    thing: str, optimizer: torch.optim.Optimizer, names: Names, rest: Mapping[str, Any],
    fetch: Callable[[str, torch.Tensor], torch.Tensor],
) -> Callable[[], None]:  # fmt: skip
    """Prepare what brings an optimizer to the state in `rest`, of which it takes its own parameters' part: to be called
    when the tensors that were fetched are there.
    """
    state: dict[int, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        numbers = range(len(state), len(state) + len(group["params"]))
        wanted = [name_in(thing, names, parameter) for parameter in group["params"]]
        for number, name, parameter in zip(numbers, wanted, group["params"], strict=True):
            known = rest["state"].get(name, {})
            state[number] = plain.put(known, lambda path, like=parameter: fetch(path, like))  # type: ignore[misc]
        settings = settings_of(thing, wanted, rest["param_groups"])
        groups.append({**group, **settings, "params": list(numbers)})
    filled = {number: entry for number, entry in state.items() if entry}
    return lambda: optimizer.load_state_dict({"state": filled, "param_groups": groups})


def settings_of(thing: str, wanted: list[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a group: those that each of its parameters had."""
    missing = [name for name in wanted if name not in known]
    if missing:
        raise StateChanged(f"the snapshot of {thing!r} knows nothing of {missing[0]}: it was taken of another model")
    odd = next((name for name in wanted if known[name] != known[wanted[0]]), "")
    if odd:
        raise StateChanged(
            f"{thing!r} has {wanted[0]} and {odd} in one group, and their settings differ in the snapshot: "
            f"group parameters in the same way whatever the number of stages"
        )
    return dict(known[wanted[0]]) if wanted else {}


def select(rest: Any, have: Any, path: str) -> Any:
    """Of what all stages kept, the part that this one has."""
    if not (isinstance(rest, dict) and isinstance(have, dict)):
        return rest
    missing = [key for key in have if key not in rest]
    if missing:
        raise StateChanged(f"the snapshot has no {path}/{missing[0]}: it was taken of another model")
    return {key: select(rest[key], value, f"{path}/{key}") for key, value in have.items()}


def introduce(grid: Grid, everyone: Talk, leaves: Mapping[str, Leaf], trained: set[str]) -> tuple[str, int]:
    """The stages tell each other what they have; the fingerprint and the bytes of the whole of it. Names that several
    stages have are refused unless they mean the same.
    """
    mine = {name: [str(leaf.tensor.dtype), leaf.shape, leaf.bytes_whole] for name, leaf in leaves.items()}
    line = grid.line
    told = [json.loads(text) for text in line.gather_bytes(json.dumps([mine, sorted(trained)]).encode())]
    every = {name: kind for theirs, _ in told for name, kind in theirs.items()}
    shared = sorted(name for name in every if sum(name in theirs for theirs, _ in told) > 1)
    refuse_trained(shared, told)
    digests = {name: digest(leaves[name]) for name in shared if name in leaves}
    refuse_unlike([json.loads(text) for text in line.gather_bytes(json.dumps(digests).encode())])
    text = ";".join(f"{name}:{every[name][0]}:{every[name][1]}" for name in sorted(every))
    kind = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    kinds = [text.decode() for text in everyone.gather_bytes(kind.encode())]
    if len(set(kinds)) > 1:
        raise StateChanged(
            f"the replicas protect different models (by rank: {', '.join(kinds)}): names, types and shapes of all "
            f"stages together must be the same in each"
        )
    return kind, sum(size for _, _, size in every.values())


def refuse_trained(shared: list[str], told: list[Any]) -> None:
    for name in shared:
        having = [stage for stage, (theirs, _) in enumerate(told) if name in theirs]
        if any(name in trained for _, trained in told):
            raise StateChanged(
                f"stages {' and '.join(map(str, having))} both train {name}: in a pipeline a tensor is protected under "
                f"the name it has in the whole model, and a parameter is in one stage. A slice of a Sequential begins "
                f"to count at 0: keep all layers in a ModuleDict, and leave out those of other stages"
            )


def refuse_unlike(told: list[dict[str, str]]) -> None:
    seen: dict[str, tuple[int, str]] = {}
    for stage, theirs in enumerate(told):
        for name, value in theirs.items():
            first, known = seen.setdefault(name, (stage, value))
            if known != value:
                raise StateChanged(
                    f"{name} is in stage {first} and in stage {stage}, and is not the same there: "
                    f"in a pipeline what has one name is one thing"
                )


def digest(leaf: Leaf) -> str:
    data = leaf.tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.blake2b(data, digest_size=12).hexdigest()
