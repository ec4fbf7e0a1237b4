"""FSDP2 on another number of ranks: the wrapping is taken off and put on again over a new mesh, in the same process.

The new shards are empty; their contents come from memory, box by box. What is read here of torch's private parts is
checked first, and a model wrapped in a way that is not known is refused, so that the job restarts from memory instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
from torch.distributed._composable_state import _module_state_mapping
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, _redistribute, debug

from tutti.train.errors import StateChanged


@dataclass(frozen=True)
class Wrapping:
    """How one module was given to fully_shard."""

    module: nn.Module
    options: dict[str, Any]
    params: list[tuple[nn.Module, str, nn.Parameter]]


def rewrap(modules: list[nn.Module], optimizers: list[torch.optim.Optimizer], world: int) -> None:
    """Shard every FSDP2 model over the present default group, and give its optimizers the new parameters."""
    check_live(modules)
    forget_meshes()
    roots = [module for module in modules if has_wrapping(module)]
    replaced: dict[int, Any] = {}
    for root in roots:
        parts = [part for part in root.modules() if isinstance(part, FSDPModule)]
        wrappings = [unwrap(part) for part in parts]
        mesh = new_mesh(wrappings[0].options.pop("mesh"), world)
        for wrapping in reversed(wrappings):
            wrapping.options.pop("mesh", None)
            fully_shard(wrapping.module, mesh=mesh, **wrapping.options)
        for wrapping in wrappings:
            replaced.update({id(old): module._parameters[name] for module, name, old in wrapping.params})
    for optimizer in optimizers:
        relink(optimizer, replaced)


def build_alone(is_alone: Callable[[], bool]) -> None:
    """Whoever builds its model beside a running generation is told how many there will be, in a group of one: a mesh
    over all of them is one over itself, until it is made anew.
    """
    original = DeviceMesh.__init__

    def init(self: DeviceMesh, device_type: str, mesh: Any = None, **named: Any) -> None:
        if is_alone():
            dimensions = len(named.pop("_layout")) if mesh is None else torch.as_tensor(mesh).ndim
            named.pop("_rank_map", None)
            mesh = torch.zeros((1,) * dimensions, dtype=torch.int)
        original(self, device_type, mesh, **named)

    setattr(DeviceMesh, "__init__", init)  # noqa: B010 - a method may not be assigned to by name


def has_wrapping(module: nn.Module) -> bool:
    return any(isinstance(part, FSDPModule) for part in module.modules())


def check_live(modules: list[nn.Module]) -> None:
    """Refuse shards that were not made by fully_shard over one dimension: nobody here knows how to make them again."""
    for module in modules:
        for parameter in module.parameters():
            if isinstance(parameter, DTensor) and (parameter.device_mesh.ndim > 1 or not has_wrapping(module)):
                raise StateChanged("a model that is sharded in another way than by fully_shard over all members")


def check_groups(modules: list[nn.Module], groups: int) -> None:
    """Refuse tensor parallel models side by side whose gradients nobody would add up."""
    if groups > 1 and not all(has_wrapping(module) for module in modules):
        raise StateChanged(
            f"a tensor parallel model in {groups} groups needs fully_shard over the groups as well, which adds up "
            f"their gradients; or all members compute one model: batches(..., together=job.world)"
        )


def is_live(modules: list[nn.Module]) -> bool:
    """Whether these models can be sharded anew in their processes."""
    try:
        check_live(modules)
    except StateChanged:
        return False
    return True


def forget_meshes() -> None:
    """torch remembers what came of an operation by the mesh it was on, and takes two meshes of one size for the same:
    with another rank in it, what it remembers is the place we had before.
    """
    debug._clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
    for name in ("_gen_transform_infos", "_gen_transform_infos_non_cached"):
        getattr(getattr(_redistribute, name, None), "cache_clear", lambda: None)()


def new_mesh(old: DeviceMesh, world: int) -> DeviceMesh:
    if old.ndim != 1:
        raise StateChanged(f"a mesh of {old.ndim} dimensions")
    return init_device_mesh(old.device_type, (world,), mesh_dim_names=old.mesh_dim_names)


def unwrap(module: nn.Module) -> Wrapping:
    """Take fully_shard off one module; its parameters are whole and empty afterwards."""
    state = fully_shard.state(module)  # type: ignore[attr-defined]
    groups = state._fsdp_param_groups
    if len(state._modules) != 1 or len(groups) > 1:
        raise StateChanged("modules that were grouped in fully_shard")
    options = options_of(state, groups[0]) if groups else {"mesh": None}
    params = [entry for group in groups for param in group.fsdp_params for entry in make_whole(param)]
    remove_hooks(state, groups)
    forget(module)
    return Wrapping(module, options, params)


def forget(module: nn.Module) -> None:
    """Remove every trace that fully_shard was here, so that it may come again."""
    for key in (STATE_KEY, REGISTRY_KEY):
        module.__dict__.get(key, {}).clear()
    _module_state_mapping.pop(module, None)
    plain: Any = next(
        kind for kind in type(module).__mro__ if kind is not FSDPModule and not issubclass(kind, FSDPModule)
    )
    module.__class__ = plain


def options_of(state: Any, group: Any) -> dict[str, Any]:
    """The arguments fully_shard was called with, from what it made of them."""
    placements = {id(param.sharded_param): param.fsdp_placement for param in group.fsdp_params}
    is_plain = all(placement.dim == 0 for placement in placements.values())
    if not is_plain:
        raise StateChanged("parameters that are sharded along another dimension than the first")
    return {
        "mesh": group.mesh_info.mesh,
        "reshard_after_forward": None
        if state._auto_reshard_after_forward
        else group.post_forward_mesh_info is not None,
        "mp_policy": state._mp_policy,
        "offload_policy": group.offload_policy,
    }


def make_whole(param: Any) -> list[tuple[nn.Module, str, nn.Parameter]]:
    """Put an empty whole parameter where a sharded one was. Its memory is not touched, so it costs nothing until it is
    sharded.
    """
    old = param.sharded_param
    whole = nn.Parameter(
        torch.empty(param._orig_size, dtype=old.dtype, device=old.device), requires_grad=old.requires_grad
    )
    info = param._module_info
    places = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names, strict=True)]
    for module, name in places:
        module._parameters[name] = whole
    param._post_load_hook_handle.remove()
    return [(module, name, old) for module, name in places]


def remove_hooks(state: Any, groups: list[Any]) -> None:
    for handle in {state._pre_forward_hook_handle, state._post_forward_hook_handle}:
        handle.remove()
    for group in groups:
        for handles in (
            group._module_to_pre_save_state_dict_hook_handle,
            group._module_to_pre_load_state_dict_hook_handle,
        ):
            for handle in handles.values():
                handle.remove()


def relink(optimizer: torch.optim.Optimizer, replaced: dict[int, Any]) -> None:
    """Give an optimizer the new parameters, with state of the new shape where it had state."""
    for group in optimizer.param_groups:
        group["params"] = [replaced.get(id(old), old) for old in group["params"]]
    for old in [old for old in optimizer.state if id(old) in replaced]:
        had, new = optimizer.state.pop(old), replaced[id(old)]
        optimizer.state[new] = {name: like(value, old, new) for name, value in had.items()}


def like(value: Any, old: torch.Tensor, new: torch.Tensor) -> Any:
    """State that was sharded like the parameter is sharded like the new one."""
    if isinstance(value, DTensor) and value.shape == old.shape:
        return torch.zeros_like(new, dtype=value.dtype)
    return value
