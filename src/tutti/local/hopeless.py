"""Jobs that come after something that can never happen: nobody should wait for their end without being told."""

from tutti.engine.world import World
from tutti.errors import Refused

NEVER = "never:"


def never_starts(world: World, name: str, seen: frozenset[str] = frozenset()) -> str:
    """Why a gang that waits can never start as it is; empty where it can, as far as others decide that."""
    slot = world.slots.get(name, -1)
    if slot < 0 or slot not in world.queued or name in seen:
        return ""
    for entry in world.job_in(slot).gang.after:
        before = entry.rpartition(":")[2]
        if entry.startswith(NEVER):
            return f"it comes after {before}, which ended otherwise than it waits for"
        if why := never_starts(world, before, seen | {name}):
            return f"it comes after {before}, which can never start: {why}"
    return ""


def refuse_to_wait(world: World, name: str) -> None:
    """Raises Refused where the end of a job would be waited for in vain."""
    if why := never_starts(world, name):
        raise Refused(
            f"{name} can never start: {why}",
            hint=f"tutti update {name} after=[], or tutti cancel {name}; tutti why {name}",
        )
