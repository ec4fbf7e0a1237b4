"""How much room is there at most? What no sum allows is not tried."""

from typing import TYPE_CHECKING
from weakref import proxy

import numpy as np

from .cache import Card, Kin
from .place import Outlook

if TYPE_CHECKING:
    from .desk import Desk


class Rooms:
    """What was found out in one decision about room for each kind of gang. It only gets less, until it is forgotten."""

    def __init__(self, desk: "Desk") -> None:
        # A desk that nobody needs any more goes at once, with all its tables.
        self._desk: Desk = proxy(desk)
        self.failed: dict[object, list[tuple[int, int]]] = {}
        """Requests that found no seats: by what they ask, the (members, length) pairs that failed."""
        self.learned = 0
        """How often something was found out that more gangs are hopeless by."""
        self._room: dict[tuple[object, int], int] = {}
        self._past: dict[object, tuple[int, int]] = {}
        """By what is asked: a moment at which a promised stay begins, and room for those who stay past it."""
        self._kin: dict[object, Kin] = {}
        """Kinds of gangs that anybody asked about, by what they ask."""

    def forget(self) -> None:
        """Something was or will be given back."""
        self.failed.clear()
        self._room.clear()
        self._past.clear()

    def is_hopeless(self, card: Card) -> bool:
        """Whether too little is free now, or a gang that asks for no more, for no longer, has found no seats."""
        return card.kin.simple and (card.low > self.room(card) or self.has_failed(card) or self._stays_too_long(card))

    def _stays_too_long(self, card: Card) -> bool:
        """Whether the gang would still be there when a promised stay begins, and there is too little room beside it."""
        known = self._past.get(card.kin.alike)
        return known is not None and card.length > known[0] - self._desk.now and card.low > known[1]

    def has_failed(self, card: Card) -> bool:
        """The same, as far as it was found out in this pass."""
        if not card.kin.simple:
            return False
        if card.low > self._room.get((card.kin.alike, 0), card.low):
            return True
        known = self.failed.get(card.kin.alike)
        return known is not None and any(m <= card.low and n <= card.length for m, n in known)

    def room(self, card: Card, until: int = 0) -> int:
        """The most members that could sit from now until a moment, when this was first asked; it only gets less."""
        known = self._room.get((card.kin.alike, until))
        if known is None:
            need, profile = card.needs[0][0], self._desk.until(until or self._desk.now + 1)
            last = profile.slots(self._desk.now, until)[1] if until else 1
            outlook = Outlook(profile, need, 0, last, self._desk.mask(need, profile))
            known = self._room[card.kin.alike, until] = outlook.capacity()
            self._kin[card.kin.alike] = card.kin
        return known

    def room_past(self, card: Card, moment: int) -> int:
        """No more members than this could sit from now until after the next moment at which a promised stay begins."""
        known = self._past.get(card.kin.alike)
        if known is None or known[0] != moment:
            known = moment, self._find_room_past(card, moment) if card.kin.free else self.room(card, moment + 1)
            self._past[card.kin.alike] = known
            self._kin[card.kin.alike] = card.kin
        return known[1]

    def _find_room_past(self, card: Card, moment: int) -> int:
        need, profile = card.needs[0][0], self._desk.until(self._desk.now + 1)
        mask, weight = self._desk.mask(need, profile), profile.weight[: profile.count]
        later = profile.members_at(moment, need.ask, mask)
        both = np.minimum(profile.members(0, 1, need.ask, mask), later)
        room, coming = int(both @ weight), self._desk.coming(moment)
        if not room or len(coming) != 1 or not coming[0].kin.free:
            return room
        if coming[0].kin.alike == card.kin.alike:
            return min(room, int(later @ weight) - coming[0].low)
        # Whoever is to come may sit wherever there is room: beside as many of them as that, or instead of those who
        # are not needed.
        first = coming[0].needs[0][0]
        most = profile.members_at(moment, first.ask, self._desk.mask(first, profile))
        beside = np.minimum(both, profile.members_beside(moment, need.ask, mask, most, first.ask))
        spare = int(most @ weight) - coming[0].low
        return min(room, int(beside @ weight) + spare * need.replaces(first))

    def note_started(self, card: Card) -> None:
        """Where nothing but room in sum decides, everybody who starts leaves so much less of it."""
        self.learned += 1
        for alike, kin in self._kin.items() if card.kin.free else ():
            less = card.low * card.kin.displaces(kin)
            if less and (alike, 0) in self._room:
                self._room[alike, 0] -= less
            past = self._past.get(alike)
            if less and past is not None and card.length > past[0] - self._desk.now:
                self._past[alike] = past[0], past[1] - less

    def note_hopeless(self, card: Card) -> None:
        """Remember a request that found no seats: until something is given back, a larger one finds none either."""
        # Whoever has nothing left to do asks for nobody, which says nothing about others.
        if card.kin.simple and card.low:
            self.learned += 1
            self.room(card)
            known = self.failed.setdefault(card.kin.alike, [])
            known[:] = [(m, n) for m, n in known if m < card.low or n < card.length]
            known.append((card.low, card.length))
