"""A gang on a cluster that counts other things than its author did."""

from collections.abc import Collection

from msgspec.structs import replace

from tutti.engine.model import Gang

from .job import DEVICE


def counted(gang: Gang, resources: Collection[str]) -> Gang:
    """The same gang, asking only for what the cluster counts; devices of a vendor are devices where names differ."""
    roles = tuple(
        replace(role, shapes=tuple(replace(shape, ask=_ask(shape.ask, resources)) for shape in role.shapes))
        for role in gang.roles
    )
    return replace(gang, roles=roles)


def _ask(ask: dict[str, int], resources: Collection[str]) -> dict[str, int]:
    renamed = {_name(name, resources): amount for name, amount in ask.items()}
    known = {name: amount for name, amount in renamed.items() if name in resources}
    # A gang that asks for nothing the cluster has must still be told so by name.
    return known or renamed


def _name(name: str, resources: Collection[str]) -> str:
    if name in resources:
        return name
    if name.endswith("/gpu") and DEVICE in resources:
        return DEVICE
    return next((other for other in resources if other.endswith("/gpu")), name) if name == DEVICE else name
