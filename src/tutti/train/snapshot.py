"""Taking a snapshot: the live tensors are copied into a slot that is not being read, and the slot is sealed last."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch

from tutti.train import plain
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.agent.slots import Busy, Label, Slot
from tutti.train.boxes import Box, share_rows
from tutti.train.bulk import WORTH_BYTES, are_equal, copy_all
from tutti.train.state import Leaf

ALIGN = 64


@dataclass(frozen=True)
class Part:
    """What a rank puts into its slot of one tensor."""

    name: str
    box: Box
    at: int
    size: int


@dataclass(frozen=True)
class Layout:
    """Where everything goes in a slot; the same for all snapshots of a generation."""

    parts: tuple[Part, ...]
    data_bytes: int
    text: bytes


def lay_out(leaves: dict[str, Leaf], rank: int, world: int) -> Layout:
    """A rank keeps its own shards whole, and its share of what everyone in its failure domain has."""
    shared = {name: leaf for name, leaf in leaves.items() if leaf.is_shared}
    shares = share_rows(
        {name: leaf.shape for name, leaf in shared.items()},
        {name: max(1, leaf.bytes_whole) for name, leaf in shared.items()},
        rank,
        world,
    )
    return arrange({name: shares.get(name) if leaf.is_shared else leaf.box for name, leaf in leaves.items()}, leaves)


def lay_out_shards(leaves: dict[str, Leaf]) -> Layout:
    """Only what no other rank has: what a buddy keeps a copy of."""
    return arrange({name: None if leaf.is_shared else leaf.box for name, leaf in leaves.items()}, leaves)


def arrange(boxes: dict[str, Box | None], leaves: dict[str, Leaf]) -> Layout:
    """These boxes one behind the other."""
    parts, at = [], 0
    for name, box in boxes.items():
        if box is None or box.elements == 0:
            continue
        size = box.elements * leaves[name].tensor.element_size()
        parts.append(Part(name, box, at, size))
        at += -(-size // ALIGN) * ALIGN
    return Layout(tuple(parts), at, describe(parts, leaves))


def describe(parts: list[Part], leaves: dict[str, Leaf]) -> bytes:
    """The part of the table that says which tensor is where, and what every tensor of the whole state is."""
    held = {part.name: [[part.box.offsets, part.box.sizes, part.at]] for part in parts}
    every = {name: [str(leaf.tensor.dtype).removeprefix("torch."), leaf.shape] for name, leaf in leaves.items()}
    return json.dumps({"held": held, "every": every}, separators=(",", ":")).encode()


def table_of(layout: bytes, rest: bytes) -> bytes:
    """The table of a slot: where its tensors are, and the state beside them."""
    return b'{"layout":' + layout + b',"rest":' + rest + b"}"


class Camera:
    """Takes the snapshots of one member."""

    def __init__(self, shelf: Shelf, entry: Entry) -> None:
        self.slots = list(shelf.open(entry, is_filled=True))
        self.cost_s = 0.0
        self.complete = -1
        self._views: dict[int, tuple[Layout, list[torch.Tensor]]] = {}
        self._seen: dict[int, list[int]] = {}
        self.is_comparing = True
        self._copy_rate = 0.0

    def take(self, label: Label, leaves: dict[str, Leaf], layout: Layout, rest: dict[str, Any] | bytes) -> bool:
        """Snapshot now, with the state beside the tensors (or its text); False when every slot but the newest is being
        read.
        """
        began = time.perf_counter()
        table = table_of(layout.text, rest if isinstance(rest, bytes) else plain.dumps(rest))
        label = Label(label.generation, label.step, label.layout, layout.data_bytes, len(table))
        for number in writable(self.slots, self.complete):
            try:
                with self.slots[number].writing(label, table):
                    self._copy(number, leaves, layout)
            except Busy:
                continue
            taken = time.perf_counter() - began
            self.cost_s = taken if not self.cost_s else 0.7 * self.cost_s + 0.3 * taken
            return True
        return False

    def close(self) -> None:
        self._views.clear()
        for slot in self.slots:
            slot.close()

    def _copy(self, number: int, leaves: dict[str, Leaf], layout: Layout) -> None:
        views = self._view(number, leaves, layout)
        live = [cut(leaves[part.name], part.box) for part in layout.parts]
        # The local part of a shard is a new view each time, whose version says nothing.
        now = [live[at]._version if leaves[part.name].is_shared else -1 for at, part in enumerate(layout.parts)]
        before = self._seen.get(number) or [-1] * len(views)
        still = [at for at, version in enumerate(now) if version == before[at] >= 0]
        began = time.perf_counter()
        # A version alone is no proof, because a write through `.data` does not count; so both are compared.
        same = set(compress(still, are_equal((views[at], live[at]) for at in still if self.is_comparing)))
        compared = time.perf_counter()
        self._seen[number] = now
        copy_all((views[at], live[at]) for at in range(len(views)) if at not in same)
        looked = sum(live[at].nbytes for at in same)
        self._learn(looked, compared - began, layout.data_bytes - looked, time.perf_counter() - compared)

    def _learn(self, looked: int, looked_s: float, copied: int, copied_s: float) -> None:
        """Looking is given up where it takes longer than copying; small amounts say nothing."""
        if copied >= WORTH_BYTES:
            self._copy_rate = max(self._copy_rate, copied / copied_s)
        if looked >= WORTH_BYTES and looked / looked_s < self._copy_rate:
            self.is_comparing = False

    def _view(self, number: int, leaves: dict[str, Leaf], layout: Layout) -> list[torch.Tensor]:
        # The layout itself is kept beside its views: the address of one that is gone may be another's by now.
        known = self._views.get(number)
        if known is None or known[0] is not layout:
            self._seen.pop(number, None)
            data = self.slots[number].data
            views = [view_of(data, part.at, leaves[part.name].tensor.dtype, part.box) for part in layout.parts]
            known = self._views[number] = (layout, views)
        return known[1]


def writable(slots: Sequence[Slot], complete: int) -> list[int]:
    """Which slots may be written, the best first. Never the newest part of the step that is known to be complete on all
    ranks (where there is none, the newest): until another is complete it is what we would go back to.
    """
    labels = [slot.label() for slot in slots]
    ages = [(label.step, label.generation) if label else (-1, -1) for label in labels]
    kept = max(range(len(ages)), key=lambda number: (ages[number][0] == complete >= 0, ages[number]))
    ordered = sorted(range(len(ages)), key=lambda number: ages[number])
    return [number for number in ordered if number != kept] or ordered


def view_of(data: memoryview, at: int, dtype: torch.dtype, box: Box) -> torch.Tensor:
    """A tensor over the bytes of a slot."""
    return torch.frombuffer(data, dtype=dtype, count=box.elements, offset=at).view(box.sizes)


def cut(leaf: Leaf, box: Box) -> torch.Tensor:
    """The part of a live tensor that a box names."""
    return leaf.tensor[box.within(leaf.box)] if leaf.shape else leaf.tensor
