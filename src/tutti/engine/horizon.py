"""When does the first who cannot start find room, where all nodes are alike? And what is free then?"""

from collections.abc import Iterable

from .floor import Floor, Held, Levels, lift, room_in
from .model import NEVER


class Horizon:
    """The earliest start of one gang, and what is free at that moment if nobody else comes.

    It stays true while others come and go, as long as it can be told from them alone: who comes must leave room at that
    moment, and who leaves early must not leave so much that there would be room before it.
    """

    __slots__ = ("_amount", "_members", "_room", "_slack", "moment", "then", "units")

    def __init__(self, members: int, amount: int, moment: int, then: Floor, before: int) -> None:
        """`before` is the most members that find room at any moment before this one."""
        self.moment = moment
        self.then = then.levels
        self.units = then.units
        """All that is free at that moment."""
        self._members = members
        self._amount = amount
        self._room = room_in(self.then, amount)
        self._slack = members - before

    def is_of(self, members: int, amount: int) -> bool:
        """Whether it is known to be the earliest start of a gang that asks for this."""
        if members != self._members or amount != self._amount:
            return False
        return self._room >= members and self._slack > 0

    def ended(self, gone: Held) -> None:
        """A gang ended, most likely before it was expected to."""
        if gone.end > self.moment:
            self._room += added(self.then, gone, 1, self._amount)
            self.units += gone.units
        if gone.end >= self.moment:
            self._slack -= gone.units // self._amount + gone.nodes

    def began(self, come: Held) -> None:
        """A gang started."""
        if come.end > self.moment:
            self._room += added(self.then, come, -1, self._amount)
            self.units -= come.units


def added(levels: Levels, changed: Held, sign: int, each: int) -> int:
    """Give back what somebody takes, or (-1) let them take it; for how many members more, who ask for so much each,
    there is room."""
    room = 0
    for amount, nodes in changed.parts:
        for free, some in lift(levels, nodes, sign * amount):
            more = max(free + sign * amount, 0) // each - max(free, 0) // each
            if more:
                room += more * some.bit_count()
    return room


def earliest(ends: Iterable[Held], floor: Floor, members: int, amount: int) -> Horizon | None:
    """The first moment at which so many members find room, when all that runs ends as expected, the first one first."""
    then, room, before, moment = floor.copy(), -1, 0, 0
    for gone in ends:
        if gone.end > moment:
            if room >= members:
                break
            moment, before = gone.end, room if room >= 0 else min(then.units // amount, members - 1)
        if gone.end >= NEVER:
            return None
        if room >= 0:
            then.units += gone.units
            room += added(then.levels, gone, 1, amount)
        else:
            then.give(gone)
            if then.units >= members * amount:
                room = then.room(amount)
    return Horizon(members, amount, moment, then, before) if room >= members else None
