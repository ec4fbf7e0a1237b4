"""What does the engine hear of members that were lost?"""

from collections.abc import Mapping

import msgspec

from tutti.engine import events as ev
from tutti.engine.model import Coupling, Gang, Life, Seats, State

from .gangs import GangSeen

Counts = dict[tuple[int, str], int]
"""So many members of a role, on a node."""


def drops(gang: GangSeen, counts: Counts, numbers: Mapping[str, int], now: int, lost: bool) -> list[ev.Event]:
    """Members that left their seats, lost or done."""
    by_role: dict[int, dict[int, int]] = {}
    for (role, node), count in counts.items():
        if node in numbers:
            by_role.setdefault(role, {})[numbers[node]] = count
    events: list[ev.Event] = []
    for role, n in by_role.items():
        # Of loose members there are as many as there are pods, so that nobody has to remember who is done.
        kind = ev.MemberLost if lost or is_loose(gang, role) else ev.MembersDone
        events.append(kind(now, gang.key, role, tuple(n), tuple(n.values())))
    return events


def is_loose(gang: GangSeen, role: int) -> bool:
    """Whether nobody waits for members of a role."""
    return gang.gang is not None and gang.gang.roles[role].coupling is Coupling.LOOSE


def resized(gang: GangSeen, seats: tuple[Seats, ...], now: int) -> list[ev.Event]:
    """It has these seats; whom it lost since they were chosen, it still lacks.

    The node of such a one may be gone, so it is told of as one that sat with another and is lost.
    """
    pairs = list(zip(gang.gang.roles, seats, strict=True)) if gang.gang is not None and gang.lost else []
    missing = [max(role.min - held.members, 0) if role.coupling is Coupling.GANG else 0 for role, held in pairs]
    first = next(node for held in seats for node in held.nodes)
    events: list[ev.Event] = []
    for role, count in enumerate(missing):
        if count:
            held = seats[role]
            more = Seats((*held.nodes, first), (*held.counts, count), held.shape)
            seats = (*seats[:role], more, *seats[role + 1 :])
            events.append(ev.MemberLost(now, gang.key, role, (first,), (count,)))
    return [ev.Resized(now, gang.key, seats), *events]


def short(life: Life, gang: Gang, bound: int) -> Life:
    """A gang that sits below its minimum with nothing written down has lost members."""
    pairs = list(zip(gang.roles, life.seats, strict=True))
    missing = [max(role.min - held.members, 0) if role.coupling is Coupling.GANG else 0 for role, held in pairs]
    if not any(missing) or not bound:
        return life
    first = next(node for held in life.seats for node in held.nodes)
    lost = tuple(Seats((first,), (n,)) if n else Seats() for n in missing)
    ranks = tuple((held.members,) if n else () for n, held in zip(missing, life.seats, strict=True))
    return msgspec.structs.replace(life, state=State.DEGRADED, lost=lost, lost_ranks=ranks)
