"""Protected state: what the user named, as tensors with their boxes, and the plain rest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.nn.parameter import is_lazy

from tutti.train import plain, stages
from tutti.train.boxes import Box, Shape, whole
from tutti.train.errors import StateChanged

if TYPE_CHECKING:
    from tutti.train.grid import Grid
    from tutti.train.group import Talk

CHANGED = (
    "the protected state changed its shape: names, types and shapes of its tensors must stay as they were at the first "
    "commit; another model is another run (another --run-id)"
)
GLANCE_SHARE = 0.005
Shapes = dict[str, torch.Size]


class Fetch(Protocol):
    """Where state comes from: fills tensors with boxes of the named ones, at the latest when it settles."""

    def __call__(self, name: str, target: torch.Tensor, box: Box, /) -> None: ...

    def settle(self) -> None: ...

    def describe(self, name: str, /) -> tuple[Shape, torch.dtype]: ...


@dataclass(frozen=True)
class Leaf:
    """One live tensor of the state: the part of it that this rank has."""

    name: str
    tensor: torch.Tensor
    shape: Shape
    box: Box
    is_shared: bool

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is the one that this was made of: the same memory, seen in the same way. That memory cannot
        be another's, because this holds on to it.
        """
        if isinstance(tensor, DTensor):
            return False
        mine = self.tensor
        return (
            mine.data_ptr() == tensor.data_ptr()
            and mine.shape == tensor.shape
            and mine.dtype is tensor.dtype
            and mine.stride() == tensor.stride()
        )

    @property
    def bytes_whole(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count * self.tensor.element_size()


class Protected:
    """Everything that was given to `protect`."""

    def __init__(self) -> None:
        self.things: dict[str, Any] = {}
        self.fingerprint = ""
        self._leaves: dict[str, Leaf] = {}
        self._checked: dict[str, Leaf] = {}
        self._shapes: Shapes = {}
        self._next_glance = 0.0
        self._marks: dict[str, Leaf] = {}
        self.split: list[torch.nn.Module] = []
        self.grid: Grid | None = None
        """Where this is a stage of a pipeline, which protects a part of the whole."""
        self.whole_kind = ""
        """The fingerprint of all stages together."""
        self.whole_share = 1.0
        """How much larger their state is than this stage's."""

    @property
    def kind(self) -> str:
        """What kind of state this is; of a stage it is known when the stages have met."""
        return self.whole_kind if self.grid else self.fingerprint

    def cut(self, grid: Grid) -> None:
        """From now on this is a stage."""
        self.grid, self._leaves = grid, {}
        self._marks = {
            name: Leaf(name, tensor, (1,), box, is_shared=False) for name, (tensor, box) in stages.marks(grid).items()
        }

    def meet(self, everyone: Talk) -> None:
        """The stages tell each other what they protect."""
        assert self.grid is not None
        leaves = self.lasting()
        trained = {
            f"{name}/{path}"
            for name, module in self.modules_by_name()
            for path, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        self.whole_kind, size = stages.introduce(self.grid, everyone, leaves, trained)
        self.whole_share = size / max(1, sum(leaf.bytes_whole for leaf in leaves.values()))

    def add(self, things: dict[str, Any]) -> None:
        for name, thing in things.items():
            if not (torch.is_tensor(thing) or isinstance(thing, dict) or hasattr(thing, "state_dict")):
                raise StateChanged(
                    f"cannot protect {name!r}: a {type(thing).__name__} is neither a tensor nor has a state_dict()"
                )
            if "/" in name:
                raise StateChanged(f"cannot protect under the name {name!r}: a name has no slash")
        self.things.update(things)
        self._shapes = {}
        self.split = [module for module in self.modules() if has_shards(module)]

    def read(self) -> tuple[dict[str, Leaf], dict[str, Any]]:
        """The live tensors by name, and the rest of the state. The same dictionary as the last time as long as they
        are the same tensors, so that nobody works anything out anew.
        """
        found: dict[str, torch.Tensor] = {}
        rest = {
            name: plain.pick(self._content(name, thing), name, torch.is_tensor, found)
            for name, thing in self.things.items()
        }
        known = self._leaves
        if len(found) + len(self._marks) != len(known) or not all(
            name in known and known[name].is_of(tensor) for name, tensor in found.items()
        ):
            self._leaves = {**{name: leaf_of(name, tensor) for name, tensor in found.items()}, **self._marks}
        return self._leaves, rest

    def _content(self, name: str, thing: Any) -> Any:
        if self.grid and isinstance(thing, torch.optim.Optimizer):
            return stages.by_name(name, thing, stages.names_of(self.modules_by_name()))
        return content_of(thing)

    def check(self, leaves: dict[str, Leaf]) -> None:
        """Refuse state whose tensors are no longer what they were. Optimizers make theirs late, so they are not part of
        it.
        """
        if leaves is self._checked:
            return
        fingerprint = fingerprint_of(self._lasting(leaves))
        if self.fingerprint and fingerprint != self.fingerprint:
            raise StateChanged(CHANGED)
        self.fingerprint, self._checked = fingerprint, leaves

    def lasting(self) -> dict[str, Leaf]:
        """The tensors that are there from the beginning to the end."""
        return self._lasting(self.read()[0])

    def _lasting(self, leaves: dict[str, Leaf]) -> dict[str, Leaf]:
        """Those that are there from the beginning to the end."""
        late = tuple(f"{name}/" for name, thing in self.things.items() if isinstance(thing, torch.optim.Optimizer))
        return {name: leaf for name, leaf in leaves.items() if not name.startswith((*late, stages.MARK))}

    def glance(self) -> None:
        """Look whether the models still have the tensors they had, as often as that takes next to no time."""
        began = time.perf_counter()
        if began >= self._next_glance:
            self.look()
            self._next_glance = began + (time.perf_counter() - began) / GLANCE_SHARE

    def look(self) -> None:
        """Refuse models whose tensors are no longer what they were."""
        shapes = {f"{name}/{path}": shape for name, thing in self.modules_by_name() for path, shape in shapes_of(thing)}
        before, self._shapes = self._shapes or shapes, shapes
        for name in sorted({*before, *shapes}):
            was, now = before.get(name), shapes.get(name)
            if was != now:
                raise StateChanged(f"{name} was {worded(was)} and is {worded(now)}: {CHANGED}")

    def write(self, rest: dict[str, Any], fetch: Fetch) -> None:
        """Bring every protected thing to the state described by `rest`, tensors through `fetch`."""
        for name, thing in self.things.items():
            if name not in rest:
                raise StateChanged(f"the snapshot has no {name!r}: it was taken by a loop that protected other things")
            if self.grid:
                self._write_part(name, thing, rest[name], fetch)
            else:
                restore(name, thing, rest[name], fetch)

    def _write_part(self, name: str, thing: Any, rest: Any, fetch: Fetch) -> None:
        """The same for a stage, of what all of them kept."""
        if isinstance(thing, torch.optim.Optimizer):
            names = stages.names_of(self.modules_by_name())
            load = stages.load_by_name(name, thing, names, rest, lambda path, like: made_like(path, like, fetch))
            fetch.settle()
            load()
        elif isinstance(thing, (torch.nn.Module, dict)):
            restore(name, thing, stages.select(rest, content_of(thing), name), fetch)
        else:
            restore(name, thing, rest, fetch)

    def wanted(self, every: Mapping[str, tuple[Any, Shape]]) -> dict[str, Box]:
        """Which box of each tensor of a snapshot this rank would restore."""
        leaves, _ = self.read()
        mine = self._part_of(every) if self.grid else every
        return {name: self._box_of(name, tuple(every[name][1]), leaves.get(name)) for name in mine}

    def _part_of(self, every: Mapping[str, Any]) -> list[str]:
        """The names that a stage restores: of optimizers those of its parameters, whether or not they have state yet;
        of others those that are there.
        """
        names = stages.names_of(self.modules_by_name()).values()
        stems = tuple(
            f"{thing}/{part}/{name}/"
            for thing, content in self.things.items()
            if isinstance(content, torch.optim.Optimizer)
            for part in ("state", "param_groups")
            for name in names
        )
        leaves = self.lasting()
        return [name for name in every if name in leaves or name.startswith(stems)]

    def _box_of(self, name: str, shape: Shape, leaf: Leaf | None) -> Box:
        if leaf is not None and leaf.shape == shape:
            return leaf.box
        like = self._parameter_behind(name)
        return leaf_of(name, like).box if isinstance(like, DTensor) and tuple(like.shape) == shape else whole(shape)

    def _parameter_behind(self, path: str) -> Any:
        """The parameter that a piece of optimizer state belongs to."""
        thing = self.things.get(path.partition("/")[0])
        if not self.grid:
            return parameter_behind(path, thing)
        parts = path.split("/")
        if not isinstance(thing, torch.optim.Optimizer) or parts[1] != "state":
            return None
        names = stages.names_of(self.modules_by_name())
        everyone = (one for group in thing.param_groups for one in group["params"])
        return next((one for one in everyone if names.get(id(one)) == parts[2]), None)

    def modules(self) -> list[torch.nn.Module]:
        return [thing for _, thing in self.modules_by_name()]

    def modules_by_name(self) -> list[tuple[str, torch.nn.Module]]:
        return [(name, thing) for name, thing in self.things.items() if isinstance(thing, torch.nn.Module)]

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [thing for thing in self.things.values() if isinstance(thing, torch.optim.Optimizer)]


def shapes_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Size]]:
    """The tensors of a model that are part of its state, whoever holds which part of them."""
    for prefix, part in module.named_modules():
        for name, tensor in (*part._parameters.items(), *part._buffers.items()):
            if tensor is not None and name not in part._non_persistent_buffers_set and not is_lazy(tensor):
                yield f"{prefix}.{name}".lstrip("."), tensor.shape


def worded(shape: torch.Size | None) -> str:
    return "not there" if shape is None else str(list(shape))


def has_shards(module: torch.nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def content_of(thing: Any) -> Any:
    return thing.state_dict() if hasattr(thing, "state_dict") else thing


def leaf_of(name: str, tensor: torch.Tensor) -> Leaf:
    """A live tensor with its box; a DTensor is the shard that is here."""
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        shape = tuple(tensor.shape)
        return Leaf(name, tensor, shape, whole(shape), is_shared=True)
    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    is_shared = all(placement.is_replicate() for placement in tensor.placements)
    return Leaf(name, tensor.to_local(), tuple(tensor.shape), Box(tuple(offsets), tuple(sizes)), is_shared)


def fingerprint_of(leaves: dict[str, Leaf]) -> str:
    """What kind of state this is, whoever holds which part of it."""
    text = ";".join(f"{leaf.name}:{leaf.tensor.dtype}:{leaf.shape}" for leaf in leaves.values())
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def restore(name: str, thing: Any, rest: Any, fetch: Fetch) -> None:
    """Restore one thing: in place where its tensors are already there, through load_state_dict where they are not."""
    live: dict[str, torch.Tensor] = {}
    have = plain.pick(content_of(thing), name, torch.is_tensor, live)
    if have == rest or refs(have) == refs(rest):
        for path, tensor in live.items():
            leaf = leaf_of(path, tensor)
            fetch(path, leaf.tensor, leaf.box)
        fetch.settle()
        if have != rest:
            adopt_rest(thing, rest, live)
    elif hasattr(thing, "load_state_dict"):
        found = plain.put(rest, lambda path: fresh(path, thing, fetch))
        fetch.settle()
        thing.load_state_dict(found)
    else:
        raise StateChanged(f"{name!r} has other tensors than the snapshot of it")


def refs(value: Any) -> list[str]:
    found: dict[str, Any] = {}
    plain.pick(value, "", lambda item: isinstance(item, plain.Ref), found)
    return sorted(item.name for item in found.values())


def adopt_rest(thing: Any, rest: Any, live: dict[str, torch.Tensor]) -> None:
    """Numbers beside the tensors: the groups of an optimizer are set in place, others load their whole state."""
    if isinstance(thing, torch.optim.Optimizer):
        for group, saved in zip(thing.param_groups, rest["param_groups"], strict=True):
            group.update({key: plain.put(value, live.__getitem__) for key, value in saved.items() if key != "params"})
    elif hasattr(thing, "load_state_dict"):
        thing.load_state_dict(plain.put(rest, live.__getitem__))


def fresh(path: str, thing: Any, fetch: Fetch) -> torch.Tensor:
    """A new tensor for state that the thing does not have yet, such as an optimizer's before its first step."""
    return made_like(path, parameter_behind(path, thing), fetch)


def made_like(path: str, like: Any, fetch: Fetch) -> torch.Tensor:
    """A new tensor, in shards where the parameter it belongs to is."""
    shape, dtype = fetch.describe(path)
    if isinstance(like, DTensor) and tuple(like.shape) == shape:
        made = torch.zeros_like(like, dtype=dtype)
        leaf = leaf_of(path, made)
        fetch(path, leaf.tensor, leaf.box)
        return made
    made = torch.zeros(shape, dtype=dtype)
    fetch(path, made, whole(shape))
    return made


def parameter_behind(path: str, thing: Any) -> Any:
    """The parameter that a piece of optimizer state (`opt/state/3/exp_avg`) belongs to."""
    parts = path.split("/")
    if not isinstance(thing, torch.optim.Optimizer) or len(parts) < 3 or parts[1] != "state":
        return None
    everyone = [parameter for group in thing.param_groups for parameter in group["params"]]
    return everyone[int(parts[2])]
