"""Models that reduce gradients themselves: found when they are made, given a new group when the old one is gone."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only

_made: weakref.WeakSet[DistributedDataParallel] = weakref.WeakSet()


def watch() -> None:
    """Remember every DistributedDataParallel made from now on, whether or not it is what the user protects."""
    original = DistributedDataParallel.__init__
    if getattr(original, "is_watched", False):
        return

    def init(self: DistributedDataParallel, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        _made.add(self)

    init.is_watched = True  # type: ignore[attr-defined]
    setattr(DistributedDataParallel, "__init__", init)  # noqa: B010 - a method may not be assigned to by name


class Wrappers:
    """The wrapped models of this process, and how their gradients count in the present step."""

    def __init__(self) -> None:
        self.scale = 1.0
        self.shard_scale = 1.0
        self._hooked: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def parallel(self) -> list[DistributedDataParallel]:
        return list(_made)

    def owned(self) -> set[int]:
        """Parameters whose gradients a wrapper reduces during backward."""
        if not len(_made):
            return set()
        return {id(p) for model in _made if model.require_backward_grad_sync for p in model.parameters()}

    def prepare(self, share: int, total: int, world: int, is_deferred: bool, roots: list[torch.nn.Module]) -> None:
        """Before a piece: wrappers average over ranks, so a rank with a larger share counts more by scaling its
        gradient. Shards are averaged with each piece, so each counts by itself.
        """
        if not len(_made) and not roots:
            return
        for model in _made:
            # Also the buffers: what it remembers of its last pass differs between those who were there and who came.
            model.require_backward_grad_sync = model.require_forward_param_sync = not is_deferred
        self.scale = 1.0 if is_deferred or share * world == total else share * world / total
        self.shard_scale = share * world / total
        for model in _made:
            self._hook(model, lambda: self.scale)
        for root in roots:
            self._hook(root, lambda: self.shard_scale)

    def share_buffers(self) -> None:
        """After the pieces of a step, of which a rank may have had none: the first rank's buffers for everyone, as the
        wrapper itself does before a pass that all of them make.
        """
        for model in _made:
            if model.broadcast_buffers and len(model.modules_buffers):
                model._sync_buffers()  # type: ignore[no-untyped-call]

    def rebuild(self) -> None:
        """Bind every wrapped model to the new group. The reducer of the old group goes, with its connections."""
        for model in _made:
            rebuild_parallel(model)

    def release(self) -> None:
        """Let go of the old group, so that its connections close."""
        for model in _made:
            for name in ("process_group", "reducer", "logger"):
                setattr(model, name, None)

    def _hook(self, root: torch.nn.Module, scale: Callable[[], float]) -> None:
        if root not in self._hooked:
            self._hooked.add(root)
            root.register_forward_hook(
                lambda _module, _inputs, output: tree_map_only(torch.Tensor, lambda one: scaled(one, scale()), output)
            )


def scaled(output: Any, factor: float) -> Any:
    if factor != 1.0 and output.requires_grad:
        output.register_hook(lambda gradient: gradient * factor)
    return output


def rebuild_parallel(model: Any) -> None:
    """What DistributedDataParallel does when it is unpickled: a new reducer over the default group."""
    model.process_group = dist.group.WORLD
    parameters, sparse = model._build_params_for_reducer()
    names = model._build_debug_param_to_name_mapping(parameters)
    model._ddp_init_helper(parameters, sparse, names, model.static_graph)
    if model.static_graph:
        model.reducer._set_static_graph()
        model.logger._set_static_graph()
