"""What does a gang hold on its seats? Worked out when it starts, and used again when it ends."""

from .model import Gang, Role, Seats
from .use import held_by_asks

MOST_USUAL = 1000
Amounts = tuple[list[list[int]], list[int], list[int]]
"""What a member of each role asks of each resource, what all of them hold, and the part up to the gang's minimum."""


class Booked:
    """What gangs were booked with, by slot."""

    __slots__ = ("_held", "_resources", "_usual")

    def __init__(self) -> None:
        self._held: dict[int, tuple[Gang, tuple[Seats, ...], Amounts]] = {}
        self._usual: dict[tuple[int, int, int], tuple[tuple[Role, ...], Amounts]] = {}
        """What gangs hold that share the record of their one role, by shape and number of members."""
        self._resources = 0

    def amounts(self, slot: int, gang: Gang, seats: tuple[Seats, ...], sign: int, resources: dict[str, int]) -> Amounts:
        """What the gang takes with these seats (sign 1), or gives back (-1): what it was given with."""
        if len(resources) != self._resources:
            self._resources, self._held, self._usual = len(resources), {}, {}
        known = self._held.pop(slot, None)
        if known is None or known[0] is not gang or known[1] is not seats:
            known = gang, seats, self._found(gang, seats, resources)
        if sign > 0:
            self._held[slot] = known
        return known[2]

    def _found(self, gang: Gang, seats: tuple[Seats, ...], resources: dict[str, int]) -> Amounts:
        if len(seats) > 1:
            return _amounts(gang, seats, resources)
        key = id(gang.roles), seats[0].shape, sum(seats[0].counts)
        known = self._usual.get(key)
        if known is None or known[0] is not gang.roles:
            if len(self._usual) >= MOST_USUAL:
                self._usual.clear()
            known = self._usual[key] = gang.roles, _amounts(gang, seats, resources)
        return known[1]


def _amounts(gang: Gang, seats: tuple[Seats, ...], resources: dict[str, int]) -> Amounts:
    wants = [gang.roles[role].shapes[given.shape].ask for role, given in enumerate(seats)]
    asks = [[ask.get(name, 0) for name in resources] for ask in wants]
    return asks, *held_by_asks(len(resources), gang, seats, asks)
