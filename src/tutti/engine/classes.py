"""Which nodes are interchangeable right now: same kind, same state, same members on them.

A gang of ten thousand members is one computation over a few classes. A start or an end moves nodes from class to
class; a class without nodes is forgotten and its number used again.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import is_, mul
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

Seated = tuple[tuple[int, ...], tuple[int, ...], Sequence[int]]
"""Members of a role on each of these nodes, and what each of them asks for."""
Move = tuple[tuple[int, int, int], Seated]
"""Of which gang, in which role, added (1) or taken away (-1)."""
READY = NodeState.READY
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
        self._open: list[int] | None = None
        """How much of each resource is free on all nodes together; None where nobody has asked since nodes changed."""
        self._is_even = True
        """Whether no node had more taken of it than it has, when that was last counted."""
        self.take_hold()

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
        twin.take_hold()
        return twin

    def take_hold(self) -> None:
        """After columns were replaced. Through these cells, single numbers take half the time."""
        self._of, self._weight, self._free = self.of.data, self.weight.data, self.free.data
        self._kind, self._ready = self.kind.data, self.ready.data

    def open(self) -> list[int]:
        """How much of each resource is free on all nodes together."""
        if self._open is None:
            weight = self.weight[: self.count].tolist()
            free = self.free[:, : self.count]
            self._open = [sum(map(mul, row, weight)) for row in np.maximum(free, 0).tolist()]
            self._is_even = self._open == [sum(map(mul, row, weight)) for row in free.tolist()]
        return self._open

    def counted_open(self) -> list[int] | None:
        """The same, where it is known."""
        return self._open

    def foresee(self, members: int, ask: Sequence[int]) -> bool:
        """So many members will be seated, where there is room for them; False where more must be known to count."""
        if self._open is not None:
            if not self._is_even:
                return False
            for resource, amount in enumerate(ask):
                self._open[resource] -= members * amount
        return True

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
        self.take_hold()

    def add_resource(self) -> None:
        """Make a row for one more resource, of which nobody has any yet."""
        self.free = np.vstack([self.free, np.zeros((1, self.free.shape[1]), np.int64)])
        self.holdings.add_resource()
        self.take_hold()
        self._open = None

    def place(self, node: int, trait: Trait, load: Load, free: Sequence[int]) -> None:
        """Put a node, new or changed, into the class it belongs to."""
        if node >= len(self.of):
            self.make_room(len(self.of) + max(16, len(self.of)))
        self._open = None
        old = self._of[node]
        trait = self._traits.setdefault(trait.key, trait)
        new = self._number.get((trait, load))
        if new is None:
            new = self._born(trait, load)
            self.free[:, new] = free
            if old >= 0:
                self.holdings.inherit(new, old)
        self._of[node] = new
        self._weight[new] += 1
        if old >= 0:
            self._leave(old, 1)

    def make_room(self, nodes: int) -> None:
        """Have room for so many nodes."""
        self.of = np.concatenate([self.of, np.full(nodes - len(self.of), -1, np.int32)])
        self.take_hold()

    def remove(self, node: int) -> None:
        """Take a node out of the partition."""
        old = self._of[node]
        self._of[node] = -1
        self._open = None
        self._leave(old, 1)

    def load(self, node: int) -> Load:
        """What a node carries."""
        return self.loads[self._of[node]]

    def catch_up(self, moves: Iterable[Move]) -> None:
        """Enter what was foreseen: it is counted already."""
        known, self._open = self._open, None
        for (slot, role, sign), (nodes, counts, ask) in moves:
            self.shift(nodes, counts, slot, role, sign, ask)
        self._open = known

    def shift(
        self, nodes: tuple[int, ...], counts: tuple[int, ...], slot: int, role: int, sign: int, ask: Sequence[int]
    ) -> None:
        """Add (sign 1) or take away (sign -1) so many members of a role on each node."""
        of, count = self._of, counts[0]
        many = len(nodes)
        if many > 1 and len(set(nodes)) < many:
            nodes, counts = merged(nodes, counts)
            many = len(nodes)
        old = of[nodes[0]]
        if many == 1 or (many <= FEW and counts.count(count) == many and len(set(map(of.__getitem__, nodes))) == 1):
            new = self._moved(old, many, slot, role, sign * counts[0], ask)
            if new != old:
                for node in nodes:
                    of[node] = new
            return
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
        groups: dict[tuple[int, int], list[int]] = {}
        for node, count in zip(nodes, counts, strict=True):
            groups.setdefault((self._of[node], count), []).append(node)
        for (old, count), group in groups.items():
            yield old, count, group

    def _moved(self, old: int, size: int, slot: int, role: int, change: int, ask: Sequence[int]) -> int:
        """Where so many nodes of a class belong after the change: the same class if all of them alike become new."""
        trait, before = self.traits[old], self.loads[old]
        assert trait is not None
        load = changed(before, slot, role, change)
        if self._open is not None:
            self._count_open(self._open, old, size, change, ask)
        numbers = self._number
        new = numbers.get((trait, load))
        if new is None:
            if self._weight[old] == size:
                del numbers[trait, before]
                numbers[trait, load] = old
                self.loads[old] = load
                self._book(old, old, slot, change, ask)
                return old
            new = self._born(trait, load)
            self._book(new, old, slot, change, ask)
        self._weight[new] += size
        self._leave(old, size)
        return new

    def _count_open(self, total: list[int], old: int, size: int, change: int, ask: Sequence[int]) -> None:
        """So many nodes of a class have that much less that is free, as far as they had it."""
        for resource, amount in enumerate(ask):
            if amount:
                before = self._free[resource, old]
                after = before - change * amount
                total[resource] += size * (max(after, 0) - max(before, 0))

    def _book(self, new: int, old: int, slot: int, change: int, ask: Sequence[int]) -> None:
        """Enter what is free and held on each node of a class that looked like another, or like itself, before.

        Its load has the gang's members, or lacks them, already."""
        free = self._free
        for resource, amount in enumerate(ask):
            free[resource, new] = free[resource, old] - change * amount
        holdings = self.holdings
        if new != old:
            holdings.inherit(new, old, change > 0)
        if change > 0:
            holdings.add(new, slot, change, ask)
        else:
            holdings.take(new, slot, -change, ask, all(entry[0] != slot for entry in self.loads[new]))

    def _born(self, trait: Trait, load: Load) -> int:
        new = self._spare.pop() if self._spare else self._extend()
        self._number[trait, load] = new
        self.loads[new], self.traits[new] = load, trait
        self._kind[new] = trait.kind
        self._ready[new] = trait.state is READY
        self._weight[new] = 0
        return new

    def _leave(self, old: int, size: int) -> None:
        left = self._weight[old] - size
        self._weight[old] = left
        if left == 0:
            trait = self.traits[old]
            assert trait is not None
            del self._number[trait, self.loads[old]]
            self.loads[old], self.traits[old], self._ready[old] = (), None, False
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
            self.take_hold()
        self.loads.append(())
        self.traits.append(None)
        self.holdings.extend()
        return new


def changed(load: Load, slot: int, role: int, change: int) -> Load:
    """The load with so many members of a role more (or fewer)."""
    if not load:
        return ((slot, role, change),)
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
