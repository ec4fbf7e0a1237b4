"""What a job of `tutti train` keeps in memory is part of what it asks for: its members and their snapshots."""

from collections.abc import Sequence

from msgspec.structs import replace

from tutti.engine.model import Gang, Role
from tutti.jobs.job import MEMORY
from tutti.jobs.understood import Understood
from tutti.train.agent.bill import bill_of


def billed(gang: Gang, words: Sequence[str]) -> Gang:
    """The gang with the memory of its snapshots, if its line names the state they are of (`--state 3GB`)."""
    return replace(gang, roles=tuple(_billed(role, words) for role in gang.roles))


def explained(found: Understood) -> Understood:
    """What was understood of a job, with the memory of its snapshots and where it comes from."""
    gang = billed(found.gang, found.job.words)
    if gang == found.gang:
        return found
    own = found.sources.get("mem")
    source = f"{own}, and the snapshots of --state" if own else "the snapshots of --state"
    return replace(found, gang=gang, sources={**found.sources, "mem": source})


def _billed(role: Role, words: Sequence[str]) -> Role:
    # A share is largest when the members are fewest, and what a member asks for does not change with their number.
    bill = bill_of(words, role.min)
    if bill is None:
        return role
    more = bill.member_bytes
    shapes = [replace(shape, ask={**shape.ask, MEMORY: shape.ask.get(MEMORY, 0) + more}) for shape in role.shapes]
    return replace(role, shapes=tuple(shapes))
