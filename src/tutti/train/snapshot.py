"""Taking a snapshot: the live tensors are copied into a slot that is not being read, and the slot is sealed last."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch

from tutti.train import plain
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.agent.slots import Busy, Label, Slot
from tutti.train.boxes import Box, Shape, share_rows
from tutti.train.bulk import WORTH_BYTES, Copies, are_equal, is_plain
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
    return arrange(own_boxes(leaves, rank, world), leaves)


def own_boxes(leaves: dict[str, Leaf], rank: int, world: int) -> dict[str, Box | None]:
    """What a rank keeps of each tensor."""
    shared = {name: leaf for name, leaf in leaves.items() if leaf.is_shared}
    shares = share_rows(
        {name: leaf.shape for name, leaf in shared.items()},
        {name: max(1, leaf.bytes_whole) for name, leaf in shared.items()},
        rank,
        world,
    )
    return {name: shares.get(name) if leaf.is_shared else leaf.box for name, leaf in leaves.items()}


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
    """Two lines of the table: which tensor is where, and what every tensor of the whole state is."""
    held = {part.name: [[part.box.offsets, part.box.sizes, part.at]] for part in parts}
    return layout_of(held, {name: (name_of(leaf.tensor.dtype), leaf.shape) for name, leaf in leaves.items()})


def layout_of(held: dict[str, list[Any]], every: Mapping[str, tuple[str, Shape]]) -> bytes:
    """The same from records. The second line is one for all ranks, which then read it once."""
    return b"\n".join(json.dumps(part, separators=(",", ":")).encode() for part in (held, every))


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def table_of(layout: bytes, rest: bytes) -> bytes:
    """The table of a slot: where its tensors are, and in a last line the state beside them."""
    return layout + b"\n" + rest


Kept = tuple[int, int]
"""A step, and the generation that kept it: the parts of another generation are other parts."""
NO_STEP: Kept = (-1, -1)


class Camera:
    """Takes the snapshots of one member."""

    def __init__(self, shelf: Shelf, entry: Entry) -> None:
        self.slots = list(shelf.open(entry, is_filled=True))
        self.complete = NO_STEP
        self._frames: dict[int, Frame] = {}
        self.is_comparing = True
        self._copy_rate = 0.0

    def take(self, label: Label, leaves: dict[str, Leaf], layout: Layout, rest: dict[str, Any] | bytes) -> bool:
        """Snapshot now, with the state beside the tensors (or its text); False when every slot but the newest is being
        read.
        """
        table = table_of(layout.text, rest if isinstance(rest, bytes) else plain.dumps(rest))
        label = Label(label.generation, label.step, label.layout, layout.data_bytes, len(table))
        for number in writable(self.slots, self.complete):
            try:
                with self.slots[number].writing(label, table):
                    self._copy(number, leaves, layout)
            except Busy:
                continue
            return True
        return False

    def close(self) -> None:
        self._frames.clear()
        for slot in self.slots:
            slot.close()

    def _copy(self, number: int, leaves: dict[str, Leaf], layout: Layout) -> None:
        frame = self._frame(number, leaves, layout)
        now = frame.versions()
        still = [at for at, version in enumerate(now) if version == frame.seen[at] >= 0]
        began = time.perf_counter()
        # A version alone is no proof, because a write through `.data` does not count; so both are compared.
        same = set(compress(still, are_equal([frame.runs[at] for at in still]) if self.is_comparing else ()))
        compared = time.perf_counter()
        frame.seen = now
        copy_parts(frame, [at for at in range(len(now)) if at not in same])
        looked = sum(frame.runs[at][2] for at in same)
        self._learn(looked, compared - began, layout.data_bytes - looked, time.perf_counter() - compared)

    def _learn(self, looked: int, looked_s: float, copied: int, copied_s: float) -> None:
        """Looking is given up where it takes longer than copying; small amounts say nothing."""
        if copied >= WORTH_BYTES:
            self._copy_rate = max(self._copy_rate, copied / copied_s)
        if looked >= WORTH_BYTES and looked / looked_s < self._copy_rate:
            self.is_comparing = False

    def _frame(self, number: int, leaves: dict[str, Leaf], layout: Layout) -> Frame:
        known = self._frames.get(number)
        if known is None or known.layout is not layout or known.leaves is not leaves:
            seen = known.seen if known is not None and known.layout is layout else []
            known = self._frames[number] = Frame(self.slots[number].data, leaves, layout, seen)
        return known


class Frame:
    """Where everything goes in one slot, worked out once for as long as tensors and layout are the same objects."""

    def __init__(self, data: memoryview, leaves: dict[str, Leaf], layout: Layout, seen: list[int]) -> None:
        self.leaves, self.layout = leaves, layout
        self.live = [cut(leaves[part.name], part.box) for part in layout.parts]
        self.views = [view_of(data, part.at, leaves[part.name].tensor.dtype, part.box) for part in layout.parts]
        pairs = list(zip(self.views, self.live, strict=True))
        self.is_plain = [is_plain(*pair) for pair in pairs]
        self.runs = [(view.data_ptr(), live.data_ptr(), view.nbytes) for view, live in pairs]
        # The local part of a shard is a new view each time, whose version says nothing; other memory is not compared.
        self.has_version = [
            leaves[part.name].is_shared and is_plain for part, is_plain in zip(layout.parts, self.is_plain, strict=True)
        ]
        self.seen = seen or [-1] * len(pairs)

    def versions(self) -> list[int]:
        """How often torch has seen each tensor change; -1 where it does not know."""
        return [live._version if known else -1 for live, known in zip(self.live, self.has_version, strict=True)]


def copy_parts(frame: Frame, parts: Iterable[int]) -> None:
    """Copy these parts of the live state into their slot."""
    copies = Copies()
    for at in parts:
        if frame.is_plain[at]:
            copies.add_run(frame.runs[at])
        else:
            frame.views[at].copy_(frame.live[at])
    copies.settle()


def writable(slots: Sequence[Slot], complete: Kept) -> list[int]:
    """Which slots may be written, the best first. Never our part of the step that is known to be complete on all ranks,
    as the generation that completed it wrote it (where there is none, the newest of that step, or of all): until
    another is complete it is what we would go back to.
    """
    labels = [slot.label() for slot in slots]
    ages = [(label.step, label.generation) if label else NO_STEP for label in labels]
    kept = max(
        range(len(ages)),
        key=lambda number: (ages[number] == complete != NO_STEP, ages[number][0] == complete[0] >= 0, ages[number]),
    )
    ordered = sorted(range(len(ages)), key=lambda number: ages[number])
    return [number for number in ordered if number != kept] or ordered


def view_of(data: memoryview, at: int, dtype: torch.dtype, box: Box) -> torch.Tensor:
    """A tensor over the bytes of a slot."""
    return torch.frombuffer(data, dtype=dtype, count=box.elements, offset=at).view(box.sizes)


def cut(leaf: Leaf, box: Box) -> torch.Tensor:
    """The part of a live tensor that a box names."""
    return leaf.tensor[box.within(leaf.box)] if leaf.shape else leaf.tensor
