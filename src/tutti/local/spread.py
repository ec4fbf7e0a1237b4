"""A batch script runs once and starts its tasks itself; what it asks for may be more than one node has."""

from collections.abc import Iterable

from msgspec.structs import replace

from tutti.engine.model import Coupling, Gang, Node, Role
from tutti.jobs.batch_variables import MANAGERS
from tutti.jobs.job import DEVICE, Job


def is_script(job: Job) -> bool:
    """Whether one process stands for all that the job asks for."""
    return job.framework in MANAGERS and str(job.workers) == "1" and not job.roles and job.array == ""


def spread(gang: Gang, job: Job, nodes: Iterable[Node]) -> Gang:
    """The gang of a script in as many equal parts as fit on these nodes; one that fits on a node stays whole."""
    rooms = [node.capacity for node in nodes]
    if not is_script(job) or gang.roles[0].coupling is not Coupling.GANG:
        return gang
    role = gang.roles[0]
    for parts in range(1, len(rooms) + 1):
        share = _share(role.shapes[0].ask, parts)
        if share and sum(fits(room, share) for room in rooms) >= parts:
            return replace(gang, roles=(_in_parts(role, parts, share),)) if parts > 1 else gang
    return gang


def fits(capacity: dict[str, int], ask: dict[str, int]) -> int:
    """How many members a node holds when it is empty."""
    return min((capacity.get(name, 0) // amount for name, amount in ask.items() if amount), default=1 << 20)


def _share(ask: dict[str, int], parts: int) -> dict[str, int]:
    """What each of so many parts asks for; nothing where devices cannot be dealt out evenly."""
    if ask.get(DEVICE, 0) % parts:
        return {}
    return {name: -(-amount // parts) for name, amount in ask.items()}


def _in_parts(role: Role, parts: int, share: dict[str, int]) -> Role:
    shape = replace(role.shapes[0], ask=share)
    return replace(role, min=parts, want=parts, max=parts, shapes=(shape,))
