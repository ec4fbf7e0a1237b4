"""When does the first who cannot start find room, where all nodes are alike? And what is free then?"""

from collections.abc import Iterable

import numpy as np

from .floor import Floor, Held
from .model import NEVER
from .tally import Ints


class Horizon:
    """The earliest start of one gang, and what is free at that moment if nobody else comes.

    It stays true while others come and go, as long as it can be told from them alone: who comes must leave room at that
    moment, and who leaves early must not leave so much that there would be room before it.
    """

    __slots__ = ("_amount", "_members", "_room", "_slack", "moment", "then", "units")

    def __init__(self, members: int, amount: int, moment: int, then: Ints, before: int) -> None:
        """`before` is the most members that find room at any moment before this one."""
        self.moment = moment
        self.then = then
        self.units = int(then.sum())
        """All that is free at that moment."""
        self._members = members
        self._amount = amount
        self._room = int((then // amount).sum())
        self._slack = members - before

    def is_of(self, members: int, amount: int) -> bool:
        """Whether it is known to be the earliest start of a gang that asks for this."""
        if (members, amount) != (self._members, self._amount):
            return False
        return self._room >= members and self._slack > 0

    def ended(self, gone: Held) -> None:
        """A gang ended, most likely before it was expected to."""
        if gone.end > self.moment:
            self._change(gone.where, gone.amounts)
            self.units += gone.units
        if gone.end >= self.moment:
            self._slack -= gone.units // self._amount + gone.nodes

    def began(self, come: Held) -> None:
        """A gang started."""
        if come.end > self.moment:
            self._change(come.where, -come.amounts)
            self.units -= come.units

    def _change(self, where: "int | Ints", amounts: "int | Ints") -> None:
        self._room += added(self.then, where, amounts, self._amount)


def added(free: Ints, where: "int | Ints", amounts: "int | Ints", each: int) -> int:
    """Make more (or less) free on these nodes; for how many members more, who ask for so much each, there is room."""
    if type(where) is int:
        old = free.item(where)
        new = free[where] = old + amounts
        return int(new // each - old // each)
    before = free[where]
    after = free[where] = before + amounts
    return int((after // each - before // each).sum())


def earliest(ends: Iterable[Held], floor: Floor, members: int, amount: int) -> Horizon | None:
    """The first moment at which so many members find room, when all that runs ends as expected, the first one first."""
    then, units, room, before = floor.free.copy(), floor.units, -1, 0
    moment = 0
    for gone in ends:
        if gone.end > moment:
            if room >= members:
                break
            moment, before = gone.end, room if room >= 0 else min(units // amount, members - 1)
        if gone.end >= NEVER:
            return None
        units += gone.units
        if room >= 0:
            room += added(then, gone.where, gone.amounts, amount)
        else:
            then[gone.where] += gone.amounts
            if units >= members * amount:
                room = int(np.floor_divide(then, amount).sum())
    return Horizon(members, amount, moment, then, before) if room >= members else None
