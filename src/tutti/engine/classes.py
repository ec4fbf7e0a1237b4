"""Which nodes are interchangeable right now: same kind, same state, same members on them.

A gang of ten thousand members is one computation over a few classes. A start or an end moves nodes from class to
class; a class without nodes is forgotten and its number used again.
"""

from collections.abc import Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from .holdings import Holdings
from .model import Node, NodeState

if TYPE_CHECKING:
    from .view import View

Load = tuple[tuple[int, int, int], ...]
"""What each node of a class carries: (gang slot, role, members), sorted."""

FEW = 100
"""Up to this many nodes plain loops beat array calls."""
Nodes = list[int] | NDArray[np.int64]
Key = tuple[int, NodeState, tuple[tuple[str, int], ...], tuple[str, ...], tuple[int, ...]]
"""All that is said of a trait."""


class Trait:
    """What the nodes of a class have in common apart from the members they carry."""

    __slots__ = ("__weakref__", "faults", "foreign", "foreign_marks", "key", "kind", "state")

    def __init__(self, kind: int, node: Node) -> None:
        self.kind = kind
        self.state = node.state
        self.foreign = node.foreign
        self.foreign_marks = node.foreign_marks
        self.faults = node.faults
        self.key: Key = (kind, node.state, tuple(sorted(node.foreign.items())), node.foreign_marks, node.faults)


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
        self.holdings = Holdings()
        self._columns: tuple[NDArray[Any], ...] = ()
        self._shown: tuple[NDArray[Any], ...] = ()
        self._traits: WeakValueDictionary[Key, Trait] = WeakValueDictionary()
        """Every trait once, so that two of them are alike only if they are the same."""
        self._number: dict[tuple[Trait, Load], int] = {}
        self._spare: list[int] = []

    @classmethod
    def like(cls, view: "View") -> "Classes":
        """A partition of its own that looks like a view's."""
        twin = cls()
        twin.of, twin.weight, twin.free = view.class_of.copy(), view.class_weight.copy(), view.class_free.copy()
        twin.kind, twin.ready = view.class_kind.copy(), view.class_ready.copy()
        twin.loads, twin.traits = view.loads.copy(), view.traits.copy()
        twin.count = len(view.loads)
        twin.holdings = Holdings.of(view.entry_class, view.entry_slot, view.entry_amount, twin.count)
        known = list(enumerate(zip(twin.traits, twin.loads, strict=True)))
        twin._number = {(trait, load): at for at, (trait, load) in known if trait is not None}
        twin._traits.update({trait.key: trait for trait in twin.traits if trait is not None})
        twin._spare = [at for at, (trait, _) in known if trait is None]
        return twin

    def shown(self) -> tuple["NDArray[Any]", ...]:
        """The columns as a view sees them: the same numbers, but nobody can write to them."""
        held = self.holdings
        columns = (self.of, self.weight, self.free, self.kind, self.ready, held.owner, held.slot, held.amount)
        if not self._columns or not all(map(is_, columns, self._columns)):
            self._columns, self._shown = columns, tuple(_read_only(column) for column in columns)
        return self._shown

    def detach(self) -> None:
        """Leave the present arrays to whoever is looking at them and go on with copies."""
        self.of, self.weight, self.free = self.of.copy(), self.weight.copy(), self.free.copy()
        self.kind, self.ready = self.kind.copy(), self.ready.copy()
        self.loads, self.traits = self.loads.copy(), self.traits.copy()
        self.holdings.detach()

    def add_resource(self) -> None:
        """Make a row for one more resource, of which nobody has any yet."""
        self.free = np.vstack([self.free, np.zeros((1, self.free.shape[1]), np.int64)])
        self.holdings.add_resource()

    def place(self, node: int, trait: Trait, load: Load, free: Sequence[int]) -> None:
        """Put a node, new or changed, into the class it belongs to."""
        if node >= len(self.of):
            self.of = np.concatenate([self.of, np.full(max(16, len(self.of)), -1, np.int32)])
        old = self.of.item(node)
        trait = self._traits.setdefault(trait.key, trait)
        new = self._number.get((trait, load))
        if new is None:
            new = self._born(trait, load)
            self.free[:, new] = free
            if old >= 0:
                self.holdings.inherit(new, old)
        self.of[node] = new
        self.weight[new] += 1
        if old >= 0:
            self._leave(old, 1)

    def remove(self, node: int) -> None:
        """Take a node out of the partition."""
        old = self.of.item(node)
        self.of[node] = -1
        self._leave(old, 1)

    def load(self, node: int) -> Load:
        """What a node carries."""
        return self.loads[self.of.item(node)]

    def shift(
        self, nodes: tuple[int, ...], counts: tuple[int, ...], slot: int, role: int, sign: int, ask: Sequence[int]
    ) -> None:
        """Add (sign 1) or take away (sign -1) so many members of a role on each node."""
        if len(nodes) == 1:
            old = self.of.item(nodes[0])
            new = self._moved(old, 1, slot, role, sign * counts[0], ask)
            if new != old:
                self.of[nodes[0]] = new
            return
        if len(set(nodes)) < len(nodes):
            nodes, counts = merged(nodes, counts)
        for old, count, group in self._alike(nodes, counts):
            new = self._moved(old, len(group), slot, role, sign * count, ask)
            if new != old:
                self.of[group] = new

    def _alike(self, nodes: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[tuple[int, int, Nodes]]:
        """Classes, members on each node, and the nodes of the class that get so many."""
        if len(nodes) <= FEW:
            yield from self._few_alike(list(nodes), counts)
            return
        where = np.array(nodes)
        pairs = self.of[where].astype(np.int64) << 32 | np.array(counts)
        order = pairs.argsort(kind="stable")
        ranked = pairs[order]
        first = np.flatnonzero(np.diff(ranked, prepend=-1))
        for pair, group in zip(ranked[first].tolist(), np.split(where[order], first[1:]), strict=True):
            yield pair >> 32, pair & 0xFFFFFFFF, group

    def _few_alike(self, nodes: list[int], counts: tuple[int, ...]) -> Iterator[tuple[int, int, Nodes]]:
        classes = self.of[nodes].tolist()
        if len(set(classes)) == 1 and len(set(counts)) == 1:
            yield classes[0], counts[0], nodes
            return
        groups: dict[tuple[int, int], list[int]] = {}
        for node, pair in zip(nodes, zip(classes, counts, strict=True), strict=True):
            groups.setdefault(pair, []).append(node)
        for (old, count), group in groups.items():
            yield old, count, group

    def _moved(self, old: int, size: int, slot: int, role: int, change: int, ask: Sequence[int]) -> int:
        """Where so many nodes of a class belong after the change: the same class if all of them alike become new."""
        trait, load = self.traits[old], changed(self.loads[old], slot, role, change)
        assert trait is not None
        new = self._number.get((trait, load))
        left = self.weight.item(old) - size
        if new is None and not left:
            del self._number[trait, self.loads[old]]
            self._number[trait, load] = new = old
            self.loads[old] = load
            self._book(old, slot, change, ask)
            return old
        if new is None:
            new = self._born(trait, load)
            self.free[:, new] = self.free[:, old]
            self.holdings.inherit(new, old, change > 0)
            self._book(new, slot, change, ask)
        self.weight[new] = self.weight.item(new) + size
        self._leave(old, size)
        return new

    def _book(self, number: int, slot: int, change: int, ask: Sequence[int]) -> None:
        """Add (or take away) a gang's members on each node of a class whose load says so already."""
        free = self.free
        for resource, amount in enumerate(ask):
            if amount:
                free[resource, number] -= change * amount
        if change > 0:
            self.holdings.add(number, slot, change, ask)
        else:
            self.holdings.take(number, slot, -change, ask, all(entry[0] != slot for entry in self.loads[number]))

    def _born(self, trait: Trait, load: Load) -> int:
        new = self._spare.pop() if self._spare else self._extend()
        self._number[trait, load] = new
        self.loads[new], self.traits[new] = load, trait
        self.kind[new] = trait.kind
        self.ready[new] = trait.state is NodeState.READY
        self.weight[new] = 0
        return new

    def _leave(self, old: int, size: int) -> None:
        left = self.weight.item(old) - size
        self.weight[old] = left
        if left == 0:
            trait = self.traits[old]
            assert trait is not None
            del self._number[trait, self.loads[old]]
            self.loads[old], self.traits[old], self.ready[old] = (), None, False
            self._spare.append(old)
            self.holdings.drop(old)

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
        self.holdings.extend()
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
