"""Seats taken and given back, entered into the classes of nodes when somebody looks at them.

Who came and went before anybody looked leaves no trace, and costs next to nothing.
"""

from collections.abc import Sequence

from .classes import Classes, Seated


class Late:
    """The classes, and what is still to be entered into them."""

    def __init__(self, classes: Classes | None = None) -> None:
        self._classes = classes or Classes()
        self._moves: dict[tuple[int, int, int], Seated] = {}
        """By gang, role and sign, in the order in which they happened."""

    def settled(self) -> Classes:
        """The classes as they are now."""
        if self._moves:
            moves, self._moves = self._moves, {}
            self._classes.catch_up(moves.items())
        return self._classes

    def shift(
        self, nodes: tuple[int, ...], counts: tuple[int, ...], slot: int, role: int, sign: int, ask: Sequence[int]
    ) -> None:
        """Add (sign 1) or take away (sign -1) so many members of a role on each node."""
        moves = self._moves
        if not self._classes.foresee(sum(counts) * sign, ask):
            self.settled().shift(nodes, counts, slot, role, sign, ask)
            return
        if sign < 0 and (come := moves.get((slot, role, 1))) is not None and come[0] is nodes and come[1] is counts:
            del moves[slot, role, 1]
            return
        if (slot, role, 1) in moves or (slot, role, sign) in moves:
            self.settled()
        self._moves[slot, role, sign] = nodes, counts, ask

    def open(self, resource: int) -> int:
        """How much of a resource is free on all nodes together."""
        known = self._classes.counted_open()
        return (self.settled().open() if known is None else known)[resource]
