"""Which nodes are interchangeable right now: same kind, same state, same members on them.

A gang of ten thousand members is one computation over a few classes. A start or an end moves nodes from class to
class; a class without nodes is forgotten and its number used again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .model import Node, NodeState

if TYPE_CHECKING:
    from .view import View

Load = tuple[tuple[int, int, int], ...]
"""What each node of a class carries: (gang slot, role, members), sorted."""

SMALL = 12
"""Below this many nodes plain loops beat array calls."""


class Trait:
    """What the nodes of a class have in common apart from the members they carry."""

    __slots__ = ("faults", "foreign", "foreign_marks", "key", "kind", "state")

    def __init__(self, kind: int, node: Node) -> None:
        self.kind = kind
        self.state = node.state
        self.foreign = node.foreign
        self.foreign_marks = node.foreign_marks
        self.faults = node.faults
        self.key = (kind, node.state, tuple(sorted(node.foreign.items())), node.foreign_marks, node.faults)


class Classes:
    """The partition of the nodes, kept up to date member by member."""

    def __init__(self) -> None:
        self.of: NDArray[np.int32] = np.zeros(0, np.int32)
        """Class of each node."""
        self.weight: NDArray[np.int64] = np.zeros(0, np.int64)
        self.free: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        """Free amount by resource and class."""
        self.kind: NDArray[np.int32] = np.zeros(0, np.int32)
        self.ready: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.loads: list[Load] = []
        self.traits: list[Trait | None] = []
        self.count = 0
        self.entry_class: NDArray[np.int32] = np.full(64, -1, np.int32)
        """Every (class, gang) pair once, in no order: the class (-1 where nothing is), the gang, the amounts held."""
        self.entry_slot: NDArray[np.int32] = np.zeros(64, np.int32)
        self.entry_amount: NDArray[np.int64] = np.zeros((0, 64), np.int64)
        self.entries = 0
        self._shown: tuple[NDArray[Any], ...] = ()
        self._block: list[tuple[int, int]] = []
        self._dead = 0
        self._by_key: dict[tuple[object, ...], int] = {}
        self._spare: list[int] = []

    @classmethod
    def like(cls, view: "View") -> "Classes":
        """A partition of its own that looks like a view's."""
        twin = cls()
        twin.of, twin.weight, twin.free = view.class_of.copy(), view.class_weight.copy(), view.class_free.copy()
        twin.kind, twin.ready = view.class_kind.copy(), view.class_ready.copy()
        twin.loads, twin.traits = view.loads.copy(), view.traits.copy()
        twin.entry_class, twin.entry_slot = view.entry_class.copy(), view.entry_slot.copy()
        twin.entry_amount = view.entry_amount.copy()
        twin.count, twin.entries = len(view.loads), len(view.entry_class)
        known = list(enumerate(zip(twin.traits, twin.loads, strict=True)))
        twin._by_key = {(trait.key, load): at for at, (trait, load) in known if trait is not None}
        twin._spare = [at for at, (trait, _) in known if trait is None]
        twin._compact()
        return twin

    def shown(self) -> tuple["NDArray[Any]", ...]:
        """The columns as a view sees them: the same numbers, but nobody can write to them."""
        columns = (
            self.of,
            self.weight,
            self.free,
            self.kind,
            self.ready,
            self.entry_class,
            self.entry_slot,
            self.entry_amount,
        )
        if not self._shown or any(twin.base is not column for twin, column in zip(self._shown, columns, strict=True)):
            self._shown = tuple(_read_only(column) for column in columns)
        return self._shown

    def detach(self) -> None:
        """Leave the present arrays to whoever is looking at them and go on with copies."""
        self.of, self.weight, self.free = self.of.copy(), self.weight.copy(), self.free.copy()
        self.kind, self.ready = self.kind.copy(), self.ready.copy()
        self.loads, self.traits = self.loads.copy(), self.traits.copy()
        self.entry_class, self.entry_slot = self.entry_class.copy(), self.entry_slot.copy()
        self.entry_amount = self.entry_amount.copy()

    def add_resource(self) -> None:
        """Make a row for one more resource, of which nobody has any yet."""
        self.free = np.vstack([self.free, np.zeros((1, self.free.shape[1]), np.int64)])
        self.entry_amount = np.vstack([self.entry_amount, np.zeros((1, self.entry_amount.shape[1]), np.int64)])

    def place(self, node: int, trait: Trait, load: Load, free: Sequence[int]) -> None:
        """Put a node, new or changed, into the class it belongs to."""
        if node >= len(self.of):
            self.of = np.concatenate([self.of, np.full(max(16, len(self.of)), -1, np.int32)])
        old = int(self.of[node])
        new = self._by_key.get((trait.key, load))
        if new is None:
            new = self._born(trait, load)
            self.free[:, new] = free
            if old >= 0:
                self._inherit(new, old)
        self.of[node] = new
        self.weight[new] += 1
        if old >= 0:
            self._leave(old, 1)

    def remove(self, node: int) -> None:
        """Take a node out of the partition."""
        old = int(self.of[node])
        self.of[node] = -1
        self._leave(old, 1)

    def load(self, node: int) -> Load:
        """What a node carries."""
        return self.loads[int(self.of[node])]

    def shift(
        self, nodes: tuple[int, ...], counts: tuple[int, ...], slot: int, role: int, sign: int, ask: Sequence[int]
    ) -> None:
        """Add (sign 1) or take away (sign -1) so many members of a role on each node."""
        if len(nodes) <= SMALL:
            for node, count in zip(nodes, counts, strict=True):
                old = int(self.of[node])
                self.of[node] = new = self._next(old, slot, role, sign * count, ask)
                self.weight[new] += 1
                self._leave(old, 1)
            return
        if len(set(nodes)) < len(nodes):
            nodes, counts = merged(nodes, counts)
        where, many = np.array(nodes), np.array(counts)
        old_classes = self.of[where]
        pairs, inverse, sizes = np.unique(
            old_classes.astype(np.int64) << 32 | many, return_inverse=True, return_counts=True
        )
        targets = [self._next(int(pair >> 32), slot, role, sign * int(pair & 0xFFFFFFFF), ask) for pair in pairs]
        self.of[where] = np.array(targets, np.int32)[inverse]
        # All arrive before anybody leaves: a class that is left may be where others arrive.
        for target, size in zip(targets, sizes, strict=True):
            self.weight[target] += size
        for pair, size in zip(pairs, sizes, strict=True):
            self._leave(int(pair >> 32), int(size))

    def _next(self, old: int, slot: int, role: int, change: int, ask: Sequence[int]) -> int:
        load = changed(self.loads[old], slot, role, change)
        trait = self.traits[old]
        assert trait is not None
        new = self._by_key.get((trait.key, load))
        if new is None:
            new = self._born(trait, load)
            free = self.free
            for r, amount in enumerate(ask):
                free[r, new] = free[r, old] - change * amount
            start = self._inherit(new, old)
            self._book(new, start, slot, change, ask)
        return new

    def _inherit(self, new: int, old: int) -> int:
        """Give a new class the entries of the one it comes from."""
        begin, length = self._block[old]
        start = self.entries
        end = start + length
        self._room_for(end + 1)
        self.entry_class[start:end] = new
        self.entry_slot[start:end] = self.entry_slot[begin : begin + length]
        self.entry_amount[:, start:end] = self.entry_amount[:, begin : begin + length]
        self.entries = end
        self._block[new] = (start, length)
        return start

    def _book(self, new: int, start: int, slot: int, change: int, ask: Sequence[int]) -> None:
        """Add (or take away) a gang's members in the entries of a class that was just made."""
        length = self._block[new][1]
        held = self.entry_slot[start : start + length].tolist()
        at = start + (held.index(slot) if slot in held else length)
        if at == start + length:
            self.entry_class[at], self.entry_slot[at] = new, slot
            self.entry_amount[:, at] = 0
            self._block[new] = (start, length + 1)
            self.entries += 1
        for r, amount in enumerate(ask):
            self.entry_amount[r, at] += change * amount
        if not any(s == slot for s, _, _ in self.loads[new]):
            last = start + self._block[new][1] - 1
            self.entry_slot[at] = self.entry_slot[last]
            self.entry_amount[:, at] = self.entry_amount[:, last]
            self.entry_class[last] = -1
            self.entries = last
            self._block[new] = (start, last - start)

    def _room_for(self, entries: int) -> None:
        more = len(self.entry_class)
        if entries > more:
            self.entry_class = np.concatenate([self.entry_class, np.full(more, -1, np.int32)])
            self.entry_slot = np.concatenate([self.entry_slot, np.zeros(more, np.int32)])
            self.entry_amount = np.hstack([self.entry_amount, np.zeros((len(self.entry_amount), more), np.int64)])

    def _compact(self) -> None:
        """Close the holes that classes left behind."""
        keep = np.flatnonzero(self.entry_class[: self.entries] >= 0)
        keep = keep[np.argsort(self.entry_class[keep], kind="stable")]
        owners = self.entry_class[keep]
        starts = np.searchsorted(owners, np.arange(self.count))
        lengths = np.searchsorted(owners, np.arange(self.count), side="right") - starts
        self._block = list(zip(starts.tolist(), lengths.tolist(), strict=True))
        self.entries, self._dead = len(keep), 0
        self.entry_slot[: len(keep)] = self.entry_slot[keep]
        self.entry_amount[:, : len(keep)] = self.entry_amount[:, keep]
        self.entry_class[: len(keep)] = owners
        self.entry_class[len(keep) :] = -1

    def _born(self, trait: Trait, load: Load) -> int:
        new = self._spare.pop() if self._spare else self._extend()
        self._by_key[trait.key, load] = new
        self.loads[new], self.traits[new] = load, trait
        self.kind[new] = trait.kind
        self.ready[new] = trait.state is NodeState.READY
        self.weight[new] = 0
        self._block[new] = (self.entries, 0)
        return new

    def _leave(self, old: int, size: int) -> None:
        left = self.weight[old] - size
        self.weight[old] = left
        if left == 0:
            trait = self.traits[old]
            assert trait is not None
            del self._by_key[trait.key, self.loads[old]]
            self.loads[old], self.traits[old], self.ready[old] = (), None, False
            self._spare.append(old)
            begin, length = self._block[old]
            self.entry_class[begin : begin + length] = -1
            self._dead += length
            if self._dead > 1024 and self._dead * 2 > self.entries:
                self._compact()

    def _extend(self) -> int:
        new = self.count
        self.count += 1
        if new >= len(self.weight):
            more = max(16, len(self.weight) // 4)
            self.weight = np.concatenate([self.weight, np.zeros(more, np.int64)])
            self.kind = np.concatenate([self.kind, np.zeros(more, np.int32)])
            self.ready = np.concatenate([self.ready, np.zeros(more, np.bool_)])
            self.free = np.hstack([self.free, np.zeros((len(self.free), more), np.int64)])
        self.loads.append(())
        self.traits.append(None)
        self._block.append((0, 0))
        return new


def changed(load: Load, slot: int, role: int, change: int) -> Load:
    """The load with so many members of a role more (or fewer)."""
    for at, (other, its_role, members) in enumerate(load):
        if other == slot and its_role == role:
            left = members + change
            return (*load[:at], *(((slot, role, left),) if left else ()), *load[at + 1 :])
    return tuple(sorted((*load, (slot, role, change))))


def merged(nodes: tuple[int, ...], counts: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same members with each node named once."""
    total: dict[int, int] = {}
    for node, count in zip(nodes, counts, strict=True):
        total[node] = total.get(node, 0) + count
    return tuple(total), tuple(total.values())


def _read_only(column: "NDArray[Any]") -> "NDArray[Any]":
    twin = column.view()
    twin.flags.writeable = False
    return twin
